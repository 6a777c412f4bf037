//! Which small files share a layer when a model has more files than a runtime mounts layers.

use artifact::{BUNDLE_PATH, Bundle, Digest, FileKind, FilePath, Layout, MOUNTABLE_LAYER_LIMIT, bundle_bytes};
use bytes::Bytes;

use crate::error::PackError;
use crate::gather::Gathered;
use crate::prepare::{Layer, LayerContent};
use crate::selection::Taken;
use crate::sources::read_small;

/// Larger files have a layer of their own.
const FILE_LIMIT: u64 = 1 << 20;
/// All of them are held in memory until they are pushed.
const TOTAL_LIMIT: u64 = 16 << 20;

/// The files that go into the bundle, smallest first as far as it reaches. Decided by names and sizes alone, so that the same
/// listing gives the same digest everywhere.
pub(crate) fn choose<'a>(
    gathered: &Gathered,
    packed: &[&'a Taken],
    layout: Layout,
) -> Result<Vec<&'a Taken>, PackError> {
    // The source lock has a layer too.
    if layout == Layout::Raw || packed.len() < MOUNTABLE_LAYER_LIMIT {
        return Ok(Vec::new());
    }
    let mut small = Vec::new();
    for taken in packed.iter().filter(|taken| taken.kind != FileKind::Weight) {
        let size = gathered.listed(taken.path.as_str())?.size;
        if size <= FILE_LIMIT {
            small.push((size, *taken));
        }
    }
    small.sort_by(|left, right| left.0.cmp(&right.0).then_with(|| left.1.path.cmp(&right.1.path)));
    let mut total = 0;
    let within = small.into_iter().take_while(|(size, _)| {
        total += size;
        total <= TOTAL_LIMIT
    });
    Ok(within.map(|(_, taken)| taken).collect())
}

/// The layer of these files, and what the package says about it.
pub(crate) async fn make(gathered: &Gathered, chosen: &[&Taken]) -> Result<Option<(Bundle, Layer)>, PackError> {
    let mut contents: Vec<(&FilePath, Bytes)> = Vec::new();
    for taken in chosen {
        contents.push((&taken.path, content(gathered, taken).await?));
    }
    if contents.is_empty() {
        return Ok(None);
    }
    let bytes = Bytes::from(bundle_bytes(
        contents.iter().map(|(path, content)| (*path, &content[..])),
    ));
    let digest = Digest::of(&bytes);
    let bundle = Bundle {
        paths: contents.iter().map(|(path, _)| (*path).clone()).collect(),
        digest: digest.clone(),
    };
    let layer = Layer {
        path: BUNDLE_PATH.to_owned(),
        digest,
        size: bytes.len() as u64,
        content: LayerContent::Memory(bytes),
        pieced: None,
    };
    Ok(Some((bundle, layer)))
}

async fn content(gathered: &Gathered, taken: &Taken) -> Result<Bytes, PackError> {
    if let Some(bytes) = gathered.contents.get(taken.path.as_str()) {
        return Ok(bytes.clone());
    }
    let reader = gathered.reader(gathered.listed(taken.path.as_str())?);
    Ok(read_small(&reader).await?.into())
}
