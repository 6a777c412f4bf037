//! Everything that is known before the first byte of a weight moves: the listing, the choice, the small files, the facts.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use artifact::FileKind;
use bytes::Bytes;
use futures::{StreamExt as _, TryStreamExt as _};
use model_facts::{ModelFacts, ModelFiles};

use crate::error::PackError;
use crate::header::{Header, POINTER_LIMIT, read_header, refuse_pointer};
use crate::selection::{Selection, Shard, Taken, Texts, Wishes, names_in, select, wanted_texts};
use crate::sources::{FileReader, HubHash, ListedFile, ModelSource, Snapshot, read_small};

/// Small files that are read at the same time: hubs count requests.
const SMALL_AT_ONCE: usize = 4;
/// A file of this size may be held in memory until it is pushed; larger ones are read again.
const KEPT_FILE: u64 = 1 << 20;
/// All files that are held together.
const KEPT_TOTAL: u64 = 16 << 20;

/// Bytes of two files that are compared in memory.
const COMPARED_AT_ONCE: usize = 4 << 20;

/// A source, read as far as a decision needs it.
pub struct Gathered {
    /// The listing at one commit.
    pub snapshot: Arc<Snapshot>,
    /// What goes in and what stays out.
    pub selection: Selection,
    /// What the bytes say about the model.
    pub facts: Option<ModelFacts>,
    /// Small files that were read and proven, by path.
    pub contents: BTreeMap<String, Bytes>,
    /// Headers of the chosen weights, by path.
    pub headers: BTreeMap<String, Header>,
    source: Arc<dyn ModelSource>,
}

impl Gathered {
    /// A reader of one of the files.
    pub fn reader(&self, file: &ListedFile) -> FileReader {
        FileReader::new(Arc::clone(&self.source), Arc::clone(&self.snapshot), file.clone())
    }

    /// Refuses a choice that nothing could be served from.
    pub fn require_weights(&self) -> Result<(), PackError> {
        let weight = |taken: &Taken| taken.kind == FileKind::Weight;
        if self.selection.taken.iter().any(weight) {
            return Ok(());
        }
        Err(self.selection.no_weights().into())
    }

    /// The listed file behind a path that was chosen from the listing.
    pub fn listed(&self, path: &str) -> Result<&ListedFile, PackError> {
        self.snapshot
            .file(path)
            .ok_or_else(|| PackError::Internal(format!("{path} was chosen and is not listed")))
    }
}

/// Lists, chooses, and derives the facts. Reads small files and the headers of the weights, nothing else.
pub async fn gather(source: Arc<dyn ModelSource>, wishes: &Wishes) -> Result<Gathered, PackError> {
    let snapshot = Arc::new(source.snapshot().await?);
    let mut contents = BTreeMap::new();
    let mut wanted: Vec<ListedFile> = wanted_texts(&snapshot.files, wishes)?.into_iter().cloned().collect();
    wanted.retain(|file| snapshot.refuse_unfit(&file.path).is_ok());
    read_all(&source, &snapshot, wanted, &mut contents).await?;
    let selection = select_by(&snapshot, &contents, wishes)?;
    selection
        .taken
        .iter()
        .try_for_each(|taken| snapshot.refuse_unfit(taken.path.as_str()))?;
    let mut gathered = Gathered {
        snapshot,
        selection,
        facts: None,
        contents,
        headers: BTreeMap::new(),
        source,
    };
    gathered.read_side_files().await?;
    gathered.refuse_pointers().await?;
    gathered.read_headers().await?;
    gathered.refuse_wrong_parts()?;
    gathered.refuse_tensors_twice().await?;
    gathered.facts = gathered.derive()?;
    gathered.drop_large();
    Ok(gathered)
}

/// A pointer says nothing about the choice, and matters when its file is chosen; or when there is no choice for want of its text.
fn select_by(snapshot: &Snapshot, contents: &BTreeMap<String, Bytes>, wishes: &Wishes) -> Result<Selection, PackError> {
    let (texts, pointers): (Vec<_>, Vec<_>) = contents
        .iter()
        .partition(|(path, bytes)| refuse_pointer(path, bytes).is_ok());
    let texts: Texts = texts
        .into_iter()
        .map(|(path, bytes)| (path.clone(), String::from_utf8_lossy(bytes).into_owned()))
        .collect();
    select(&snapshot.files, &texts, wishes).map_err(|error| match pointers.first() {
        Some((path, _)) => PackError::Pointer((*path).clone()),
        None => error.into(),
    })
}

