//! A client of the OCI distribution specification: manifests, blobs, ranges, resumable uploads, mirrors.
//!
//! Written for blobs of hundreds of gigabytes: bodies are streams, a failed upload goes on where the registry stands, a range is
//! judged by what the server says it sent, and logins are renewed while a transfer runs.

mod auth;
mod blob;
mod challenge;
mod client;
mod credentials;
pub mod doctor;
mod error;
mod failure;
mod hosts;
mod links;
mod manifest;
mod mirror;
mod profile;
mod proxies;
mod range;
mod reference;
mod referrer_list;
mod referrers;
mod transport;
mod upload;

pub use blob::BlobStream;
pub use client::{Client, ClientConfig, Limits, Retry, WaitObserver};
pub use credentials::{Credentials, Secret};
pub use error::{Error, ErrorKind};
pub use hosts::{Hosts, HostsError, SkippedHost};
pub use links::next_link;
pub use manifest::{ManifestBytes, ManifestDescriptor};
pub use mirror::Endpoint;
pub use profile::{Profile, Profiles, UploadMode};
pub use proxies::mind_no_proxy;
pub use reference::{Reference, ReferenceError, ReferenceProblem};
pub use referrers::Referrer;
/// The address type of [`Endpoint`].
pub use reqwest::Url;
pub use upload::{BlobSource, FileSource, PushEvent, PushObserver, PushOptions, Pushed, SavedSession, SourceStream};
