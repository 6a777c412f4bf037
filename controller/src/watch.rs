//! What is kept in memory of the cluster, and which change wakes which deployment.

use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::fmt::Debug;
use std::hash::{Hash, Hasher as _};
use std::time::Duration;

use crds::node_weights::NodeWeights;
use crds::{LABEL_DEPLOYMENT, LABEL_MANAGED_BY, MANAGED_BY, MatrixChannel, MatrixRevision, ModelDeployment};
use futures::channel::mpsc::UnboundedSender;
use futures::{StreamExt as _, future};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Node, Pod, Service};
use k8s_openapi::api::node::v1::RuntimeClass;
use kube::core::{ApiResource, DeserializeGuard, DynamicObject, GroupVersionKind};
use kube::runtime::reflector::store::Writer;
use kube::runtime::reflector::{ObjectRef, Store};
use kube::runtime::utils::PredicateConfig;
use kube::runtime::watcher::{self, watcher};
use kube::runtime::{WatchStreamExt as _, predicates};
use kube::{Api, Client, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::device_use::DeviceUse;

/// A deployment that may have been stored by another version of the definitions and not be readable.
pub type Guarded = DeserializeGuard<ModelDeployment>;
/// A name on the list of deployments to look at.
pub type Wake = UnboundedSender<ObjectRef<Guarded>>;

/// Changes of nodes come in showers; they are answered once.
const SETTLE: Duration = Duration::from_secs(2);

/// What is kept in memory of the cluster.
pub struct Caches {
    /// Deployments.
    pub deployments: Store<Guarded>,
    /// Nodes, without images and volumes.
    pub nodes: Store<Node>,
    /// Our pods.
    pub pods: Store<Pod>,
    /// Our workloads.
    pub workloads: Store<Deployment>,
    /// Our services.
    pub services: Store<Service>,
    /// Matrix channels.
    pub channels: Store<DeserializeGuard<MatrixChannel>>,
    /// Matrix revisions, without their documents.
    pub revisions: Store<DeserializeGuard<MatrixRevision>>,
    /// What nodes have of weights.
    pub node_weights: Store<DeserializeGuard<NodeWeights>>,
    /// Runtime classes.
    pub runtime_classes: Store<RuntimeClass>,
    /// Device slices, classes and our claim templates, where the cluster serves them.
    pub claims: Option<ClaimCaches>,
    /// Devices in use.
    pub device_use: DeviceUse,
    /// Moves whenever the cluster looks different to a matrix.
    pub cluster_version: watch::Sender<u64>,
}

/// What is kept of dynamic resource allocation.
pub struct ClaimCaches {
    /// `ResourceSlice` objects.
    pub slices: Store<DynamicObject>,
    /// `DeviceClass` objects.
    pub classes: Store<DynamicObject>,
    /// Our `ResourceClaimTemplate` objects.
    pub templates: Store<DynamicObject>,
}

/// Starts all watches. Whatever changes, the deployments that it concerns are named on `wake`.
pub async fn start(client: &Client, wake: &Wake, tasks: &mut JoinSet<()>) -> Caches {
    let (cluster_version, _) = watch::channel(0);
    let mut watches = Watches {
        client: client.clone(),
        tasks,
        wake: wake.clone(),
        cluster_version: cluster_version.clone(),
    };
    let deployments = watches.deployments();
    let pods: Store<Pod> = watches.owned();
    let caches = Caches {
        nodes: watches.nodes(),
        workloads: watches.owned(),
        services: watches.owned(),
        channels: watches.cluster_wide(Api::all(client.clone()), |_| ()),
        revisions: watches.cluster_wide(Api::all(client.clone()), forget_documents),
        runtime_classes: watches.cluster_wide(Api::all(client.clone()), |_| ()),
        claims: watches.claims().await,
        node_weights: watches.node_weights(pods.clone()),
        pods,
        device_use: DeviceUse::default(),
        cluster_version,
        deployments: deployments.clone(),
    };
    tasks.spawn(caches.device_use.clone().follow(client.clone()));
    tasks.spawn(wake_all_after_changes(
        deployments,
        wake.clone(),
        caches.cluster_version.subscribe(),
    ));
    caches
}

impl Caches {
    /// Waits until every cache has been filled once.
    pub async fn wait_until_ready(&self) -> Result<(), kube::runtime::reflector::store::WriterDropped> {
        let Self {
            deployments,
            nodes,
            pods,
            workloads,
            services,
            channels,
            revisions,
            node_weights,
            runtime_classes,
            ..
        } = self;
        deployments.wait_until_ready().await?;
        nodes.wait_until_ready().await?;
        pods.wait_until_ready().await?;
        workloads.wait_until_ready().await?;
        services.wait_until_ready().await?;
        channels.wait_until_ready().await?;
        revisions.wait_until_ready().await?;
        node_weights.wait_until_ready().await?;
        runtime_classes.wait_until_ready().await?;
        if let Some(ClaimCaches {
            slices,
            classes,
            templates,
        }) = &self.claims
        {
            slices.wait_until_ready().await?;
            classes.wait_until_ready().await?;
            templates.wait_until_ready().await?;
        }
        Ok(())
    }
}

struct Watches<'a> {
    client: Client,
    tasks: &'a mut JoinSet<()>,
    wake: Wake,
    cluster_version: watch::Sender<u64>,
}

