//! `node-fetcher pull`: an artifact's files in a folder, proven, all or none.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use artifact::Digest;
use clap::Args;
use node_fetcher::fetch::{FetchError, Fetcher, Haste, Limits, Progress, Snapshot, Urgency};
use node_fetcher::metrics::Metrics;
use node_fetcher::place::{self, Sharing};
use node_fetcher::size::size_text;
use node_fetcher::source::{Access, AccessPool};
use node_fetcher::store::{Durability, Floor, Record, Store};
use registry::Reference;

use super::RegistryArgs;
use crate::failure::{Failure, ours, theirs};

/// Bring a packed model into a folder
#[derive(Debug, Args)]
pub(crate) struct PullArgs {
    /// The artifact: HOST[:PORT]/REPOSITORY[:TAG][@DIGEST]
    reference: String,
    /// The folder that appears with the model's files when all of them are proven
    #[arg(long, value_name = "DIR")]
    into: PathBuf,
    /// Keep the blobs in this store; without it they are kept only until the folder is complete
    #[arg(long, value_name = "DIR")]
    store: Option<PathBuf>,
    /// What stays free on the disk: 10% or 20Gi
    #[arg(long, value_name = "SIZE", default_value = "1%")]
    free_space_floor: Floor,
    /// Wait until everything is on the disk; without it a power cut in the next half minute costs another pull
    #[arg(long)]
    sync: bool,
    #[command(flatten)]
    registry: RegistryArgs,
}

impl PullArgs {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        let reference: Reference = self.reference.parse().map_err(|error: registry::ReferenceError| {
            let hint = error.hint();
            theirs(error, hint)
        })?;
        let settings = self
            .registry
            .settings()
            .map_err(|error| theirs(error, None::<String>))?;
        let pool = AccessPool::new(settings);
        let access = pool.of_user().map_err(ours)?;
        place::check_target(&self.into).map_err(|error| {
            let hint = error.hint();
            theirs(error, hint)
        })?;
        let digest = resolve(&access, &reference).await?;
        if place::holds(&self.into, &digest).map_err(ours)? {
            println!("{digest}");
            eprintln!(
                "{} already holds {reference} ({digest}): nothing to move",
                self.into.display()
            );
            return Ok(());
        }
        self.fetch(&reference, &digest, &access, &pool).await
    }

    fn durability(&self) -> Durability {
        if self.sync {
            Durability::PowerCut
        } else {
            Durability::ProcessDeath
        }
    }

    async fn fetch(
        &self,
        reference: &Reference,
        digest: &Digest,
        access: &Access,
        pool: &AccessPool,
    ) -> Result<(), Failure> {
        let root = self
            .store
            .clone()
            .unwrap_or_else(|| place::sibling(&self.into, "fetch"));
        let store = open_store(&root, self.free_space_floor, self.durability())?;
        let sources = self.registry.sources(pool.settings());
        let fetcher = Fetcher::new(
            Arc::clone(&store),
            sources,
            Limits::default(),
            Arc::new(Metrics::default()),
        );
        let started = Instant::now();
        let progress = Arc::new(Progress::default());
        let telling = tokio::spawn(tell(Arc::clone(&progress)));
        let outcome = fetcher
            .fetch(reference, digest, access, &Haste::of(Urgency::Serving), &progress)
            .await;
        telling.abort();
        let record = outcome.map_err(failure_of)?;
        self.place(&store, record).await?;
        store.close().map_err(ours)?;
        if self.store.is_none() {
            std::fs::remove_dir_all(&root)
                .with_context(|| format!("cannot remove {}", root.display()))
                .map_err(ours)?;
        }
        println!("{digest}");
        eprintln!(
            "{}",
            summary(
                &progress.snapshot(),
                started.elapsed(),
                &self.into.display().to_string()
            )
        );
        Ok(())
    }

    async fn place(&self, store: &Arc<Store>, record: Record) -> Result<(), Failure> {
        let (store, folder) = (Arc::clone(store), self.into.clone());
        // A store that stays must not share inodes with a folder that somebody may write to.
        let sharing = if self.store.is_some() {
            Sharing::Apart
        } else {
            Sharing::HandOver
        };
        let placed = tokio::task::spawn_blocking(move || place::place(&store, &record, &folder, sharing)).await;
        placed.map_err(ours)?.map_err(|error| {
            let hint = error.hint();
            theirs(error, hint)
        })
    }
}

fn open_store(root: &std::path::Path, floor: Floor, durability: Durability) -> Result<Arc<Store>, Failure> {
    Store::open(root, floor, durability).map_err(|error| {
        let hint = error.hint();
        theirs(error, hint)
    })
}

async fn resolve(access: &Access, reference: &Reference) -> Result<Digest, Failure> {
    let digest = access.resolve(reference).await.map_err(|error| {
        let hint = error.hint();
        theirs(error, hint)
    })?;
    digest.parse().map_err(ours)
}

fn failure_of(error: FetchError) -> Failure {
    let hint = error.hint().map(str::to_owned);
    theirs(error, hint)
}

/// A line every other second: readable in a terminal and in a log.
async fn tell(progress: Arc<Progress>) {
    let mut last = Snapshot::default();
    loop {
        tokio::time::sleep(Duration::from_secs(2)).await;
        let now = progress.snapshot();
        for demotion in now
            .demotions
            .iter()
            .filter(|demotion| !last.demotions.contains(demotion))
        {
            eprintln!("{}", demotion.message);
        }
        if now.total.is_some() && now != last {
            eprintln!("{}", line(&now));
        }
        last = now;
    }
}

fn line(now: &Snapshot) -> String {
    let total = now.total.unwrap_or_default();
    let percent = (now.done * 100).checked_div(total).unwrap_or(100);
    let rate = now
        .rate
        .map(|rate| format!(", {}/s", size_text(rate)))
        .unwrap_or_default();
    let word = if now.verifying { "proving" } else { "fetching" };
    format!("{word} {percent:>3} % of {}{rate}", size_text(total))
}

fn summary(now: &Snapshot, elapsed: Duration, folder: &str) -> String {
    let sources: Vec<_> = now
        .by_source
        .iter()
        .map(|(kind, bytes)| format!("{} from {}", size_text(*bytes), source_text(*kind)))
        .collect();
    let remote: u64 = now
        .by_source
        .iter()
        .filter(|(kind, _)| kind.as_str() != "local")
        .map(|(_, bytes)| bytes)
        .sum();
    let millis = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX).max(1);
    let rate = size_text(remote.saturating_mul(1000) / millis);
    let moved = if sources.is_empty() {
        "no bytes".to_owned()
    } else {
        sources.join(", ")
    };
    format!(
        "{folder} is complete and proven: {moved}, in {:.1} s ({rate}/s)",
        elapsed.as_secs_f64()
    )
}

fn source_text(kind: crds::node_weights::SourceKind) -> &'static str {
    match kind {
        crds::node_weights::SourceKind::Local => "this store",
        other => other.as_str(),
    }
}
