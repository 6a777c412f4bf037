//! The closed vocabulary of states. One reason token is the condition's reason, the event's reason and the metric's
//! label, and says how bad it is and whose move it is.

use std::fmt;

/// The questions that a status answers, in the order in which they are worked on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ConditionType {
    /// Is the artifact there, readable, and does it say what the model is?
    ModelResolved,
    /// Does the cluster have accelerators that the spec welcomes?
    DevicesResolved,
    /// Is there an engine build for this model on these accelerators?
    EngineSelected,
    /// Are the weights on the nodes?
    WeightsReady,
    /// Do the pods run and answer?
    WorkloadReady,
    /// Would the matrix still choose the same?
    UpToDate,
    /// Does the model serve? The sum of the others.
    Ready,
}

impl ConditionType {
    /// Every type, in the order of the work.
    pub const ALL: [Self; 7] = [
        Self::ModelResolved,
        Self::DevicesResolved,
        Self::EngineSelected,
        Self::WeightsReady,
        Self::WorkloadReady,
        Self::UpToDate,
        Self::Ready,
    ];

    /// The name in the condition.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ModelResolved => "ModelResolved",
            Self::DevicesResolved => "DevicesResolved",
            Self::EngineSelected => "EngineSelected",
            Self::WeightsReady => "WeightsReady",
            Self::WorkloadReady => "WorkloadReady",
            Self::UpToDate => "UpToDate",
            Self::Ready => "Ready",
        }
    }
}

impl fmt::Display for ConditionType {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// How bad a state is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// As it should be.
    Fine,
    /// On the way.
    Progress,
    /// Serving may suffer.
    Warning,
    /// It does not work.
    Error,
}

/// Whose move it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Move {
    /// Nobody's: done.
    Nobody,
    /// The controller's: it tries again by itself.
    Controller,
    /// The cluster's: something is on its way and will be noticed.
    Cluster,
    /// The user's, in this namespace.
    User,
    /// The platform team's: nodes, matrix, registry.
    Platform,
}

macro_rules! reasons {
    ($( $(#[doc = $doc:literal])+ $name:ident: $condition:ident, $status:literal, $severity:ident, $move:ident; )+) => {
        /// Why a condition has its status.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Reason { $( $(#[doc = $doc])+ $name, )+ }

        impl Reason {
            /// Every reason, in the order of the work.
            pub const ALL: &'static [Self] = &[$( Self::$name, )+];

            /// The token.
            pub const fn as_str(self) -> &'static str {
                match self { $( Self::$name => stringify!($name), )+ }
            }

            /// The condition it belongs to; `Ready` repeats the reason of what holds it.
            pub const fn condition(self) -> ConditionType {
                match self { $( Self::$name => ConditionType::$condition, )+ }
            }

            /// The status that the condition has with it: `True`, `False` or `Unknown`.
            pub const fn status(self) -> &'static str {
                match self { $( Self::$name => $status, )+ }
            }

            /// How bad it is.
            pub const fn severity(self) -> Severity {
                match self { $( Self::$name => Severity::$severity, )+ }
            }

            /// Whose move it is.
            pub const fn whose_move(self) -> Move {
                match self { $( Self::$name => Move::$move, )+ }
            }

            /// The reason with this token.
            pub fn parse(token: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|reason| reason.as_str() == token)
            }

            /// What it means, as its documentation says.
            pub const fn meaning(self) -> &'static str {
                match self { $( Self::$name => concat!($($doc),+), )+ }
            }
        }
    };
}

