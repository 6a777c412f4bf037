//! Keys, certificates and tokens of one cluster, made anew for each bed.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;

use crate::command::run;
use crate::components::hexadecimal;
use crate::debian;
use crate::error::Error;
use crate::network::{GATEWAY, SERVICE_GATEWAY};

use super::launch::write;

/// Where the API server answers.
pub(super) const API_SERVER: &str = "https://10.213.0.1:6443";

/// Who may speak to the API server, and as what.
pub(super) struct Identity {
    pub(super) file: String,
    user: String,
    groups: &'static str,
}

impl Identity {
    fn new(file: &str, user: &str, groups: &'static str) -> Self {
        Self {
            file: file.into(),
            user: user.into(),
            groups,
        }
    }

    /// The components' identities and one per node.
    pub(super) fn all(nodes: &[&str]) -> Vec<Self> {
        let mut all = vec![
            Self::new("admin", "admin", "system:masters"),
            Self::new("kube-controller-manager", "system:kube-controller-manager", ""),
            Self::new("kube-scheduler", "system:kube-scheduler", ""),
            Self::new("kube-proxy", "system:kube-proxy", ""),
            // The DNS server only reads; its role is bound in the nodes' ring.
            Self::new("coredns", "coredns", ""),
        ];
        all.extend(
            nodes
                .iter()
                .map(|node| Self::new(node, &format!("system:node:{node}"), "system:nodes")),
        );
        all
    }
}

/// Makes everything under `folder`: the authority, the API server's certificates, tokens and kubeconfigs.
pub(super) fn make(folder: &Path, identities: &[Identity]) -> Result<(), Error> {
    debian::ensure(&["openssl"])?;
    fs::create_dir_all(folder).map_err(Error::io("make folder", folder))?;
    fs::set_permissions(folder, fs::Permissions::from_mode(0o700)).map_err(Error::io("protect", folder))?;
    authority(folder)?;
    let names = format!(
        "subjectAltName=IP:{GATEWAY},IP:{SERVICE_GATEWAY},IP:127.0.0.1,DNS:localhost,DNS:kubernetes,\
         DNS:kubernetes.default,DNS:kubernetes.default.svc,DNS:kubernetes.default.svc.cluster.local"
    );
    certificate(folder, "apiserver", "/CN=kube-apiserver", &[&names])?;
    let client = "extendedKeyUsage=clientAuth";
    certificate(
        folder,
        "apiserver-kubelet-client",
        "/O=system:masters/CN=kube-apiserver-kubelet-client",
        &[client],
    )?;
    service_account_key(folder)?;
    tokens(folder, identities)
}

fn authority(folder: &Path) -> Result<(), Error> {
    let mut command = request(folder, "ca", "/CN=plimsoll-testbed");
    command.args(["-addext", "keyUsage=critical,keyCertSign,cRLSign,digitalSignature"]);
    run("make the cluster's authority", &mut command).map(drop)
}

fn certificate(folder: &Path, name: &str, subject: &str, extensions: &[&str]) -> Result<(), Error> {
    let mut command = request(folder, name, subject);
    command
        .arg("-CA")
        .arg(folder.join("ca.crt"))
        .arg("-CAkey")
        .arg(folder.join("ca.key"));
    command.args(["-addext", "basicConstraints=critical,CA:FALSE"]);
    for extension in extensions {
        command.args(["-addext", extension]);
    }
    run(&format!("make the certificate {name}"), &mut command).map(drop)
}

fn request(folder: &Path, name: &str, subject: &str) -> Command {
    let mut command = Command::new("openssl");
    command.args([
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
    ]);
    command.args(["-days", "30", "-subj", subject]);
    command
        .arg("-keyout")
        .arg(folder.join(format!("{name}.key")))
        .arg("-out")
        .arg(folder.join(format!("{name}.crt")));
    command
}

fn service_account_key(folder: &Path) -> Result<(), Error> {
    let mut command = Command::new("openssl");
    command.args(["genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"]);
    run(
        "make the service accounts' key",
        command.arg("-out").arg(folder.join("service-account.key")),
    )
    .map(drop)
}

fn tokens(folder: &Path, identities: &[Identity]) -> Result<(), Error> {
    let mut list = String::new();
    for identity in identities {
        let token = random_token()?;
        let _ = writeln!(list, "{token},{0},{0},\"{1}\"", identity.user, identity.groups);
        write(
            &kubeconfig_path(folder, &identity.file),
            &kubeconfig(&folder.join("ca.crt"), &identity.user, &token),
        )?;
    }
    write(&folder.join("tokens.csv"), &list)
}

/// The kubeconfig of an identity.
pub(super) fn kubeconfig_path(folder: &Path, identity: &str) -> PathBuf {
    folder.join(format!("{identity}.kubeconfig"))
}

fn kubeconfig(authority: &Path, user: &str, token: &str) -> String {
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{ "name": "testbed", "cluster": { "server": API_SERVER, "certificate-authority": authority } }],
        "users": [{ "name": user, "user": { "token": token } }],
        "contexts": [{ "name": "testbed", "context": { "cluster": "testbed", "user": user } }],
        "current-context": "testbed",
    });
    format!("{config:#}\n")
}

fn random_token() -> Result<String, Error> {
    let mut bytes = [0; 16];
    let source = Path::new("/dev/urandom");
    File::open(source)
        .and_then(|mut file| file.read_exact(&mut bytes))
        .map_err(Error::io("read", source))?;
    Ok(hexadecimal(&bytes))
}
