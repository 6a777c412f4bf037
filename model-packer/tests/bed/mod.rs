//! A hub, a registry and a state folder for one test.
#![allow(
    dead_code,
    clippy::unwrap_used,
    reason = "each test file uses its own part of it, and a bed that does not stand is a failed test"
)]

pub(crate) mod program;

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fault_proxy::registry::{FakeRegistry, RegistryConfig};
use model_packer::PackError;
use model_packer::gather::{Gathered, gather};
use model_packer::journal::Journal;
use model_packer::prepare::{PackOptions, Prepared, prepare};
use model_packer::push::{PushSettings, PushSummary, push};
use model_packer::report::{Event, Report};
use model_packer::selection::Wishes;
use model_packer::sources::{HubSettings, RetryPolicy, SourceAddress, connect};
use registry::{Client, ClientConfig, Limits, Profile, Profiles, Reference, Retry};
use standin_hub::{HubConfig, StandinHub};
use tempfile::TempDir;

pub(crate) const PART: u64 = 1 << 20;
pub(crate) const MODEL: &str = "owner/model";

/// Runs so many of them at the same time, each on a thread of its own: most of a push is waiting, and a test should not.
pub(crate) fn in_lanes<Lane: Future<Output = T>, T: Send>(count: usize, lane: impl Fn(usize) -> Lane + Sync) -> Vec<T> {
    let run = |number: usize| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(lane(number))
    };
    std::thread::scope(|scope| {
        let lanes: Vec<_> = (0..count).map(|number| scope.spawn(move || run(number))).collect();
        lanes.into_iter().map(|lane| lane.join().unwrap()).collect()
    })
}

pub(crate) struct Bed {
    pub(crate) files: TempDir,
    pub(crate) state: TempDir,
    pub(crate) hub: StandinHub,
    pub(crate) registry: FakeRegistry,
    pub(crate) told: Arc<Told>,
    pub(crate) part: u64,
    client: std::sync::OnceLock<Client>,
}

/// Keeps what was told.
#[derive(Default)]
pub(crate) struct Told(Mutex<Vec<Event>>);

impl Report for Told {
    fn tell(&self, event: &Event) {
        self.0.lock().unwrap().push(event.clone());
    }
}

impl Told {
    pub(crate) fn events(&self) -> Vec<Event> {
        self.0.lock().unwrap().clone()
    }
}

impl Bed {
    pub(crate) async fn start() -> Self {
        Self::with(|_| {}, RegistryConfig::default()).await
    }

    pub(crate) async fn with(change_hub: impl FnOnce(&mut HubConfig), registry: RegistryConfig) -> Self {
        Self::of_size(3 << 20, PART, change_hub, registry).await
    }

    pub(crate) async fn of_size(
        shard: u64,
        part: u64,
        change_hub: impl FnOnce(&mut HubConfig),
        registry: RegistryConfig,
    ) -> Self {
        let files = tempfile::tempdir().unwrap();
        write_model(&files.path().join(MODEL), shard);
        let mut config = HubConfig::new(files.path());
        change_hub(&mut config);
        Self {
            hub: StandinHub::start(config).await.unwrap(),
            registry: FakeRegistry::start(registry).await.unwrap(),
            state: tempfile::tempdir().unwrap(),
            told: Arc::default(),
            part,
            client: std::sync::OnceLock::new(),
            files,
        }
    }

    pub(crate) fn file(&self, path: &str) -> std::path::PathBuf {
        self.files.path().join(MODEL).join(path)
    }

    pub(crate) fn write(&self, path: &str, content: impl AsRef<[u8]>) {
        let place = self.file(path);
        std::fs::create_dir_all(place.parent().unwrap()).unwrap();
        std::fs::write(place, content).unwrap();
    }

    pub(crate) fn settings(&self, variables: &[(&str, &str)]) -> HubSettings {
        let url = self.hub.url();
        let mut settings = HubSettings::from_environment(&|name| match name {
            "HF_ENDPOINT" | "MODELSCOPE_ENDPOINT" => Some(url.clone()),
            name => variables
                .iter()
                .find(|(key, _)| *key == name)
                .map(|(_, value)| (*value).to_owned()),
        })
        .unwrap();
        settings.retry = RetryPolicy {
            attempts: 4,
            first_pause: Duration::from_millis(5),
            longest_pause: Duration::from_millis(20),
            idle: Duration::from_millis(300),
            ..RetryPolicy::default()
        };
        settings
    }

    /// One for all pushes: reading the machine's certificates is half of a small one.
    pub(crate) fn client(&self) -> Client {
        self.client.get_or_init(|| self.new_client()).clone()
    }

    fn new_client(&self) -> Client {
        let host = self.registry.host();
        let profile = Profile {
            name: "test".into(),
            hosts: vec![host.clone()],
            part_bytes: self.part,
            ..Profile::default()
        };
        Client::new(ClientConfig {
            plain_http: vec![host],
            limits: Limits {
                answer: Duration::from_secs(2),
                idle: Duration::from_millis(300),
                ..Limits::default()
            },
            retry: Retry {
                times: 3,
                min_delay: Duration::from_millis(5),
                max_delay: Duration::from_millis(20),
                ..Retry::default()
            },
            profiles: Profiles::default().with(profile),
            ..ClientConfig::default()
        })
        .unwrap()
    }

