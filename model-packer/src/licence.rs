//! The licence that a model card names, as an SPDX expression.

/// Hub identifiers and SPDX's spelling of them. Others become a `LicenseRef`, as SPDX wants it.
const KNOWN: [(&str, &str); 14] = [
    ("apache-2.0", "Apache-2.0"),
    ("mit", "MIT"),
    ("bsd-2-clause", "BSD-2-Clause"),
    ("bsd-3-clause", "BSD-3-Clause"),
    ("gpl-3.0", "GPL-3.0-only"),
    ("agpl-3.0", "AGPL-3.0-only"),
    ("lgpl-3.0", "LGPL-3.0-only"),
    ("mpl-2.0", "MPL-2.0"),
    ("cc0-1.0", "CC0-1.0"),
    ("cc-by-4.0", "CC-BY-4.0"),
    ("cc-by-sa-4.0", "CC-BY-SA-4.0"),
    ("cc-by-nc-4.0", "CC-BY-NC-4.0"),
    ("isc", "ISC"),
    ("unlicense", "Unlicense"),
];

/// Reads `license:` of the card's front matter; nothing is guessed from prose.
pub fn of_model_card(card: &str) -> Vec<String> {
    let card = card.trim_start_matches('\u{feff}').replace("\r\n", "\n");
    let Some(front) = card
        .strip_prefix("---\n")
        .and_then(|rest| rest.split_once("\n---"))
        .map(|(front, _)| front)
    else {
        return Vec::new();
    };
    let value = |key: &str| {
        let line = front.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
        line.map(|value| value.trim().trim_matches(['"', '\'']).to_owned())
            .filter(|value| !value.is_empty())
    };
    let mut names = match value("license") {
        Some(inline) => inline
            .trim_matches(['[', ']'])
            .split(',')
            .map(|name| name.trim().trim_matches(['"', '\'']).to_owned())
            .collect(),
        None => list_below(front, "license:"),
    };
    if names == ["other"] {
        names = value("license_name").into_iter().collect();
    }
    names
        .iter()
        .filter(|name| !name.is_empty())
        .map(|name| spdx(name))
        .collect()
}

fn list_below(front: &str, key: &str) -> Vec<String> {
    let below = front.lines().skip_while(|line| line.trim_end() != key).skip(1);
    below
        .map_while(|line| line.trim_start().strip_prefix("- "))
        .map(|name| name.trim().to_owned())
        .collect()
}

fn spdx(name: &str) -> String {
    let lower = name.to_ascii_lowercase();
    if let Some((_, spdx)) = KNOWN.iter().find(|(hub, _)| *hub == lower) {
        (*spdx).to_owned()
    } else {
        let fit = |letter: char| {
            if letter.is_ascii_alphanumeric() || letter == '.' {
                letter
            } else {
                '-'
            }
        };
        format!("LicenseRef-{}", lower.chars().map(fit).collect::<String>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cards_own_word_is_taken_and_nothing_else() {
        let cases = [
            ("---\nlicense: apache-2.0\ntags:\n- x\n---\n# Model", vec!["Apache-2.0"]),
            ("---\r\nlicense: \"mit\"\r\n---\r\n", vec!["MIT"]),
            ("---\nlicense: llama3.1\n---\n", vec!["LicenseRef-llama3.1"]),
            (
                "---\nlicense: other\nlicense_name: qwen research\n---\n",
                vec!["LicenseRef-qwen-research"],
            ),
            (
                "---\nlicense:\n- mit\n- apache-2.0\nx: y\n---\n",
                vec!["MIT", "Apache-2.0"],
            ),
            ("---\nlicense: [mit, isc]\n---\n", vec!["MIT", "ISC"]),
            ("---\nlicense: other\n---\n", vec![]),
            ("# Model\nlicense: mit\n", vec![]),
            ("", vec![]),
        ];
        for (card, expected) in cases {
            assert_eq!(of_model_card(card), expected, "{card:?}");
        }
    }
}
