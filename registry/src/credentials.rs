//! Who asks. Secrets live in one type that shows nothing when it is printed.

use std::ffi::OsString;
use std::fmt;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

use docker_credential::{CredentialRetrievalError, DockerCredential};
use serde_json::Value;

use crate::error::ErrorKind;

/// A text that is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a secret.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("(secret)")
    }
}

/// Where credentials come from. They are read anew at each login, so that a helper or a rotated file can renew them.
#[derive(Debug, Clone, Default)]
pub enum Credentials {
    /// None.
    #[default]
    Anonymous,
    /// The same for every registry that asks.
    Basic {
        /// User name.
        username: String,
        /// Password or token.
        password: Secret,
    },
    /// A docker `config.json`, with its helpers. A file that does not exist holds no logins.
    DockerConfig(PathBuf),
    /// Several such files, docker's or podman's; the first one with a login for the repository counts.
    Files(Vec<PathBuf>),
    /// The text of one: what a pull secret of Kubernetes holds. Helpers it names are not started.
    DockerConfigJson(Secret),
}

/// What a registry or its token service is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Login {
    Basic {
        username: String,
        password: Secret,
    },
    /// A refresh token for the token service.
    Identity(Secret),
}

impl Credentials {
    /// Where podman and docker keep logins: the files that `REGISTRY_AUTH_FILE` and `DOCKER_CONFIG` lead to and no others; without
    /// these variables podman's files, then docker's.
    pub fn from_environment() -> Self {
        // The owner of a process as Linux shows it.
        let user = std::fs::metadata("/proc/self").ok().map(|process| process.uid());
        Self::Files(login_files(&|name| std::env::var_os(name), user))
    }

    /// The login for a repository, when there is one.
    pub(crate) async fn login(&self, host: &str, repository: &str) -> Result<Option<Login>, ErrorKind> {
        match self {
            Self::Anonymous => Ok(None),
            Self::Basic { username, password } => Ok(Some(Login::Basic {
                username: username.clone(),
                password: password.clone(),
            })),
            Self::DockerConfigJson(text) => without_helpers(text.reveal())
                .and_then(|text| find(&text, host, repository))
                .map_err(|problem| ErrorKind::Credentials {
                    host: host.to_owned(),
                    problem,
                }),
            Self::DockerConfig(path) => find_in_files(vec![path.clone()], host, repository).await,
            Self::Files(paths) => find_in_files(paths.clone(), host, repository).await,
        }
    }
}

/// In the order of containers-auth.json(5).
fn login_files(variable: &dyn Fn(&str) -> Option<OsString>, user: Option<u32>) -> Vec<PathBuf> {
    let folder = |name: &str| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let below = |name: &str, rest: &str| folder(name).map(|folder| folder.join(rest));
    let named = [folder("REGISTRY_AUTH_FILE"), below("DOCKER_CONFIG", "config.json")];
    if named.iter().any(Option::is_some) {
        return named.into_iter().flatten().collect();
    }
    let of_user = |user| PathBuf::from(format!("/run/containers/{user}/auth.json"));
    let known = [
        below("XDG_RUNTIME_DIR", "containers/auth.json").or_else(|| user.map(of_user)),
        below("XDG_CONFIG_HOME", "containers/auth.json").or_else(|| below("HOME", ".config/containers/auth.json")),
        below("HOME", ".docker/config.json"),
    ];
    known.into_iter().flatten().collect()
}

async fn find_in_files(paths: Vec<PathBuf>, host: &str, repository: &str) -> Result<Option<Login>, ErrorKind> {
    let (host_name, repository) = (host.to_owned(), repository.to_owned());
    // Reads files and may run helpers.
    let found = tokio::task::spawn_blocking(move || {
        let mut logins = paths.iter().map(|path| find_in_file(path, &host_name, &repository));
        logins.find_map(Result::transpose).transpose()
    });
    let found = found.await.unwrap_or_else(|error| Err(error.to_string()));
    found.map_err(|problem| ErrorKind::Credentials {
        host: host.to_owned(),
        problem,
    })
}

