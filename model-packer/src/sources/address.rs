//! What a user writes to name a source: `hf://owner/name[@revision]`, `ms://owner/name[@revision]`, `file:path`, or a path.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// A parsed source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SourceAddress {
    /// A repository of Hugging Face, or of a hub that speaks like it.
    HuggingFace {
        /// `owner/name`, or a bare `name` of the early days.
        id: String,
        /// Branch, tag, commit or `refs/pr/N`; `main` when absent.
        revision: Option<String>,
    },
    /// A repository of ModelScope.
    ModelScope {
        /// `owner/name`.
        id: String,
        /// Branch or tag; `master` when absent.
        revision: Option<String>,
    },
    /// A local folder, file, or Hugging Face cache.
    Path(PathBuf),
}

/// A text that names no source.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// Nothing there.
    #[error("the source is empty")]
    Empty,
    /// A scheme that is not one of ours.
    #[error("source `{0}` has a scheme that is not known")]
    Scheme(String),
    /// Not a repository id.
    #[error("`{id}` is no repository id: {problem}")]
    Id {
        /// What was written.
        id: String,
        /// What is wrong.
        problem: &'static str,
    },
}

impl AddressError {
    /// What to do about it.
    pub fn hint(&self) -> String {
        let meant = match self {
            Self::Scheme(text) => suggestion(text),
            Self::Empty | Self::Id { .. } => None,
        };
        meant.map_or_else(
            || "write hf://owner/name[@revision], ms://owner/name[@revision], file:PATH or a path".into(),
            |address| format!("write {address}"),
        )
    }
}

impl FromStr for SourceAddress {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Some(rest) = text.strip_prefix("hf://") {
            let (id, revision) = repository(rest, true)?;
            return Ok(Self::HuggingFace { id, revision });
        }
        if let Some(rest) = text.strip_prefix("ms://") {
            let (id, revision) = repository(rest, false)?;
            return Ok(Self::ModelScope { id, revision });
        }
        if let Some(rest) = text.strip_prefix("file:") {
            let path = rest
                .strip_prefix("//")
                .filter(|path| path.starts_with('/'))
                .unwrap_or(rest);
            return path_of(path);
        }
        if text.contains("://") {
            return Err(AddressError::Scheme(text.to_owned()));
        }
        path_of(text)
    }
}

/// Hubs in other spellings: addresses of their pages, and the schemes of other tools.
const SPELLINGS: [(&str, &str); 11] = [
    ("hf://", "hf:"),
    ("hf://", "huggingface:"),
    ("hf://", "huggingface.co/"),
    ("hf://", "www.huggingface.co/"),
    ("hf://", "hf.co/"),
    ("ms://", "ms:"),
    ("ms://", "modelscope:"),
    ("ms://", "modelscope.cn/"),
    ("ms://", "www.modelscope.cn/"),
    ("ms://", "modelscope.ai/"),
    ("ms://", "www.modelscope.ai/"),
];

/// What was meant by a text that names a hub in another way, or a repository and no hub.
pub(crate) fn suggestion(text: &str) -> Option<String> {
    let text = text
        .strip_prefix("https://")
        .or(text.strip_prefix("http://"))
        .unwrap_or(text);
    for (scheme, spelling) in SPELLINGS {
        if let Some(rest) = text.strip_prefix(spelling) {
            return in_hub(scheme, rest);
        }
    }
    let (hugging_face, model_scope) = (format!("hf://{text}"), format!("ms://{text}"));
    let both = model_scope.parse::<SourceAddress>().is_ok() && hugging_face.parse::<SourceAddress>().is_ok();
    both.then(|| format!("{hugging_face} or {model_scope}"))
}

/// `owner/name`, or the address of a page below it.
fn in_hub(scheme: &str, rest: &str) -> Option<String> {
    let path = rest.trim_matches('/').split(['?', '#']).next().unwrap_or_default();
    let parts: Vec<&str> = path.strip_prefix("models/").unwrap_or(path).split('/').collect();
    let address = match parts.as_slice() {
        [owner, name, "tree" | "blob" | "resolve", revision, ..] => format!("{scheme}{owner}/{name}@{revision}"),
        [owner, name, ..] => format!("{scheme}{owner}/{name}"),
        _ => return None,
    };
    address.parse::<SourceAddress>().ok().map(|_| address)
}

fn path_of(path: &str) -> Result<SourceAddress, AddressError> {
    if path.is_empty() {
        Err(AddressError::Empty)
    } else {
        Ok(SourceAddress::Path(PathBuf::from(path)))
    }
}

