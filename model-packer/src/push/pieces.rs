//! The piece map of what was pushed: from the bytes as they passed, from an earlier push, or from the registry.

use artifact::{Digest, Document, FilePieces, PieceMap};
use futures::TryStreamExt as _;

use super::PushSettings;
use crate::content::PieceHasher;
use crate::error::PackError;
use crate::hashing::Sha256Hasher;
use crate::prepare::{Layer, Pieced, Prepared};
use crate::report::Event;

/// The map, when one was asked for.
pub(super) async fn make(prepared: &Prepared, settings: &PushSettings) -> Result<Option<Document>, PackError> {
    let mut files = Vec::new();
    for layer in &prepared.layers {
        for pieced in &layer.pieced {
            files.push(file_of(layer, pieced, settings).await?);
        }
    }
    Ok((!files.is_empty()).then(|| PieceMap::new(files).document()))
}

async fn file_of(layer: &Layer, pieced: &Pieced, settings: &PushSettings) -> Result<FilePieces, PackError> {
    let path = pieced.path.clone();
    let known = settings
        .journal
        .as_ref()
        .and_then(|journal| journal.pieces(&pieced.digest));
    if let Some(known) = known.filter(|known| fits(known, pieced)) {
        return Ok(FilePieces { path, ..known });
    }
    let digests = match pieced.recorder.digests() {
        Some(digests) => digests,
        None => read_back(layer, pieced, settings).await?,
    };
    let made = FilePieces::of_pieces(path, pieced.digest.clone(), pieced.recorder.sizes(), &digests);
    let made = made.ok_or_else(|| PackError::Internal(format!("the pieces of {} do not fit", pieced.path)))?;
    if let Some(journal) = &settings.journal {
        journal.keep_pieces(&made)?;
    }
    Ok(made)
}

fn fits(known: &FilePieces, pieced: &Pieced) -> bool {
    known.digest == pieced.digest
        && known
            .pieces()
            .iter()
            .map(|piece| piece.length)
            .eq(pieced.recorder.sizes().iter().copied())
}

/// The registry had the file, or an earlier process sent the start of it: the bytes come back once, proven as a whole.
async fn read_back(layer: &Layer, pieced: &Pieced, settings: &PushSettings) -> Result<Vec<Digest>, PackError> {
    settings.reporter.tell(&Event::Phase {
        what: format!("reading {} back for its piece map", pieced.path),
    });
    let range = (pieced.size > 0).then(|| pieced.offset..pieced.offset + pieced.size);
    let mut stream = settings
        .client
        .open_blob(&settings.target, layer.digest.as_str(), range)
        .await?;
    let mut skip = pieced.offset.saturating_sub(stream.served().start);
    let (mut whole, mut left) = (Sha256Hasher::default(), pieced.size);
    let mut hasher = PieceHasher::from(std::sync::Arc::clone(&pieced.recorder), 0);
    while let Some(chunk) = stream.try_next().await? {
        let dropped = skip.min(chunk.len() as u64);
        skip -= dropped;
        let chunk = &chunk[usize::try_from(dropped).unwrap_or(0)..];
        let chunk = &chunk[..usize::try_from(left).unwrap_or(usize::MAX).min(chunk.len())];
        left -= chunk.len() as u64;
        whole.update(chunk);
        hasher.update(chunk);
    }
    let found = whole.finish();
    if found != pieced.digest {
        return Err(PackError::WrongDigest {
            what: pieced.path.to_string(),
            expected: pieced.digest.clone(),
            found,
        });
    }
    pieced
        .recorder
        .digests()
        .ok_or_else(|| PackError::Internal(format!("{} passed and has no pieces", pieced.path)))
}
