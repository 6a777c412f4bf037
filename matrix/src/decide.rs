//! The decision: every build against every pool of its vendor, all reasons collected, the rest ranked.

use std::{collections::BTreeMap, sync::Arc};

use crate::{
    build::Build,
    decision::{Choice, Counts, Decision, NearMiss, Outcome, Verdict},
    matrix::Matrix,
    pool::Pool,
    rank::{self, Standing},
    reason::{Reason, ReasonKind},
    request::Request,
};

pub(crate) mod candidate;
mod classes;
mod host;
pub(crate) mod image;
mod place;
mod policy;
mod statement;
mod welcome;

use candidate::{Accepted, Candidate, Candidates, Evaluation};

/// Answers a request. Pure, total and deterministic.
pub fn decide(matrix: &Matrix, request: &Request) -> Decision {
    let Candidates { here, elsewhere } = Evaluation::new(matrix, request).candidates();
    let (accepted, mut rejected): (Vec<Candidate>, Vec<Candidate>) =
        here.into_iter().partition(|candidate| candidate.accepted.is_some());
    let mut eligible: Vec<(&Candidate, Standing<'_>)> = accepted
        .iter()
        .filter_map(|one| Some((one, standing(matrix, request, one)?)))
        .collect();
    eligible.sort_by(|left, right| rank::compare(&left.1, &right.1));
    // The nearest first.
    rejected.sort_by_cached_key(|candidate| {
        let pool = pool_of(request, candidate).map(|pool| pool.id.as_str());
        (distance(candidate), candidate.build, pool)
    });
    let chosen = eligible.first().map(|(_, best)| choice(best, request));
    let nearest = nearest(matrix, request, &rejected);
    let counts = count(matrix, request, (&accepted, &rejected, &elsewhere));
    let mut verdicts = Vec::with_capacity(accepted.len() + rejected.len() + elsewhere.len());
    accepted_verdicts(request, &eligible, &mut verdicts);
    let rejections = rejected.into_iter();
    verdicts.extend(rejections.map(|candidate| Arc::new(rejected_verdict(matrix, request, candidate))));
    // No reason is heavier than that there is no such accelerator, so these are the last.
    let known = &matrix.index.elsewhere;
    verdicts.extend(elsewhere.into_iter().map(|build| Arc::clone(&known[build])));
    Decision {
        revision: matrix.revision().digest.clone(),
        chosen,
        counts,
        nearest,
        verdicts,
    }
}

fn standing<'run>(matrix: &'run Matrix, request: &'run Request, candidate: &'run Candidate) -> Option<Standing<'run>> {
    Some(Standing {
        build: &matrix.contents.builds[candidate.build],
        pool: pool_of(request, candidate)?,
        accepted: candidate.accepted.as_deref()?,
    })
}

/// How far a candidate is from working: the weight of its heaviest reason, then how many there are.
fn distance(candidate: &Candidate) -> (u32, usize) {
    let weights = candidate.reasons.iter().map(|reason| reason.kind.weight());
    (weights.max().unwrap_or(0), candidate.reasons.len())
}

fn accepted_verdicts(request: &Request, eligible: &[(&Candidate, Standing<'_>)], verdicts: &mut Vec<Arc<Verdict>>) {
    for (position, (candidate, this)) in eligible.iter().enumerate() {
        let before = position.checked_sub(1).and_then(|index| eligible.get(index));
        verdicts.push(Arc::new(Verdict {
            build: this.build.id.clone(),
            pool: Some(this.pool.id.clone()),
            also: also(request, candidate),
            outcome: if position == 0 {
                Outcome::Chosen
            } else {
                Outcome::Eligible
            },
            reasons: Vec::new(),
            caveats: candidate.caveats.clone(),
            level: Some(this.accepted.level),
            row: Some(this.accepted.row.clone()),
            ranked_below: before.map(|(_, higher)| rank::difference(higher, this).to_owned()),
            devices: Some(this.accepted.placement.devices),
        }));
    }
}

fn rejected_verdict(matrix: &Matrix, request: &Request, candidate: Candidate) -> Verdict {
    Verdict {
        build: matrix.contents.builds[candidate.build].id.clone(),
        pool: pool_of(request, &candidate).map(|pool| pool.id.clone()),
        also: also(request, &candidate),
        outcome: Outcome::Rejected,
        reasons: candidate.reasons,
        caveats: candidate.caveats,
        level: None,
        row: None,
        ranked_below: None,
        devices: None,
    }
}

fn pool_of<'run>(request: &'run Request, candidate: &Candidate) -> Option<&'run Pool> {
    request.pools.get(*candidate.pools.first()?)
}

/// The other pools of a candidate.
fn also(request: &Request, candidate: &Candidate) -> Vec<String> {
    let others = candidate.pools.iter().skip(1);
    others
        .filter_map(|pool| request.pools.get(*pool))
        .map(|pool| pool.id.clone())
        .collect()
}

