//! `Support` documents.

use super::{Contents, Reader};
use crate::{
    decode::DecodeError,
    support::{SupportEntry, SupportHead, SupportRow},
    tree::Node,
};

pub(super) fn read(mut root: Node, reader: &mut Reader<'_>, contents: &mut Contents) {
    let entries = reader.rows(&mut root, "rows");
    let head = reader.decode::<SupportHead>(&root);
    for node in entries {
        let Some(entry) = reader.decode::<SupportEntry>(&node) else {
            continue;
        };
        let Some(head) = &head else { continue };
        let Some(builds) = entry.builds.clone().or_else(|| head.builds.clone()) else {
            let error = DecodeError::at(node.place, "the row says nothing about builds");
            reader.push(error.with_hint("add `builds: {distribution: ...}` to the row or to the top of the document"));
            continue;
        };
        contents.rows.push(SupportRow {
            builds,
            models: entry.models,
            products: if entry.products.is_unset() {
                head.products.clone()
            } else {
                entry.products
            },
            quantizations: entry.quantizations,
            level: entry.level,
            limits: entry.limits,
            since: entry.since,
            stable_since: entry.stable_since,
            until: entry.until,
            evidence: entry.evidence.over(&head.evidence),
            note: entry.note,
            row: reader.row(&node),
        });
    }
}
