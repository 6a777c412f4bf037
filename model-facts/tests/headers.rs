//! GGUF and safetensors headers, written here byte by byte.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on stops")]

mod gguf_writer;

use gguf_writer::{Gguf, Value};
use model_facts::{
    FactsError, GgufError, GgufHeader, LayerGroup, LayerKind, ModelFiles, SafetensorsHeader, WeightFormat, derive,
    kv_bytes_per_token,
};

/// The shape of SmolLM2-135M in `Q4_1`, with one block.
fn smollm2() -> Gguf {
    Gguf::new()
        .key("general.architecture", Value::Text("llama"))
        .key("general.file_type", Value::U32(3))
        .key("llama.block_count", Value::U32(30))
        .key("llama.context_length", Value::U32(8192))
        .key("llama.embedding_length", Value::U32(576))
        .key("llama.attention.head_count", Value::U32(9))
        .key("llama.attention.head_count_kv", Value::U32(3))
        .key("tokenizer.ggml.tokens", Value::Texts(vec!["a"; 5000]))
        .key("tokenizer.chat_template", Value::Text("{{ messages }}"))
        .tensor("token_embd.weight", &[576, 64], 8)
        .tensor("blk.0.attn_q.weight", &[576, 576], 3)
        .tensor("blk.0.attn_norm.weight", &[576], 0)
}

fn facts_of(headers: Vec<GgufHeader>) -> model_facts::ModelFacts {
    derive(&ModelFiles {
        gguf: headers,
        ..ModelFiles::default()
    })
    .unwrap()
}

#[test]
fn a_gguf_file_gives_sizes_quantization_and_exact_bytes() {
    let bytes = smollm2().bytes();
    let header = GgufHeader::parse(&bytes, Some(bytes.len() as u64)).unwrap();
    assert_eq!(header.file_size(), bytes.len() as u64);
    let facts = facts_of(vec![header]);
    let exact = 576 * 64 / 32 * 34 + 576 * 576 / 32 * 20 + 576 * 4;
    assert_eq!(facts.weight_bytes, Some(exact));
    assert_eq!(facts.parameters, Some(576 * 64 + 576 * 576 + 576));
    assert_eq!(facts.format, WeightFormat::Gguf);
    assert_eq!(facts.family.as_deref(), Some("llama"));
    assert_eq!(
        (facts.layers, facts.context_length, facts.vocabulary),
        (Some(30), Some(8192), Some(5000))
    );
    let quantization = facts.quantization.clone();
    assert_eq!(quantization.label.as_deref(), Some("gguf"));
    assert_eq!(quantization.detail.as_deref(), Some("Q4_1"));
    assert_eq!((quantization.weight_bits, quantization.group_size), (Some(5), Some(32)));
    assert_eq!(facts.task.as_deref(), Some("generate"));
    assert_eq!(kv_bytes_per_token(&facts, 1, 1, 2), Some(23_040));
    assert_eq!(facts.unknown, []);
}

#[test]
fn a_growing_prefix_reaches_the_header_in_few_steps() {
    let bytes = smollm2().bytes();
    let size = Some(bytes.len() as u64);
    let (mut length, mut steps) = (0_usize, 0);
    let header = loop {
        match GgufHeader::parse(&bytes[..length], size) {
            Err(GgufError::NeedMore { bytes: next }) => {
                assert!(
                    next > length as u64 && next <= bytes.len() as u64,
                    "from {length} to {next}"
                );
                length = usize::try_from(next).unwrap();
            }
            other => break other.unwrap(),
        }
        steps += 1;
        assert!(steps < 20, "more than 20 steps");
    };
    assert_eq!(header, GgufHeader::parse(&bytes, size).unwrap());
}