/// A revision may hold slashes (`refs/pr/4`), so it starts at the first `@`, which no id has.
fn repository(text: &str, bare_name: bool) -> Result<(String, Option<String>), AddressError> {
    let (id, revision) = text
        .split_once('@')
        .map_or((text, None), |(id, revision)| (id, Some(revision)));
    let id = id.strip_suffix('/').unwrap_or(id);
    let refuse = |problem| {
        Err(AddressError::Id {
            id: id.to_owned(),
            problem,
        })
    };
    match id.split('/').count() {
        2 => {}
        1 if bare_name => {}
        _ => return refuse("it must be owner/name"),
    }
    if id.len() > 96 {
        return refuse("it is longer than 96 characters");
    }
    if !id.split('/').all(|part| {
        part.chars()
            .all(|letter| letter.is_ascii_alphanumeric() || "-_.".contains(letter))
    }) {
        return refuse("only letters, digits, '-', '_' and '.' are allowed");
    }
    if id
        .split('/')
        .any(|part| part.is_empty() || part.starts_with('.') || part.starts_with('-'))
    {
        return refuse("a part is empty, or starts with '.' or '-'");
    }
    // Hugging Face forbids `--`, because its caches use it as a separator; ModelScope has no such rule.
    if id.contains("..") || (bare_name && id.contains("--")) {
        return refuse("'--' and '..' are not allowed");
    }
    if bare_name && id.to_ascii_lowercase().ends_with(".git") {
        return refuse("it must not end in .git");
    }
    match revision {
        Some("") => refuse("nothing follows the '@'"),
        Some(revision)
            if revision.chars().any(|letter| letter.is_control() || letter == '\\') || revision.contains("..") =>
        {
            refuse("the revision holds '..', a backslash or a control character")
        }
        revision => Ok((id.to_owned(), revision.map(str::to_owned))),
    }
}

impl fmt::Display for SourceAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scheme, id, revision) = match self {
            Self::HuggingFace { id, revision } => ("hf", id, revision),
            Self::ModelScope { id, revision } => ("ms", id, revision),
            Self::Path(path) => return write!(formatter, "{}", path.display()),
        };
        write!(formatter, "{scheme}://{id}")?;
        revision
            .as_ref()
            .map_or(Ok(()), |revision| write!(formatter, "@{revision}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_read_and_written_back() {
        for text in [
            "hf://Qwen/Qwen3-8B",
            "hf://gpt2",
            "hf://a/b@refs/pr/4",
            "ms://Qwen/Qwen3-8B@v1.0",
            "/models/x",
            "./x",
        ] {
            assert_eq!(text.parse::<SourceAddress>().unwrap().to_string(), text);
        }
        assert_eq!("file:///models/x".parse(), Ok(SourceAddress::Path("/models/x".into())));
        assert_eq!("file:models".parse(), Ok(SourceAddress::Path("models".into())));
    }

    #[test]
    fn what_is_no_source_is_refused() {
        for text in [
            "",
            "s3://bucket/x",
            "hf://",
            "hf://a/b/c",
            "hf://a/..",
            "hf://a/b--c",
            "hf://a/b.git",
            "ms://bare",
            "hf://a/b@",
            "hf://a/b@../../x",
            "hf://a b/c",
            "hf://a/b?x=1",
            "hf://a/b#c",
            "hf://-a/b",
        ] {
            assert!(text.parse::<SourceAddress>().is_err(), "{text}");
        }
        assert!(format!("hf://a/{}", "x".repeat(95)).parse::<SourceAddress>().is_err());
    }

    #[test]
    fn what_was_meant_is_suggested_where_it_can_be_known() {
        for (text, meant) in [
            ("t/ok", Some("hf://t/ok or ms://t/ok")),
            ("t/ok@v1", Some("hf://t/ok@v1 or ms://t/ok@v1")),
            ("hf:t/ok", Some("hf://t/ok")),
            ("modelscope.cn/t/ok", Some("ms://t/ok")),
            ("https://www.modelscope.cn/models/t/ok/files", Some("ms://t/ok")),
            ("https://huggingface.co/t/ok/tree/v1/sub?x=1", Some("hf://t/ok@v1")),
            ("https://huggingface.co/t", None),
            ("modelscope://t/ok", Some("ms://t/ok")),
            ("/models/x", None),
            ("./t/ok", None),
            ("models", None),
            ("s3://bucket/x", None),
        ] {
            assert_eq!(suggestion(text).as_deref(), meant, "{text}");
        }
        let refused = "https://hf.co/t/ok".parse::<SourceAddress>().unwrap_err();
        assert_eq!(refused.hint(), "write hf://t/ok");
    }
}
