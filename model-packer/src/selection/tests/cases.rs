//! Repositories as people publish them, each with all that is taken of it or with the words that refuse it.

use super::*;
use crate::sources::HubHash;

/// What is right.
enum Answer {
    /// Exactly these files; a warning holds this text, or there is none where it is empty.
    Takes(&'static [&'static str], &'static str),
    /// The error holds the first text, and the hint the second.
    Refuses(&'static str, &'static str),
}
use Answer::{Refuses, Takes};

/// Name, files, texts, flags, answer. A file of a hundred bytes has a name; a larger one has `=` and its bytes behind it.
type Case = (
    &'static str,
    &'static [&'static str],
    &'static [(&'static str, &'static str)],
    &'static [(&'static str, &'static str)],
    Answer,
);

const NO_TEXT: &[(&str, &str)] = &[];
const NO_FLAG: &[(&str, &str)] = &[];

fn indexes_and_adapters() -> Vec<Case> {
    vec![
        (
            "an index of safetensors that names pickles",
            &["model.safetensors", "pytorch_model.bin", "model.safetensors.index.json"],
            &[(
                "model.safetensors.index.json",
                r#"{"weight_map": {"a": "pytorch_model.bin"}}"#,
            )],
            NO_FLAG,
            Refuses(
                "it names pytorch_model.bin, which is no *.safetensors file",
                "--exclude",
            ),
        ),
        (
            "an adapter with the projector that was trained with it",
            &["adapter_config.json", "adapter_model.bin", "non_lora_trainables.bin"],
            NO_TEXT,
            NO_FLAG,
            Takes(
                &["adapter_config.json", "adapter_model.bin", "non_lora_trainables.bin"],
                "the weights are pickles",
            ),
        ),
        (
            "an adapter with embeddings of new tokens, in two formats",
            &[
                "adapter_config.json",
                "adapter_model.bin",
                "adapter_model.safetensors",
                "new_embeddings.bin",
                "new_embeddings.safetensors",
            ],
            NO_TEXT,
            NO_FLAG,
            Takes(
                &[
                    "adapter_config.json",
                    "adapter_model.safetensors",
                    "new_embeddings.safetensors",
                ],
                "",
            ),
        ),
        (
            "an adapter, its pickles wished for",
            &["adapter_config.json", "adapter_model.bin", "adapter_model.safetensors"],
            NO_TEXT,
            &[("format", "bin")],
            Takes(&["adapter_config.json", "adapter_model.bin"], "the weights are pickles"),
        ),
        (
            "an adapter and its projector beside the whole model",
            &[
                "adapter_config.json",
                "adapter_model.safetensors",
                "new_embeddings.safetensors",
                "model.safetensors",
                "tokenizer.json",
            ],
            NO_TEXT,
            NO_FLAG,
            Takes(&["adapter_config.json", "model.safetensors", "tokenizer.json"], ""),
        ),
        (
            "consolidated files without Mistral's parameters are ordinary safetensors",
            &["consolidated.safetensors", "pytorch_model.bin", "tokenizer.json"],
            NO_TEXT,
            &[("format", "safetensors")],
            Takes(&["consolidated.safetensors", "tokenizer.json"], ""),
        ),
    ]
}

const WHOLE: &str = r#"{"weight_map": {"a": "model-1.safetensors"}}"#;
const VAE: &str = r#"{"_class_name": "AutoencoderKL"}"#;

/// Weights beside the set that a server loads.
fn beside_the_set() -> Vec<Case> {
    const HEADS: &[&str] = &[
        "colbert_linear.pt",
        "model.safetensors",
        "sparse_linear.pt",
        "tokenizer.json",
    ];
    const PARTS: &[&str] = &[
        "model-1.safetensors",
        "model.safetensors.index.json",
        "text.pth",
        "vae.pth",
    ];
    const BELOW: &[&str] = &["tokenizer.json", "sub/pytorch_model.bin", "sub/extra.pt", "sub/more.pt"];
    vec![
        (
            "heads that only some servers load",
            HEADS,
            NO_TEXT,
            NO_FLAG,
            Takes(&["model.safetensors", "tokenizer.json"], ""),
        ),
        (
            "heads that are named",
            HEADS,
            NO_TEXT,
            &[("include", "*\ncolbert_linear.pt\nsparse_linear.pt")],
            Takes(HEADS, "the weights are pickles"),
        ),
        (
            "pickles that no set takes, and everything is wished for",
            PARTS,
            &[("model.safetensors.index.json", WHOLE)],
            &[("include", "*")],
            Takes(PARTS, "pickles"),
        ),
        (
            "a file of a folder that is named",
            BELOW,
            NO_TEXT,
            &[("include", "*\nsub/extra.pt")],
            Takes(&["sub/extra.pt", "sub/pytorch_model.bin", "tokenizer.json"], "pickles"),
        ),
    ]
}

