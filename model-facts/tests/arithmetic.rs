//! The figures that people compute by hand from a published configuration, beside what the cases give.
#![expect(
    clippy::disallowed_methods,
    reason = "the cases are files; the library itself reads none"
)]

use model_facts::{ModelFacts, kv_bytes_per_further_token, kv_bytes_per_token};

/// Case; bytes per token at 16 bits while windows are open; the same once they are full; context.
const TABLE: &[(&str, u64, u64, Option<u64>)] = &[
    ("llama-2-7b", 2 * 32 * 128 * 2 * 32, 524_288, Some(4_096)),
    ("llama-3.1-8b", 2 * 8 * 128 * 2 * 32, 131_072, Some(131_072)),
    (
        "llama-4-scout",
        2 * 8 * 128 * 2 * 48,
        2 * 8 * 128 * 2 * 12,
        Some(10_485_760),
    ),
    ("qwen2-7b-instruct", 2 * 4 * 128 * 2 * 28, 57_344, Some(32_768)),
    ("qwen2.5-7b-yarn", 57_344, 57_344, Some(4 * 32_768)),
    ("qwen3-8b", 2 * 8 * 128 * 2 * 36, 147_456, Some(40_960)),
    ("qwen3-30b-a3b", 2 * 4 * 128 * 2 * 48, 98_304, Some(40_960)),
    ("qwen3-next-80b-a3b", 2 * 2 * 256 * 2 * 12, 24_576, Some(262_144)),
    ("qwen3.5-397b-a17b", 2 * 2 * 256 * 2 * 15, 30_720, Some(262_144)),
    ("mistral-7b-v0.1", 131_072, 0, Some(32_768)),
    ("mixtral-8x7b", 131_072, 131_072, Some(32_768)),
    (
        "ministral-8b-params",
        2 * 8 * 128 * 2 * 36,
        2 * 8 * 128 * 2 * 9,
        Some(131_072),
    ),
    (
        "mistral-small-vision-fp8-params",
        2 * 8 * 128 * 2 * 40,
        163_840,
        Some(16 * 8_192),
    ),
    ("gemma-2-9b", 2 * 8 * 256 * 2 * 42, 2 * 8 * 256 * 2 * 21, Some(8_192)),
    (
        "gemma-3-27b-it",
        2 * 16 * 128 * 2 * 62,
        2 * 16 * 128 * 2 * 10,
        Some(131_072),
    ),
    ("gemma-3n-e4b", 2 * 2 * 256 * 2 * 20, 2 * 2 * 256 * 2 * 4, Some(32_768)),
    (
        "gemma-4-31b",
        2 * 16 * 256 * 2 * 50 + 2 * 4 * 512 * 2 * 10,
        2 * 4 * 512 * 2 * 10,
        Some(262_144),
    ),
    ("phi-3-mini-4k", 2 * 32 * 96 * 2 * 32, 0, Some(4_096)),
    (
        "phi-3.5-longrope-no-factor",
        2 * 32 * 96 * 2 * 32,
        393_216,
        Some(131_072),
    ),
    ("phi-4", 2 * 10 * 128 * 2 * 40, 204_800, Some(16_384)),
    ("deepseek-v2-lite", (512 + 64) * 2 * 27, 31_104, Some(163_840)),
    ("deepseek-v3", (512 + 64) * 2 * 61, 70_272, Some(163_840)),
    ("kimi-k2-instruct", (512 + 64) * 2 * 61, 70_272, Some(131_072)),
    (
        "kimi-k3-nested-mla-linear-mxfp4",
        (512 + 64) * 2 * 24,
        27_648,
        Some(1_048_576),
    ),
    (
        "longcat-flash-two-attentions",
        (512 + 64) * 2 * 56,
        64_512,
        Some(131_072),
    ),
    ("glm-4-9b-chat", 2 * 2 * 128 * 2 * 40, 40_960, Some(131_072)),
    ("chatglm3-6b", 2 * 2 * 128 * 2 * 28, 28_672, Some(8_192)),
    ("falcon-7b-multi-query", 2 * 64 * 2 * 32, 8_192, None),
    ("falcon-40b", 2 * 8 * 64 * 2 * 60, 122_880, Some(2_048)),
    ("mpt-7b", 2 * 32 * 128 * 2 * 32, 524_288, Some(2_048)),
    ("dbrx-instruct", 2 * 8 * 128 * 2 * 40, 163_840, Some(32_768)),
    (
        "gpt2-config-with-bom-and-crlf",
        2 * 12 * 64 * 2 * 12,
        36_864,
        Some(1_024),
    ),
    ("gpt-neox-20b", 2 * 64 * 96 * 2 * 44, 1_081_344, Some(2_048)),
    ("starcoder-multi-query", 2 * 128 * 2 * 40, 20_480, Some(8_192)),
    ("baichuan2-13b", 2 * 40 * 128 * 2 * 40, 819_200, Some(4_096)),
    ("internlm2.5-7b-dynamic", 131_072, 131_072, Some(2 * 32_768)),
    ("yi-34b-200k", 2 * 8 * 128 * 2 * 60, 245_760, Some(200_000)),
    (
        "command-r-model-max-length",
        2 * 64 * 128 * 2 * 40,
        1_310_720,
        Some(131_072),
    ),
    (
        "command-r7b-sliding-pattern",
        2 * 8 * 128 * 2 * 32,
        2 * 8 * 128 * 2 * 8,
        Some(132_096),
    ),
    ("gpt-oss-20b", 2 * 8 * 64 * 2 * 24, 2 * 8 * 64 * 2 * 12, Some(131_072)),
    (
        "minimax-text-01-lightning",
        2 * 8 * 128 * 2 * 10,
        40_960,
        Some(10_240_000),
    ),
    ("minimax-m2", 2 * 8 * 128 * 2 * 62, 253_952, Some(196_608)),
    ("falcon-mamba-7b", 0, 0, None),
    ("jamba-1.5-mini", 2 * 8 * 128 * 2 * 4, 16_384, Some(262_144)),
    ("nemotron-h-8b-letters", 2 * 8 * 128 * 2 * 4, 16_384, Some(8_192)),
    (
        "nemotron-super-49b-block-configs",
        2 * 8 * 128 * 2 * 49,
        200_704,
        Some(131_072),
    ),
    ("granite-4-h-tiny", 2 * 4 * 128 * 2 * 4, 8_192, Some(131_072)),
    ("falcon-h1-parallel", 2 * 2 * 128 * 2 * 44, 45_056, Some(262_144)),
    ("lfm2-1.2b", 2 * 8 * 64 * 2 * 6, 12_288, Some(128_000)),
    ("recurrentgemma-2b", 2 * 256 * 2 * 8, 0, None),
    (
        "mimo-v2.6-flash-asymmetric-kv",
        23_040 + 199_680,
        23_040,
        Some(1_048_576),
    ),
    (
        "step-3.5-flash",
        2 * 8 * 128 * 2 * 45,
        2 * 8 * 128 * 2 * 12,
        Some(262_144),
    ),
    (
        "openelm-heads-by-layer",
        2 * 64 * 2 * (3 * 3 + 3 * 4),
        5_376,
        Some(2_048),
    ),
    ("all-minilm-l6-v2", 0, 0, Some(256)),
    ("bge-reranker-v2-m3-offset-positions", 0, 0, Some(8_192)),
    ("whisper-large-v3", 2 * 20 * 64 * 2 * 32, 163_840, Some(448)),
    ("hunyuan-moe-shared-caches", 2 * 8 * 128 * 2 * 16, 65_536, Some(262_144)),
    ("kimi-linear-lists-from-one", (512 + 64) * 2, 1_152, Some(1_048_576)),
    (
        "exaone-4-32b-letters",
        2 * 8 * 128 * 2 * 64,
        2 * 8 * 128 * 2 * 16,
        Some(131_072),
    ),
    ("zamba2-hybrid-blocks", 2 * 32 * 160 * 2 * 2, 40_960, Some(4_096)),
    ("bamba-attention-indices", 2 * 8 * 128 * 2 * 3, 12_288, Some(262_144)),
    ("minicpm3-4b-longrope", (256 + 32) * 2 * 62, 35_712, Some(32_768)),
    (
        "deepseek-vl2-tiny-without-mla",
        2 * 10 * 128 * 2 * 12,
        61_440,
        Some(4_096),
    ),
    ("glm-5-sparse-index", (512 + 64) * 2 * 78, 89_856, Some(202_752)),
    ("internvl2.5-8b", 131_072, 131_072, Some(65_536)),
];

#[test]
fn cases_give_the_figures_computed_by_hand() {
    for (case, open, full, context) in TABLE {
        let path = format!("{}/tests/cases/{case}/expected.json", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
        let facts: ModelFacts = serde_json::from_str(&text).unwrap();
        assert_eq!(kv_bytes_per_token(&facts, 1, 1, 2), Some(*open), "{case}");
        assert_eq!(kv_bytes_per_further_token(&facts, 1, 1, 2), Some(*full), "{case}");
        assert_eq!(facts.context_length, *context, "{case}");
    }
}
