//! Sources that are odd, broken or hostile, each with the answer that was decided before it was tried.
#![allow(clippy::unwrap_used, reason = "what a test needs and does not get is a failed test")]

mod bed;

use bed::Bed;
use fault_proxy::registry::RegistryConfig;
use model_packer::PackError;
use model_packer::gather::Gathered;
use model_packer::prepare::{PackOptions, prepare};
use model_packer::selection::{Format, Patterns, Wishes};
use serde_json::{Value, json};
use standin_hub::{Fault, FaultRule, Side};

/// What is right.
enum Answer {
    /// Packed, with exactly these weights; a warning holds this text where one is due.
    Packs(&'static [&'static str], &'static str),
    /// Refused: the error holds the first text, and the hint the second.
    Refuses(&'static str, &'static str),
}
use Answer::{Packs, Refuses};

/// Name, what is asked for beyond the defaults, the source, and the answer.
struct Case {
    name: &'static str,
    make: fn(&Bed),
    source: &'static str,
    wishes: fn() -> Wishes,
    answer: Answer,
}

const HF: &str = "hf://owner/model";
const MS: &str = "ms://owner/model";
/// The same files, as a folder.
const FOLDER: &str = "folder";
const POINTER: &str = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n";
const BOTH: &[&str] = &["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"];
const INDEX: &str = "model.safetensors.index.json";

fn case(name: &'static str, source: &'static str, make: fn(&Bed), answer: Answer) -> Case {
    Case {
        name,
        make,
        source,
        wishes: Wishes::default,
        answer,
    }
}

fn wishing(wishes: fn() -> Wishes, case: Case) -> Case {
    Case { wishes, ..case }
}

/// Leaves only the configuration.
fn without_weights(bed: &Bed) {
    for name in BOTH.iter().chain([&INDEX]) {
        std::fs::remove_file(bed.file(name)).unwrap();
    }
}

fn only(bed: &Bed, files: &[&str]) {
    without_weights(bed);
    for (number, name) in files.iter().enumerate() {
        let content = match name.rsplit_once('.').map(|(_, suffix)| suffix) {
            Some("safetensors") => bed::safetensors(&format!("t{number}"), 64, number as u64),
            Some("gguf" | "GGUF") => bed::gguf(),
            _ => b"content".to_vec(),
        };
        bed.write(name, content);
    }
}

fn tensors(bed: &Bed, file: &str, names: &[&str]) {
    let entries: serde_json::Map<String, Value> = names
        .iter()
        .enumerate()
        .map(|(at, name)| {
            (
                (*name).to_owned(),
                json!({"dtype": "U8", "shape": [4], "data_offsets": [4 * at, 4 * at + 4]}),
            )
        })
        .collect();
    let header = Value::from(entries).to_string();
    let mut content = (header.len() as u64).to_le_bytes().to_vec();
    content.extend(header.as_bytes());
    content.resize(content.len() + 4 * names.len(), 7);
    bed.write(file, content);
}

/// An answer of the hub in place of its own, for ever.
fn answers(bed: &Bed, path: &str, body: &Value) {
    let fault = Fault::Status {
        code: 200,
        headers: vec![("content-type".into(), "application/json".into())],
        body: body.to_string(),
    };
    bed.hub
        .push_fault(FaultRule::once(Side::Hub, path, fault).times(u32::MAX));
}

fn scope(bed: &Bed, files: &Value) {
    answers(
        bed,
        "repo/files",
        &json!({"Code": 200, "Success": true, "Data": {"Files": files}}),
    );
}

fn fp16() -> Wishes {
    Wishes {
        variant: Some("fp16".into()),
        ..Wishes::default()
    }
}

fn quant() -> Wishes {
    Wishes {
        quant: Some("Q4_K_M".into()),
        ..Wishes::default()
    }
}

fn everything() -> Wishes {
    Wishes {
        include: Patterns::new(["*"]).unwrap(),
        ..Wishes::default()
    }
}

fn as_pickles() -> Wishes {
    Wishes {
        format: Some(Format::Bin),
        ..Wishes::default()
    }
}

