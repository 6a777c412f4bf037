//! Rows that get into each other's way: ties, rows in the shadow of a `no`, models without any image.

use std::collections::BTreeMap;

use super::Linter;
use crate::{
    support::{Statement, SupportRow},
    words::Words,
};

/// Looks at pairs of rows that select the same models of the same distribution.
pub(super) fn look(linter: &mut Linter<'_>) {
    let contents = linter.contents;
    let mut groups: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (position, row) in contents.rows.iter().enumerate() {
        groups.entry(group(row)).or_default().push(position);
    }
    for rows in groups.values() {
        for (index, later) in rows.iter().enumerate() {
            for earlier in &rows[..index] {
                pair(linter, *earlier, *later);
            }
        }
    }
}

/// Rows can only tie where their selectors for models are the same.
fn group(row: &SupportRow) -> String {
    let mut distributions = row.builds.distribution.0.clone();
    distributions.sort();
    format!("{distributions:?} {:?}", sorted_models(row))
}

fn sorted_models(row: &SupportRow) -> [Vec<String>; 5] {
    let models = &row.models;
    let sorted = |words: &Words| {
        let mut list = words.list().to_vec();
        list.sort();
        list
    };
    [
        sorted(&models.architectures),
        sorted(&models.families),
        sorted(&models.checkpoints),
        sorted(&models.tasks),
        sorted(&models.formats),
    ]
}

fn pair(linter: &mut Linter<'_>, earlier: usize, later: usize) {
    let contents = linter.contents;
    let (first, second) = (&contents.rows[earlier], &contents.rows[later]);
    let shared = linter
        .index
        .row_builds(earlier)
        .iter()
        .any(|build| linter.index.row_builds(later).contains(build));
    if !shared || !ranges_touch(first, second) {
        return;
    }
    let (no, yes) = match (first.level, second.level) {
        (Statement::No, Statement::No) => return,
        (Statement::No, _) => (Some(first), second),
        (_, Statement::No) => (Some(second), first),
        _ => (None, second),
    };
    if let Some(no) = no {
        if covers(&no.products, &yes.products) && covers(&no.quantizations, &yes.quantizations) {
            let message = format!("the row can never count: {} says no to all that it speaks of", no.row);
            linter.warn(
                "shadowed",
                &yes.row,
                message,
                "take one of the two out, or make the statement closer",
            );
        }
        return;
    }
    let same_reach = same(&first.products, &second.products) && same(&first.quantizations, &second.quantizations);
    if same_reach && first.level != second.level {
        let message = format!("the row ties with {} and states another level", first.row);
        linter.warn(
            "tie",
            &second.row,
            message,
            "join the two, or tell them apart by versions, products or quantizations",
        );
    } else if same_reach && first.limits != second.limits {
        let message = format!("the row ties with {} and states other limits", first.row);
        linter.warn(
            "tie",
            &second.row,
            message,
            "join the two, or tell them apart by versions, products or quantizations",
        );
    } else if same_reach {
        let message = format!("the row says what {} says", first.row);
        linter.warn("shadowed", &second.row, message, "take one of the two out");
    }
}

fn same(left: &Words, right: &Words) -> bool {
    covers(left, right) && covers(right, left)
}

/// Whether one set holds all of another.
fn covers(outer: &Words, inner: &Words) -> bool {
    match (outer, inner) {
        (Words::Unset | Words::Any, _) | (Words::None, Words::None) => true,
        (Words::None, _) | (Words::These(_), Words::Unset | Words::Any | Words::None) => false,
        (Words::These(outer), Words::These(inner)) => inner.iter().all(|word| outer.contains(word)),
    }
}

/// Rows with bounds on both sides that do not meet speak of different releases.
fn ranges_touch(first: &SupportRow, second: &SupportRow) -> bool {
    use crate::version::{EngineVersion, VersionScheme};
    let read = |text: &Option<String>| {
        text.as_ref()
            .and_then(|text| EngineVersion::parse(text, VersionScheme::Pep440).ok())
    };
    let apart = |until: &Option<String>, since: &Option<String>| match (read(until), read(since)) {
        (Some(until), Some(since)) => until.compare(&since).is_some_and(std::cmp::Ordering::is_lt),
        _ => false,
    };
    !apart(&first.until, &second.since) && !apart(&second.until, &first.since)
}
