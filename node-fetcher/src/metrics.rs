//! Counters of a fetcher, in the text format of Prometheus.

use std::time::Duration;

use crds::node_weights::{FetchReason, SourceKind};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct BySource {
    source: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByReason {
    reason: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct BySourceAndReason {
    source: &'static str,
    reason: &'static str,
}

/// What a fetcher counts.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    bytes: Family<BySource, Counter>,
    wrong_blobs: Family<BySource, Counter>,
    demotions: Family<BySourceAndReason, Counter>,
    failures: Family<ByReason, Counter>,
    fetch_seconds: Histogram,
    publish_seconds: Histogram,
    store_bytes: Gauge,
    free_bytes: Gauge,
    floor_bytes: Gauge,
    mounts: Gauge,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut metrics = Self {
            registry: Registry::with_prefix("plimsoll_node_fetcher"),
            bytes: Family::default(),
            wrong_blobs: Family::default(),
            demotions: Family::default(),
            failures: Family::default(),
            fetch_seconds: Histogram::new([0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0]),
            publish_seconds: Histogram::new([0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 120.0]),
            store_bytes: Gauge::default(),
            free_bytes: Gauge::default(),
            floor_bytes: Gauge::default(),
            mounts: Gauge::default(),
        };
        metrics.register();
        metrics
    }
}

impl Metrics {
    fn register(&mut self) {
        let registry = &mut self.registry;
        registry.register_with_unit("received", "Bytes received, by source", Unit::Bytes, self.bytes.clone());
        registry.register(
            "wrong_blobs",
            "Blobs whose sha256 was wrong, by source",
            self.wrong_blobs.clone(),
        );
        registry.register(
            "demotions",
            "Sources given up, by source and reason",
            self.demotions.clone(),
        );
        registry.register("failed_blobs", "Blobs given up, by reason", self.failures.clone());
        registry.register_with_unit(
            "fetch",
            "Time to fetch and prove a blob",
            Unit::Seconds,
            self.fetch_seconds.clone(),
        );
        let publish = self.publish_seconds.clone();
        registry.register_with_unit("publish", "Time of a call to mount a volume", Unit::Seconds, publish);
        registry.register_with_unit("store", "Bytes of proven blobs", Unit::Bytes, self.store_bytes.clone());
        registry.register_with_unit(
            "store_free",
            "Bytes free on the file system",
            Unit::Bytes,
            self.free_bytes.clone(),
        );
        registry.register_with_unit(
            "store_floor",
            "Bytes that stay free",
            Unit::Bytes,
            self.floor_bytes.clone(),
        );
        registry.register("mounts", "Volumes mounted now", self.mounts.clone());
        // Series that exist from the start can be alerted on before the first event.
        for kind in [SourceKind::Dragonfly, SourceKind::Mirror, SourceKind::Registry] {
            drop(self.bytes.get_or_create(&BySource { source: kind.as_str() }));
        }
        for reason in FetchReason::ALL {
            drop(self.failures.get_or_create(&ByReason {
                reason: reason.as_str(),
            }));
        }
    }

    pub(crate) fn received(&self, kind: SourceKind, bytes: u64) {
        self.bytes
            .get_or_create(&BySource { source: kind.as_str() })
            .inc_by(bytes);
    }

    pub(crate) fn wrong_blob(&self, kind: SourceKind) {
        self.wrong_blobs
            .get_or_create(&BySource { source: kind.as_str() })
            .inc();
    }

    pub(crate) fn demoted(&self, kind: SourceKind, reason: FetchReason) {
        let labels = BySourceAndReason {
            source: kind.as_str(),
            reason: reason.as_str(),
        };
        self.demotions.get_or_create(&labels).inc();
    }

    pub(crate) fn fetched(&self, elapsed: Duration, failed: Option<FetchReason>) {
        match failed {
            None => self.fetch_seconds.observe(elapsed.as_secs_f64()),
            Some(reason) => {
                self.failures
                    .get_or_create(&ByReason {
                        reason: reason.as_str(),
                    })
                    .inc();
            }
        }
    }

    pub(crate) fn published(&self, elapsed: Duration) {
        self.publish_seconds.observe(elapsed.as_secs_f64());
    }

    pub(crate) fn set_store(&self, stored: u64, free: u64, floor: u64, mounts: usize) {
        let gauge = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
        self.store_bytes.set(gauge(stored));
        self.free_bytes.set(gauge(free));
        self.floor_bytes.set(gauge(floor));
        self.mounts.set(i64::try_from(mounts).unwrap_or(i64::MAX));
    }

    /// Everything as text.
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a String cannot fail.
        let _ = prometheus_client::encoding::text::encode(&mut text, &self.registry);
        text
    }
}
