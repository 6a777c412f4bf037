use std::cmp::Ordering;

use super::{EngineVersion, VersionRange, VersionScheme};

fn read(text: &str, scheme: VersionScheme) -> EngineVersion {
    EngineVersion::parse(text, scheme).unwrap()
}

/// Each line is in rising order.
const RISING: &[(VersionScheme, &[&str])] = &[
    (
        VersionScheme::Pep440,
        &[
            "0.8.5",
            "0.8.5.post1",
            "0.9.1rc2",
            "0.9.1",
            "0.9.2",
            "0.10.0",
            "0.25.1",
            "0.25.1+corex.4.5.0.rc.12",
            "0.25.2",
        ],
    ),
    (
        VersionScheme::Pep440,
        &["v0.13.0rc3", "v0.13.0", "v0.18.0", "v0.23.0rc1", "v0.23.0"],
    ),
    (
        VersionScheme::Pep440,
        &[
            "0.5.8.post1",
            "0.5.9",
            "0.5.10rc0",
            "0.5.10",
            "0.5.12.post1",
            "0.5.15.post1",
        ],
    ),
    (VersionScheme::Pep440, &["0.7.2-rc2", "0.7.2"]),
    (VersionScheme::Pep440, &["2.1.0.dev0", "2.1.0a1", "2.1.0", "2.1.1"]),
    (VersionScheme::Pep440, &["2.10.0.post2", "2.10.0.post4"]),
    (
        VersionScheme::Pep440,
        &["0.25.1+corex.4.5.0.rc.12", "0.25.1+corex.4.5.0.rc.12.20260722"],
    ),
    (
        VersionScheme::Calendar,
        &["24.04.3", "25.04.1", "25.04.2", "25.08", "26.04", "26.04.1"],
    ),
    (
        VersionScheme::Dotted,
        &[
            "8.0.0", "8.1.RC1", "8.2.RC1", "8.2.rc2", "8.3.RC2", "8.5.0", "8.5.1", "9.0.0", "9.0.1", "9.1.0", "9.10.0",
        ],
    ),
    (
        VersionScheme::Dotted,
        &[
            "2.33.1.13",
            "3.0.0.5",
            "3.2.1.7",
            "3.3.0.x",
            "3.5.3.x",
            "3.7.0.x",
            "3.7.1.x",
            "3.7.1.4",
        ],
    ),
    (VersionScheme::Dotted, &["2.1.rc2", "2.2.rc1", "2.3.0", "3.1.0"]),
    (VersionScheme::Dotted, &["6.3.13-V1.12.0a", "6.3.27-V1.2.5"]),
    (VersionScheme::Dotted, &["4.2.0", "4.4.0", "4.5.0-rc12", "4.5.0"]),
    (VersionScheme::Dotted, &["rc4.3.0", "4.3.0", "4.3.2"]),
    (VersionScheme::Dotted, &["0.18.1", "0.18.1-hotfix", "0.21.0"]),
    (
        VersionScheme::Dotted,
        &["525.60.13", "535.104.05", "550.54.15", "575.57.08", "580.65.06"],
    ),
];

#[test]
fn real_tags_rise_in_the_order_of_their_scheme() {
    for (scheme, line) in RISING {
        for (index, left) in line.iter().enumerate() {
            for right in &line[index + 1..] {
                let (low, high) = (read(left, *scheme), read(right, *scheme));
                assert_eq!(low.compare(&high), Some(Ordering::Less), "{left} < {right}");
                assert_eq!(high.compare(&low), Some(Ordering::Greater), "{right} > {left}");
                assert_eq!(low.rank(&high), Ordering::Less, "{left} ranks below {right}");
            }
        }
    }
}

#[test]
fn trailing_zeros_and_a_leading_v_do_not_make_a_difference() {
    assert_eq!(
        read("v0.9", VersionScheme::Pep440).compare(&read("0.9.0", VersionScheme::Pep440)),
        Some(Ordering::Equal)
    );
    assert_eq!(
        read("13", VersionScheme::Dotted).compare(&read("13.0", VersionScheme::Dotted)),
        Some(Ordering::Equal)
    );
}

#[test]
fn opaque_names_are_equal_or_not_comparable() {
    let left = read("glm53-flash", VersionScheme::Opaque);
    assert_eq!(
        left.compare(&read("glm53-flash", VersionScheme::Opaque)),
        Some(Ordering::Equal)
    );
    assert_eq!(left.compare(&read("VVI-25.12.SP2", VersionScheme::Opaque)), None);
    assert_eq!(left.compare(&read("0.9.2", VersionScheme::Pep440)), None);
}

#[test]
fn a_text_outside_its_scheme_is_refused_with_a_hint() {
    for (text, scheme) in [
        ("latest", VersionScheme::Pep440),
        ("0.18.1-hotfix", VersionScheme::Pep440),
        ("8.3.RC2", VersionScheme::Calendar),
        ("", VersionScheme::Opaque),
        ("Ascend", VersionScheme::Dotted),
    ] {
        let error = EngineVersion::parse(text, scheme).unwrap_err();
        assert!(!error.hint().is_empty(), "{text}");
    }
}

#[test]
fn a_prefix_covers_what_begins_with_its_numbers() {
    let prefix = read("0.18", VersionScheme::Pep440);
    assert!(read("0.18.1", VersionScheme::Pep440).starts_with(&prefix));
    assert!(read("0.18.0rc1", VersionScheme::Pep440).starts_with(&prefix));
    assert!(!read("0.1.8", VersionScheme::Pep440).starts_with(&prefix));
    assert!(read("0.20.0", VersionScheme::Pep440).starts_with(&read("0.20", VersionScheme::Pep440)));
    assert!(!read("0.2.0", VersionScheme::Pep440).starts_with(&read("0.20", VersionScheme::Pep440)));
}

#[test]
fn ranges_hold_what_their_bounds_say() {
    for (range, inside, outside) in [
        (
            ">=0.20.2, <0.23",
            vec!["0.20.2", "0.22.1", "0.23.0rc1"],
            vec!["0.20.2rc1", "0.23.0", "0.9.2"],
        ),
        ("==0.9.2", vec!["0.9.2", "v0.9.2"], vec!["0.9.2.post1", "0.9.1"]),
        ("0.18.* || 0.21.*", vec!["0.18.1", "0.21.0"], vec!["0.19.0", "0.1.8"]),
        (">0.8.5, !=0.9.0", vec!["0.8.5.post1", "0.9.1"], vec!["0.8.5", "0.9.0"]),
    ] {
        let range = VersionRange::parse(range).unwrap();
        for text in inside {
            assert!(range.contains(&read(text, VersionScheme::Pep440)), "{text} in {range}");
        }
        for text in outside {
            assert!(
                !range.contains(&read(text, VersionScheme::Pep440)),
                "{text} not in {range}"
            );
        }
    }
}

#[test]
fn a_text_that_is_no_range_is_refused() {
    for text in ["", ">=", ">=0.9 <0.12", ">=0.9.*"] {
        assert!(VersionRange::parse(text).is_err(), "{text}");
    }
}
