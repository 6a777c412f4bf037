//! Paths in variables, read as the hub's own client reads them: `~` and `$NAME` are filled in, also where no shell has done it.

use std::path::{Path, PathBuf};

/// The variables of the environment, as a function.
pub(crate) type Variables<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The path that a variable holds; nothing when it is absent or empty.
pub(crate) fn path_in(variable: Variables<'_>, name: &str) -> Option<PathBuf> {
    let text = variable(name).filter(|text| !text.is_empty())?;
    Some(expand(variable, &text))
}

/// The folder that Hugging Face's clients share.
pub(crate) fn hugging_face_home(variable: Variables<'_>) -> Option<PathBuf> {
    let below = |name, rest| path_in(variable, name).map(|base| base.join(rest));
    below("HF_HOME", "")
        .or_else(|| below("XDG_CACHE_HOME", "huggingface"))
        .or_else(|| below("HOME", ".cache/huggingface"))
}

fn expand(variable: Variables<'_>, text: &str) -> PathBuf {
    let below_home = text
        .strip_prefix('~')
        .filter(|rest| rest.is_empty() || rest.starts_with('/'));
    let home = variable("HOME").filter(|home| !home.is_empty());
    match (below_home, home) {
        (Some(rest), Some(home)) => Path::new(&home).join(fill_in(variable, rest.trim_start_matches('/'))),
        _ => PathBuf::from(fill_in(variable, text)),
    }
}

/// A name that is not set stays as it is written, so that the path in the message is the one of the user.
fn fill_in(variable: Variables<'_>, text: &str) -> String {
    let mut filled = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        filled.push_str(before);
        let (name, written) = name_at_start(after);
        if let Some(value) = variable(name).filter(|_| !name.is_empty()) {
            filled.push_str(&value);
        } else {
            filled.push('$');
            filled.push_str(&after[..written]);
        }
        rest = &after[written..];
    }
    filled + rest
}

/// The name behind a `$`, with or without braces, and how many bytes it takes.
fn name_at_start(text: &str) -> (&str, usize) {
    if let Some((name, _)) = text.strip_prefix('{').and_then(|inner| inner.split_once('}')) {
        return (name, name.len() + 2);
    }
    let end = text
        .find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_')
        .unwrap_or(text.len());
    (&text[..end], end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn home_and_variables_are_filled_in_as_the_hubs_client_does() {
        let variable = |name: &str| match name {
            "HOME" => Some("/home/me".to_owned()),
            "DATA" => Some("/data".to_owned()),
            "NAME" => Some("it".to_owned()),
            _ => None,
        };
        for (text, path) in [
            ("~", "/home/me"),
            ("~/sub/tok", "/home/me/sub/tok"),
            ("~other/tok", "~other/tok"),
            ("/a/~/b", "/a/~/b"),
            ("$DATA/hub", "/data/hub"),
            ("${DATA}x/$HOME", "/datax//home/me"),
            ("~/$NAME", "/home/me/it"),
            ("$MISSING/${MISSING}/$", "$MISSING/${MISSING}/$"),
            ("${DATA", "${DATA"),
        ] {
            let asked = |name: &str| {
                if name == "P" {
                    Some(text.to_owned())
                } else {
                    variable(name)
                }
            };
            assert_eq!(path_in(&asked, "P"), Some(path.into()), "{text}");
        }
        assert_eq!(expand(&|_| None, "~/x"), PathBuf::from("~/x"));
    }
}
