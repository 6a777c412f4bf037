//! What GGUF files of odd families keep, by the rules of llama.cpp: one row for each.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on stops")]

use model_facts::{GgufHeader, LayerGroup, LayerKind, ModelFacts, ModelFiles, derive};

#[expect(dead_code, reason = "the tests of headers write more kinds of values")]
mod gguf_writer;

use gguf_writer::{Gguf, Value};

fn facts(gguf: &Gguf) -> ModelFacts {
    derive(&ModelFiles {
        gguf: vec![GgufHeader::parse(&gguf.bytes(), None).unwrap()],
        ..ModelFiles::default()
    })
    .unwrap()
}

/// Four layers, eight heads of 128, and keys without the name of the family.
fn family(family: &'static str, keys: Vec<(&str, Value)>) -> Gguf {
    let sizes = [
        ("block_count", Value::U32(4)),
        ("context_length", Value::U32(32_768)),
        ("embedding_length", Value::U32(1024)),
        ("attention.head_count", Value::U32(8)),
    ];
    let start = Gguf::new().key("general.architecture", Value::Text(family));
    let all = sizes.into_iter().chain(keys);
    all.fold(start, |gguf, (name, value)| {
        gguf.key(&format!("{family}.{name}"), value)
    })
}

fn state(bytes: u64) -> LayerKind {
    LayerKind::Constant { bytes: Some(bytes) }
}

fn full(kv_heads: u32) -> LayerKind {
    LayerKind::Full {
        kv_heads,
        key_dim: 128,
        value_dim: 128,
    }
}

fn ssm() -> Vec<(&'static str, Value)> {
    vec![
        ("ssm.inner_size", Value::U32(2048)),
        ("ssm.state_size", Value::U32(16)),
        ("ssm.conv_kernel", Value::U32(4)),
    ]
}

const SSM_BYTES: u64 = (3 * 2048 + 2048 * 16) * 4;

fn with(mut keys: Vec<(&'static str, Value)>, more: Vec<(&'static str, Value)>) -> Vec<(&'static str, Value)> {
    keys.extend(more);
    keys
}

#[test]
fn layers_of_families_with_states_keep_what_the_family_says() {
    let kv = |list: Vec<u32>| ("attention.head_count_kv", Value::U32s(list));
    let cases = [
        // A state in three of four layers, although the number of KV heads is the same for all.
        (
            "qwen3next",
            with(ssm(), vec![("attention.head_count_kv", Value::U32(2))]),
            vec![(3, state(SSM_BYTES)), (1, full(2))],
        ),
        (
            "qwen35",
            with(
                ssm(),
                vec![
                    ("attention.head_count_kv", Value::U32(2)),
                    ("full_attention_interval", Value::U32(2)),
                ],
            ),
            vec![(2, state(SSM_BYTES)), (2, full(2))],
        ),
        // Both in each layer.
        (
            "falcon-h1",
            with(ssm(), vec![("attention.head_count_kv", Value::U32(2))]),
            vec![(4, full(2)), (4, state(SSM_BYTES))],
        ),
        // A layer with a feed-forward width and no heads is neither.
        (
            "nemotron_h",
            with(
                ssm(),
                vec![
                    kv(vec![0, 0, 8, 0]),
                    ("feed_forward_length", Value::U32s(vec![0, 4096, 0, 4096])),
                ],
            ),
            vec![(1, state(SSM_BYTES)), (2, LayerKind::None), (1, full(8))],
        ),
        (
            "lfm2",
            vec![kv(vec![0, 8, 0, 8]), ("shortconv.l_cache", Value::U32(3))],
            vec![(2, state(2 * 1024 * 4)), (2, full(8))],
        ),
        // One vector per token only in the layers that attend.
        (
            "kimi-linear",
            vec![
                kv(vec![0, 0, 0, 1]),
                ("attention.kv_lora_rank", Value::U32(512)),
                ("rope.dimension_count", Value::U32(64)),
                ("kda.head_dim", Value::U32(128)),
            ],
            vec![
                (3, LayerKind::Constant { bytes: None }),
                (1, LayerKind::Latent { width: 576 }),
            ],
        ),
    ];
    for (name, keys, expected) in cases {
        let expected: Vec<LayerGroup> = expected
            .into_iter()
            .map(|(layers, kind)| LayerGroup { layers, kind })
            .collect();
        assert_eq!(facts(&family(name, keys)).kv_cache.groups, Some(expected), "{name}");
    }
}

#[test]
fn a_window_without_a_pattern_counts_all_layers_as_full_and_says_so() {
    let found = facts(&family(
        "phi3",
        vec![
            ("attention.head_count_kv", Value::U32(8)),
            ("attention.sliding_window", Value::U32(2047)),
        ],
    ));
    let group = LayerGroup {
        layers: 4,
        kind: full(8),
    };
    assert_eq!(found.kv_cache.groups, Some(vec![group]));
    assert_eq!(
        found.notes,
        ["phi3 has a sliding window of 2047 and no pattern that says which layers slide: all are counted as full"]
    );
}

#[test]
fn a_file_that_is_no_model_of_its_own_says_what_it_is() {
    let projector = facts(
        &Gguf::new()
            .key("general.architecture", Value::Text("clip"))
            .key("general.type", Value::Text("mmproj")),
    );
    let why = projector
        .unknown
        .iter()
        .find(|unknown| unknown.fact == "layers")
        .unwrap();
    assert_eq!(why.missing, "only the projector of a multimodal model was given");

    let adapter = facts(
        &family("llama", vec![])
            .key("general.type", Value::Text("adapter"))
            .key("adapter.type", Value::Text("lora"))
            .key("general.base_model.0.name", Value::Text("Llama 3.1 8B")),
    );
    let adapter = adapter.adapter.unwrap();
    assert_eq!(
        (adapter.kind.as_deref(), adapter.base_model.as_deref()),
        (Some("LORA"), Some("Llama 3.1 8B"))
    );
}

#[test]
fn a_family_and_a_type_that_nobody_knows_leave_their_facts_unknown() {
    let found = facts(&family("tomorrow", vec![]).tensor("a", &[32, 4], 77));
    assert_eq!((found.family.as_deref(), found.weight_bytes), (Some("tomorrow"), None));
    let missing: Vec<&str> = found.unknown.iter().map(|unknown| unknown.fact.as_str()).collect();
    assert_eq!(missing, ["quantization.weightBits", "weightBytes"]);
}
