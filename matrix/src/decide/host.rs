//! The stack of the image against the driver and stack of the host.

use std::cmp::Ordering;

use crate::{
    build::Build,
    decide::candidate::Look,
    product::{StackRule, Vendor},
    reason::ReasonKind,
    version::{EngineVersion, VersionScheme},
};

pub(super) fn look(look: &mut Look<'_>, vendor: &Vendor) {
    let build = look.build;
    if let Some(needs) = &build.driver {
        driver(look, vendor, "driver", needs, needs);
    }
    for rule in &vendor.stacks {
        if let Some(needs) = build.stack.get(&rule.name) {
            stack(look, vendor, rule, needs);
        }
    }
}

/// The stack version that the host serves is compared first; else the driver, by the table of the vendor.
fn stack(look: &mut Look<'_>, vendor: &Vendor, rule: &StackRule, needs: &str) {
    if let Some(has) = look.pool.host.stacks.get(&rule.name) {
        match compare(needs, has, rule.scheme) {
            Some(Ordering::Greater) => {
                let (needs, has) = (format!("{} {needs}", rule.name), format!("{} {has}", rule.name));
                look.against_build(above(rule, needs, has, "stack"));
            }
            Some(_) => {}
            None => unknown(look, &rule.name, needs),
        }
        return;
    }
    match rule.driver_for(needs) {
        Some(floor) if look.build.driver.is_none() => driver(look, vendor, &rule.name, &floor, needs),
        Some(_) => {}
        None => unknown(look, &rule.name, needs),
    }
}

fn driver(look: &mut Look<'_>, vendor: &Vendor, stack: &str, floor: &str, needs: &str) {
    let Some(has) = look.pool.host.driver.clone() else {
        return unknown(look, stack, needs);
    };
    match compare(floor, &has, vendor.driver_scheme) {
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

fn unknown(look: &mut Look<'_>, stack: &str, needs: &str) {
    let kind = ReasonKind::HostUnknown {
        stack: stack.to_owned(),
        needs: needs.to_owned(),
    };
    let policy = look.evaluation.request.policy.unknown_host;
    let row = look.build.row.clone();
    look.unknown(policy, kind, &row);
}

fn above(rule: &StackRule, needs: String, has: String, compared: &str) -> ReasonKind {
    ReasonKind::StackAboveHost {
        stack: rule.name.clone(),
        needs,
        has,
        compared: compared.to_owned(),
    }
}

fn compare(left: &str, right: &str, scheme: VersionScheme) -> Option<Ordering> {
    let read = |text| EngineVersion::parse(text, scheme).ok();
    read(left)?.compare(&read(right)?)
}

/// The first stack of the vendor that the build states, for ranking.
pub(super) fn main_stack(build: &Build, vendor: &Vendor) -> Option<(String, EngineVersion)> {
    vendor.stacks.iter().find_map(|rule| {
        let version = EngineVersion::parse(build.stack.get(&rule.name)?, rule.scheme).ok()?;
        Some((rule.name.clone(), version))
    })
}
