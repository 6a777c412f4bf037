//! The matrix: all documents, read, joined and indexed.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    build::Build,
    document::{Document, LoadError, LoadErrors},
    engine_list::EngineList,
    index::Index,
    launch::LaunchProfile,
    metrics::MetricsProfile,
    product::{Product, Vendor},
    reading::Contents,
    revision::Revision,
    support::SupportRow,
};

/// The compatibility matrix.
#[derive(Debug, Clone)]
pub struct Matrix {
    pub(crate) contents: Contents,
    pub(crate) index: Index,
    pub(crate) revision: Revision,
}

impl Matrix {
    /// Reads documents. All errors of all documents are returned at once.
    pub fn load(documents: &[Document]) -> Result<Self, LoadErrors> {
        let mut errors = Vec::new();
        let parsed = crate::reading::parse(documents, &mut errors);
        let contents = crate::reading::read(&parsed, &mut errors);
        crate::reading::check(&contents, &parsed, &mut errors);
        if !errors.is_empty() {
            errors.sort();
            errors.dedup();
            return Err(LoadErrors(errors));
        }
        let revision = crate::revision::freeze(&parsed);
        let index = Index::new(&contents);
        Ok(Self {
            contents,
            index,
            revision,
        })
    }

    /// The matrix that is built into this program.
    pub fn shipped() -> &'static Self {
        static SHIPPED: std::sync::LazyLock<Matrix> =
            std::sync::LazyLock::new(|| match Matrix::load(&crate::shipped::documents()) {
                Ok(matrix) => matrix,
                // A test loads the shipped documents, so a program with a broken matrix is never released.
                Err(errors) => {
                    unreachable!("the shipped matrix does not load:\n{errors}")
                }
            });
        &SHIPPED
    }

    /// The frozen form: all documents under their digest.
    pub fn revision(&self) -> &Revision {
        &self.revision
    }

    /// Reads a frozen matrix back.
    pub fn from_revision(text: &str) -> Result<Self, LoadErrors> {
        Self::load_frozen(text).map_err(|error| LoadErrors(vec![error]))?
    }

    fn load_frozen(text: &str) -> Result<Result<Self, LoadErrors>, LoadError> {
        let parsed = crate::revision::thaw(text)?;
        let mut errors = Vec::new();
        let contents = crate::reading::read(&parsed, &mut errors);
        crate::reading::check(&contents, &parsed, &mut errors);
        if !errors.is_empty() {
            errors.sort();
            return Ok(Err(LoadErrors(errors)));
        }
        let index = Index::new(&contents);
        Ok(Ok(Self {
            revision: crate::revision::freeze(&parsed),
            contents,
            index,
        }))
    }

    /// Vendors, by their word.
    pub fn vendors(&self) -> &BTreeMap<String, Vendor> {
        &self.contents.vendors
    }

    /// Products, by id.
    pub fn products(&self) -> &BTreeMap<String, Product> {
        &self.contents.products
    }

    /// Builds, in the order of their ids.
    pub fn builds(&self) -> &[Build] {
        &self.contents.builds
    }

    /// One build.
    pub fn build(&self, id: &str) -> Option<&Build> {
        let position = self
            .contents
            .builds
            .binary_search_by(|build| build.id.as_str().cmp(id))
            .ok()?;
        self.contents.builds.get(position)
    }

    /// Support rows, in the order of their places.
    pub fn rows(&self) -> &[SupportRow] {
        &self.contents.rows
    }

    /// Launch profiles, by name.
    pub fn launch_profiles(&self) -> &BTreeMap<String, LaunchProfile> {
        &self.contents.launch
    }

    /// Metrics profiles, by name.
    pub fn metrics_profiles(&self) -> &BTreeMap<String, MetricsProfile> {
        &self.contents.metrics
    }

    /// What engines list, by engine.
    pub fn engine_lists(&self) -> &BTreeMap<String, EngineList> {
        &self.contents.lists
    }

    /// Builds that a support row selects, its bounds on the upstream version included.
    pub fn builds_of<'own>(&'own self, row: &'own SupportRow) -> impl Iterator<Item = &'own Build> {
        let selected = self.index.select(&row.builds, &self.contents);
        let builds = selected.into_iter().map(|position| &self.contents.builds[position]);
        builds.filter(|build| crate::index::in_bounds(row, build))
    }

    /// Products that a word of a selector means.
    pub fn products_for(&self, word: &str) -> BTreeSet<&str> {
        self.contents
            .products
            .values()
            .filter(|product| product.answers_to(word))
            .map(|product| product.id.as_str())
            .collect()
    }
}
