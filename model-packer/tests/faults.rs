//! Each way in which a hub's answer goes wrong, once and for ever: what is survived, and what is said.
#![allow(clippy::unwrap_used, reason = "what a test needs and does not get is a failed test")]

mod bed;

use std::fmt::Write as _;
use std::time::Duration;

use artifact::Digest;
use bed::Bed;
use fault_proxy::registry::RegistryConfig;
use model_packer::prepare::PackOptions;
use model_packer::push::push;
use model_packer::selection::Wishes;
use model_packer::{PackError, prepare};
use standin_hub::{Fault, FaultRule, Side};

const SHARD: &str = "model-00001-of-00002.safetensors";

fn status(code: u16) -> Fault {
    Fault::Status {
        code,
        headers: Vec::new(),
        body: String::new(),
    }
}

/// The answer speaks of another commit, and no longer knows the one before.
fn moved() -> Fault {
    Fault::OtherCommit {
        commit: "0123456789".repeat(4),
    }
}

fn without(name: &str) -> Fault {
    Fault::DropHeader { name: name.to_owned() }
}

/// Name, where, which path, and what happens there.
fn faults() -> Vec<(&'static str, Side, &'static str, Fault)> {
    let (hub, network) = (Side::Hub, Side::ContentNetwork);
    let complete = Fault::Status {
        code: 416,
        headers: vec![("content-range".into(), "bytes */3".into())],
        body: String::new(),
    };
    vec![
        ("cut", network, SHARD, Fault::Cut { after: 100_000 }),
        ("silence", network, SHARD, Fault::Stall { after: 100_000 }),
        ("a trickle", network, SHARD, Fault::Slow { rate: 1000 }),
        ("a wrong byte", network, SHARD, Fault::WrongByte { at: 150_000 }),
        ("a shorter file", network, SHARD, Fault::Short { by: 9 }),
        ("an empty 200", network, SHARD, Fault::Empty),
        ("a page of a portal", network, SHARD, Fault::Page),
        ("gzip", network, SHARD, Fault::Gzip),
        ("no range", network, SHARD, Fault::IgnoreRange),
        ("another total", network, SHARD, Fault::OtherTotal { total: 77 }),
        ("an expired address", network, SHARD, status(403)),
        ("416 with another total", network, SHARD, complete),
        ("503", network, SHARD, status(503)),
        ("a redirect to itself", hub, SHARD, Fault::RedirectLoop),
        (
            "a redirect to plain http elsewhere",
            hub,
            SHARD,
            Fault::Redirect {
                to: "http://127.0.0.1:1/x".into(),
            },
        ),
        ("a page instead of the listing", hub, "/tree/", Fault::Page),
        ("an empty listing", hub, "/tree/", Fault::Empty),
        ("a page instead of config.json", hub, "config.json", Fault::Page),
        ("500 for everything", hub, "", status(500)),
        ("a listing cut in the middle", hub, "/tree/", Fault::Cut { after: 100 }),
        (
            "a listing that ends in the middle",
            hub,
            "/tree/",
            Fault::Short { by: 100 },
        ),
        ("a listing in gzip", hub, "/tree/", Fault::Gzip),
        ("silence in the listing", hub, "/tree/", Fault::Stall { after: 100 }),
        (
            "a commit that ends in the middle",
            hub,
            "/revision/",
            Fault::Short { by: 10 },
        ),
        ("the branch moved before the listing", hub, "/tree/", moved()),
        ("a commit that is not there", hub, "/revision/", moved()),
        ("the branch moved before config.json", hub, "config.json", moved()),
        ("the branch moved before the weights", hub, SHARD, moved()),
        (
            "a mirror without the commit's header",
            hub,
            "",
            without("x-repo-commit"),
        ),
        ("a mirror without the size's header", hub, "", without("x-linked-size")),
        ("a mirror without the hash's header", hub, "", without("x-linked-etag")),
        ("a redirect without an address", hub, SHARD, without("location")),
    ]
}

/// From the listing to the tag, with little patience.
async fn attempt(bed: &Bed, repository: &str) -> Result<Digest, PackError> {
    let mut settings = bed.settings(&[]);
    settings.retry.minimum_rate = 20_000;
    settings.retry.rate_window = Duration::from_secs(1);
    let gathered = bed
        .gather_with("hf://owner/model", &Wishes::default(), &settings)
        .await?;
    let prepared = prepare::prepare(&gathered, &Wishes::default(), &PackOptions::default()).await?;
    Ok(push(&prepared, &bed.push_settings(&format!("{repository}:v1")))
        .await?
        .digest)
}

/// Cases at the same time.
const AT_ONCE: usize = 8;

#[test]
fn each_fault_of_a_hub_is_survived_or_named_and_nothing_wrong_is_ever_tagged() {
    let faults = faults();
    let lanes = bed::in_lanes(AT_ONCE, async |lane| {
        let mut told = Vec::new();
        for (name, side, path, fault) in faults.iter().skip(lane).step_by(AT_ONCE) {
            told.push(told_of(name, FaultRule::once(*side, path, fault.clone())).await);
        }
        told
    });
    let told: String = (0..faults.len())
        .map(|case| lanes[case % AT_ONCE][case / AT_ONCE].as_str())
        .collect();
    insta::assert_snapshot!(told);
}

/// What is said when it happens once, and when it never stops.
async fn told_of(name: &str, rule: FaultRule) -> String {
    // What one attempt brought is nothing that the next one finds.
    let config = RegistryConfig {
        mounts: false,
        ..RegistryConfig::default()
    };
    let bed = Bed::of_size(200_000, 64 << 10, |_| {}, config).await;
    let expected = bed.push("hf://owner/model", "reference:v1").await.unwrap().digest;
    let mut told = String::new();
    for (repository, times) in [("once", 1), ("always", u32::MAX)] {
        bed.hub.push_fault(rule.clone().times(times));
        let outcome = attempt(&bed, repository).await;
        let tagged = bed.registry.manifest(repository, "v1").map(|(digest, _)| digest);
        assert_eq!(tagged.is_some(), outcome.is_ok(), "{name} {repository}");
        assert!(
            tagged.is_none_or(|digest| digest == expected.as_str()),
            "{name} {repository}"
        );
        let said = match outcome {
            Ok(_) => "packed".to_owned(),
            Err(error) => bed::chain(&error).replace(&bed.hub.url(), "http://hub"),
        };
        let _ = writeln!(told, "{name}, {repository}: {}", without_numbers(&said, &bed));
    }
    assert_eq!(bed.hub.violations(), []);
    told
}

/// Ports and digests differ from run to run.
fn without_numbers(text: &str, bed: &Bed) -> String {
    let text = text.replace(&bed.registry.host(), "registry");
    let words = text.split(' ').map(|word| {
        let long = word.len() > 40 && word.bytes().any(|byte| byte.is_ascii_digit());
        let address = word.contains("127.0.0.1:");
        if long || address { "…" } else { word }
    });
    words.collect::<Vec<_>>().join(" ")
}
