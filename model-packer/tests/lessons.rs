//! What others learnt the hard way: `lessons.md` names a test for each of it. Here are those that belong to no other file.
#![allow(clippy::unwrap_used, reason = "what a test needs and does not get is a failed test")]

mod bed;

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use artifact::{Digest, Layout, PackedModel};
use bed::Bed;
use bed::program::{packer, program, run, text};
use fault_proxy::registry::RegistryConfig;
use model_packer::PackError;
use model_packer::packed::read_remote;
use model_packer::prepare::PackOptions;
use model_packer::pull::{ENOUGH_RATE, PullSettings, pull};
use model_packer::push::{plan, push};
use model_packer::selection::Wishes;
use registry::{Client, ClientConfig, Profile, Profiles};
use standin_hub::{Fault, FaultRule, Recorded, Side};

const SOURCE: &str = "hf://owner/model";
const SHARD: &str = "model-00001-of-00002.safetensors";

/// The rows of the table: source, symptom, what is done, tests.
fn rows() -> Vec<[String; 4]> {
    let table = include_str!("lessons.md");
    let rows = table
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |"));
    let cells = rows.map(|row| row.split(" | ").map(str::to_owned).collect::<Vec<_>>());
    let whole = cells.map(|cells| <[String; 4]>::try_from(cells).unwrap());
    whole.filter(|cells| cells[0] != "from").collect()
}

fn source_files(folder: &Path, found: &mut Vec<String>) {
    for item in std::fs::read_dir(folder).unwrap() {
        let path = item.unwrap().path();
        if path.is_dir() && !path.ends_with("target") {
            source_files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(std::fs::read_to_string(path).unwrap());
        }
    }
}

/// Whether a function of this name is there, with the attribute of a test before it.
fn has_test(source: &str, name: &str) -> bool {
    let before = source.split_once(&format!("fn {name}(")).map(|(before, _)| before);
    let attribute = before
        .and_then(|before| before.rsplit_once("#["))
        .map(|(_, attribute)| attribute);
    attribute.is_some_and(|attribute| attribute.starts_with("test]") || attribute.starts_with("tokio::test"))
}

#[test]
fn every_lesson_has_a_test_that_exists_or_a_reason_why_it_needs_none() {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut sources = Vec::new();
    for room in [
        "model-packer",
        "registry",
        "artifact",
        "model-facts",
        "node-fetcher",
        "tests",
    ] {
        source_files(&workspace.join(room), &mut sources);
    }
    let mut problems = Vec::new();
    for [from, symptom, done, tests] in rows() {
        if let Some(reason) = tests.strip_prefix("none: ") {
            problems.extend((reason.len() < 12).then(|| format!("{from}: that is no reason")));
            continue;
        }
        let names: Vec<&str> = tests.split('`').skip(1).step_by(2).collect();
        if names.is_empty() || symptom.is_empty() || done.is_empty() {
            problems.push(format!("{from}: something is missing"));
        }
        let missing = names
            .iter()
            .filter(|name| !sources.iter().any(|source| has_test(source, name)));
        problems.extend(missing.map(|name| format!("{from}: there is no test {name}")));
    }
    assert_eq!(problems, Vec::<String>::new());
    let from: BTreeSet<String> = rows().into_iter().map(|row| row[0].clone()).collect();
    assert_eq!(from.len(), rows().len(), "a lesson is there twice");
}

fn paths(requests: &[Recorded]) -> Vec<&str> {
    requests.iter().map(|request| request.target.as_str()).collect()
}

