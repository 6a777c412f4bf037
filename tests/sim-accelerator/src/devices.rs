//! What is announced: the resource's name, its devices, and the mounts of an allocation.

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use thiserror::Error;

use crate::api;

/// The name of an extended resource: `domain/name`, with a domain that is not Kubernetes' own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceName(String);

/// Why a text is not the name of an extended resource.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum ResourceNameError {
    /// No domain, an empty part, or more than one slash.
    #[error("{0:?} is not of the form domain/name, such as enflame.com/gcu")]
    Form(String),
    /// The kubelet refuses plugins for its own domain.
    #[error("{0:?} is in a domain that Kubernetes keeps for itself")]
    Reserved(String),
}

impl ResourceName {
    /// The part after the slash.
    pub fn short(&self) -> &str {
        self.0.rsplit('/').next().unwrap_or(&self.0)
    }

    /// The name of the plugin's socket in the device plugin directory.
    pub fn socket_name(&self) -> String {
        format!("sim-{}.sock", self.0.replace('/', "-"))
    }
}

impl FromStr for ResourceName {
    type Err = ResourceNameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let form = || ResourceNameError::Form(text.to_owned());
        let (domain, name) = text.split_once('/').ok_or_else(form)?;
        if !is_label_text(domain) || !is_label_text(name) {
            return Err(form());
        }
        if domain == "kubernetes.io" || domain.ends_with(".kubernetes.io") {
            return Err(ResourceNameError::Reserved(text.to_owned()));
        }
        Ok(Self(text.to_owned()))
    }
}

/// The characters that Kubernetes allows in both halves of a qualified name.
fn is_label_text(text: &str) -> bool {
    let inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    text.len() <= 63 && text.chars().all(inner) && edge(text.chars().next()) && edge(text.chars().last())
}

impl fmt::Display for ResourceName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// A host path that each allocation mounts into the container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostMount {
    /// The path on the node.
    pub host: PathBuf,
    /// The path in the container.
    pub container: PathBuf,
    /// Whether the container may not write there.
    pub read_only: bool,
}

/// Why a text is not a mount.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("{0:?} is not a mount: write HOST:CONTAINER or HOST:CONTAINER:ro with absolute paths")]
pub struct HostMountError(String);

impl FromStr for HostMount {
    type Err = HostMountError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parts: Vec<&str> = text.split(':').collect();
        let (host, container, read_only) = match parts.as_slice() {
            [host, container] => (*host, *container, false),
            [host, container, "ro"] => (*host, *container, true),
            _ => return Err(HostMountError(text.to_owned())),
        };
        if !host.starts_with('/') || !container.starts_with('/') {
            return Err(HostMountError(text.to_owned()));
        }
        Ok(Self {
            host: host.into(),
            container: container.into(),
            read_only,
        })
    }
}

impl HostMount {
    /// The mount as the kubelet wants it.
    pub fn to_api(&self) -> api::Mount {
        api::Mount {
            container_path: self.container.display().to_string(),
            host_path: self.host.display().to_string(),
            read_only: self.read_only,
        }
    }
}

/// The ids of `count` devices: `gcu-0`, `gcu-1` ...
pub fn device_ids(resource: &ResourceName, count: u32) -> Vec<String> {
    (0..count)
        .map(|index| format!("{}-{index}", resource.short()))
        .collect()
}

/// The list for the kubelet, with the devices of `unhealthy` marked so.
pub fn device_list(ids: &[String], unhealthy: &BTreeSet<String>) -> Vec<api::Device> {
    let health = |id: &String| if unhealthy.contains(id) { "Unhealthy" } else { "Healthy" };
    ids.iter()
        .map(|id| api::Device {
            id: id.clone(),
            health: health(id).to_owned(),
            topology: None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resource_names_follow_the_rules_of_the_kubelet() {
        let form = |text: &str| Err(ResourceNameError::Form(text.to_owned()));
        let reserved = |text: &str| Err(ResourceNameError::Reserved(text.to_owned()));
        let cases = [
            ("enflame.com/gcu", Ok("gcu")),
            ("huawei.com/Ascend910-5c.1cpu.16g", Ok("Ascend910-5c.1cpu.16g")),
            ("gcu", form("gcu")),
            ("/gcu", form("/gcu")),
            ("enflame.com/", form("enflame.com/")),
            ("a/b/c", form("a/b/c")),
            ("enflame.com/-gcu", form("enflame.com/-gcu")),
            ("kubernetes.io/gcu", reserved("kubernetes.io/gcu")),
            ("x.kubernetes.io/gcu", reserved("x.kubernetes.io/gcu")),
        ];
        for (text, expected) in cases {
            let parsed = text.parse::<ResourceName>();
            assert_eq!(
                parsed.as_ref().map(ResourceName::short),
                expected.as_ref().map(|s| *s),
                "{text}"
            );
        }
    }

    #[test]
    fn mounts_are_absolute_and_say_whether_they_are_read_only() {
        let mount = |read_only| HostMount {
            host: "/opt/a".into(),
            container: "/b".into(),
            read_only,
        };
        assert_eq!("/opt/a:/b".parse(), Ok(mount(false)));
        assert_eq!("/opt/a:/b:ro".parse(), Ok(mount(true)));
        for bad in ["/opt/a", "a:/b", "/a:b", "/a:/b:rw", ""] {
            assert_eq!(bad.parse::<HostMount>(), Err(HostMountError(bad.to_owned())));
        }
    }

    #[test]
    fn a_device_list_marks_only_the_unhealthy() {
        let ids = device_ids(&"enflame.com/gcu".parse().unwrap(), 2);
        let list = device_list(&ids, &BTreeSet::from(["gcu-1".to_owned()]));
        let seen: Vec<(&str, &str)> = list.iter().map(|d| (d.id.as_str(), d.health.as_str())).collect();
        assert_eq!(seen, [("gcu-0", "Healthy"), ("gcu-1", "Unhealthy")]);
    }
}
