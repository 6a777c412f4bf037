mod cases;

use super::*;
use crate::sources::HubHash;

fn files(names: &[(&str, u64)]) -> Vec<ListedFile> {
    let file = |(path, size): &(&str, u64)| ListedFile {
        path: (*path).to_owned(),
        size: *size,
        hash: HubHash::Unknown,
    };
    names.iter().map(file).collect()
}

fn small(names: &[&str]) -> Vec<ListedFile> {
    files(&names.iter().map(|name| (*name, 100)).collect::<Vec<_>>())
}

fn texts(pairs: &[(&str, &str)]) -> Texts {
    pairs
        .iter()
        .map(|(path, text)| ((*path).to_owned(), (*text).to_owned()))
        .collect()
}

fn taken(selection: &Selection) -> Vec<&str> {
    selection.taken.iter().map(|file| file.path.as_str()).collect()
}

fn weights(selection: &Selection) -> Vec<&str> {
    selection
        .taken
        .iter()
        .filter(|file| file.kind == FileKind::Weight)
        .map(|file| file.path.as_str())
        .collect()
}

fn choose(names: &[&str], wishes: &Wishes) -> Result<Selection, SelectionError> {
    select(&small(names), &Texts::new(), wishes)
}

fn including(patterns: &[&str]) -> Wishes {
    Wishes {
        include: Patterns::new(patterns).unwrap(),
        ..Wishes::default()
    }
}

fn quant(label: &str) -> Wishes {
    Wishes {
        quant: Some(label.to_owned()),
        ..Wishes::default()
    }
}

const INDEX: &str =
    r#"{"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}}"#;
const SHARDS: [&str; 3] = [
    "model-00001-of-00002.safetensors",
    "model-00002-of-00002.safetensors",
    "model.safetensors.index.json",
];

#[test]
fn one_weight_set_is_taken_and_every_other_file_has_its_reason() {
    let names = [
        "README.md",
        "LICENSE",
        "config.json",
        "tokenizer.json",
        "model.safetensors",
        "pytorch_model.bin",
        "tf_model.h5",
        "flax_model.msgpack",
        "onnx/model.onnx",
        "original/consolidated.00.pth",
        ".gitattributes",
        "logo.png",
        "modeling_x.py",
        "training_args.bin",
        "new_sort_of_config.json",
        "eval/results.json",
    ];
    insta::assert_yaml_snapshot!(choose(&names, &Wishes::default()).unwrap());
}

#[test]
fn the_index_decides_which_shards_are_taken() {
    let names = [&SHARDS[..], &["model.safetensors", "extra.safetensors", "config.json"]].concat();
    let selection = select(&small(&names), &texts(&[(SHARDS[2], INDEX)]), &Wishes::default()).unwrap();
    assert_eq!(weights(&selection), SHARDS[..2]);
}

#[test]
fn a_shard_in_a_subfolder_is_taken_when_the_index_names_it() {
    let index = r#"{"weight_map": {"a": "model.safetensors", "b": "audio/tower.safetensors"}}"#;
    let names = [
        "model.safetensors",
        "audio/tower.safetensors",
        "other/x.safetensors",
        "model.safetensors.index.json",
    ];
    let selection = select(
        &small(&names),
        &texts(&[("model.safetensors.index.json", index)]),
        &Wishes::default(),
    )
    .unwrap();
    assert_eq!(weights(&selection), ["audio/tower.safetensors", "model.safetensors"]);
}

#[test]
fn a_missing_shard_is_an_error_that_names_it() {
    let error = select(
        &small(&[SHARDS[0], SHARDS[2]]),
        &texts(&[(SHARDS[2], INDEX)]),
        &Wishes::default(),
    )
    .unwrap_err();
    assert_eq!(
        error.to_string(),
        "model.safetensors.index.json names what is not there: model-00002-of-00002.safetensors"
    );
    let excluded = Wishes {
        exclude: Patterns::new(["*-00002-*"]).unwrap(),
        ..Wishes::default()
    };
    let error = select(&small(&SHARDS), &texts(&[(SHARDS[2], INDEX)]), &excluded).unwrap_err();
    assert!(error.to_string().contains("the patterns leave out"), "{error}");
}

