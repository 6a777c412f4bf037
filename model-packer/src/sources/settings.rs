//! Endpoints, tokens, certificates and switches, by the variables that users of the hubs know. Read once, at the start.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use reqwest::Url;

use super::SourceAddress;
use super::certificates::TrustedCertificates;
use super::home::{Variables, hugging_face_home, path_in};
use super::retry::RetryPolicy;
use super::secret::Secret;

/// A token and where it was found, for messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Credential {
    pub(crate) secret: Secret,
    pub(crate) origin: String,
}

/// How the hubs are reached.
#[derive(Debug, Clone)]
pub struct HubSettings {
    pub(crate) hugging_face: Url,
    pub(crate) hugging_face_token: Option<Credential>,
    /// Why there is no token although the user has named a file, or has one.
    pub(crate) hugging_face_token_problem: Option<String>,
    pub(crate) model_scope: Url,
    pub(crate) model_scope_token: Option<Credential>,
    pub(crate) certificates: Option<TrustedCertificates>,
    pub(crate) offline: Option<String>,
    pub(crate) cache: Option<PathBuf>,
    /// The one policy for waiting.
    pub retry: RetryPolicy,
    /// Entries after which ModelScope cuts a listing without a sign.
    pub listing_cap: usize,
}

/// Settings that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// No address.
    #[error("`{value}` from {origin} is no http or https address")]
    Endpoint {
        /// What was written.
        value: String,
        /// Flag or variable.
        origin: &'static str,
    },
    /// An address with more than an endpoint has.
    #[error("`{value}` from {origin} holds {what}, which the address of a hub must not")]
    Endowed {
        /// What was written, without it.
        value: String,
        /// Flag or variable.
        origin: &'static str,
        /// What is too much.
        what: &'static str,
    },
}

impl SettingsError {
    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Endpoint { .. } => "write scheme, host and port, such as https://mirror.example:8443",
            Self::Endowed { what: LOGIN, .. } => {
                "an address is written into the artifact: give the token in HF_TOKEN (Hugging Face) or MODELSCOPE_API_TOKEN"
            }
            Self::Endowed { .. } => "write scheme, host, port and path only",
        }
    }
}

const LOGIN: &str = "a user name or a password";
const HUGGING_FACE: &str = "https://huggingface.co";
const MODEL_SCOPE: &str = "https://www.modelscope.cn";
const MODEL_SCOPE_INTERNATIONAL: &str = "https://www.modelscope.ai";

impl HubSettings {
    /// From the environment, given as a function so that tests need not change the real one.
    pub fn from_environment(variable: &dyn Fn(&str) -> Option<String>) -> Result<Self, SettingsError> {
        let first = |names: &[&'static str]| {
            names.iter().find_map(|name| {
                variable(name)
                    .filter(|value| !value.is_empty())
                    .map(|value| (value, *name))
            })
        };
        let hugging_face = match first(&["HF_ENDPOINT"]) {
            Some((value, origin)) => endpoint(&value, origin)?,
            None => endpoint(HUGGING_FACE, "the default")?,
        };
        let international = variable("MODELSCOPE_PREFER_AI_SITE").is_some_and(|value| is_true(&value));
        let model_scope = match first(&["MODELSCOPE_ENDPOINT", "MODELSCOPE_DOMAIN"]) {
            Some((value, origin)) => endpoint(&value, origin)?,
            None if international => endpoint(MODEL_SCOPE_INTERNATIONAL, "the default")?,
            None => endpoint(MODEL_SCOPE, "the default")?,
        };
        let home = hugging_face_home(variable);
        let (hugging_face_token, hugging_face_token_problem) = match hugging_face_token(variable, home.as_deref()) {
            Ok(token) => (token, None),
            Err(problem) => (None, Some(problem)),
        };
        Ok(Self {
            hugging_face,
            hugging_face_token,
            hugging_face_token_problem,
            model_scope,
            model_scope_token: first(&["MODELSCOPE_API_TOKEN", "MODELSCOPE_SDK_TOKEN"])
                .and_then(|(value, origin)| credential(&value, origin)),
            certificates: TrustedCertificates::from_environment(variable),
            offline: first(&["HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"])
                .filter(|(value, _)| is_true(value))
                .map(|(_, origin)| origin.to_owned()),
            cache: path_in(variable, "HF_HUB_CACHE")
                .or_else(|| path_in(variable, "HUGGINGFACE_HUB_CACHE"))
                .or_else(|| home.map(|home| home.join("hub"))),
            retry: RetryPolicy::default(),
            listing_cap: 3000,
        })
    }

