//! Making room: what nobody uses goes, the longest unused first.

use std::collections::BTreeSet;
use std::fs;
use std::time::{Instant, SystemTime};

use artifact::Digest;

use super::error::{At as _, StoreError};
use super::record::{self, Record};
use super::space::{Capacity, Reservation};
use super::{Store, files};

impl Store {
    /// Promises room for bytes that are about to be fetched, and evicts for it what must go.
    pub fn reserve(&self, bytes: u64) -> Result<Reservation, StoreError> {
        loop {
            match self.space.reserve(bytes)? {
                Ok(reservation) => return Ok(reservation),
                Err(capacity) if self.could_fit(bytes, &capacity)? => {
                    if !self.evict_one()? {
                        return Err(self.disk_full(bytes, &capacity)?);
                    }
                }
                Err(capacity) => return Err(self.disk_full(bytes, &capacity)?),
            }
        }
    }

    /// Evicts until the floor is free again, because somebody else fills the disk.
    pub fn relieve(&self) -> Result<usize, StoreError> {
        let mut evicted = 0;
        loop {
            let capacity = self.space.capacity()?;
            // One hundredth more than the floor, or the next byte of a log would start it again.
            if capacity.free >= capacity.floor.saturating_add(capacity.total / 100) || capacity.free >= capacity.total {
                return Ok(evicted);
            }
            if capacity.floor == 0 || !self.evict_one()? {
                return Ok(evicted);
            }
            evicted += 1;
        }
    }

    /// Whether evicting everything unused would be enough. Models are not thrown out for a fetch that fails anyway.
    fn could_fit(&self, bytes: u64, capacity: &Capacity) -> Result<bool, StoreError> {
        let stored: u64 = self.stored_bytes()? + self.partial_bytes()?;
        let evictable = stored.saturating_sub(self.pinned_bytes()?);
        Ok(capacity.available().saturating_add(evictable) >= bytes)
    }

    fn disk_full(&self, need: u64, capacity: &Capacity) -> Result<StoreError, StoreError> {
        Ok(StoreError::DiskFull {
            need,
            available: capacity.available(),
            free: capacity.free,
            floor: capacity.floor,
            reserved: capacity.reserved,
            pinned: self.pinned_bytes()?,
        })
    }

    /// Removes the least useful thing: leftovers of given-up fetches, then the artifact that was unused for longest.
    pub(super) fn evict_one(&self) -> Result<bool, StoreError> {
        let mut state = self.lock();
        let records = self.records()?;
        let referenced: BTreeSet<&Digest> = records.iter().flat_map(Record::blobs).collect();
        for digest in self.partial_digests()? {
            if !state.holds.contains_key(&digest) {
                self.remove_partial(&digest)?;
                return Ok(true);
            }
        }
        for digest in self.blob_digests()? {
            if !referenced.contains(&digest) && !state.holds.contains_key(&digest) {
                self.remove_blob(&mut state, &digest)?;
                return Ok(true);
            }
        }
        let now = Instant::now();
        let unused = records
            .iter()
            .filter(|record| !state.leases.is_held(&record.digest, now) && !state.holds.contains_key(&record.digest));
        let oldest = unused.min_by_key(|record| (self.last_used(record), record.digest.clone()));
        let Some(victim) = oldest else { return Ok(false) };
        tracing::info!(artifact = %victim.digest, reference = victim.reference, "evicting an unused artifact");
        self.remove_view(&victim.digest)?;
        let others: BTreeSet<&Digest> = records
            .iter()
            .filter(|record| record.digest != victim.digest)
            .flat_map(Record::blobs)
            .collect();
        for digest in victim.blobs() {
            if !others.contains(digest) && !state.holds.contains_key(digest) {
                self.remove_blob(&mut state, digest)?;
            }
        }
        Ok(true)
    }

    fn last_used(&self, record: &Record) -> SystemTime {
        record::last_used(&self.record_path(&record.digest))
    }

    /// Bytes of artifacts that pods hold or the controller wants, and of running fetches.
    fn pinned_bytes(&self) -> Result<u64, StoreError> {
        let state = self.lock();
        let now = Instant::now();
        let records = self.records()?;
        let held = records
            .iter()
            .filter(|record| state.leases.is_held(&record.digest, now) || state.holds.contains_key(&record.digest));
        let mut digests: BTreeSet<&Digest> = held.flat_map(Record::blobs).collect();
        digests.extend(state.holds.keys());
        let blobs = digests.iter().map(|digest| file_length(&self.blob_path(digest)));
        let partials = digests.iter().map(|digest| file_length(&self.partial_path(digest)));
        Ok(blobs.chain(partials).sum())
    }

    /// The view disappears under its name at once; a crash leaves only a folder that the next start removes.
    pub(crate) fn remove_view(&self, digest: &Digest) -> Result<(), StoreError> {
        let view = self.view_path(digest);
        let trash = self.views.join(format!(".trash-{}", digest.hex()));
        files::remove_folder(&trash)?;
        match fs::rename(&view, &trash) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
            other => other.at("remove", &view).and_then(|()| files::remove_folder(&trash)),
        }
    }
}

fn file_length(path: &std::path::Path) -> u64 {
    fs::metadata(path).map_or(0, |metadata| metadata.len())
}
