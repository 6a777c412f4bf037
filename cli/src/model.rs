//! The facts of a model: from a file of facts, from a folder or file of weights, or from an artifact in a registry.

use std::{
    collections::BTreeMap,
    fs::File,
    io::Read as _,
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use model_facts::{GgufError, GgufHeader, ModelFacts, ModelFiles, SafetensorsError, SafetensorsHeader};

mod weight_set;

use crate::{
    arguments::ModelArguments,
    fault::{Ours, hinted},
};

/// The facts for a deployment, from what was given; else from its artifact.
pub(crate) fn load(given: &ModelArguments, artifact: Option<&str>) -> anyhow::Result<ModelFacts> {
    if let Some(path) = &given.facts {
        return from_facts_file(path);
    }
    if let Some(word) = &given.model {
        return from_word(word, given);
    }
    match artifact {
        Some(reference) => from_registry(reference, given),
        None => Err(hinted(
            "nothing says which model is meant",
            "give --facts FILE or --model PATH",
        )),
    }
}

/// A path, or a reference to a registry.
pub(crate) fn from_word(word: &str, given: &ModelArguments) -> anyhow::Result<ModelFacts> {
    let path = Path::new(word);
    if path.exists() {
        return from_path(path);
    }
    let looks_like_a_path = word.starts_with(['.', '/', '~']) || !word.contains('/');
    if looks_like_a_path {
        return Err(hinted(
            format!("{word} does not exist"),
            "give a folder with config.json and weights, one weight file, or an artifact",
        ));
    }
    from_registry(word, given)
}

fn from_facts_file(path: &Path) -> anyhow::Result<ModelFacts> {
    let text = crate::cluster::read_text(path)?;
    let objects = crate::cluster::read_objects(&text, &path.display().to_string())?;
    let first = objects
        .into_iter()
        .next()
        .with_context(|| format!("{} is empty", path.display()))?;
    serde_json::from_value(first).with_context(|| format!("reading {} as the facts of a model", path.display()))
}

fn from_path(path: &Path) -> anyhow::Result<ModelFacts> {
    let mut input = ModelFiles::default();
    let folder = if path.is_dir() {
        path
    } else {
        path.parent().unwrap_or(Path::new("."))
    };
    side_files(folder, &mut input)?;
    let files = if path.is_dir() {
        weight_files(path, &input.texts)?
    } else {
        vec![path.to_owned()]
    };
    let chosen: Vec<&str> = files.iter().filter_map(|file| file.file_name()?.to_str()).collect();
    input.texts.retain(|name, _| weight_set::belongs(name, &chosen));
    for file in &files {
        let name = file.strip_prefix(folder).unwrap_or(file).to_string_lossy().into_owned();
        match file.extension().and_then(|extension| extension.to_str()) {
            Some("safetensors") => input.safetensors.push(safetensors_header(file)?.named(name)),
            Some("gguf") => input.gguf.push(gguf_header(file)?.named(name)),
            _ => {}
        }
    }
    model_facts::derive(&input).map_err(|error| {
        let hint = error.hint();
        hinted(format!("{}: {error}", path.display()), hint)
    })
}

/// The files of one weight set.
fn weight_files(folder: &Path, texts: &BTreeMap<String, String>) -> anyhow::Result<Vec<PathBuf>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder).with_context(|| format!("listing {}", folder.display()))? {
        let entry = entry.with_context(|| format!("listing {}", folder.display()))?;
        names.push(entry.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    match weight_set::choose(&names, texts) {
        Ok(chosen) => Ok(chosen.into_iter().map(|name| folder.join(name)).collect()),
        Err(sets) => Err(hinted(
            format!(
                "{} holds {} weight sets: {}",
                folder.display(),
                sets.len(),
                sets.join(", ")
            ),
            "give the one file that is meant",
        )),
    }
}

fn side_files(folder: &Path, input: &mut ModelFiles) -> anyhow::Result<()> {
    let entries = std::fs::read_dir(folder).with_context(|| format!("listing {}", folder.display()))?;
    for entry in entries {
        let path = entry.with_context(|| format!("listing {}", folder.display()))?.path();
        let name = path
            .file_name()
            .map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_default();
        if !ModelFiles::wants(&name) || !path.is_file() {
            continue;
        }
        let text = std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        if name == "config.json" {
            input.config = Some(text);
        } else {
            input.texts.insert(name, text);
        }
    }
    Ok(())
}

/// Reads as much of a file as its header needs, never the weights.
fn prefix(file: &mut File, have: &mut Vec<u8>, bytes: u64) -> anyhow::Result<bool> {
    let missing = bytes.saturating_sub(have.len() as u64);
    let read = file.take(missing).read_to_end(have).context("reading the header")?;
    Ok(read as u64 == missing)
}

fn safetensors_header(path: &Path) -> anyhow::Result<SafetensorsHeader> {
    let mut file = File::open(path).with_context(|| format!("opening {}", path.display()))?;
    let size = file
        .metadata()
        .with_context(|| format!("looking at {}", path.display()))?
        .len();
    let mut bytes = Vec::new();
    prefix(&mut file, &mut bytes, size.min(8))?;
    loop {
        match SafetensorsHeader::parse(&bytes, Some(size)) {
            Ok(header) => return Ok(header),
            Err(SafetensorsError::NeedMore { bytes: wanted }) if (bytes.len() as u64) < wanted.min(size) => {
                prefix(&mut file, &mut bytes, wanted.min(size))?;
            }
            Err(error) => return Err(hinted(format!("{}: {error}", path.display()), error.hint())),
        }
    }
}

fn gguf_header(path: &Path) -> anyhow::Result<GgufHeader> {
    let mut file = File::open(path).with_context(|| format!("opening {}", path.display()))?;
    let size = file
        .metadata()
        .with_context(|| format!("looking at {}", path.display()))?
        .len();
    let mut bytes = Vec::new();
    prefix(&mut file, &mut bytes, size.min(64 << 10))?;
    loop {
        match GgufHeader::parse(&bytes, Some(size)) {
            Ok(header) => return Ok(header),
            Err(GgufError::NeedMore { bytes: wanted }) if (bytes.len() as u64) < wanted.min(size) => {
                prefix(&mut file, &mut bytes, wanted.min(size))?;
            }
            Err(error) => return Err(hinted(format!("{}: {error}", path.display()), error.hint())),
        }
    }
}

/// The facts that the packer wrote into an artifact's manifest.
fn from_registry(reference: &str, given: &ModelArguments) -> anyhow::Result<ModelFacts> {
    let offline = "to stay offline, give --facts FILE or --model PATH";
    let reference: registry::Reference = reference
        .parse()
        .map_err(|error: registry::ReferenceError| hinted(format!("{reference}: {error}"), offline))?;
    let config = registry::ClientConfig {
        plain_http: given.plain_http.clone(),
        user_agent: format!("plimsoll/{}", env!("CARGO_PKG_VERSION")),
        credentials: registry::Credentials::from_environment(),
        ..registry::ClientConfig::default()
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Ours(format!("starting the asynchronous runtime: {error}")))?;
    let manifest = runtime.block_on(async {
        let client = registry::Client::new(config)?;
        client.get_manifest(&reference).await
    });
    let manifest = manifest.map_err(|error| hinted(format!("reading the facts of {reference}: {error}"), offline))?;
    let packed = artifact::PackedModel::read(&manifest.bytes, None)
        .map_err(|error| hinted(format!("{reference}: {error}"), error.hint().unwrap_or(offline)))?;
    packed.facts.ok_or_else(|| {
        hinted(
            format!("the manifest of {reference} carries no facts"),
            "pack the model with model-packer, or give --facts FILE",
        )
    })
}
