//! Where the matrix comes from: the one that is built in, a folder, a rendered revision.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use matrix::{Document, Matrix};

use crate::fault::hinted;

/// A matrix with a word for where it comes from.
pub(crate) struct Loaded {
    pub(crate) matrix: Matrix,
    pub(crate) origin: String,
}

/// Loads the matrix at a path, or the one that is built in.
pub(crate) fn load(path: Option<&Path>) -> anyhow::Result<Loaded> {
    let Some(path) = path else {
        return Ok(Loaded {
            matrix: Matrix::shipped().clone(),
            origin: "shipped".to_owned(),
        });
    };
    let origin = path
        .file_stem()
        .map_or_else(|| "matrix".to_owned(), |name| name.to_string_lossy().into_owned());
    let matrix = if path.is_dir() {
        from_folder(path)?
    } else {
        from_file(path)?
    };
    Ok(Loaded { matrix, origin })
}

fn from_folder(path: &Path) -> anyhow::Result<Matrix> {
    Ok(Matrix::load(&read_folder(path)?)?)
}

/// A file is one document, or what `matrix render` printed.
fn from_file(path: &Path) -> anyhow::Result<Matrix> {
    let text = std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    if let Some(documents) = rendered(&text) {
        return Ok(Matrix::from_revision(&documents)?);
    }
    let name = path
        .file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default();
    Ok(Matrix::load(&[Document { path: name, text }])?)
}

/// The documents of the first `MatrixRevision` in a text.
fn rendered(text: &str) -> Option<String> {
    let objects = crate::cluster::read_objects(text, "matrix").ok()?;
    let revision = objects.iter().find(|object| object["kind"] == "MatrixRevision")?;
    let documents = revision["spec"]["documents"].as_str()?;
    match revision["spec"]["encoding"].as_str() {
        Some("ZstdBase64") => crate::command::render::decompressed(documents),
        _ => Some(documents.to_owned()),
    }
}

/// All YAML files below a folder, with their paths inside it.
pub(crate) fn read_folder(root: &Path) -> anyhow::Result<Vec<Document>> {
    let mut files = Vec::new();
    collect(root, &mut files)?;
    files.sort();
    if files.is_empty() {
        return Err(hinted(
            format!("no YAML file below {}", root.display()),
            "give the folder that holds products/, builds/ and support/",
        ));
    }
    let mut documents = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(&file).with_context(|| format!("reading {}", file.display()))?;
        let inside = file.strip_prefix(root).unwrap_or(&file);
        documents.push(Document {
            path: inside.to_string_lossy().replace('\\', "/"),
            text,
        });
    }
    Ok(documents)
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    let entries = std::fs::read_dir(folder).with_context(|| format!("listing {}", folder.display()))?;
    for entry in entries {
        let path = entry.with_context(|| format!("listing {}", folder.display()))?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else if path
            .extension()
            .is_some_and(|extension| extension == "yaml" || extension == "yml")
        {
            files.push(path);
        }
    }
    Ok(())
}
