//! Moving bytes from one source into the file, with a watch on the clock.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use crds::node_weights::{FetchReason, SourceKind};
use futures::StreamExt as _;
use futures::future::Either;
use futures::stream::FuturesUnordered;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::board::Board;
use super::progress::BlobProgress;
use crate::extent::Extent;
use crate::source::{BlobRequest, Body, RegistryRate, Source, SourceError};
use crate::store::{Partial, SavedRange, StoreError};

/// Written to the disk at once; two of these per connection is what a fetch holds in memory.
const BATCH: usize = 1 << 20;

/// What ended a transfer early.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TransferError {
    /// The source's fault.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// Our own disk's fault.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Limits of one transfer.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// A source that sends nothing for so long is left.
    pub stall: Duration,
    /// A peer is measured over this time against a tenth of the registry's rate.
    pub slow_window: Duration,
    /// Bytes asked for in one request to the registry, and the most that a crash costs.
    pub range: u64,
    /// Requests to the registry at once for one blob.
    pub connections: usize,
    /// Before a source is asked again; doubled each time.
    pub pause: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            stall: Duration::from_secs(15),
            slow_window: Duration::from_secs(30),
            range: 16 << 20,
            connections: 4,
            pause: Duration::from_millis(250),
        }
    }
}

/// One blob's transfer.
pub(crate) struct Transfer<'a> {
    pub(crate) request: BlobRequest<'a>,
    pub(crate) partial: &'a Arc<Partial>,
    pub(crate) board: &'a Arc<Board>,
    pub(crate) progress: &'a Arc<BlobProgress>,
    pub(crate) saver: &'a mpsc::UnboundedSender<SavedRange>,
    pub(crate) rate: &'a RegistryRate,
    pub(crate) limits: &'a Limits,
}

impl Transfer<'_> {
    /// Fetches everything that is missing from this source. Whatever happens, no write is under way afterwards.
    pub(crate) async fn run(&self, source: &Arc<dyn Source>) -> Result<(), TransferError> {
        let result = if source.kind() == SourceKind::Registry {
            self.run_registry(source).await
        } else {
            self.run_stream(source).await
        };
        self.board.settle().await;
        result
    }

    /// A peer gets one long request at a time: its own pieces are what is parallel there.
    async fn run_stream(&self, source: &Arc<dyn Source>) -> Result<(), TransferError> {
        while let Some(hole) = self.board.claim(u64::MAX) {
            self.pump(source, hole).await?;
        }
        Ok(())
    }

    /// The first range is also the probe: only when it is answered as a range, more connections join.
    async fn run_registry(&self, source: &Arc<dyn Source>) -> Result<(), TransferError> {
        let started = Instant::now();
        let before = self.board.bytes();
        let Some(first) = self.board.claim(self.limits.range) else {
            return Ok(());
        };
        let body = self.open(source, first).await?;
        if body.ranged {
            let mut workers = FuturesUnordered::new();
            workers.push(Either::Left(self.work_from(source, first, body)));
            for _ in 1..self.limits.connections {
                workers.push(Either::Right(self.work(source)));
            }
            while let Some(result) = workers.next().await {
                result?;
            }
        } else {
            self.read_through(source.kind(), first, body).await?;
        }
        self.rate.record(self.board.bytes() - before, started.elapsed());
        Ok(())
    }

    /// One answer holds the whole blob: its missing parts are picked from it in passing.
    async fn read_through(&self, kind: SourceKind, first: Extent, body: Body) -> Result<(), TransferError> {
        let mut reader = Reader::new(body);
        let mut next = Some(first);
        while let Some(extent) = next {
            self.receive(kind, extent, &mut reader).await?;
            next = self.board.claim(u64::MAX);
        }
        Ok(())
    }

    async fn work_from(&self, source: &Arc<dyn Source>, first: Extent, body: Body) -> Result<(), TransferError> {
        self.receive(source.kind(), first, &mut Reader::new(body)).await?;
        self.work(source).await
    }

    async fn work(&self, source: &Arc<dyn Source>) -> Result<(), TransferError> {
        while let Some(extent) = self.board.claim(self.limits.range) {
            self.pump(source, extent).await?;
        }
        Ok(())
    }

    async fn pump(&self, source: &Arc<dyn Source>, extent: Extent) -> Result<(), TransferError> {
        let body = self.open(source, extent).await?;
        self.receive(source.kind(), extent, &mut Reader::new(body)).await
    }

    async fn open(&self, source: &Arc<dyn Source>, extent: Extent) -> Result<Body, TransferError> {
        let request = BlobRequest {
            extent,
            ..self.request.clone()
        };
        let opened = tokio::time::timeout(self.limits.stall, source.open(&request)).await;
        let body = opened.map_err(|_| stalled(self.limits.stall))??;
        if body.start > extent.start {
            let detail = format!("asked for {extent}, the answer starts at byte {}", body.start);
            return Err(SourceError::new(FetchReason::EngineDown, detail).into());
        }
        Ok(body)
    }

    /// Writes the wanted part of a body. Bytes before it are dropped, a body that ends early is an error.
    async fn receive(&self, kind: SourceKind, extent: Extent, reader: &mut Reader) -> Result<(), TransferError> {
        let mut writer = Writer::new(self, kind, extent);
        let mut watch = Watch::new(kind, self.limits, self.rate);
        while writer.received < extent.end {
            let wanted = Extent::new(writer.received, extent.end);
            let arrived = match reader.next(wanted, self.limits.stall).await {
                Ok(chunk) => {
                    let length = chunk.len() as u64;
                    writer.push(chunk).await?;
                    watch.arrived(length, Instant::now())
                }
                Err(error) => Err(error),
            };
            if let Err(error) = arrived {
                // What did arrive is good until the proof says otherwise: the next source goes on behind it.
                writer.finish().await?;
                return Err(error.into());
            }
        }
        writer.finish().await
    }
}

