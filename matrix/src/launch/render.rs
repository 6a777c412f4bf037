//! From a choice to what goes into the pod.

use std::collections::BTreeMap;

use super::{Condition, LaunchInput, LaunchPlan, MetricsEndpoint, PodNeeds, Probe, Probes, Profile};
use crate::{
    decision::{Choice, Fit},
    matrix::Matrix,
    pool::Offer,
    product::Vendor,
    version::{EngineVersion, VersionRange, VersionScheme},
    words::Words,
};

mod devices;
mod template;

pub(crate) use template::{PLACEHOLDERS, templates, unknown_placeholder};

/// Renders the launch of a choice: command, arguments, environment, devices, probes. Pure; a choice from another revision of
/// the matrix is rendered with what this one knows.
pub fn launch(matrix: &Matrix, choice: &Choice, input: &LaunchInput) -> LaunchPlan {
    let build = matrix.build(&choice.build);
    let profile = build
        .and_then(|build| build.launch.as_deref())
        .and_then(|name| super::join(matrix.launch_profiles(), name));
    let vendor = matrix.vendors().get(&choice.vendor);
    let mut plan = LaunchPlan {
        image: choice.image.clone(),
        image_digest: choice.image_digest.clone(),
        engine_type: choice.engine.clone(),
        ..LaunchPlan::default()
    };
    let Some(profile) = profile else {
        plan.notes.push(format!(
            "{} has no launch profile: the image's own entry point is used",
            choice.build
        ));
        return plan;
    };
    let values = template::Values::new(choice, input, &profile);
    start(&mut plan, &profile, matrix, choice, input);
    if let Some(vendor) = vendor {
        devices::hand_over(&mut plan, vendor, choice, input);
    }
    memory_request(&mut plan, choice, input);
    values.fill(&mut plan);
    plan.args.extend(input.extra_args.iter().cloned());
    probes(&mut plan, &profile, choice, input);
    metrics(&mut plan, &profile, build.and_then(|build| build.metrics.as_deref()));
    plan
}

fn start(plan: &mut LaunchPlan, profile: &Profile, matrix: &Matrix, choice: &Choice, input: &LaunchInput) {
    plan.command.clone_from(&profile.command);
    plan.args.clone_from(&profile.args);
    plan.env.clone_from(&profile.env);
    plan.port = profile.port;
    if let Some(engine_type) = &profile.engine_type {
        plan.engine_type.clone_from(engine_type);
    }
    add_needs(plan, &profile.pod);
    for rule in &profile.rules {
        if !applies(&rule.when, matrix, choice, input) {
            continue;
        }
        if let Some(command) = &rule.command {
            plan.command.clone_from(command);
        }
        for flag in &rule.without {
            remove_flag(&mut plan.args, flag);
        }
        for flag in flags_of(&rule.args) {
            remove_flag(&mut plan.args, flag);
        }
        plan.args.extend(rule.args.iter().cloned());
        plan.env
            .extend(rule.env.iter().map(|(name, value)| (name.clone(), value.clone())));
        add_needs(plan, &rule.pod);
        plan.notes.extend(rule.note.clone());
    }
}

/// The flags of an argument list: a later rule replaces what an earlier one said about the same flag.
fn flags_of(args: &[String]) -> impl Iterator<Item = &str> {
    args.iter().map(String::as_str).filter(|word| word.starts_with('-'))
}

/// Takes a flag away, with the values that follow it.
fn remove_flag(args: &mut Vec<String>, flag: &str) {
    let Some(start) = args
        .iter()
        .position(|word| word == flag || word.starts_with(&format!("{flag}=")))
    else {
        return;
    };
    let values = args[start + 1..]
        .iter()
        .take_while(|word| !word.starts_with('-'))
        .count();
    let end = if args[start].contains('=') {
        start + 1
    } else {
        start + 1 + values
    };
    args.drain(start..end);
}

fn add_needs(plan: &mut LaunchPlan, needs: &PodNeeds) {
    if let Some(shm) = needs.shm.as_deref().and_then(crate::quantity::bytes) {
        plan.shm_bytes = Some(plan.shm_bytes.unwrap_or(0).max(shm));
    }
    plan.host_network = needs.host_network.unwrap_or(plan.host_network);
    plan.host_ipc = needs.host_ipc.unwrap_or(plan.host_ipc);
    plan.privileged = needs.privileged.unwrap_or(plan.privileged);
    for capability in &needs.capabilities {
        if !plan.capabilities.contains(capability) {
            plan.capabilities.push(capability.clone());
        }
    }
    for group in &needs.group_ids {
        if !plan.group_ids.contains(group) {
            plan.group_ids.push(*group);
        }
    }
}

