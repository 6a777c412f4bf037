//! The stack of the image against the driver and stack of the host.

use std::cmp::Ordering;

use crate::{
    decide::candidate::Look,
    index::{HostNeeds, StackNeed},
    product::{StackRule, Vendor},
    reason::ReasonKind,
    version::EngineVersion,
};

pub(super) fn look(look: &mut Look<'_, '_>, vendor: &Vendor) {
    let Some(needs) = needs(look, vendor) else {
        // A build that has no image for the vendor's products; what it needs there is worked out for the one question.
        let needs = HostNeeds::new(look.build, vendor);
        return compare_all(look, vendor, &needs);
    };
    compare_all(look, vendor, needs);
}

fn compare_all(look: &mut Look<'_, '_>, vendor: &Vendor, needs: &HostNeeds) {
    if let Some((floor, version)) = &needs.driver {
        driver(look, "driver", (floor, version.as_ref()), floor);
    }
    for need in &needs.stacks {
        if let Some(rule) = vendor.stacks.get(need.rule) {
            stack(look, rule, need);
        }
    }
}

/// What the build needs of hosts of this vendor, worked out when the matrix was loaded.
fn needs<'run>(look: &Look<'_, 'run>, vendor: &Vendor) -> Option<&'run HostNeeds> {
    let all = look.evaluation.matrix.index.host_needs.get(look.position)?;
    all.iter().find(|needs| needs.vendor == vendor.id)
}

/// The stack version that the host serves is compared first; else the driver, by the table of the vendor.
fn stack(look: &mut Look<'_, '_>, rule: &StackRule, need: &StackNeed) {
    let needs = &need.needs;
    if let Some(has) = look.pool.host.stacks.get(&rule.name) {
        let own = look.place.host.stacks.get(need.rule).and_then(Option::as_ref);
        match compare(need.version.as_ref(), own) {
            Some(Ordering::Greater) => {
                let kind = ReasonKind::StackAboveHost {
                    stack: rule.name.clone(),
                    needs: format!("{} {needs}", rule.name),
                    has: format!("{} {has}", rule.name),
                    compared: "stack".to_owned(),
                };
                look.against_build(kind);
            }
            Some(_) => {}
            None => unknown(look, &rule.name, needs),
        }
        return;
    }
    match &need.floor {
        Some((floor, version)) if look.build.driver.is_none() => {
            driver(look, &rule.name, (floor, version.as_ref()), needs);
        }
        Some(_) => {}
        None => unknown(look, &rule.name, needs),
    }
}

fn driver(look: &mut Look<'_, '_>, stack: &str, (floor, version): (&str, Option<&EngineVersion>), needs: &str) {
    let Some(has) = &look.pool.host.driver else {
        return unknown(look, stack, needs);
    };
    match compare(version, look.place.host.driver.as_ref()) {
        Some(Ordering::Greater) => {
            let kind = ReasonKind::StackAboveHost {
                stack: stack.to_owned(),
                needs: if stack == "driver" {
                    format!("driver {floor}")
                } else {
                    format!("driver {floor} for {stack} {needs}")
                },
                has: format!("driver {has}"),
                compared: "driver".to_owned(),
            };
            look.against_build(kind);
        }
        Some(_) => {}
        None => unknown(look, stack, needs),
    }
}

fn unknown(look: &mut Look<'_, '_>, stack: &str, needs: &str) {
    let kind = ReasonKind::HostUnknown {
        stack: stack.to_owned(),
        needs: needs.to_owned(),
    };
    let policy = look.evaluation.request.policy.unknown_host;
    let row = look.build.row.clone();
    look.unknown(policy, kind, &row);
}

fn compare(left: Option<&EngineVersion>, right: Option<&EngineVersion>) -> Option<Ordering> {
    left?.compare(right?)
}

/// The first stack of the vendor that the build states, for ranking.
pub(super) fn main_stack(look: &Look<'_, '_>, vendor: &Vendor) -> Option<(String, EngineVersion)> {
    let needs = needs(look, vendor)?;
    needs.stacks.iter().find_map(|need| {
        let rule = vendor.stacks.get(need.rule)?;
        Some((rule.name.clone(), need.version.clone()?))
    })
}
