//! The rules of `ModelPack`'s published config schema (v0.0.7), for configs of any writer. Each violation names the place.

use serde_json::{Map, Value};

/// A rule that a config breaks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Where, as `modelfs.diffIds[0]`.
    pub place: String,
    /// What is wrong there.
    pub problem: String,
}

/// What a value has to be.
#[derive(Clone, Copy)]
enum Rule {
    Text,
    /// At least one character.
    Name,
    Time,
    Flag,
    Count,
    OneOf(&'static [&'static str]),
    /// Two lower-case letters.
    Language,
    ListOf(&'static Rule),
    /// With at least one element.
    FullListOf(&'static Rule),
    Object(&'static [(&'static str, Rule)], &'static [&'static str]),
}

const MODALITY: Rule = Rule::OneOf(&["text", "image", "audio", "video", "embedding", "other"]);

const CONFIG: Rule = Rule::Object(
    &[("descriptor", DESCRIPTOR), ("modelfs", MODEL_FS), ("config", TECHNICAL)],
    &["descriptor", "config", "modelfs"],
);

const DESCRIPTOR: Rule = Rule::Object(
    &[
        ("createdAt", Rule::Time),
        ("authors", Rule::ListOf(&Rule::Text)),
        ("family", Rule::Text),
        ("name", Rule::Name),
        ("docURL", Rule::Text),
        ("sourceURL", Rule::Text),
        ("datasetsURL", Rule::ListOf(&Rule::Text)),
        ("version", Rule::Text),
        ("revision", Rule::Text),
        ("vendor", Rule::Text),
        ("licenses", Rule::ListOf(&Rule::Text)),
        ("title", Rule::Text),
        ("description", Rule::Text),
    ],
    &[],
);

const MODEL_FS: Rule = Rule::Object(
    &[
        ("type", Rule::OneOf(&["layers"])),
        ("diffIds", Rule::FullListOf(&Rule::Text)),
    ],
    &["type", "diffIds"],
);

const TECHNICAL: Rule = Rule::Object(
    &[
        ("architecture", Rule::Text),
        ("format", Rule::Text),
        ("paramSize", Rule::Text),
        ("precision", Rule::Text),
        ("quantization", Rule::Text),
        ("transformerConfig", TRANSFORMER),
        ("capabilities", CAPABILITIES),
    ],
    &[],
);

const TRANSFORMER: Rule = Rule::Object(
    &[
        ("attentionType", Rule::OneOf(&["mha", "gqa", "mla"])),
        ("mlpType", Rule::OneOf(&["dense", "moe"])),
        ("numLayers", Rule::Count),
        ("numAttentionHeads", Rule::Count),
        ("numKVHeads", Rule::Count),
        ("hiddenSize", Rule::Count),
        ("intermediateSize", Rule::Count),
    ],
    &[],
);

const CAPABILITIES: Rule = Rule::Object(
    &[
        ("inputTypes", Rule::ListOf(&MODALITY)),
        ("outputTypes", Rule::ListOf(&MODALITY)),
        ("knowledgeCutoff", Rule::Time),
        ("reasoning", Rule::Flag),
        ("toolUsage", Rule::Flag),
        ("reward", Rule::Flag),
        ("languages", Rule::ListOf(&Rule::Language)),
    ],
    &[],
);

/// Everything in a config that the schema does not allow; empty for a valid one.
pub fn validate_config(bytes: &[u8]) -> Vec<Violation> {
    let mut found = Vec::new();
    match serde_json::from_slice::<Value>(bytes) {
        Ok(value) => check(CONFIG, &value, "", &mut found),
        Err(error) => found.push(Violation {
            place: String::new(),
            problem: format!("it is no JSON: {error}"),
        }),
    }
    found
}

fn check(rule: Rule, value: &Value, place: &str, found: &mut Vec<Violation>) {
    let wrong = match rule {
        Rule::Object(fields, required) => return check_object(fields, required, value, place, found),
        Rule::ListOf(item) => return check_list(*item, 0, value, place, found),
        Rule::FullListOf(item) => return check_list(*item, 1, value, place, found),
        Rule::Text => (!value.is_string()).then(|| "a text".to_owned()),
        Rule::Name => value
            .as_str()
            .is_none_or(str::is_empty)
            .then(|| "a text of at least one character".to_owned()),
        Rule::Time => (!value.as_str().is_some_and(is_time)).then(|| "a time as in RFC 3339".to_owned()),
        Rule::Flag => (!value.is_boolean()).then(|| "true or false".to_owned()),
        Rule::Count => value
            .as_u64()
            .is_none_or(|count| count == 0)
            .then(|| "a whole number from 1 up".to_owned()),
        Rule::Language => (!value.as_str().is_some_and(is_language)).then(|| "two lower-case letters".to_owned()),
        Rule::OneOf(words) => {
            (!value.as_str().is_some_and(|word| words.contains(&word))).then(|| format!("one of {}", words.join(", ")))
        }
    };
    if let Some(wanted) = wrong {
        report(found, place, format!("{value} is not {wanted}"));
    }
}

fn check_object(fields: &[(&str, Rule)], required: &[&str], value: &Value, place: &str, found: &mut Vec<Violation>) {
    let Some(object) = value.as_object() else {
        return report(found, place, format!("{value} is not an object"));
    };
    for (name, value) in object {
        match fields.iter().find(|(field, _)| field == name) {
            Some((_, rule)) => check(*rule, value, &inside(place, name), found),
            None => report(found, &inside(place, name), "the schema has no such field".to_owned()),
        }
    }
    missing(required, object, place, found);
}

