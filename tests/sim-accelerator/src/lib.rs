//! A simulated accelerator: a real kubelet device plugin that owns no hardware.
//!
//! The kubelet and the scheduler treat its devices like any other: they are counted in allocatable, handed out
//! once each, and lost when the plugin goes away. Health is switched by a file, see [`health`].

pub mod devices;
pub mod health;
pub mod kubelet;
pub mod lifecycle;
pub mod service;

/// The device plugin API v1beta1, generated from `proto/deviceplugin.proto`.
pub mod api {
    #![allow(
        missing_docs,
        clippy::pedantic,
        reason = "generated code; which lints fire depends on the generator"
    )]
    tonic::include_proto!("v1beta1");
}

pub use lifecycle::{LifecycleError, run};

use std::path::PathBuf;

/// The version string of the API that a plugin registers with.
pub const API_VERSION: &str = "v1beta1";

/// What is simulated, and where the kubelet is found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Simulation {
    /// The extended resource that is announced, such as `enflame.com/gcu`.
    pub resource: devices::ResourceName,
    /// How many devices are announced.
    pub count: u32,
    /// The environment variable that carries the allocated device ids into a container.
    pub visible_devices_variable: String,
    /// Host paths that each allocation mounts.
    pub mounts: Vec<devices::HostMount>,
    /// The kubelet's device plugin directory.
    pub plugin_directory: PathBuf,
    /// The file that switches devices to unhealthy.
    pub health_file: Option<PathBuf>,
}
