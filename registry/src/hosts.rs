//! `hosts.toml`: where the owner of a node has told the container runtime which mirrors to ask. Read here too, so that mirrors are
//! set up once for images and models.

use std::path::Path;

use http::header::{HeaderName, HeaderValue};
use reqwest::Url;
use toml_edit::{DocumentMut, Item, TableLike};

use crate::mirror::Endpoint;

/// The mirrors of one registry, in the order in which they are to be asked.
#[derive(Debug, Clone, Default)]
pub struct Hosts {
    /// Those that may be asked for blobs.
    pub endpoints: Vec<Endpoint>,
    /// Those that are left out, with the reason.
    pub skipped: Vec<SkippedHost>,
}

/// A mirror of the file that is not used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkippedHost {
    /// As the file spells it.
    pub host: String,
    /// Why.
    pub reason: &'static str,
}

/// A file that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum HostsError {
    /// It is there and cannot be read.
    #[error("cannot read {path}")]
    Read {
        /// The file.
        path: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// It is no TOML. The message has line and column.
    #[error("{path} is no TOML")]
    Form {
        /// The file.
        path: String,
        /// Where and why.
        #[source]
        source: Box<toml_edit::TomlError>,
    },
}

impl Hosts {
    /// The file for a registry under the runtime's `config_path`, else the one for all registries; nothing when neither is there.
    pub fn find(config_path: &Path, registry: &str) -> Result<Self, HostsError> {
        let names = [
            registry.to_owned(),
            registry.replace(':', "_") + "_",
            "_default".to_owned(),
        ];
        for name in names {
            let path = config_path.join(name).join("hosts.toml");
            match std::fs::read_to_string(&path) {
                Ok(text) => return Self::parse(&text, &path.display().to_string()),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(source) => {
                    return Err(HostsError::Read {
                        path: path.display().to_string(),
                        source,
                    });
                }
            }
        }
        Ok(Self::default())
    }

    /// The mirrors of a file's text; `path` is for messages.
    pub fn parse(text: &str, path: &str) -> Result<Self, HostsError> {
        let form = |source| HostsError::Form {
            path: path.to_owned(),
            source: Box::new(source),
        };
        let document: DocumentMut = text.parse().map_err(form)?;
        let mut hosts = Self::default();
        let tables = document.get("host").and_then(Item::as_table_like);
        for (host, item) in tables.into_iter().flat_map(TableLike::iter) {
            match endpoint_of(host, item) {
                Ok(endpoint) => hosts.endpoints.push(endpoint),
                Err(reason) => hosts.skipped.push(SkippedHost {
                    host: host.to_owned(),
                    reason,
                }),
            }
        }
        Ok(hosts)
    }
}

fn endpoint_of(host: &str, item: &Item) -> Result<Endpoint, &'static str> {
    let table = item.as_table_like().ok_or("it is no table")?;
    let flag = |name: &str| table.get(name).and_then(Item::as_bool).unwrap_or(false);
    if !can_pull(table) {
        return Err("it is not for pulling");
    }
    // The bytes are proven by their digest, but a login or a private model's bytes would go to whoever answers.
    if flag("skip_verify") {
        return Err("it asks to skip the check of the certificate");
    }
    if table.contains_key("client") {
        return Err("it needs a client certificate");
    }
    if table.contains_key("ca") {
        return Err("it has its own certificate authority");
    }
    let address = if host.contains("://") {
        host.to_owned()
    } else {
        format!("https://{host}")
    };
    let mut endpoint = Endpoint::new(Url::parse(&address).map_err(|_| "it is no address")?);
    endpoint.api_root = flag("override_path");
    for (name, value) in table
        .get("header")
        .and_then(Item::as_table_like)
        .into_iter()
        .flat_map(TableLike::iter)
    {
        let name = HeaderName::try_from(name).map_err(|_| "one of its headers has no valid name")?;
        for value in texts(value) {
            let value = HeaderValue::from_str(value).map_err(|_| "one of its headers has no valid value")?;
            endpoint.headers.append(name.clone(), value);
        }
    }
    Ok(endpoint)
}

/// Without a list of capabilities a host has all of them.
fn can_pull(table: &dyn TableLike) -> bool {
    table
        .get("capabilities")
        .is_none_or(|capabilities| texts(capabilities).contains(&"pull"))
}

/// A text or a list of texts.
fn texts(item: &Item) -> Vec<&str> {
    match item.as_array() {
        Some(list) => list.iter().filter_map(toml_edit::Value::as_str).collect(),
        None => item.as_str().into_iter().collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"
server = "https://registry.example"

[host."http://127.0.0.1:4001"]
  capabilities = ["pull", "resolve"]
  [host."http://127.0.0.1:4001".header]
    X-Dragonfly-Registry = ["https://registry.example"]

[host."https://harbor.example/v2/proxy-cache"]
  capabilities = ["pull"]
  override_path = true

[host."mirror.example:8443"]

[host."https://push-only.example"]
  capabilities = ["push"]

[host."https://unchecked.example"]
  skip_verify = true
"#;

    #[test]
    fn mirrors_are_asked_in_the_order_of_the_file() {
        let hosts = Hosts::parse(TEXT, "hosts.toml").unwrap();
        let seen: Vec<(&str, bool, usize)> = hosts
            .endpoints
            .iter()
            .map(|endpoint| (endpoint.base.as_str(), endpoint.api_root, endpoint.headers.len()))
            .collect();
        let expected = [
            ("http://127.0.0.1:4001/", false, 1),
            ("https://harbor.example/v2/proxy-cache", true, 0),
            ("https://mirror.example:8443/", false, 0),
        ];
        assert_eq!(seen, expected);
        assert!(
            hosts.endpoints.iter().all(|endpoint| !endpoint.credentials),
            "no mirror is shown a login"
        );
        let skipped: Vec<&str> = hosts.skipped.iter().map(|skipped| skipped.host.as_str()).collect();
        assert_eq!(skipped, ["https://push-only.example", "https://unchecked.example"]);
    }

    #[test]
    fn the_file_of_the_registry_comes_before_the_one_for_all() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, host: &str| {
            std::fs::create_dir_all(folder.path().join(name)).unwrap();
            std::fs::write(
                folder.path().join(name).join("hosts.toml"),
                format!("[host.\"https://{host}\"]\n"),
            )
            .unwrap();
        };
        let first = |registry: &str| {
            let hosts = Hosts::find(folder.path(), registry).unwrap();
            hosts
                .endpoints
                .first()
                .and_then(|endpoint| endpoint.base.host_str().map(str::to_owned))
        };
        assert_eq!(first("registry.example:5000"), None);
        write("_default", "all.example");
        write("registry.example_5000_", "own.example");
        assert_eq!(first("registry.example:5000").as_deref(), Some("own.example"));
        assert_eq!(first("other.example").as_deref(), Some("all.example"));
    }

    #[test]
    fn a_broken_file_is_named_with_the_place() {
        let error = Hosts::parse("[host.\n", "/etc/hosts.toml").unwrap_err();
        let cause = std::error::Error::source(&error).unwrap().to_string();
        assert!(
            error.to_string().contains("/etc/hosts.toml") && cause.contains("line 1"),
            "{error}: {cause}"
        );
    }
}
