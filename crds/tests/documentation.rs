//! The page of the resource names every word that a status can say.

use crds::{ConditionType, Reason};

const PAGE: &str = include_str!("../../docs/spec/modeldeployment.md");

#[test]
fn every_condition_has_its_own_heading() {
    for type_ in ConditionType::ALL {
        assert!(
            PAGE.contains(&format!("#### {type_}\n")),
            "docs/spec/modeldeployment.md has no heading for {type_}"
        );
    }
}

#[test]
fn every_reason_is_explained_with_its_status_under_its_condition() {
    for reason in Reason::ALL {
        let section = PAGE
            .split(&format!("#### {}\n", reason.condition()))
            .nth(1)
            .unwrap_or_default();
        let section = section.split("\n#").next().unwrap_or_default();
        let row = section
            .lines()
            .find(|line| line.starts_with(&format!("| `{reason}` | {} |", reason.status())));
        let row = row.unwrap_or_else(|| panic!("{reason} is not in the table of {}", reason.condition()));
        let meaning = reason.meaning().split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            row.contains(&meaning),
            "{reason}: the page says {row:?}, the code says {meaning:?}"
        );
    }
}
