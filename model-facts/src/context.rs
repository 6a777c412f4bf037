//! The longest context, by the rule of the family.

use serde_json::{Map, Value};

use crate::config::{Config, describe};
use crate::draft::Draft;
use crate::error::FactsError;
use crate::files::ModelFiles;
use crate::json;

/// Keys of the number of positions. The order is that of trust where several are set; `max_length` and its like are generation
/// defaults and no context.
const KEYS: &[&str] = &[
    "max_position_embeddings",
    "n_positions",
    "max_seq_len",
    "seq_length",
    "max_target_positions",
    "max_sequence_length",
    "max_seq_length",
    "seq_len",
    "max_context_length",
    "n_ctx",
    "context_length",
];

/// Larger numbers are the way of tokenizers to say that there is no limit.
const NO_LIMIT: u64 = 1_000_000_000_000;

/// Families whose position table starts after the padding token.
const OFFSET_FAMILIES: &[&str] = &[
    "roberta",
    "xlm-roberta",
    "xlm-roberta-xl",
    "camembert",
    "longformer",
    "mpnet",
    "xmod",
    "data2vec-text",
    "ibert",
    "luke",
    "esm",
    "roberta-prelayernorm",
];

/// Families whose `max_position_embeddings` is final although a factor is written beside it.
const SCALED_ALREADY: &[&str] = &["gemma3", "gemma3_text", "gemma3n", "gemma3n_text"];

pub(crate) fn derive(draft: &mut Draft, config: &Config, input: &ModelFiles) -> Result<(), FactsError> {
    match positions(config)
        .and_then(|base| scale(config, base))
        .or_else(|missing| by_yarn(config).ok_or(missing))
    {
        Ok(Context { length, why }) => {
            draft.facts.context_length = Some(length);
            draft.facts.context_source = Some(why);
        }
        Err(missing) => draft.unknown("contextLength", missing),
    }
    sentence_limit(draft, input)
}

/// A length with its derivation.
struct Context {
    length: u64,
    why: String,
}

/// The number of positions before scaling.
fn positions(config: &Config) -> Result<Context, String> {
    if config.is_family(&["whisper"]) {
        return read(config, "max_target_positions");
    }
    if let Some(context) = family_key(config) {
        return Ok(context);
    }
    let key = KEYS.iter().copied().find(|key| config.value(key).is_some());
    let Some(key) = key else {
        let assumed = if config.file() == "params.json" {
            " (vLLM assumes 128000 then)"
        } else {
            ""
        };
        return Err(format!(
            "{} and its other names are absent from {}{assumed}",
            KEYS[0],
            config.file()
        ));
    };
    let context = read(config, key)?;
    if config.is_family(OFFSET_FAMILIES) {
        after_padding(config, &context)
    } else {
        Ok(context)
    }
}

/// Keys that overrule the common ones in some families: `model_max_length` (Command-R, Baichuan), the trained `seq_length` of the
/// first Qwen.
fn family_key(config: &Config) -> Option<Context> {
    if config.is_family(&["qwen"]) {
        return read(config, "seq_length").ok();
    }
    read(config, "model_max_length").ok()
}

fn read(config: &Config, key: &str) -> Result<Context, String> {
    let value = config
        .value(key)
        .ok_or_else(|| format!("{key} is absent from {}", config.file()))?;
    match json::whole(value) {
        Some(length) if length > 0 && length < NO_LIMIT => Ok(Context {
            length,
            why: key.to_owned(),
        }),
        _ => Err(format!("{key} is {}, which is no length", describe(value))),
    }
}

/// `RoBERTa`'s positions start at the padding token's number plus one.
fn after_padding(config: &Config, context: &Context) -> Result<Context, String> {
    let padding = config.number(&["pad_token_id"]).found().unwrap_or(1);
    let offset = padding.saturating_add(1);
    match context.length.checked_sub(offset).filter(|length| *length > 0) {
        Some(length) => Ok(Context {
            length,
            why: format!("{} - {offset}: positions start after the padding token", context.why),
        }),
        None => Err(format!(
            "{} is {}, below the offset of {offset}",
            context.why, context.length
        )),
    }
}

impl Context {
    /// The same length with a remark.
    fn with(self, remark: &str) -> Self {
        Self {
            length: self.length,
            why: format!("{}; {remark}", self.why),
        }
    }
}

