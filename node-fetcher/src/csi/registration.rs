//! Registration with the kubelet, which watches a folder of sockets.

use std::path::PathBuf;

use tonic::{Request, Response, Status};

use super::DRIVER;
use super::protocol::registration::registration_server::Registration;
use super::protocol::registration::{InfoRequest, PluginInfo, RegistrationStatus, RegistrationStatusResponse};

/// The registration service.
#[derive(Debug)]
pub(super) struct RegistrationService {
    /// Where the kubelet finds the driver.
    pub(super) endpoint: PathBuf,
}

#[tonic::async_trait]
impl Registration for RegistrationService {
    async fn get_info(&self, _: Request<InfoRequest>) -> Result<Response<PluginInfo>, Status> {
        Ok(Response::new(PluginInfo {
            r#type: "CSIPlugin".to_owned(),
            name: DRIVER.to_owned(),
            endpoint: self.endpoint.display().to_string(),
            supported_versions: vec!["1.0.0".to_owned()],
        }))
    }

    async fn notify_registration_status(
        &self,
        request: Request<RegistrationStatus>,
    ) -> Result<Response<RegistrationStatusResponse>, Status> {
        let status = request.into_inner();
        if status.plugin_registered {
            tracing::info!(driver = DRIVER, "registered with the kubelet");
        } else {
            tracing::error!(driver = DRIVER, error = status.error, "the kubelet refuses the driver");
        }
        Ok(Response::new(RegistrationStatusResponse {}))
    }
}
