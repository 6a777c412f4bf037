//! Amounts as nodes write them.

/// What a suffix of a Kubernetes quantity multiplies with: whole factors, and the small ones as divisors.
const SUFFIXES: [(&str, u128, u128); 15] = [
    ("Ki", 1 << 10, 1),
    ("Mi", 1 << 20, 1),
    ("Gi", 1 << 30, 1),
    ("Ti", 1 << 40, 1),
    ("Pi", 1 << 50, 1),
    ("Ei", 1 << 60, 1),
    ("n", 1, 1_000_000_000),
    ("u", 1, 1_000_000),
    ("m", 1, 1000),
    ("k", 1000, 1),
    ("M", 1_000_000, 1),
    ("G", 1_000_000_000, 1),
    ("T", 1_000_000_000_000, 1),
    ("P", 1_000_000_000_000_000, 1),
    ("E", 1_000_000_000_000_000_000, 1),
];

/// Bytes of a Kubernetes quantity (`526904468Ki`, `16Gi`, `64G`, `1.5Gi`, `12e6`, `0`), without the part of a byte. Nothing is less
/// than nothing: a negative quantity is none.
pub(crate) fn bytes(text: &str) -> Option<u64> {
    let (over, under) = fraction(text.trim())?;
    u64::try_from(over / under).ok()
}

/// A count: a quantity that is whole (`8`, `1k`, `2000m`).
pub(crate) fn count(text: &str) -> Option<u64> {
    let (over, under) = fraction(text.trim())?;
    over.is_multiple_of(under).then(|| u64::try_from(over / under).ok())?
}

/// Bytes of a memory label. Vendors write `64G` and `64GB` for 64 GiB, so here all letters mean powers of 1024; a plain number
/// has the unit of its label.
pub(crate) fn label_bytes(text: &str, unit: u64) -> Option<u64> {
    let text = text.trim();
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, letters) = text.split_at(end);
    let factor = match letters.trim().to_ascii_lowercase().as_str() {
        "" => unit,
        "b" => 1,
        "k" | "kb" | "ki" | "kib" => 1 << 10,
        "m" | "mb" | "mi" | "mib" => 1 << 20,
        "g" | "gb" | "gi" | "gib" => 1 << 30,
        "t" | "tb" | "ti" | "tib" => 1 << 40,
        _ => return None,
    };
    let (over, under) = decimal(number)?;
    u64::try_from(over.checked_mul(u128::from(factor))? / under).ok()
}

/// A quantity as a fraction.
fn fraction(text: &str) -> Option<(u128, u128)> {
    let text = text.strip_prefix('+').unwrap_or(text);
    if let Some((number, exponent)) = text.split_once(['e', 'E'])
        && let Ok(exponent) = exponent.parse::<i32>()
    {
        let (over, under) = decimal(number)?;
        let power = 10_u128.checked_pow(exponent.unsigned_abs())?;
        return if exponent < 0 {
            Some((over, under.checked_mul(power)?))
        } else {
            Some((over.checked_mul(power)?, under))
        };
    }
    let suffix = SUFFIXES.iter().find(|(suffix, ..)| text.ends_with(suffix));
    let (suffix, factor, divisor) = suffix.copied().unwrap_or(("", 1, 1));
    let (over, under) = decimal(text.strip_suffix(suffix)?)?;
    Some((over.checked_mul(factor)?, under.checked_mul(divisor)?))
}

/// A plain number, whole or with a point, as a fraction.
fn decimal(number: &str) -> Option<(u128, u128)> {
    const MOST_PLACES: usize = 9;
    let (whole, places) = number.split_once('.').unwrap_or((number, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if (whole.is_empty() && places.is_empty()) || !digits(whole) || !digits(places) {
        return None;
    }
    let places = &places[..places.len().min(MOST_PLACES)];
    let under = 10_u128.pow(u32::try_from(places.len()).ok()?);
    let whole: u128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let part: u128 = if places.is_empty() { 0 } else { places.parse().ok()? };
    Some((whole.checked_mul(under)?.checked_add(part)?, under))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_read_as_kubernetes_writes_them_and_others_are_none() {
        let cases = [
            ("526904468Ki", Some(526_904_468 << 10)),
            ("16Gi", Some(16 << 30)),
            ("64G", Some(64_000_000_000)),
            ("1.5Gi", Some(3 << 29)),
            ("12e6", Some(12_000_000)),
            ("5E3", Some(5000)),
            ("2E", Some(2_000_000_000_000_000_000)),
            ("1500m", Some(1)),
            (".5k", Some(500)),
            ("+3", Some(3)),
            ("0", Some(0)),
            ("18446744073709551616", None),
            ("1e40", None),
            ("-1", None),
            ("8 GiB", None),
            ("many", None),
            (".", None),
            ("", None),
        ];
        for (text, expected) in cases {
            assert_eq!(bytes(text), expected, "{text}");
        }
    }

    #[test]
    fn a_count_is_whole() {
        let cases = [
            ("2e0", Some(2)),
            ("2000m", Some(2)),
            ("1500m", None),
            ("1k", Some(1000)),
            ("0.5", None),
        ];
        for (text, expected) in cases {
            assert_eq!(count(text), expected, "{text}");
        }
    }
}
