use fault_proxy::registry::{Auth, FakeRegistry, RegistryConfig};
use fault_proxy::{Fault, FaultRule};
use registry::ErrorKind;

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
        token_life: Duration::from_secs(1),
        ..RegistryConfig::default()
    };
    let registry = FakeRegistry::start(short).await.unwrap();
    registry.add_manifest("team/model", "v1", "application/json", "{}");
    let (client, model) = (client_with_login(&registry), reference(&registry, "team/model:v1"));
    client.get_manifest(&model).await.unwrap();
    tokio::time::sleep(Duration::from_millis(850)).await;
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

#[tokio::test]
async fn a_rate_limit_is_obeyed_and_a_long_one_is_told() {
    let (registry, model) = guarded(Auth::Open).await;
    let limited = |seconds: &str| Fault::Status {
        code: 429,
        headers: vec![("retry-after".to_owned(), seconds.to_owned())],
        body: String::new(),
    };
    registry.inject(FaultRule::once("GET", "/manifests/", limited("1")));
    let started = std::time::Instant::now();
    client(&registry).get_manifest(&model).await.unwrap();
    assert!(started.elapsed() >= Duration::from_secs(1));

    registry.inject(FaultRule::once("GET", "/manifests/", limited("3600")));
    let error = client(&registry).get_manifest(&model).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::RateLimited { retry_after: Some(wait), .. } if wait.as_secs() == 3600));
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
    assert!(
        error.hint().unwrap().contains("--plain-http"),
        "{} / {:?}",
        chain(&error),
        error.hint()
    );
}
