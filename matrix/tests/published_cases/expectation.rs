//! A claim against a decision.

use matrix::{Build, Channel, Decision, Matrix, Outcome, Request, Verdict, VersionRange, decide};

use super::{case::Case, claim::Expectation};

/// Where the decision says something else than the claim.
pub(crate) fn faults(case: &Case, matrix: &Matrix, decision: &Decision) -> Vec<String> {
    let check = |expectation| check(expectation, matrix, decision);
    case.expect.iter().flat_map(check).collect()
}

fn check(expectation: &Expectation, matrix: &Matrix, decision: &Decision) -> Vec<String> {
    let verdicts = verdicts(expectation, matrix, decision);
    // Where nothing but weak statements are expected, no image is as weak as it gets.
    if verdicts.is_empty() && expectation.at_most.is_some() {
        return Vec::new();
    }
    if verdicts.is_empty() {
        return vec![format!(
            "no build of {} has an image for the product",
            expectation.builds
        )];
    }
    let mut faults: Vec<String> = verdicts
        .iter()
        .filter_map(|verdict| fault(expectation, verdict))
        .collect();
    let accepted = verdicts.iter().any(|verdict| verdict.outcome != Outcome::Rejected);
    if expectation.level.is_some() && faults.is_empty() && !accepted {
        faults.push(format!("no build of {} can be had", expectation.builds));
    }
    faults
}

/// Verdicts on the builds that a claim speaks of, those without an image for the product left out.
fn verdicts<'run>(expectation: &Expectation, matrix: &Matrix, decision: &'run Decision) -> Vec<&'run Verdict> {
    let meant = |verdict: &&Verdict| {
        matrix
            .build(&verdict.build)
            .is_some_and(|build| means(&expectation.builds, build))
    };
    let served = |verdict: &&Verdict| verdict.pool.is_some() && !tokens(verdict).contains(&"ProductNotServed");
    let verdicts = decision.verdicts.iter().map(AsRef::as_ref);
    verdicts.filter(meant).filter(served).collect()
}

fn means(words: &str, build: &Build) -> bool {
    if words == build.id {
        return true;
    }
    // An image for one model speaks of no release of its distribution.
    if build.channel == Channel::ModelSpecific {
        return false;
    }
    match words.split_once(' ') {
        None => words == build.distribution,
        Some((distribution, range)) => {
            let range = VersionRange::parse(range).unwrap_or_else(|error| panic!("{range}: {error}"));
            distribution == build.distribution && range.contains(&build.version)
        }
    }
}

fn tokens(verdict: &Verdict) -> Vec<&'static str> {
    let mut tokens: Vec<&str> = verdict.reasons.iter().map(|reason| reason.kind.token()).collect();
    tokens.sort_unstable();
    tokens.dedup();
    tokens
}

fn fault(expectation: &Expectation, verdict: &Verdict) -> Option<String> {
    let tokens = tokens(verdict);
    let rejected = verdict.outcome == Outcome::Rejected;
    let said = if rejected {
        format!("{} is rejected: {tokens:?}", verdict.build)
    } else {
        format!(
            "{} is {:?} on {:?} devices",
            verdict.build, verdict.level, verdict.devices
        )
    };
    let right = match (expectation.level, expectation.at_most) {
        // A release that nobody can pull or start keeps its claim.
        (Some(_), _) if rejected => tokens
            .iter()
            .all(|token| matches!(*token, "NoImage" | "NoLaunchProfile")),
        (Some(level), _) => verdict.level == Some(level) && verdict.devices >= expectation.devices,
        (None, Some(most)) => rejected || verdict.level >= Some(most),
        (None, None) => {
            let mut wanted: Vec<&str> = expectation.reasons.iter().map(String::as_str).collect();
            wanted.sort_unstable();
            rejected && tokens == wanted
        }
    };
    (!right).then(|| format!("{said}, expected {}", serde_json::to_string(expectation).unwrap()))
}

/// One token more than the longest context of the claim is too long for the builds of its first expectation.
pub(crate) fn faults_of_context(case: &Case, matrix: &Matrix, request: &Request) -> Vec<String> {
    let (Some(longest), Some(expectation)) = (case.longest_context, case.expect.first()) else {
        return Vec::new();
    };
    let mut request = request.clone();
    request.demand.context = Some(longest + 1);
    let decision = decide(matrix, &request);
    verdicts(expectation, matrix, &decision)
        .into_iter()
        .filter(|verdict| !tokens(verdict).contains(&"ContextTooLong"))
        .map(|verdict| format!("{} takes {} tokens", verdict.build, longest + 1))
        .collect()
}
