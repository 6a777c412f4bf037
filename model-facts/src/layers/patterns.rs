//! The ways in which files say which layer is of which kind.

use serde_json::Value;

use crate::config::Config;
use crate::json;

use super::plan::Role;

/// Roles with the key that gave them, or what is missing.
type Roles = Result<(Vec<Role>, &'static str), String>;

const NAME_LISTS: &[&str] = &[
    "layer_types",
    "layers_block_type",
    "attention_layers",
    "block_types",
    "_block_types",
];
const MOST_LAYERS: usize = 10_000;
const WINDOWS: &[&str] = &[
    "sliding_window",
    "sliding_window_size",
    "attention_window_size",
    "window_size",
    "interleaved_sliding_window",
];
/// Families whose window is off unless `use_sliding_window` says otherwise.
const WINDOW_OFF: &[&str] = &[
    "qwen2",
    "qwen2_moe",
    "qwen2_vl",
    "qwen2_5_vl",
    "qwen2_audio",
    "qwen3",
    "qwen3_moe",
    "qwen2_vl_text",
    "qwen2_5_vl_text",
    "qwen3_vl_text",
    "qwen3_vl_moe_text",
    "smollm3",
];
/// Families with a full layer in every n when the file does not say: number, and whether the first or the last of each n is full.
const FULL_EVERY: &[(&str, usize)] = &[
    ("gemma2", 2),
    ("gemma3", 6),
    ("gemma3_text", 6),
    ("gemma3n_text", 5),
    ("cohere2", 4),
    ("gpt_oss", 2),
    ("exaone4", 4),
    ("olmo3", 4),
];

/// The window in tokens; none when it is switched off.
pub(super) fn window(config: &Config) -> Option<u64> {
    let used = config
        .flag("use_sliding_window")
        .unwrap_or(!config.is_family(WINDOW_OFF));
    let (_, value) = config.first(WINDOWS)?;
    let number = match value {
        Value::Array(list) => list.iter().find_map(json::whole),
        other => json::whole(other),
    };
    number.filter(|window| used && *window > 0)
}

/// A name, number or letter per layer.
pub(super) fn by_names(config: &Config, count: usize) -> Option<Roles> {
    for key in NAME_LISTS {
        if let Some(list) = config.list(key).filter(|list| !list.is_empty()) {
            return Some(names(config, key, list, count));
        }
    }
    if let Some(pattern) = config.text("hybrid_override_pattern") {
        let letters = pattern.chars().filter(|letter| *letter != '|');
        return Some(
            letters
                .map(letter)
                .collect::<Result<_, _>>()
                .map(|roles| (roles, "hybrid_override_pattern")),
        );
    }
    if let Some(list) = config.list("attn_type_list") {
        return Some(numbers(list, "attn_type_list", Role::State, Role::Full));
    }
    if let Some(list) = config.list("hybrid_layer_pattern") {
        return Some(match window(config) {
            Some(window) => numbers(list, "hybrid_layer_pattern", Role::Full, Role::Sliding(window)),
            None => Err("hybrid_layer_pattern is there without a sliding_window".to_owned()),
        });
    }
    attention_types(config)
}

/// GPT-Neo writes pairs of names and how often they are repeated.
fn attention_types(config: &Config) -> Option<Roles> {
    const KEY: &str = "attention_types";
    let mut roles = Vec::new();
    for item in config.list(KEY)? {
        let pair = item.as_array().map(Vec::as_slice);
        let Some([Value::Array(list), times]) = pair else {
            return Some(Err(format!(
                "{KEY} holds {}, not names with a number",
                json::kind(item)
            )));
        };
        let times = json::whole(times).and_then(|times| usize::try_from(times).ok());
        let once = match names(config, KEY, list, list.len()) {
            Ok((once, _)) => once,
            Err(missing) => return Some(Err(missing)),
        };
        // No model has so many layers; a number of times without end must not be carried out.
        let most = MOST_LAYERS / once.len().max(1);
        let Some(times) = times.filter(|times| *times <= most) else {
            return Some(Err(format!("{KEY} repeats its names without end")));
        };
        roles.extend(once.iter().copied().cycle().take(once.len() * times));
    }
    Some(Ok((roles, KEY)))
}

fn names(config: &Config, key: &'static str, list: &[Value], count: usize) -> Roles {
    let roles = list
        .iter()
        .map(|item| match item.as_str() {
            Some(name) => named(config, name).map_err(|missing| format!("{key}: {missing}")),
            None => Err(format!("{key} holds {}, not a name", json::kind(item))),
        })
        .collect::<Result<Vec<_>, _>>()?;
    // A short list of blocks is repeated over the layers.
    let cyclic = key.ends_with("block_types") && roles.len() < count;
    let repeated = if cyclic {
        roles.into_iter().cycle().take(count).collect()
    } else {
        roles
    };
    Ok((repeated, key))
}

fn named(config: &Config, name: &str) -> Result<Role, String> {
    let sliding = |keys: &[&'static str]| {
        let window = config
            .number(keys)
            .found()
            .filter(|window| *window > 0)
            .or_else(|| window(config));
        window
            .map(Role::Sliding)
            .ok_or_else(|| format!("{name} without a window"))
    };
    match name {
        // Griffin's attention blocks are all local.
        "attention" if config.is_family(&["recurrent_gemma"]) => sliding(&["attention_window_size"]),
        "full_attention" | "attention" | "full" | "global" | "global_attention" | "mla" => Ok(Role::Full),
        "sliding_attention" | "sliding_window" | "sliding" | "local" | "local_attention" | "swa" => {
            sliding(&["sliding_window", "sliding_window_size"])
        }
        "chunked_attention" => sliding(&["attention_chunk_size"]),
        "linear_attention"
        | "mamba"
        | "mamba2"
        | "m"
        | "recurrent"
        | "conv"
        | "short_conv"
        | "kda"
        | "ssm"
        | "rwkv"
        | "gated_deltanet"
        | "gated_delta_net"
        | "lightning_attention" => Ok(Role::State),
        "hybrid" => Ok(Role::Both),
        "mlp" | "moe" | "ffn" | "noop" | "no_op" | "no_attention" | "skip" | "none" => Ok(Role::Nothing),
        other => Err(format!("the kind {other} has no rule here")),
    }
}

/// Nemotron-H writes a letter per layer.
fn letter(letter: char) -> Result<Role, String> {
    match letter {
        'M' => Ok(Role::State),
        '*' => Ok(Role::Full),
        '-' | 'E' => Ok(Role::Nothing),
        other => Err(format!("hybrid_override_pattern: the letter {other} has no rule here")),
    }
}

fn numbers(list: &[Value], key: &'static str, zero: Role, one: Role) -> Roles {
    let roles = list.iter().map(|item| match json::whole(item) {
        Some(0) => Ok(zero),
        Some(1) => Ok(one),
        _ => Err(format!(
            "{key} holds {}, neither 0 nor 1",
            crate::config::describe(item)
        )),
    });
    roles.collect::<Result<Vec<_>, _>>().map(|roles| (roles, key))
}

/// Lists of the numbers of the layers that attend to everything.
pub(super) fn by_indexes(config: &Config, count: usize) -> Option<Roles> {
    const FROM_ZERO: &[&str] = &[
        "attn_layer_indices",
        "full_attn_idxs",
        "full_attention_idxs",
        "attention_layers_idx",
    ];
    if let Some(linear) = config.object("linear_attn_config") {
        return Some(from_one(linear, count));
    }
    let (key, list) = FROM_ZERO.iter().find_map(|key| Some((*key, config.list(key)?)))?;
    let mut roles = vec![Role::State; count];
    Some(mark(&mut roles, list, 0, Role::Full, key).map(|()| (roles, key)))
}

/// Kimi counts layers from 1 and lists both kinds.
fn from_one(linear: &serde_json::Map<String, Value>, count: usize) -> Roles {
    const KEY: &str = "linear_attn_config";
    let list = |key: &str| linear.get(key).and_then(Value::as_array).map(Vec::as_slice);
    let Some(full) = list("full_attn_layers") else {
        return Err(format!("full_attn_layers is absent from {KEY}"));
    };
    let mut roles = vec![Role::Nothing; count];
    mark(&mut roles, list("kda_layers").unwrap_or_default(), 1, Role::State, KEY)?;
    mark(&mut roles, full, 1, Role::Full, KEY)?;
    match roles.iter().position(|role| *role == Role::Nothing) {
        Some(index) => Err(format!("layer {} is in none of the lists of {KEY}", index + 1)),
        None => Ok((roles, KEY)),
    }
}

fn mark(roles: &mut [Role], list: &[Value], first: usize, role: Role, key: &str) -> Result<(), String> {
    for item in list {
        let index = json::whole(item)
            .and_then(|number| usize::try_from(number).ok())
            .and_then(|n| n.checked_sub(first));
        let slot = index.and_then(|index| roles.get_mut(index));
        *slot.ok_or_else(|| {
            format!(
                "{key} names layer {}, which does not exist",
                crate::config::describe(item)
            )
        })? = role;
    }
    Ok(())
}

/// A full layer every so many among layers with a state, or among sliding ones.
pub(super) fn by_periods(config: &Config, count: usize) -> Option<Roles> {
    let every = |period: u32, offset: u32, full: Role, other: Role| -> Vec<Role> {
        let hit = |index: usize| index % period as usize == offset as usize;
        (0..count).map(|index| if hit(index) { full } else { other }).collect()
    };
    if let Some(period) = config.small(&["attn_layer_period"]) {
        let offset = config
            .number(&["attn_layer_offset"])
            .found()
            .and_then(|n| u32::try_from(n).ok())
            .unwrap_or(0);
        return Some(Ok((
            every(period, offset, Role::Full, Role::State),
            "attn_layer_period",
        )));
    }
    if let Some(period) = config.small(&["full_attention_interval"]) {
        let roles = every(period, period - 1, Role::Full, Role::State);
        return Some(Ok((roles, "full_attention_interval")));
    }
    if let Some(period) = config.small(&["layer_group_size"]) {
        let mut roles = every(period, period - 1, Role::Full, Role::State);
        // Ring: what is left over after the last whole group is full.
        let grouped = count - count % period as usize;
        roles[grouped..].fill(Role::Full);
        return Some(Ok((roles, "layer_group_size")));
    }
    stepped(config, count)
}

/// `PLaMo` 2: one attention in every so many layers, local unless it is listed.
fn stepped(config: &Config, count: usize) -> Option<Roles> {
    const KEY: &str = "mamba_step";
    let step = config.small(&[KEY])? as usize;
    if config.flag("mamba_enabled") == Some(false) {
        return None;
    }
    let Some(window) = window(config) else {
        return Some(Err(format!("{KEY} is there without a window")));
    };
    let full = config.list("full_attention_idx").unwrap_or_default();
    let is_full = |index: usize| full.iter().any(|item| json::whole(item) == Some(index as u64));
    let short = count <= step / 2;
    let role = |index: usize| {
        let attends = if short {
            index + 1 == count
        } else {
            index % step == step / 2
        };
        match (attends, is_full(index)) {
            (false, _) => Role::State,
            (true, true) => Role::Full,
            (true, false) => Role::Sliding(window),
        }
    };
    Some(Ok(((0..count).map(role).collect(), KEY)))
}

/// Sliding layers by their period, by a list, or all of them; full layers without a window.
pub(super) fn by_window(config: &Config, count: usize) -> Vec<Role> {
    if let Some(roles) = chunked(config, count) {
        return roles;
    }
    let Some(window) = window(config) else {
        return vec![Role::Full; count];
    };
    let sliding = Role::Sliding(window);
    if let Some(listed) = config.list("sliding_window_layers") {
        let slides = |index: usize| listed.iter().any(|item| json::whole(item) == Some(index as u64));
        return (0..count)
            .map(|index| if slides(index) { sliding } else { Role::Full })
            .collect();
    }
    if let Some(list) = WINDOWS.iter().find_map(|key| config.list(key)) {
        let one = |item: &Value| json::whole(item).filter(|n| *n > 0).map_or(Role::Full, Role::Sliding);
        return list.iter().map(one).cycle().take(count).collect();
    }
    if let Some(letters) = config.text("sliding_window_pattern").filter(|text| !text.is_empty()) {
        let one = |letter: char| {
            if letter.eq_ignore_ascii_case(&'l') {
                sliding
            } else {
                Role::Full
            }
        };
        return letters.chars().map(one).cycle().take(count).collect();
    }
    if let Some(first) = config.number(&["max_window_layers"]).found() {
        let first = usize::try_from(first).unwrap_or(usize::MAX);
        return (0..count)
            .map(|index| if index >= first { sliding } else { Role::Full })
            .collect();
    }
    match period(config) {
        Some(period) => (0..count)
            .map(|n| {
                if (n + 1).is_multiple_of(period) {
                    Role::Full
                } else {
                    sliding
                }
            })
            .collect(),
        None => vec![sliding; count],
    }
}

/// How many layers share one full one.
fn period(config: &Config) -> Option<usize> {
    const KEYS: &[&str] = &[
        "sliding_window_pattern",
        "_sliding_window_pattern",
        "global_attn_every_n_layers",
    ];
    let written = config.small(KEYS).map(|period| period as usize);
    written.or_else(|| {
        FULL_EVERY
            .iter()
            .find(|(family, _)| config.is_family(&[family]))
            .map(|(_, period)| *period)
    })
}

/// Llama 4 attends in chunks where it rotates positions; every fourth layer does neither.
fn chunked(config: &Config, count: usize) -> Option<Vec<Role>> {
    let chunk = config
        .number(&["attention_chunk_size"])
        .found()
        .filter(|chunk| *chunk > 0)?;
    if !config.is_family(&["llama4", "llama4_text"]) {
        return None;
    }
    let listed = config.list("no_rope_layers").filter(|list| list.len() >= count);
    let interval = config.small(&["no_rope_layer_interval"]).unwrap_or(4) as usize;
    let rotates = |index: usize| match listed {
        Some(list) => json::whole(&list[index]) != Some(0),
        None => !(index + 1).is_multiple_of(interval),
    };
    Some(
        (0..count)
            .map(|index| {
                if rotates(index) {
                    Role::Sliding(chunk)
                } else {
                    Role::Full
                }
            })
            .collect(),
    )
}
