//! The wiring: watches, leadership, the loop, and the end.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context as _;
use futures::channel::mpsc;
use futures::{StreamExt as _, future};
use kube::Client;
use kube::runtime::controller::{self, ReconcileRequest, applier};
use kube::runtime::events::{Recorder, Reporter};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::apply::{Applier, FIELD_MANAGER};
use crate::health::{self, Health};
use crate::lease::Candidate;
use crate::matrices::Matrices;
use crate::metrics::Metrics;
use crate::model::ModelReader;
use crate::observe::Sources;
use crate::observed::Settings;
use crate::reconcile::{Context, on_error, reconcile};
use crate::rewrite::ImageRewrite;
use crate::watch::{self as watches, Caches, Guarded, Wake};

/// Deployments that are worked on at the same time.
const CONCURRENCY: u16 = 16;
/// Name of the leader lease.
const LEASE: &str = "plimsoll-controller";

/// What the command line says.
pub struct Options {
    /// Where images really come from.
    pub rewrite: ImageRewrite,
    /// Registries that speak plain http.
    pub plain_http: Vec<String>,
    /// Where health and metrics are served.
    pub metrics_address: SocketAddr,
    /// The namespace of the lease.
    pub namespace: String,
    /// What tells this replica from others.
    pub identity: String,
}

/// Runs until a signal asks to stop.
pub async fn run(options: Options) -> anyhow::Result<()> {
    let client = Client::try_default()
        .await
        .context("cannot find the API server: set KUBECONFIG, or run in a pod")?;
    let (metrics, ready) = (Arc::new(Metrics::default()), Arc::new(AtomicBool::new(false)));
    let mut tasks = JoinSet::new();
    let health = health::serve(
        options.metrics_address,
        Health {
            metrics: Arc::clone(&metrics),
            ready: Arc::clone(&ready),
        },
    );
    let mut serving = tokio::spawn(health);
    let (wake, woken) = mpsc::unbounded();
    let caches = Arc::new(watches::start(&client, &wake, &mut tasks).await);
    tokio::select! {
        filled = caches.wait_until_ready() => filled.context("a watch ended before its first list was complete")?,
        ended = &mut serving => return Err(end_of_serving(ended, options.metrics_address)),
        signal = stop_signal() => return signal,
    }
    ready.store(true, Ordering::Relaxed);
    let (leads, may_write) = watch::channel(false);
    let candidate =
        |leader: &Options| Candidate::new(client.clone(), &leader.namespace, LEASE, leader.identity.clone());
    let election = tokio::spawn(candidate(&options).run(leads));
    tasks.spawn(follow_leadership(
        may_write.clone(),
        Arc::clone(&caches),
        wake,
        Arc::clone(&metrics),
    ));
    let retiring = candidate(&options);
    let context = context(
        client,
        Arc::clone(&caches),
        metrics,
        may_write,
        options.rewrite,
        options.plain_http,
        &options.identity,
    );
    tracing::info!(identity = options.identity, "started");
    tokio::select! {
        () = work(context, &caches, woken) => (),
        ended = &mut serving => return Err(end_of_serving(ended, options.metrics_address)),
        signal = stop_signal() => signal?,
    }
    // The loop is over, so nothing writes any more when the lease is given up.
    election.abort();
    retiring.release().await.context("cannot give up the leader lease")?;
    tracing::info!("stopped");
    Ok(())
}

fn end_of_serving(ended: Result<std::io::Result<()>, tokio::task::JoinError>, address: SocketAddr) -> anyhow::Error {
    let what = format!("cannot serve health and metrics on {address}");
    match ended {
        Ok(Ok(())) => anyhow::anyhow!(what),
        Ok(Err(error)) => anyhow::Error::new(error).context(what),
        Err(error) => anyhow::Error::new(error).context(what),
    }
}

fn context(
    client: Client,
    caches: Arc<Caches>,
    metrics: Arc<Metrics>,
    leads: watch::Receiver<bool>,
    rewrite: ImageRewrite,
    plain_http: Vec<String>,
    identity: &str,
) -> Arc<Context> {
    let reporter = Reporter {
        controller: FIELD_MANAGER.to_owned(),
        instance: Some(identity.to_owned()),
    };
    Arc::new(Context {
        sources: Sources {
            matrices: Matrices::new(client.clone(), Arc::clone(&caches)),
            models: ModelReader::new(client.clone(), plain_http),
            settings: Arc::new(Settings { rewrite }),
            caches,
        },
        applier: Applier::new(client.clone()),
        recorder: Recorder::new(client.clone(), reporter),
        client,
        metrics,
        leads,
        attempts: std::sync::Mutex::default(),
    })
}

/// The loop: every name on the list is looked at, several at a time, never one twice at once.
async fn work(
    context: Arc<Context>,
    caches: &Caches,
    woken: mpsc::UnboundedReceiver<kube::runtime::reflector::ObjectRef<Guarded>>,
) {
    let queue = woken.map(|name| Ok::<_, std::convert::Infallible>(ReconcileRequest::from(name)));
    let config = controller::Config::default()
        .concurrency(CONCURRENCY)
        .debounce(std::time::Duration::from_millis(200));
    let pass = |object, context| Box::pin(reconcile(object, context));
    let passes = applier(pass, on_error, context, caches.deployments.clone(), queue, config);
    passes.for_each(|_| future::ready(())).await;
}

/// A new leader looks at everything; a follower has the caches and waits.
async fn follow_leadership(mut leads: watch::Receiver<bool>, caches: Arc<Caches>, wake: Wake, metrics: Arc<Metrics>) {
    while leads.changed().await.is_ok() {
        let leading = *leads.borrow_and_update();
        metrics.set_leader(leading);
        tracing::info!(leading, "leadership changed");
        if leading {
            watches::wake_all(&caches.deployments, &wake);
        }
    }
}

async fn stop_signal() -> anyhow::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
    tokio::select! {
        _ = terminate.recv() => Ok(()),
        interrupted = tokio::signal::ctrl_c() => interrupted.context("cannot listen for Ctrl-C"),
    }
}