impl Watches<'_> {
    fn deployments(&mut self) -> Store<Guarded> {
        let wake = self.wake.clone();
        let writer = Writer::<Guarded>::default();
        let store = writer.as_reader();
        let seen = watcher(Api::<Guarded>::all(self.client.clone()), watcher::Config::default())
            .default_backoff()
            .modify(forget_managers)
            .reflect(writer)
            .touched_objects()
            .predicate_filter(predicates::generation, PredicateConfig::default());
        self.tasks.spawn(seen.for_each(move |seen| {
            wake_on(seen, |object| {
                let _ = wake.unbounded_send(ObjectRef::from_obj(object));
            });
            future::ready(())
        }));
        store
    }

    /// Objects that carry the label of their deployment.
    fn owned<K>(&mut self) -> Store<K>
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    {
        self.owned_with(Api::all(self.client.clone()), ())
    }

    fn owned_with<K>(&mut self, api: Api<K>, kind: K::DynamicType) -> Store<K>
    where
        K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
        K::DynamicType: Clone + Eq + Hash + Debug + Send + Sync + Unpin,
    {
        let wake = self.wake.clone();
        let config = watcher::Config::default().labels(&format!("{LABEL_MANAGED_BY}={MANAGED_BY},{LABEL_DEPLOYMENT}"));
        self.follow(api, config, kind, forget_managers, move |object| {
            wake_owner(&wake, object);
        })
    }

    /// Objects of the whole cluster; any change may concern every deployment.
    fn cluster_wide<K>(&mut self, api: Api<K>, strip: fn(&mut K)) -> Store<K>
    where
        K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
        K::DynamicType: Default + Clone + Eq + Hash + Debug + Send + Sync + Unpin,
    {
        self.cluster_wide_with(api, K::DynamicType::default(), strip)
    }

    fn cluster_wide_with<K>(&mut self, api: Api<K>, kind: K::DynamicType, strip: fn(&mut K)) -> Store<K>
    where
        K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
        K::DynamicType: Clone + Eq + Hash + Debug + Send + Sync + Unpin,
    {
        let version = self.cluster_version.clone();
        let strip = move |object: &mut K| {
            forget_managers(object);
            strip(object);
        };
        self.follow(api, watcher::Config::default().page_size(50), kind, strip, move |_| {
            bump(&version);
        })
    }

    fn nodes(&mut self) -> Store<Node> {
        let version = self.cluster_version.clone();
        let writer = Writer::<Node>::default();
        let store = writer.as_reader();
        let seen = watcher(
            Api::<Node>::all(self.client.clone()),
            watcher::Config::default().page_size(100),
        )
        .default_backoff()
        .modify(forget_node_details)
        .reflect(writer);
        let mut looks = NodeLooks::default();
        self.tasks.spawn(seen.for_each(move |event| {
            match event {
                Ok(event) if looks.change(&event) => bump(&version),
                Ok(_) => (),
                Err(error) => warn_of::<Node>(&error),
            }
            future::ready(())
        }));
        store
    }

    /// A node's progress concerns the deployments with pods there.
    fn node_weights(&mut self, pods: Store<Pod>) -> Store<DeserializeGuard<NodeWeights>> {
        let wake = self.wake.clone();
        let api = Api::all(self.client.clone());
        self.follow(api, watcher::Config::default(), (), forget_managers, move |weights| {
            let node = weights.meta().name.as_deref();
            let here = |pod: &Pod| pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()) == node;
            for pod in pods.state().iter().filter(|pod| here(pod)) {
                wake_owner(&wake, &**pod);
            }
        })
    }

    /// Dynamic resource allocation, only where the server has it: decided by asking, never by a version.
    async fn claims(&mut self) -> Option<ClaimCaches> {
        let served = self.client.list_api_group_resources("resource.k8s.io/v1").await.ok()?;
        if !served
            .resources
            .iter()
            .any(|resource| resource.kind == "ResourceClaimTemplate")
        {
            return None;
        }
        let kind = |kind: &str| ApiResource::from_gvk(&GroupVersionKind::gvk("resource.k8s.io", "v1", kind));
        let (slice, class, template) = (
            kind("ResourceSlice"),
            kind("DeviceClass"),
            kind("ResourceClaimTemplate"),
        );
        let client = self.client.clone();
        Some(ClaimCaches {
            slices: self.cluster_wide_with(Api::all_with(client.clone(), &slice), slice.clone(), |_| ()),
            classes: self.cluster_wide_with(Api::all_with(client.clone(), &class), class.clone(), |_| ()),
            templates: self.owned_with(Api::all_with(client, &template), template.clone()),
        })
    }

    fn follow<K>(
        &mut self,
        api: Api<K>,
        config: watcher::Config,
        kind: K::DynamicType,
        strip: impl Fn(&mut K) + Send + 'static,
        on_change: impl Fn(&K) + Send + 'static,
    ) -> Store<K>
    where
        K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
        K::DynamicType: Clone + Eq + Hash + Debug + Send + Sync + Unpin,
    {
        let writer = Writer::<K>::new(kind);
        let store = writer.as_reader();
        let seen = watcher(api, config)
            .default_backoff()
            .modify(strip)
            .reflect(writer)
            .touched_objects();
        self.tasks.spawn(seen.for_each(move |seen| {
            wake_on(seen, &on_change);
            future::ready(())
        }));
        store
    }
}