fn find_in_file(path: &std::path::Path, host: &str, repository: &str) -> Result<Option<Login>, String> {
    match std::fs::read_to_string(path) {
        Ok(text) => find(&text, host, repository).map_err(|problem| format!("{}: {problem}", path.display())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(format!("{}: {error}", path.display())),
    }
}

/// A secret comes from a tenant: what it names must not be started here.
fn without_helpers(text: &str) -> Result<String, String> {
    let mut config: Value = serde_json::from_str(text).map_err(|_| "the docker config is no JSON".to_owned())?;
    if let Some(object) = config.as_object_mut() {
        object.remove("credHelpers");
        object.remove("credsStore");
    }
    Ok(config.to_string())
}

/// The most specific entry wins: a path in the registry before the registry itself.
fn find(text: &str, host: &str, repository: &str) -> Result<Option<Login>, String> {
    for key in keys(host, repository) {
        match docker_credential::get_credential_from_reader(text.as_bytes(), &key) {
            Ok(DockerCredential::UsernamePassword(username, password))
                if username.is_empty() && password.is_empty() => {}
            Ok(DockerCredential::UsernamePassword(username, password)) => {
                return Ok(Some(Login::Basic {
                    username,
                    password: Secret(password),
                }));
            }
            Ok(DockerCredential::IdentityToken(token)) => return Ok(Some(Login::Identity(Secret(token)))),
            Err(CredentialRetrievalError::NoCredentialConfigured) => {}
            Err(CredentialRetrievalError::HelperFailure { helper, stdout, .. }) => {
                helper_without_login(&helper, &stdout)?;
            }
            Err(CredentialRetrievalError::ConfigReadError) => {
                return Err("the docker config is not understood".to_owned());
            }
            Err(other) => return Err(other.to_string()),
        }
    }
    Ok(None)
}

/// Helpers say on stdout that they know no login, and fail: that is an answer, not a failure.
fn helper_without_login(helper: &str, stdout: &str) -> Result<(), String> {
    let lower = stdout.to_lowercase();
    if lower.contains("credentials not found") || lower.contains("no credentials") {
        return Ok(());
    }
    // What a helper prints may hold a secret, so only its name is told.
    Err(format!("{helper} fails; run it by hand to see why"))
}

fn keys(host: &str, repository: &str) -> Vec<String> {
    let docker_hub = matches!(host, "docker.io" | "registry-1.docker.io" | "index.docker.io");
    // Podman knows Docker's registry by this name only.
    let names = [host].into_iter().chain(docker_hub.then_some("docker.io"));
    let mut keys = Vec::new();
    let mut path = repository;
    while !path.is_empty() {
        keys.extend(names.clone().map(|name| format!("{name}/{path}")));
        path = path.rsplit_once('/').map_or("", |(parent, _)| parent);
    }
    keys.extend([
        host.to_owned(),
        format!("https://{host}"),
        format!("https://{host}/v1/"),
        format!("https://{host}/v2/"),
    ]);
    keys.push(format!("http://{host}"));
    if docker_hub {
        keys.extend(["https://index.docker.io/v1/", "docker.io", "index.docker.io"].map(str::to_owned));
    }
    keys
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: &str = r#"{
        "auths": {
            "registry.local:5000": {"auth": "dXNlcjpwYXNz"},
            "registry.local:5000/team": {"username": "team", "password": "t:1"},
            "https://index.docker.io/v1/": {"auth": "aHViOmh1Yg=="},
            "token.local": {"auth": "", "identitytoken": "refresh"}
        },
        "credHelpers": {"helped.local": "does-not-exist"}
    }"#;

    fn basic(username: &str, password: &str) -> Login {
        Login::Basic {
            username: username.to_owned(),
            password: Secret::new(password),
        }
    }

    #[test]
    fn the_most_specific_entry_of_a_docker_config_is_taken() {
        let cases = [
            ("registry.local:5000", "other/model", Some(basic("user", "pass"))),
            ("registry.local:5000", "team/model", Some(basic("team", "t:1"))),
            ("registry.local:5000", "teamwork", Some(basic("user", "pass"))),
            ("registry-1.docker.io", "library/alpine", Some(basic("hub", "hub"))),
            ("token.local", "a", Some(Login::Identity(Secret::new("refresh")))),
            ("registry.local", "a", None),
            ("evil-registry.local:5000", "a", None),
        ];
        let config = without_helpers(CONFIG).unwrap();
        for (host, repository, login) in cases {
            assert_eq!(find(&config, host, repository).unwrap(), login, "{host}/{repository}");
        }
    }

    #[test]
    fn logins_are_looked_for_where_podman_and_docker_keep_them() {
        type Case = (&'static [(&'static str, &'static str)], &'static [&'static str]);
        let cases: [Case; 6] = [
            (
                &[("HOME", "/h"), ("XDG_RUNTIME_DIR", "/r")],
                &[
                    "/r/containers/auth.json",
                    "/h/.config/containers/auth.json",
                    "/h/.docker/config.json",
                ],
            ),
            (
                &[("HOME", "/h"), ("XDG_CONFIG_HOME", "/c"), ("XDG_RUNTIME_DIR", "")],
                &[
                    "/run/containers/7/auth.json",
                    "/c/containers/auth.json",
                    "/h/.docker/config.json",
                ],
            ),
            (&[("HOME", "/h"), ("DOCKER_CONFIG", "/d")], &["/d/config.json"]),
            (&[("HOME", "/h"), ("REGISTRY_AUTH_FILE", "/a.json")], &["/a.json"]),
            (
                &[("DOCKER_CONFIG", "/d"), ("REGISTRY_AUTH_FILE", "/a.json")],
                &["/a.json", "/d/config.json"],
            ),
            (&[], &["/run/containers/7/auth.json"]),
        ];
        for (variables, files) in cases {
            let variable = |name: &str| {
                variables
                    .iter()
                    .find(|(key, _)| *key == name)
                    .map(|(_, value)| value.into())
            };
            let found = login_files(&variable, Some(7));
            assert_eq!(
                found,
                files.iter().map(PathBuf::from).collect::<Vec<_>>(),
                "{variables:?}"
            );
        }
    }

    #[tokio::test]
    async fn the_first_file_with_a_login_counts_and_podman_names_repositories() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let podman = r#"{"auths": {"r.local/team/model": {"auth": "bW9kZWw6bQ=="}, "r.local/team": {"auth": "dGVhbTp0"},
            "docker.io/library": {"auth": "bGliOmw="}, "docker.io": {"auth": "aHViOmh1Yg=="}}}"#;
        let docker = r#"{"auths": {"r.local": {"auth": "dXNlcjpwYXNz"}, "r.local/team": {"auth": "eDp4"}}}"#;
        let credentials = Credentials::Files(vec![
            folder.path().join("absent.json"),
            file("auth.json", podman),
            file("config.json", docker),
        ]);
        for (host, repository, login) in [
            ("r.local", "team/model", Some(basic("model", "m"))),
            ("r.local", "team/model/sub", Some(basic("model", "m"))),
            ("r.local", "team/models", Some(basic("team", "t"))),
            ("r.local", "teams", Some(basic("user", "pass"))),
            ("registry-1.docker.io", "library/alpine", Some(basic("lib", "l"))),
            ("registry-1.docker.io", "other/alpine", Some(basic("hub", "hub"))),
            ("other.local", "team", None),
        ] {
            assert_eq!(
                credentials.login(host, repository).await.unwrap(),
                login,
                "{host}/{repository}"
            );
        }
        let broken = Credentials::Files(vec![file("broken.json", "{"), file("good.json", docker)]);
        let error = broken.login("r.local", "a").await.unwrap_err().to_string();
        assert!(error.contains("broken.json"), "{error}");
    }

    #[tokio::test]
    async fn a_tenants_pull_secret_starts_no_helper() {
        let credentials = Credentials::DockerConfigJson(Secret::new(CONFIG));
        assert_eq!(credentials.login("helped.local", "a").await.unwrap(), None);
        assert!(
            find(CONFIG, "helped.local", "a").is_err(),
            "the same file of the user does ask its helper"
        );
    }

    #[tokio::test]
    async fn a_config_that_is_not_there_holds_no_logins_and_a_broken_one_is_an_error() {
        let absent = Credentials::DockerConfig("/nonexistent/config.json".into());
        assert_eq!(absent.login("a.local", "b").await.unwrap(), None);
        let broken = Credentials::DockerConfigJson(Secret::new("{\"auths\": hunter2"));
        let error = broken.login("a.local", "b").await.unwrap_err().to_string();
        assert!(error.contains("a.local") && !error.contains("hunter2"), "{error}");
    }

    #[test]
    fn a_secret_is_not_printed() {
        let credentials = Credentials::Basic {
            username: "u".to_owned(),
            password: Secret::new("hunter2"),
        };
        assert!(!format!("{credentials:?}").contains("hunter2"));
    }
}