#[tokio::test]
async fn a_model_takes_few_requests_and_each_names_the_commit() {
    let bed = Bed::start().await;
    let commit = bed.commit().await;
    let before = bed.hub.requests().len();
    // Patience, because what is asked again would be counted.
    let mut settings = bed.settings(&[]);
    settings.retry.idle = Duration::from_secs(20);
    let wishes = Wishes::default();
    let gathered = bed.gather_with(SOURCE, &wishes, &settings).await.unwrap();
    let prepared = model_packer::prepare::prepare(&gathered, &wishes, &PackOptions::default())
        .await
        .unwrap();
    push(&prepared, &bed.push_settings("m:v1")).await.unwrap();
    let requests = bed.hub.requests()[before..].to_vec();
    let on_hub: Vec<Recorded> = requests
        .iter()
        .filter(|request| request.side == Side::Hub)
        .cloned()
        .collect();
    // One for the commit, three pages of three, one or two for each of the seven files: its header and its body, a small one its redirect.
    assert!(on_hub.len() <= 1 + 3 + 2 * 7, "{:#?}", paths(&on_hub));
    for request in &on_hub {
        let first = request.target.starts_with("/api/models/owner/model/revision/main");
        assert!(first || request.target.contains(&commit), "{}", request.target);
        assert!(
            request.method == "GET" && !request.target.contains("xet"),
            "{request:?}"
        );
    }
    let bodies: Vec<&Recorded> = requests
        .iter()
        .filter(|request| request.side == Side::ContentNetwork)
        .collect();
    assert!(
        bodies.iter().all(|request| request.range.is_some()),
        "a hub refuses files above 50 GB without ranges: {bodies:#?}"
    );
    assert_eq!(bed.hub.violations(), []);
}

#[tokio::test]
async fn a_redirect_to_the_hub_itself_stays_on_the_mirror() {
    let bed = Bed::start().await;
    for (side, path) in [
        (Side::Hub, "config.json"),
        (Side::Hub, "/tree/"),
        (Side::Hub, "/revision/main"),
    ] {
        let there = bed.gather(SOURCE, &Wishes::default()).await.unwrap();
        let commit = there.snapshot.commit.clone().unwrap();
        let to = match path {
            "config.json" => format!("https://huggingface.co/owner/model/resolve/{commit}/config.json"),
            "/tree/" => format!("https://www.huggingface.co/api/models/owner/model/tree/{commit}?recursive=true"),
            _ => "https://huggingface.co/api/models/owner/model/revision/master".to_owned(),
        };
        bed.hub.push_fault(FaultRule::once(side, path, Fault::Redirect { to }));
        let gathered = bed.gather(SOURCE, &Wishes::default()).await.unwrap();
        assert_eq!(gathered.snapshot.files, there.snapshot.files, "{path}");
    }
}