    pub(crate) fn target(&self, name: &str) -> Reference {
        format!("{}/{name}", self.registry.host()).parse().unwrap()
    }

    pub(crate) fn push_settings(&self, name: &str) -> PushSettings {
        PushSettings {
            client: self.client(),
            target: self.target(name),
            jobs: 2,
            mount_from: Vec::new(),
            journal: Some(Arc::new(Journal::open(self.state.path()).unwrap())),
            reporter: self.told.clone(),
            spool: None,
            signer: None,
        }
    }

    pub(crate) async fn gather(&self, source: &str, wishes: &Wishes) -> Result<Gathered, PackError> {
        self.gather_with(source, wishes, &self.settings(&[])).await
    }

    /// The commit that the hub has now.
    pub(crate) async fn commit(&self) -> String {
        let gathered = self.gather("hf://owner/model", &Wishes::default()).await.unwrap();
        gathered.snapshot.commit.clone().unwrap()
    }

    pub(crate) async fn gather_with(
        &self,
        source: &str,
        wishes: &Wishes,
        settings: &HubSettings,
    ) -> Result<Gathered, PackError> {
        let address: SourceAddress = source.parse()?;
        gather(connect(&address, settings)?, wishes).await
    }

    pub(crate) async fn prepare(&self, source: &str, options: &PackOptions) -> Result<Prepared, PackError> {
        let wishes = Wishes::default();
        prepare(&self.gather(source, &wishes).await?, &wishes, options).await
    }

    pub(crate) async fn push(&self, source: &str, name: &str) -> Result<PushSummary, PackError> {
        self.push_as(source, name, &PackOptions::default()).await
    }

    pub(crate) async fn push_as(
        &self,
        source: &str,
        name: &str,
        options: &PackOptions,
    ) -> Result<PushSummary, PackError> {
        push(&self.prepare(source, options).await?, &self.push_settings(name)).await
    }

    /// Requests that change the registry.
    pub(crate) fn writes(&self) -> usize {
        ["POST", "PATCH", "PUT"]
            .iter()
            .map(|method| self.registry.count(method, "/blobs/"))
            .sum()
    }
}

/// A Llama shape in two shards of real bytes, with what a repository has besides.
pub(crate) fn write_model(folder: &Path, shard_bytes: u64) {
    std::fs::create_dir_all(folder).unwrap();
    let write = |name: &str, content: &[u8]| std::fs::write(folder.join(name), content).unwrap();
    write("config.json", br#"{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "num_hidden_layers": 2, "hidden_size": 64,
        "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 2048, "vocab_size": 100, "torch_dtype": "bfloat16"}"#);
    write("README.md", b"---\nlicense: apache-2.0\n---\n# Model\n");
    write("tokenizer.json", br#"{"version": "1.0"}"#);
    write("LICENSE", b"terms");
    write("logo.png", b"not packed");
    let mut weight_map = serde_json::Map::new();
    for number in 1..=2u64 {
        let name = format!("model-0000{number}-of-00002.safetensors");
        write(&name, &safetensors(&format!("layer.{number}"), shard_bytes, number));
        weight_map.insert(format!("layer.{number}"), name.into());
    }
    write(
        "model.safetensors.index.json",
        serde_json::json!({"weight_map": weight_map}).to_string().as_bytes(),
    );
}

/// One BF16 tensor of about this many bytes that look random.
pub(crate) fn safetensors(name: &str, bytes: u64, seed: u64) -> Vec<u8> {
    let elements = bytes / 2;
    let header = serde_json::json!({name: {"dtype": "BF16", "shape": [elements], "data_offsets": [0, elements * 2]}})
        .to_string();
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header.as_bytes());
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let noise = std::iter::repeat_with(move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    });
    let data = usize::try_from(elements * 2).unwrap();
    file.extend(noise.take(data.div_ceil(8)).flatten().take(data));
    file
}

/// The smallest GGUF: no tensors, one key.
pub(crate) fn gguf() -> Vec<u8> {
    let mut file = b"GGUF".to_vec();
    file.extend(3u32.to_le_bytes());
    file.extend(0u64.to_le_bytes());
    file.extend(1u64.to_le_bytes());
    let string = |file: &mut Vec<u8>, text: &str| {
        file.extend((text.len() as u64).to_le_bytes());
        file.extend(text.as_bytes());
    };
    string(&mut file, "general.architecture");
    file.extend(8u32.to_le_bytes());
    string(&mut file, "llama");
    file.resize(file.len().next_multiple_of(32), 0);
    file
}

/// An error with all its causes.
pub(crate) fn chain(error: &PackError) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(inner) = cause {
        text += ": ";
        text += &inner.to_string();
        cause = inner.source();
    }
    text
}
