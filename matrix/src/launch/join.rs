//! A launch profile joined with those that it extends.

use std::collections::BTreeMap;

use super::{LaunchProfile, LaunchRule, MemoryRule, ParallelRule, PodNeeds, ProbePaths, StartupRule};

/// A complete profile.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Profile {
    pub(crate) engine_type: Option<String>,
    pub(crate) command: Vec<String>,
    pub(crate) args: Vec<String>,
    pub(crate) env: BTreeMap<String, String>,
    pub(crate) port: u16,
    pub(crate) metrics_path: Option<String>,
    pub(crate) metrics_port: Option<u16>,
    pub(crate) probes: ProbePaths,
    pub(crate) pod: PodNeeds,
    pub(crate) memory: MemoryRule,
    pub(crate) startup: StartupRule,
    pub(crate) parallel: ParallelRule,
    pub(crate) rules: Vec<LaunchRule>,
}

/// The profile and those it extends, the most general first; `None` for an unknown name or a circle.
pub(crate) fn chain<'all>(all: &'all BTreeMap<String, LaunchProfile>, name: &str) -> Option<Vec<&'all LaunchProfile>> {
    let mut chain = vec![all.get(name)?];
    while let Some(base) = chain.last().and_then(|profile| profile.extends.as_ref()) {
        if chain.len() > all.len() {
            return None;
        }
        chain.push(all.get(base)?);
    }
    chain.reverse();
    Some(chain)
}

/// Joins a profile with those it extends: single values of the last one that has them, lists one after the other.
pub(crate) fn join(all: &BTreeMap<String, LaunchProfile>, name: &str) -> Option<Profile> {
    let chain = chain(all, name)?;
    let mut joined = Profile {
        engine_type: None,
        command: Vec::new(),
        args: Vec::new(),
        env: BTreeMap::new(),
        port: 8000,
        metrics_path: None,
        metrics_port: None,
        probes: ProbePaths {
            startup: "/health".to_owned(),
            readiness: "/health".to_owned(),
            liveness: "/health".to_owned(),
        },
        pod: PodNeeds::default(),
        memory: MemoryRule {
            usable_permille: 840,
            base_mib: 2355,
            weights_permille: 50,
            kv_element_bytes: None,
        },
        startup: StartupRule {
            load_mib_per_second: 200,
            warmup_seconds: 60,
        },
        parallel: ParallelRule {
            tensor: true,
            layers: false,
            nodes: true,
        },
        rules: Vec::new(),
    };
    for profile in chain {
        add(&mut joined, profile);
    }
    Some(joined)
}

fn add(joined: &mut Profile, profile: &LaunchProfile) {
    let replace = |own: &mut Option<String>, new: &Option<String>| {
        if new.is_some() {
            own.clone_from(new);
        }
    };
    replace(&mut joined.engine_type, &profile.engine_type);
    replace(&mut joined.metrics_path, &profile.metrics_path);
    if let Some(command) = &profile.command {
        joined.command.clone_from(command);
    }
    joined.args.extend(profile.args.iter().cloned());
    joined
        .env
        .extend(profile.env.iter().map(|(name, value)| (name.clone(), value.clone())));
    joined.port = profile.port.unwrap_or(joined.port);
    joined.metrics_port = profile.metrics_port.or(joined.metrics_port);
    if let Some(probes) = &profile.probes {
        joined.probes.clone_from(probes);
    }
    if let Some(memory) = &profile.memory {
        joined.memory.clone_from(memory);
    }
    if let Some(startup) = &profile.startup {
        joined.startup.clone_from(startup);
    }
    if let Some(parallel) = &profile.parallel {
        joined.parallel.clone_from(parallel);
    }
    join_needs(&mut joined.pod, &profile.pod);
    joined.rules.extend(profile.rules.iter().cloned());
}

fn join_needs(joined: &mut PodNeeds, own: &PodNeeds) {
    joined.shm = own.shm.clone().or_else(|| joined.shm.take());
    joined.host_network = own.host_network.or(joined.host_network);
    joined.host_ipc = own.host_ipc.or(joined.host_ipc);
    joined.privileged = own.privileged.or(joined.privileged);
    joined.capabilities.extend(own.capabilities.iter().cloned());
    joined.group_ids.extend(&own.group_ids);
}
