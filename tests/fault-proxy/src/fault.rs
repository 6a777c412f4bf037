//! Scripted faults: which request goes wrong, how often, and how.

use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};

/// How an exchange goes wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Fault {
    /// The connection breaks after so many bytes of the answer's body.
    Cut {
        /// Bytes that still arrive.
        after: u64,
    },
    /// Nothing more comes after so many bytes, but the connection stays open.
    Stall {
        /// Bytes that still arrive.
        after: u64,
    },
    /// The body trickles.
    Slow {
        /// Bytes per second.
        rate: u64,
    },
    /// One byte is flipped, wherever the range that carries it starts.
    WrongByte {
        /// Offset in the whole blob.
        at: u64,
    },
    /// Another answer instead of the server's.
    Status {
        /// The status code.
        code: u16,
        /// Headers to send.
        #[serde(default)]
        headers: Vec<(String, String)>,
        /// The body.
        #[serde(default)]
        body: String,
    },
    /// The server's answer under another status: 200 for a range, 201 for a part.
    StatusAs {
        /// The status code.
        code: u16,
    },
    /// The `Range` of the request is ignored: 200 and everything.
    IgnoreRange,
    /// Another range than the asked one is sent, and the answer says so.
    OtherRange {
        /// Bytes by which its start is moved.
        shift: u64,
    },
    /// A part that ends before the asked range does, and the answer says so.
    ShortRange {
        /// Bytes that are sent at most.
        most: u64,
    },
    /// A redirect to another address.
    Redirect {
        /// The `Location`.
        to: String,
    },
    /// The connection breaks after so many bytes of the request's body; the server keeps them.
    CutUpload {
        /// Bytes that reach the server.
        after: u64,
    },
    /// The server does its work, and the answer is lost.
    LostAnswer,
    /// The answer has another header.
    AddHeader {
        /// Its name.
        name: String,
        /// Its value.
        value: String,
    },
    /// A header of the answer is missing.
    DropHeader {
        /// Its name.
        name: String,
    },
}

/// A fault and the requests that it hits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FaultRule {
    /// Hits requests whose path and query contain this text.
    pub path: String,
    /// Only for this method.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// Requests that pass unharmed first.
    #[serde(default)]
    pub skip: u32,
    /// How many requests it hits after that.
    #[serde(default = "once")]
    pub times: u32,
    /// What happens.
    pub fault: Fault,
}

const fn once() -> u32 {
    1
}

impl FaultRule {
    /// Hits the next request with this method and this text in its path.
    pub fn once(method: &str, path: &str, fault: Fault) -> Self {
        Self {
            path: path.to_owned(),
            method: Some(method.to_owned()),
            skip: 0,
            times: 1,
            fault,
        }
    }

    /// The same, for so many requests.
    #[must_use]
    pub fn times(self, times: u32) -> Self {
        Self { times, ..self }
    }

    /// The same, for every request.
    #[must_use]
    pub fn always(self) -> Self {
        self.times(u32::MAX)
    }

    /// The same, after so many requests passed.
    #[must_use]
    pub fn after(self, skip: u32) -> Self {
        Self { skip, ..self }
    }
}

/// Rules in order; the first that fits and is not used up decides.
#[derive(Debug, Default)]
pub struct FaultScript {
    rules: Mutex<Vec<FaultRule>>,
}

impl FaultScript {
    /// A script of these rules.
    pub fn new(rules: Vec<FaultRule>) -> Self {
        Self {
            rules: Mutex::new(rules),
        }
    }

    /// Reads a JSON array of rules.
    pub fn parse(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text).map(Self::new)
    }

    /// Adds a rule at the end.
    pub fn push(&self, rule: FaultRule) {
        self.rules.lock().unwrap_or_else(PoisonError::into_inner).push(rule);
    }

    /// The fault for this request, if one is left; counts it.
    pub fn take(&self, method: &str, path: &str) -> Option<Fault> {
        let mut rules = self.rules.lock().unwrap_or_else(PoisonError::into_inner);
        for rule in rules.iter_mut() {
            let fits = path.contains(&rule.path) && rule.method.as_deref().is_none_or(|only| only == method);
            if !fits || rule.times == 0 {
                continue;
            }
            if rule.skip > 0 {
                rule.skip -= 1;
                continue;
            }
            if rule.times != u32::MAX {
                rule.times -= 1;
            }
            return Some(rule.fault.clone());
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_read_from_json_and_counts_its_requests() {
        let script = FaultScript::parse(
            r#"[{"path": "/blobs/sha256:", "method": "GET", "skip": 1, "times": 2, "fault": {"kind": "wrong-byte", "at": 7}}]"#,
        )
        .unwrap();
        let hits: Vec<bool> = (0..5)
            .map(|_| script.take("GET", "/v2/a/blobs/sha256:00").is_some())
            .collect();
        assert_eq!(hits, [false, true, true, false, false]);
        assert_eq!(script.take("HEAD", "/v2/a/blobs/sha256:00"), None);
    }

    #[test]
    fn an_unknown_fault_or_field_is_refused() {
        for text in [
            r#"[{"path": "/", "fault": {"kind": "explode"}}]"#,
            r#"[{"paht": "/", "fault": {"kind": "lost-answer"}}]"#,
        ] {
            assert!(FaultScript::parse(text).is_err(), "{text}");
        }
    }
}