#[test]
fn what_is_wrong_with_a_gguf_file_is_named() {
    let good = smollm2().bytes();
    let size = |bytes: &[u8]| Some(bytes.len() as u64);
    let with = |change: fn(&mut Vec<u8>)| {
        let mut bytes = good.clone();
        change(&mut bytes);
        let size = size(&bytes);
        GgufHeader::parse(&bytes, size).unwrap_err().to_string()
    };
    let cases: &[(String, &str)] = &[
        (with(|bytes| bytes[0] = b'X'), "not a GGUF file: it starts with XGUF"),
        (
            with(|bytes| bytes[4..8].copy_from_slice(&3_u32.to_be_bytes())),
            "big-endian",
        ),
        (with(|bytes| bytes[4] = 1), "GGUF version 1"),
        (with(|bytes| bytes[4] = 9), "GGUF version 9"),
        (
            with(|bytes| bytes[8..16].copy_from_slice(&u64::MAX.to_le_bytes())),
            "tensors do not fit into the file",
        ),
        (
            with(|bytes| bytes[16..24].copy_from_slice(&u64::MAX.to_le_bytes())),
            "keys do not fit into the file",
        ),
        (
            with(|bytes| bytes[24..32].copy_from_slice(&u64::MAX.to_le_bytes())),
            "texts in the header are longer",
        ),
        (
            with(|bytes| bytes.truncate(bytes.len() - 248_832 - 60)),
            "ends inside its header",
        ),
        (
            with(|bytes| bytes.truncate(bytes.len() - 1)),
            "it is cut, or a part of a larger file",
        ),
    ];
    for (message, wanted) in cases {
        assert!(message.contains(wanted), "{message}, not {wanted}");
    }
}

#[test]
fn hostile_keys_and_tensors_are_refused() {
    let error = |gguf: Gguf| {
        let bytes = gguf.bytes();
        GgufHeader::parse(&bytes, Some(bytes.len() as u64)).unwrap_err()
    };
    let nested = error(Gguf::new().key(
        "a",
        Value::Raw(9, [9_u32.to_le_bytes().as_slice(), &1_u64.to_le_bytes()].concat()),
    ));
    assert_eq!(nested, GgufError::NestedArray { key: "a".to_owned() });
    let endless = error(Gguf::new().key(
        "a",
        Value::Raw(9, [10_u32.to_le_bytes().as_slice(), &u64::MAX.to_le_bytes()].concat()),
    ));
    assert!(
        matches!(
            endless,
            GgufError::Count {
                what: "array elements",
                ..
            }
        ),
        "{endless}"
    );
    assert!(matches!(
        error(Gguf::new().key("a", Value::Raw(77, vec![0; 8]))),
        GgufError::ValueType { kind: 77, .. }
    ));
    assert!(matches!(
        error(Gguf::new().key("a", Value::U32(1)).key("a", Value::U32(2))),
        GgufError::Twice { .. }
    ));
    assert_eq!(
        error(Gguf::new().key("general.alignment", Value::U32(33))),
        GgufError::Alignment
    );
    assert!(matches!(
        error(Gguf::new().tensor("t", &[1, 1, 1, 1, 1], 0)),
        GgufError::Shape { .. }
    ));
    assert!(matches!(
        error(Gguf::new().tensor("t", &[33], 2)),
        GgufError::Shape { .. }
    ));
    assert!(matches!(
        error(Gguf::new().tensor("t", &[u64::MAX, 2], 0)),
        GgufError::Shape { .. }
    ));
    assert!(matches!(
        error(Gguf::new().tensor_at("t", &[8], 0, 7)),
        GgufError::Misaligned { .. }
    ));
    let overlap = Gguf::new()
        .tensor_at("first", &[64], 0, 0)
        .tensor_at("second", &[64], 0, 128);
    assert!(matches!(error(overlap), GgufError::Overlap { .. }));
}

#[test]
fn a_file_whose_tensors_hold_nothing_may_end_with_its_header() {
    let bytes = Gguf::new().tensor("empty", &[0, 8], 0).bytes();
    let end = bytes.len() as u64;
    let header = GgufHeader::parse(&bytes, Some(end)).unwrap();
    assert!(header.file_size() <= end);
    assert_eq!(header.weight_bytes(), Some(0));
}

#[test]
fn parts_of_a_split_set_are_counted() {
    let part = |number: u16| {
        let bytes = smollm2()
            .key("split.count", Value::U16(2))
            .key("split.no", Value::U16(number))
            .bytes();
        GgufHeader::parse(&bytes, None).unwrap()
    };
    let one = facts_of(vec![part(0)]);
    assert_eq!(one.weight_bytes, None);
    let missing = one
        .unknown
        .iter()
        .find(|unknown| unknown.fact == "weightBytes")
        .unwrap();
    assert_eq!(missing.missing, "part 2 of 2 was not given");
    assert!(facts_of(vec![part(0), part(1)]).weight_bytes.is_some());
}

