//! The closed vocabulary of quantizations that facts and support rows share.

/// Every label, in the order of a table: unquantised, 8 bits, mixed, 4 bits, containers. `wXaY` is integer weights of X bits with
/// activations of Y bits (16: not quantised); floating-point kinds have a name of their own.
///
/// | label | meaning |
/// |---|---|
/// | `fp32`, `bf16`, `fp16` | not quantised, by the data type of the tensors |
/// | `fp8` | 8-bit floats (e4m3 or e5m2) with scales per tensor, channel or block; activations 8 bits or left alone |
/// | `w8a8-mxfp8` | 8-bit floats with a shared exponent per 32 elements |
/// | `w8a8-int8` | 8-bit integers, both sides; SmoothQuant, `ModelSlim` W8A8 static or dynamic, compressed-tensors int8 |
/// | `w8a8s`, `w8a8sc` | `ModelSlim`'s sparse and sparse compressed W8A8 |
/// | `w8a8c8`, `w4a8c8` | the same with a KV cache of 8-bit integers fixed by the files |
/// | `w8a16`, `w4a16` | integer weights only, of any tool but GPTQ and AWQ |
/// | `gptq-w8a16`, `gptq-w4a16`, `gptq-w3a16`, `gptq-w2a16`, `awq-w8a16`, `awq-w4a16` | the packings of GPTQ and AWQ |
/// | `w4a8` | 4-bit integer weights, 8-bit integer activations |
/// | `w4a8-fp8` | 4-bit integer weights, 8-bit float activations |
/// | `w4a4` | 4-bit integers, both sides |
/// | `fp8-mxfp4` | fp8 or mxfp8 layers with experts in mxfp4 |
/// | `mxfp4` | 4-bit floats with a shared exponent per 32 elements, weights only |
/// | `w4a4-mxfp4` | the same on both sides |
/// | `w4a8-mxfp4` | mxfp4 weights with 8-bit float activations |
/// | `nvfp4` | NVIDIA's 4-bit floats with an fp8 scale per 16 elements |
/// | `nf4` | 4-bit normal floats outside bitsandbytes |
/// | `bnb-4bit`, `bnb-8bit` | bitsandbytes |
/// | `gguf` | any type of a GGUF file |
pub const LABELS: &[&str] = &[
    "fp32",
    "bf16",
    "fp16",
    "fp8",
    "w8a8-mxfp8",
    "w8a8-int8",
    "w8a8s",
    "w8a8sc",
    "w8a8c8",
    "w8a16",
    "gptq-w8a16",
    "awq-w8a16",
    "bnb-8bit",
    "fp8-mxfp4",
    "w4a8",
    "w4a8c8",
    "w4a8-fp8",
    "w4a8-mxfp4",
    "w4a4",
    "w4a4-mxfp4",
    "w4a16",
    "gptq-w4a16",
    "awq-w4a16",
    "mxfp4",
    "nvfp4",
    "nf4",
    "bnb-4bit",
    "gptq-w3a16",
    "gptq-w2a16",
    "gguf",
];

/// Other spellings, as vendors' tables and engines' options use them.
pub const LABEL_ALIASES: &[(&str, &str)] = &[
    ("float32", "fp32"),
    ("f32", "fp32"),
    ("bfloat16", "bf16"),
    ("float16", "fp16"),
    ("half", "fp16"),
    ("f16", "fp16"),
    ("fp8-w8a8", "fp8"),
    ("w8a8-fp8", "fp8"),
    ("fp8-block", "fp8"),
    ("deepseek-v4-fp8", "fp8-mxfp4"),
    ("mxfp8", "w8a8-mxfp8"),
    ("mixed mxfp8 mxfp4", "fp8-mxfp4"),
    ("w8a8", "w8a8-int8"),
    ("w8a8-dynamic", "w8a8-int8"),
    ("int8-w8a8", "w8a8-int8"),
    ("int8-w8a8-dynamic", "w8a8-int8"),
    ("smoothquant", "w8a8-int8"),
    ("int8-weight-only", "w8a16"),
    ("wint8", "w8a16"),
    ("int4-weight-only", "w4a16"),
    ("wint4", "w4a16"),
    ("int4-w4a8", "w4a8"),
    ("w4a8-int8", "w4a8"),
    ("w4a8-dynamic", "w4a8"),
    ("w4afp8", "w4a8-fp8"),
    ("w4a4-int4", "w4a4"),
    ("w4a4-flatquant-dynamic", "w4a4"),
    ("mxfp4-w4a16", "mxfp4"),
    ("w4a16-mxfp4", "mxfp4"),
    ("nvfp4-w4a4", "nvfp4"),
    ("awq", "awq-w4a16"),
    ("awq-int4", "awq-w4a16"),
    ("gptq", "gptq-w4a16"),
    ("gptq-int4", "gptq-w4a16"),
    ("gptq-int8", "gptq-w8a16"),
    ("bitsandbytes-4bit", "bnb-4bit"),
    ("bitsandbytes-8bit", "bnb-8bit"),
];

/// The label that `name` means: a label itself or one of its aliases, in any case, with `_` for `-`. A name that says too little
/// (`int8` could be weights only or both sides) or nothing is `None`.
pub fn canonical_label(name: &str) -> Option<&'static str> {
    let name = name.trim().to_ascii_lowercase().replace('_', "-");
    let alias = LABEL_ALIASES
        .iter()
        .find(|(alias, _)| *alias == name)
        .map(|(_, label)| *label);
    alias.or_else(|| LABELS.iter().copied().find(|label| *label == name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_alias_leads_to_a_label_and_hides_none() {
        for (alias, label) in LABEL_ALIASES {
            assert!(LABELS.contains(label), "{alias} leads to {label}, which is no label");
            assert!(!LABELS.contains(alias), "{alias} is both an alias and a label");
        }
    }

    #[test]
    fn labels_are_found_by_any_spelling_and_a_vague_name_is_not_guessed() {
        let cases = [
            ("bf16", Some("bf16")),
            ("W8A8", Some("w8a8-int8")),
            ("w8a8_int8", Some("w8a8-int8")),
            ("int8-w8a8", Some("w8a8-int8")),
            ("W8A8_MXFP8", Some("w8a8-mxfp8")),
            ("mixed mxfp8 mxfp4", Some("fp8-mxfp4")),
            ("wint4", Some("w4a16")),
            ("int8", None),
            ("", None),
            ("q4_k_m", None),
        ];
        for (name, label) in cases {
            assert_eq!(canonical_label(name), label, "{name}");
        }
    }
}
