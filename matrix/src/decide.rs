//! The decision: every build against every pool of its vendor, all reasons collected, the rest ranked.

use std::collections::BTreeSet;

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
mod policy;
mod statement;
mod welcome;

use candidate::{Accepted, Candidate, Evaluation};

/// Answers a request. Pure, total and deterministic.
pub fn decide(matrix: &Matrix, request: &Request) -> Decision {
    let candidates = Evaluation::new(matrix, request).candidates();
    let mut eligible: Vec<(&Candidate, Standing<'_>)> = candidates
        .iter()
        .filter_map(|one| standing(matrix, request, one))
        .collect();
    eligible.sort_by(|left, right| rank::compare(&left.1, &right.1));
    let rejected = rejected(request, &candidates);
    let mut verdicts = accepted_verdicts(request, &eligible);
    verdicts.extend(
        rejected
            .iter()
            .map(|candidate| rejected_verdict(matrix, request, candidate)),
    );
    Decision {
        revision: matrix.revision().digest.clone(),
        chosen: eligible.first().map(|(_, best)| choice(best, request)),
        counts: count(matrix, request, &candidates),
        nearest: nearest(matrix, request, &rejected),
        verdicts,
    }
}

fn standing<'run>(
    matrix: &'run Matrix,
    request: &'run Request,
    candidate: &'run Candidate,
) -> Option<(&'run Candidate, Standing<'run>)> {
    let accepted = candidate.accepted.as_ref()?;
    let pool = pool_of(request, candidate)?;
    Some((
        candidate,
        Standing {
            build: &matrix.contents.builds[candidate.build],
            pool,
            accepted,
        },
    ))
}

/// Rejected candidates, the nearest first.
fn rejected<'run>(request: &Request, candidates: &'run [Candidate]) -> Vec<&'run Candidate> {
    let mut rejected: Vec<&Candidate> = candidates
        .iter()
        .filter(|candidate| candidate.accepted.is_none())
        .collect();
    let pool = |candidate: &Candidate| pool_of(request, candidate).map(|pool| pool.id.clone());
    rejected.sort_by_cached_key(|candidate| (distance(candidate), candidate.build, pool(candidate)));
    rejected
}

/// How far a candidate is from working: the weight of its heaviest reason, then how many there are.
fn distance(candidate: &Candidate) -> (u32, usize) {
    let heaviest = candidate
        .reasons
        .iter()
        .map(|reason| reason.kind.weight())
        .max()
        .unwrap_or(0);
    (heaviest, candidate.reasons.len())
}

fn accepted_verdicts(request: &Request, eligible: &[(&Candidate, Standing<'_>)]) -> Vec<Verdict> {
    let mut verdicts = Vec::with_capacity(eligible.len());
    for (position, (candidate, this)) in eligible.iter().enumerate() {
        let before = position.checked_sub(1).and_then(|index| eligible.get(index));
        verdicts.push(Verdict {
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
        });
    }
    verdicts
}

fn rejected_verdict(matrix: &Matrix, request: &Request, candidate: &Candidate) -> Verdict {
    Verdict {
        build: matrix.contents.builds[candidate.build].id.clone(),
        pool: pool_of(request, candidate).map(|pool| pool.id.clone()),
        also: also(request, candidate),
        outcome: Outcome::Rejected,
        reasons: candidate.reasons.clone(),
        caveats: candidate.caveats.clone(),
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
    candidate
        .pools
        .iter()
        .skip(1)
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

fn count(matrix: &Matrix, request: &Request, candidates: &[Candidate]) -> Counts {
    let mut counts = Counts {
        builds: matrix.contents.builds.len(),
        pools: request.pools.len(),
        ..Counts::default()
    };
    for candidate in candidates {
        let weight = candidate.pools.len().max(1);
        counts.candidates += weight;
        if candidate.accepted.is_some() {
            counts.eligible += weight;
            continue;
        }
        counts.rejected += weight;
        if let Some(heaviest) = candidate.reasons.iter().min() {
            *counts.by_heaviest.entry(heaviest.kind.token().to_owned()).or_default() += weight;
        }
        let tokens: BTreeSet<&str> = candidate.reasons.iter().map(|reason| reason.kind.token()).collect();
        for token in tokens {
            *counts.by_reason.entry(token.to_owned()).or_default() += weight;
        }
    }
    counts
}

/// At most five misses that something could be done about, and of one distribution on one pool only the nearest.
fn nearest(matrix: &Matrix, request: &Request, rejected: &[&Candidate]) -> Vec<NearMiss> {
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
