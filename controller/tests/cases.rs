//! Case folders: objects of a cluster in, children and status out, without a client.
//!
//! A case is a folder in `cases/` with `deployment.yaml`, `cluster.yaml` (nodes, slices, pods, weights, the workload), and
//! optionally `case.yaml` ([`Case`]), `matrix/` (documents that replace those of `tests/matrix` of the same name), and `before/`:
//! the same files for an earlier pass, whose status is what the pass of the case finds. `CURRENT` as an approved revision stands for
//! the digest of the case's own matrix. The artifact of a deployment names a
//! file of `models/`; another name is an artifact that is not there.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a fixture that cannot be read has failed its test"
)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use controller::build::{Blueprint, Children, build};
use controller::decide::{Decided, decide};
use controller::device_use::UsedDevices;
use controller::finding::Finding;
use controller::observed::{MatrixView, Model, Observed, Settings};
use controller::report::report;
use controller::rewrite::ImageRewrite;
use controller::validate::validate;
use crds::node_weights::NodeWeights;
use crds::{ModelDeployment, ModelDeploymentStatus, Reason};
use jiff::Timestamp;
use matrix::{Document, Matrix};
use model_facts::ModelFacts;
use serde::Deserialize;
use serde_json::Value;

/// What a case says besides its objects.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Case {
    /// Image rewrite rules.
    image_rewrite: Vec<String>,
    /// Devices in use, by node and resource.
    used: BTreeMap<String, BTreeMap<String, u32>>,
    /// Whether the revision of the decision in force was deleted.
    revision_gone: bool,
    /// Whether there is no matrix channel.
    no_matrix: bool,
    /// What the API server says to the children.
    refused: Option<String>,
    /// Minutes after noon.
    minute: i64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct PackedFixture {
    facts: ModelFacts,
    files: Vec<String>,
    bytes: u64,
    weights_absent: bool,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests")
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn yaml<T: serde::de::DeserializeOwned>(path: &Path) -> T {
    serde_saphyr::from_str(&read(path)).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The documents of `tests/matrix`, with those of a case's own folder in place of the ones of the same name.
fn matrix_of(folder: &Path) -> Arc<Matrix> {
    let mut documents = BTreeMap::new();
    for folder in [root().join("matrix"), folder.join("matrix")] {
        for entry in std::fs::read_dir(&folder).into_iter().flatten() {
            let path = entry.unwrap().path();
            documents.insert(path.file_name().unwrap().to_string_lossy().into_owned(), read(&path));
        }
    }
    let documents: Vec<Document> = documents
        .into_iter()
        .map(|(path, text)| Document { path, text })
        .collect();
    Arc::new(Matrix::load(&documents).unwrap_or_else(|errors| panic!("{errors}")))
}

fn view(matrix: &Arc<Matrix>, objects: &[Value]) -> MatrixView {
    let seen: Vec<Value> = objects.iter().filter(|object| shows_devices(object)).cloned().collect();
    let mut observation = matrix::observe(&seen);
    observation.runtime_classes.get_or_insert_default();
    MatrixView {
        revision: matrix.revision().digest.clone(),
        cluster: Arc::new(matrix::recognise(matrix, &observation)),
        matrix: Arc::clone(matrix),
    }
}

fn shows_devices(object: &Value) -> bool {
    matches!(
        object["kind"].as_str(),
        Some("Node" | "ResourceSlice" | "DeviceClass" | "RuntimeClass")
    )
}

fn model_of(deployment: &ModelDeployment) -> Result<Arc<Model>, Finding> {
    let requested = &deployment.spec.model.artifact;
    let name = requested
        .rsplit('/')
        .next()
        .and_then(|name| name.split([':', '@']).next())
        .unwrap_or_default();
    let path = root().join("models").join(format!("{name}.json"));
    if !path.exists() {
        return Err(Finding::new(
            Reason::ArtifactNotFound,
            format!("{requested}: the registry has no such artifact"),
        ));
    }
    let packed: PackedFixture = serde_json::from_str(&read(&path)).unwrap();
    let repository = requested
        .rsplit_once(':')
        .map_or(requested.as_str(), |(repository, _)| repository);
    Ok(Arc::new(Model {
        requested: requested.clone(),
        reference: format!("{repository}@sha256:{:0>64}", format!("{:x}", packed.bytes)),
        facts: packed.facts,
        files: packed.files,
        bytes: packed.bytes,
        weights_absent: packed.weights_absent,
    }))
}

fn of_kind<T: serde::de::DeserializeOwned>(objects: &[Value], kind: &str) -> Vec<T> {
    let found = objects.iter().filter(|object| object["kind"] == kind);
    found
        .map(|object| serde_json::from_value(object.clone()).unwrap())
        .collect()
}

struct Pass {
    children: Option<Children>,
    status: ModelDeploymentStatus,
    view: MatrixView,
}

fn observed(folder: &Path, case: &Case, before: Option<&Pass>) -> (Observed, MatrixView) {
    let mut deployment: ModelDeployment = yaml(&folder.join("deployment.yaml"));
    deployment.status = before.map(|before| before.status.clone());
    let objects: Vec<Value> = serde_saphyr::from_multiple(&read(&folder.join("cluster.yaml"))).unwrap();
    let current = view(&matrix_of(folder), &objects);
    // A digest in a file would change with every edit of a fixture.
    let approved = deployment.spec.rollout.approved_revision.as_mut();
    approved
        .into_iter()
        .filter(|approved| *approved == "CURRENT")
        .for_each(|approved| approved.clone_from(&current.revision));
    let model = model_of(&deployment);
    let digest = model
        .as_ref()
        .map(|model| model.digest().to_owned())
        .unwrap_or_default();
    let weights = of_kind::<NodeWeights>(&objects, "NodeWeights")
        .into_iter()
        .filter_map(|node| {
            let artifacts = node.status?.artifacts;
            Some((
                node.metadata.name?,
                artifacts.into_iter().find(|artifact| artifact.digest == digest)?,
            ))
        });
    let missing = Finding::new(Reason::ChannelMissing, "there is no MatrixChannel stable");
    let observed = Observed {
        weights: weights.collect(),
        used_devices: Some(Arc::new(used(case))),
        deciding: before.and_then(|before| deciding(before, case, &current, &objects)),
        pods: of_kind(&objects, "Pod").into_iter().map(Arc::new).collect(),
        workload: of_kind(&objects, "Deployment").into_iter().map(Arc::new).next(),
        settings: Arc::new(Settings {
            rewrite: ImageRewrite::new(case.image_rewrite.iter().map(|rule| rule.parse().unwrap()).collect()),
        }),
        now: Timestamp::from_second(1_796_040_000 + 60 * case.minute).unwrap(),
        deployment: Arc::new(deployment),
        model,
        current: if case.no_matrix {
            Err(missing)
        } else {
            Ok(current.clone())
        },
    };
    (observed, current)
}

fn used(case: &Case) -> UsedDevices {
    let mut used = UsedDevices::default();
    for (node, resources) in &case.used {
        for (resource, devices) in resources {
            used.add(resource, node, *devices);
        }
    }
    used
}

/// The matrix of the earlier pass, on the cluster of this one.
fn deciding(
    before: &Pass,
    case: &Case,
    current: &MatrixView,
    objects: &[Value],
) -> Option<Result<MatrixView, Finding>> {
    let revision = &before.status.decision.as_ref()?.revision;
    if *revision == current.revision {
        return None;
    }
    if case.revision_gone {
        let text = format!("no MatrixRevision has the digest {revision} any more");
        return Some(Err(Finding::new(Reason::RevisionMissing, text)));
    }
    Some(Ok(view(&before.view.matrix, objects)))
}

fn pass(folder: &Path, before: Option<&Pass>) -> Pass {
    let path = folder.join("case.yaml");
    let case: Case = if path.exists() { yaml(&path) } else { Case::default() };
    let (observed, view) = observed(folder, &case, before);
    let validated = validate(&observed);
    let decided = validated.question.as_ref().ok().map(decide);
    let children = decided.as_ref().and_then(|decided| children(&observed, decided));
    let applied = case
        .refused
        .map_or(Ok(()), |text| Err(Finding::new(Reason::ApplyRefused, text)));
    Pass {
        status: report(&observed, &validated, decided.as_ref(), applied),
        children,
        view,
    }
}

fn children(observed: &Observed, decided: &Decided) -> Option<Children> {
    let (plan, model) = (decided.plan.as_ref()?, observed.model.as_ref().ok()?);
    let free_devices = observed.free_devices(&plan.choice.pool);
    Some(build(&Blueprint {
        deployment: &observed.deployment,
        model,
        plan,
        free_devices,
    }))
}

fn text_of(children: Option<&Children>) -> String {
    let Some(Children {
        workload,
        service,
        claim,
    }) = children
    else {
        return "nothing is built; what runs is left as it is\n".to_owned();
    };
    let mut objects = vec![
        serde_json::to_value(workload).unwrap(),
        serde_json::to_value(service).unwrap(),
    ];
    objects.extend(claim.iter().map(|claim| serde_json::to_value(claim).unwrap()));
    objects
        .iter()
        .map(|object| serde_saphyr::to_string(object).unwrap())
        .collect::<Vec<_>>()
        .join("---\n")
}

#[test]
fn every_case_gives_the_children_and_the_status_that_were_reviewed() {
    let mut folders: Vec<PathBuf> = std::fs::read_dir(root().join("cases"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    folders.sort();
    assert!(!folders.is_empty());
    for folder in folders {
        let before = folder.join("before");
        let before = before.exists().then(|| pass(&before, None));
        let after = pass(&folder, before.as_ref());
        let mut settings = insta::Settings::clone_current();
        settings.set_snapshot_path(&folder);
        settings.set_prepend_module_to_snapshot(false);
        settings.set_omit_expression(true);
        settings.bind(|| {
            insta::assert_snapshot!("children", text_of(after.children.as_ref()));
            insta::assert_snapshot!("status", serde_saphyr::to_string(&after.status).unwrap());
        });
        // A second look at the same world changes nothing: no write without news.
        let again = pass_again(&folder, before.as_ref(), &after);
        assert_eq!(
            again,
            after.status,
            "{} is not settled after one pass",
            folder.display()
        );
    }
}

fn pass_again(folder: &Path, before: Option<&Pass>, after: &Pass) -> ModelDeploymentStatus {
    let deciding = after.status.decision.as_ref().map(|decision| &decision.revision);
    let older = before.filter(|before| Some(&before.view.revision) == deciding);
    let view = older.map_or(&after.view, |before| &before.view).clone();
    let same = Pass {
        children: None,
        status: after.status.clone(),
        view,
    };
    pass(folder, Some(&same)).status
}
