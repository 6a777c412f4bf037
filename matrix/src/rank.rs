//! The order of candidates that would work. It is total: no two candidates are equal.

use std::cmp::Ordering;

use crate::{
    build::{Build, Channel},
    decide::candidate::Accepted,
    decision::Fit,
    pool::Pool,
};

/// One eligible candidate with what its rank depends on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Standing<'run> {
    pub(crate) build: &'run Build,
    pub(crate) pool: &'run Pool,
    pub(crate) accepted: &'run Accepted,
}

/// A step of the comparison: what it is called for people, and how it compares.
type Step = (&'static str, fn(&Standing<'_>, &Standing<'_>) -> Ordering);

/// The steps in the order of weight. Versions of different vendors' builds say nothing about each other's worth, so the order
/// of the user's accelerators comes before them; versions of different engines say nothing either, so engines have places.
const STEPS: [Step; 11] = [
    ("is not made for this very model", |a, b| general(a).cmp(&general(b))),
    ("its support row names the model less closely", |a, b| {
        a.accepted.model_match.cmp(&b.accepted.model_match)
    }),
    ("its level is lower", |a, b| a.accepted.level.cmp(&b.accepted.level)),
    ("its channel is less settled", |a, b| channel(a).cmp(&channel(b))),
    ("its accelerator comes later in the order of preference", |a, b| {
        a.accepted.preference.cmp(&b.accepted.preference)
    }),
    ("its replica spans more nodes", |a, b| {
        a.accepted.placement.nodes.cmp(&b.accepted.placement.nodes)
    }),
    ("its engine has a later place", |a, b| engine(a).cmp(&engine(b))),
    ("its upstream version is older", upstream),
    ("its stack is older", stack),
    ("it wastes more memory", |a, b| waste(a).cmp(&waste(b))),
    ("its name comes later", |a, b| {
        (&a.build.id, &a.pool.id).cmp(&(&b.build.id, &b.pool.id))
    }),
];

/// Best first.
pub(crate) fn compare(left: &Standing<'_>, right: &Standing<'_>) -> Ordering {
    STEPS
        .iter()
        .map(|(_, step)| step(left, right))
        .find(|order| order.is_ne())
        .unwrap_or(Ordering::Equal)
}

/// Why `lower` ranks below `higher`.
pub(crate) fn difference(higher: &Standing<'_>, lower: &Standing<'_>) -> &'static str {
    STEPS
        .iter()
        .find(|(_, step)| step(higher, lower).is_ne())
        .map_or("nothing tells them apart", |(text, _)| text)
}

fn general(standing: &Standing<'_>) -> bool {
    standing.build.channel != Channel::ModelSpecific
}

/// The place that the matrix gives the engine; engines of one place by name.
fn engine<'run>(standing: &Standing<'run>) -> (u32, &'run str) {
    (standing.accepted.engine_place, &standing.build.upstream_engine)
}

fn channel(standing: &Standing<'_>) -> Channel {
    standing.build.channel
}

/// Newer first; unknown last.
fn upstream(left: &Standing<'_>, right: &Standing<'_>) -> Ordering {
    match (&left.build.upstream, &right.build.upstream) {
        (Some(a), Some(b)) => b.rank(a),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => right.build.version.rank(&left.build.version),
    }
}

/// Newer first, where both builds use the same stack; the numbers were read when the matrix was loaded.
fn stack(left: &Standing<'_>, right: &Standing<'_>) -> Ordering {
    match (&left.accepted.stack, &right.accepted.stack) {
        (Some((a, version_a)), Some((b, version_b))) => a.cmp(b).then_with(|| version_b.rank(version_a)),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => Ordering::Equal,
    }
}

/// Bytes of memory that stay empty on all devices of a replica; unknown counts as most.
fn waste(standing: &Standing<'_>) -> u64 {
    match &standing.accepted.placement.fit {
        Fit::Fits(arithmetic) => {
            let idle = arithmetic.memory.saturating_sub(arithmetic.needed);
            idle.saturating_mul(u64::from(standing.accepted.placement.devices))
        }
        Fit::DoesNotFit(_) | Fit::Unknown { .. } => u64::MAX,
    }
}
