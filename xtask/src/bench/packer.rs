//! The same files, the same registry on loopback, one run: ratios of wall and processor time, peak memory, and bytes on the wire.

use std::fs;
use std::io::Write as _;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use serde_json::Value;
use testbed::{ComponentStore, Reporter, fixture};

use super::measure::{self, Taken, run_until};
use crate::{binaries, workspace};

const REGISTRY: &str = "127.0.0.1:5099";
/// Where another implementation listens, for what depends on it.
const OTHER_REGISTRY: &str = "127.0.0.1:5098";
const HUB: &str = "127.0.0.1:8099";
/// The same files from a hub whose content network gives each connection so much a second at most.
const SLOW_HUB: &str = "127.0.0.1:8098";
const SLOW_RATE: u64 = 48 << 20;
const SHARDS: usize = 8;
const CONFIG: &str = r#"{"architectures": ["LlamaForCausalLM"], "model_type": "llama"}"#;

/// How much to move.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// MiB of generated safetensors, in eight shards, beside the `SmolLM2` file.
    #[arg(long, default_value_t = 1024)]
    mebibytes: u64,
    /// Runs of each; the best one counts.
    #[arg(long, default_value_t = 3)]
    runs: usize,
}

/// A service that ends with the benchmark.
struct Service(Child);

