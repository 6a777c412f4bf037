//! From documents to contents: every document, then every row, so that all errors are found in one pass.

use std::{collections::BTreeMap, sync::Arc};

use crate::{
    build::Build,
    decode::{DecodeError, decode},
    document::{Document, LoadError, Parsed},
    engine_list::EngineList,
    launch::LaunchProfile,
    metrics::MetricsProfile,
    product::{Product, Vendor},
    reason::RowReference,
    support::SupportRow,
    tree::{Content, Node},
};

mod builds;
mod checks;
mod products;
mod support;

pub(crate) use checks::check;

/// All rows of all documents.
#[derive(Debug, Clone, Default)]
pub(crate) struct Contents {
    pub(crate) vendors: BTreeMap<String, Vendor>,
    pub(crate) products: BTreeMap<String, Product>,
    pub(crate) builds: Vec<Build>,
    pub(crate) rows: Vec<SupportRow>,
    pub(crate) launch: BTreeMap<String, LaunchProfile>,
    pub(crate) metrics: BTreeMap<String, MetricsProfile>,
    pub(crate) lists: BTreeMap<String, EngineList>,
}

const KINDS: [&str; 6] = ["Products", "Builds", "Support", "Launch", "Metrics", "EngineList"];

/// Texts to trees, in the order of their paths.
pub(crate) fn parse(documents: &[Document], errors: &mut Vec<LoadError>) -> Vec<Parsed> {
    let mut sorted: Vec<&Document> = documents.iter().collect();
    sorted.sort_by(|left, right| left.path.cmp(&right.path));
    let mut parsed = Vec::new();
    for document in sorted {
        match Node::parse(&document.text) {
            Ok(root) => parsed.push(Parsed {
                document: document.clone(),
                root,
            }),
            Err(error) => errors.push(LoadError::from_decode(document, error)),
        }
    }
    parsed
}

/// Trees to contents.
pub(crate) fn read(parsed: &[Parsed], errors: &mut Vec<LoadError>) -> Contents {
    let mut contents = Contents::default();
    for source in parsed {
        let mut reader = Reader {
            document: &source.document,
            path: source.document.path.as_str().into(),
            errors,
        };
        let root = source.root.clone();
        match root.text("kind") {
            Some("Products") => products::read(root, &mut reader, &mut contents),
            Some("Builds") => builds::read(root, &mut reader, &mut contents),
            Some("Support") => support::read(root, &mut reader, &mut contents),
            Some("Launch") => read_launch(&root, &mut reader, &mut contents),
            Some("Metrics") => read_metrics(&root, &mut reader, &mut contents),
            Some("EngineList") => read_list(&root, &mut reader, &mut contents),
            Some(other) => {
                let near = crate::decode::nearest(other, &KINDS).map(|word| format!("did you mean `{word}`? "));
                let error = DecodeError::at(root.place, format!("the kind `{other}` is unknown"));
                reader.push(error.with_hint(format!("{}known kinds: {}", near.unwrap_or_default(), KINDS.join(", "))));
            }
            None => {
                let error = DecodeError::at(root.place, "the document has no kind");
                reader.push(error.with_hint(format!("start it with `kind:` and one of {}", KINDS.join(", "))));
            }
        }
    }
    contents
        .builds
        .sort_by(|left, right| left.id.cmp(&right.id).then_with(|| left.row.cmp(&right.row)));
    contents.rows.sort_by(|left, right| left.row.cmp(&right.row));
    contents
}

/// One document with the place for its errors.
struct Reader<'run> {
    document: &'run Document,
    /// Its path, which all rows share.
    path: Arc<str>,
    errors: &'run mut Vec<LoadError>,
}

impl Reader<'_> {
    fn push(&mut self, error: DecodeError) {
        self.errors.push(LoadError::from_decode(self.document, error));
    }

    fn decode<T: serde::de::DeserializeOwned>(&mut self, node: &Node) -> Option<T> {
        decode(node).map_err(|error| self.push(error)).ok()
    }

    /// Takes a list of rows out of a document.
    fn rows(&mut self, root: &mut Node, key: &str) -> Vec<Node> {
        let place = root.place;
        match root.take(key) {
            Some(Node {
                content: Content::List(items),
                ..
            }) => items,
            Some(other) => {
                self.push(DecodeError::at(
                    other.place,
                    format!("`{key}` is {}, not a list", other.describe()),
                ));
                Vec::new()
            }
            None => {
                let error = DecodeError::at(place, format!("the list `{key}` is missing"));
                self.push(error.with_hint(format!("add `{key}:` with its rows, or `{key}: []`")));
                Vec::new()
            }
        }
    }

    fn row(&self, node: &Node) -> RowReference {
        RowReference {
            path: Arc::clone(&self.path),
            line: node.place.line,
        }
    }

    fn twice(&mut self, node: &Node, what: &str, first: &RowReference) {
        let error = DecodeError::at(node.place, format!("{what} is defined twice, first at {first}"));
        self.push(error.with_hint("rename one of them, or join the two"));
    }
}

fn read_launch(root: &Node, reader: &mut Reader<'_>, contents: &mut Contents) {
    let Some(mut profile) = reader.decode::<LaunchProfile>(root) else {
        return;
    };
    let row = reader.row(root);
    if let Some(first) = contents.launch.get(&profile.name).and_then(|known| known.row.clone()) {
        return reader.twice(root, &format!("the launch profile `{}`", profile.name), &first);
    }
    profile.row = Some(row);
    contents.launch.insert(profile.name.clone(), profile);
}

fn read_metrics(root: &Node, reader: &mut Reader<'_>, contents: &mut Contents) {
    let Some(profile) = reader.decode::<MetricsProfile>(root) else {
        return;
    };
    contents.metrics.insert(profile.name.clone(), profile);
}

fn read_list(root: &Node, reader: &mut Reader<'_>, contents: &mut Contents) {
    let Some(list) = reader.decode::<EngineList>(root) else {
        return;
    };
    contents.lists.insert(list.engine.clone(), list);
}
