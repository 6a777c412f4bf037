//! What the user and the fleet allow.

use crate::{decide::candidate::Look, reason::ReasonKind};

pub(super) fn look(look: &mut Look<'_, '_>) {
    let policy = &look.evaluation.request.policy;
    let build = look.build;
    if let Some(asked) = &policy.engine
        && *asked != build.engine
        && *asked != build.distribution
    {
        look.against_build(ReasonKind::EngineNotAsked {
            asked: asked.clone(),
            engine: build.distribution.clone(),
        });
    }
    if let Some(pin) = &policy.pin
        && *pin != build.id
    {
        look.against_build(ReasonKind::NotPinned { pin: pin.clone() });
    }
    if let (Some(text), Some(range)) = (&policy.version_range, &look.evaluation.range)
        && !range.as_ref().is_ok_and(|range| range.contains(&build.version))
    {
        let version = build.version.text().to_owned();
        look.against_build(ReasonKind::VersionNotAsked {
            version,
            range: text.clone(),
        });
    }
    let channel = build.channel.word();
    if !policy.channels.is_empty() && !policy.channels.contains(channel) {
        look.against_build(ReasonKind::ChannelNotAsked {
            channel: channel.to_owned(),
        });
    }
    let failed = policy
        .quarantine
        .iter()
        .find(|entry| entry.build == build.id && entry.pool.as_ref().is_none_or(|pool| *pool == look.pool.id));
    if let Some(entry) = failed {
        look.against_build(ReasonKind::Quarantined { why: entry.why.clone() });
    }
}