#[test]
fn numbered_files_without_an_index_must_be_complete() {
    assert_eq!(weights(&choose(&SHARDS[..2], &Wishes::default()).unwrap()), SHARDS[..2]);
    assert_eq!(
        choose(&SHARDS[1..2], &Wishes::default()),
        Err(SelectionError::IncompleteSet {
            name: "model".into(),
            found: 1,
            total: 2
        })
    );
}

#[test]
fn exactly_one_quantisation_is_taken_with_all_its_parts_and_one_projector() {
    let names = [
        "m-Q4_K_M-00001-of-00002.gguf",
        "m-Q4_K_M-00002-of-00002.gguf",
        "m-Q8_0.gguf",
        "mmproj-F16.gguf",
        "mmproj-F32.gguf",
        "imatrix.gguf",
        "config.json",
    ];
    let selection = choose(&names, &quant("q4_k_m")).unwrap();
    assert_eq!(weights(&selection), [names[0], names[1], names[3]]);
    let error = choose(&names, &Wishes::default()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "2 quantisations are there: Q4_K_M (200 B), Q8_0 (100 B)"
    );
    assert_eq!(error.hint(), "choose one, for example --quant Q4_K_M");
    assert!(matches!(
        choose(&names, &quant("Q2_K")),
        Err(SelectionError::NoSuchQuant { .. })
    ));
    assert!(matches!(
        choose(&names[1..], &quant("Q4_K_M")),
        Err(SelectionError::IncompleteSet { found: 1, total: 2, .. })
    ));
}

#[test]
fn a_single_gguf_needs_no_wish() {
    let selection = choose(
        &["SmolLM2-135M-Instruct.Q4_1.gguf", "config.json", "LICENSE"],
        &Wishes::default(),
    )
    .unwrap();
    assert_eq!(
        taken(&selection),
        ["LICENSE", "SmolLM2-135M-Instruct.Q4_1.gguf", "config.json"]
    );
}

#[test]
fn raw_parts_are_never_a_model() {
    let parts = ["m.Q6_K.gguf.part1of2", "m.Q6_K.gguf.part2of2"];
    let error = choose(&parts, &Wishes::default()).unwrap_err();
    assert_eq!(
        error,
        SelectionError::RawParts {
            name: "m.Q6_K.gguf".into(),
            parts: parts.map(str::to_owned).to_vec(),
            missing: Vec::new(),
        }
    );
    let beside = choose(&[parts[0], parts[1], "m.Q4_0.gguf"], &Wishes::default()).unwrap();
    assert_eq!(taken(&beside), ["m.Q4_0.gguf"]);
}

#[test]
fn mistrals_own_format_comes_first_and_can_be_declined() {
    let names = [
        "consolidated.safetensors",
        "params.json",
        "tekken.json",
        "config.json",
        "model.safetensors",
    ];
    assert_eq!(
        weights(&choose(&names, &Wishes::default()).unwrap()),
        ["consolidated.safetensors"]
    );
    let wishes = Wishes {
        format: Some(Format::Safetensors),
        ..Wishes::default()
    };
    assert_eq!(weights(&choose(&names, &wishes).unwrap()), ["model.safetensors"]);
    let wishes = Wishes {
        format: Some(Format::Gguf),
        ..Wishes::default()
    };
    assert_eq!(choose(&names, &wishes), Err(SelectionError::NoSuchFormat("gguf")));
}

#[test]
fn variants_are_the_same_weights_twice() {
    let names = ["model.safetensors", "model.fp16.safetensors", "config.json"];
    assert_eq!(
        weights(&choose(&names, &Wishes::default()).unwrap()),
        ["model.safetensors"]
    );
    let wishes = Wishes {
        variant: Some("fp16".into()),
        ..Wishes::default()
    };
    assert_eq!(weights(&choose(&names, &wishes).unwrap()), ["model.fp16.safetensors"]);
    assert_eq!(
        weights(&choose(&names[1..], &Wishes::default()).unwrap()),
        ["model.fp16.safetensors"]
    );
}

#[test]
fn diffusers_folders_are_taken_one_set_each() {
    let index = r#"{"_class_name": "Pipeline", "unet": ["diffusers", "UNet"], "vae": ["diffusers", "Vae"], "tokenizer": ["transformers", "T"], "safety": [null, null]}"#;
    let names = [
        "model_index.json",
        "unet/config.json",
        "unet/diffusion_pytorch_model.safetensors",
        "unet/diffusion_pytorch_model.bin",
        "unet/diffusion_pytorch_model.fp16.safetensors",
        "vae/diffusion_pytorch_model.bin",
        "v1-5.safetensors",
        "tokenizer/vocab.json",
    ];
    let selection = select(
        &small(&names),
        &texts(&[("model_index.json", index)]),
        &Wishes::default(),
    )
    .unwrap();
    assert_eq!(
        weights(&selection),
        [
            "unet/diffusion_pytorch_model.safetensors",
            "vae/diffusion_pytorch_model.bin"
        ]
    );
    assert!(taken(&selection).contains(&"tokenizer/vocab.json") && taken(&selection).contains(&"unet/config.json"));
}

