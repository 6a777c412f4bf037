//! What makes a decision quick: which rows may speak of a model, which builds a row selects, which builds serve a vendor.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use globset::{Glob, GlobMatcher, GlobSet, GlobSetBuilder};
use model_facts::{ModelFacts, WeightFormat};

use crate::{
    build::Build,
    decision::Verdict,
    launch::Profile,
    reading::Contents,
    reason::RowReference,
    support::{BuildSelector, ENGINE_LIST, ModelMatch, SupportRow},
    version::VersionRange,
};

mod prepared;

pub(crate) use prepared::{Bounds, HostNeeds, StackNeed};

/// Tables made once when a matrix is loaded.
#[derive(Debug, Clone)]
pub(crate) struct Index {
    by_architecture: BTreeMap<String, Vec<usize>>,
    by_family: BTreeMap<String, Vec<usize>>,
    by_checkpoint: Vec<usize>,
    checkpoint_globs: GlobSet,
    /// Rows by the engine's own list, and rows for any model.
    for_all: Vec<usize>,
    /// Builds that a row selects.
    row_builds: Vec<Vec<usize>>,
    /// The place of each row among all rows by what they say: the last word between equals, wherever they are written.
    content_rank: Vec<usize>,
    /// Builds by vendor of their images.
    pub(crate) by_vendor: BTreeMap<String, Vec<usize>>,
    /// Vendors of each build.
    pub(crate) vendors_of: Vec<Vec<String>>,
    /// Builds by distribution.
    by_distribution: BTreeMap<String, Vec<usize>>,
    /// Launch profiles, joined with those that they extend.
    pub(crate) profiles: BTreeMap<String, Profile>,
    /// Globs of model-specific builds.
    bindings: BTreeMap<usize, Vec<GlobMatcher>>,
    /// Versions between which each row speaks.
    pub(crate) bounds: Vec<Bounds>,
    /// The versions that each row speaks of, in words.
    pub(crate) ranges: Vec<String>,
    /// What each build needs of hosts.
    pub(crate) host_needs: Vec<Vec<HostNeeds>>,
    /// The verdict on each build where the cluster has nothing of its vendors.
    pub(crate) elsewhere: Vec<Arc<Verdict>>,
}

impl Index {
    pub(crate) fn new(contents: &Contents) -> Self {
        let mut index = Self {
            by_architecture: BTreeMap::new(),
            by_family: BTreeMap::new(),
            by_checkpoint: Vec::new(),
            checkpoint_globs: GlobSet::empty(),
            for_all: Vec::new(),
            row_builds: Vec::new(),
            content_rank: content_rank(contents),
            by_vendor: BTreeMap::new(),
            vendors_of: Vec::new(),
            by_distribution: BTreeMap::new(),
            profiles: profiles(contents),
            bindings: BTreeMap::new(),
            bounds: contents.rows.iter().map(Bounds::new).collect(),
            ranges: contents.rows.iter().map(describe_range).collect(),
            host_needs: Vec::new(),
            elsewhere: Vec::new(),
        };
        index.add_builds(contents);
        index.add_rows(contents);
        index.host_needs = prepared::host_needs(contents, &index.vendors_of);
        index.elsewhere = prepared::elsewhere(contents, &index.vendors_of);
        index
    }

    fn add_builds(&mut self, contents: &Contents) {
        for (position, build) in contents.builds.iter().enumerate() {
            self.by_distribution
                .entry(build.distribution.clone())
                .or_default()
                .push(position);
            let vendors = vendors_of(build, contents);
            for vendor in &vendors {
                self.by_vendor.entry(vendor.clone()).or_default().push(position);
            }
            self.vendors_of.push(vendors);
            if let Some(binding) = &build.models {
                self.bindings.insert(
                    position,
                    binding.checkpoints.iter().filter_map(|glob| matcher(glob)).collect(),
                );
            }
        }
    }

    fn add_rows(&mut self, contents: &Contents) {
        let mut globs = GlobSetBuilder::new();
        for (position, row) in contents.rows.iter().enumerate() {
            match row.models.closeness() {
                ModelMatch::Checkpoint => {
                    for glob in row.models.checkpoints.list() {
                        if let Ok(glob) = Glob::new(glob) {
                            globs.add(glob);
                            self.by_checkpoint.push(position);
                        }
                    }
                }
                ModelMatch::Architecture => {
                    push_all(&mut self.by_architecture, row.models.architectures.list(), position);
                }
                ModelMatch::Family => push_all(&mut self.by_family, row.models.families.list(), position),
                ModelMatch::EngineList | ModelMatch::Any => self.for_all.push(position),
            }
            self.row_builds.push(self.select(&row.builds, contents));
        }
        self.checkpoint_globs = globs.build().unwrap_or_else(|_| GlobSet::empty());
    }

