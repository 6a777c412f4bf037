//! Bytes of the state that a linear or state-space layer keeps per sequence.

use serde_json::{Map, Value};

use crate::config::Config;
use crate::json;

use super::sizes;

/// Recurrent states are kept in 32 bits unless the file says otherwise.
const STATE_BYTES: u64 = 4;

/// Bytes of one layer, when the keys for one of the known formulas are all there. The convolution's part is in the data type of
/// the model, the recurrent part in the one of the state.
pub(super) fn bytes(config: &Config, dtype: Option<&str>) -> Option<u64> {
    let element = dtype_bytes(dtype)?;
    let recurrent = config
        .text("mamba_ssm_dtype")
        .or_else(|| config.text("mamba_ssm_cache_dtype"))
        .map_or(Some(STATE_BYTES), |name| dtype_bytes(Some(&normalise(name))))?;
    gated_delta_net(config, element, recurrent)
        .or_else(|| kimi_delta_attention(config.object("linear_attn_config")?, element))
        .or_else(|| short_convolution(config, element))
        .or_else(|| mamba2(config, element, recurrent))
        .or_else(|| mamba1(config, element, recurrent))
        .or_else(|| lightning(config))
        .or_else(|| gated_recurrence(config, element))
}

/// Bytes of one number of a data type.
pub(super) fn dtype_bytes(dtype: Option<&str>) -> Option<u64> {
    match dtype? {
        "bf16" | "fp16" => Some(2),
        "fp32" => Some(4),
        "fp64" => Some(8),
        _ => None,
    }
}

fn normalise(name: &str) -> String {
    match name.trim_start_matches("torch.") {
        "float32" => "fp32".to_owned(),
        "bfloat16" => "bf16".to_owned(),
        "float16" => "fp16".to_owned(),
        other => other.to_owned(),
    }
}

fn one(config: &Config, keys: &[&'static str]) -> Option<u64> {
    config.small(keys).map(u64::from)
}

/// `a * x + b * y` without overflow.
fn sum(a: u64, x: u64, b: u64, y: u64) -> Option<u64> {
    a.checked_mul(x)?.checked_add(b.checked_mul(y)?)
}

fn product(factors: &[u64]) -> Option<u64> {
    factors
        .iter()
        .try_fold(1_u64, |product, factor| product.checked_mul(*factor))
}

fn gated_delta_net(config: &Config, element: u64, recurrent: u64) -> Option<u64> {
    let key_heads = one(config, &["linear_num_key_heads"])?;
    let value_heads = one(config, &["linear_num_value_heads"])?;
    let key_dim = one(config, &["linear_key_head_dim"])?;
    let value_dim = one(config, &["linear_value_head_dim"])?;
    let kernel = one(config, &["linear_conv_kernel_dim"])?;
    let width = sum(2 * key_heads, key_dim, value_heads, value_dim)?;
    sum(
        product(&[kernel - 1, width])?,
        element,
        product(&[value_heads, key_dim, value_dim])?,
        recurrent,
    )
}

fn kimi_delta_attention(linear: &Map<String, Value>, element: u64) -> Option<u64> {
    let heads = json::number(linear, "num_heads")?;
    let width = json::number(linear, "head_dim")?;
    let kernel = json::number(linear, "short_conv_kernel_size")?.checked_sub(1)?;
    sum(
        product(&[3, kernel, heads, width])?,
        element,
        product(&[heads, width, width])?,
        STATE_BYTES,
    )
}

fn short_convolution(config: &Config, element: u64) -> Option<u64> {
    let length = one(config, &["conv_L_cache"])?;
    let width = one(config, &["conv_dim"]).or_else(|| one(config, sizes::HIDDEN))?;
    product(&[length - 1, width, element])
}

fn mamba2(config: &Config, element: u64, recurrent: u64) -> Option<u64> {
    let heads = one(config, &["mamba_n_heads", "mamba_num_heads", "n_mamba_heads"])
        .or_else(|| one(config, &["num_heads"]).filter(|_| config.is_family(&["mamba2"])))?;
    let width = one(config, &["mamba_d_head", "mamba_head_dim", "mamba_headdim"])
        .or_else(|| one(config, &["head_dim"]).filter(|_| config.is_family(&["mamba2"])))?;
    let state = one(config, &["mamba_d_state", "ssm_state_size", "state_size"])?;
    let kernel = one(config, &["mamba_d_conv", "conv_kernel", "conv_kernel_size"])?;
    let groups = one(config, &["mamba_n_groups", "mamba_ngroups", "n_groups"])?;
    let channels = sum(heads, width, 2 * groups, state)?;
    sum(
        product(&[kernel - 1, channels])?,
        element,
        product(&[heads, width, state])?,
        recurrent,
    )
}

fn mamba1(config: &Config, element: u64, recurrent: u64) -> Option<u64> {
    let is_mamba1 = config.is_family(&["mamba", "falcon_mamba", "jamba"]) || config.mentions("mamba_dt_rank");
    let inner = one(config, &["mamba_d_inner"])
        .or_else(|| product(&[one(config, &["mamba_expand"])?, one(config, sizes::HIDDEN)?]))
        .or_else(|| one(config, &["intermediate_size"]).filter(|_| config.is_family(&["mamba", "falcon_mamba"])));
    let inner = inner.filter(|_| is_mamba1)?;
    let state = one(config, &["mamba_d_state", "state_size"])?;
    let kernel = one(config, &["mamba_d_conv", "conv_kernel"])?;
    sum(
        product(&[kernel - 1, inner])?,
        element,
        product(&[inner, state])?,
        recurrent,
    )
}

/// Linear attention whose state is K x V of each head (`MiniMax`, Ring).
fn lightning(config: &Config) -> Option<u64> {
    let linear = config.mentions("attn_type_list") || config.is_family(&["bailing_moe_linear"]);
    let heads = u64::from(sizes::head_count(config).ok()?.uniform().filter(|_| linear)?);
    let width = u64::from(sizes::key_dim(config).ok()?);
    product(&[heads, width, width, STATE_BYTES])
}

/// Griffin: one number per channel and a convolution.
fn gated_recurrence(config: &Config, element: u64) -> Option<u64> {
    let width = one(config, &["lru_width"])?;
    let kernel = one(config, &["conv1d_width"])?;
    sum(width, STATE_BYTES, product(&[kernel - 1, width])?, element)
}
