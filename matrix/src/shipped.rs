//! The documents that are built into the program.

use crate::document::Document;

static DOCUMENTS: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/documents.rs"));

/// The documents of `matrix/data`.
pub fn documents() -> Vec<Document> {
    let own = |(path, text): &(&str, &str)| Document {
        path: (*path).to_owned(),
        text: (*text).to_owned(),
    };
    DOCUMENTS.iter().map(own).collect()
}