#[tokio::test]
async fn no_redirect_to_another_host_or_port_carries_a_token_or_a_cookie() {
    let bed = Bed::with(|hub| hub.token = Some("hf_token".into()), RegistryConfig::default()).await;
    bed.write(".standin.json", r#"{"private": true}"#);
    let settings = bed.settings(&[("HF_TOKEN", "hf_token"), ("MODELSCOPE_API_TOKEN", "hf_token")]);
    // Documents and small files are the hub's own answers; what a redirect of them leads to is another port all the same.
    for (source, path) in [
        (SOURCE, "/revision/"),
        (SOURCE, "/tree/"),
        (SOURCE, "config.json"),
        ("ms://owner/model", "repo/files"),
        ("ms://owner/model", "FilePath=config.json"),
    ] {
        let to = format!("http://{}/stolen", bed.hub.content_network());
        bed.hub
            .push_fault(FaultRule::once(Side::Hub, path, Fault::Redirect { to }).times(2));
        let _ = bed.gather_with(source, &Wishes::default(), &settings).await;
        let gathered = bed.gather_with(source, &Wishes::default(), &settings).await;
        let gathered = match gathered {
            Ok(gathered) => gathered,
            // The second redirect was for this one.
            Err(_) => bed.gather_with(source, &Wishes::default(), &settings).await.unwrap(),
        };
        let prepared = model_packer::prepare::prepare(&gathered, &Wishes::default(), &PackOptions::default())
            .await
            .unwrap();
        push(&prepared, &bed.push_settings("m:v1")).await.unwrap();
        assert_eq!(bed.hub.violations(), [], "{source} {path}");
    }
    let stolen = bed
        .hub
        .requests()
        .into_iter()
        .filter(|request| request.target == "/stolen");
    assert!(stolen.count() >= 5, "the redirects were followed");
}

#[tokio::test]
async fn thousands_of_files_are_listed_completely_by_thousands_and_in_order() {
    let bed = Bed::with(|hub| hub.page_size = 1000, RegistryConfig::default()).await;
    for number in 0..2500 {
        bed.write(&format!("eval/{}/{number}.txt", number % 7), "x");
    }
    let gathered = bed.gather(SOURCE, &Wishes::default()).await.unwrap();
    let listed: Vec<&str> = gathered.snapshot.files.iter().map(|file| file.path.as_str()).collect();
    assert_eq!(listed.len(), 2508);
    assert!(listed.is_sorted());
    let pages = bed
        .hub
        .requests()
        .iter()
        .filter(|request| request.target.contains("/tree/"))
        .count();
    assert_eq!(pages, 3);
}

#[tokio::test]
async fn a_page_that_leads_back_to_an_earlier_one_ends_the_listing_with_an_error() {
    let bed = Bed::start().await;
    let commit = bed.commit().await;
    let link = |cursor: u32| {
        let tree = format!("/api/models/owner/model/tree/{commit}?recursive=true&expand=false&cursor={cursor}");
        Fault::Status {
            code: 200,
            headers: vec![
                ("content-type".into(), "application/json".into()),
                ("link".into(), format!("<https://huggingface.co{tree}>; rel=\"next\"")),
            ],
            body: "[]".into(),
        }
    };
    bed.hub
        .push_fault(FaultRule::once(Side::Hub, "cursor=3", link(6)).times(u32::MAX));
    bed.hub
        .push_fault(FaultRule::once(Side::Hub, "cursor=6", link(3)).times(u32::MAX));
    let before = bed.hub.requests().len();
    let error = bed.gather(SOURCE, &Wishes::default()).await.err().unwrap();
    assert!(matches!(error, PackError::Source(error) if error.to_string().contains("pages never end")));
    assert!(bed.hub.requests().len() - before < 10);
}

#[tokio::test]
async fn hub_and_registry_are_asked_by_few_requests_at_a_time() {
    let latency = Duration::from_millis(4);
    let config = RegistryConfig {
        latency,
        ..RegistryConfig::default()
    };
    let bed = Bed::of_size(1000, bed::PART, |hub| hub.latency = latency, config).await;
    for number in 0..40 {
        bed.write(&format!("part_{number}.json"), format!("{number}"));
    }
    bed.push(SOURCE, "m:v1").await.unwrap();
    let (hub, questions, sent) = (
        bed.hub.busiest(),
        bed.registry.busiest("HEAD"),
        bed.registry.busiest("PUT"),
    );
    assert!((2..=4).contains(&hub), "{hub} requests at the hub");
    assert!((2..=4).contains(&questions), "{questions} questions at the registry");
    assert!((1..=2).contains(&sent), "{sent} uploads for two jobs");
}

#[tokio::test]
async fn a_commit_of_modelscope_is_asked_for_as_it_is_written() {
    let bed = Bed::start().await;
    let branch = bed.gather("ms://owner/model", &Wishes::default()).await.unwrap();
    let commit = branch.snapshot.commit.clone().unwrap();
    let source = format!("ms://owner/model@{commit}");
    let pinned = bed.gather(&source, &Wishes::default()).await.unwrap();
    assert_eq!(pinned.snapshot.files, branch.snapshot.files);
    assert_eq!(pinned.snapshot.revision, Some(commit));
}

#[tokio::test]
async fn templates_and_texts_of_any_new_name_go_in() {
    let bed = Bed::start().await;
    let names = [
        "chat_template.jinja",
        "additional_chat_templates/tools.jinja",
        "video_preprocessor_config.json",
        "tokenizer.model.v3",
        "qwen.tiktoken",
        "some_new_thing.yaml",
        "NOTICE",
    ];
    for name in names {
        bed.write(name, name);
    }
    let gathered = bed.gather(SOURCE, &Wishes::default()).await.unwrap();
    let taken: Vec<&str> = gathered
        .selection
        .taken
        .iter()
        .map(|taken| taken.path.as_str())
        .collect();
    assert_eq!(
        names.iter().filter(|name| !taken.contains(name)).count(),
        0,
        "{taken:?}"
    );
}

#[tokio::test]
async fn links_to_one_file_are_one_blob_with_several_names() {
    let bed = Bed::start().await;
    let folder = tempfile::tempdir().unwrap();
    let big = bed::safetensors("x", 2 << 20, 3);
    std::fs::write(folder.path().join("model.safetensors"), &big).unwrap();
    std::fs::write(folder.path().join("tokenizer.json"), "{}").unwrap();
    for number in 0..4 {
        let link = folder.path().join(format!("extra{number}.safetensors"));
        std::os::unix::fs::symlink("model.safetensors", link).unwrap();
    }
    let summary = bed.push(folder.path().to_str().unwrap(), "m:v1").await.unwrap();
    assert_eq!(summary.files, 6);
    assert!(summary.sent < big.len() as u64 + 10_000, "{summary:?}");
}

#[tokio::test]
async fn names_as_long_as_file_systems_allow_and_with_colons_come_back() {
    let bed = Bed::start().await;
    let long = format!("{}.json", "x".repeat(250));
    for name in [long.as_str(), "tool:v1.json", "a b+c.json", "模型.json"] {
        bed.write(name, name);
    }
    for layout in [Layout::Raw, Layout::Tar] {
        let options = PackOptions {
            layout,
            ..PackOptions::default()
        };
        bed.push_as(SOURCE, "m:v1", &options).await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        fetch(&bed, "m:v1", folder.path()).await.unwrap();
        for name in [long.as_str(), "tool:v1.json", "a b+c.json", "模型.json"] {
            assert_eq!(std::fs::read_to_string(folder.path().join(name)).unwrap(), name);
        }
    }
}

async fn fetch(bed: &Bed, name: &str, folder: &Path) -> Result<(), PackError> {
    let settings = PullSettings {
        client: bed.client(),
        folder: folder.to_owned(),
        jobs: 2,
        enough_rate: ENOUGH_RATE,
        reporter: bed.told.clone(),
    };
    let remote = read_remote(&bed.client(), &bed.target(name)).await?;
    pull(&remote, &settings).await.map(|_| ())
}

#[tokio::test]
async fn pushes_of_the_same_model_at_the_same_time_from_one_machine_both_arrive() {
    let bed = Bed::with(|hub| hub.page_size = 1000, RegistryConfig::default()).await;
    let options = PackOptions::default();
    let (one, two) = (
        bed.prepare(SOURCE, &options).await.unwrap(),
        bed.prepare(SOURCE, &options).await.unwrap(),
    );
    let (first, second) = (bed.push_settings("m:v1"), bed.push_settings("m:v1"));
    let (first, second) = tokio::join!(push(&one, &first), push(&two, &second));
    assert_eq!(first.unwrap().digest, second.unwrap().digest);
    let model = PackedModel::read(&bed.registry.manifest("m", "v1").unwrap().1, None).unwrap();
    for file in &model.files {
        assert_eq!(
            Digest::of(&bed.registry.blob("m", file.digest.as_str()).unwrap()),
            file.digest
        );
    }
}

#[tokio::test]
async fn pulls_into_the_same_folder_at_the_same_time_both_end_with_the_right_files() {
    for pieces in [false, true] {
        let bed = Bed::start().await;
        let options = PackOptions {
            pieces,
            ..PackOptions::default()
        };
        bed.push_as(SOURCE, "m:v1", &options).await.unwrap();
        let digest = Digest::of(&std::fs::read(bed.file(SHARD)).unwrap()).to_string();
        // One of them gets something wrong, and must not spoil what the other one has.
        let wrong = fault_proxy::Fault::WrongByte { at: 1_000_000 };
        bed.registry
            .inject(fault_proxy::FaultRule::once("GET", &digest, wrong).after(1));
        let folder = tempfile::tempdir().unwrap();
        let (first, second) = tokio::join!(fetch(&bed, "m:v1", folder.path()), fetch(&bed, "m:v1", folder.path()));
        first.and(second).unwrap();
        for name in [SHARD, "model-00002-of-00002.safetensors", "config.json"] {
            assert_eq!(
                std::fs::read(folder.path().join(name)).unwrap(),
                std::fs::read(bed.file(name)).unwrap()
            );
        }
    }
}

#[tokio::test]
async fn a_folder_is_marked_complete_only_while_every_file_is_the_models() {
    let bed = Bed::start().await;
    bed.push(SOURCE, "m:v1").await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let mark = folder.path().join(".plimsoll-complete");
    let broken = || fault_proxy::FaultRule::once("GET", "/blobs/", fault_proxy::Fault::WrongByte { at: 0 }).always();
    fetch(&bed, "m:v1", folder.path()).await.unwrap();
    assert!(mark.exists());
    // Nothing is wrong, so nothing changes.
    fetch(&bed, "m:v1", folder.path()).await.unwrap();
    assert!(mark.exists());
    bed.write(SHARD, bed::safetensors("layer.1", 3 << 20, 77));
    bed.push(SOURCE, "m:v2").await.unwrap();
    let digest = Digest::of(&std::fs::read(bed.file(SHARD)).unwrap()).to_string();
    bed.registry.inject(fault_proxy::FaultRule {
        path: digest,
        ..broken()
    });
    assert!(fetch(&bed, "m:v2", folder.path()).await.is_err());
    assert!(!mark.exists(), "half of it is the second version");
}

#[tokio::test]
async fn a_folder_that_another_model_is_pulled_into_is_refused_until_that_pull_has_ended() {
    let bed = Bed::start().await;
    bed.push(SOURCE, "m:v1").await.unwrap();
    bed.write(SHARD, bed::safetensors("layer.1", 3 << 20, 77));
    bed.push(SOURCE, "m:v2").await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    // A whole second for each part of the first one's answer.
    let slow = fault_proxy::FaultRule::once("GET", "/blobs/", fault_proxy::Fault::Slow { rate: 2 << 20 }).always();
    bed.registry.inject(slow);
    let (first, second) = tokio::join!(fetch(&bed, "m:v1", folder.path()), async {
        tokio::time::sleep(std::time::Duration::from_millis(300)).await;
        fetch(&bed, "m:v2", folder.path()).await
    });
    first.unwrap();
    let error = second.unwrap_err().to_string();
    assert!(error.contains("by another pull"), "{error}");
    let mark = std::fs::read_to_string(folder.path().join(".plimsoll-complete")).unwrap();
    assert_eq!(mark.trim(), bed.registry.manifest("m", "v1").unwrap().0);
    assert!(!folder.path().join(".plimsoll-partial").exists());
    // What a killed pull leaves of its lock holds nobody up.
    std::fs::create_dir(folder.path().join(".plimsoll-partial")).unwrap();
    std::fs::write(folder.path().join(".plimsoll-partial/.pulling-0123"), "").unwrap();
    fetch(&bed, "m:v2", folder.path()).await.unwrap();
    let mark = std::fs::read_to_string(folder.path().join(".plimsoll-complete")).unwrap();
    assert_eq!(mark.trim(), bed.registry.manifest("m", "v2").unwrap().0);
}

#[tokio::test]
async fn weights_of_another_model_in_the_folder_are_told() {
    let bed = Bed::start().await;
    bed.push(SOURCE, "m:v1").await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("model-00001-of-00003.safetensors"), "old").unwrap();
    fetch(&bed, "m:v1", folder.path()).await.unwrap();
    let told = bed.told.events();
    let warning = |event: &model_packer::report::Event| match event {
        model_packer::report::Event::Warning { text } => {
            text.contains("not of this model: model-00001-of-00003.safetensors")
        }
        _ => false,
    };
    assert!(told.iter().any(warning), "{told:?}");
}

