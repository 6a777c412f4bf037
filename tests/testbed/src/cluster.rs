//! What tests and the demo ask a cluster of the bed.

use std::time::Duration;

use serde_json::Value;

use crate::bed::Bed;
use crate::command::wait_for;
use crate::error::Error;
use crate::http::Request;

impl Bed {
    /// `kubectl get ... --output json`, read.
    pub fn get(&self, arguments: &[&str]) -> Result<Value, Error> {
        let text = self.kubectl(&[&["get", "--output", "json"], arguments].concat())?;
        read_json(&format!("the answer to kubectl get {}", arguments.join(" ")), &text)
    }

    /// Waits until a condition of a `ModelDeployment` is `True`; the error holds all conditions as they were last seen.
    pub fn await_condition(&self, namespace: &str, name: &str, condition: &str, limit: Duration) -> Result<(), Error> {
        self.await_deployment(
            namespace,
            name,
            &format!("{condition} of {name}"),
            limit,
            |deployment| condition_status(deployment, condition) == Some("True"),
        )
    }

    /// Waits until a `ModelDeployment` is as `is_so` wants it; the error holds its conditions as they were last seen.
    pub fn await_deployment(
        &self,
        namespace: &str,
        name: &str,
        what: &str,
        limit: Duration,
        is_so: impl Fn(&Value) -> bool,
    ) -> Result<(), Error> {
        let mut last = String::new();
        let waited = wait_for(what, limit, || {
            let deployment = self.get(&["--namespace", namespace, "modeldeployments.plimsoll.dev", name])?;
            last = conditions(&deployment);
            Ok(is_so(&deployment).then_some(()))
        });
        waited.map_err(|error| match error {
            Error::Timeout {
                what,
                seconds,
                last: error,
            } => Error::Timeout {
                what,
                seconds,
                last: format!("{last}{error}"),
            },
            other => other,
        })
    }
}

/// Waits until `attempt` gives a value; errors are repeated too, and the last one is in the error of the wait.
pub fn wait_until<T>(
    what: &str,
    limit: Duration,
    attempt: impl FnMut() -> Result<Option<T>, Error>,
) -> Result<T, Error> {
    wait_for(what, limit, attempt)
}

/// Posts JSON to an `http://` address and reads the JSON of a good answer.
pub fn post_json(url: &str, body: &Value) -> Result<Value, Error> {
    let body = body.to_string();
    let request = Request::new("POST", url)
        .header("Content-Type", "application/json")
        .body(body.as_bytes());
    let response = request.limit(Duration::from_mins(2)).send()?;
    if response.status != 200 {
        return Err(Error::Malformed {
            what: format!("the answer of {url}"),
            reason: format!("status {}: {}", response.status, response.text()),
        });
    }
    read_json(&format!("the answer of {url}"), &response.text())
}

fn read_json(what: &str, text: &str) -> Result<Value, Error> {
    serde_json::from_str(text).map_err(|error| Error::Malformed {
        what: what.into(),
        reason: error.to_string(),
    })
}

/// The status of one condition of an object.
pub fn condition_status<'a>(object: &'a Value, condition: &str) -> Option<&'a str> {
    let conditions = object["status"]["conditions"].as_array()?;
    conditions.iter().find(|entry| entry["type"] == condition)?["status"].as_str()
}

/// All conditions of an object, one in a line.
fn conditions(object: &Value) -> String {
    let conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    let text = |entry: &Value, key: &str| entry[key].as_str().unwrap_or("-").to_owned();
    let line = |entry: &Value| {
        format!(
            "\n  {}={} {}: {}",
            text(entry, "type"),
            text(entry, "status"),
            text(entry, "reason"),
            text(entry, "message")
        )
    };
    conditions.map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_is_found_by_its_type_and_an_absent_one_has_no_status() {
        let object = serde_json::json!({"status": {"conditions": [
            {"type": "Ready", "status": "False", "reason": "NotSeen", "message": "no pod yet"},
        ]}});
        assert_eq!(condition_status(&object, "Ready"), Some("False"));
        assert_eq!(condition_status(&object, "WeightsReady"), None);
        assert_eq!(conditions(&object), "\n  Ready=False NotSeen: no pod yet");
    }
}
