//! The life of a plugin: wait for the kubelet, serve, register, and start over when the kubelet did.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::net::UnixListener;
use tokio::sync::watch;
use tokio_stream::wrappers::UnixListenerStream;
use tokio_util::sync::CancellationToken;

use crate::api::device_plugin_server::DevicePluginServer;
use crate::devices::{device_ids, device_list};
use crate::health::{self, Health};
use crate::kubelet::{self, SocketIdentity};
use crate::service::Plugin;
use crate::{API_VERSION, Simulation, api};

/// How often the sockets and the health file are looked at.
const LOOK_INTERVAL: Duration = Duration::from_millis(250);
/// The pause after a registration that failed.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// Why a plugin cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum LifecycleError {
    /// The plugin's own socket cannot be made.
    #[error("listen on {path}")]
    Listen {
        /// The plugin's socket.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A socket in the plugin directory cannot be looked at.
    #[error("look at {path}")]
    Look {
        /// The socket.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The gRPC server ended by itself.
    #[error("serve the device plugin API")]
    Serve(#[source] tonic::transport::Error),
}

impl LifecycleError {
    /// What to do about it.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Listen { .. } | Self::Look { .. } => {
                Some("the plugin directory must exist and be writable: run as root, or name another by --plugin-dir")
            }
            Self::Serve(_) => None,
        }
    }
}

/// Announces the simulated devices to each incarnation of the kubelet until `stop` is cancelled.
pub async fn run(simulation: Simulation, stop: CancellationToken) -> Result<(), LifecycleError> {
    let ids = device_ids(&simulation.resource, simulation.count);
    let (publisher, devices) = watch::channel(device_list(&ids, &Health::default().unhealthy));
    if let Some(file) = simulation.health_file.clone() {
        // Read once before anything is announced, so that no device is healthy for a moment only.
        let mut health = Health::default();
        look_at_health(&file, &ids, &publisher, &mut health);
        tokio::spawn(follow_health(file, ids, publisher.clone(), health, stop.clone()));
    }
    while let Some(kubelet) = wait_for_kubelet(&simulation, &stop).await? {
        serve_one_kubelet(&simulation, devices.clone(), kubelet, &stop).await?;
    }
    tracing::info!(resource = %simulation.resource, "stopped");
    Ok(())
}

/// The kubelet's socket once it is there; `None` when asked to stop before.
async fn wait_for_kubelet(
    simulation: &Simulation,
    stop: &CancellationToken,
) -> Result<Option<SocketIdentity>, LifecycleError> {
    let path = simulation.plugin_directory.join(kubelet::SOCKET_NAME);
    let mut told = false;
    while !stop.is_cancelled() {
        if let Some(identity) = look(&path)? {
            return Ok(Some(identity));
        }
        if !told {
            tracing::info!(socket = %path.display(), "waiting for the kubelet");
            told = true;
        }
        pause(LOOK_INTERVAL, stop).await;
    }
    Ok(None)
}

/// Serves, registers, and returns when that kubelet is gone or the plugin's socket was removed.
async fn serve_one_kubelet(
    simulation: &Simulation,
    devices: watch::Receiver<Vec<api::Device>>,
    kubelet: SocketIdentity,
    stop: &CancellationToken,
) -> Result<(), LifecycleError> {
    let socket = simulation.plugin_directory.join(simulation.resource.socket_name());
    let listener = listen(&socket)?;
    let own = look(&socket)?;
    let ended = stop.child_token();
    let plugin = Plugin::new(simulation.clone(), devices, ended.clone());
    let server = tonic::transport::Server::builder()
        .add_service(DevicePluginServer::new(plugin))
        .serve_with_incoming_shutdown(UnixListenerStream::new(listener), ended.clone().cancelled_owned());
    // The kubelet dials back while it answers Register, so the server runs before the registration is sent.
    let mut server = tokio::spawn(server);
    let outcome = tokio::select! {
        joined = &mut server => return joined.unwrap_or(Ok(())).map_err(LifecycleError::Serve),
        outcome = stay_registered(simulation, kubelet, own) => outcome,
        () = stop.cancelled() => Ok(()),
    };
    ended.cancel();
    let joined = server.await;
    remove_own(&socket, own);
    outcome?;
    joined.unwrap_or(Ok(())).map_err(LifecycleError::Serve)
}