fn wake_on<K>(seen: Result<K, watcher::Error>, on_change: impl Fn(&K)) {
    match seen {
        Ok(object) => on_change(&object),
        Err(error) => warn_of::<K>(&error),
    }
}

/// A watch that fell too far behind is started again by itself, which is no news.
fn warn_of<K>(error: &watcher::Error) {
    if matches!(error, watcher::Error::WatchError(status) if status.code == 410) {
        tracing::debug!(
            kind = std::any::type_name::<K>(),
            "a watch fell behind and starts again"
        );
        return;
    }
    tracing::warn!(
        error = crate::model::chain(error),
        kind = std::any::type_name::<K>(),
        "a watch was interrupted"
    );
}

fn wake_owner<K: Resource>(wake: &Wake, object: &K) {
    let name = object
        .meta()
        .labels
        .as_ref()
        .and_then(|labels| labels.get(LABEL_DEPLOYMENT));
    if let (Some(name), Some(namespace)) = (name, &object.meta().namespace) {
        let _ = wake.unbounded_send(ObjectRef::new(name).within(namespace));
    }
}

fn bump(version: &watch::Sender<u64>) {
    version.send_modify(|version| *version += 1);
}

async fn wake_all_after_changes(deployments: Store<Guarded>, wake: Wake, mut version: watch::Receiver<u64>) {
    while version.changed().await.is_ok() {
        tokio::time::sleep(SETTLE).await;
        version.borrow_and_update();
        wake_all(&deployments, &wake);
    }
}

/// Names every deployment.
pub fn wake_all(deployments: &Store<Guarded>, wake: &Wake) {
    for deployment in deployments.state() {
        let _ = wake.unbounded_send(ObjectRef::from_obj(&*deployment));
    }
}

fn forget_managers<K: Resource>(object: &mut K) {
    object.meta_mut().managed_fields = None;
}

/// A revision is a megabyte; its documents are read when they are needed.
fn forget_documents(revision: &mut DeserializeGuard<MatrixRevision>) {
    if let Ok(revision) = &mut revision.0 {
        revision.spec.documents = String::new();
    }
}

fn forget_node_details(node: &mut Node) {
    node.metadata.managed_fields = None;
    if let Some(status) = &mut node.status {
        status.images = None;
        status.volumes_attached = None;
        status.volumes_in_use = None;
    }
}