fn missing(required: &[&str], object: &Map<String, Value>, place: &str, found: &mut Vec<Violation>) {
    for name in required.iter().filter(|name| !object.contains_key(**name)) {
        report(found, &inside(place, name), "it is missing".to_owned());
    }
}

fn check_list(item: Rule, least: usize, value: &Value, place: &str, found: &mut Vec<Violation>) {
    let Some(list) = value.as_array() else {
        return report(found, place, format!("{value} is not a list"));
    };
    if list.len() < least {
        report(found, place, "it is empty".to_owned());
    }
    for (at, value) in list.iter().enumerate() {
        check(item, value, &format!("{place}[{at}]"), found);
    }
}

fn report(found: &mut Vec<Violation>, place: &str, problem: String) {
    found.push(Violation {
        place: place.to_owned(),
        problem,
    });
}

fn inside(place: &str, name: &str) -> String {
    if place.is_empty() {
        name.to_owned()
    } else {
        format!("{place}.{name}")
    }
}

fn is_language(text: &str) -> bool {
    text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_lowercase())
}

/// `2026-11-30T12:00:00Z`, with optional fraction and an offset instead of `Z`.
fn is_time(text: &str) -> bool {
    let Some((date, time)) = text.split_once(['T', 't', ' ']) else {
        return false;
    };
    let (clock, zone) = match time.find(['Z', 'z', '+', '-']) {
        Some(at) => time.split_at(at),
        None => return false,
    };
    let clock = clock
        .split_once('.')
        .map_or(clock, |(clock, fraction)| if is_digits(fraction) { clock } else { "" });
    let zone_is_good = zone.eq_ignore_ascii_case("z") || numbers(&zone[1..], ':', &[(2, 23), (2, 59)]);
    numbers(date, '-', &[(4, 9999), (2, 12), (2, 31)])
        && numbers(clock, ':', &[(2, 23), (2, 59), (2, 60)])
        && zone_is_good
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Numbers of these widths and limits between separators.
fn numbers(text: &str, separator: char, fields: &[(usize, u32)]) -> bool {
    let parts: Vec<&str> = text.split(separator).collect();
    let fits = |(part, (width, limit)): (&&str, &(usize, u32))| {
        part.len() == *width && is_digits(part) && part.parse::<u32>().is_ok_and(|number| number <= *limit)
    };
    parts.len() == fields.len() && parts.iter().zip(fields).all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn violations(text: &str) -> Vec<String> {
        let found = validate_config(text.as_bytes());
        found
            .into_iter()
            .map(|violation| format!("{}: {}", violation.place, violation.problem))
            .collect()
    }

    #[test]
    fn the_example_of_the_specification_is_valid() {
        let text = r#"{
            "descriptor": {"createdAt": "2025-01-01T00:00:00Z", "authors": ["a <a@example.com>"], "vendor": "Example",
                "family": "xyz3", "name": "xyz-3-8B-Instruct", "version": "3.1", "title": "t", "description": "d",
                "docURL": "https://example.com", "sourceURL": "https://example.com", "datasetsURL": ["https://example.com"],
                "revision": "1234567890", "licenses": ["Apache-2.0"]},
            "config": {"architecture": "transformer", "format": "pt", "paramSize": "8b", "precision": "float16",
                "quantization": "gptq", "capabilities": {"inputTypes": ["text"], "outputTypes": ["text"],
                "knowledgeCutoff": "2024-05-21T00:00:00.5+08:00", "reasoning": true, "toolUsage": false, "reward": false,
                "languages": ["en", "zh"]}},
            "modelfs": {"type": "layers", "diffIds": ["sha256:1234"]}
        }"#;
        assert_eq!(violations(text), [""; 0]);
    }

    #[test]
    fn each_broken_rule_is_named_with_its_place() {
        let cases = [
            ("{", ": it is no JSON"),
            ("[]", ": [] is not an object"),
            (r#"{"descriptor":{},"config":{}}"#, "modelfs: it is missing"),
            (
                r#"{"descriptor":{},"config":{},"modelfs":{"type":"layers","diffIds":[]}}"#,
                "modelfs.diffIds: it is empty",
            ),
            (
                r#"{"descriptor":{"name":""}}"#,
                "descriptor.name: \"\" is not a text of at least",
            ),
            (
                r#"{"descriptor":{"createdAt":"yesterday"}}"#,
                "descriptor.createdAt: \"yesterday\" is not a time",
            ),
            (
                r#"{"descriptor":{"createdAt":"2025-13-01T00:00:00Z"}}"#,
                "is not a time",
            ),
            (
                r#"{"descriptor":{"licence":[]}}"#,
                "descriptor.licence: the schema has no such field",
            ),
            (
                r#"{"config":{"capabilities":{"languages":["en-US"]}}}"#,
                "config.capabilities.languages[0]: \"en-US\" is not two",
            ),
            (
                r#"{"config":{"capabilities":{"inputTypes":["smell"]}}}"#,
                "is not one of text, image",
            ),
            (
                r#"{"config":{"transformerConfig":{"numLayers":0}}}"#,
                "config.transformerConfig.numLayers: 0 is not a whole",
            ),
            (
                r#"{"modelfs":{"type":"rootfs","diffIds":["a"]}}"#,
                "modelfs.type: \"rootfs\" is not one of layers",
            ),
        ];
        for (text, expected) in cases {
            let found = violations(text);
            assert!(found.iter().any(|line| line.contains(expected)), "{text}: {found:?}");
        }
    }
}
