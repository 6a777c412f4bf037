//! A process that is killed at any moment, and the next one that goes on.
#![allow(clippy::unwrap_used, reason = "what a test needs and does not get is a failed test")]

mod bed;

use std::process::{Child, Stdio};
use std::time::Duration;

use artifact::{Digest, PackedModel};
use bed::Bed;
use bed::program::{packer, program, text};
use fault_proxy::registry::RegistryConfig;
use model_packer::journal::Journal;
use standin_hub::{Fault, FaultRule, Side};

const KILLS: u64 = 50;
const PART: u64 = 64 << 10;
const SHARD: u64 = 512 << 10;
/// `config.json`, `source.lock` and their like are one request each; one that is cut is sent again as a whole.
const SMALL_FILES: u64 = 16 << 10;

/// Numbers that the seed decides, so that a failure can be seen again with `PLIMSOLL_SEED`.
struct Dice(u64);

impl Dice {
    fn from_environment() -> Self {
        let seed = std::env::var("PLIMSOLL_SEED").map_or(20_261_130, |text| text.parse().unwrap());
        println!("PLIMSOLL_SEED={seed}");
        Self(seed | 1)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

/// Slow enough that a kill lands inside a part, and parts so small that the bound is sharp.
async fn slow_bed() -> Bed {
    let config = RegistryConfig {
        mounts: false,
        ..RegistryConfig::default()
    };
    let bed = Bed::of_size(SHARD, PART, |_| {}, config).await;
    let slow = FaultRule::once(Side::ContentNetwork, "safetensors", Fault::Slow { rate: 8 << 20 });
    bed.hub.push_fault(slow.times(u32::MAX));
    let profile = bed.client().profile(&bed.target("m:v1"));
    let journal = Journal::open(bed.state.path()).unwrap();
    journal.keep_profile(bed.target("m").registry(), &profile).unwrap();
    bed
}

/// Kills it once the registry has received so many bytes, or lets it end.
async fn kill_at(child: &mut Child, bed: &Bed, received: u64) -> bool {
    while child.try_wait().unwrap().is_none() {
        if bed.registry.received_bytes() >= received {
            child.kill().unwrap();
            child.wait().unwrap();
            return true;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    false
}

fn assert_whole(bed: &Bed, repository: &str) -> Digest {
    let (_, manifest) = bed.registry.manifest(repository, "v1").unwrap();
    let model = PackedModel::read(&manifest, None).unwrap();
    for file in &model.files {
        let blob = bed.registry.blob(repository, file.digest.as_str()).unwrap();
        assert_eq!(Digest::of(&blob), file.digest, "{}", file.path);
    }
    model.digest
}

/// Beds at the same time: most of a push is waiting for a slow hub.
const LANES: u64 = 5;

#[test]
fn fifty_kills_at_random_moments_cost_at_most_one_part_of_each_open_file() {
    let mut dice = Dice::from_environment();
    let seeds: Vec<u64> = (0..LANES).map(|_| dice.below(u64::MAX) | 1).collect();
    let killed: u64 = bed::in_lanes(seeds.len(), |lane| kill_in_a_lane(Dice(seeds[lane])))
        .iter()
        .sum();
    assert!(
        killed > KILLS / 2,
        "only {killed} of {KILLS} were killed before they ended"
    );
}

/// A share of the kills, one after the other; how many came in time.
async fn kill_in_a_lane(mut dice: Dice) -> u64 {
    let bed = slow_bed().await;
    let reference = bed.target("whole:v1").to_string();
    let pushed = packer(&bed, &["push", "hf://owner/model", &reference]).await;
    assert_eq!(pushed.status.code(), Some(0), "{}", text(&pushed.stderr));
    let (expected, total) = (assert_whole(&bed, "whole"), bed.registry.received_bytes());
    let mut killed = 0;
    for number in 0..KILLS / LANES {
        let (moment, jobs) = (dice.below(total), 1 + number % 2);
        let (repository, before) = (format!("m{number}"), bed.registry.received_bytes());
        let target = bed.target(&format!("{repository}:v1")).to_string();
        let jobs_text = jobs.to_string();
        let arguments = ["push", "hf://owner/model", &target, "--jobs", &jobs_text];
        let mut child = program(&bed)
            .args(arguments)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        killed += u64::from(kill_at(&mut child, &bed, before + moment).await);
        let output = packer(&bed, &arguments).await;
        assert_eq!(output.status.code(), Some(0), "kill {number}: {}", text(&output.stderr));
        assert_eq!(assert_whole(&bed, &repository), expected, "kill {number}");
        let again = bed.registry.received_bytes() - before - total;
        assert!(
            again <= jobs * PART + SMALL_FILES,
            "kill {number} at {moment} of {total} bytes with {jobs} files at a time: {again} bytes came twice, a part has {PART}"
        );
    }
    killed
}
