//! Counters for dashboards. Labels are closed lists: tokens of conditions and outcomes, never names of objects.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ReasonLabel {
    reason: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct OutcomeLabel {
    outcome: &'static str,
}

/// What became of the question to the matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecisionOutcome {
    /// A new choice was made.
    Selected,
    /// The choice in force stays.
    Kept,
    /// There is a choice, and it waits for approval.
    Pending,
    /// There is none.
    Nothing,
}

impl DecisionOutcome {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Selected => "selected",
            Self::Kept => "kept",
            Self::Pending => "pending",
            Self::Nothing => "none",
        }
    }
}

/// The controller's own numbers.
pub struct Metrics {
    registry: Registry,
    reconciles: Counter,
    errors: Family<ReasonLabel, Counter>,
    decisions: Family<OutcomeLabel, Counter>,
    writes: Counter,
    leader: Gauge,
}

impl Default for Metrics {
    fn default() -> Self {
        let metrics = Self {
            registry: Registry::with_prefix("plimsoll_controller"),
            reconciles: Counter::default(),
            errors: Family::default(),
            decisions: Family::default(),
            writes: Counter::default(),
            leader: Gauge::default(),
        };
        metrics.registered()
    }
}

impl Metrics {
    fn registered(mut self) -> Self {
        let Self {
            registry,
            reconciles,
            errors,
            decisions,
            writes,
            leader,
        } = &mut self;
        registry.register("reconciles", "Passes over a ModelDeployment", reconciles.clone());
        registry.register(
            "reconcile_errors",
            "Passes that ended in an error, by its reason",
            errors.clone(),
        );
        registry.register("decisions", "Questions to the matrix, by outcome", decisions.clone());
        registry.register(
            "writes",
            "Requests to the API server that change something",
            writes.clone(),
        );
        registry.register("leader", "1 while this replica leads and writes", leader.clone());
        self
    }

    /// A pass has begun.
    pub fn count_reconcile(&self) {
        self.reconciles.inc();
    }

    /// A pass ended in an error.
    pub fn count_error(&self, reason: &'static str) {
        self.errors.get_or_create(&ReasonLabel { reason }).inc();
    }

    /// The matrix was asked.
    pub fn count_decision(&self, outcome: DecisionOutcome) {
        self.decisions
            .get_or_create(&OutcomeLabel {
                outcome: outcome.as_str(),
            })
            .inc();
    }

    /// Something was written.
    pub fn count_write(&self) {
        self.writes.inc();
    }

    /// Whether this replica leads.
    pub fn set_leader(&self, leads: bool) {
        self.leader.set(i64::from(leads));
    }

    /// The numbers in the Prometheus text format.
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a String cannot fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_names_reasons_and_outcomes() {
        let metrics = Metrics::default();
        metrics.count_reconcile();
        metrics.count_error("ApplyRefused");
        metrics.count_decision(DecisionOutcome::Kept);
        metrics.set_leader(true);
        let text = metrics.text();
        for line in [
            "plimsoll_controller_reconciles_total 1",
            "plimsoll_controller_reconcile_errors_total{reason=\"ApplyRefused\"} 1",
            "plimsoll_controller_decisions_total{outcome=\"kept\"} 1",
            "plimsoll_controller_leader 1",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
        }
    }
}