/// Applies `rope_scaling` or `rope_parameters`.
fn scale(config: &Config, base: Context) -> Result<Context, String> {
    let Some(scaling) = scaling(config)? else {
        return Ok(base);
    };
    let kind = ["rope_type", "type"]
        .iter()
        .find_map(|key| json::text(scaling, key))
        .unwrap_or("default");
    let factor = match scaling.get("factor").filter(|value| !value.is_null()) {
        Some(value) => Some(
            value
                .as_f64()
                .ok_or_else(|| format!("the factor of {kind} scaling is {}, not a number", describe(value)))?,
        ),
        None => None,
    };
    let factor = factor.filter(|factor| (factor - 1.0).abs() > 1e-9);
    match (kind, factor) {
        ("default" | "mrope" | "none" | "proportional", _) => Ok(base),
        ("longrope" | "su" | "llama3", _) => Ok(base.with(&format!("{kind} scaling is already in it"))),
        _ if config.is_family(SCALED_ALREADY) => Ok(base.with(&format!("{kind} scaling is already in it"))),
        (_, None) => Ok(base.with(&format!("{kind} scaling without a factor"))),
        ("yarn" | "deepseek_yarn", Some(factor)) => multiply(&yarn_base(config, scaling, base), kind, factor),
        ("linear" | "dynamic" | "ntk" | "xdrope" | "dynamic_ntk", Some(factor)) => multiply(&base, kind, factor),
        (other, Some(_)) => Err(format!("whether {other} scaling multiplies {} is not known", base.why)),
    }
}

fn scaling(config: &Config) -> Result<Option<&Map<String, Value>>, String> {
    let Some((key, value)) = config.first(&["rope_scaling", "rope_parameters"]) else {
        return Ok(None);
    };
    let Some(map) = value.as_object() else {
        return Err(format!("{key} is {}, not an object", describe(value)));
    };
    // Newer files keep one set per kind of layer; the full layers bound the context.
    let by_kind = ["full_attention", "global_attention", "attention"]
        .iter()
        .find_map(|key| json::inner(map, key));
    Ok(Some(by_kind.unwrap_or(map)))
}

/// Yarn stretches the length of the first training, where the file still has it.
fn yarn_base(config: &Config, scaling: &Map<String, Value>, base: Context) -> Context {
    const ORIGINAL: &str = "original_max_position_embeddings";
    let original = json::number(scaling, ORIGINAL).or_else(|| config.number(&[ORIGINAL]).found());
    match original.filter(|length| *length > 0 && *length < NO_LIMIT) {
        Some(length) => Context {
            length,
            why: ORIGINAL.to_owned(),
        },
        None => base,
    }
}

/// Yarn alone, where the file states the first training's length and no other.
fn by_yarn(config: &Config) -> Option<Context> {
    let scaling = scaling(config).ok().flatten()?;
    let kind = ["rope_type", "type"].iter().find_map(|key| json::text(scaling, key))?;
    let factor = scaling
        .get("factor")
        .and_then(Value::as_f64)
        .filter(|_| kind == "yarn")?;
    let original = json::number(scaling, "original_max_position_embeddings").filter(|length| *length < NO_LIMIT)?;
    let unscaled = KEYS.iter().all(|key| config.value(key).is_none());
    let base = Context {
        length: original,
        why: "original_max_position_embeddings".to_owned(),
    };
    if unscaled {
        multiply(&base, kind, factor).ok()
    } else {
        None
    }
}

fn multiply(base: &Context, kind: &str, factor: f64) -> Result<Context, String> {
    #[expect(clippy::cast_precision_loss, reason = "lengths are below 10^12")]
    let product = (base.length as f64 * factor).round();
    if !(1.0..1e12).contains(&product) {
        return Err(format!(
            "{} {} x {kind} factor {factor} is no length",
            base.why, base.length
        ));
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "between 1 and 10^12"
    )]
    let length = product as u64;
    Ok(Context {
        length,
        why: format!("{} {} x {kind} factor {factor}", base.why, base.length),
    })
}

/// sentence-transformers cut the input at their own limit.
fn sentence_limit(draft: &mut Draft, input: &ModelFiles) -> Result<(), FactsError> {
    const FILE: &str = "sentence_bert_config.json";
    let Some(text) = input.text(FILE) else {
        return Ok(());
    };
    let Some(limit) = json::number(&json::object(FILE, text)?, "max_seq_length").filter(|limit| *limit > 0) else {
        return Ok(());
    };
    if draft.facts.context_length.is_some_and(|length| limit < length) {
        draft.facts.context_length = Some(limit);
        draft.facts.context_source = Some(format!("max_seq_length of {FILE}"));
    }
    Ok(())
}