reasons! {
    /// The artifact was read and says what the model is.
    ModelRead: ModelResolved, "True", Fine, Nobody;
    /// `spec.model.artifact` is not a reference to an artifact.
    ReferenceInvalid: ModelResolved, "False", Error, User;
    /// A secret named in `spec.model.pullSecrets` is not there, or holds no registry credentials.
    PullSecretInvalid: ModelResolved, "False", Error, User;
    /// The registry answered that there is no such artifact.
    ArtifactNotFound: ModelResolved, "False", Error, User;
    /// The registry refused the credentials of the pull secrets.
    ArtifactUnauthorized: ModelResolved, "False", Error, User;
    /// The artifact is not a packed model.
    ArtifactInvalid: ModelResolved, "False", Error, User;
    /// The artifact is a packed model without facts about it.
    FactsMissing: ModelResolved, "False", Error, User;
    /// A secret named in `spec.model.pullSecrets` could not be asked for.
    SecretNotRead: ModelResolved, "Unknown", Warning, Controller;
    /// The registry did not answer, or answered with a fault of its own.
    RegistryUnreachable: ModelResolved, "Unknown", Warning, Controller;

    /// The cluster has accelerators that the spec welcomes.
    PoolsFound: DevicesResolved, "True", Fine, Nobody;
    /// The cluster has nodes, and none of them has an accelerator that the spec welcomes.
    NoMatchingPool: DevicesResolved, "False", Error, Platform;
    /// The cluster has no node at all.
    NoNodes: DevicesResolved, "False", Error, Platform;
    /// The cluster was not looked at, because there is no matrix to recognise accelerators by.
    DevicesNotRead: DevicesResolved, "Unknown", Progress, Cluster;

    /// The matrix chose a build.
    Selected: EngineSelected, "True", Fine, Nobody;
    /// The choice in force stays in force, although it could not be repeated now.
    Kept: EngineSelected, "True", Warning, User;
    /// No build of the matrix runs this model on these accelerators; `status.explain` counts why.
    NoCandidate: EngineSelected, "False", Error, User;
    /// A value in `spec.engine` cannot be read.
    EngineInvalid: EngineSelected, "False", Error, User;
    /// The matrix channel that the spec follows is not there.
    ChannelMissing: EngineSelected, "False", Error, Platform;
    /// The matrix revision that the spec or its channel names is not there.
    RevisionMissing: EngineSelected, "False", Error, Platform;
    /// The matrix revision could not be asked for.
    RevisionNotRead: EngineSelected, "Unknown", Warning, Controller;
    /// The matrix revision holds no matrix.
    RevisionInvalid: EngineSelected, "False", Error, Platform;
    /// The choice waits for the facts about the model.
    WaitingForModel: EngineSelected, "Unknown", Progress, Cluster;

    /// The nodes of all replicas have the weights.
    WeightsPresent: WeightsReady, "True", Fine, Nobody;
    /// Nothing needs the weights now: no replica is wanted.
    WeightsNotNeeded: WeightsReady, "True", Fine, Nobody;
    /// The artifact holds facts and no weights; the pods cannot start before the weights are pushed.
    FactsOnly: WeightsReady, "False", Warning, User;
    /// Nodes are bringing the weights.
    WeightsFetching: WeightsReady, "False", Progress, Cluster;
    /// A node could not bring the weights and says why.
    WeightsFailed: WeightsReady, "False", Error, Platform;
    /// No node has said anything about these weights.
    WeightsNotReported: WeightsReady, "Unknown", Progress, Cluster;

    /// All replicas answer.
    ReplicasReady: WorkloadReady, "True", Fine, Nobody;
    /// No replica is wanted, and none runs.
    ScaledToZero: WorkloadReady, "True", Fine, Nobody;
    /// Replicas are starting.
    ReplicasStarting: WorkloadReady, "False", Progress, Cluster;
    /// A replica cannot be placed on a node.
    Unschedulable: WorkloadReady, "False", Error, Platform;
    /// The image of the engine cannot be pulled.
    ImagePullFailed: WorkloadReady, "False", Error, Platform;
    /// The engine stops again and again.
    EngineCrashing: WorkloadReady, "False", Error, User;
    /// A pod waits for a volume or a device of its node.
    PodNotPrepared: WorkloadReady, "False", Warning, Cluster;
    /// The API server refused an object that the deployment needs.
    ApplyRefused: WorkloadReady, "False", Error, Platform;
    /// A new version is being rolled out.
    RollingOut: WorkloadReady, "False", Progress, Cluster;

    /// The matrix would choose the same.
    InStep: UpToDate, "True", Fine, Nobody;
    /// A newer matrix would choose differently; the change waits for approval.
    ChangePending: UpToDate, "False", Warning, User;
    /// The matrix has no choice any more; what runs stays as it is.
    ChoiceWithdrawn: UpToDate, "False", Warning, Platform;
    /// Nothing has been chosen yet.
    NothingToCompare: UpToDate, "Unknown", Progress, Cluster;
    /// Whether the choice is still the same could not be checked.
    NotCompared: UpToDate, "Unknown", Warning, Controller;

    /// The model serves.
    Serving: Ready, "True", Fine, Nobody;
    /// The model serves, with fewer replicas than wanted.
    ServingPartly: Ready, "False", Warning, Cluster;
    /// An earlier step is not done.
    NotDecided: WorkloadReady, "Unknown", Progress, Cluster;
    /// An earlier step is not done, so no weights are wanted yet.
    WeightsNotWanted: WeightsReady, "Unknown", Progress, Cluster;
}

impl fmt::Display for Reason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}
