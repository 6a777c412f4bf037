//! Ring B: the control plane.

use std::net::{Ipv4Addr, TcpStream};
use std::process::Command;

use crate::bed::Bed;
use crate::command::succeeds;
use crate::error::Error;
use crate::http::is_ok;
use crate::network::{self, GATEWAY, SERVICE_NETWORK};

use super::certificates::{self, Identity, kubeconfig_path};
use super::launch::{Launched, launch};
use super::nodes::NODE_NAMES;

const API_PORT: u16 = 6443;

pub(super) fn start(bed: &Bed) -> Result<(), Error> {
    network::check_port("the API server", GATEWAY, API_PORT)?;
    let secrets = bed.layout().secrets();
    // etcd comes up while openssl makes the keys.
    let (etcd, etcd_port) = start_etcd(bed)?;
    certificates::make(&secrets, &Identity::all(&NODE_NAMES))?;
    etcd.wait_until(|| is_ok(&format!("http://127.0.0.1:{etcd_port}/health")))?;
    let server = launch(bed, "kube-apiserver", &mut api_server(bed, etcd_port)?)?;
    server.wait_until(|| answers(bed, &["get", "--raw", "/readyz"]))?;
    start_followers(bed)
}

fn start_etcd(bed: &Bed) -> Result<(Launched<'_>, u16), Error> {
    let (client, peer) = (network::loopback_port(2379)?, network::loopback_port(2380)?);
    let mut command = Command::new(bed.program("etcd")?);
    let (clients, peers) = (format!("http://127.0.0.1:{client}"), format!("http://127.0.0.1:{peer}"));
    command.arg("--data-dir").arg(bed.layout().data("etcd"));
    command.args(["--listen-client-urls", &clients, "--advertise-client-urls", &clients]);
    command.args(["--listen-peer-urls", &peers, "--initial-advertise-peer-urls", &peers]);
    command.args(["--initial-cluster", &format!("default={peers}"), "--log-level", "warn"]);
    // A bed does not outlive its machine, so nothing has to survive a power cut.
    command.arg("--unsafe-no-fsync");
    Ok((launch(bed, "etcd", &mut command)?, client))
}

fn api_server(bed: &Bed, etcd_port: u16) -> Result<Command, Error> {
    let secrets = bed.layout().secrets();
    let file = |name: &str| secrets.join(name).display().to_string();
    let mut command = Command::new(bed.program("kube-apiserver")?);
    command.args([
        format!("--etcd-servers=http://127.0.0.1:{etcd_port}"),
        format!("--bind-address={GATEWAY}"),
        format!("--advertise-address={GATEWAY}"),
        format!("--secure-port={API_PORT}"),
        format!("--tls-cert-file={}", file("apiserver.crt")),
        format!("--tls-private-key-file={}", file("apiserver.key")),
        format!("--client-ca-file={}", file("ca.crt")),
        format!("--token-auth-file={}", file("tokens.csv")),
        format!("--kubelet-client-certificate={}", file("apiserver-kubelet-client.crt")),
        format!("--kubelet-client-key={}", file("apiserver-kubelet-client.key")),
        "--service-account-issuer=https://kubernetes.default.svc".into(),
        format!("--service-account-key-file={}", file("service-account.key")),
        format!("--service-account-signing-key-file={}", file("service-account.key")),
        format!("--service-cluster-ip-range={SERVICE_NETWORK}"),
        "--authorization-mode=Node,RBAC".into(),
        "--enable-admission-plugins=NodeRestriction".into(),
        "--allow-privileged=true".into(),
        // Node names are in no DNS that the API server asks.
        "--kubelet-preferred-address-types=InternalIP".into(),
    ]);
    Ok(command)
}

fn start_followers(bed: &Bed) -> Result<(), Error> {
    let (manager_port, scheduler_port) = (network::loopback_port(10257)?, network::loopback_port(10259)?);
    let secrets = bed.layout().secrets();
    let mut manager = follower(bed, "kube-controller-manager", manager_port)?;
    manager.arg("--use-service-account-credentials");
    manager.arg("--root-ca-file").arg(secrets.join("ca.crt"));
    manager
        .arg("--service-account-private-key-file")
        .arg(secrets.join("service-account.key"));
    let manager = launch(bed, "kube-controller-manager", &mut manager)?;
    let mut scheduler = follower(bed, "kube-scheduler", scheduler_port)?;
    let scheduler = launch(bed, "kube-scheduler", &mut scheduler)?;
    scheduler.wait_until(|| listens(scheduler_port))?;
    // Pods are only admitted when their namespace has its service account and the authority's certificate.
    manager.wait_until(|| answers(bed, &["get", "serviceaccount/default", "configmap/kube-root-ca.crt"]))
}

fn follower(bed: &Bed, name: &str, port: u16) -> Result<Command, Error> {
    let mut command = Command::new(bed.program(name)?);
    command
        .arg("--kubeconfig")
        .arg(kubeconfig_path(&bed.layout().secrets(), name));
    command.args([
        "--bind-address=127.0.0.1",
        "--leader-elect=false",
        &format!("--secure-port={port}"),
    ]);
    Ok(command)
}

/// Whether `kubectl` with these arguments succeeds.
pub(super) fn answers(bed: &Bed, arguments: &[&str]) -> bool {
    bed.kubectl_command(arguments)
        .is_ok_and(|mut command| succeeds(command.arg("--request-timeout=5s")))
}

/// The scheduler serves as soon as it runs; its health is behind TLS and a login.
fn listens(port: u16) -> bool {
    TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok()
}
