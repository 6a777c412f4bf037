//! The two sockets of the driver.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::net::UnixListener;
use tokio_stream::wrappers::UnixListenerStream;
use tokio_util::sync::CancellationToken;
use tonic::transport::Server;

use super::DRIVER;
use super::authority::mended;
use super::identity::IdentityService;
use super::node::NodeService;
use super::protocol::csi::identity_server::IdentityServer;
use super::protocol::csi::node_server::NodeServer;
use super::protocol::registration::registration_server::RegistrationServer;
use super::registration::RegistrationService;

/// How long open calls may hold up a stop.
const GRACE: Duration = Duration::from_secs(3);

/// Where the sockets are, as the kubelet sees them.
#[derive(Debug, Clone)]
pub struct Sockets {
    /// The driver's own.
    pub driver: PathBuf,
    /// The one that the kubelet finds by itself.
    pub registration: PathBuf,
}

impl Sockets {
    /// The usual places below a kubelet's folder.
    pub fn below(kubelet_root: &Path) -> Self {
        Self {
            driver: kubelet_root.join("plugins").join(DRIVER).join("csi.sock"),
            registration: kubelet_root.join("plugins_registry").join(format!("{DRIVER}-reg.sock")),
        }
    }
}

/// Why the driver cannot be reached.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// A socket cannot be made.
    #[error("cannot listen on `{}`", .0.display())]
    Listen(PathBuf, #[source] io::Error),
    /// The server failed.
    #[error("cannot serve on `{}`", .0.display())]
    Serve(PathBuf, #[source] tonic::transport::Error),
}

/// Serves until it is stopped. The driver listens before it is announced; the announcement is taken back first.
pub async fn serve(node: NodeService, sockets: &Sockets, stop: CancellationToken) -> Result<(), ServeError> {
    let driver = listen(&sockets.driver)?;
    let registration = listen(&sockets.registration)?;
    let driver = Server::builder()
        .add_service(IdentityServer::new(IdentityService))
        .add_service(NodeServer::new(node))
        .serve_with_incoming_shutdown(UnixListenerStream::new(driver), stop.clone().cancelled_owned());
    let announcement = RegistrationService {
        endpoint: sockets.driver.clone(),
    };
    let registration = Server::builder()
        .add_service(RegistrationServer::new(announcement))
        .serve_with_incoming_shutdown(
            mended(UnixListenerStream::new(registration)),
            stop.clone().cancelled_owned(),
        );
    let driver = async {
        driver
            .await
            .map_err(|error| ServeError::Serve(sockets.driver.clone(), error))
    };
    let registration = async {
        let served = registration.await;
        // Without the file the kubelet takes the driver off the node's list.
        let _ = fs::remove_file(&sockets.registration);
        served.map_err(|error| ServeError::Serve(sockets.registration.clone(), error))
    };
    tokio::select! {
        served = async { tokio::try_join!(driver, registration) } => served.map(|_| ()),
        // Calls that wait for bytes would hold the stop up; the kubelet asks again.
        () = async { stop.cancelled().await; tokio::time::sleep(GRACE).await } => Ok(()),
    }
}

/// A socket that a killed process left behind is replaced.
fn listen(path: &Path) -> Result<UnixListener, ServeError> {
    let make = || {
        path.parent().map_or(Ok(()), fs::create_dir_all)?;
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = UnixListener::bind(path)?;
        // Whoever can write to it can have weights mounted: root only, like the kubelet.
        fs::set_permissions(path, Permissions::from_mode(0o600))?;
        Ok(listener)
    };
    make().map_err(|error| ServeError::Listen(path.to_owned(), error))
}