    /// The same with another Hugging Face endpoint.
    pub fn with_hugging_face(self, value: &str) -> Result<Self, SettingsError> {
        Ok(Self {
            hugging_face: endpoint(value, "--hf-endpoint")?,
            ..self
        })
    }

    /// The same with another ModelScope endpoint.
    pub fn with_model_scope(self, value: &str) -> Result<Self, SettingsError> {
        Ok(Self {
            model_scope: endpoint(value, "--ms-endpoint")?,
            ..self
        })
    }

    /// What the user should know before this source is asked.
    pub fn warning(&self, address: &SourceAddress) -> Option<String> {
        self.hugging_face_token_problem
            .clone()
            .filter(|_| matches!(address, SourceAddress::HuggingFace { .. }))
    }

    /// The same with these certificates trusted besides the system's.
    #[must_use]
    pub fn with_certificates(self, file: PathBuf) -> Self {
        Self {
            certificates: Some(TrustedCertificates::of_flag(file)),
            ..self
        }
    }
}

fn is_true(value: &str) -> bool {
    ["1", "true", "yes", "on"].contains(&value.to_ascii_lowercase().as_str())
}

/// A bare host means https, as the hubs' own clients read it.
fn endpoint(value: &str, origin: &'static str) -> Result<Url, SettingsError> {
    let value = value.trim();
    let text = if value.contains("://") {
        value.to_owned()
    } else {
        format!("https://{value}")
    };
    let refuse = || SettingsError::Endpoint {
        value: without_secrets(value),
        origin,
    };
    let url = Url::parse(text.trim_end_matches('/')).map_err(|_| refuse())?;
    if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
        return Err(refuse());
    }
    let too_much = [
        (!url.username().is_empty() || url.password().is_some(), LOGIN),
        (url.query().is_some(), "a query"),
        (url.fragment().is_some(), "a fragment"),
    ];
    match too_much.into_iter().find(|(present, _)| *present) {
        None => Ok(url),
        Some((_, what)) => Err(SettingsError::Endowed {
            value: without_secrets(value),
            origin,
            what,
        }),
    }
}

/// Tokens are written before the host, and into queries.
fn without_secrets(value: &str) -> String {
    let (address, rest) = value.find(['?', '#']).map_or((value, ""), |at| (&value[..at], "…"));
    let host = address
        .rsplit_once('@')
        .map_or_else(|| address.to_owned(), |(_, host)| format!("…@{host}"));
    host + rest
}

fn credential(value: &str, origin: &str) -> Option<Credential> {
    Some(Credential {
        secret: Secret::new(value)?,
        origin: origin.to_owned(),
    })
}