fn applies(when: &Condition, matrix: &Matrix, choice: &Choice, input: &LaunchInput) -> bool {
    let facts = &input.facts;
    let words = |words: &Words, one: Option<&str>| words.is_unset() || one.is_some_and(|word| words.holds(word));
    let product = matrix.products().get(&choice.product);
    let by_product = match &when.products {
        Words::Unset | Words::Any => true,
        Words::None => false,
        Words::These(list) => list
            .iter()
            .any(|word| product.is_some_and(|product| product.answers_to(word))),
    };
    let by_architecture =
        when.architectures.is_unset() || facts.architectures.iter().any(|name| when.architectures.holds(name));
    let by_checkpoint = when.checkpoints.is_unset()
        || facts.checkpoint.as_ref().is_some_and(|name| {
            let globs = when.checkpoints.list().iter();
            globs
                .filter_map(|glob| crate::index::matcher(glob))
                .any(|glob| glob.is_match(name))
        });
    let scheme = matrix
        .build(&choice.build)
        .map_or(VersionScheme::Pep440, |build| build.version.scheme());
    by_product
        && by_architecture
        && by_checkpoint
        && in_range(when.version.as_ref(), Some(&choice.version), scheme)
        && in_range(when.upstream.as_ref(), choice.upstream.as_ref(), VersionScheme::Pep440)
        && words(&when.distributions, Some(&choice.distribution))
        && words(&when.families, facts.family.as_deref())
        && by_quantization(&when.quantizations, facts.quantization.label.as_deref())
        && words(&when.methods, facts.quantization.method.as_deref())
        && words(&when.formats, Some(crate::index::format_word(facts.format)))
        && words(&when.tasks, facts.task.as_deref())
        && when.devices_at_least.is_none_or(|least| choice.devices >= least)
        && when.nodes_at_least.is_none_or(|least| choice.nodes >= least)
        && when
            .remote_code
            .is_none_or(|wanted| wanted == (facts.remote_code && input.allow_remote_code))
        && when
            .context_known
            .is_none_or(|wanted| wanted == choice.context.is_some())
}

/// Rules may use any spelling of a quantization that support rows may use.
fn by_quantization(words: &Words, label: Option<&str>) -> bool {
    let meant = |word: &String| model_facts::canonical_label(word).unwrap_or(word) == label.unwrap_or_default();
    match words {
        Words::Unset | Words::Any => true,
        Words::None => label.is_none(),
        Words::These(list) => list.iter().any(meant),
    }
}

fn in_range(range: Option<&VersionRange>, version: Option<&String>, scheme: VersionScheme) -> bool {
    let Some(range) = range else { return true };
    version
        .and_then(|text| EngineVersion::parse(text, scheme).ok())
        .is_some_and(|version| range.contains(&version))
}

/// On plain nodes the model lives in the pod's own memory, so the scheduler has to know about it.
fn memory_request(plan: &mut LaunchPlan, choice: &Choice, input: &LaunchInput) {
    let on_node = input.pool.as_ref().is_some_and(|pool| pool.offer == Offer::Node);
    if let (true, Fit::Fits(arithmetic)) = (on_node, &choice.fit) {
        plan.memory_request_bytes = Some(arithmetic.needed);
    }
}

/// Load time by bytes and rate, three times over for slow disks and cold caches, at least a minute, at most two hours.
fn startup_budget(profile: &Profile, choice: &Choice, input: &LaunchInput) -> u32 {
    let bytes = input.artifact_bytes.or(input.facts.weight_bytes).unwrap_or(0);
    let rate = profile.startup.load_mib_per_second.max(1) << 20;
    let shares = u64::from(choice.nodes.max(1));
    let seconds = (bytes / shares).div_ceil(rate) + profile.startup.warmup_seconds;
    u32::try_from((seconds * 3).clamp(60, 7200)).unwrap_or(7200)
}

fn probes(plan: &mut LaunchPlan, profile: &Profile, choice: &Choice, input: &LaunchInput) {
    let budget = startup_budget(profile, choice, input);
    let probe = |path: &str, period_seconds: u32, failure_threshold: u32| Probe {
        path: path.to_owned(),
        period_seconds,
        failure_threshold,
        timeout_seconds: 5,
    };
    let paths = &profile.probes;
    plan.startup_budget_seconds = budget;
    plan.probes = Probes {
        startup: probe(&paths.startup, 10, budget.div_ceil(10)),
        readiness: probe(&paths.readiness, 5, 3),
        liveness: probe(&paths.liveness, 10, 3),
    };
}

fn metrics(plan: &mut LaunchPlan, profile: &Profile, name: Option<&str>) {
    if let (Some(path), Some(name)) = (&profile.metrics_path, name) {
        let port = profile.metrics_port.unwrap_or(profile.port);
        plan.metrics = Some(MetricsEndpoint {
            port,
            path: path.clone(),
            profile: name.to_owned(),
        });
    }
}

impl Vendor {
    /// Environment that every engine on these devices gets.
    fn environment(&self) -> &BTreeMap<String, String> {
        &self.inject.env
    }
}
