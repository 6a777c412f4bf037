//! A list of referrers as it is stored: an image index that other tools write into as well.

use serde_json::{Map, Value, json};

use crate::referrers::Referrer;

pub(crate) const OCI_INDEX: &str = "application/vnd.oci.image.index.v1+json";

/// The whole index, so that what others wrote into it is still there when it is stored again.
#[derive(Debug, Default)]
pub(crate) struct ReferrerList(Map<String, Value>);

impl ReferrerList {
    /// Reads an index, or says why it is none. `mediaType` is optional there, and an empty list may be null.
    pub(crate) fn read(bytes: &[u8]) -> Result<Self, String> {
        let index: Map<String, Value> = serde_json::from_slice(bytes).map_err(|_| "it is no JSON object".to_owned())?;
        let named = match index.get("mediaType") {
            None | Some(Value::Null) => false,
            Some(Value::String(name)) if name.is_empty() => false,
            Some(Value::String(name)) if name == OCI_INDEX => true,
            Some(other) => return Err(format!("its media type is {other}")),
        };
        match index.get("manifests") {
            Some(Value::Array(_) | Value::Null) => Ok(Self(index)),
            None if named => Ok(Self(index)),
            _ => Err("it lists no manifests".to_owned()),
        }
    }

    /// The entries.
    pub(crate) fn referrers(&self) -> Result<Vec<Referrer>, String> {
        let read = |entry: &Value| {
            serde_json::from_value(entry.clone()).map_err(|error| format!("an entry cannot be read: {error}"))
        };
        self.entries().iter().map(read).collect()
    }

    /// Adds an entry; false when it is there already.
    pub(crate) fn add(&mut self, referrer: &Referrer) -> bool {
        let mut entries = self.entries().to_vec();
        if entries.iter().any(|entry| entry["digest"] == referrer.digest.as_str()) {
            return false;
        }
        entries.push(json!(referrer));
        self.0.insert("manifests".to_owned(), entries.into());
        self.0.insert("mediaType".to_owned(), OCI_INDEX.into());
        self.0.insert("schemaVersion".to_owned(), 2.into());
        true
    }

    /// As it is stored.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        Value::Object(self.0.clone()).to_string().into_bytes()
    }

    fn entries(&self) -> &[Value] {
        self.0
            .get("manifests")
            .and_then(Value::as_array)
            .map_or(&[], Vec::as_slice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_is_read_in_every_form_that_the_specification_allows_and_nothing_else_is() {
        let entry = r#"{"mediaType":"m","digest":"d","size":1,"artifactType":null,"annotations":null,"platform":null}"#;
        let cases = [
            (
                format!(r#"{{"schemaVersion":2,"mediaType":"{OCI_INDEX}","manifests":[{entry}]}}"#),
                Some(1),
            ),
            (
                format!(r#"{{"schemaVersion":2,"manifests":[{entry}],"annotations":null}}"#),
                Some(1),
            ),
            (
                r#"{"schemaVersion":2,"mediaType":"","manifests":null}"#.to_owned(),
                Some(0),
            ),
            (format!(r#"{{"mediaType":"{OCI_INDEX}"}}"#), Some(0)),
            (r#"{"schemaVersion":2,"manifests":[{"digest":"d"}]}"#.to_owned(), None),
            (
                r#"{"mediaType":"application/vnd.oci.image.manifest.v1+json","manifests":[]}"#.to_owned(),
                None,
            ),
            (r#"{"schemaVersion":2,"config":{},"layers":[]}"#.to_owned(), None),
            ("{}".to_owned(), None),
            ("[]".to_owned(), None),
            ("<!doctype html>".to_owned(), None),
        ];
        for (text, entries) in cases {
            let read = ReferrerList::read(text.as_bytes()).and_then(|list| list.referrers());
            assert_eq!(read.ok().map(|found| found.len()), entries, "{text}");
        }
    }
}
