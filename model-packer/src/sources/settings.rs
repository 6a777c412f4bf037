//! Endpoints, tokens, certificates and switches, by the variables that users of the hubs know. Read once, at the start.

use std::path::{Path, PathBuf};

use reqwest::Url;

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
    pub(crate) model_scope: Url,
    pub(crate) model_scope_token: Option<Credential>,
    pub(crate) certificates: Option<PathBuf>,
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
}

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
        let hugging_face_home = hugging_face_home(variable);
        Ok(Self {
            hugging_face,
            hugging_face_token: hugging_face_token(variable, hugging_face_home.as_deref()),
            model_scope,
            model_scope_token: first(&["MODELSCOPE_API_TOKEN", "MODELSCOPE_SDK_TOKEN"])
                .and_then(|(value, origin)| credential(&value, origin)),
            certificates: first(&["REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE"])
                .map(|(path, _)| path.into()),
            offline: first(&["HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"])
                .filter(|(value, _)| is_true(value))
                .map(|(_, origin)| origin.to_owned()),
            cache: first(&["HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"])
                .map(|(path, _)| path.into())
                .or_else(|| hugging_face_home.map(|home| home.join("hub"))),
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

    /// The same with these certificates trusted besides the system's.
    #[must_use]
    pub fn with_certificates(self, file: PathBuf) -> Self {
        Self {
            certificates: Some(file),
            ..self
        }
    }
}

fn is_true(value: &str) -> bool {
    ["1", "true", "yes", "on"].contains(&value.to_ascii_lowercase().as_str())
}

/// A bare host means https, as the hubs' own clients read it.
fn endpoint(value: &str, origin: &'static str) -> Result<Url, SettingsError> {
    let refuse = || SettingsError::Endpoint {
        value: without_password(value),
        origin,
    };
    let text = if value.contains("://") {
        value.to_owned()
    } else {
        format!("https://{value}")
    };
    let url = Url::parse(text.trim_end_matches('/')).map_err(|_| refuse())?;
    let fits =
        matches!(url.scheme(), "http" | "https") && url.has_host() && url.password().is_none() && url.query().is_none();
    if fits { Ok(url) } else { Err(refuse()) }
}

fn without_password(value: &str) -> String {
    value
        .rsplit_once('@')
        .map_or_else(|| value.to_owned(), |(_, host)| format!("…@{host}"))
}

fn credential(value: &str, origin: &str) -> Option<Credential> {
    Some(Credential {
        secret: Secret::new(value)?,
        origin: origin.to_owned(),
    })
}

fn hugging_face_home(variable: &dyn Fn(&str) -> Option<String>) -> Option<PathBuf> {
    let below = |name: &str, rest: &str| {
        variable(name)
            .filter(|value| !value.is_empty())
            .map(|base| Path::new(&base).join(rest))
    };
    below("HF_HOME", "")
        .or_else(|| below("XDG_CACHE_HOME", "huggingface"))
        .or_else(|| below("HOME", ".cache/huggingface"))
}

fn hugging_face_token(variable: &dyn Fn(&str) -> Option<String>, home: Option<&Path>) -> Option<Credential> {
    let named = ["HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"]
        .iter()
        .find_map(|name| credential(&variable(name)?, name));
    if named.is_some() || variable("HF_HUB_DISABLE_IMPLICIT_TOKEN").is_some_and(|value| is_true(&value)) {
        return named;
    }
    let file = variable("HF_TOKEN_PATH")
        .map(PathBuf::from)
        .or_else(|| home.map(|home| home.join("token")))?;
    let text = std::fs::read_to_string(&file).ok()?;
    credential(&text, &format!("the file {}", file.display()))
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
        let error = settings(&[("HF_ENDPOINT", "ftp://user:pass@host")])
            .unwrap_err()
            .to_string();
        assert_eq!(error, "`…@host` from HF_ENDPOINT is no http or https address");
    }
}