async fn read_all(
    source: &Arc<dyn ModelSource>,
    snapshot: &Arc<Snapshot>,
    files: Vec<ListedFile>,
    contents: &mut BTreeMap<String, Bytes>,
) -> Result<(), PackError> {
    let reads = files.into_iter().map(|file| {
        let reader = FileReader::new(Arc::clone(source), Arc::clone(snapshot), file.clone());
        async move { Ok::<_, PackError>((file.path, Bytes::from(read_small(&reader).await?))) }
    });
    let read: Vec<_> = futures::stream::iter(reads)
        .buffer_unordered(SMALL_AT_ONCE)
        .try_collect()
        .await?;
    contents.extend(read);
    Ok(())
}

impl Gathered {
    /// The chosen files whose text holds facts, and those whose SHA-256 nobody publishes.
    async fn read_side_files(&mut self) -> Result<(), PackError> {
        let mut wanted = Vec::new();
        for taken in &self.selection.taken {
            let file = self.listed(taken.path.as_str())?;
            let fact = ModelFiles::wants(taken.path.as_str()) || file.path == "README.md";
            let unknown = file.hash.sha256().is_none() && file.size <= KEPT_FILE && self.snapshot.hub != "file";
            if (fact || unknown) && file.size <= model_facts_limit() && !self.contents.contains_key(&file.path) {
                wanted.push(file.clone());
            }
        }
        let (source, snapshot) = (Arc::clone(&self.source), Arc::clone(&self.snapshot));
        read_all(&source, &snapshot, wanted, &mut self.contents).await
    }

    /// In a clone without LFS every large file is a pointer, not the weights alone. A hub lists the real size.
    async fn refuse_pointers(&self) -> Result<(), PackError> {
        for taken in &self.selection.taken {
            let file = self.listed(taken.path.as_str())?;
            if file.size >= POINTER_LIMIT {
                continue;
            }
            match self.contents.get(&file.path) {
                Some(bytes) => refuse_pointer(&file.path, bytes)?,
                None if self.snapshot.hub == "file" => {
                    refuse_pointer(&file.path, &self.reader(file).read(0..file.size).await?)?;
                }
                None => {}
            }
        }
        Ok(())
    }

    async fn read_headers(&mut self) -> Result<(), PackError> {
        let weights = self
            .selection
            .taken
            .iter()
            .filter(|taken| taken.kind == FileKind::Weight);
        let files: Vec<ListedFile> = weights
            .map(|taken| self.listed(taken.path.as_str()).cloned())
            .collect::<Result<_, _>>()?;
        let reads = files.into_iter().map(|file| {
            let reader = self.reader(&file);
            async move { Ok::<_, PackError>((file.path.clone(), read_header(&reader).await?)) }
        });
        let headers: Vec<_> = futures::stream::iter(reads)
            .buffer_unordered(SMALL_AT_ONCE)
            .try_collect()
            .await?;
        self.headers = headers.into_iter().collect();
        Ok(())
    }

    /// A loader of GGUF counts the parts by their headers, not by their names.
    fn refuse_wrong_parts(&self) -> Result<(), PackError> {
        for (path, header) in &self.headers {
            let (Header::Gguf(header), Some(shard)) = (header, Shard::of(path)) else {
                continue;
            };
            let named = (shard.number as u64, shard.total as u64);
            let number = header
                .number("split.no")
                .map_or(named.0, |number| number.saturating_add(1));
            let total = header.number("split.count").unwrap_or(named.1);
            if (number, total) != named {
                return Err(PackError::WrongPart {
                    path: path.clone(),
                    named,
                    found: (number, total),
                });
            }
        }
        Ok(())
    }

    /// A loader takes all files of a folder together, and the last one that has a tensor wins. Files of one index are compared with it.
    async fn refuse_tensors_twice(&self) -> Result<(), PackError> {
        let indexes = self.indexes();
        let mut seen: HashMap<(&str, &str), &str> = HashMap::new();
        let mut equal: BTreeSet<(&str, &str)> = BTreeSet::new();
        for (path, header) in &self.headers {
            let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
            let Header::Safetensors(header) = header else { continue };
            for tensor in &header.tensors {
                let Some(first) = seen.insert((folder, &tensor.name), path) else {
                    continue;
                };
                let of_one_index = indexes
                    .iter()
                    .any(|names| names.contains(first) && names.contains(path));
                if of_one_index || equal.contains(&(first, path.as_str())) {
                    continue;
                }
                if self.are_equal(first, path).await? {
                    equal.insert((first, path));
                } else {
                    return Err(PackError::TensorTwice {
                        tensor: tensor.name.clone(),
                        first: first.to_owned(),
                        second: path.clone(),
                    });
                }
            }
        }
        Ok(())
    }