#[test]
fn adapters_and_sentence_transformers_keep_their_parts() {
    let adapter = choose(
        &["adapter_config.json", "adapter_model.safetensors", "README.md"],
        &Wishes::default(),
    )
    .unwrap();
    assert_eq!(weights(&adapter), ["adapter_model.safetensors"]);
    let modules = r#"[{"path": ""}, {"path": "1_Pooling"}, {"path": "2_Dense"}]"#;
    let names = [
        "modules.json",
        "model.safetensors",
        "1_Pooling/config.json",
        "2_Dense/model.safetensors",
        "3_x/y.json",
    ];
    let selection = select(&small(&names), &texts(&[("modules.json", modules)]), &Wishes::default()).unwrap();
    assert_eq!(
        taken(&selection),
        [
            "1_Pooling/config.json",
            "2_Dense/model.safetensors",
            "model.safetensors",
            "modules.json"
        ]
    );
}

#[test]
fn code_goes_in_only_when_allowed_and_the_need_for_it_is_said() {
    let names = ["config.json", "model.safetensors", "modeling_x.py", "sub/y.py"];
    let config = texts(&[("config.json", r#"{"auto_map": {}}"#)]);
    let selection = select(&small(&names), &config, &Wishes::default()).unwrap();
    assert_eq!(taken(&selection), ["config.json", "model.safetensors"]);
    assert!(selection.warnings[0].contains("--allow-remote-code"));
    let wishes = Wishes {
        allow_remote_code: true,
        ..Wishes::default()
    };
    assert_eq!(taken(&select(&small(&names), &config, &wishes).unwrap()), names);
}

#[test]
fn include_patterns_narrow_and_also_reach_what_is_never_taken_by_itself() {
    let names = [
        "config.json",
        "model.safetensors",
        "original/consolidated.00.pth",
        "onnx/model.onnx",
    ];
    assert_eq!(
        taken(&choose(&names, &including(&["original/", "config.json"])).unwrap()),
        ["config.json", "original/consolidated.00.pth"]
    );
}

#[test]
fn hostile_names_stop_everything_and_awkward_ones_only_where_they_matter() {
    for name in ["../evil", "/etc/passwd", "a\\b", "a/../b", "a\nb", "C:x", "a//b"] {
        let error = choose(&["model.safetensors", name], &Wishes::default()).unwrap_err();
        assert!(matches!(error, SelectionError::Hostile(_)), "{name:?}: {error:?}");
    }
    assert!(choose(&["model.safetensors", "runs/a "], &Wishes::default()).is_ok());
    assert!(matches!(
        choose(&["model.safetensors", "con.json"], &Wishes::default()),
        Err(SelectionError::Name(_))
    ));
    assert!(matches!(
        choose(&["model.safetensors", "a.json", "A.json"], &Wishes::default()),
        Err(SelectionError::Name(_))
    ));
    let exclude = Wishes {
        exclude: Patterns::new(["../evil"]).unwrap(),
        ..Wishes::default()
    };
    assert!(choose(&["model.safetensors", "../evil"], &exclude).is_ok());
}

#[test]
fn a_lock_of_the_repository_does_not_take_the_place_of_ours() {
    let selection = choose(&["model.safetensors", "source.lock"], &Wishes::default()).unwrap();
    assert_eq!(taken(&selection), ["model.safetensors"]);
}

#[test]
fn wishes_survive_the_lock() {
    let wishes = Wishes {
        include: Patterns::new(["*.json", "a/"]).unwrap(),
        exclude: Patterns::new(["x"]).unwrap(),
        quant: Some("Q4_K_M".into()),
        variant: None,
        format: Some(Format::Gguf),
        allow_remote_code: true,
    };
    let back = Wishes::from_options(&wishes.to_options()).unwrap();
    assert_eq!(back.to_options(), wishes.to_options());
}
