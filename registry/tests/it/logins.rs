use fault_proxy::registry::{Auth, FakeRegistry, RegistryConfig};
use fault_proxy::{Fault, FaultRule};
use registry::{ErrorKind, WaitObserver};

use super::*;

async fn guarded(auth: Auth) -> (FakeRegistry, Reference) {
    let registry = FakeRegistry::start(RegistryConfig {
        auth,
        ..RegistryConfig::default()
    })
    .await
    .unwrap();
    registry.add_manifest("team/model", "v1", "application/vnd.oci.image.manifest.v1+json", "{}");
    let model = reference(&registry, "team/model:v1");
    (registry, model)
}

fn basic() -> Auth {
    Auth::Basic {
        username: "user".to_owned(),
        password: "pass".to_owned(),
    }
}

#[tokio::test]
async fn passwords_and_tokens_open_the_registry() {
    for auth in [basic(), Auth::bearer()] {
        let (registry, model) = guarded(auth).await;
        client_with_login(&registry).get_manifest(&model).await.unwrap();
    }
}

#[tokio::test]
async fn without_a_login_the_error_says_how_to_get_one() {
    for auth in [basic(), Auth::bearer()] {
        let (registry, model) = guarded(auth).await;
        let error = client(&registry).get_manifest(&model).await.unwrap_err();
        assert!(
            matches!(
                error.kind(),
                ErrorKind::Unauthorized {
                    had_credentials: false,
                    ..
                }
            ),
            "{}",
            chain(&error)
        );
        assert!(error.hint().unwrap().contains("docker login"));
    }
}

#[tokio::test]
async fn a_wrong_password_is_refused_and_not_told() {
    for auth in [basic(), Auth::bearer()] {
        let (registry, model) = guarded(auth).await;
        let credentials = Credentials::Basic {
            username: "user".to_owned(),
            password: Secret::new("hunter2"),
        };
        let client = Client::new(ClientConfig {
            credentials,
            ..config(&registry.host())
        })
        .unwrap();
        let error = client.get_manifest(&model).await.unwrap_err();
        assert!(
            matches!(
                error.kind(),
                ErrorKind::Unauthorized {
                    had_credentials: true,
                    ..
                }
            ),
            "{}",
            chain(&error)
        );
        assert!(!format!("{} {error:?} {client:?}", chain(&error)).contains("hunter2"));
        assert!(
            registry.recorded().len() <= 4,
            "a refusal is not repeated: {:?}",
            registry.recorded()
        );
    }
}

#[tokio::test]
async fn an_identity_token_of_a_docker_config_is_exchanged() {
    let (registry, model) = guarded(Auth::bearer()).await;
    let text = format!(
        r#"{{"auths": {{"{}": {{"auth": "", "identitytoken": "pass"}}}}}}"#,
        registry.host()
    );
    let credentials = Credentials::DockerConfigJson(Secret::new(text));
    let client = Client::new(ClientConfig {
        credentials,
        ..config(&registry.host())
    })
    .unwrap();
    client.get_manifest(&model).await.unwrap();
    assert_eq!(registry.count("POST", "/token"), 1);
}

#[tokio::test]
async fn readers_that_wait_for_a_token_share_one() {
    let (registry, model) = guarded(Auth::bearer()).await;
    let client = client_with_login(&registry);
    let readers = (0..20).map(|_| client.get_manifest(&model));
    for outcome in futures::future::join_all(readers).await {
        outcome.unwrap();
    }
    assert_eq!(registry.tokens_issued(), 1);
}

