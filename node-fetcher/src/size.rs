//! Sizes for people.

/// In decimal units, as disks and networks are sold: `98.4 MB`.
pub fn size_text(bytes: u64) -> String {
    let units = [
        (1_000_000_000_000, "TB"),
        (1_000_000_000, "GB"),
        (1_000_000, "MB"),
        (1_000, "kB"),
    ];
    let Some((unit, name)) = units.into_iter().find(|(unit, _)| bytes >= *unit) else {
        return format!("{bytes} B");
    };
    let tenths = bytes / (unit / 10);
    format!("{}.{} {name}", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_short() {
        let cases = [
            (0, "0 B"),
            (999, "999 B"),
            (98_362_432, "98.3 MB"),
            (1_000, "1.0 kB"),
            (7_000_000_000_000, "7.0 TB"),
        ];
        for (bytes, text) in cases {
            assert_eq!(size_text(bytes), text);
        }
    }
}
