//! Which devices are in use, counted over all pods of the cluster. Only pods that hold extended resources are remembered.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, Resource};
use serde::Deserialize;

/// As much of a pod as counting needs; the rest is dropped while it is read.
#[derive(Clone, Debug, Deserialize, Resource)]
#[resource(inherit = "Pod")]
pub struct SlimPod {
    metadata: ObjectMeta,
    #[serde(default)]
    spec: SlimSpec,
    #[serde(default)]
    status: SlimStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SlimSpec {
    node_name: Option<String>,
    containers: Vec<SlimContainer>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct SlimContainer {
    resources: SlimResources,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct SlimResources {
    limits: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct SlimStatus {
    phase: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Holding {
    node: String,
    devices: BTreeMap<String, u32>,
}

#[derive(Debug, Default)]
struct Ledger {
    /// False until the first list has been read completely.
    complete: bool,
    holdings: HashMap<String, Holding>,
    /// The list that is being read; it replaces the ledger when it is complete.
    relist: HashMap<String, Holding>,
    /// The sum of all holdings, until one changes.
    sum: Option<Arc<UsedDevices>>,
}

/// Devices in use at one moment, by resource and node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UsedDevices {
    by_resource: HashMap<String, HashMap<String, u32>>,
}

impl UsedDevices {
    /// Adds devices of a node to those in use.
    pub fn add(&mut self, resource: &str, node: &str, devices: u32) {
        let nodes = self.by_resource.entry(resource.to_owned()).or_default();
        *nodes.entry(node.to_owned()).or_default() += devices;
    }

    /// Devices of a pool that no pod holds; `None` when its devices are not counted by a resource.
    pub fn free(&self, pool: &matrix::Pool) -> Option<u32> {
        let used = self.by_resource.get(pool.resource()?);
        let on = |node: &matrix::PoolNode| used.and_then(|used| used.get(&node.name)).copied().unwrap_or(0);
        Some(
            pool.nodes
                .iter()
                .map(|node| node.devices.saturating_sub(on(node)))
                .sum(),
        )
    }
}

/// Counts devices by node and resource.
#[derive(Clone, Debug, Default)]
pub struct DeviceUse {
    ledger: Arc<Mutex<Ledger>>,
}

impl DeviceUse {
    /// Follows the pods of the cluster for ever.
    pub async fn follow(self, client: Client) {
        let pods: Api<SlimPod> = Api::all(client);
        let mut events = watcher(pods, watcher::Config::default()).default_backoff().boxed();
        while let Some(event) = events.next().await {
            match event {
                Ok(event) => self.record(event),
                Err(error) => tracing::warn!(%error, "cannot follow the pods that hold devices"),
            }
        }
    }

    fn record(&self, event: Event<SlimPod>) {
        let mut ledger = self.ledger.lock().unwrap_or_else(PoisonError::into_inner);
        ledger.sum = None;
        match event {
            Event::Init => ledger.relist.clear(),
            Event::InitApply(pod) => note(&mut ledger.relist, &pod),
            Event::InitDone => {
                ledger.holdings = std::mem::take(&mut ledger.relist);
                ledger.complete = true;
            }
            Event::Apply(pod) => note(&mut ledger.holdings, &pod),
            Event::Delete(pod) => {
                ledger.holdings.remove(pod.metadata.uid.as_deref().unwrap_or_default());
            }
        }
    }

    /// The sum at this moment; `None` until all pods have been seen once.
    pub fn sum(&self) -> Option<Arc<UsedDevices>> {
        let mut ledger = self.ledger.lock().unwrap_or_else(PoisonError::into_inner);
        if !ledger.complete {
            return None;
        }
        let Ledger { holdings, sum, .. } = &mut *ledger;
        Some(Arc::clone(sum.get_or_insert_with(|| Arc::new(add_up(holdings)))))
    }
}

fn add_up(holdings: &HashMap<String, Holding>) -> UsedDevices {
    let mut used = UsedDevices::default();
    for holding in holdings.values() {
        for (resource, devices) in &holding.devices {
            used.add(resource, &holding.node, *devices);
        }
    }
    used
}

fn note(holdings: &mut HashMap<String, Holding>, pod: &SlimPod) {
    let uid = pod.metadata.uid.clone().unwrap_or_default();
    match holding(pod) {
        Some(holding) => holdings.insert(uid, holding),
        None => holdings.remove(&uid),
    };
}

/// What a pod holds: extended resources have a domain in their name; a finished pod holds nothing.
fn holding(pod: &SlimPod) -> Option<Holding> {
    let node = pod.spec.node_name.clone()?;
    if matches!(pod.status.phase.as_deref(), Some("Succeeded" | "Failed")) {
        return None;
    }
    let mut devices = BTreeMap::new();
    for (name, amount) in pod
        .spec
        .containers
        .iter()
        .flat_map(|container| &container.resources.limits)
    {
        if let (true, Ok(amount)) = (name.contains('/'), amount.parse::<u32>()) {
            *devices.entry(name.clone()).or_default() += amount;
        }
    }
    (!devices.is_empty()).then_some(Holding { node, devices })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod(uid: &str, phase: &str, limit: &str) -> SlimPod {
        serde_json::from_value(json!({
            "metadata": {"uid": uid, "name": uid},
            "spec": {"nodeName": "n1", "containers": [{"resources": {"limits": {"enflame.com/gcu": limit, "cpu": "4"}}}]},
            "status": {"phase": phase},
        }))
        .unwrap()
    }

    fn pool() -> matrix::Pool {
        serde_json::from_value(json!({
            "id": "enflame-s60", "offer": {"way": "whole", "resource": "enflame.com/gcu"},
            "nodes": [{"name": "n1", "devices": 4}, {"name": "n2", "devices": 2}],
        }))
        .unwrap()
    }

    #[test]
    fn free_devices_are_those_that_no_running_pod_holds() {
        let devices = DeviceUse::default();
        let free = || devices.sum().and_then(|used| used.free(&pool()));
        assert_eq!(free(), None, "nothing was counted yet");
        devices.record(Event::Init);
        devices.record(Event::InitApply(pod("a", "Running", "1")));
        devices.record(Event::InitApply(pod("b", "Succeeded", "2")));
        devices.record(Event::InitDone);
        assert_eq!(free(), Some(5));
        devices.record(Event::Apply(pod("c", "Pending", "3")));
        assert_eq!(free(), Some(2));
        devices.record(Event::Delete(pod("a", "Running", "1")));
        assert_eq!(free(), Some(3));
    }
}