fn names() -> Vec<Case> {
    vec![
        case(
            "a name that turns its letters around",
            HF,
            |bed| bed.write("a\u{202e}nosj.json", "x"),
            Refuses("hostile name", "owner explains"),
        ),
        case(
            "two spellings of one accent",
            HF,
            |bed| {
                bed.write("caf\u{e9}.json", "1");
                bed.write("cafe\u{301}.json", "2");
            },
            Refuses("cannot be packed under its name", "--exclude"),
        ),
        case(
            "two cases of one name",
            HF,
            |bed| {
                bed.write("Vocab.txt", "1");
                bed.write("vocab.txt", "2");
            },
            Refuses("cannot be packed under its name", "--exclude"),
        ),
        case(
            "a name that ends in a dot",
            HF,
            |bed| bed.write("vocab.", "1"),
            Refuses("cannot be packed under its name", "--exclude"),
        ),
        case(
            "a device of another system",
            HF,
            |bed| bed.write("nul.json", "1"),
            Refuses("cannot be packed under its name", "--exclude"),
        ),
        case(
            "a name that leads out, beside a good model",
            HF,
            |bed| {
                answers(
                    bed,
                    "/tree/",
                    &json!([{"type": "file", "path": "../../etc/cron.d/x", "size": 1, "oid": "0".repeat(40)}]),
                );
            },
            Refuses("hostile name", "owner explains"),
        ),
        case(
            "an absolute name on ModelScope",
            MS,
            |bed| {
                scope(
                    bed,
                    &json!([{"Path": "/root/.ssh/authorized_keys", "Type": "blob", "Size": 1, "Sha256": "0".repeat(64)}]),
                );
            },
            Refuses("hostile name", "owner explains"),
        ),
        case(
            "an escape of a terminal in a name",
            HF,
            |bed| {
                answers(
                    bed,
                    "/tree/",
                    &json!([{"type": "file", "path": "\u{1b}[2J.json", "size": 1, "oid": "0".repeat(40)}]),
                );
            },
            Refuses("hostile name", "owner explains"),
        ),
        case(
            "a layer's own name",
            HF,
            |bed| bed.write("source.lock", "mine"),
            Packs(BOTH, ""),
        ),
    ]
}

