//! Amounts of memory as nodes write them.

/// Bytes of a Kubernetes quantity (`526904468Ki`, `16Gi`, `64G`, `24480Mi`, `0`); fractions and exponents are understood.
pub(crate) fn bytes(text: &str) -> Option<u64> {
    let (number, factor) = split(text.trim())?;
    scaled(number, factor)
}

/// A plain count: `8`, `1k`.
pub(crate) fn count(text: &str) -> Option<u64> {
    bytes(text)
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
    scaled(number, factor)
}

fn split(text: &str) -> Option<(&str, u64)> {
    const SUFFIXES: [(&str, u64); 11] = [
        ("Ki", 1 << 10),
        ("Mi", 1 << 20),
        ("Gi", 1 << 30),
        ("Ti", 1 << 40),
        ("Pi", 1 << 50),
        ("k", 1000),
        ("M", 1_000_000),
        ("G", 1_000_000_000),
        ("T", 1_000_000_000_000),
        ("P", 1_000_000_000_000_000),
        ("", 1),
    ];
    SUFFIXES.iter().find_map(|(suffix, factor)| {
        let number = text.strip_suffix(suffix)?;
        number
            .starts_with(|c: char| c.is_ascii_digit())
            .then_some((number, *factor))
    })
}

fn scaled(number: &str, factor: u64) -> Option<u64> {
    if number.is_empty() {
        return None;
    }
    if let Ok(whole) = number.parse::<u64>() {
        return whole.checked_mul(factor);
    }
    let (whole, fraction) = number.split_once('.')?;
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let digits: String = fraction.chars().take(9).collect();
    let places = u32::try_from(digits.len()).ok()?;
    let part: u128 = digits.parse().ok()?;
    let part = u64::try_from(part * u128::from(factor) / 10u128.pow(places)).ok()?;
    whole.checked_mul(factor)?.checked_add(part)
}