/// A body with the place of its next byte.
struct Reader {
    body: Body,
    position: u64,
    leftover: Bytes,
}

impl Reader {
    fn new(body: Body) -> Self {
        Self {
            position: body.start,
            body,
            leftover: Bytes::new(),
        }
    }

    /// The next bytes inside `wanted`, which starts at or behind the present place.
    async fn next(&mut self, wanted: Extent, stall: Duration) -> Result<Bytes, SourceError> {
        loop {
            let mut chunk = std::mem::take(&mut self.leftover);
            if chunk.is_empty() {
                let next = tokio::time::timeout(stall, self.body.stream.next()).await;
                chunk = next
                    .map_err(|_| stalled(stall))?
                    .ok_or_else(|| truncated(wanted, self.position))??;
            }
            let dropped = (wanted.start - self.position).min(chunk.len() as u64);
            drop(chunk.split_to(usize::try_from(dropped).unwrap_or(chunk.len())));
            self.position += dropped;
            let limit = usize::try_from(wanted.len()).unwrap_or(usize::MAX);
            if chunk.len() > limit {
                self.leftover = chunk.split_off(limit);
            }
            self.position += chunk.len() as u64;
            if !chunk.is_empty() {
                return Ok(chunk);
            }
        }
    }
}

/// Collects chunks and writes them on a thread, at most one write at a time.
struct Writer<'a> {
    transfer: &'a Transfer<'a>,
    kind: SourceKind,
    batch: Vec<Bytes>,
    batched: usize,
    /// One past the last byte that arrived.
    received: u64,
    /// One past the last byte that was handed to a thread.
    handed: u64,
    /// One past the last byte that was given to the saver.
    saved: u64,
    running: Option<JoinHandle<Result<(), StoreError>>>,
}

impl<'a> Writer<'a> {
    fn new(transfer: &'a Transfer<'a>, kind: SourceKind, extent: Extent) -> Self {
        let start = extent.start;
        let batch = Vec::new();
        Self {
            transfer,
            kind,
            batch,
            batched: 0,
            received: start,
            handed: start,
            saved: start,
            running: None,
        }
    }

    async fn push(&mut self, chunk: Bytes) -> Result<(), StoreError> {
        self.received += chunk.len() as u64;
        self.batched += chunk.len();
        self.batch.push(chunk);
        if self.batched >= BATCH {
            self.hand_over().await
        } else {
            Ok(())
        }
    }