#[tokio::test]
async fn a_token_is_renewed_before_it_ends_and_after_it_was_withdrawn() {
    let auth = Auth::bearer();
    let short = RegistryConfig {
        auth,
        token_life: Duration::from_mins(1),
        ..RegistryConfig::default()
    };
    let registry = FakeRegistry::start(short).await.unwrap();
    registry.add_manifest("team/model", "v1", "application/json", "{}");
    let (client, model) = (client_with_login(&registry), reference(&registry, "team/model:v1"));
    client.get_manifest(&model).await.unwrap();
    // Nothing is under way while the clock is stopped.
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(49)).await;
    tokio::time::resume();
    let refusals = registry.recorded().len();
    client.get_manifest(&model).await.unwrap();
    assert_eq!(
        registry.recorded().len() - refusals,
        2,
        "a token and the manifest, and no refusal between"
    );
    registry.expire_tokens();
    client.get_manifest(&model).await.unwrap();
    assert_eq!(registry.tokens_issued(), 3);
}

#[tokio::test]
async fn an_anonymous_token_reads_and_does_not_write() {
    let Auth::Bearer { username, password, .. } = Auth::bearer() else {
        unreachable!()
    };
    let auth = Auth::Bearer {
        username,
        password,
        anonymous_pull: true,
        expired_as_403: false,
    };
    let (registry, model) = guarded(auth).await;
    let client = client(&registry);
    client.get_manifest(&model).await.unwrap();
    let error = client
        .put_manifest(&model, "application/json", b"{}")
        .await
        .unwrap_err();
    assert!(error.is_unauthorized(), "{}", chain(&error));
}

/// Tokens are given to anybody who asks: one is no login.
#[tokio::test]
async fn who_never_logged_in_is_not_told_to_log_in_again() {
    let Auth::Bearer { username, password, .. } = Auth::bearer() else {
        unreachable!()
    };
    let auth = Auth::Bearer {
        username,
        password,
        anonymous_pull: true,
        expired_as_403: false,
    };
    let (registry, model) = guarded(auth).await;
    // A 401 is answered with another token first.
    for (code, times, login, hint) in [
        (401, 2, false, "log in (`docker login"),
        (403, 1, false, "no credentials were given: log in (`docker login"),
        (401, 2, true, "log in again"),
        (403, 1, true, "ask the registry's owner"),
    ] {
        let client = if login {
            client_with_login(&registry)
        } else {
            client(&registry)
        };
        client.get_manifest(&model).await.unwrap();
        let refusal = Fault::Status {
            code,
            headers: Vec::new(),
            body: String::new(),
        };
        registry.inject(FaultRule::once("PUT", "/manifests/", refusal).times(times));
        let error = client
            .put_manifest(&model, "application/json", b"{}")
            .await
            .unwrap_err();
        let told = error.hint().unwrap();
        assert!(told.starts_with(hint), "{code} {login}: {} / {told}", chain(&error));
        if let ErrorKind::Unauthorized { had_credentials, .. } = error.kind() {
            assert_eq!(*had_credentials, login);
        }
    }
}

#[tokio::test]
async fn a_wait_that_is_asked_for_is_obeyed_and_told_and_one_that_is_too_long_is_an_error() {
    let (registry, model) = guarded(Auth::Open).await;
    let told = Arc::new(Mutex::new(Vec::new()));
    let heard = told.clone();
    let client = Client::new(ClientConfig {
        on_wait: WaitObserver::new(move |cause, wait| heard.lock().unwrap().push((cause.to_string(), wait.as_secs()))),
        ..config(&registry.host())
    })
    .unwrap();
    for code in [429, 503] {
        let asks = |seconds: &str| Fault::Status {
            code,
            headers: vec![("retry-after".to_owned(), seconds.to_owned())],
            body: String::new(),
        };
        registry.inject(FaultRule::once("GET", "/manifests/", asks("1")));
        let started = std::time::Instant::now();
        client.get_manifest(&model).await.unwrap();
        assert!(started.elapsed() >= Duration::from_secs(1), "{code}");

        registry.inject(FaultRule::once("GET", "/manifests/", asks("3600")));
        let error = client.get_manifest(&model).await.unwrap_err();
        assert_eq!(error.kind().retry_after(), Some(Duration::from_hours(1)));
        assert!(chain(&error).ends_with("asks to wait 3600 s"), "{}", chain(&error));
    }
    let told = told.lock().unwrap();
    let waits: Vec<u64> = told.iter().map(|(_, wait)| *wait).collect();
    assert_eq!(waits, [1, 1], "{told:?}");
}