    /// What each chosen index names that the facts compare with it.
    fn indexes(&self) -> Vec<BTreeSet<String>> {
        let chosen = self.selection.taken.iter().map(|taken| taken.path.as_str());
        chosen
            .filter(|path| path.ends_with(".safetensors.index.json"))
            .filter_map(|path| names_in(path, &String::from_utf8_lossy(self.contents.get(path)?)))
            .map(|names| names.into_iter().collect())
            .collect()
    }

    /// Names of one content, such as links: by the hub's hash, and where there is none by their bytes, of which the first that
    /// differs ends it.
    async fn are_equal(&self, first: &str, second: &str) -> Result<bool, PackError> {
        let header = |path: &str| match self.headers.get(path) {
            Some(Header::Safetensors(header)) => Some(&header.tensors),
            _ => None,
        };
        let (left, right) = (self.listed(first)?, self.listed(second)?);
        if left.size != right.size || left.hash != right.hash || header(first) != header(second) {
            return Ok(false);
        }
        if left.hash != HubHash::Unknown {
            return Ok(true);
        }
        let (left, right) = (self.reader(left), self.reader(right));
        for start in (0..left.file().size).step_by(COMPARED_AT_ONCE) {
            let range = start..left.file().size.min(start + COMPARED_AT_ONCE as u64);
            if left.read(range.clone()).await? != right.read(range).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// No facts are no error for a set of files that is no model by itself, such as a component of a pipeline.
    fn derive(&self) -> Result<Option<ModelFacts>, PackError> {
        let text = |path: &str| {
            self.contents
                .get(path)
                .map(|bytes| String::from_utf8_lossy(bytes).into_owned())
        };
        let chosen = self.selection.taken.iter().map(|taken| taken.path.as_str());
        let mut input = ModelFiles {
            config: text("config.json").filter(|_| self.is_taken("config.json")),
            texts: chosen
                .filter(|path| *path != "config.json" && ModelFiles::wants(path))
                .filter_map(|path| Some((path.to_owned(), with_whole_names(path, text(path)?))))
                .collect(),
            checkpoint: self.snapshot.id.clone(),
            ..ModelFiles::default()
        };
        for header in self.headers.values() {
            match header {
                Header::Safetensors(header) => input.safetensors.push(header.clone()),
                Header::Gguf(header) => input.gguf.push(header.clone()),
                Header::Other => {}
            }
        }
        match model_facts::derive(&input) {
            Ok(facts) => Ok(Some(facts)),
            Err(model_facts::FactsError::NothingToRead) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn is_taken(&self, path: &str) -> bool {
        self.selection.taken.iter().any(|taken| taken.path.as_str() == path)
    }

    /// Facts are derived now; what is too large to keep is read again when it is pushed.
    fn drop_large(&mut self) {
        let mut total = 0;
        self.contents.retain(|_, bytes| {
            let size = bytes.len() as u64;
            let keep = size <= KEPT_FILE && total + size <= KEPT_TOTAL;
            total += if keep { size } else { 0 };
            keep
        });
    }
}

/// An index in a folder names its shards from there; facts are compared over the whole model.
fn with_whole_names(path: &str, text: String) -> String {
    let Some((folder, _)) = path.rsplit_once('/').filter(|(_, name)| name.ends_with(".index.json")) else {
        return text;
    };
    let Ok(mut index) = serde_json::from_str::<serde_json::Value>(&text) else {
        return text;
    };
    let names = index["weight_map"].as_object_mut().into_iter().flatten();
    for (_, name) in names {
        if let Some(inside) = name.as_str() {
            *name = format!("{folder}/{inside}").into();
        }
    }
    index.to_string()
}

/// Side files above this size hold no facts.
const fn model_facts_limit() -> u64 {
    32 << 20
}

/// Whether the hub vouches for the content.
pub(crate) fn is_vouched(file: &ListedFile) -> bool {
    file.hash != HubHash::Unknown
}