#[tokio::test]
async fn a_push_needs_no_home_and_says_what_is_lost_without_one() {
    let bed = Bed::of_size(1000, bed::PART, |_| {}, RegistryConfig::default()).await;
    let target = bed.target("m:v1").to_string();
    for home in [None, Some("/proc/nowhere")] {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_model-packer"));
        command.env_clear().env("HF_ENDPOINT", bed.hub.url());
        command.envs(home.map(|home| ("HOME", home)));
        command.args(["--plain-http", "push", SOURCE, &target]);
        let output = run(command).await;
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{said}");
        assert!(said.contains("cannot be resumed"), "{said}");
    }
}

#[tokio::test]
async fn nothing_asks_a_hub_once_the_model_is_in_the_registry() {
    let bed = Bed::of_size(1000, bed::PART, |_| {}, RegistryConfig::default()).await;
    let target = bed.target("m:v1").to_string();
    bed.push(SOURCE, "m:v1").await.unwrap();
    let folder = bed.state.path().join("pulled");
    let before = bed.hub.requests().len();
    for arguments in [
        vec!["inspect", &target],
        vec!["pull", &target, folder.to_str().unwrap()],
        vec!["versions", target.split_once(":v1").unwrap().0],
        vec!["diff", &target, &target],
    ] {
        let output = packer(&bed, &arguments).await;
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", text(&output.stderr));
    }
    assert_eq!(bed.hub.requests().len(), before);
    assert!(text(&packer(&bed, &["inspect", &target]).await.stdout).contains("LlamaForCausalLM"));
}

