//! What the stand-in knows about its own requests, as the metrics of vLLM that have a true value here.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts the generation requests of one server.
#[derive(Debug, Default)]
pub struct Requests {
    running: AtomicU64,
    answered: AtomicU64,
}

/// One request while it is being answered.
#[derive(Debug)]
pub struct Running<'a>(&'a Requests);

impl Requests {
    /// Counts a request as running until the returned value is dropped.
    pub fn start(&self) -> Running<'_> {
        self.running.fetch_add(1, Ordering::Relaxed);
        Running(self)
    }

    /// The metrics in Prometheus' text format. Values that only an engine with a model has are left out.
    pub fn metrics(&self, model: &str) -> String {
        let label = format!("{{model_name=\"{}\"}}", escape(model));
        let running = self.running.load(Ordering::Relaxed);
        let answered = self.answered.load(Ordering::Relaxed);
        format!(
            "# HELP vllm:num_requests_running Number of requests being answered.\n\
             # TYPE vllm:num_requests_running gauge\n\
             vllm:num_requests_running{label} {running}\n\
             # HELP standin_engine_refused_requests_total Generation requests that were refused for want of a model.\n\
             # TYPE standin_engine_refused_requests_total counter\n\
             standin_engine_refused_requests_total{label} {answered}\n"
        )
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::Relaxed);
        self.0.answered.fetch_add(1, Ordering::Relaxed);
    }
}

fn escape(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_counts_as_running_until_it_is_answered() {
        let requests = Requests::default();
        let has = |line: &str| requests.metrics("m").lines().any(|found| found == line);
        let running = requests.start();
        assert!(has("vllm:num_requests_running{model_name=\"m\"} 1"));
        drop(running);
        assert!(has("vllm:num_requests_running{model_name=\"m\"} 0"));
        assert!(has("standin_engine_refused_requests_total{model_name=\"m\"} 1"));
    }

    #[test]
    fn label_values_are_escaped() {
        assert!(
            Requests::default()
                .metrics("a\"b\\c\nd")
                .contains("{model_name=\"a\\\"b\\\\c\\nd\"}")
        );
    }
}
