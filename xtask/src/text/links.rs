//! Relative links in Markdown that lead nowhere.

use std::path::{Component, Path, PathBuf};

use super::Finding;

/// Finds relative links whose target does not exist; `exists` is asked with a path relative to the root.
pub(super) fn lint(path: &Path, text: &str, exists: impl Fn(&Path) -> bool) -> Vec<Finding> {
    if path.extension().is_none_or(|extension| extension != "md") {
        return Vec::new();
    }
    let folder = path.parent().unwrap_or(Path::new(""));
    let links = outside_of_code(text).flat_map(|(content, line)| targets(content).map(move |target| (target, line)));
    let dead = links.filter(|(target, _)| is_relative(target) && !leads_somewhere(folder, target, &exists));
    dead.map(|(target, line)| Finding {
        path: path.to_owned(),
        line,
        message: format!("the link to {target} leads nowhere"),
    })
    .collect()
}

/// The numbered lines that are not inside a fenced block.
fn outside_of_code(text: &str) -> impl Iterator<Item = (&str, usize)> {
    let mut inside = false;
    text.lines().zip(1..).filter(move |(content, _)| {
        let fence = content.trim_start().starts_with("```");
        inside ^= fence;
        !inside && !fence
    })
}

/// The targets of `[text](target)` and `![text](target)` in a line.
fn targets(content: &str) -> impl Iterator<Item = &str> {
    content.match_indices("](").filter_map(|(start, mark)| {
        let rest = &content[start + mark.len()..];
        rest.split([')', ' ']).next()
    })
}

fn is_relative(target: &str) -> bool {
    !target.contains("://") && !target.starts_with("mailto:") && !target.starts_with('#')
}

fn leads_somewhere(folder: &Path, target: &str, exists: impl Fn(&Path) -> bool) -> bool {
    let file = target.split('#').next().unwrap_or_default();
    normalise(&folder.join(file)).is_some_and(|path| exists(&path))
}

/// The path without `..`; `None` when it leaves the repository.
fn normalise(path: &Path) -> Option<PathBuf> {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => normal.push(name),
            Component::CurDir => {}
            Component::ParentDir => {
                if !normal.pop() {
                    return None;
                }
            }
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(normal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dead_relative_links_are_found_with_their_line() {
        let there = ["docs/a.md", "README.md", "docs"];
        let text = "[a](a.md#part) [up](../README.md) [out](https://x) [here](#x)\n![no](b.png \"t\")\n\
                    ```\n[code](c.md)\n```\n[away](../../etc) [abs](/etc) [dir](.)\n";
        let findings = lint(Path::new("docs/x.md"), text, |path| {
            there.contains(&path.to_str().unwrap())
        });
        let seen: Vec<(usize, &str)> = findings.iter().map(|f| (f.line, f.message.as_str())).collect();
        let nowhere = |target: &str| format!("the link to {target} leads nowhere");
        let expected = [(2, nowhere("b.png")), (6, nowhere("../../etc")), (6, nowhere("/etc"))];
        assert_eq!(
            seen,
            expected
                .iter()
                .map(|(line, text)| (*line, text.as_str()))
                .collect::<Vec<_>>()
        );
    }

    #[test]
    fn only_markdown_is_read() {
        assert!(lint(Path::new("a.rs"), "x[0](y)", |_| false).is_empty());
    }
}
