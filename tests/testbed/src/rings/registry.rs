//! Ring A: a registry, reachable under one address from everywhere.

use std::process::Command;

use crate::bed::Bed;
use crate::debian;
use crate::error::Error;
use crate::http::is_ok;
use crate::network::{self, GATEWAY};

use super::launch::{launch, write};

const PORT: u16 = 5000;

/// The registry's name in every reference.
pub(crate) const REGISTRY_ADDRESS: &str = "10.213.0.1:5000";

pub(super) fn start(bed: &Bed) -> Result<(), Error> {
    debian::ensure(&["iproute2", "util-linux"])?;
    network::make_bridge()?;
    network::check_port("the registry", GATEWAY, PORT)?;
    let folder = bed.layout().data("registry");
    let config = folder.join("config.yml");
    write(&config, &configuration(&folder.join("storage").display().to_string()))?;
    let mut command = Command::new(bed.program("docker-registry")?);
    let registry = launch(bed, "docker-registry", command.arg("serve").arg(&config))?;
    registry.wait_until(|| is_ok(&format!("http://{REGISTRY_ADDRESS}/v2/")))
}

fn configuration(storage: &str) -> String {
    // YAML is a superset of JSON. Debug is off: each request has one access line anyway, by which tests count bytes.
    serde_json::json!({
        "version": 0.1,
        "log": { "level": "info", "accesslog": { "disabled": false } },
        "storage": {
            "filesystem": { "rootdirectory": storage },
            "delete": { "enabled": true },
            "cache": { "blobdescriptor": "inmemory" },
        },
        "http": { "addr": REGISTRY_ADDRESS, "secret": "of-the-test-bed" },
    })
    .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_registry_listens_on_the_bridge_only() {
        assert_eq!(REGISTRY_ADDRESS, format!("{GATEWAY}:{PORT}"));
        let config: serde_json::Value = serde_json::from_str(&configuration("/somewhere")).unwrap();
        assert_eq!(config["http"]["addr"], REGISTRY_ADDRESS);
        assert_eq!(config["storage"]["filesystem"]["rootdirectory"], "/somewhere");
    }
}