fn indexes() -> Vec<Case> {
    vec![
        case(
            "an index with a byte order mark and a wrong sum",
            HF,
            |bed| {
                let map =
                    json!({"metadata": {"total_size": 1}, "weight_map": {"layer.1": BOTH[0], "layer.2": BOTH[1]}});
                bed.write(INDEX, format!("\u{feff}{map}"));
            },
            Packs(BOTH, ""),
        ),
        case(
            "an index that leads out of the repository",
            HF,
            |bed| {
                bed.write(
                    INDEX,
                    json!({"weight_map": {"layer.1": BOTH[0], "layer.2": "../other/model.safetensors"}}).to_string(),
                );
            },
            Refuses("../other/model.safetensors", "incomplete"),
        ),
        case(
            "an index that names a tensor in the wrong shard",
            HF,
            |bed| {
                bed.write(
                    INDEX,
                    json!({"weight_map": {"layer.1": BOTH[1], "layer.2": BOTH[0]}}).to_string(),
                );
            },
            Refuses("tensor layer.1 is not in", "one revision"),
        ),
        case(
            "an index that names a tensor that no shard has",
            HF,
            |bed| {
                bed.write(
                    INDEX,
                    json!({"weight_map": {"layer.1": BOTH[0], "layer.2": BOTH[1], "lm_head": BOTH[1]}}).to_string(),
                );
            },
            Refuses("tensor lm_head is not in", "one revision"),
        ),
        case(
            "a tensor in two shards",
            HF,
            |bed| {
                tensors(bed, BOTH[0], &["a", "shared"]);
                tensors(bed, BOTH[1], &["b", "shared"]);
                bed.write(
                    INDEX,
                    json!({"weight_map": {"a": BOTH[0], "shared": BOTH[0], "b": BOTH[1]}}).to_string(),
                );
            },
            Refuses("tensor shared is in", "one revision"),
        ),
        case(
            "an index of nothing",
            HF,
            |bed| bed.write(INDEX, r#"{"weight_map": {}}"#),
            Refuses("it names no file", "index"),
        ),
        case(
            "an index that is a list",
            HF,
            |bed| bed.write(INDEX, "[1, 2]"),
            Refuses("is no index", "index"),
        ),
        case(
            "an index that is a pointer, in a clone without LFS",
            FOLDER,
            |bed| bed.write(INDEX, POINTER),
            Refuses("is a Git LFS pointer", "git lfs pull"),
        ),
    ]
}

fn weights() -> Vec<Case> {
    vec![
        case(
            "a tokenizer that is a pointer, in a clone without LFS",
            FOLDER,
            |bed| bed.write("tokenizer.json", POINTER),
            Refuses("tokenizer.json is a Git LFS pointer", "git lfs pull"),
        ),
        case(
            "pickles that are pointers",
            FOLDER,
            |bed| {
                only(bed, &[]);
                bed.write("pytorch_model.bin", POINTER);
            },
            Refuses("is a Git LFS pointer", "git lfs pull"),
        ),
        case(
            "weights without a byte",
            HF,
            |bed| {
                only(bed, &[]);
                bed.write("model.safetensors", "");
            },
            Refuses("model.safetensors is empty", "another revision"),
        ),
        case(
            "pickles without a byte",
            HF,
            |bed| {
                only(bed, &[]);
                bed.write("pytorch_model.bin", "");
            },
            Refuses("pytorch_model.bin is empty", "another revision"),
        ),
        case(
            "a header that is longer than the file",
            HF,
            |bed| {
                only(bed, &[]);
                bed.write("model.safetensors", u64::MAX.to_le_bytes());
            },
            Refuses("no usable safetensors header", ""),
        ),
        case(
            "bytes behind the last tensor",
            HF,
            |bed| {
                let mut content = std::fs::read(bed.file(BOTH[0])).unwrap();
                content.extend(b"payload");
                bed.write(BOTH[0], content);
            },
            Refuses("no usable safetensors header", ""),
        ),
    ]
}

fn weight_sets() -> Vec<Case> {
    vec![
        case(
            "an empty file beside good weights",
            HF,
            |bed| bed.write("added_tokens.json", ""),
            Packs(BOTH, ""),
        ),
        case(
            "only weights for another runtime",
            HF,
            |bed| only(bed, &["onnx/model.onnx", "model.onnx"]),
            Refuses("no weight file was found", "--facts-only"),
        ),
        case(
            "two weight files that no index joins",
            HF,
            |bed| only(bed, &["a.safetensors", "b.safetensors"]),
            Packs(&["a.safetensors", "b.safetensors"], "without an index"),
        ),
        case(
            "two weight sets",
            HF,
            |bed| bed.write("pytorch_model.bin", "PK"),
            Packs(BOTH, ""),
        ),
        wishing(
            as_pickles,
            case(
                "two weight sets, the second one wished for",
                HF,
                |bed| bed.write("pytorch_model.bin", "PK"),
                Packs(&["pytorch_model.bin"], "pickles"),
            ),
        ),
        case(
            "a configuration that is no JSON",
            HF,
            |bed| bed.write("config.json", "{'architectures': None}"),
            Refuses("config.json is not JSON", "download the file again"),
        ),
        case(
            "a pipe in a folder",
            FOLDER,
            |bed| {
                let made = std::process::Command::new("mkfifo")
                    .arg(bed.file("tokenizer.model"))
                    .status()
                    .unwrap();
                assert!(made.success());
            },
            Refuses("neither a file nor a folder", "regular files"),
        ),
        case(
            "a link out of the folder",
            FOLDER,
            |bed| std::os::unix::fs::symlink("/etc/hostname", bed.file("vocab.txt")).unwrap(),
            Refuses("leads out of the folder", "regular files"),
        ),
    ]
}

fn sets_without_an_index() -> Vec<Case> {
    vec![
        case(
            "a whole file beside the shards of it",
            HF,
            |bed| {
                only(bed, &[]);
                tensors(bed, "model-00001-of-00002.safetensors", &["a"]);
                tensors(bed, "model-00002-of-00002.safetensors", &["b"]);
                tensors(bed, "model.safetensors", &["a", "b"]);
            },
            Refuses("tensor a is in", "--exclude"),
        ),
        case(
            "several adapters under names of their own",
            HF,
            |bed| {
                only(bed, &[]);
                bed.write("anime.safetensors", bed::safetensors("lora.up", 64, 1));
                bed.write("photo.safetensors", bed::safetensors("lora.up", 64, 2));
            },
            Refuses(
                "tensor lora.up is in anime.safetensors and in photo.safetensors",
                "--exclude 'photo.safetensors'",
            ),
        ),
        case(
            "an adapter beside the whole model",
            HF,
            |bed| {
                only(bed, &["model.safetensors", "adapter_model.safetensors"]);
                bed.write("adapter_config.json", "{}");
            },
            Packs(&["model.safetensors"], ""),
        ),
        case(
            "the same name of a tensor in two modules",
            HF,
            |bed| {
                only(bed, &["model.safetensors"]);
                bed.write("modules.json", MODULES);
                tensors(bed, "1_Pooling/model.safetensors", &["linear.weight"]);
                tensors(bed, "2_Dense/model.safetensors", &["linear.weight"]);
            },
            Packs(
                &[
                    "1_Pooling/model.safetensors",
                    "2_Dense/model.safetensors",
                    "model.safetensors",
                ],
                "",
            ),
        ),
    ]
}

/// Shards and a whole file with the same tensors, and no index of them.
fn two_sets(bed: &Bed) {
    only(bed, &[]);
    tensors(bed, BOTH[0], &["a"]);
    tensors(bed, BOTH[1], &["b"]);
    tensors(bed, "model.safetensors", &["a", "b"]);
}

fn indexes_of_something_else() -> Vec<Case> {
    vec![
        case(
            "two weight sets beside the index of a third one",
            HF,
            |bed| {
                two_sets(bed);
                bed.write("pytorch_model.bin", "PK");
                let index = json!({"weight_map": {"a": "pytorch_model.bin"}});
                bed.write("pytorch_model.bin.index.json", index.to_string());
            },
            Refuses("tensor a is in", "--exclude"),
        ),
        case(
            "two weight sets beside the index of a search",
            HF,
            |bed| {
                two_sets(bed);
                bed.write("faiss.index.json", "{}");
            },
            Refuses("tensor a is in", "--exclude"),
        ),
        case(
            "an index that names pickles",
            HF,
            |bed| {
                only(bed, &["model.safetensors"]);
                bed.write("pytorch_model.bin", "PK");
                bed.write(INDEX, json!({"weight_map": {"a": "pytorch_model.bin"}}).to_string());
            },
            Refuses(
                "it names pytorch_model.bin, which is no *.safetensors file",
                "--exclude",
            ),
        ),
        case(
            "an index that is a pointer and stays out, in a clone without LFS",
            FOLDER,
            |bed| bed.write("original/model.safetensors.index.json", POINTER),
            Packs(BOTH, ""),
        ),
        case(
            "an index that is a pointer in a folder that nothing needs, in a clone without LFS",
            FOLDER,
            |bed| bed.write("other/model.safetensors.index.json", POINTER),
            Packs(BOTH, ""),
        ),
        case(
            "an index that is a pointer beside a set with a hole, in a clone without LFS",
            FOLDER,
            |bed| {
                std::fs::remove_file(bed.file(BOTH[1])).unwrap();
                bed.write(INDEX, POINTER);
            },
            Refuses("is a Git LFS pointer", "git lfs pull"),
        ),
    ]
}

fn texts_that_decide() -> Vec<Case> {
    vec![
        case(
            "a revision with slashes in its name",
            "hf://owner/model@refs/pr/4",
            |bed| {
                bed.write(".standin.json", r#"{"revisions": ["refs/pr/4"]}"#);
            },
            Packs(BOTH, ""),
        ),
        case(
            "a pipeline's list that is no JSON",
            HF,
            |bed| bed.write("model_index.json", "{"),
            Refuses("model_index.json is no index", "download the index again"),
        ),
        case(
            "modules that are no list",
            HF,
            |bed| bed.write("modules.json", r#"{"path": "x"}"#),
            Packs(BOTH, ""),
        ),
        case(
            "only an index of pickles",
            HF,
            |bed| {
                only(bed, &[]);
                bed.write(
                    "pytorch_model.bin.index.json",
                    r#"{"weight_map": {"a": "pytorch_model-00001-of-00001.bin"}}"#,
                );
            },
            Refuses("pytorch_model-00001-of-00001.bin", "incomplete"),
        ),
    ]
}

fn quantisations() -> Vec<Case> {
    vec![
        case(
            "one model, its projector named last",
            HF,
            |bed| only(bed, &["Vision-7B-Q4_K_M.gguf", "Vision-7B-mmproj-f16.gguf"]),
            Packs(&["Vision-7B-Q4_K_M.gguf", "Vision-7B-mmproj-f16.gguf"], ""),
        ),
        case(
            "capital letters",
            HF,
            |bed| only(bed, &["MODEL-Q4_K_M.GGUF"]),
            Packs(&["MODEL-Q4_K_M.GGUF"], ""),
        ),
        wishing(
            quant,
            case(
                "one quantisation of two models",
                HF,
                |bed| only(bed, &["a-Q4_K_M.gguf", "b-Q4_K_M.gguf"]),
                Refuses("2 quantisations are there", "--exclude"),
            ),
        ),
        wishing(
            quant,
            case(
                "safetensors beside quantisations",
                HF,
                |bed| bed.write("m-Q4_K_M.gguf", bed::gguf()),
                Packs(&["m-Q4_K_M.gguf"], ""),
            ),
        ),
        case(
            "a web page under the name of a model",
            HF,
            |bed| {
                only(bed, &[]);
                bed.write("m.gguf", "<!DOCTYPE html><html>");
            },
            Refuses("no usable GGUF header", ""),
        ),
        wishing(
            quant,
            case(
                "a numbered set with a hole",
                HF,
                |bed| only(bed, &["m-Q4_K_M-00001-of-00003.gguf", "m-Q4_K_M-00003-of-00003.gguf"]),
                Refuses("has 2 of 3 parts", "missing parts"),
            ),
        ),
    ]
}

/// A part of a set, as its header says.
fn part(bed: &Bed, file: &str, number: u16, count: u16) {
    let mut content = b"GGUF".to_vec();
    content.extend(3u32.to_le_bytes());
    content.extend(0u64.to_le_bytes());
    content.extend(3u64.to_le_bytes());
    let mut key = |name: &str, kind: u32, value: &[u8]| {
        content.extend((name.len() as u64).to_le_bytes());
        content.extend(name.as_bytes());
        content.extend(kind.to_le_bytes());
        content.extend(value);
    };
    key("general.architecture", 8, b"\x05\0\0\0\0\0\0\0llama");
    key("split.no", 2, &number.to_le_bytes());
    key("split.count", 2, &count.to_le_bytes());
    content.resize(content.len().next_multiple_of(32), 0);
    bed.write(file, content);
}

fn parts_of_quantisations() -> Vec<Case> {
    const PARTS: [&str; 2] = ["m-Q4_K_M-00001-of-00002.gguf", "m-Q4_K_M-00002-of-00002.gguf"];
    vec![
        case(
            "the parts of a set",
            HF,
            |bed| {
                only(bed, &[]);
                part(bed, PARTS[0], 0, 2);
                part(bed, PARTS[1], 1, 2);
            },
            Packs(&PARTS, ""),
        ),
        case(
            "one part under two names",
            HF,
            |bed| {
                only(bed, &[]);
                part(bed, PARTS[0], 0, 2);
                part(bed, PARTS[1], 0, 2);
            },
            Refuses(
                "m-Q4_K_M-00002-of-00002.gguf is part 2 of 2 by its name and part 1 of 2 by its header",
                "fetch the file again",
            ),
        ),
        case(
            "a part of a larger set",
            HF,
            |bed| {
                only(bed, &[]);
                part(bed, PARTS[0], 0, 2);
                part(bed, PARTS[1], 1, 3);
            },
            Refuses("part 2 of 3 by its header", "another revision"),
        ),
        wishing(
            everything,
            case(
                "weights for another runtime, wished for",
                HF,
                |bed| only(bed, &["onnx/model.onnx", "onnx/model.onnx_data"]),
                Packs(
                    &["onnx/model.onnx", "onnx/model.onnx_data"],
                    "only the runtime that they were made for",
                ),
            ),
        ),
    ]
}

const MODULES: &str = r#"[{"path": "", "type": "x.Transformer"}, {"path": "1_Pooling", "type": "x.Pooling"}, {"path": "2_Dense", "type": "x.Dense"}]"#;
const OLD_MODULES: &str =
    r#"[{"path": "0_Transformer", "type": "x.Transformer"}, {"path": "1_Pooling", "type": "x.Pooling"}]"#;
const PIPELINE: &str = r#"{"_class_name": "P", "text_encoder_3": ["transformers", "T5"], "transformer": ["diffusers", "T"], "vae": ["diffusers", "V"]}"#;

fn sharded_pipeline(bed: &Bed) {
    only(
        bed,
        &[
            "transformer/diffusion_pytorch_model-00001-of-00002.safetensors",
            "transformer/diffusion_pytorch_model-00002-of-00002.safetensors",
            "transformer/diffusion_pytorch_model.fp16-00001-of-00001.safetensors",
            "vae/diffusion_pytorch_model.safetensors",
            "vae/diffusion_pytorch_model.fp16.safetensors",
            "text_encoder_3/model.safetensors",
            "sd3.5_large.safetensors",
        ],
    );
    bed.write("model_index.json", PIPELINE);
    let index = |files: [&str; 2]| json!({"weight_map": {"t0": files[0], "t1": files[1]}}).to_string();
    let plain = [
        "diffusion_pytorch_model-00001-of-00002.safetensors",
        "diffusion_pytorch_model-00002-of-00002.safetensors",
    ];
    bed.write(
        "transformer/diffusion_pytorch_model.safetensors.index.json",
        index(plain),
    );
    let half = "diffusion_pytorch_model.fp16-00001-of-00001.safetensors";
    let half = json!({"weight_map": {"t2": half}}).to_string();
    bed.write("transformer/diffusion_pytorch_model.safetensors.index.fp16.json", half);
}

fn compositions() -> Vec<Case> {
    vec![
        case(
            "a module with two weight sets",
            HF,
            |bed| {
                bed.write("modules.json", MODULES);
                bed.write("2_Dense/config.json", "{}");
                bed.write("2_Dense/model.safetensors", bed::safetensors("dense", 64, 9));
                bed.write("2_Dense/pytorch_model.bin", "PK");
            },
            Packs(
                &[
                    "2_Dense/model.safetensors",
                    "model-00001-of-00002.safetensors",
                    "model-00002-of-00002.safetensors",
                ],
                "",
            ),
        ),
        case(
            "an old sentence encoder whose weights are in a folder",
            HF,
            |bed| {
                only(
                    bed,
                    &[
                        "0_Transformer/model.safetensors",
                        "0_Transformer/pytorch_model.bin",
                        "0_Transformer/tf_model.h5",
                    ],
                );
                bed.write("modules.json", OLD_MODULES);
                bed.write("0_Transformer/config.json", r#"{"model_type": "bert"}"#);
            },
            Packs(&["0_Transformer/model.safetensors"], ""),
        ),
    ]
}

fn pipelines_and_adapters() -> Vec<Case> {
    vec![
        case(
            "a pipeline in shards",
            HF,
            sharded_pipeline,
            Packs(
                &[
                    "text_encoder_3/model.safetensors",
                    "transformer/diffusion_pytorch_model-00001-of-00002.safetensors",
                    "transformer/diffusion_pytorch_model-00002-of-00002.safetensors",
                    "vae/diffusion_pytorch_model.safetensors",
                ],
                "",
            ),
        ),
        wishing(
            fp16,
            case(
                "a pipeline in shards, in half precision",
                HF,
                sharded_pipeline,
                Packs(
                    &[
                        "text_encoder_3/model.safetensors",
                        "transformer/diffusion_pytorch_model.fp16-00001-of-00001.safetensors",
                        "vae/diffusion_pytorch_model.fp16.safetensors",
                    ],
                    "",
                ),
            ),
        ),
        case(
            "an adapter in two formats with its training state",
            HF,
            |bed| {
                only(
                    bed,
                    &[
                        "adapter_model.safetensors",
                        "adapter_model.bin",
                        "checkpoint-100/adapter_model.safetensors",
                        "optimizer.pt",
                    ],
                );
                bed.write("adapter_config.json", r#"{"base_model_name_or_path": "owner/base"}"#);
            },
            Packs(&["adapter_model.safetensors"], ""),
        ),
        case(
            "code that the tokenizer needs",
            HF,
            |bed| {
                bed.write(
                    "tokenizer_config.json",
                    r#"{"auto_map": {"AutoTokenizer": ["tokenization_x.X", null]}}"#,
                );
                bed.write("tokenization_x.py", "import os");
            },
            Packs(BOTH, "--allow-remote-code"),
        ),
        wishing(
            everything,
            case(
                "everything is wished for",
                HF,
                |bed| bed.write("original/consolidated.00.pth", "PK"),
                Packs(
                    &[
                        "model-00001-of-00002.safetensors",
                        "model-00002-of-00002.safetensors",
                        "original/consolidated.00.pth",
                    ],
                    "",
                ),
            ),
        ),
    ]
}

/// A refusal of the hub, or of something on the way to it.
fn refuses(bed: &Bed, path: &str, code: u16, kind: &str, body: &str) {
    let fault = Fault::Status {
        code,
        headers: vec![("content-type".into(), kind.into())],
        body: body.into(),
    };
    bed.hub
        .push_fault(FaultRule::once(Side::Hub, path, fault).times(u32::MAX));
}

fn hub_answers() -> Vec<Case> {
    vec![
        case(
            "a page of a proxy that refuses the repository",
            HF,
            |bed| refuses(bed, "/revision/", 403, "text/html", "<html>blocked</html>"),
            Refuses("the hub answered 403", "look for a proxy"),
        ),
        case(
            "an address that the hub has blocked",
            HF,
            |bed| refuses(bed, "tokenizer.json", 403, "text/plain", "Your IP is blocked"),
            Refuses("the hub answered 403: Your IP is blocked", "a block of this address"),
        ),
        case(
            "a path that is not there and may be a repository",
            "owner/model",
            |_| {},
            Refuses(
                "there is no file or folder owner/model",
                "hf://owner/model or ms://owner/model",
            ),
        ),
        case(
            "a path that is not there",
            "file:///nonexistent",
            |_| {},
            Refuses("there is no file or folder /nonexistent", "spelling of the path"),
        ),
        case(
            "a repository that is closed by a flag",
            HF,
            |bed| {
                answers(
                    bed,
                    "/revision/",
                    &json!({"id": "owner/model", "sha": "a".repeat(40), "disabled": true}),
                );
            },
            Refuses("is disabled by the hub", "another repository"),
        ),
        case(
            "a commit that is no commit",
            HF,
            |bed| answers(bed, "/revision/", &json!({"id": "owner/model", "sha": "main"})),
            Refuses("names no commit", ""),
        ),
        case(
            "a file without a size",
            HF,
            |bed| {
                answers(
                    bed,
                    "/tree/",
                    &json!([{"type": "file", "path": "config.json", "oid": "x"}]),
                );
            },
            Refuses("has no size", ""),
        ),
        case(
            "a file of a negative size",
            HF,
            |bed| {
                answers(
                    bed,
                    "/tree/",
                    &json!([{"type": "file", "path": "config.json", "size": -1}]),
                );
            },
            Refuses("cannot be used", ""),
        ),
        case(
            "a file that is listed twice",
            HF,
            |bed| {
                let entry = json!({"type": "file", "path": "config.json", "size": 2, "oid": "0".repeat(40)});
                answers(bed, "/tree/", &json!([entry, entry]));
            },
            Refuses("is listed twice", ""),
        ),
    ]
}

fn answers_to_a_listing() -> Vec<Case> {
    vec![
        case(
            "an error under the status of a success",
            HF,
            |bed| answers(bed, "/tree/", &json!({"error": "try later"})),
            Refuses("cannot be used", ""),
        ),
        case(
            "a module of another repository in the tree",
            HF,
            |bed| answers(bed, "/tree/", &json!([{"type": "submodule", "path": "x", "size": 0}])),
            Refuses("neither file nor directory", ""),
        ),
        case(
            "names of a repository that lead to each other",
            "hf://old/name",
            |bed| {
                let there = |id: &str, to: &str| {
                    let folder = bed.files.path().join(id);
                    std::fs::create_dir_all(&folder).unwrap();
                    std::fs::write(folder.join(".standin.json"), json!({"renamed_to": to}).to_string()).unwrap();
                };
                there("old/name", "new/name");
                there("new/name", "old/name");
            },
            Refuses("more than five in a row", ""),
        ),
        case(
            "a wait until a date",
            HF,
            |bed| {
                let date = std::time::SystemTime::now() + std::time::Duration::from_millis(1500);
                let headers = vec![("retry-after".to_owned(), httpdate::fmt_http_date(date))];
                bed.hub.push_fault(FaultRule::once(
                    Side::Hub,
                    "/tree/",
                    Fault::Status {
                        code: 429,
                        headers,
                        body: String::new(),
                    },
                ));
            },
            Packs(BOTH, ""),
        ),
    ]
}

fn answers_of_modelscope() -> Vec<Case> {
    vec![
        case(
            "an envelope without a letter",
            MS,
            |bed| answers(bed, "repo/files", &json!({"Code": 200, "Success": true, "Data": null})),
            Refuses("code 200", ""),
        ),
        case(
            "a code that is a text",
            MS,
            |bed| {
                answers(
                    bed,
                    "repo/files",
                    &json!({"Code": "200", "Success": true, "Data": {"Files": []}}),
                );
            },
            Refuses("cannot be used", ""),
        ),
        case(
            "success that is none",
            MS,
            |bed| {
                answers(
                    bed,
                    "repo/files",
                    &json!({"Code": 10_010_100_001u64, "Success": false, "Message": "系统繁忙", "RequestId": "r-1", "Data": {"Files": []}}),
                );
            },
            Refuses("系统繁忙, code 10010100001, request r-1", ""),
        ),
        case(
            "no files at all",
            MS,
            |bed| scope(bed, &Value::Null),
            Refuses("lists no files", ""),
        ),
    ]
}

/// The reason why there is no file, with HTTP 200 and in its place.
fn holds_back(bed: &Bed, file: &str) {
    let envelope =
        json!({"Code": 10_010_205_099u64, "Success": false, "Message": "文件审核中", "RequestId": "r2", "Data": null});
    answers(bed, &format!("FilePath={file}"), &envelope);
}

fn files_of_modelscope() -> Vec<Case> {
    const HELD_BACK: Answer = Refuses(
        "the hub answered 200: 文件审核中, code 10010205099, request r2",
        "holds it back",
    );
    vec![
        case(
            "a text that the hub holds back",
            MS,
            |bed| holds_back(bed, "config.json"),
            HELD_BACK,
        ),
        case(
            "weights that the hub holds back",
            MS,
            |bed| holds_back(bed, BOTH[0]),
            HELD_BACK,
        ),
        case(
            "a file of unknown size that the hub holds back",
            MS,
            |bed| {
                bed.write(".standin.json", r#"{"unsized_files": ["config.json"]}"#);
                holds_back(bed, "config.json");
            },
            HELD_BACK,
        ),
        case(
            "a text of unknown size that comes whole",
            MS,
            |bed| {
                bed.write(".standin.json", r#"{"unsized_files": ["generation_config.json"]}"#);
                bed.write("generation_config.json", "{}");
                answers(bed, "FilePath=generation_config.json", &json!({}));
            },
            Packs(BOTH, ""),
        ),
        case(
            "a file that may not be read, for a reason",
            MS,
            |bed| {
                let envelope = json!({"Code": 7, "Success": false, "Message": "限流", "RequestId": "r3"}).to_string();
                refuses(bed, "FilePath=config.json", 400, "application/json", &envelope);
            },
            Refuses("config.json: the hub answered 400: 限流, code 7, request r3", ""),
        ),
        case(
            "another document in place of weights",
            MS,
            |bed| answers(bed, &format!("FilePath={}", BOTH[0]), &json!({"message": "moved"})),
            Refuses("19 bytes of JSON came, the listing says", ""),
        ),
    ]
}

fn entries_of_modelscope() -> Vec<Case> {
    vec![
        case(
            "the hash of nothing for a file of something",
            MS,
            |bed| {
                let nothing = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
                scope(
                    bed,
                    &json!([{"Path": "model.safetensors", "Type": "blob", "Size": 100, "Sha256": nothing}]),
                );
            },
            Refuses("the hash of nothing", ""),
        ),
        case(
            "a hash with a prefix",
            MS,
            |bed| {
                scope(
                    bed,
                    &json!([{"Path": "model.safetensors", "Type": "blob", "Size": 100, "Sha256": format!("sha256:{}", "0".repeat(64))}]),
                );
            },
            Refuses("the hash of", ""),
        ),
        case(
            "an entry of a kind that nobody knows",
            MS,
            |bed| scope(bed, &json!([{"Path": "x", "Type": "commit", "Size": 1}])),
            Refuses("neither blob nor tree", ""),
        ),
        case(
            "a portal in front of ModelScope",
            MS,
            |bed| {
                bed.hub
                    .push_fault(FaultRule::once(Side::Hub, "repo/files", Fault::Page).times(u32::MAX));
            },
            Refuses("login page", ""),
        ),
    ]
}

/// Everything that comes before the first byte is sent.
async fn pack(bed: &Bed, source: &str, wishes: &Wishes) -> Result<Gathered, PackError> {
    let gathered = bed.gather(source, wishes).await?;
    let prepared = prepare(&gathered, wishes, &PackOptions::default()).await?;
    artifact::build_manifest(&prepared.package)?;
    Ok(gathered)
}

/// Nothing when it is right, else what is wrong.
async fn problem_of(case: &Case) -> Option<String> {
    let bed = Bed::of_size(1000, bed::PART, |hub| hub.page_size = 1000, RegistryConfig::default()).await;
    (case.make)(&bed);
    let folder = bed.files.path().join(bed::MODEL);
    let source = if case.source == FOLDER {
        folder.to_str().unwrap()
    } else {
        case.source
    };
    let outcome = pack(&bed, source, &(case.wishes)()).await;
    assert_eq!(bed.hub.violations(), []);
    match (outcome, &case.answer) {
        (Ok(gathered), Packs(weights, warning)) => {
            let taken = gathered
                .selection
                .taken
                .iter()
                .filter(|taken| taken.kind == artifact::FileKind::Weight);
            let found: Vec<&str> = taken.map(|taken| taken.path.as_str()).collect();
            let warned = gathered.selection.warnings.join("; ");
            let right = found == *weights && warned.contains(warning);
            (!right).then(|| format!("{}: {found:?}, warnings {warned:?}", case.name))
        }
        (Err(error), Refuses(message, hint)) => {
            let (said, hinted) = (bed::chain(&error), error.hint().unwrap_or_default());
            let right = said.contains(message) && hinted.contains(hint) && !error.is_ours();
            (!right).then(|| format!("{}: {said:?}, hint {hinted:?}", case.name))
        }
        (Ok(gathered), Refuses(..)) => Some(format!("{}: packed {:?}", case.name, gathered.selection.taken)),
        (Err(error), Packs(..)) => Some(format!("{}: refused with {:?}", case.name, bed::chain(&error))),
    }
}

/// Cases at the same time.
const AT_ONCE: usize = 6;

#[test]
fn odd_sources_have_the_answer_that_was_decided_before() {
    let tables = [
        names,
        indexes,
        weights,
        weight_sets,
        sets_without_an_index,
        indexes_of_something_else,
        texts_that_decide,
        quantisations,
        parts_of_quantisations,
        compositions,
        pipelines_and_adapters,
        hub_answers,
        answers_to_a_listing,
        answers_of_modelscope,
        files_of_modelscope,
        entries_of_modelscope,
    ];
    let cases: Vec<Case> = tables.into_iter().flat_map(|table| table()).collect();
    let problems = bed::in_lanes(AT_ONCE, async |lane| {
        let mut problems = Vec::new();
        for case in cases.iter().skip(lane).step_by(AT_ONCE) {
            problems.extend(problem_of(case).await);
        }
        problems
    });
    let problems: Vec<String> = problems.into_iter().flatten().collect();
    assert!(
        problems.is_empty(),
        "{} of {}:\n{}",
        problems.len(),
        cases.len(),
        problems.join("\n")
    );
}