/// How each node looked last.
#[derive(Default)]
struct NodeLooks {
    looks: HashMap<String, u64>,
    /// The looks of a list that is being read.
    relist: HashMap<String, u64>,
}

impl NodeLooks {
    /// Whether the cluster looks different after this event.
    fn change(&mut self, event: &watcher::Event<Node>) -> bool {
        use watcher::Event;
        match event {
            Event::Init => {
                self.relist.clear();
                false
            }
            Event::InitApply(node) => {
                self.relist.insert(node.name_any(), look_of(node));
                false
            }
            Event::InitDone => {
                let listed = std::mem::take(&mut self.relist);
                std::mem::replace(&mut self.looks, listed) != self.looks
            }
            Event::Apply(node) => {
                let look = look_of(node);
                self.looks.insert(node.name_any(), look) != Some(look)
            }
            Event::Delete(node) => self.looks.remove(&node.name_any()).is_some(),
        }
    }
}

/// A digest of what a matrix looks at. Heartbeats, and annotations that only repeat the time, are left out.
fn look_of(node: &Node) -> u64 {
    let mut hasher = DefaultHasher::new();
    node.metadata.uid.hash(&mut hasher);
    node.metadata.labels.hash(&mut hasher);
    for (key, value) in node.annotations().iter().filter(|(key, _)| !key.contains("handshake")) {
        (key, value).hash(&mut hasher);
    }
    if let Some(spec) = &node.spec {
        spec.unschedulable.hash(&mut hasher);
        for taint in spec.taints.iter().flatten() {
            (&taint.key, &taint.value, &taint.effect).hash(&mut hasher);
        }
    }
    if let Some(status) = &node.status {
        for (name, amount) in status.allocatable.iter().flatten() {
            (name, &amount.0).hash(&mut hasher);
        }
        let ready = status
            .conditions
            .iter()
            .flatten()
            .find(|condition| condition.type_ == "Ready");
        ready.map(|condition| &condition.status).hash(&mut hasher);
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn node(name: &str) -> Node {
        serde_json::from_value(json!({"metadata": {"name": name}})).unwrap()
    }

    #[test]
    fn a_node_that_goes_away_changes_the_cluster_even_during_a_relist() {
        use watcher::Event;
        let mut looks = NodeLooks::default();
        let events = vec![
            (Event::Init, false),
            (Event::InitApply(node("a")), false),
            (Event::InitApply(node("b")), false),
            (Event::InitDone, true),
            (Event::Apply(node("a")), false),
            (Event::Delete(node("a")), true),
            (Event::Init, false),
            (Event::InitApply(node("b")), false),
            (Event::InitDone, false),
            (Event::Init, false),
            (Event::InitDone, true),
        ];
        for (step, (event, changes)) in events.iter().enumerate() {
            assert_eq!(looks.change(event), *changes, "step {step}");
        }
    }

    fn look(change: impl Fn(&mut Value)) -> u64 {
        let mut node = json!({
            "metadata": {"name": "n", "labels": {"a": "b"}, "annotations": {}},
            "spec": {},
            "status": {"allocatable": {"enflame.com/gcu": "2"}, "conditions": [{"type": "Ready", "status": "True"}]},
        });
        change(&mut node);
        look_of(&serde_json::from_value(node).unwrap())
    }

    #[test]
    fn a_heartbeat_wakes_nobody_and_a_changed_device_count_wakes_all() {
        let plain = look(|_| ());
        assert_eq!(
            plain,
            look(|node| node["status"]["conditions"][0]["lastHeartbeatTime"] = json!("2026-11-30T00:00:00Z"))
        );
        assert_eq!(
            plain,
            look(|node| node["metadata"]["annotations"]["hami.io/node-handshake"] = json!("Requesting_2026"))
        );
        assert_ne!(
            plain,
            look(|node| node["status"]["allocatable"]["enflame.com/gcu"] = json!("1"))
        );
        assert_ne!(plain, look(|node| node["metadata"]["labels"]["a"] = json!("c")));
        assert_ne!(
            plain,
            look(|node| node["status"]["conditions"][0]["status"] = json!("Unknown"))
        );
        assert_ne!(plain, look(|node| node["spec"]["unschedulable"] = json!(true)));
    }
}
