//! What holds for all inputs.

use model_facts::{
    GgufHeader, KvCache, LayerGroup, LayerKind, ModelFacts, ModelFiles, SafetensorsError, SafetensorsHeader, derive,
    kv_bytes, kv_bytes_per_token, weights_per_device,
};
use proptest::prelude::*;

/// Keys that the rules look at, so that random objects reach them.
const KEYS: &[&str] = &[
    "architectures",
    "model_type",
    "num_hidden_layers",
    "hidden_size",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "max_position_embeddings",
    "rope_scaling",
    "rope_type",
    "factor",
    "original_max_position_embeddings",
    "sliding_window",
    "sliding_window_pattern",
    "layer_types",
    "block_configs",
    "linear_attn_config",
    "full_attn_layers",
    "kda_layers",
    "attn_layer_period",
    "attn_layer_offset",
    "full_attention_interval",
    "hybrid_override_pattern",
    "hybrid_layer_pattern",
    "attn_type_list",
    "kv_lora_rank",
    "qk_rope_head_dim",
    "num_experts",
    "num_experts_per_tok",
    "quantization_config",
    "quant_method",
    "config_groups",
    "bits",
    "weights",
    "text_config",
    "dtype",
    "auto_map",
    "attention_chunk_size",
    "no_rope_layers",
    "num_kv_shared_layers",
    "cla_share_factor",
    "use_cla",
    "conv_L_cache",
    "mamba_d_state",
    "d_model",
    "max_window_layers",
    "multi_query",
    "attn_config",
    "kv_n_heads",
    "pad_token_id",
    "is_encoder_decoder",
    "weight_block_size",
];
const TEXTS: &[&str] = &[
    "llama",
    "qwen2",
    "gemma3_text",
    "llama4_text",
    "falcon",
    "roberta",
    "whisper",
    "mamba2",
    "jamba",
    "longcat_flash",
    "yarn",
    "linear",
    "longrope",
    "full_attention",
    "sliding_attention",
    "linear_attention",
    "M*-E",
    "LLLG",
    "gptq",
    "fp8",
    "compressed-tensors",
    "modelopt",
    "ascend",
    "bfloat16",
    "W8A8",
    "",
    "\u{1F600}",
];

fn value() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        (0_u64..70).prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        any::<u64>().prop_map(Into::into),
        any::<f64>().prop_map(Into::into),
        prop::sample::select(TEXTS).prop_map(Into::into),
    ];
    leaf.prop_recursive(4, 64, 8, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..8).prop_map(Into::into),
            prop::collection::vec((prop::sample::select(KEYS), inner), 0..12).prop_map(object),
        ]
    })
}