    async fn hand_over(&mut self) -> Result<(), StoreError> {
        self.wait().await?;
        if self.handed - self.saved >= self.transfer.limits.range {
            self.save();
        }
        let batch = std::mem::take(&mut self.batch);
        self.batched = 0;
        let extent = Extent::new(self.handed, self.received);
        self.handed = self.received;
        let (partial, board) = (Arc::clone(self.transfer.partial), Arc::clone(self.transfer.board));
        let (progress, kind) = (Arc::clone(self.transfer.progress), self.kind);
        board.begin_write();
        self.running = Some(tokio::task::spawn_blocking(move || {
            let result = write_all(&partial, &batch, extent.start);
            if result.is_ok() {
                progress.delivered(kind, extent.len());
            }
            board.end_write(result.is_ok().then_some(extent));
            result
        }));
        Ok(())
    }

    async fn wait(&mut self) -> Result<(), StoreError> {
        match self.running.take() {
            None => Ok(()),
            Some(running) => running
                .await
                .unwrap_or_else(|join| Err(StoreError::Interrupted(join.into()))),
        }
    }

    fn save(&mut self) {
        let extent = Extent::new(self.saved, self.handed);
        if !extent.is_empty() {
            // The saver is gone only when the blob is given up anyway.
            let _ = self.transfer.saver.send(SavedRange {
                extent,
                source: self.kind,
            });
            self.saved = self.handed;
        }
    }

    async fn finish(mut self) -> Result<(), TransferError> {
        if self.batched > 0 {
            self.hand_over().await?;
        }
        self.wait().await?;
        self.save();
        Ok(())
    }
}

fn write_all(partial: &Partial, batch: &[Bytes], start: u64) -> Result<(), StoreError> {
    let mut offset = start;
    for chunk in batch {
        partial.write_at(chunk, offset)?;
        offset += chunk.len() as u64;
    }
    Ok(())
}

/// Sees a peer that trickles.
struct Watch<'a> {
    limits: &'a Limits,
    floor: Option<u64>,
    since: Instant,
    bytes: u64,
}

impl<'a> Watch<'a> {
    fn new(kind: SourceKind, limits: &'a Limits, rate: &RegistryRate) -> Self {
        // The registry is not measured against itself: it is the last to ask.
        let floor = if kind == SourceKind::Registry {
            None
        } else {
            rate.get().map(|rate| rate / 10)
        };
        Self {
            limits,
            floor,
            since: Instant::now(),
            bytes: 0,
        }
    }

    fn arrived(&mut self, bytes: u64, now: Instant) -> Result<(), SourceError> {
        self.bytes += bytes;
        let elapsed = now.duration_since(self.since);
        let Some(floor) = self.floor.filter(|_| elapsed >= self.limits.slow_window) else {
            return Ok(());
        };
        let millis = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX).max(1);
        let rate = self.bytes.saturating_mul(1000) / millis;
        (self.since, self.bytes) = (now, 0);
        if rate >= floor {
            return Ok(());
        }
        let detail = format!("{rate} bytes per second, less than a tenth of what the registry gave");
        Err(SourceError::new(FetchReason::Stalled, detail))
    }
}

fn stalled(after: Duration) -> SourceError {
    SourceError::new(FetchReason::Stalled, format!("no byte for {} s", after.as_secs_f32()))
}

fn truncated(extent: Extent, received: u64) -> SourceError {
    SourceError::new(
        FetchReason::EngineDown,
        format!("the body of {extent} ended at byte {received}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_that_trickles_is_seen_after_the_window() {
        let rate = RegistryRate::default();
        rate.record(100 << 20, Duration::from_secs(1));
        let limits = Limits::default();
        let mut watch = Watch::new(SourceKind::Dragonfly, &limits, &rate);
        let start = watch.since;
        assert!(watch.arrived(1 << 20, start + Duration::from_secs(29)).is_ok());
        assert!(watch.arrived(1 << 20, start + Duration::from_secs(31)).is_err());
        let mut fast = Watch::new(SourceKind::Dragonfly, &limits, &rate);
        assert!(fast.arrived(400 << 20, start + Duration::from_secs(31)).is_ok());
    }

    #[test]
    fn without_a_measured_registry_nobody_is_called_slow() {
        let limits = Limits::default();
        let mut watch = Watch::new(SourceKind::Dragonfly, &limits, &RegistryRate::default());
        let later = watch.since + Duration::from_mins(1);
        assert!(watch.arrived(1, later).is_ok());
    }
}
