//! Which files share a layer when a model has more files than a runtime mounts layers. Decided by names, kinds and sizes alone,
//! so that the same listing gives the same digest everywhere.

use artifact::{FileKind, Layout, MOUNTABLE_LAYER_LIMIT};

use crate::error::PackError;
use crate::gather::Gathered;
use crate::selection::Taken;

/// Larger files are not for the layer of small ones.
const FILE_LIMIT: u64 = 1 << 20;
/// All of them are held in memory until they are pushed.
const TOTAL_LIMIT: u64 = 16 << 20;

/// One layer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Unit<'a> {
    /// A file by itself.
    Alone(&'a Taken),
    /// Files that are streamed one after the other, in the order of their names.
    Shared {
        /// Counts the layers of this kind.
        number: usize,
        /// The files.
        files: Vec<&'a Taken>,
    },
    /// Small files, made in memory.
    Small(Vec<&'a Taken>),
}

/// The layers of these files, which come in the order of their names; the small ones last.
pub(crate) fn arrange<'a>(
    gathered: &Gathered,
    packed: &[&'a Taken],
    layout: Layout,
) -> Result<Vec<Unit<'a>>, PackError> {
    // The source lock has a layer too.
    if layout == Layout::Raw || packed.len() < MOUNTABLE_LAYER_LIMIT {
        return Ok(packed.iter().map(|taken| Unit::Alone(taken)).collect());
    }
    let small = choose_small(gathered, packed)?;
    let rest = packed
        .iter()
        .copied()
        .filter(|taken| !small.iter().any(|other| other.path == taken.path));
    let (weights, others): (Vec<_>, Vec<_>) = rest.partition(|taken| taken.kind == FileKind::Weight);
    let layers = MOUNTABLE_LAYER_LIMIT - 1 - usize::from(!small.is_empty());
    // What is no weight shares layers only where it would take half of all, or what the weights leave over.
    let for_others = layers.saturating_sub(weights.len()).max(layers / 2).min(others.len());
    let mut units = share(&others, for_others);
    units.extend(share(&weights, layers - for_others));
    units.sort_by(|left, right| first_path(left).cmp(&first_path(right)));
    number(&mut units);
    if !small.is_empty() {
        units.push(Unit::Small(small));
    }
    Ok(units)
}

/// As many neighbours to a layer as bring the files into so many layers: by number and not by size, so that the next version of
/// a model has its files in the same company.
fn share<'a>(files: &[&'a Taken], layers: usize) -> Vec<Unit<'a>> {
    let together = files.len().div_ceil(layers.max(1)).max(1);
    let mut units = Vec::new();
    for group in files.chunks(together) {
        units.push(match *group {
            [only] => Unit::Alone(only),
            _ => Unit::Shared {
                number: 0,
                files: group.to_vec(),
            },
        });
    }
    units
}

fn number(units: &mut [Unit<'_>]) {
    let mut last = 0;
    for unit in units {
        if let Unit::Shared { number, .. } = unit {
            last += 1;
            *number = last;
        }
    }
}

fn first_path<'a>(unit: &Unit<'a>) -> Option<&'a artifact::FilePath> {
    match unit {
        Unit::Alone(taken) => Some(&taken.path),
        Unit::Shared { files, .. } | Unit::Small(files) => files.first().map(|taken| &taken.path),
    }
}

/// Smallest first as far as the memory reaches.
fn choose_small<'a>(gathered: &Gathered, packed: &[&'a Taken]) -> Result<Vec<&'a Taken>, PackError> {
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
