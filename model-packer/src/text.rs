//! Numbers as people read them.

use std::time::Duration;

/// Bytes in binary units with three digits: `93.8 MiB`.
#[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
pub fn bytes(count: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if count < 1024 {
        return format!("{count} B");
    }
    let mut value = count as f64 / 1024.0;
    let mut unit = 0;
    while value >= 999.5 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if value < 9.995 {
        format!("{value:.2} {}", UNITS[unit])
    } else if value < 99.95 {
        format!("{value:.1} {}", UNITS[unit])
    } else {
        format!("{value:.0} {}", UNITS[unit])
    }
}

/// Whether a path has this extension, in whatever case: `Model.GGUF` is a GGUF file.
pub fn has_extension(path: &str, extension: &str) -> bool {
    path.rsplit_once('.')
        .is_some_and(|(_, found)| found.eq_ignore_ascii_case(extension))
}

/// A rate; no time has no rate.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "three digits are shown"
)]
pub fn rate(count: u64, elapsed: Duration) -> String {
    let seconds = elapsed.as_secs_f64();
    if seconds <= 0.0 {
        return "-".into();
    }
    format!("{}/s", bytes((count as f64 / seconds) as u64))
}

/// A duration with one unit or two: `4.2 s`, `3 min 10 s`.
pub fn duration(elapsed: Duration) -> String {
    let seconds = elapsed.as_secs();
    match seconds {
        0..60 => format!("{:.1} s", elapsed.as_secs_f64()),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

/// An error and its causes on one line. Some errors repeat their cause in their own words, which is not said twice.
pub fn with_causes(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let shown = inner.to_string();
        if !text.contains(&shown) {
            text.push_str(": ");
            text.push_str(&shown);
        }
        cause = inner.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_are_shown() {
        let cases = [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.00 KiB"),
            (98_362_432, "93.8 MiB"),
            (16_381_470_720, "15.3 GiB"),
            (1_073_741_824 * 999, "999 GiB"),
            (u64::MAX, "16384 PiB"),
        ];
        for (count, text) in cases {
            assert_eq!(bytes(count), text);
        }
        assert_eq!(rate(1 << 20, Duration::from_secs(2)), "512 KiB/s");
        assert_eq!(duration(Duration::from_secs(190)), "3 min 10 s");
    }
}
