//! A kubelet as far as a device plugin can tell: it wipes the directory at its start, takes registrations, and
//! dials back before it answers them.

use std::path::{Path, PathBuf};
use std::time::Duration;

use sim_accelerator::api::device_plugin_client::DevicePluginClient;
use sim_accelerator::api::registration_server::{Registration, RegistrationServer};
use sim_accelerator::api::{Empty, RegisterRequest};
use sim_accelerator::kubelet::SOCKET_NAME;
use tokio::net::UnixListener;
use tokio::sync::mpsc;
use tokio_stream::wrappers::UnixListenerStream;
use tokio_util::sync::CancellationToken;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Response, Status};

/// What a kubelet saw, in order.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// The endpoint answered while the registration was still open.
    DialledBack,
    /// A registration was accepted.
    Registered {
        version: String,
        endpoint: String,
        resource: String,
    },
    /// A device list arrived, as `id=health`.
    List(Vec<String>),
    /// The plugin ended its stream.
    StreamEnded,
}

pub(crate) struct FakeKubelet {
    directory: PathBuf,
    events: mpsc::UnboundedReceiver<Event>,
    stop: CancellationToken,
    ended: tokio::task::JoinHandle<()>,
}

impl FakeKubelet {
    /// Starts as the kubelet does: every file in the directory except the checkpoint is removed first.
    pub(crate) fn start(directory: &Path) -> Self {
        Self::start_refusing(directory, 0)
    }

    /// Starts a kubelet that refuses its first registrations.
    pub(crate) fn start_refusing(directory: &Path, refusals: usize) -> Self {
        wipe(directory);
        let listener = UnixListener::bind(directory.join(SOCKET_NAME)).unwrap();
        let (sender, events) = mpsc::unbounded_channel();
        let stop = CancellationToken::new();
        let service = Registrations {
            directory: directory.to_owned(),
            sender,
            refusals: refusals.into(),
            stop: stop.clone(),
        };
        let server = tonic::transport::Server::builder()
            .add_service(RegistrationServer::new(service))
            .serve_with_incoming_shutdown(UnixListenerStream::new(listener), stop.clone().cancelled_owned());
        let ended = tokio::spawn(async move { server.await.unwrap() });
        Self {
            directory: directory.to_owned(),
            events,
            stop,
            ended,
        }
    }

    /// The next event; fails the test when none comes.
    pub(crate) async fn next(&mut self) -> Event {
        tokio::time::timeout(Duration::from_secs(5), self.events.recv())
            .await
            .expect("the plugin did nothing for five seconds")
            .expect("the kubelet is gone")
    }

    /// The two events of a registration and the first list.
    pub(crate) async fn registration(&mut self) -> [Event; 3] {
        [self.next().await, self.next().await, self.next().await]
    }

    /// A client of the registered plugin.
    pub(crate) async fn client(&self, endpoint: &str) -> DevicePluginClient<Channel> {
        dial(&self.directory.join(endpoint)).await.unwrap()
    }

    /// Stops like a kubelet that dies: its socket file stays behind.
    pub(crate) async fn die(self) {
        self.stop.cancel();
        self.ended.await.unwrap();
    }
}

fn wipe(directory: &Path) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        if !entry.file_type().unwrap().is_dir() && entry.file_name() != "kubelet_internal_checkpoint" {
            std::fs::remove_file(entry.path()).unwrap();
        }
    }
}

async fn dial(socket: &Path) -> Result<DevicePluginClient<Channel>, tonic::transport::Error> {
    let endpoint = Endpoint::from_shared(format!("unix://{}", socket.display()))?;
    Ok(DevicePluginClient::new(endpoint.connect().await?))
}

struct Registrations {
    directory: PathBuf,
    sender: mpsc::UnboundedSender<Event>,
    refusals: std::sync::atomic::AtomicUsize,
    stop: CancellationToken,
}

#[tonic::async_trait]
impl Registration for Registrations {
    async fn register(&self, request: Request<RegisterRequest>) -> Result<Response<Empty>, Status> {
        let RegisterRequest {
            version,
            endpoint,
            resource_name,
            options,
        } = request.into_inner();
        let take_one = |left: usize| left.checked_sub(1);
        let order = std::sync::atomic::Ordering::SeqCst;
        if self.refusals.fetch_update(order, order, take_one).is_ok() {
            return Err(Status::unavailable("the device manager is starting"));
        }
        let mut client = dial(&self.directory.join(&endpoint))
            .await
            .map_err(|error| Status::failed_precondition(format!("dial back: {error}")))?;
        let told = client.get_device_plugin_options(Empty {}).await?.into_inner();
        assert_eq!(Some(told), options, "both ways to tell the options agree");
        self.sender.send(Event::DialledBack).unwrap();
        self.sender
            .send(Event::Registered {
                version,
                endpoint,
                resource: resource_name,
            })
            .unwrap();
        tokio::spawn(follow(client, self.sender.clone(), self.stop.clone()));
        Ok(Response::new(Empty {}))
    }
}

async fn follow(
    mut client: DevicePluginClient<Channel>,
    sender: mpsc::UnboundedSender<Event>,
    stop: CancellationToken,
) {
    let mut stream = client.list_and_watch(Empty {}).await.unwrap().into_inner();
    loop {
        let message = tokio::select! {
            () = stop.cancelled() => return,
            message = stream.message() => message,
        };
        let event = match message {
            Ok(Some(list)) => Event::List(
                list.devices
                    .iter()
                    .map(|device| format!("{}={}", device.id, device.health))
                    .collect(),
            ),
            Ok(None) | Err(_) => Event::StreamEnded,
        };
        let ended = event == Event::StreamEnded;
        if sender.send(event).is_err() || ended {
            return;
        }
    }
}
