//! The service that the kubelet calls on the plugin's own socket.

use std::collections::BTreeMap;

use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status};

use crate::Simulation;
use crate::api;
use crate::devices::device_ids;

/// Answers the kubelet for one simulated resource.
#[derive(Debug, Clone)]
pub struct Plugin {
    simulation: Simulation,
    ids: Vec<String>,
    devices: watch::Receiver<Vec<api::Device>>,
    stopping: CancellationToken,
}

impl Plugin {
    /// A plugin that announces what `devices` holds until `stopping` is cancelled.
    pub fn new(
        simulation: Simulation,
        devices: watch::Receiver<Vec<api::Device>>,
        stopping: CancellationToken,
    ) -> Self {
        let ids = device_ids(&simulation.resource, simulation.count);
        Self {
            simulation,
            ids,
            devices,
            stopping,
        }
    }

    fn allocate_container(&self, asked: &[String]) -> Result<api::ContainerAllocateResponse, Status> {
        if let Some(unknown) = asked.iter().find(|id| !self.ids.contains(id)) {
            let resource = &self.simulation.resource;
            return Err(Status::invalid_argument(format!(
                "{resource} has no device {unknown:?}"
            )));
        }
        Ok(api::ContainerAllocateResponse {
            envs: BTreeMap::from([(self.simulation.visible_devices_variable.clone(), asked.join(","))]),
            mounts: self
                .simulation
                .mounts
                .iter()
                .map(crate::devices::HostMount::to_api)
                .collect(),
            ..Default::default()
        })
    }
}

/// Sends the whole list at once and after each change, until the plugin stops or the kubelet goes away.
async fn send_lists(
    mut devices: watch::Receiver<Vec<api::Device>>,
    sender: mpsc::Sender<Result<api::ListAndWatchResponse, Status>>,
    stopping: CancellationToken,
) {
    loop {
        let list = devices.borrow_and_update().clone();
        if sender
            .send(Ok(api::ListAndWatchResponse { devices: list }))
            .await
            .is_err()
        {
            return;
        }
        tokio::select! {
            () = stopping.cancelled() => return,
            () = sender.closed() => return,
            changed = devices.changed() => if changed.is_err() { return },
        }
    }
}

#[tonic::async_trait]
impl api::device_plugin_server::DevicePlugin for Plugin {
    async fn get_device_plugin_options(
        &self,
        _: Request<api::Empty>,
    ) -> Result<Response<api::DevicePluginOptions>, Status> {
        Ok(Response::new(api::DevicePluginOptions::default()))
    }

    type ListAndWatchStream = ReceiverStream<Result<api::ListAndWatchResponse, Status>>;

    async fn list_and_watch(&self, _: Request<api::Empty>) -> Result<Response<Self::ListAndWatchStream>, Status> {
        let (sender, receiver) = mpsc::channel(1);
        tokio::spawn(send_lists(self.devices.clone(), sender, self.stopping.clone()));
        Ok(Response::new(ReceiverStream::new(receiver)))
    }

    async fn get_preferred_allocation(
        &self,
        _: Request<api::PreferredAllocationRequest>,
    ) -> Result<Response<api::PreferredAllocationResponse>, Status> {
        Err(Status::unimplemented(
            "the options of this plugin say that it prefers no allocation",
        ))
    }

    async fn allocate(
        &self,
        request: Request<api::AllocateRequest>,
    ) -> Result<Response<api::AllocateResponse>, Status> {
        let containers = request.into_inner().container_requests;
        let answers = containers
            .iter()
            .map(|container| self.allocate_container(&container.devices_ids));
        let container_responses = answers.collect::<Result<Vec<_>, _>>()?;
        for container in &container_responses {
            tracing::info!(resource = %self.simulation.resource, envs = ?container.envs, "allocated");
        }
        Ok(Response::new(api::AllocateResponse { container_responses }))
    }

    async fn pre_start_container(
        &self,
        _: Request<api::PreStartContainerRequest>,
    ) -> Result<Response<api::PreStartContainerResponse>, Status> {
        Ok(Response::new(api::PreStartContainerResponse {}))
    }
}
