//! The kubelet as a plugin sees it: a socket to register on, which is made anew at each start of the kubelet.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use tonic::transport::Endpoint;

use crate::api;

/// The kubelet's socket in the device plugin directory.
pub const SOCKET_NAME: &str = "kubelet.sock";

/// Which incarnation of a socket file this is.
///
/// A file system hands out a freed inode number again at once, so the change time is part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SocketIdentity {
    device: u64,
    inode: u64,
    changed: (i64, i64),
}

/// The identity of the socket at `path`, or `None` when there is no such file.
pub fn identify(path: &Path) -> io::Result<Option<SocketIdentity>> {
    match std::fs::symlink_metadata(path) {
        Ok(data) => Ok(Some(SocketIdentity {
            device: data.dev(),
            inode: data.ino(),
            changed: (data.ctime(), data.ctime_nsec()),
        })),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Why the kubelet did not take a registration.
#[derive(Debug, thiserror::Error)]
pub enum RegisterError {
    /// Nobody answers on the socket.
    #[error("connect to the kubelet")]
    Connect(#[source] tonic::transport::Error),
    /// The kubelet answered with an error.
    #[error("the kubelet refused the registration: {}", .0.message())]
    Refused(#[source] Box<tonic::Status>),
}

/// Registers the plugin with the kubelet whose socket is `socket`.
pub async fn register(socket: &Path, request: api::RegisterRequest) -> Result<(), RegisterError> {
    let endpoint = Endpoint::from_shared(format!("unix://{}", socket.display())).map_err(RegisterError::Connect)?;
    let channel = endpoint.connect().await.map_err(RegisterError::Connect)?;
    let mut client = api::registration_client::RegistrationClient::new(channel);
    client
        .register(request)
        .await
        .map_err(|status| RegisterError::Refused(Box::new(status)))?;
    Ok(())
}