#[tokio::test]
async fn a_registry_that_is_not_there_is_named_with_what_to_check() {
    let nobody = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let model: Reference = format!("{nobody}/team/model:v1").parse().unwrap();
    let error = Client::new(config(&nobody.to_string()))
        .unwrap()
        .get_manifest(&model)
        .await
        .unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Unreachable { address, .. } if *address == format!("http://{nobody}")));
    assert!(error.hint().unwrap().contains("check that the registry runs"));
}

#[tokio::test]
async fn https_to_a_plain_registry_says_that_it_may_be_plain() {
    let (registry, model) = guarded(Auth::Open).await;
    let client = Client::new(ClientConfig {
        plain_http: Vec::new(),
        ..config(&registry.host())
    })
    .unwrap();
    let error = client.get_manifest(&model).await.unwrap_err();
    let hint = error.hint().unwrap();
    assert!(
        hint.contains("--plain-http") && hint.contains("--ca-file"),
        "{} / {:?}",
        chain(&error),
        error.hint()
    );
}

/// What Go's servers, nginx and a bare TLS library send to plain http, for GET and for HEAD.
#[tokio::test]
async fn plain_http_to_a_port_of_https_says_so() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let go = "HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n";
    let nginx = "HTTP/1.1 400 Bad Request\r\nServer: nginx\r\nContent-Length: 101\r\nConnection: close\r\n\r\n\
        <html><head><title>400 The plain HTTP request was sent to HTTPS port</title></head><body></body></html>";
    let alert = "\x15\x03\x01\x00\x02\x02\x46";
    for (answer, read) in [(go, true), (go, false), (nginx, true), (alert, true), (alert, false)] {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let host = listener.local_addr().unwrap().to_string();
        let server = tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let _ = stream.read(&mut [0; 4096]).await;
                let _ = stream.write_all(answer.as_bytes()).await;
            }
        });
        let (client, model): (_, Reference) = (
            Client::new(config(&host)).unwrap(),
            format!("{host}/team/model:v1").parse().unwrap(),
        );
        let error = if read {
            client.get_manifest(&model).await.unwrap_err()
        } else {
            client
                .blob_exists(&model, &fault_proxy::registry::sha256(b""))
                .await
                .unwrap_err()
        };
        let hint = error.hint().unwrap_or_default();
        assert!(
            hint.ends_with("leave --plain-http out"),
            "{answer}: {} / {hint}",
            chain(&error)
        );
        server.abort();
    }
}

#[tokio::test]
async fn a_registry_that_only_reads_says_so() {
    let (registry, model) = guarded(Auth::Open).await;
    let refusal = Fault::Status {
        code: 405,
        headers: Vec::new(),
        body: r#"{"errors":[{"code":"UNSUPPORTED","message":"The operation is unsupported."}]}"#.to_owned(),
    };
    for method in ["POST", "PUT", "PATCH", "DELETE"] {
        registry.inject(FaultRule::once(method, "/v2/", refusal.clone()).always());
    }
    let client = client(&registry);
    let blob = bytes(100);
    let digest = fault_proxy::registry::sha256(&blob);
    let options = PushOptions::default();
    for error in [
        client
            .push_blob(&model, &digest, 100, &blob, &options)
            .await
            .unwrap_err(),
        client
            .put_manifest(&model, "application/json", b"{}")
            .await
            .unwrap_err(),
        client.delete_manifest(&model).await.unwrap_err(),
    ] {
        let hint = error.hint().unwrap_or_default();
        assert!(hint.contains("only reads"), "{} / {hint}", chain(&error));
    }
}
