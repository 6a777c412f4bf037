//! Scripted faults: which request goes wrong, how often, and how.

use std::sync::Mutex;

use serde::Deserialize;

/// The two ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Side {
    /// The hub itself: metadata, resolve.
    Hub,
    /// The content network behind the hub's redirects.
    ContentNetwork,
}

/// How an answer goes wrong. What is said of bodies holds for files and for documents of the hub alike.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Fault {
    /// The connection breaks after so many bytes of the body.
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
    /// One byte of the body is flipped.
    WrongByte {
        /// Offset in the body of this answer.
        at: u64,
    },
    /// A well-formed answer whose body and length are shorter than the file.
    Short {
        /// Bytes left out at the end.
        by: u64,
    },
    /// 200 with an empty body.
    Empty,
    /// 200 with a page of a captive portal.
    Page,
    /// The body arrives gzip-coded; a file without a length, and a range of it is ignored.
    Gzip,
    /// Another status, with headers and a text.
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
    /// A redirect to the same address.
    RedirectLoop,
    /// A redirect to another address.
    Redirect {
        /// The Location.
        to: String,
    },
    /// The Range header is ignored: 200 and the whole file.
    IgnoreRange,
    /// A header of the answer is missing, as behind a mirror that does not pass it on.
    DropHeader {
        /// Its name.
        name: String,
    },
    /// `Content-Range` names another total.
    OtherTotal {
        /// The total to name.
        total: u64,
    },
    /// The repository stands at another commit for this answer: a listing or a file of the commit before is not found, and
    /// metadata names this one.
    OtherCommit {
        /// The commit to name.
        commit: String,
    },
}

/// A fault and the requests that it hits.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FaultRule {
    /// Hits requests whose decoded path contains this text.
    pub path: String,
    /// Only on this port.
    #[serde(default)]
    pub side: Option<Side>,
    /// Only for this method.
    #[serde(default)]
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
    /// A rule that hits the next request of this path on this port.
    pub fn once(side: Side, path: &str, fault: Fault) -> Self {
        Self {
            path: path.to_owned(),
            side: Some(side),
            method: Some("GET".into()),
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
        if let Ok(mut rules) = self.rules.lock() {
            rules.push(rule);
        }
    }

    /// The fault for this request, if one is left; counts it.
    pub(crate) fn take(&self, side: Side, method: &str, path: &str) -> Option<Fault> {
        let mut rules = self.rules.lock().ok()?;
        for rule in rules.iter_mut() {
            let fits = path.contains(&rule.path)
                && rule.side.is_none_or(|only| only == side)
                && rule.method.as_deref().is_none_or(|only| only == method);
            if !fits || rule.times == 0 {
                continue;
            }
            if rule.skip > 0 {
                rule.skip -= 1;
                continue;
            }
            rule.times -= 1;
            return Some(rule.fault.clone());
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_skips_then_hits_then_is_used_up() {
        let rule = FaultRule::once(Side::Hub, "config", Fault::Empty).after(1).times(2);
        let script = FaultScript::new(vec![rule]);
        let hits: Vec<bool> = (0..4)
            .map(|_| script.take(Side::Hub, "GET", "/a/config.json").is_some())
            .collect();
        assert_eq!(hits, [false, true, true, false]);
        assert_eq!(script.take(Side::ContentNetwork, "GET", "/a/config.json"), None);
    }

    #[test]
    fn a_script_is_read_from_json_and_unknown_fields_are_refused() {
        let script =
            FaultScript::parse(r#"[{"path": "x", "times": 3, "fault": {"kind": "cut", "after": 10}}]"#).unwrap();
        assert_eq!(script.take(Side::Hub, "GET", "/x"), Some(Fault::Cut { after: 10 }));
        assert!(FaultScript::parse(r#"[{"path": "x", "fault": {"kind": "cut", "afterr": 10}}]"#).is_err());
    }
}