fn for_other_loaders() -> Vec<Case> {
    vec![
        (
            "adapters of languages beside their model",
            &[
                "model.safetensors",
                "adapter.deu.safetensors",
                "adapter.fra.safetensors",
                "vocab.json",
            ],
            NO_TEXT,
            NO_FLAG,
            Takes(&["model.safetensors", "vocab.json"], ""),
        ),
        (
            "the same weights for another library",
            &["model.safetensors", "open_clip_model.safetensors", "tokenizer.json"],
            NO_TEXT,
            NO_FLAG,
            Takes(&["model.safetensors", "tokenizer.json"], ""),
        ),
        (
            "a part of a pipeline by itself",
            &[
                "config.json",
                "diffusion_pytorch_model.safetensors",
                "sdxl.vae.safetensors",
            ],
            &[("config.json", VAE)],
            NO_FLAG,
            Takes(&["config.json", "diffusion_pytorch_model.safetensors"], "no tokenizer"),
        ),
        (
            "an adapter of a sentence encoder, with modules of its own",
            &[
                "adapter_config.json",
                "adapter_model.safetensors",
                "modules.json",
                "1_Asym/model.safetensors",
                "tokenizer.json",
            ],
            &[("modules.json", MODULES)],
            NO_FLAG,
            Takes(
                &[
                    "1_Asym/model.safetensors",
                    "adapter_config.json",
                    "adapter_model.safetensors",
                    "modules.json",
                    "tokenizer.json",
                ],
                "",
            ),
        ),
        (
            "large vocabularies of any name",
            &[
                "model.safetensors",
                "shared_vocabulary.txt=2600000",
                "entity_vocab.json=12000000",
                "seg_dict=8000000",
                "tokenizer.tok.json=7000000",
            ],
            NO_TEXT,
            NO_FLAG,
            Takes(
                &[
                    "entity_vocab.json",
                    "model.safetensors",
                    "seg_dict",
                    "shared_vocabulary.txt",
                    "tokenizer.tok.json",
                ],
                "",
            ),
        ),
    ]
}

const MODULES: &str = r#"[{"path": "", "type": "T"}, {"path": "1_Asym", "type": "A"}]"#;
const NESTED: &str = r#"[{"path": "parts/0_Transformer"}, {"path": "./parts/1_Pooling/"}]"#;
const ROUTED: &str = r#"[{"path": "", "type": "sentence_transformers.models.Router"}]"#;
const ROUTER: &str = r#"{"types": {"": "T", "query_0_Static": "S", "document_1_Pooling": "P"}}"#;

fn sentence_encoders() -> Vec<Case> {
    vec![
        (
            "a module of several parts",
            &[
                "modules.json",
                "model.safetensors",
                "vocab.txt",
                "1_Asym/config.json",
                "1_Asym/query_0_Dense/model.safetensors",
                "1_Asym/query_0_Dense/pytorch_model.bin",
                "1_Asym/doc_0_Dense/pytorch_model.bin",
            ],
            &[("modules.json", MODULES)],
            NO_FLAG,
            Takes(
                &[
                    "1_Asym/config.json",
                    "1_Asym/doc_0_Dense/pytorch_model.bin",
                    "1_Asym/query_0_Dense/model.safetensors",
                    "model.safetensors",
                    "modules.json",
                    "vocab.txt",
                ],
                "the weights are pickles",
            ),
        ),
        (
            "modules in a folder of a folder",
            &[
                "modules.json",
                "parts/0_Transformer/model.safetensors",
                "parts/0_Transformer/tokenizer.json=20000000",
                "parts/1_Pooling/config.json",
                "parts/other.json",
            ],
            &[("modules.json", NESTED)],
            NO_FLAG,
            Takes(
                &[
                    "modules.json",
                    "parts/0_Transformer/model.safetensors",
                    "parts/0_Transformer/tokenizer.json",
                    "parts/1_Pooling/config.json",
                ],
                "",
            ),
        ),
    ]
}

