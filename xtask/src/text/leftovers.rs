//! Words that mean that something is not finished.

use std::path::Path;

use super::Finding;

/// The words, in two halves each, so that this file does not find itself.
const WORDS: [(&str, &str); 5] = [
    ("TO", "DO"),
    ("FIX", "ME"),
    ("XX", "X "),
    ("to", "do!("),
    ("unimple", "mented!("),
];

/// Finds unfinished work and tests that are switched off without a reason.
pub(super) fn lint(path: &Path, text: &str) -> Vec<Finding> {
    let numbered = text.lines().zip(1..);
    numbered
        .flat_map(|(content, line)| lint_line(content).map(move |message| finding(path, line, message)))
        .collect()
}

fn finding(path: &Path, line: usize, message: String) -> Finding {
    Finding {
        path: path.to_owned(),
        line,
        message,
    }
}

fn lint_line(content: &str) -> impl Iterator<Item = String> {
    let words = WORDS.into_iter().map(|(start, end)| format!("{start}{end}"));
    let words = words.filter(|word| contains_word(content, word)).map(|word| {
        format!(
            "{:?} is left over: finish it, or take it out",
            word.trim_end_matches(['!', '(', ' '])
        )
    });
    words.chain(
        is_ignored_without_reason(content).then(|| "an ignored test says why: #[ignore = \"reason\"]".to_owned()),
    )
}

/// Whether the word stands there on its own, and not as a part of a longer one.
fn contains_word(content: &str, word: &str) -> bool {
    content.match_indices(word).any(|(start, _)| {
        let before = content[..start].chars().next_back();
        let after = content[start + word.len()..].chars().next();
        let is_word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
        !is_word(before) && (!word.ends_with(char::is_alphabetic) || !is_word(after))
    })
}

fn is_ignored_without_reason(content: &str) -> bool {
    content.trim_start().starts_with(concat!("#[", "ignore]"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(content: &str) -> usize {
        lint(Path::new("a.rs"), content).len()
    }

    #[test]
    fn unfinished_work_is_found_and_ordinary_words_are_not() {
        let leftovers = [
            concat!("// TO", "DO: later"),
            concat!("# FIX", "ME"),
            concat!("    to", "do!()"),
            concat!("unimple", "mented!(\"x\")"),
            concat!("  #[", "ignore]"),
        ];
        for leftover in leftovers {
            assert_eq!(found(leftover), 1, "{leftover}");
        }
        let fine = [
            "Status::unimplemented(\"x\")",
            "MASTODON",
            "todos",
            "#[ignore = \"needs root\"]",
            "METODOS",
        ];
        for text in fine {
            assert_eq!(found(text), 0, "{text}");
        }
    }

    #[test]
    fn a_finding_names_its_line() {
        let text = concat!("one\ntwo TO", "DO\n");
        assert_eq!(lint(Path::new("a.rs"), text)[0].line, 2);
    }
}