    /// Builds that a selector means.
    pub(crate) fn select(&self, selector: &BuildSelector, contents: &Contents) -> Vec<usize> {
        let all = || (0..contents.builds.len()).collect::<Vec<_>>();
        let named = &selector.distribution.0;
        let candidates: Vec<usize> = if named.is_empty() {
            all()
        } else {
            named
                .iter()
                .filter_map(|name| self.by_distribution.get(name))
                .flatten()
                .copied()
                .collect()
        };
        let selected: BTreeSet<usize> = candidates
            .into_iter()
            .filter(|position| selects(selector, &contents.builds[*position]))
            .collect();
        selected.into_iter().collect()
    }

    /// Rows that may speak of a model, as pairs of build and row: by build, then by what the rows say. Rows by the engine's list are among them when the
    /// list of the build's upstream version has the architecture. `rows` are those of the model, and only `wanted` builds count.
    pub(crate) fn pairs(
        &self,
        rows: &[usize],
        facts: &ModelFacts,
        contents: &Contents,
        wanted: &[bool],
    ) -> Vec<(usize, usize)> {
        let mut pairs = Vec::new();
        for row in rows.iter().copied() {
            let from_list = contents.rows[row].models.closeness() == ModelMatch::EngineList;
            for build in self.row_builds[row].iter().filter(|build| wanted[**build]) {
                if !from_list || listed(&contents.builds[*build], facts, contents) {
                    pairs.push((*build, row));
                }
            }
        }
        // The rows come by what they say, and a stable sort keeps them so.
        pairs.sort_by_key(|(build, _)| *build);
        pairs
    }

    /// Which builds have images for one of some vendors.
    pub(crate) fn builds_for<'word>(&self, vendors: impl Iterator<Item = &'word str>) -> Vec<bool> {
        let mut wanted = vec![false; self.vendors_of.len()];
        for build in vendors.filter_map(|vendor| self.by_vendor.get(vendor)).flatten() {
            wanted[*build] = true;
        }
        wanted
    }

    /// Rows whose model selector holds.
    fn rows(&self, facts: &ModelFacts, contents: &Contents) -> BTreeSet<usize> {
        let mut rows: BTreeSet<usize> = self.for_all.iter().copied().collect();
        for architecture in &facts.architectures {
            rows.extend(self.by_architecture.get(architecture).into_iter().flatten());
        }
        if let Some(family) = &facts.family {
            rows.extend(self.by_family.get(family).into_iter().flatten());
        }
        if let Some(checkpoint) = &facts.checkpoint {
            let hits = self.checkpoint_globs.matches(checkpoint);
            rows.extend(hits.into_iter().map(|hit| self.by_checkpoint[hit]));
        }
        rows.retain(|row| speaks_of(&contents.rows[*row], facts));
        rows
    }

    /// Builds that a row selects.
    pub(crate) fn row_builds(&self, row: usize) -> &[usize] {
        &self.row_builds[row]
    }

    /// Rows of the model, by what they say.
    pub(crate) fn rows_of_model(&self, facts: &ModelFacts, contents: &Contents) -> Vec<usize> {
        let mut rows: Vec<usize> = self.rows(facts, contents).into_iter().collect();
        rows.sort_by_key(|row| self.content_rank[*row]);
        rows
    }

    /// Whether a model-specific build was made for this model; `true` for every other build.
    pub(crate) fn made_for(&self, position: usize, build: &Build, facts: &ModelFacts) -> bool {
        let Some(binding) = &build.models else { return true };
        let globs = self.bindings.get(&position).map_or(&[][..], Vec::as_slice);
        let by_checkpoint = facts
            .checkpoint
            .as_ref()
            .is_some_and(|name| globs.iter().any(|glob| glob.is_match(name)));
        let by_architecture = facts
            .architectures
            .iter()
            .any(|name| binding.architectures.contains(name));
        let by_family = facts
            .family
            .as_ref()
            .is_some_and(|name| binding.families.contains(name));
        by_checkpoint || by_architecture || by_family
    }
}

fn profiles(contents: &Contents) -> BTreeMap<String, Profile> {
    let names = contents.launch.keys();
    names
        .filter_map(|name| Some((name.clone(), crate::launch::join(&contents.launch, name)?)))
        .collect()
}

/// Rows in the order of what they say. Rows that say the same are equal in every way that matters.
fn content_rank(contents: &Contents) -> Vec<usize> {
    let place = RowReference {
        path: "".into(),
        line: 0,
    };
    let content = |row: &SupportRow| {
        let bare = SupportRow {
            row: place.clone(),
            ..row.clone()
        };
        serde_json::to_string(&bare).unwrap_or_default()
    };
    let texts: Vec<String> = contents.rows.iter().map(content).collect();
    let mut order: Vec<usize> = (0..texts.len()).collect();
    order.sort_by(|left, right| texts[*left].cmp(&texts[*right]));
    let mut rank = vec![0; texts.len()];
    for (place, row) in order.into_iter().enumerate() {
        rank[row] = place;
    }
    rank
}

