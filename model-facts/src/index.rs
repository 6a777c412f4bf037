//! The index of a sharded weight set against the headers of its shards.

use std::collections::{BTreeMap, BTreeSet};

use crate::error::FactsError;
use crate::json;
use crate::safetensors::SafetensorsHeader;

const FAULTS_REPORTED: usize = 20;

/// One disagreement between an index and the shards.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum IndexFault {
    /// The index names a file that is not there.
    #[error("shard {file} is missing")]
    MissingShard {
        /// The file.
        file: String,
    },
    /// A tensor is not in the file that the index names.
    #[error("tensor {tensor} is not in {file}")]
    MissingTensor {
        /// The tensor.
        tensor: String,
        /// The file that should hold it.
        file: String,
    },
    /// A tensor is in more than one file.
    #[error("tensor {tensor} is in {first} and in {second}")]
    TensorTwice {
        /// The tensor.
        tensor: String,
        /// The first file.
        first: String,
        /// The second file.
        second: String,
    },
    /// The index maps a tensor to something that is no file name.
    #[error("weight_map of tensor {tensor} is not a file name")]
    NotAName {
        /// The tensor.
        tensor: String,
    },
    /// There is no `weight_map`.
    #[error("weight_map is missing")]
    NoWeightMap,
}

/// Checks that each tensor of the index is in the file it names, that each named file is among `headers`, and that no tensor is in
/// two files. Headers without a name take no part. Returns every fault, at most 20, in order.
pub fn check_index(file: &str, text: &str, headers: &[SafetensorsHeader]) -> Result<Vec<IndexFault>, FactsError> {
    let document = json::object(file, text)?;
    let Some(map) = document.get("weight_map").and_then(serde_json::Value::as_object) else {
        return Ok(vec![IndexFault::NoWeightMap]);
    };
    let mut faults = BTreeSet::new();
    let shards = shards(headers, &mut faults);
    for (tensor, value) in map {
        let Some(shard) = value.as_str() else {
            faults.insert(IndexFault::NotAName { tensor: tensor.clone() });
            continue;
        };
        match shards.get(shard) {
            None => faults.insert(IndexFault::MissingShard { file: shard.to_owned() }),
            Some(tensors) if !tensors.contains(tensor.as_str()) => faults.insert(IndexFault::MissingTensor {
                tensor: tensor.clone(),
                file: shard.to_owned(),
            }),
            Some(_) => false,
        };
    }
    Ok(faults.into_iter().take(FAULTS_REPORTED).collect())
}

/// The tensors of each named file; tensors that are in two files become faults.
fn shards<'a>(
    headers: &'a [SafetensorsHeader],
    faults: &mut BTreeSet<IndexFault>,
) -> BTreeMap<&'a str, BTreeSet<&'a str>> {
    let mut owners: BTreeMap<&str, &str> = BTreeMap::new();
    let mut shards = BTreeMap::new();
    for header in headers {
        let Some(file) = header.file.as_deref() else { continue };
        for tensor in &header.tensors {
            if let Some(first) = owners.insert(&tensor.name, file) {
                faults.insert(IndexFault::TensorTwice {
                    tensor: tensor.name.clone(),
                    first: first.to_owned(),
                    second: file.to_owned(),
                });
            }
        }
        shards.insert(file, header.tensors.iter().map(|tensor| tensor.name.as_str()).collect());
    }
    shards
}
