//! The JSON of the header, read entry by entry so that a repeated name is seen.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, Visitor};

use super::Tensor;

/// The header before its offsets are checked.
pub(super) struct RawHeader {
    pub(super) tensors: Vec<Tensor>,
    pub(super) metadata: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct Entry {
    dtype: String,
    shape: Vec<u64>,
    data_offsets: (u64, u64),
}

impl<'de> Deserialize<'de> for RawHeader {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(HeaderVisitor)
    }
}

struct HeaderVisitor;

impl<'de> Visitor<'de> for HeaderVisitor {
    type Value = RawHeader;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object of tensors")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RawHeader, A::Error> {
        let mut names = BTreeSet::new();
        let mut header = RawHeader {
            tensors: Vec::new(),
            metadata: BTreeMap::new(),
        };
        while let Some(name) = map.next_key::<String>()? {
            if !names.insert(name.clone()) {
                return Err(A::Error::custom(format!("tensor {name} is there twice")));
            }
            if name == "__metadata__" {
                header.metadata = map.next_value()?;
            } else {
                header.tensors.push(tensor(name, map.next_value()?)?);
            }
        }
        Ok(header)
    }
}

fn tensor<E: Error>(name: String, entry: Entry) -> Result<Tensor, E> {
    let (begin, end) = entry.data_offsets;
    if end < begin {
        return Err(E::custom(format!(
            "tensor {name} ends at {end} before it begins at {begin}"
        )));
    }
    Ok(Tensor {
        name,
        dtype: entry.dtype,
        shape: entry.shape,
        begin,
        end,
    })
}