fn groups(gguf: &Gguf) -> Vec<LayerGroup> {
    facts_of(vec![GgufHeader::parse(&gguf.bytes(), None).unwrap()])
        .kv_cache
        .groups
        .unwrap()
}

fn family(family: &'static str) -> Gguf {
    let key = |name: &str| format!("{family}.{name}");
    Gguf::new()
        .key("general.architecture", Value::Text(family))
        .key(&key("block_count"), Value::U32(4))
        .key(&key("context_length"), Value::U32(131_072))
        .key(&key("embedding_length"), Value::U32(1024))
        .key(&key("attention.head_count"), Value::U32(8))
}

#[test]
fn gguf_families_with_windows_alternate() {
    let gemma = family("gemma2")
        .key("gemma2.attention.head_count_kv", Value::U32(4))
        .key("gemma2.attention.key_length", Value::U32(256))
        .key("gemma2.attention.value_length", Value::U32(256))
        .key("gemma2.attention.sliding_window", Value::U32(4096));
    let sliding = LayerKind::Sliding {
        kv_heads: 4,
        key_dim: 256,
        value_dim: 256,
        window: 4096,
    };
    let full = LayerKind::Full {
        kv_heads: 4,
        key_dim: 256,
        value_dim: 256,
    };
    assert_eq!(
        groups(&gemma),
        [
            LayerGroup {
                layers: 2,
                kind: sliding
            },
            LayerGroup { layers: 2, kind: full }
        ]
    );
}

#[test]
fn gguf_families_with_one_vector_per_token_or_no_cache_say_so() {
    let deepseek = family("deepseek2")
        .key("deepseek2.attention.head_count_kv", Value::U32(1))
        .key("deepseek2.attention.kv_lora_rank", Value::U32(512))
        .key("deepseek2.rope.dimension_count", Value::U32(64));
    assert_eq!(
        groups(&deepseek),
        [LayerGroup {
            layers: 4,
            kind: LayerKind::Latent { width: 576 }
        }]
    );
    assert_eq!(
        groups(&family("bert")),
        [LayerGroup {
            layers: 4,
            kind: LayerKind::None
        }]
    );
}

#[test]
fn gguf_hybrids_keep_a_state_where_they_have_no_heads() {
    let hybrid = family("jamba")
        .key("jamba.attention.head_count_kv", Value::U32s(vec![0, 8, 0, 8]))
        .key("jamba.ssm.inner_size", Value::U32(2048))
        .key("jamba.ssm.state_size", Value::U32(16))
        .key("jamba.ssm.conv_kernel", Value::U32(4));
    let state = LayerKind::Constant {
        bytes: Some((3 * 2048 + 2048 * 16) * 4),
    };
    let attention = LayerKind::Full {
        kv_heads: 8,
        key_dim: 128,
        value_dim: 128,
    };
    assert_eq!(
        groups(&hybrid),
        [
            LayerGroup { layers: 2, kind: state },
            LayerGroup {
                layers: 2,
                kind: attention
            }
        ]
    );
}

#[test]
fn a_part_of_a_file_cut_by_bytes_is_refused_by_name() {
    let header = GgufHeader::parse(&smollm2().bytes(), None)
        .unwrap()
        .named("m.Q6_K.gguf.part1of2");
    let error = derive(&ModelFiles {
        gguf: vec![header],
        ..ModelFiles::default()
    })
    .unwrap_err();
    assert_eq!(
        error.to_string(),
        "m.Q6_K.gguf.part1of2 is a part of m.Q6_K.gguf that was cut by bytes, not a model and no gguf-split shard"
    );
    assert!(error.hint().contains("join all parts in order"));
}

