//! `Support` documents.

use super::{Contents, Reader};
use model_facts::{LABELS, canonical_label};

use crate::{
    decode::{DecodeError, nearest},
    support::{SupportEntry, SupportHead, SupportRow},
    tree::Node,
    words::Words,
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
        let quantizations = canonical_quantizations(&entry.quantizations, &node, reader);
        contents.rows.push(SupportRow {
            builds,
            models: entry.models,
            products: if entry.products.is_unset() {
                head.products.clone()
            } else {
                entry.products
            },
            quantizations,
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

/// The words of `model-facts` for what a row calls its quantizations; a word outside the vocabulary would match nothing.
fn canonical_quantizations(words: &Words, node: &Node, reader: &mut Reader<'_>) -> Words {
    let Words::These(list) = words else {
        return words.clone();
    };
    let mut labels = Vec::new();
    for word in list {
        if let Some(label) = canonical_label(word) {
            labels.push(label.to_owned());
        } else {
            let hint = nearest(word, LABELS).map_or_else(
                || format!("known: {}", LABELS.join(", ")),
                |near| format!("did you mean `{near}`? Known: {}", LABELS.join(", ")),
            );
            let place = node.find_text(word).unwrap_or(node.place);
            reader.push(DecodeError::at(place, format!("`{word}` is no quantization")).with_hint(hint));
        }
    }
    Words::These(labels)
}