fn routers_and_strangers() -> Vec<Case> {
    vec![
        (
            "modules that a router names",
            &[
                "modules.json",
                "router_config.json",
                "vocab.txt",
                "query_0_Static/model.safetensors",
                "query_0_Static/tokenizer.json",
                "document_1_Pooling/model.safetensors",
                "other/model.safetensors",
            ],
            &[("modules.json", ROUTED), ("router_config.json", ROUTER)],
            NO_FLAG,
            Takes(
                &[
                    "document_1_Pooling/model.safetensors",
                    "modules.json",
                    "query_0_Static/model.safetensors",
                    "query_0_Static/tokenizer.json",
                    "router_config.json",
                    "vocab.txt",
                ],
                "",
            ),
        ),
        (
            "what lies in a module's folder and is not of it",
            &[
                "modules.json",
                "model.safetensors",
                "vocab.txt",
                "1_Asym/config.json",
                "1_Asym/words.json=8000000",
                "1_Asym/dump.xyz=8000000",
                "1_Asym/onnx/model.onnx_data=8000000",
                "1_Asym/openvino/openvino_model.xml",
                "1_Asym/.DS_Store",
                "1_Asym/.cache/x.json",
            ],
            &[("modules.json", MODULES)],
            NO_FLAG,
            Takes(
                &[
                    "1_Asym/config.json",
                    "1_Asym/words.json",
                    "model.safetensors",
                    "modules.json",
                    "vocab.txt",
                ],
                "",
            ),
        ),
    ]
}

const PIPELINE: &str = r#"{"unet": ["diffusers", "U"], "te": ["transformers", "T"], "safety": [null, null]}"#;

fn pipelines() -> Vec<Case> {
    vec![(
        "what lies in a pipeline and is not of it",
        &[
            "model_index.json",
            "unet/config.json",
            "unet/diffusion_pytorch_model.safetensors",
            "unet/model.onnx",
            "unet/model.onnx_data=3000000",
            "unet/model.onnx_data_1=3000000",
            "unet/openvino_model.xml",
            "unet/openvino_model.bin",
            "unet/dump.xyz=3000000",
            "unet/.DS_Store",
            "unet/.cache/x",
            "te/spiece.model=4000000",
            "te/vocab.json=4000000",
            "checkpoints/full.ckpt=3000000",
            "assets/data.parquet",
            "samples/a.zip",
            "sub/.gitattributes",
            "safety/config.json",
        ],
        &[("model_index.json", PIPELINE)],
        NO_FLAG,
        Takes(
            &[
                "model_index.json",
                "te/spiece.model",
                "te/vocab.json",
                "unet/config.json",
                "unet/diffusion_pytorch_model.safetensors",
            ],
            "",
        ),
    )]
}

fn names_of_pipelines() -> Vec<Case> {
    vec![
        (
            "the names that diffusers loads decide",
            &["model_index.json", "te/pytorch_model.bin", "te/embeds.safetensors"],
            &[("model_index.json", PIPELINE)],
            NO_FLAG,
            Takes(&["model_index.json", "te/pytorch_model.bin"], "the weights are pickles"),
        ),
        (
            "a folder of names that nobody knows",
            &["model_index.json", "te/embeds.safetensors"],
            &[("model_index.json", PIPELINE)],
            NO_FLAG,
            Takes(&["model_index.json", "te/embeds.safetensors"], ""),
        ),
        (
            "any word is a variant",
            &[
                "model_index.json",
                "unet/diffusion_pytorch_model.safetensors",
                "unet/diffusion_pytorch_model.fp8_scaled.safetensors",
            ],
            &[("model_index.json", PIPELINE)],
            NO_FLAG,
            Takes(&["model_index.json", "unet/diffusion_pytorch_model.safetensors"], ""),
        ),
        (
            "any word of a variant may be wished for, and need not be everywhere",
            &[
                "model_index.json",
                "te/model.safetensors",
                "unet/diffusion_pytorch_model.safetensors",
                "unet/diffusion_pytorch_model.fp8_scaled.safetensors",
            ],
            &[("model_index.json", PIPELINE)],
            &[("variant", "fp8_scaled")],
            Takes(
                &[
                    "model_index.json",
                    "te/model.safetensors",
                    "unet/diffusion_pytorch_model.fp8_scaled.safetensors",
                ],
                "",
            ),
        ),
    ]
}