#[tokio::test]
async fn memory_does_not_grow_with_the_model() {
    // Without optimisation the program itself has some 30 MiB; the model has 144.
    let bed = Bed::of_size(72 << 20, 8 << 20, |_| {}, RegistryConfig::default()).await;
    let target = bed.target("m:v1").to_string();
    let folder = bed.state.path().join("pulled");
    for arguments in [
        vec!["push", SOURCE, &target],
        vec!["pull", &target, folder.to_str().unwrap()],
    ] {
        let mut child = program(&bed)
            .args(&arguments)
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let status = format!("/proc/{}/status", child.id());
        let mut peak = 0;
        while child.try_wait().unwrap().is_none() {
            let text = std::fs::read_to_string(&status).unwrap_or_default();
            let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
            peak = line
                .and_then(|line| line.trim().split(' ').next()?.parse().ok())
                .unwrap_or(peak);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert!(child.wait().unwrap().success(), "{arguments:?}");
        println!("{arguments:?}: {peak} KiB");
        assert!(
            (1000..120 << 10).contains(&peak),
            "{arguments:?} had {peak} KiB at its peak"
        );
    }
}

/// What is known of a registry, and what the message and the hint hold.
type Refusal<'a> = (&'a dyn Fn(&mut Profile), &'a str, &'a str);