fn choice(best: &Standing<'_>, request: &Request) -> Choice {
    let Standing { build, pool, accepted } = *best;
    let plain = pool.offer == crate::pool::Offer::Node;
    let Accepted { placement, image, .. } = accepted;
    Choice {
        build: build.id.clone(),
        distribution: build.distribution.clone(),
        engine: build.engine.clone(),
        version: build.version.text().to_owned(),
        upstream: build.upstream.as_ref().map(|version| version.text().to_owned()),
        stack: build.stack.clone(),
        channel: build.channel,
        pool: pool.id.clone(),
        product: pool.product.clone().unwrap_or_default(),
        vendor: pool.vendor.clone().unwrap_or_default(),
        image: image.image.clone(),
        image_digest: image.digest.clone(),
        pull: image.pull,
        architecture: pool.architecture.clone(),
        resource: pool.resource().map(str::to_owned),
        devices: if plain { 0 } else { placement.devices },
        nodes: placement.nodes,
        tensor_parallel: placement.tensor_parallel,
        pipeline_parallel: placement.pipeline_parallel,
        context: accepted.context,
        concurrency: request.demand.concurrency.unwrap_or(1),
        level: accepted.level,
        model_match: accepted.model_match,
        row: accepted.row.clone(),
        evidence: accepted.evidence.clone(),
        build_row: build.row.clone(),
        fit: placement.fit.clone(),
    }
}

fn count(
    matrix: &Matrix,
    request: &Request,
    (accepted, rejected, elsewhere): (&[Candidate], &[Candidate], &[usize]),
) -> Counts {
    let eligible: usize = accepted.iter().map(|candidate| candidate.pools.len()).sum();
    let mut tally = Tally::default();
    for candidate in rejected {
        tally.add(&candidate.reasons, candidate.pools.len());
    }
    if let Some(first) = elsewhere.first() {
        tally.add(&matrix.index.elsewhere[*first].reasons, elsewhere.len());
    }
    Counts {
        builds: matrix.contents.builds.len(),
        pools: request.pools.len(),
        candidates: eligible + tally.rejected,
        eligible,
        rejected: tally.rejected,
        by_reason: named(&tally.by_reason),
        by_heaviest: named(&tally.by_heaviest),
    }
}

/// Numbers by reason; there are few reasons, so a list is quicker than a map.
#[derive(Default)]
struct Tally {
    rejected: usize,
    by_reason: Vec<(&'static str, usize)>,
    by_heaviest: Vec<(&'static str, usize)>,
}

impl Tally {
    /// Reasons of one candidate, in order.
    fn add(&mut self, reasons: &[Reason], weight: usize) {
        self.rejected += weight;
        let mut before = "";
        for reason in reasons {
            let token = reason.kind.token();
            if before.is_empty() {
                raise(&mut self.by_heaviest, token, weight);
            }
            if token != before {
                raise(&mut self.by_reason, token, weight);
            }
            before = token;
        }
    }
}

fn raise(numbers: &mut Vec<(&'static str, usize)>, token: &'static str, weight: usize) {
    match numbers.iter_mut().find(|(other, _)| *other == token) {
        Some((_, number)) => *number += weight,
        None => numbers.push((token, weight)),
    }
}

fn named(numbers: &[(&'static str, usize)]) -> BTreeMap<String, usize> {
    numbers
        .iter()
        .map(|(token, number)| ((*token).to_owned(), *number))
        .collect()
}

/// At most five misses that something could be done about, and of one distribution on one pool only the nearest.
fn nearest(matrix: &Matrix, request: &Request, rejected: &[Candidate]) -> Vec<NearMiss> {
    let mut misses: Vec<NearMiss> = Vec::new();
    let mut seen: Vec<(&str, &str)> = Vec::new();
    for candidate in rejected {
        if misses.len() == 5 {
            break;
        }
        let Some(pool) = pool_of(request, candidate) else {
            continue;
        };
        let build = &matrix.contents.builds[candidate.build];
        let Some(fix) = fix_of(&candidate.reasons, build) else {
            continue;
        };
        if seen.contains(&(build.distribution.as_str(), pool.id.as_str())) {
            continue;
        }
        seen.push((&build.distribution, &pool.id));
        misses.push(NearMiss {
            build: build.id.clone(),
            pool: pool.id.clone(),
            reasons: candidate.reasons.clone(),
            fix,
        });
    }
    misses
}

/// What would help; `None` when one of the reasons is beyond the user.
fn fix_of(reasons: &[Reason], build: &Build) -> Option<String> {
    if reasons
        .iter()
        .any(|reason| reason.kind.weight() >= ReasonKind::BEYOND_THE_USER)
    {
        return None;
    }
    let fixes: Vec<String> = reasons.iter().map(|reason| reason.kind.fix(&build.id)).collect();
    Some(fixes.join("; and "))
}
