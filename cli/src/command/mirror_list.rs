//! `plimsoll matrix mirror-list`: every image that a cluster could ask for.

use std::collections::{BTreeMap, BTreeSet};

use matrix::{Channel, Pull};
use serde::Serialize;

use crate::{
    arguments::MirrorList,
    documents::Loaded,
    fault::Answer,
    output::{self, Format},
};

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Mirrored {
    image: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    digest: Option<String>,
    pull: Pull,
    vendors: BTreeSet<String>,
    architectures: Vec<String>,
    builds: BTreeSet<String>,
}

pub(crate) fn run(own: &MirrorList, loaded: &Loaded, format: Format) -> anyhow::Result<Answer> {
    let mut images: BTreeMap<(String, Option<String>), Mirrored> = BTreeMap::new();
    let builds = loaded
        .matrix
        .builds()
        .iter()
        .filter(|build| !own.final_only || build.channel == Channel::Final);
    for build in builds {
        for (key, list) in &build.images {
            let vendors = vendors_of(loaded, key);
            if !own.vendor.is_empty() && !own.vendor.iter().any(|vendor| vendors.contains(vendor)) {
                continue;
            }
            for image in list {
                let entry = images
                    .entry((image.image.clone(), image.digest.clone()))
                    .or_insert_with(|| Mirrored {
                        image: image.image.clone(),
                        digest: image.digest.clone(),
                        pull: image.pull,
                        vendors: BTreeSet::new(),
                        architectures: image.architectures.list().to_vec(),
                        builds: BTreeSet::new(),
                    });
                entry.vendors.extend(vendors.clone());
                entry.builds.insert(build.id.clone());
            }
        }
    }
    let images: Vec<Mirrored> = images.into_values().collect();
    output::print(format, &images, || table(&images))?;
    Ok(Answer::Yes)
}

fn vendors_of(loaded: &Loaded, key: &str) -> BTreeSet<String> {
    let products = loaded.matrix.products();
    loaded
        .matrix
        .products_for(key)
        .into_iter()
        .filter_map(|id| products.get(id))
        .map(|product| product.vendor.clone())
        .collect()
}

fn table(images: &[Mirrored]) -> String {
    let row = |image: &Mirrored| {
        let architectures = if image.architectures.is_empty() {
            "not stated".to_owned()
        } else {
            image.architectures.join(",")
        };
        vec![
            image.image.clone(),
            image.digest.clone().unwrap_or_else(|| "-".to_owned()),
            image.pull.word().to_owned(),
            architectures,
            image.vendors.iter().cloned().collect::<Vec<_>>().join(","),
        ]
    };
    let rows: Vec<Vec<String>> = images.iter().map(row).collect();
    output::columns(&["image", "digest", "pull", "cpu", "vendors"], &rows)
}
