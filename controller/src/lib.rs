//! Turns a `ModelDeployment` into the right engine on the right accelerator, and says why.
//!
//! One pass reads everything first ([`observe`]), then thinks without a client ([`validate`], [`decide`], [`build`]), then writes
//! everything ([`apply`], [`report`], [`write`]).

pub mod apply;
pub mod build;
pub mod decide;
pub mod device_use;
pub mod finding;
pub mod health;
pub mod lease;
pub mod matrices;
pub mod metrics;
pub mod model;
pub mod observe;
pub mod observed;
pub mod reconcile;
pub mod report;
pub mod rewrite;
pub mod run;
pub mod validate;
pub mod watch;
pub mod write;
