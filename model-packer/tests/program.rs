//! The program as users meet it.
#![allow(clippy::unwrap_used, reason = "what a test needs and does not get is a failed test")]

mod bed;

use artifact::{Digest, PackedModel};
use bed::Bed;
use bed::program::{packer, program, run, text};
use fault_proxy::registry::{Auth, RegistryConfig};
use proptest::prelude::*;

#[tokio::test(flavor = "multi_thread")]
async fn stdout_is_the_reference_and_exit_codes_tell_yes_from_no() {
    let bed = Bed::start().await;
    let target = bed.target("m:v1").to_string();
    let pushed = packer(&bed, &["push", "hf://owner/model", &target]).await;
    assert_eq!(pushed.status.code(), Some(0), "{}", text(&pushed.stderr));
    let reference = text(&pushed.stdout);
    let index = bed.target("m:v1-index").to_string();
    assert!(
        reference.starts_with(&format!("{target}@sha256:")) && reference.lines().count() == 1,
        "{reference}"
    );
    for (arguments, code) in [
        (vec!["inspect", target.as_str()], 0),
        (vec!["verify", target.as_str()], 0),
        (vec!["versions", target.as_str()], 0),
        (vec!["diff", target.as_str(), "v1"], 0),
        (vec!["tag", target.as_str(), "stable"], 0),
        (vec!["index", index.as_str(), "v1", "stable"], 0),
        (vec!["inspect", index.as_str()], 0),
        (vec!["index", target.as_str(), "v1"], 1),
        (vec!["doctor", bed.registry.host().leak() as &str], 0),
        (vec!["plan", "hf://owner/model", target.as_str()], 0),
        (vec!["inspect", "not a reference"], 1),
        (vec!["push", "s3://x/y", target.as_str()], 1),
        (vec!["push", "hf://owner/missing", target.as_str()], 1),
        (vec!["no-such-command"], 1),
        (vec!["--version"], 0),
    ] {
        let output = packer(&bed, &arguments).await;
        assert_eq!(
            output.status.code(),
            Some(code),
            "{arguments:?}: {}{}",
            text(&output.stdout),
            text(&output.stderr)
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_says_no_where_a_push_does() {
    let bed = Bed::start().await;
    for entry in std::fs::read_dir(bed.file("")).unwrap() {
        let path = entry.unwrap().path();
        if path.to_str().unwrap().contains("model") && path.is_file() {
            std::fs::remove_file(path).unwrap();
        }
    }
    bed.write("kokoro.pth", "PK");
    let target = bed.target("m:v1").to_string();
    for (arguments, code) in [
        (vec!["plan", "hf://owner/model"], 1),
        (vec!["push", "hf://owner/model", target.as_str()], 1),
        (vec!["plan", "--facts-only", "hf://owner/model"], 0),
        (vec!["plan", "--include", "*", "hf://owner/model"], 0),
    ] {
        let output = packer(&bed, &arguments).await;
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
        let refused = said.contains("no weight file was found; the largest file that stays out is kokoro.pth");
        assert_eq!(refused, code == 1, "{said}");
    }
}

const SECRETS: [&str; 8] = [
    "hf_verysecrettoken",
    "ms_verysecrettoken",
    "hf_wrongsecrettoken",
    "registrypassword",
    // `user:registrypassword` as it travels.
    "dXNlcjpyZWdpc3RyeXBhc3N3b3Jk",
    "cosignpassword",
    "Signature=",
    "?state=",
];

/// A command with every kind of login in its environment, as loud as it can be.
fn loud(bed: &Bed, hub_token: &str) -> std::process::Command {
    let mut command = program(bed);
    command
        .arg("-vv")
        .env("RUST_LOG", "trace")
        .env("HF_TOKEN", hub_token)
        .env("MODELSCOPE_API_TOKEN", hub_token)
        .env("COSIGN_PASSWORD", "cosignpassword")
        .env("DOCKER_CONFIG", bed.state.path());
    command
}

#[tokio::test(flavor = "multi_thread")]
async fn no_secret_is_in_any_log_error_or_output() {
    let config = RegistryConfig {
        auth: Auth::Bearer {
            username: "user".into(),
            password: "registrypassword".into(),
            anonymous_pull: false,
            expired_as_403: false,
        },
        redirect_blobs: true,
        ..RegistryConfig::default()
    };
    let bed = Bed::with(|hub| hub.token = Some("hf_verysecrettoken".into()), config).await;
    bed.write(".standin.json", r#"{"private": true}"#);
    let logins = serde_json::json!({"auths": {bed.registry.host(): {"auth": "dXNlcjpyZWdpc3RyeXBhc3N3b3Jk"}}});
    std::fs::write(bed.state.path().join("config.json"), logins.to_string()).unwrap();
    let target = bed.target("m:v1").to_string();
    let key = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/keys/cosign.key");
    let out = bed.state.path().join("out").display().to_string();
    let runs = [
        ("hf_verysecrettoken", vec!["push", "hf://owner/model", &target], 0),
        ("hf_verysecrettoken", vec!["pull", &target, &out], 0),
        ("hf_verysecrettoken", vec!["verify", &target], 0),
        ("hf_verysecrettoken", vec!["push", "hf://owner/missing", &target], 1),
        // The key has another password.
        (
            "hf_verysecrettoken",
            vec!["push", "hf://owner/model", &target, "--sign", key],
            1,
        ),
        ("ms_verysecrettoken", vec!["push", "ms://owner/model", &target], 1),
        ("hf_wrongsecrettoken", vec!["push", "hf://owner/model", &target], 1),
    ];
    let mut seen = String::new();
    for (token, arguments, code) in runs {
        let mut command = loud(&bed, token);
        command.args(&arguments);
        let output = run(command).await;
        let said = text(&output.stdout) + &text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
        seen.push_str(&said);
    }
    // A registry that refuses the password says so without it.
    std::fs::write(
        bed.state.path().join("config.json"),
        serde_json::json!({"auths": {bed.registry.host(): {"auth": "dXNlcjpyZWdpc3RyeXBhc3N3b3JkMg=="}}}).to_string(),
    )
    .unwrap();
    let mut command = loud(&bed, "hf_verysecrettoken");
    command.args(["push", "hf://owner/model", &target]);
    let output = run(command).await;
    assert_eq!(output.status.code(), Some(1));
    seen.push_str(&(text(&output.stdout) + &text(&output.stderr)));
    assert!(seen.contains("redirected"), "the log was on");
    for secret in SECRETS {
        let line = seen.lines().find(|line| line.contains(secret));
        assert_eq!(line, None, "{secret}");
    }
}

/// What goes wrong at the hub, and at the registry.
type Trouble = (Vec<standin_hub::FaultRule>, Vec<fault_proxy::FaultRule>);

/// What may go wrong without waits of minutes.
fn trouble() -> impl Strategy<Value = Trouble> {
    use fault_proxy::{Fault as Registry, FaultRule};
    use standin_hub::{Fault as Hub, FaultRule as HubRule, Side};
    let at_hub = prop_oneof![
        (0u64..200_000).prop_map(|after| Hub::Cut { after }),
        (0u64..200_000).prop_map(|at| Hub::WrongByte { at }),
        (1u64..100).prop_map(|by| Hub::Short { by }),
        Just(Hub::Empty),
        Just(Hub::Page),
        Just(Hub::IgnoreRange),
        Just(Hub::OtherTotal { total: 77 }),
    ];
    let path = prop_oneof![Just("safetensors"), Just("config.json"), Just("tree")];
    let side = prop_oneof![Just(Side::Hub), Just(Side::ContentNetwork)];
    let hub = (at_hub, path, side, 1u32..6)
        .prop_map(|(fault, path, side, times)| HubRule::once(side, path, fault).times(times));
    let at_registry = prop_oneof![
        (0u64..100_000).prop_map(|after| Registry::CutUpload { after }),
        Just(Registry::LostAnswer),
        Just(Registry::StatusAs { code: 201 }),
        Just(Registry::DropHeader {
            name: "location".into()
        }),
        prop_oneof![Just(403u16), Just(404), Just(416)].prop_map(|code| Registry::Status {
            code,
            headers: vec![],
            body: String::new()
        }),
    ];
    let method = prop_oneof![Just("POST"), Just("PATCH"), Just("PUT"), Just("HEAD")];
    let registry = (at_registry, method, 0u32..4, 1u32..6)
        .prop_map(|(fault, method, skip, times)| FaultRule::once(method, "/m/", fault).after(skip).times(times));
    (prop::collection::vec(hub, 0..3), prop::collection::vec(registry, 0..3))
}

/// Programs in trouble at the same time: they wait before they ask again.
const AT_ONCE: usize = 16;

proptest! {
    #![proptest_config(ProptestConfig { cases: 1, max_shrink_iters: 4, ..ProptestConfig::default() })]
    #[test]
    fn exit_code_0_is_the_right_digest_and_anything_else_leaves_no_part_of_a_model_tagged(
        troubles in prop::collection::vec(trouble(), AT_ONCE),
    ) {
        bed::in_lanes(AT_ONCE, |lane| push_in_trouble(troubles[lane].clone()));
    }
}

async fn push_in_trouble((hub, registry): Trouble) {
    let bed = Bed::of_size(200_000, 64 << 10, |_| {}, RegistryConfig::default()).await;
    let expected = bed.push("hf://owner/model", "reference:v1").await.unwrap().digest;
    for rule in hub {
        bed.hub.push_fault(rule);
    }
    for rule in registry {
        bed.registry.inject(rule);
    }
    let target = bed.target("m:v1").to_string();
    let output = packer(&bed, &["push", "hf://owner/model", &target]).await;
    let tagged = bed.registry.manifest("m", "v1");
    let said = text(&output.stderr);
    match output.status.code() {
        Some(0) => assert_eq!(text(&output.stdout).trim(), format!("{target}@{expected}")),
        code => assert_eq!(code, Some(1), "a fault of others is none of the program: {said}"),
    }
    assert!(tagged.is_some() || output.status.code() == Some(1), "{said}");
    if let Some((digest, manifest)) = tagged {
        assert_eq!(digest, expected.as_str());
        for file in PackedModel::read(&manifest, None).unwrap().files {
            let blob = bed.registry.blob("m", file.digest.as_str()).unwrap();
            assert_eq!(Digest::of(&blob), file.digest);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn proxies_are_left_out_where_no_proxy_says_so() {
    let bed = Bed::start().await;
    let target = bed.target("m:v1").to_string();
    for (excepted, works) in [("*", true), ("127.0.0.1", true), ("example.com", false)] {
        let mut command = bed::program::program(&bed);
        // Nobody listens there.
        command
            .env("HTTP_PROXY", "http://127.0.0.1:9")
            .env("NO_PROXY", excepted);
        let command_line = if works {
            vec!["push", "hf://owner/model", &target]
        } else {
            vec!["plan", "hf://owner/model"]
        };
        command.args(command_line);
        let output = bed::program::run(command).await;
        assert_eq!(output.status.success(), works, "{excepted}: {}", text(&output.stderr));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn json_output_is_one_object_per_line_and_ends_with_the_summary() {
    let bed = Bed::start().await;
    let target = bed.target("m:v1").to_string();
    let output = packer(&bed, &["push", "hf://owner/model", &target, "--output", "json"]).await;
    let events: Vec<serde_json::Value> = text(&output.stdout)
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let last = events.last().unwrap();
    assert_eq!(last["event"], "summary");
    assert_eq!(last["files"], 7);
    assert!(
        events
            .iter()
            .any(|event| event["event"] == "finished" && event["arrival"]["sent"].is_u64()),
        "{events:?}"
    );
}

/// What others say about a model is not what it is.
#[tokio::test(flavor = "multi_thread")]
async fn inspection_shows_a_model_whose_referrers_are_not_shown() {
    let bed = Bed::start().await;
    let target = bed.target("m:v1").to_string();
    bed.push("hf://owner/model", "m:v1").await.unwrap();
    let denied = fault_proxy::Fault::Status {
        code: 403,
        headers: Vec::new(),
        body: String::new(),
    };
    bed.registry
        .inject(fault_proxy::FaultRule::once("GET", "/referrers/", denied).always());
    let shown = packer(&bed, &["inspect", &target]).await;
    let (page, talk) = (text(&shown.stdout), text(&shown.stderr));
    assert_eq!(shown.status.code(), Some(0), "{talk}");
    assert!(
        page.contains("config.json") && page.ends_with("attached unknown\n"),
        "{page}"
    );
    assert!(talk.starts_with("warning: cannot list referrers of"), "{talk}");
    let shown = packer(&bed, &["inspect", &target, "--output", "json"]).await;
    let document: serde_json::Value = serde_json::from_slice(&shown.stdout).unwrap();
    assert_eq!(document["referrers"], serde_json::Value::Null);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_that_the_registry_asks_for_is_told() {
    let bed = Bed::start().await;
    let target = bed.target("m:v1").to_string();
    bed.push("hf://owner/model", "m:v1").await.unwrap();
    let busy = fault_proxy::Fault::Status {
        code: 503,
        headers: vec![("retry-after".into(), "3".into())],
        body: String::new(),
    };
    for output in ["text", "json"] {
        bed.registry
            .inject(fault_proxy::FaultRule::once("GET", "/manifests/", busy.clone()));
        let shown = packer(&bed, &["inspect", &target, "--output", output]).await;
        let talk = text(&shown.stderr);
        assert!(
            talk.starts_with("warning: ") && talk.contains("asks to wait 3 s; going on after 3 s"),
            "{talk}"
        );
        assert_eq!(shown.status.code(), Some(0));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_and_logins_are_found_by_the_variables_that_users_know() {
    let config = RegistryConfig {
        auth: Auth::bearer(),
        ..RegistryConfig::default()
    };
    let bed = Bed::with(|_| {}, config).await;
    let target = bed.target("m:v1").to_string();
    let podman = bed.state.path().join("auth.json");
    // user:pass
    let logins = serde_json::json!({"auths": {format!("{}/m", bed.registry.host()): {"auth": "dXNlcjpwYXNz"}}});
    std::fs::write(&podman, logins.to_string()).unwrap();
    let absent = bed.state.path().join("absent.pem");
    let ask = async |arguments: &[&str], certificates: Option<&str>| {
        let mut command = program(&bed);
        command.env("REGISTRY_AUTH_FILE", &podman).args(arguments);
        if let Some(name) = certificates {
            command.env(name, &absent);
        }
        let output = run(command).await;
        (output.status.code(), text(&output.stderr))
    };
    let pushed = ask(&["push", "hf://owner/model", &target], None).await;
    assert_eq!(pushed.0, Some(0), "{}", pushed.1);
    for name in ["REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"] {
        let (code, talk) = ask(&["inspect", &target], Some(name)).await;
        assert!(code == Some(1) && talk.contains("absent.pem"), "{name}: {talk}");
    }
}
