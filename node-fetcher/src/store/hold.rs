//! Keeping bytes while somebody works on them.

use std::sync::Arc;

use artifact::Digest;

use super::Store;

/// Keeps blobs and artifacts from being evicted until it is dropped.
#[derive(Debug)]
pub struct Hold {
    pub(super) store: Arc<Store>,
    pub(super) digests: Vec<Digest>,
}

impl Drop for Hold {
    fn drop(&mut self) {
        let mut state = self.store.lock();
        for digest in &self.digests {
            if let Some(count) = state.holds.get_mut(digest) {
                *count -= 1;
                if *count == 0 {
                    state.holds.remove(digest);
                }
            }
        }
    }
}
