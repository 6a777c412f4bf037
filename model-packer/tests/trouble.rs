//! Random faults of the hub and of the registry at the same time.
#![allow(clippy::unwrap_used, reason = "what a test needs and does not get is a failed test")]

mod bed;

use artifact::{Digest, PackedModel};
use bed::Bed;
use fault_proxy::registry::RegistryConfig;
use fault_proxy::{Fault as RegistryFault, FaultRule as RegistryRule};
use proptest::prelude::*;
use standin_hub::{Fault, FaultRule};

const SOURCE: &str = "hf://owner/model";

fn read(bed: &Bed, repository: &str, tag: &str) -> PackedModel {
    let (_, manifest) = bed.registry.manifest(repository, tag).unwrap();
    PackedModel::read(&manifest, None).unwrap()
}

fn hub_fault() -> impl Strategy<Value = FaultRule> {
    let fault = prop_oneof![
        (0u64..250_000).prop_map(|after| Fault::Cut { after }),
        (0u64..250_000).prop_map(|at| Fault::WrongByte { at }),
        (1u64..100).prop_map(|by| Fault::Short { by }),
        Just(Fault::Empty),
        Just(Fault::Page),
        Just(Fault::Gzip),
        Just(Fault::IgnoreRange),
        Just(Fault::RedirectLoop),
        Just(Fault::OtherTotal { total: 77 }),
        Just(Fault::OtherCommit { commit: "0".repeat(40) }),
        (0u64..2000).prop_map(|after| Fault::Stall { after }),
        prop_oneof![
            Just("location"),
            Just("x-linked-size"),
            Just("x-repo-commit"),
            Just("content-range")
        ]
        .prop_map(|name| Fault::DropHeader { name: name.into() }),
        prop_oneof![Just(403u16), Just(404), Just(500), Just(503)].prop_map(|code| Fault::Status {
            code,
            headers: vec![],
            body: String::new()
        }),
    ];
    let path = prop_oneof![
        Just("safetensors"),
        Just("config.json"),
        Just("tree"),
        Just("revision"),
        Just("repo/files"),
        Just("LICENSE"),
        Just("resolve")
    ];
    (fault, path, 0u32..3, 1u32..3).prop_map(|(fault, path, skip, times)| FaultRule {
        path: path.into(),
        side: None,
        method: None,
        skip,
        times,
        fault,
    })
}

fn registry_fault() -> impl Strategy<Value = RegistryRule> {
    let fault = prop_oneof![
        (0u64..100_000).prop_map(|after| RegistryFault::CutUpload { after }),
        Just(RegistryFault::LostAnswer),
        Just(RegistryFault::StatusAs { code: 201 }),
        Just(RegistryFault::DropHeader {
            name: "location".into()
        }),
        Just(RegistryFault::DropHeader { name: "range".into() }),
        prop_oneof![Just(401u16), Just(404), Just(416), Just(429), Just(500), Just(503)].prop_map(|code| {
            RegistryFault::Status {
                code,
                headers: vec![],
                body: String::new(),
            }
        }),
    ];
    let method = prop_oneof![Just("POST"), Just("PATCH"), Just("PUT"), Just("HEAD"), Just("GET")];
    (fault, method, 0u32..4, 1u32..3)
        .prop_map(|(fault, method, skip, times)| RegistryRule::once(method, "/m/", fault).after(skip).times(times))
}

/// What goes wrong in one push, and from which hub it comes.
#[derive(Debug, Clone)]
struct Trouble {
    source: &'static str,
    hub: Vec<FaultRule>,
    registry: Vec<RegistryRule>,
}

fn trouble() -> impl Strategy<Value = Trouble> {
    let source = prop_oneof![Just(SOURCE), Just("ms://owner/model")];
    let faults = (
        prop::collection::vec(hub_fault(), 0..3),
        prop::collection::vec(registry_fault(), 0..3),
    );
    (source, faults).prop_map(|(source, (hub, registry))| Trouble { source, hub, registry })
}

/// Pushes that are in trouble at the same time, each with a bed of its own: most of it is waiting.
const AT_ONCE: usize = 6;

proptest! {
    #![proptest_config(ProptestConfig { cases: 4, max_shrink_iters: 8, ..ProptestConfig::default() })]
    #[test]
    fn either_the_digest_is_right_or_the_answer_is_no_and_nothing_is_tagged(
        troubles in prop::collection::vec(trouble(), AT_ONCE),
    ) {
        bed::in_lanes(AT_ONCE, |lane| push_in_trouble(troubles[lane].clone()));
    }
}

async fn push_in_trouble(trouble: Trouble) {
    let bed = Bed::of_size(250_000, 64 << 10, |_| {}, RegistryConfig::default()).await;
    bed.push(trouble.source, "reference:v1").await.unwrap();
    for rule in &trouble.hub {
        bed.hub.push_fault(rule.clone());
    }
    for rule in &trouble.registry {
        bed.registry.inject(rule.clone());
    }
    let outcome = bed.push(trouble.source, "m:v1").await;
    // The tag may be there when only the last answer was lost, but never a partial artifact.
    let tagged = bed.registry.manifest("m", "v1");
    assert!(tagged.is_some() || outcome.is_err(), "{trouble:?}");
    if let Some((digest, manifest)) = tagged {
        assert!(outcome.is_err() || outcome.is_ok_and(|summary| summary.digest.as_str() == digest));
        assert_is_the_reference(&bed, &manifest, &trouble);
        assert_complete(&bed, &manifest);
    }
    assert_eq!(bed.hub.violations(), []);
}

/// The same digest; where `ModelScope` named another commit for the same files, the same files.
fn assert_is_the_reference(bed: &Bed, manifest: &[u8], trouble: &Trouble) {
    let (model, reference) = (PackedModel::read(manifest, None).unwrap(), read(bed, "reference", "v1"));
    if model.revision == reference.revision {
        assert_eq!(model.digest, reference.digest, "{trouble:?}");
        return;
    }
    let zeros = "0".repeat(40);
    assert_eq!(
        (trouble.source, model.revision.as_deref()),
        ("ms://owner/model", Some(zeros.as_str()))
    );
    let files = |model: PackedModel| {
        let files = model.files.into_iter();
        let others = files.filter(|file| file.path.as_str() != "source.lock");
        others.map(|file| (file.path, file.digest)).collect::<Vec<_>>()
    };
    assert_eq!(files(model), files(reference), "{trouble:?}");
}

fn assert_complete(bed: &Bed, manifest: &[u8]) {
    let model = PackedModel::read(manifest, None).unwrap();
    for file in &model.files {
        let blob = bed.registry.blob("m", file.digest.as_str()).unwrap();
        assert_eq!(Digest::of(&blob), file.digest);
    }
}