fn object(entries: Vec<(&'static str, serde_json::Value)>) -> serde_json::Value {
    entries
        .into_iter()
        .map(|(key, value)| (key.to_owned(), value))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

fn layer_kind() -> impl Strategy<Value = LayerKind> {
    let heads = || (1_u32..128, 1_u32..512, 1_u32..512);
    prop_oneof![
        heads().prop_map(|(kv_heads, key_dim, value_dim)| LayerKind::Full {
            kv_heads,
            key_dim,
            value_dim
        }),
        (heads(), 1_u64..100_000).prop_map(|((kv_heads, key_dim, value_dim), window)| LayerKind::Sliding {
            kv_heads,
            key_dim,
            value_dim,
            window
        }),
        (1_u32..1024).prop_map(|width| LayerKind::Latent { width }),
        prop::option::of(0_u64..10_000_000).prop_map(|bytes| LayerKind::Constant { bytes }),
        Just(LayerKind::None),
    ]
}

fn facts() -> impl Strategy<Value = ModelFacts> {
    let group = (1_u32..100, layer_kind()).prop_map(|(layers, kind)| LayerGroup { layers, kind });
    prop::collection::vec(group, 1..6).prop_map(|groups| ModelFacts {
        kv_cache: KvCache {
            groups: Some(groups),
            lower_bound: false,
        },
        ..ModelFacts::default()
    })
}

proptest! {
    #[test]
    fn any_bytes_are_parsed_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..400), size in prop::option::of(0_u64..1000)) {
        let _ = SafetensorsHeader::parse(&bytes, size);
        let _ = GgufHeader::parse(&bytes, size);
        let mut gguf = b"GGUF\x03\x00\x00\x00".to_vec();
        gguf.extend(&bytes);
        let _ = GgufHeader::parse(&gguf, size);
    }

    #[test]
    fn any_text_is_read_or_refused(text in "\\PC*", named in "[\\[\\]{}:,\"NaInfity0-9eE+.\\\\ud8-]*") {
        for text in [text, named] {
            let files = ModelFiles { config: Some(text), ..ModelFiles::default() };
            let _ = derive(&files);
        }
    }

    #[test]
    fn any_object_gives_facts_that_survive_their_own_serialisation(config in prop::collection::vec((prop::sample::select(KEYS), value()), 0..24)) {
        let files = ModelFiles { config: Some(object(config).to_string()), ..ModelFiles::default() };
        let facts = derive(&files).unwrap();
        let text = serde_json::to_string(&facts).unwrap();
        prop_assert_eq!(&serde_json::from_str::<ModelFacts>(&text).unwrap(), &facts);
        prop_assert_eq!(derive(&files).unwrap(), facts.clone());
        for (fact, known) in [("contextLength", facts.context_length.is_some()), ("layers", facts.layers.is_some()), ("kvCache", facts.kv_cache.groups.is_some())] {
            prop_assert_eq!(known, !facts.unknown.iter().any(|unknown| unknown.fact == fact), "{} is both or neither", fact);
        }
        let _ = kv_bytes_per_token(&facts, 8, 2, 2);
    }

    #[test]
    fn a_needed_length_is_exact_and_enough(name in "[a-z]{1,20}", cut in 0_usize..100) {
        let json = format!(r#"{{"{name}":{{"dtype":"U8","shape":[3],"data_offsets":[0,3]}}}}"#);
        let bytes = [(json.len() as u64).to_le_bytes().as_slice(), json.as_bytes(), &[1, 2, 3]].concat();
        let prefix = &bytes[..cut.min(bytes.len())];
        if let Err(SafetensorsError::NeedMore { bytes: needed }) = SafetensorsHeader::parse(prefix, None) {
            prop_assert!(needed > prefix.len() as u64);
            let all = SafetensorsHeader::parse(&bytes[..usize::try_from(needed).unwrap()], None);
            let last_step = needed == 8 + json.len() as u64;
            let right = if last_step { all.is_ok() } else { needed == 8 };
            prop_assert!(right);
        }
    }

    #[test]
    fn a_longer_context_never_needs_less(facts in facts(), tokens in 0_u64..1_000_000, more in 0_u64..1_000_000, sequences in 1_u64..64) {
        let at = |tokens, sequences| kv_bytes(&facts, tokens, sequences, 1, 1, 2).unwrap();
        prop_assert!(at(tokens, sequences) <= at(tokens + more, sequences));
        prop_assert!(at(tokens, sequences) <= at(tokens, sequences + 1));
        prop_assert_eq!(at(tokens, sequences), at(tokens, 1) * sequences);
    }

    #[test]
    fn more_devices_never_need_more_each_and_together_never_less(facts in facts(), tokens in 0_u64..100_000, tp in 1_u32..32, pp in 1_u32..8) {
        let each = |tp, pp| kv_bytes(&facts, tokens, 1, tp, pp, 2).unwrap();
        prop_assert!(each(tp + 1, pp) <= each(tp, pp));
        prop_assert!(each(tp, pp + 1) <= each(tp, pp));
        prop_assert!(each(tp, pp) * u64::from(tp) * u64::from(pp) >= each(1, 1));
    }

    #[test]
    fn shares_of_the_weights_cover_the_weights(bytes in 0_u64..1 << 50, tp in 1_u32..64, pp in 1_u32..16) {
        let facts = ModelFacts { weight_bytes: Some(bytes), ..ModelFacts::default() };
        let share = weights_per_device(&facts, tp, pp).unwrap();
        prop_assert!(u128::from(share) * u128::from(tp) * u128::from(pp) >= u128::from(bytes) * 102 / 100);
    }
}