#[tokio::test]
async fn what_a_registry_is_known_to_refuse_is_said_before_anything_is_sent() {
    let bed = Bed::start().await;
    let client = |change: &dyn Fn(&mut Profile)| {
        let mut profile = Profile {
            hosts: vec![bed.registry.host()],
            ..Profile::default()
        };
        change(&mut profile);
        Client::new(ClientConfig {
            plain_http: vec![bed.registry.host()],
            profiles: Profiles::default().with(profile),
            ..ClientConfig::default()
        })
        .unwrap()
    };
    let prepared = bed.prepare(SOURCE, &PackOptions::default()).await.unwrap();
    let cases: [Refusal<'_>; 2] = [
        (
            &|profile| profile.max_layers = Some(7),
            "takes 7 layers at most, the model would have 8",
            "--layout tar",
        ),
        (
            &|profile| profile.max_blob_bytes = Some(1 << 20),
            "takes blobs of 1.00 MiB at most",
            "larger blobs",
        ),
    ];
    for (change, message, hint) in cases {
        let mut settings = bed.push_settings("m:v1");
        settings.client = client(change);
        for error in [
            push(&prepared, &settings).await.unwrap_err(),
            plan(&prepared, &settings).await.unwrap_err(),
        ] {
            assert!(error.to_string().contains(message), "{error}");
            assert!(error.hint().unwrap().contains(hint));
        }
    }
    assert_eq!((bed.writes(), bed.registry.received_bytes()), (0, 0));
    let mut settings = bed.push_settings("m:v1");
    settings.client = client(&|profile| profile.max_layers = Some(8));
    push(&prepared, &settings).await.unwrap();
}