/// Registers, then watches until the registration is void.
async fn stay_registered(
    simulation: &Simulation,
    kubelet: SocketIdentity,
    own: Option<SocketIdentity>,
) -> Result<(), LifecycleError> {
    let kubelet_socket = simulation.plugin_directory.join(kubelet::SOCKET_NAME);
    let own_socket = simulation.plugin_directory.join(simulation.resource.socket_name());
    let request = api::RegisterRequest {
        version: API_VERSION.to_owned(),
        endpoint: simulation.resource.socket_name(),
        resource_name: simulation.resource.to_string(),
        options: Some(api::DevicePluginOptions::default()),
    };
    if let Err(error) = kubelet::register(&kubelet_socket, request).await {
        tracing::warn!(
            error = &error as &dyn std::error::Error,
            "registration failed, trying again"
        );
        tokio::time::sleep(RETRY_PAUSE).await;
        return Ok(());
    }
    tracing::info!(resource = %simulation.resource, count = simulation.count, "registered with the kubelet");
    while look(&kubelet_socket)? == Some(kubelet) && look(&own_socket)? == own {
        tokio::time::sleep(LOOK_INTERVAL).await;
    }
    tracing::info!("the kubelet was restarted");
    Ok(())
}

fn look(path: &Path) -> Result<Option<SocketIdentity>, LifecycleError> {
    kubelet::identify(path).map_err(|source| LifecycleError::Look {
        path: path.to_owned(),
        source,
    })
}

/// Listens on the plugin's socket, in place of one that an earlier run left behind.
fn listen(path: &Path) -> Result<UnixListener, LifecycleError> {
    let failed = |source| LifecycleError::Listen {
        path: path.to_owned(),
        source,
    };
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
        _ => {}
    }
    UnixListener::bind(path).map_err(failed)
}

/// Removes the plugin's socket unless somebody else has made a new one there since.
fn remove_own(path: &Path, own: Option<SocketIdentity>) {
    if own.is_some()
        && kubelet::identify(path).is_ok_and(|now| now == own)
        && let Err(error) = std::fs::remove_file(path)
    {
        tracing::warn!(socket = %path.display(), %error, "the socket stays behind");
    }
}

/// Publishes a new device list whenever the health file says something else.
async fn follow_health(
    file: PathBuf,
    ids: Vec<String>,
    publisher: watch::Sender<Vec<api::Device>>,
    mut last: Health,
    stop: CancellationToken,
) {
    while !stop.is_cancelled() {
        look_at_health(&file, &ids, &publisher, &mut last);
        pause(LOOK_INTERVAL, &stop).await;
    }
}

fn look_at_health(file: &Path, ids: &[String], publisher: &watch::Sender<Vec<api::Device>>, last: &mut Health) {
    let health = match health::read(file, ids) {
        Ok(health) => health,
        // Unreadable is not healthy and not unhealthy: what was last read stands.
        Err(error) => return tracing::warn!(file = %file.display(), %error, "cannot read the health file"),
    };
    if health == *last {
        return;
    }
    for unknown in &health.unknown {
        tracing::warn!(file = %file.display(), line = unknown, "no such device");
    }
    tracing::info!(unhealthy = ?health.unhealthy, "health changed");
    publisher.send_replace(device_list(ids, &health.unhealthy));
    *last = health;
}

async fn pause(duration: Duration, stop: &CancellationToken) {
    tokio::select! {
        () = tokio::time::sleep(duration) => {}
        () = stop.cancelled() => {}
    }
}