impl Drop for Service {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

struct Bench {
    folder: PathBuf,
    oras: PathBuf,
    runs: usize,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    binaries::build(&["model-packer", "standin-hub"])?;
    let store = ComponentStore::from_environment(Reporter::stderr());
    let folder = workspace::root().join("target/bench-packer");
    // What an earlier run left would be taken for work that is done.
    let _ = fs::remove_dir_all(&folder);
    let model = folder.join("hub/bench/model");
    write_model(&model, arguments.mebibytes)?;
    write_single(&folder.join("hub/bench/single"), arguments.mebibytes)?;
    let _registry = start_registry(&store.ensure("docker-registry")?, REGISTRY, &folder.join("registry"))?;
    let other = folder.join("other-registry");
    let _other = start_registry(&store.ensure("distribution")?, OTHER_REGISTRY, &other)?;
    let _hub = start_hub(&folder, HUB, "[]")?;
    let slow = format!(
        r#"[{{"path": "", "side": "content-network", "times": {}, "fault": {{"kind": "slow", "rate": {SLOW_RATE}}}}}]"#,
        u32::MAX
    );
    let _slow_hub = start_hub(&folder, SLOW_HUB, &slow)?;
    let bench = Bench {
        oras: store.ensure("oras")?,
        runs: arguments.runs.max(1),
        folder,
    };
    let files: u64 = bench
        .files()?
        .iter()
        .map(|file| fs::metadata(file).map_or(0, |metadata| metadata.len()))
        .sum();
    println!(
        "{} files, {} bytes, best of {} runs, docker-registry on loopback\n",
        bench.files()?.len(),
        files,
        bench.runs
    );
    bench.pushes()?;
    bench.slow_hub()?;
    bench.pulls("shards", &bench.model())?;
    bench.pulls("single", &bench.folder.join("hub/bench/single"))?;
    bench.wire()
}

fn write_model(model: &Path, mebibytes: u64) -> anyhow::Result<()> {
    fs::create_dir_all(model)?;
    let smollm = fixture::hub_folder(&Reporter::stderr())?
        .join(fixture::SMOLLM2)
        .join(fixture::SMOLLM2_FILE);
    // Under another name it is a file like any other here; the shards are the weight set.
    fs::copy(smollm, model.join("extra.bin.dat"))?;
    fs::write(model.join("config.json"), CONFIG)?;
    fs::write(model.join("tokenizer.json"), "{}")?;
    for number in 1..=SHARDS {
        write_shard(
            &model.join(format!("model-{number:05}-of-{SHARDS:05}.safetensors")),
            mebibytes / 8,
            number as u64,
        )?;
    }
    Ok(())
}

/// A model that is one large file.
fn write_single(model: &Path, mebibytes: u64) -> anyhow::Result<()> {
    fs::create_dir_all(model)?;
    fs::write(model.join("config.json"), CONFIG)?;
    write_shard(&model.join("model.safetensors"), mebibytes, 17)
}

/// One tensor of bytes that do not compress.
fn write_shard(path: &Path, mebibytes: u64, seed: u64) -> anyhow::Result<()> {
    let size = mebibytes << 20;
    let header =
        serde_json::json!({format!("layer.{seed}"): {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}})
            .to_string();
    let mut file = std::io::BufWriter::new(fs::File::create(path)?);
    file.write_all(&(header.len() as u64).to_le_bytes())?;
    file.write_all(header.as_bytes())?;
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    for _ in 0..size / 8 {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        file.write_all(&state.to_le_bytes())?;
    }
    Ok(file.flush()?)
}

fn start_registry(program: &Path, address: &str, data: &Path) -> anyhow::Result<Service> {
    let config = format!(
        "version: 0.1\nlog: {{level: error}}\nstorage:\n  filesystem: {{rootdirectory: {}}}\nhttp:\n  addr: {address}\n",
        data.display()
    );
    let path = data.with_extension("yml");
    fs::write(&path, config)?;
    // It would look for a collector of traces.
    let mut command = Command::new(program);
    start(
        command.env("OTEL_TRACES_EXPORTER", "none").arg("serve").arg(path),
        address,
    )
}

fn start_hub(folder: &Path, address: &str, faults: &str) -> anyhow::Result<Service> {
    let script = folder.join("faults.json");
    fs::write(&script, faults)?;
    let mut command = Command::new(binaries::path("standin-hub"));
    command
        .arg("--root")
        .arg(folder.join("hub"))
        .arg("--script")
        .arg(script);
    start(command.args(["--listen", address, "--page-size", "1000"]), address)
}

fn start(command: &mut Command, address: &str) -> anyhow::Result<Service> {
    ensure!(TcpStream::connect(address).is_err(), "{address} is taken");
    let child = command
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .with_context(|| format!("start {command:?}"))?;
    let service = Service(child);
    for _ in 0..200 {
        if TcpStream::connect(address).is_ok() {
            return Ok(service);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    anyhow::bail!("{command:?} does not listen on {address}")
}

impl Bench {
    fn model(&self) -> PathBuf {
        self.folder.join("hub/bench/model")
    }

    fn files(&self) -> anyhow::Result<Vec<PathBuf>> {
        let mut files: Vec<PathBuf> = fs::read_dir(self.model())?
            .map(|item| Ok(item?.path()))
            .collect::<anyhow::Result<_>>()?;
        files.sort();
        Ok(files)
    }

    fn packer(&self, arguments: &[&str]) -> Command {
        self.packer_at(HUB, arguments)
    }

    fn packer_at(&self, hub: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(binaries::path("model-packer"));
        command
            .args(arguments)
            .args(["--plain-http", "--output", "json", "--include", "*", "--state"])
            .arg(self.folder.join("state"));
        command.env("HF_ENDPOINT", format!("http://{hub}"));
        command
    }

    fn oras(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.oras);
        command.args(arguments).arg("--plain-http").current_dir(self.model());
        command
    }

    /// The best of several, each into an empty registry.
    fn best(&self, name: &str, mut make: impl FnMut() -> anyhow::Result<Command>) -> anyhow::Result<Taken> {
        let mut best: Option<Taken> = None;
        for _ in 0..self.runs {
            let _ = fs::remove_dir_all(self.folder.join("registry/docker"));
            let _ = fs::remove_dir_all(self.folder.join("state"));
            let taken = measure::run(&mut make()?).with_context(|| name.to_owned())?;
            if best.as_ref().is_none_or(|best| taken.wall < best.wall) {
                best = Some(taken);
            }
        }
        let best = best.context("no run")?;
        show(name, &best);
        Ok(best)
    }

    fn pushes(&self) -> anyhow::Result<()> {
        let (model, target) = (self.model().display().to_string(), format!("{REGISTRY}/bench/m:v1"));
        let hash = self.best("sha256 of the files, one pass (openssl)", || {
            self.shell("openssl dgst -sha256 $FILES")
        })?;
        let floor = self.best("push of a folder: parallel curl PUTs", || self.shell(CURL_PUTS))?;
        let oras = self.best("push of a folder: oras", || {
            let mut command = self.oras(&["push", &target]);
            command.args(self.files()?.iter().filter_map(|file| file.file_name()));
            Ok(command)
        })?;
        let ours = self.best("push of a folder: model-packer", || {
            Ok(self.packer(&["push", &model, &target]))
        })?;
        let (times, stream) = self.hub_to_registry(HUB)?;
        ratio("push wall against curl (target at most 1.05)", ours.wall / floor.wall);
        ratio("push wall against oras", ours.wall / oras.wall);
        ratio(
            "push processor against one hash pass (target at most 1.2)",
            ours.processor / hash.processor,
        );
        ratio(
            "push processor against a hash pass and curl's sending",
            ours.processor / (hash.processor + floor.processor),
        );
        ratio("hub to registry, times faster (target at least 1.8)", times);
        println!(
            "peak memory of a push {:.1} MiB (target under 64)\n",
            mebibytes(ours.peak_kib.max(stream.peak_kib))
        );
        Ok(())
    }

    fn pulls(&self, what: &str, model: &Path) -> anyhow::Result<()> {
        let target = format!("{REGISTRY}/bench/{what}:v1");
        measure::run(&mut self.packer(&["push", &model.display().to_string(), &target]))?;
        let out = self.folder.join("out");
        let pull = |name: &str, make: &dyn Fn(&str) -> Command| -> anyhow::Result<Taken> {
            let mut best: Option<Taken> = None;
            for _ in 0..self.runs {
                let _ = fs::remove_dir_all(&out);
                let taken = measure::run(&mut make(&out.display().to_string()))?;
                if best.as_ref().is_none_or(|best| taken.wall < best.wall) {
                    best = Some(taken);
                }
            }
            let best = best.context("no run")?;
            show(name, &best);
            Ok(best)
        };
        let theirs = pull(&format!("pull of {what}: oras"), &|out| {
            self.oras(&["pull", &target, "-o", out])
        })?;
        let ours = pull(&format!("pull of {what}: model-packer"), &|out| {
            self.puller(&target, out)
        })?;
        ratio(
            "pull, times faster than oras (target at least 1.3)",
            theirs.wall / ours.wall,
        );
        println!(
            "peak memory of a pull {:.1} MiB (target under 64)\n",
            mebibytes(ours.peak_kib)
        );
        Ok(())
    }

    /// How many times faster than a download and a push after it, and what it took.
    fn hub_to_registry(&self, hub: &str) -> anyhow::Result<(f64, Taken)> {
        let target = format!("{REGISTRY}/bench/m:v1");
        let theirs = self.best("hub to registry: curl, then oras", || {
            let mut command = self.shell(DOWNLOAD_THEN_PUSH)?;
            command.env("HUB", hub);
            Ok(command)
        })?;
        let ours = self.best("hub to registry: model-packer", || {
            Ok(self.packer_at(hub, &["push", "hf://bench/model", &target]))
        })?;
        Ok((theirs.wall / ours.wall, ours))
    }

    /// As from the content network of a real hub: there each connection has a limit, and one file has one connection unless the
    /// client asks for parts of it.
    fn slow_hub(&self) -> anyhow::Result<()> {
        println!(
            "a hub that limits each connection, to {} MiB a second at most:",
            SLOW_RATE >> 20
        );
        let (times, _) = self.hub_to_registry(SLOW_HUB)?;
        ratio("hub to registry, times faster (target at least 1.8)", times);
        let target = format!("{REGISTRY}/bench/single:v1");
        let mut walls = Vec::new();
        for jobs in ["1", "4"] {
            let taken = self.best(&format!("one large file, --jobs {jobs}: model-packer"), || {
                Ok(self.packer_at(SLOW_HUB, &["push", "hf://bench/single", &target, "--jobs", jobs]))
            })?;
            walls.push(taken.wall);
        }
        ratio("one large file, times faster by four requests", walls[0] / walls[1]);
        println!();
        Ok(())
    }

    fn puller(&self, target: &str, out: &str) -> Command {
        let mut command = Command::new(binaries::path("model-packer"));
        command
            .args(["pull", target, out, "--plain-http", "--output", "json", "--state"])
            .arg(self.folder.join("state"));
        command
    }

    /// Bytes that leave, by the program's own count.
    fn wire(&self) -> anyhow::Result<()> {
        let target = format!("{REGISTRY}/bench/m:v2");
        let first = format!("{REGISTRY}/bench/m:v1");
        measure::run(&mut self.packer(&["push", "hf://bench/model", &first]))?;
        let again = measure::run(&mut self.packer(&["push", "hf://bench/model", &first]))?;
        println!(
            "bytes of a push from the hub over the same files: {}",
            sent(&again.output)?
        );
        let shard = self
            .model()
            .join(format!("model-{SHARDS:05}-of-{SHARDS:05}.safetensors"));
        let size = fs::metadata(&shard)?.len();
        write_shard(&shard, size >> 20, 99)?;
        let changed = measure::run(&mut self.packer(&["push", "hf://bench/model", &target]))?;
        println!(
            "bytes of a version with one changed shard of {size}: {}",
            sent(&changed.output)?
        );
        self.kill("docker-registry 2.8, which drops a broken session", REGISTRY)?;
        self.kill("distribution 3, which keeps it", OTHER_REGISTRY)
    }

    /// Kills a push at half of its bytes and counts what the next one sends again.
    fn kill(&self, name: &str, registry: &str) -> anyhow::Result<()> {
        let _ = fs::remove_dir_all(self.folder.join("state"));
        let target = format!("{registry}/bench/killed:v1");
        let sizes = self
            .files()?
            .into_iter()
            .map(|file| fs::metadata(file).map_or(0, |metadata| metadata.len()));
        let total: u64 = sizes.sum();
        let moved = std::cell::RefCell::new(std::collections::BTreeMap::new());
        let killed = run_until(&mut self.packer(&["push", "hf://bench/model", &target]), |line| {
            let event: Value = serde_json::from_str(line).unwrap_or_default();
            if let ("progress", Some(path), Some(offset)) = (
                event["event"].as_str().unwrap_or_default(),
                event["path"].as_str(),
                event["offset"].as_u64(),
            ) {
                moved.borrow_mut().insert(path.to_owned(), offset);
            }
            moved.borrow().values().sum::<u64>() > total / 2
        })?;
        ensure!(killed.is_none(), "the push ended before it could be killed");
        let before: u64 = moved.borrow().values().sum();
        let rest = measure::run(&mut self.packer(&["push", "hf://bench/model", &target]))?;
        let twice = (before + sent(&rest.output)?).saturating_sub(total);
        println!("bytes sent twice after a kill -9 at 50 % ({name}): {twice} of {total}");
        Ok(())
    }

    /// A line of shell with the files in $FILES.
    fn shell(&self, line: &str) -> anyhow::Result<Command> {
        let names: Vec<String> = self
            .files()?
            .iter()
            .filter_map(|file| Some(file.file_name()?.to_str()?.to_owned()))
            .collect();
        let mut command = Command::new("sh");
        command.arg("-euc").arg(line).current_dir(self.model());
        command
            .env("FILES", names.join(" "))
            .env("REGISTRY", REGISTRY)
            .env("ORAS", &self.oras)
            .env("OUT", self.folder.join("download"));
        Ok(command)
    }
}

/// Four at a time, as the packer does it; the digests are known before, which a real push would have to compute.
const CURL_PUTS: &str = r#"
for file in $FILES; do [ -e "../$file.digest" ] || sha256sum "$file" | cut -d' ' -f1 > "../$file.digest"; done
echo $FILES | tr ' ' '\n' | xargs -P4 -I{} sh -euc '
  place=$(curl -sS -X POST -o /dev/null -D - "http://$REGISTRY/v2/bench/m/blobs/uploads/" | tr -d "\r" | sed -n "s/^[Ll]ocation: //p")
  curl -sSf -o /dev/null -X PUT -T "{}" -H "Content-Type: application/octet-stream" "$place&digest=sha256:$(cat ../{}.digest)"'
"#;

const DOWNLOAD_THEN_PUSH: &str = r#"
rm -rf "$OUT"; mkdir -p "$OUT"; cd "$OUT"
echo $FILES | tr ' ' '\n' | xargs -P4 -I{} curl -sSfL -o "{}" "http://$HUB/bench/model/resolve/main/{}"
"$ORAS" push --plain-http "$REGISTRY/bench/m:v1" $FILES > /dev/null
"#;

fn sent(output: &str) -> anyhow::Result<u64> {
    let last = output.lines().last().context("the program printed nothing")?;
    let summary: Value = serde_json::from_str(last)?;
    summary["sent"].as_u64().context("the summary has no count of bytes")
}

fn show(name: &str, taken: &Taken) {
    println!(
        "{name:44} {:7.2} s wall {:7.2} s processor {:7.1} MiB",
        taken.wall,
        taken.processor,
        mebibytes(taken.peak_kib)
    );
}

fn ratio(name: &str, value: f64) {
    println!("{name:60} {value:5.2}");
}

#[expect(clippy::cast_precision_loss, reason = "one digit is shown")]
fn mebibytes(kib: u64) -> f64 {
    kib as f64 / 1024.0
}