fn single_files_of_pipelines() -> Vec<Case> {
    const FILES: &[&str] = &[
        "model_index.json",
        "sd_xl.safetensors",
        "unet/diffusion_pytorch_model.safetensors",
    ];
    vec![
        (
            "the single file of a pipeline, wished for",
            FILES,
            &[("model_index.json", PIPELINE)],
            &[("include", "sd_xl.safetensors")],
            Takes(&["sd_xl.safetensors"], "no tokenizer"),
        ),
        (
            "the single file of a pipeline, its list left out",
            FILES,
            &[("model_index.json", PIPELINE)],
            &[("exclude", "model_index.json")],
            Takes(&["sd_xl.safetensors"], "no tokenizer"),
        ),
        (
            "the single file beside the folders, both wished for",
            FILES,
            &[("model_index.json", PIPELINE)],
            &[("include", "model_index.json\nunet/\nsd_xl.safetensors")],
            Takes(FILES, ""),
        ),
        (
            "everything of a pipeline is still one weight set",
            FILES,
            &[("model_index.json", PIPELINE)],
            &[("include", "*")],
            Takes(&["model_index.json", "unet/diffusion_pytorch_model.safetensors"], ""),
        ),
    ]
}

fn large_and_hidden_files() -> Vec<Case> {
    vec![
        (
            "tokenizers are taken whatever their size and their name are",
            &[
                "model.safetensors",
                "tiktoken.model=2800000",
                "spm.model=2460000",
                "bpe.codes=1140000",
                "vocabulary.json=1070000",
                "source.spm=2000000",
                "answers.json=2000000",
            ],
            NO_TEXT,
            NO_FLAG,
            Takes(
                &[
                    "bpe.codes",
                    "model.safetensors",
                    "source.spm",
                    "spm.model",
                    "tiktoken.model",
                    "vocabulary.json",
                ],
                "",
            ),
        ),
        (
            "files of tools",
            &[
                "model.safetensors",
                "tokenizer.json",
                ".msc",
                ".mv",
                ".mdl",
                ".DS_Store",
                "Thumbs.db",
                ".env",
                ".env.local",
                ".ipynb_checkpoints/a.json",
                "._____temp/x.json",
            ],
            NO_TEXT,
            NO_FLAG,
            Takes(&["model.safetensors", "tokenizer.json"], ""),
        ),
        (
            "secrets are not meant by everything",
            &[
                "model.safetensors",
                "tokenizer.json",
                ".msc",
                ".env",
                ".git/config",
                "sub/.netrc",
            ],
            NO_TEXT,
            &[("include", "*")],
            Takes(&[".msc", "model.safetensors", "tokenizer.json"], ""),
        ),
        (
            "a hidden file that is named",
            &["model.safetensors", "tokenizer.json", ".env", ".env.local"],
            NO_TEXT,
            &[("include", "*\n.env")],
            Takes(&[".env", "model.safetensors", "tokenizer.json"], ""),
        ),
    ]
}