/// A glob on checkpoint names: `*` may span a `/`, so that `*Qwen3-8B*` holds for every owner.
pub(crate) fn matcher(glob: &str) -> Option<GlobMatcher> {
    Glob::new(glob).ok().map(|glob| glob.compile_matcher())
}

fn push_all(table: &mut BTreeMap<String, Vec<usize>>, words: &[String], position: usize) {
    for word in words {
        table.entry(word.clone()).or_default().push(position);
    }
}

/// Vendors of the images; of the head, where there is no image.
fn vendors_of(build: &Build, contents: &Contents) -> Vec<String> {
    let mut vendors: BTreeSet<&str> = BTreeSet::new();
    for key in build.images.keys() {
        let answering = contents.products.values().filter(|product| product.answers_to(key));
        vendors.extend(answering.map(|product| product.vendor.as_str()));
        if let Some(vendor) = contents.vendors.get(key) {
            vendors.insert(&vendor.id);
        }
    }
    if build.images.is_empty() {
        vendors.extend(build.vendors.iter().map(String::as_str));
    }
    vendors.into_iter().map(str::to_owned).collect()
}

fn selects(selector: &BuildSelector, build: &Build) -> bool {
    let named = selector.id.0.is_empty() || selector.id.0.contains(&build.id);
    let flavored = selector.flavor.0.is_empty()
        || selector
            .flavor
            .0
            .iter()
            .any(|flavor| build.id.ends_with(&format!("-{flavor}")));
    let versioned = selector
        .version
        .as_ref()
        .is_none_or(|range| range.contains(&build.version));
    let upstream = selector
        .upstream
        .as_ref()
        .is_none_or(|range| build.upstream.as_ref().is_some_and(|own| range.contains(own)));
    named && flavored && versioned && upstream
}

/// Whether what a row says about models holds, its engine list left aside. Its globs are not looked at again: a row with globs
/// is only here because one of them hit.
fn speaks_of(row: &SupportRow, facts: &ModelFacts) -> bool {
    let models = &row.models;
    let architectures = models.architectures.list();
    let by_architecture = architectures.is_empty()
        || architectures == [ENGINE_LIST]
        || facts.architectures.iter().any(|name| architectures.contains(name));
    let families = models.families.list();
    let by_family = families.is_empty() || facts.family.as_ref().is_some_and(|name| families.contains(name));
    let by_task = models.tasks.is_unset() || facts.task.as_ref().is_some_and(|task| models.tasks.holds(task));
    by_architecture && by_family && by_task && models.formats.holds(format_word(facts.format))
}

/// The word of a weight format.
pub(crate) fn format_word(format: WeightFormat) -> &'static str {
    match format {
        WeightFormat::Safetensors => "safetensors",
        WeightFormat::Mistral => "mistral",
        WeightFormat::Gguf => "gguf",
        WeightFormat::Pytorch => "pytorch",
        WeightFormat::Unknown => "unknown",
    }
}

/// Whether the list of the upstream engine has the architecture at the build's upstream version.
pub(crate) fn listed(build: &Build, facts: &ModelFacts, contents: &Contents) -> bool {
    let Some(list) = contents.lists.get(&build.upstream_engine) else {
        return false;
    };
    let Some(upstream) = &build.upstream else { return false };
    facts
        .architectures
        .iter()
        .filter_map(|name| list.architectures.get(name))
        .any(|entry| entry.holds(upstream))
}

/// Whether an upstream version lies between the bounds of a row.
pub(crate) fn in_bounds(row: &SupportRow, build: &Build) -> bool {
    Bounds::new(row).hold(build)
}

/// The range of a row in one text, for people.
fn describe_range(row: &SupportRow) -> String {
    let text = |range: &Option<VersionRange>| range.as_ref().map(|range| range.text().to_owned());
    let mut parts: Vec<String> = Vec::new();
    parts.extend(text(&row.builds.version).map(|range| format!("version {range}")));
    parts.extend(text(&row.builds.upstream).map(|range| format!("upstream {range}")));
    parts.extend(row.since.as_ref().map(|since| format!("upstream since {since}")));
    parts.extend(row.until.as_ref().map(|until| format!("upstream until {until}")));
    if parts.is_empty() {
        "other builds".to_owned()
    } else {
        parts.join(", ")
    }
}

/// Whether a row selects builds of this distribution at all.
pub(crate) fn row_reaches(row: &SupportRow, build: &Build) -> bool {
    row.builds.distribution.0.is_empty() || row.builds.distribution.0.contains(&build.distribution)
}
