use super::*;
use crate::facts::KvCache;

fn model(groups: Vec<LayerGroup>) -> ModelFacts {
    ModelFacts {
        kv_cache: KvCache {
            groups: Some(groups),
            lower_bound: false,
        },
        ..ModelFacts::default()
    }
}

fn full(layers: u32, kv_heads: u32, head_dim: u32) -> LayerGroup {
    LayerGroup {
        layers,
        kind: LayerKind::Full {
            kv_heads,
            key_dim: head_dim,
            value_dim: head_dim,
        },
    }
}

#[test]
fn published_shapes_give_their_published_bytes_per_token() {
    let smollm2 = model(vec![full(30, 3, 64)]);
    let llama3 = model(vec![full(32, 8, 128)]);
    let deepseek_v3 = model(vec![LayerGroup {
        layers: 61,
        kind: LayerKind::Latent { width: 512 + 64 },
    }]);
    assert_eq!(kv_bytes_per_token(&smollm2, 1, 1, 2), Some(23_040));
    assert_eq!(kv_bytes_per_token(&llama3, 1, 1, 2), Some(131_072));
    for tensor_parallel in [1, 2, 8, 16] {
        assert_eq!(kv_bytes_per_token(&deepseek_v3, tensor_parallel, 1, 2), Some(70_272));
    }
    assert_eq!(kv_bytes_per_token(&llama3, 1, 1, 1), Some(65_536));
}

#[test]
fn tensor_parallelism_divides_heads_rounded_up_and_never_below_one() {
    let llama3 = model(vec![full(32, 8, 128)]);
    let cases = [(1, 131_072), (2, 65_536), (3, 49_152), (8, 16_384), (16, 16_384)];
    for (tensor_parallel, bytes) in cases {
        assert_eq!(
            kv_bytes_per_token(&llama3, tensor_parallel, 1, 2),
            Some(bytes),
            "tp {tensor_parallel}"
        );
    }
    assert_eq!(kv_bytes_per_token(&llama3, 1, 3, 2), Some(11 * 4096));
}

#[test]
fn windows_fill_up_and_constants_count_once_per_sequence() {
    let sliding = LayerKind::Sliding {
        kv_heads: 8,
        key_dim: 192,
        value_dim: 128,
        window: 128,
    };
    let mimo = model(vec![
        LayerGroup {
            layers: 9,
            kind: LayerKind::Full {
                kv_heads: 4,
                key_dim: 192,
                value_dim: 128,
            },
        },
        LayerGroup {
            layers: 39,
            kind: sliding,
        },
        LayerGroup {
            layers: 2,
            kind: LayerKind::Constant { bytes: Some(1000) },
        },
    ]);
    assert_eq!(kv_bytes_per_token(&mimo, 1, 1, 2), Some(222_720));
    assert_eq!(kv_bytes_per_further_token(&mimo, 1, 1, 2), Some(23_040));
    let long = kv_bytes(&mimo, 1_000, 2, 1, 1, 2);
    assert_eq!(long, Some(2 * (1_000 * 23_040 + 25_559_040 + 2_000)));
}

#[test]
fn weights_are_shared_with_two_percent_on_top() {
    let facts = ModelFacts {
        weight_bytes: Some(1_000),
        ..ModelFacts::default()
    };
    assert_eq!(weights_per_device(&facts, 1, 1), Some(1_020));
    assert_eq!(weights_per_device(&facts, 4, 2), Some(128));
    assert_eq!(weights_per_device(&facts, 0, 1), None);
    assert_eq!(weights_per_device(&ModelFacts::default(), 1, 1), None);
    let largest = ModelFacts {
        weight_bytes: Some(u64::MAX),
        ..ModelFacts::default()
    };
    assert_eq!(weights_per_device(&largest, 1, 1), None);
}

#[test]
fn unknown_geometry_and_sums_beyond_64_bits_are_unknown() {
    assert_eq!(kv_bytes(&ModelFacts::default(), 1, 1, 1, 1, 2), None);
    let hostile = model(vec![full(u32::MAX, u32::MAX, u32::MAX)]);
    assert_eq!(kv_bytes(&hostile, u64::MAX, u64::MAX, 1, 1, u64::MAX), None);
}

#[test]
fn the_arithmetic_is_written_out() {
    let facts = model(vec![
        full(2, 8, 128),
        LayerGroup {
            layers: 24,
            kind: LayerKind::Latent { width: 576 },
        },
        LayerGroup {
            layers: 3,
            kind: LayerKind::Constant { bytes: None },
        },
        LayerGroup {
            layers: 1,
            kind: LayerKind::None,
        },
    ]);
    assert_eq!(
        kv_arithmetic(&facts, 2).unwrap(),
        "2 full x 8 x (128 + 128) x 2 B = 8192 B per token; \
         24 latent x 576 x 2 B = 27648 B per token, the same at any tensor parallelism; \
         3 with a constant state of unknown size; 1 without a cache"
    );
}
