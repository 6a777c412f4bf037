//! Where a bed keeps its things.

use std::path::{Path, PathBuf};

/// The folders of one bed, all under its state folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    root: PathBuf,
}

impl Layout {
    /// The layout under a state folder.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// The repository's own place: `$PLIMSOLL_CACHE/testbed`, else `.cache/testbed` of this checkout.
    pub fn of_repository() -> Self {
        Self::new(cache_folder().join("testbed"))
    }

    /// The state folder itself.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The state file.
    pub fn state_file(&self) -> PathBuf {
        self.root.join("state.json")
    }

    /// One log file per component; kept when the bed goes down.
    pub fn logs(&self) -> PathBuf {
        self.root.join("logs")
    }

    /// Keys, certificates and kubeconfigs.
    pub fn secrets(&self) -> PathBuf {
        self.root.join("secrets")
    }

    /// The administrator's kubeconfig.
    pub fn kubeconfig(&self) -> PathBuf {
        self.secrets().join("admin.kubeconfig")
    }

    /// Data of the components that run outside the nodes.
    pub fn data(&self, component: &str) -> PathBuf {
        self.root.join("data").join(component)
    }

    /// What belongs to one node.
    pub fn node(&self, node: &str) -> PathBuf {
        self.root.join("nodes").join(node)
    }

    /// Programs under the names that other programs look for.
    pub fn programs(&self) -> PathBuf {
        self.root.join("bin")
    }

    /// Folders that [`crate::Bed::down`] removes; logs stay for the reader.
    pub(crate) fn removable(&self) -> Vec<PathBuf> {
        ["secrets", "data", "nodes", "bin"]
            .iter()
            .map(|name| self.root.join(name))
            .collect()
    }
}

/// `$PLIMSOLL_CACHE`, else `.cache` of this checkout.
pub(crate) fn cache_folder() -> PathBuf {
    match std::env::var_os("PLIMSOLL_CACHE") {
        Some(folder) if !folder.is_empty() => PathBuf::from(folder),
        _ => repository().join(".cache"),
    }
}

/// The root of this checkout.
pub(crate) fn repository() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).to_owned()
}