fn other_runtimes() -> Vec<Case> {
    vec![
        (
            "OpenVINO beside pickles",
            &[
                "pytorch_model.bin",
                "openvino_model.bin",
                "openvino_model.xml",
                "detokenizer.bin",
                "detokenizer.xml",
                "vocab.txt",
            ],
            NO_TEXT,
            NO_FLAG,
            Takes(&["pytorch_model.bin", "vocab.txt"], "the weights are pickles"),
        ),
        (
            "OpenVINO alone, wished for",
            &["openvino_model.bin", "openvino_model.xml", "vocab.txt"],
            NO_TEXT,
            &[("include", "*")],
            Takes(
                &["openvino_model.bin", "openvino_model.xml", "vocab.txt"],
                "only the runtime that they were made for",
            ),
        ),
        (
            "ONNX alone, wished for",
            &[
                "config.json",
                "tokenizer.json",
                "onnx/model.onnx",
                "onnx/model.onnx_data",
            ],
            NO_TEXT,
            &[("include", "*")],
            Takes(
                &[
                    "config.json",
                    "onnx/model.onnx",
                    "onnx/model.onnx_data",
                    "tokenizer.json",
                ],
                "only the runtime that they were made for",
            ),
        ),
        (
            "a pickle of another name, wished for",
            &["config.json", "vocab.txt", "kokoro.pth"],
            NO_TEXT,
            &[("include", "*")],
            Takes(&["config.json", "kokoro.pth", "vocab.txt"], "the weights are pickles"),
        ),
    ]
}

fn folders() -> Vec<Case> {
    vec![
        (
            "a set with a hole in a folder that is wished for",
            &["sub/config.json", "sub/model-00001-of-00002.safetensors"],
            NO_TEXT,
            &[("include", "sub/")],
            Refuses("the set sub/model has 1 of 2 parts", "missing parts"),
        ),
        (
            "an index with a hole in a folder that is wished for",
            &[
                "sub/model-00001-of-00002.safetensors",
                "sub/model.safetensors.index.json",
            ],
            &[(
                "sub/model.safetensors.index.json",
                r#"{"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}}"#,
            )],
            &[("include", "sub/")],
            Refuses(
                "names what is not there: sub/model-00002-of-00002.safetensors",
                "incomplete",
            ),
        ),
        (
            "one weight set of a folder that is wished for",
            &[
                "int4/config.json",
                "int4/vocab.txt",
                "int4/model.safetensors",
                "int4/pytorch_model.bin",
                "model.safetensors",
            ],
            NO_TEXT,
            &[("include", "int4/")],
            Takes(&["int4/config.json", "int4/model.safetensors", "int4/vocab.txt"], ""),
        ),
        (
            "an adapter of a folder that is wished for",
            &[
                "lora/adapter_config.json",
                "lora/adapter_model.bin",
                "lora/non_lora_trainables.bin",
            ],
            NO_TEXT,
            &[("include", "lora/")],
            Takes(
                &[
                    "lora/adapter_config.json",
                    "lora/adapter_model.bin",
                    "lora/non_lora_trainables.bin",
                ],
                "the weights are pickles",
            ),
        ),
    ]
}

fn unmet_wishes() -> Vec<Case> {
    const PLAIN: &[&str] = &["model.safetensors", "tokenizer.json"];
    vec![
        (
            "a quantisation of what is no GGUF",
            PLAIN,
            NO_TEXT,
            &[("quant", "Q4_K_M")],
            Refuses(
                "quantisation `Q4_K_M` is not there; no GGUF model is taken",
                "leave it out",
            ),
        ),
        (
            "a quantisation and a format that has none",
            &["model.safetensors", "m-Q4_K_M.gguf"],
            NO_TEXT,
            &[("quant", "Q4_K_M"), ("format", "safetensors")],
            Refuses("quantisation `Q4_K_M` is not there", "--format"),
        ),
        (
            "a variant where there is none",
            PLAIN,
            NO_TEXT,
            &[("variant", "fp16")],
            Refuses(
                "variant `fp16` is not there; the weights have no variants",
                "leave --variant out",
            ),
        ),
        (
            "another variant of a pipeline",
            &[
                "model_index.json",
                "unet/diffusion_pytorch_model.safetensors",
                "unet/diffusion_pytorch_model.bf16.safetensors",
            ],
            &[("model_index.json", PIPELINE)],
            &[("variant", "fp16")],
            Refuses("variant `fp16` is not there; there are: bf16", "one of these names"),
        ),
        (
            "a format that only the adapter does not have",
            &["adapter_config.json", "adapter_model.safetensors"],
            NO_TEXT,
            &[("format", "bin")],
            Refuses("no weights of format `bin` are there", "--format"),
        ),
        (
            "a format that the pipeline does not have",
            &["model_index.json", "unet/diffusion_pytorch_model.safetensors"],
            &[("model_index.json", PIPELINE)],
            &[("format", "bin")],
            Refuses("no weights of format `bin` are there", "--format"),
        ),
    ]
}