fn safetensors(file: &str, tensors: &[(&str, &str, &[u64], u64)]) -> SafetensorsHeader {
    let mut at = 0;
    let entries: Vec<String> = tensors
        .iter()
        .map(|(name, dtype, shape, bytes)| {
            at += bytes;
            format!(
                r#""{name}":{{"dtype":"{dtype}","shape":{shape:?},"data_offsets":[{},{at}]}}"#,
                at - bytes
            )
        })
        .collect();
    let json = format!("{{{}}}", entries.join(","));
    let bytes = [(json.len() as u64).to_le_bytes().as_slice(), json.as_bytes()].concat();
    SafetensorsHeader::parse(&bytes, Some(bytes.len() as u64 + at))
        .unwrap()
        .named(file)
}

fn with_index(index: &str, headers: Vec<SafetensorsHeader>) -> Result<model_facts::ModelFacts, FactsError> {
    let mut files = ModelFiles {
        config: Some(r#"{"model_type":"llama"}"#.to_owned()),
        ..ModelFiles::default()
    };
    files
        .texts
        .insert("model.safetensors.index.json".to_owned(), index.to_owned());
    files.safetensors = headers;
    derive(&files)
}

#[test]
fn headers_give_bytes_parameters_and_the_data_type_that_no_file_states() {
    let headers = vec![safetensors(
        "model.safetensors",
        &[("a", "BF16", &[4, 4], 32), ("norm", "F32", &[4], 16)],
    )];
    let index = r#"{"metadata":{"total_size":1},"weight_map":{"a":"model.safetensors","norm":"model.safetensors"}}"#;
    let facts = with_index(index, headers).unwrap();
    assert_eq!(
        (facts.weight_bytes, facts.parameters, facts.dtype.as_deref()),
        (Some(48), Some(20), Some("bf16"))
    );
    assert_eq!(facts.format, WeightFormat::Safetensors);
}

#[test]
fn packed_integers_count_their_weights_or_make_the_quantization_unknown() {
    let headers = vec![safetensors(
        "model.safetensors",
        &[("q.qweight", "I32", &[16, 8], 512), ("q.scales", "F16", &[1, 8], 16)],
    )];
    let files = |config: &str| ModelFiles {
        config: Some(config.to_owned()),
        safetensors: headers.clone(),
        ..ModelFiles::default()
    };
    let known = derive(&files(
        r#"{"quantization_config":{"quant_method":"gptq","bits":4,"group_size":128}}"#,
    ))
    .unwrap();
    assert_eq!(known.parameters, Some(16 * 8 * 8));
    let unknown = derive(&files("{}")).unwrap();
    assert_eq!((unknown.quantization.method, unknown.parameters), (None, None));
    let missing = unknown
        .unknown
        .iter()
        .find(|unknown| unknown.fact == "quantization.method")
        .unwrap();
    assert_eq!(missing.missing, "tensors are packed or in 8 bits, and no file says how");
}

#[test]
fn an_index_that_disagrees_with_its_shards_is_an_error_that_names_all_faults() {
    let one = || safetensors("1.safetensors", &[("a", "U8", &[1], 1), ("b", "U8", &[1], 1)]);
    let two = || safetensors("2.safetensors", &[("b", "U8", &[1], 1)]);
    let cases = [
        (
            r#"{"weight_map":{"a":"1.safetensors","c":"1.safetensors"}}"#,
            vec![one()],
            "tensor c is not in 1.safetensors",
        ),
        (
            r#"{"weight_map":{"a":"1.safetensors","b":"3.safetensors"}}"#,
            vec![one()],
            "shard 3.safetensors is missing",
        ),
        (
            r#"{"weight_map":{"a":"1.safetensors"}}"#,
            vec![one(), two()],
            "tensor b is in 1.safetensors and in 2.safetensors",
        ),
        (
            r#"{"weight_map":{"a":7}}"#,
            vec![one()],
            "weight_map of tensor a is not a file name",
        ),
        (r"{}", vec![one()], "weight_map is missing"),
    ];
    for (index, headers, wanted) in cases {
        let message = with_index(index, headers).unwrap_err().to_string();
        assert!(message.contains(wanted), "{message}, not {wanted}");
    }
    assert!(
        with_index(
            r#"{"weight_map":{"a":"1.safetensors","b":"1.safetensors"}}"#,
            vec![one()]
        )
        .is_ok()
    );
}
