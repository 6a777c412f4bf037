//! The vocabulary: one token per reason, each with a condition, a status and somebody's move.

use crds::{ConditionType, Move, Reason, Severity, condition, conditions_differ, find_condition, merge_conditions};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use std::collections::BTreeSet;

fn at(second: i64) -> Time {
    Time(Timestamp::from_second(second).expect("in range"))
}

#[test]
fn every_reason_is_one_token_and_reads_back() {
    let tokens: BTreeSet<_> = Reason::ALL.iter().map(|reason| reason.as_str()).collect();
    assert_eq!(tokens.len(), Reason::ALL.len());
    for reason in Reason::ALL {
        assert_eq!(Reason::parse(reason.as_str()), Some(*reason));
        assert!(!reason.meaning().trim().is_empty(), "{reason} has no meaning");
    }
}

#[test]
fn what_holds_needs_nobody_unless_it_warns() {
    for reason in Reason::ALL {
        let holds = reason.status() == "True";
        assert_eq!(
            holds && reason.severity() == Severity::Fine,
            reason.whose_move() == Move::Nobody,
            "{reason}"
        );
        assert!(
            reason.severity() != Severity::Error || reason.status() == "False",
            "{reason} is an error and not False"
        );
    }
}

#[test]
fn every_condition_can_be_met_and_missed() {
    for type_ in ConditionType::ALL {
        let of = |status| {
            Reason::ALL
                .iter()
                .filter(|reason| reason.condition() == type_)
                .any(|reason| reason.status() == status)
        };
        assert!(of("True"), "{type_} is never True");
        assert!(of("False"), "{type_} is never False");
    }
}

#[test]
fn a_transition_time_moves_only_with_the_status() {
    let make = |reason: Reason, second| condition(reason.condition(), reason, "text", Some(2), &at(second));
    let before = vec![make(Reason::ReplicasStarting, 1), make(Reason::Selected, 1)];
    let after = merge_conditions(
        &before,
        vec![make(Reason::EngineCrashing, 9), make(Reason::NoCandidate, 9)],
    );
    let time = |type_| {
        find_condition(&after, type_)
            .expect("is there")
            .last_transition_time
            .clone()
    };
    assert_eq!(time(ConditionType::WorkloadReady), at(1), "False stays False");
    assert_eq!(time(ConditionType::EngineSelected), at(9), "True became False");
    assert!(conditions_differ(&before, &after));
    assert!(!conditions_differ(&after, &merge_conditions(&before, after.clone())));
}

#[test]
fn a_long_message_is_cut_between_characters() {
    let long = "ü".repeat(5000);
    let cut = condition(ConditionType::Ready, Reason::NoCandidate, &long, None, &at(0)).message;
    assert!(cut.len() <= 1024 && cut.ends_with("..."), "{} bytes", cut.len());
}
