//! The shape of Qwen/Qwen3-8B without its weights: configuration, index and five sparse shards with true headers.

use std::fs;
use std::io::{self, Write as _};
use std::path::Path;

use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use crate::content::hex;

const LAYERS: usize = 36;
const HIDDEN: u64 = 4096;
const SHARD_LIMIT: u64 = 4_000_000_000;

const LICENSE: &str = "Stand-in for the licence file of Qwen3-8B, which is under the Apache License, Version 2.0:\n\
    http://www.apache.org/licenses/LICENSE-2.0\n";

/// Writes a safetensors file whose data is a hole: a true header, and no byte of weights on the disk.
/// Beside it goes a `.sha256` file with a hash derived from the header, because nobody should hash a hole of gigabytes.
pub fn write_safetensors(path: &Path, dtype: &str, element: u64, tensors: &[(String, Vec<u64>)]) -> io::Result<u64> {
    let (mut header, mut end) = (Map::new(), 0);
    for (name, shape) in tensors {
        let begin = end;
        end += shape.iter().product::<u64>() * element;
        header.insert(
            name.clone(),
            json!({"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}),
        );
    }
    let mut text = Value::Object(header).to_string();
    // The data starts at a multiple of eight, as the reference writer does it.
    text.push_str(&" ".repeat(text.len().next_multiple_of(8) - text.len()));
    let mut file = fs::File::create(path)?;
    file.write_all(&(text.len() as u64).to_le_bytes())?;
    file.write_all(text.as_bytes())?;
    file.set_len(8 + text.len() as u64 + end)?;
    let mut sidecar = path.as_os_str().to_owned();
    sidecar.push(".sha256");
    fs::write(sidecar, hex(&Sha256::digest(format!("hole behind {text}"))))?;
    Ok(end)
}

/// Writes the repository into `folder` and returns the bytes of all its tensors.
pub fn write_qwen3_8b(folder: &Path) -> io::Result<u64> {
    fs::create_dir_all(folder)?;
    let shards = split(tensors());
    let (mut total, mut weight_map) = (0, Map::new());
    for (number, shard) in shards.iter().enumerate() {
        let name = format!("model-{:05}-of-{:05}.safetensors", number + 1, shards.len());
        total += write_safetensors(&folder.join(&name), "BF16", 2, shard)?;
        weight_map.extend(shard.iter().map(|(tensor, _)| (tensor.clone(), json!(name))));
    }
    let index = json!({"metadata": {"total_size": total}, "weight_map": weight_map});
    write_json(folder, "model.safetensors.index.json", &index)?;
    write_json(folder, "config.json", &config())?;
    write_json(folder, "generation_config.json", &generation_config())?;
    write_json(
        folder,
        "tokenizer_config.json",
        &json!({"tokenizer_class": "Qwen2Tokenizer", "model_max_length": 131_072}),
    )?;
    write_json(
        folder,
        "tokenizer.json",
        &json!({"version": "1.0", "model": {"type": "BPE", "vocab": {}, "merges": []}}),
    )?;
    fs::write(folder.join("LICENSE"), LICENSE)?;
    fs::write(
        folder.join("README.md"),
        "---\nlicense: apache-2.0\n---\n# Qwen3-8B (shape only, for tests)\n",
    )?;
    Ok(total)
}

fn write_json(folder: &Path, name: &str, value: &Value) -> io::Result<()> {
    fs::write(folder.join(name), format!("{value:#}\n"))
}

fn tensors() -> Vec<(String, Vec<u64>)> {
    let vocabulary = 151_936;
    let mut tensors = vec![("model.embed_tokens.weight".to_owned(), vec![vocabulary, HIDDEN])];
    for layer in 0..LAYERS {
        tensors.extend(layer_tensors().map(|(name, shape)| (format!("model.layers.{layer}.{name}.weight"), shape)));
    }
    tensors.push(("model.norm.weight".to_owned(), vec![HIDDEN]));
    tensors.push(("lm_head.weight".to_owned(), vec![vocabulary, HIDDEN]));
    tensors
}

fn layer_tensors() -> impl Iterator<Item = (&'static str, Vec<u64>)> {
    let (key_value, head, inner) = (1024, 128, 12_288);
    [
        ("input_layernorm", vec![HIDDEN]),
        ("mlp.down_proj", vec![HIDDEN, inner]),
        ("mlp.gate_proj", vec![inner, HIDDEN]),
        ("mlp.up_proj", vec![inner, HIDDEN]),
        ("post_attention_layernorm", vec![HIDDEN]),
        ("self_attn.k_norm", vec![head]),
        ("self_attn.k_proj", vec![key_value, HIDDEN]),
        ("self_attn.o_proj", vec![HIDDEN, HIDDEN]),
        ("self_attn.q_norm", vec![head]),
        ("self_attn.q_proj", vec![HIDDEN, HIDDEN]),
        ("self_attn.v_proj", vec![key_value, HIDDEN]),
    ]
    .into_iter()
}

/// Fills shards in order up to the limit.
fn split(tensors: Vec<(String, Vec<u64>)>) -> Vec<Vec<(String, Vec<u64>)>> {
    let (mut shards, mut used) = (vec![Vec::new()], 0);
    for tensor in tensors {
        let bytes = tensor.1.iter().product::<u64>() * 2;
        if used + bytes > SHARD_LIMIT {
            shards.push(Vec::new());
            used = 0;
        }
        used += bytes;
        if let Some(shard) = shards.last_mut() {
            shard.push(tensor);
        }
    }
    shards
}

fn config() -> Value {
    json!({
        "architectures": ["Qwen3ForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
        "bos_token_id": 151_643, "eos_token_id": 151_645, "head_dim": 128, "hidden_act": "silu", "hidden_size": 4096,
        "initializer_range": 0.02, "intermediate_size": 12_288, "max_position_embeddings": 40_960,
        "max_window_layers": 36, "model_type": "qwen3", "num_attention_heads": 32, "num_hidden_layers": 36,
        "num_key_value_heads": 8, "rms_norm_eps": 1e-06, "rope_scaling": null, "rope_theta": 1_000_000,
        "sliding_window": null, "tie_word_embeddings": false, "torch_dtype": "bfloat16",
        "transformers_version": "4.51.0", "use_cache": true, "use_sliding_window": false, "vocab_size": 151_936,
    })
}

fn generation_config() -> Value {
    json!({
        "bos_token_id": 151_643, "do_sample": true, "eos_token_id": [151_645, 151_643], "pad_token_id": 151_643,
        "temperature": 0.6, "top_k": 20, "top_p": 0.95, "transformers_version": "4.51.0",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shape_has_the_published_numbers() {
        let folder = std::env::temp_dir().join(format!("standin-qwen3-{}", std::process::id()));
        let total = write_qwen3_8b(&folder).unwrap();
        let shards = fs::read_dir(&folder)
            .unwrap()
            .filter_map(|item| item.unwrap().file_name().into_string().ok());
        let shards = shards
            .filter(|name| name.to_lowercase().ends_with(".safetensors"))
            .count();
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!((total, tensors().len(), shards), (16_381_470_720, 399, 5));
    }
}
