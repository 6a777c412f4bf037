//! GGUF files that were cut by bytes. They are no gguf-split shards: only the first has a header, and it describes all of them.

/// A part of a file that was cut by bytes, by its name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct RawPart {
    /// Name of the whole file.
    pub whole: String,
    /// Number of the part, from 1.
    pub number: u32,
    /// How many parts there are, when the name says so.
    pub count: Option<u32>,
}

impl RawPart {
    /// Recognises `m.gguf.part1of2`, `m.gguf.part-01`, `m.gguf-split-a`, `m.gguf.001` and `m.gguf.aa`. Shards of gguf-split
    /// (`m-00001-of-00002.gguf`) are none.
    pub fn of(name: &str) -> Option<Self> {
        let lower = name.to_ascii_lowercase();
        let end = lower
            .rfind(".gguf")
            .map(|at| at + ".gguf".len())
            .filter(|end| *end < name.len())
            .or_else(|| part_start(&lower))?;
        let rest = &lower[end..];
        let (number, count) = suffix(rest)?;
        Some(Self {
            whole: name[..end].to_owned(),
            number,
            count,
        })
        .filter(|part| part.number > 0)
    }
}

/// Where `.partNofM` starts in a name without `.gguf` before it (`m.Q6_K.part1of2`).
fn part_start(name: &str) -> Option<usize> {
    name.rfind(".part").filter(|at| name[*at..].contains("of"))
}

fn suffix(rest: &str) -> Option<(u32, Option<u32>)> {
    if let Some(letter) = rest.strip_prefix("-split-").or_else(|| rest.strip_prefix(".split-")) {
        return Some((order(letter)?, None));
    }
    if let Some(number) = rest.strip_prefix(".part").or_else(|| rest.strip_prefix("-part")) {
        let number = number.trim_start_matches(['-', '_', '.']);
        return match number.split_once("of") {
            Some((number, count)) => Some((
                number.trim_end_matches('-').parse().ok()?,
                count.trim_start_matches('-').parse().ok(),
            )),
            None => Some((order(number)?, None)),
        };
    }
    let number = rest.strip_prefix('.')?;
    let plausible = number.len() >= 2 && number.len() <= 5;
    let order = order(number).filter(|_| plausible)?;
    Some((order, None))
}

/// `3`, `003`, `c` or `ac` (as the split tool counts, up to `az`) as 3.
fn order(text: &str) -> Option<u32> {
    if let Ok(number) = text.parse() {
        return Some(number);
    }
    let letters = text.bytes().all(|byte| byte.is_ascii_lowercase());
    let plausible = letters && (text.len() == 1 || text.len() == 2 && text.starts_with('a'));
    plausible.then(|| text.bytes().fold(0, |sum, byte| sum * 26 + u32::from(byte - b'a')) + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_recognised_by_name_and_shards_are_not() {
        let cases = [
            ("m.Q6_K.gguf.part1of2", Some(("m.Q6_K.gguf", 1, Some(2)))),
            ("m.Q6_K.part2of2", Some(("m.Q6_K", 2, Some(2)))),
            ("m.Q6_K.gguf-split-a", Some(("m.Q6_K.gguf", 1, None))),
            ("m.Q6_K.gguf-split-b", Some(("m.Q6_K.gguf", 2, None))),
            ("m.gguf-part2of3", Some(("m.gguf", 2, Some(3)))),
            ("m.GGUF.part-03", Some(("m.GGUF", 3, None))),
            ("m.gguf.002", Some(("m.gguf", 2, None))),
            ("m.gguf.ab", Some(("m.gguf", 2, None))),
            ("m-00001-of-00002.gguf", None),
            ("m.gguf", None),
            ("m.gguf.json", None),
            ("m.gguf.md", None),
            ("model.part1.safetensors", None),
            ("", None),
        ];
        for (name, wanted) in cases {
            let found = RawPart::of(name);
            let found = found
                .as_ref()
                .map(|part| (part.whole.as_str(), part.number, part.count));
            assert_eq!(found, wanted, "{name}");
        }
    }
}