/// No token is fine, unless the user has named a file for it or has one that cannot be read.
fn hugging_face_token(variable: Variables<'_>, home: Option<&Path>) -> Result<Option<Credential>, String> {
    let given = ["HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"]
        .iter()
        .find_map(|name| credential(&variable(name)?, name));
    if given.is_some() || variable("HF_HUB_DISABLE_IMPLICIT_TOKEN").is_some_and(|value| is_true(&value)) {
        return Ok(given);
    }
    let named = path_in(variable, "HF_TOKEN_PATH");
    let Some(file) = named.clone().or_else(|| home.map(|home| home.join("token"))) else {
        return Ok(None);
    };
    let origin = named.as_ref().map_or("", |_| " from HF_TOKEN_PATH");
    let place = file.display();
    match std::fs::read_to_string(&file) {
        Ok(text) => match credential(&text, &format!("the file {place}")) {
            None if named.is_some() => Err(format!("no token is sent: {place}{origin} is empty")),
            token => Ok(token),
        },
        Err(error) if named.is_none() && matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            Ok(None)
        }
        Err(error) => Err(format!("no token is sent: {place}{origin} cannot be read: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(variables: &[(&str, &str)]) -> Result<HubSettings, SettingsError> {
        HubSettings::from_environment(&|name| {
            variables
                .iter()
                .find(|(key, _)| *key == name)
                .map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn endpoints_and_tokens_come_from_the_known_variables() {
        let set = settings(&[
            ("HF_ENDPOINT", "https://hf-mirror.example/"),
            ("HF_TOKEN", "hf_secret\n"),
            ("MODELSCOPE_DOMAIN", "modelscope.example"),
            ("MODELSCOPE_SDK_TOKEN", "ms_secret"),
        ])
        .unwrap();
        assert_eq!(set.hugging_face.as_str(), "https://hf-mirror.example/");
        assert_eq!(set.model_scope.as_str(), "https://modelscope.example/");
        assert_eq!(set.hugging_face_token.as_ref().unwrap().origin, "HF_TOKEN");
        assert_eq!(set.model_scope_token.as_ref().unwrap().origin, "MODELSCOPE_SDK_TOKEN");
        let shown = format!("{set:?}");
        assert!(!shown.contains("hf_secret") && !shown.contains("ms_secret"));
    }

    #[test]
    fn an_implicit_token_can_be_switched_off_and_a_bad_endpoint_is_named() {
        let folder = std::env::temp_dir().join(format!("packer-token-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("token"), "hf_file\n").unwrap();
        let home = folder.to_str().unwrap();
        assert!(settings(&[("HF_HOME", home)]).unwrap().hugging_face_token.is_some());
        let off = settings(&[("HF_HOME", home), ("HF_HUB_DISABLE_IMPLICIT_TOKEN", "1")]).unwrap();
        assert_eq!(off.hugging_face_token, None);
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn an_endpoint_is_an_address_and_nothing_besides() {
        for (value, problem) in [
            (
                "ftp://user:pass@host",
                "`…@host` from HF_ENDPOINT is no http or https address",
            ),
            (
                "https://sekret@host",
                "`…@host` from HF_ENDPOINT holds a user name or a password, which the address of a hub must not",
            ),
            (
                "sekret@host/hf",
                "`…@host/hf` from HF_ENDPOINT holds a user name or a password, which the address of a hub must not",
            ),
            (
                "https://:sekret@host",
                "`…@host` from HF_ENDPOINT holds a user name or a password, which the address of a hub must not",
            ),
            (
                "http://host/?token=sekret",
                "`http://host/…` from HF_ENDPOINT holds a query, which the address of a hub must not",
            ),
            (
                "http://host#sekret",
                "`http://host…` from HF_ENDPOINT holds a fragment, which the address of a hub must not",
            ),
        ] {
            let error = settings(&[("HF_ENDPOINT", value)]).unwrap_err();
            assert_eq!(error.to_string(), problem);
            assert_eq!(
                error.hint().contains("HF_TOKEN"),
                problem.contains("user name"),
                "{value}"
            );
        }
        let set = settings(&[("HF_ENDPOINT", "https://mirror.example/hf/")]).unwrap();
        assert_eq!(set.hugging_face.as_str(), "https://mirror.example/hf");
    }

    #[test]
    fn a_named_token_file_is_found_below_home_and_missed_aloud() {
        let folder = std::env::temp_dir().join(format!("packer-home-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("sub")).unwrap();
        std::fs::write(folder.join("sub/token"), "hf_file").unwrap();
        std::fs::write(folder.join("sub/empty"), "\n").unwrap();
        let home = ("HOME", folder.to_str().unwrap());
        let (hub, scope) = ("hf://a/b".parse().unwrap(), "ms://a/b".parse().unwrap());
        // Variable, whether there is a token, and what is said about it.
        for (name, value, found, said) in [
            ("HF_TOKEN_PATH", "~/sub/token", true, ""),
            ("HF_HOME", "~/sub", true, ""),
            ("HF_HOME", "$HOME/sub", true, ""),
            ("HF_HOME", "~/nowhere", false, ""),
            ("HF_TOKEN_PATH", "", false, ""),
            (
                "HF_TOKEN_PATH",
                "~/sub/missing",
                false,
                "sub/missing from HF_TOKEN_PATH cannot be read",
            ),
            (
                "HF_TOKEN_PATH",
                "~/sub/empty",
                false,
                "sub/empty from HF_TOKEN_PATH is empty",
            ),
        ] {
            let set = settings(&[home, (name, value)]).unwrap();
            assert_eq!(set.hugging_face_token.is_some(), found, "{name} {value}");
            let warning = set.warning(&hub).unwrap_or_default();
            assert!(
                warning.contains(said) && warning.is_empty() == said.is_empty(),
                "{name} {value}: {warning}"
            );
            assert_eq!(set.warning(&scope), None);
        }
        let cache = settings(&[home, ("HF_HUB_CACHE", "~/hub")]).unwrap().cache;
        assert_eq!(cache, Some(folder.join("hub")));
        std::fs::remove_dir_all(folder).unwrap();
    }
}
