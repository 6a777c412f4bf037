//! The CSI node driver for ephemeral inline volumes: a pod names an artifact by digest and sees its files, read-only.

mod attributes;
mod authorise;
mod authority;
mod identity;
mod mount;
mod mount_table;
mod node;
mod registration;
mod server;

pub use attributes::{AttributeError, VolumeAttributes};
pub use authorise::Authoriser;
pub use mount::{KernelMounter, Mounter};
pub use mount_table::{Mounted, parse_mount_table};
pub use node::{NodeService, NodeSettings};
pub use server::{ServeError, Sockets, serve};

pub use crds::node_weights::WEIGHTS_DRIVER as DRIVER;

/// The protocols, as generated.
#[expect(missing_docs, clippy::pedantic, reason = "generated code")]
pub mod protocol {
    /// Container Storage Interface.
    pub mod csi {
        tonic::include_proto!("csi.v1");
    }
    /// Registration of plugins with the kubelet.
    pub mod registration {
        tonic::include_proto!("pluginregistration");
    }
}