fn code() -> Vec<Case> {
    const FILES: &[&str] = &["config.json", "model.safetensors", "modeling_x.py", "vocab.txt"];
    const NEEDS: &[(&str, &str)] = &[("config.json", r#"{"auto_map": {}}"#)];
    vec![
        (
            "code is not meant by everything",
            FILES,
            NEEDS,
            &[("include", "*")],
            Takes(
                &["config.json", "model.safetensors", "vocab.txt"],
                "needs code of its repository, which is not taken",
            ),
        ),
        (
            "code that is named",
            FILES,
            NEEDS,
            &[("include", "*\nmodeling_x.py")],
            Takes(FILES, ""),
        ),
    ]
}

fn raw_parts() -> Vec<Case> {
    vec![
        (
            "raw parts beside their projector",
            &["m.Q6_K.gguf.part1of2", "m.Q6_K.gguf.part2of2", "mmproj-F16.gguf"],
            NO_TEXT,
            NO_FLAG,
            Refuses(
                "m.Q6_K.gguf is cut into 2 raw parts",
                "cat m.Q6_K.gguf.part1of2 m.Q6_K.gguf.part2of2 > m.Q6_K.gguf",
            ),
        ),
        (
            "raw parts of the quantisation that is wished for",
            &["m.Q6_K.gguf.part1of2", "m.Q6_K.gguf.part2of2", "m.Q4_K_M.gguf"],
            NO_TEXT,
            &[("quant", "Q6_K")],
            Refuses("m.Q6_K.gguf is cut into 2 raw parts", "cat"),
        ),
        (
            "raw parts in the order of numbers",
            &[
                "a b.gguf.part10",
                "a b.gguf.part1",
                "a b.gguf.part2",
                "a b.gguf.part3",
                "a b.gguf.part4",
                "a b.gguf.part5",
                "a b.gguf.part6",
                "a b.gguf.part7",
                "a b.gguf.part8",
                "a b.gguf.part9",
            ],
            NO_TEXT,
            NO_FLAG,
            Refuses("10 raw parts", "'a b.gguf.part9' 'a b.gguf.part10' > 'a b.gguf'"),
        ),
        (
            "raw parts of which most are missing",
            &["m.Q8_0.gguf.part12of12"],
            NO_TEXT,
            NO_FLAG,
            Refuses("parts 1, 2, 3, 4, 5, 6, 7, 8 and 3 more are not there", "missing parts"),
        ),
        (
            "raw parts of which one is missing",
            &["m.Q8_0.gguf.part1of2"],
            NO_TEXT,
            NO_FLAG,
            Refuses(
                "2 raw parts, none of which is a model by itself; part 2 is not there",
                "missing parts",
            ),
        ),
    ]
}

fn names_of_quantisations() -> Vec<Case> {
    vec![
        (
            "a quantisation behind an underscore",
            &["gemma_q4_0.gguf", "gemma_q8_0.gguf"],
            NO_TEXT,
            &[("quant", "Q4_0")],
            Takes(&["gemma_q4_0.gguf"], ""),
        ),
        (
            "two ways to one quantisation, the plain one",
            &["m.Q4_K_M.gguf", "m.i1-Q4_K_M.gguf"],
            NO_TEXT,
            &[("quant", "Q4_K_M")],
            Takes(&["m.Q4_K_M.gguf"], ""),
        ),
        (
            "two ways to one quantisation, the other one",
            &["m.Q4_K_M.gguf", "m.i1-Q4_K_M.gguf"],
            NO_TEXT,
            &[("quant", "i1-q4_k_m")],
            Takes(&["m.i1-Q4_K_M.gguf"], ""),
        ),
        (
            "the only way to a quantisation",
            &["m.i1-Q4_K_M.gguf", "m.i1-Q4_K_S.gguf"],
            NO_TEXT,
            &[("quant", "Q4_K_M")],
            Takes(&["m.i1-Q4_K_M.gguf"], ""),
        ),
        (
            "a model that was made with an importance matrix, and the matrix",
            &["X-imatrix-Q4_K_M.gguf", "X.imatrix.gguf", "imatrix-X-BF16.gguf"],
            NO_TEXT,
            NO_FLAG,
            Takes(&["X-imatrix-Q4_K_M.gguf"], ""),
        ),
    ]
}

fn wishes(flags: &[(&str, &str)]) -> Wishes {
    let options = flags
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    Wishes::from_options(&options.collect()).unwrap()
}

fn listed(files: &[&str]) -> Vec<ListedFile> {
    let file = |text: &&str| {
        let (path, size) = text.split_once('=').unwrap_or((text, "100"));
        ListedFile {
            path: path.to_owned(),
            size: size.parse().unwrap(),
            hash: HubHash::Unknown,
        }
    };
    files.iter().map(file).collect()
}

/// Nothing when it is right, else what is wrong.
fn problem_of((name, files, texts, flags, answer): &Case) -> Option<String> {
    let texts: Texts = texts
        .iter()
        .map(|(path, text)| ((*path).to_owned(), (*text).to_owned()))
        .collect();
    match (select(&listed(files), &texts, &wishes(flags)), answer) {
        (Ok(selection), Takes(expected, warning)) => {
            let taken: Vec<&str> = selection.taken.iter().map(|file| file.path.as_str()).collect();
            let expected: Vec<&str> = expected
                .iter()
                .map(|text| text.split('=').next().unwrap_or(text))
                .collect();
            let warned = selection.warnings.join("; ");
            let told = if warning.is_empty() {
                warned.is_empty()
            } else {
                warned.contains(warning)
            };
            (taken != expected || !told).then(|| format!("{name}: {taken:?}, warnings {warned:?}"))
        }
        (Err(error), Refuses(message, hint)) => {
            let (said, hinted) = (error.to_string(), error.hint());
            (!said.contains(message) || !hinted.contains(hint)).then(|| format!("{name}: {said:?}, hint {hinted:?}"))
        }
        (Ok(selection), Refuses(..)) => Some(format!("{name}: taken {:?}", selection.taken)),
        (Err(error), Takes(..)) => Some(format!("{name}: refused with {error}")),
    }
}

#[test]
fn published_repositories_have_the_answer_that_was_decided_before() {
    let tables = [
        indexes_and_adapters,
        beside_the_set,
        for_other_loaders,
        sentence_encoders,
        routers_and_strangers,
        pipelines,
        names_of_pipelines,
        single_files_of_pipelines,
        large_and_hidden_files,
        other_runtimes,
        folders,
        unmet_wishes,
        code,
        raw_parts,
        names_of_quantisations,
    ];
    let cases: Vec<Case> = tables.into_iter().flat_map(|table| table()).collect();
    let problems: Vec<String> = cases.iter().filter_map(problem_of).collect();
    assert!(
        problems.is_empty(),
        "{} of {}:\n{}",
        problems.len(),
        cases.len(),
        problems.join("\n")
    );
}

#[test]
fn what_no_set_takes_says_how_it_is_taken() {
    let reasons = [
        ("kokoro.pth", "a pickle named *.pth"),
        ("MODEL.SAFETENSORS", "small letters"),
        ("X.imatrix.gguf", "an importance matrix"),
        ("mmproj-F16.gguf", "a projector without its model"),
        ("model.onnx", "weights for another runtime"),
    ];
    for (path, reason) in reasons {
        let selection = select(&listed(&[path, "logo.png=5000"]), &Texts::new(), &Wishes::default()).unwrap();
        let error = selection.no_weights().to_string();
        assert!(error.contains(path) && error.contains(reason), "{error}");
        assert!(!error.contains("--format"), "{error}");
    }
}

#[test]
fn texts_that_stay_out_are_not_asked_for() {
    let files = listed(&[
        "config.json",
        "original/model.safetensors.index.json",
        "sub/model.safetensors.index.json",
    ]);
    let asked = |wishes: &Wishes| -> Vec<String> {
        let wanted = wanted_texts(&files, wishes).unwrap();
        wanted.into_iter().map(|file| file.path.clone()).collect()
    };
    assert_eq!(
        asked(&Wishes::default()),
        ["config.json", "sub/model.safetensors.index.json"]
    );
    assert_eq!(asked(&wishes(&[("exclude", "sub/")])), ["config.json"]);
}
