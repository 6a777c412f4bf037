use proptest::prelude::*;

use super::*;

fn path(text: &str) -> FilePath {
    text.parse().unwrap()
}

#[test]
fn ordinary_names_of_models_are_taken_as_they_are() {
    for name in [
        "config.json",
        "model-00001-of-00002.safetensors",
        "onnx/model_quantized.onnx",
        "1_Pooling/config.json",
        ".gitattributes",
        "a b/c d.txt",
        "模型/权重.safetensors",
        "Qwen2.5-0.5B-Instruct-Q4_K_M.gguf",
        "model:q4.gguf",
        "a#b&c=d+e%20?.json",
        "...three-dots",
        "console.log",
        "com10.txt",
    ] {
        assert_eq!(name.parse::<FilePath>().unwrap().as_str(), name);
    }
}

#[test]
fn hostile_names_are_refused_with_the_reason() {
    let long = "x".repeat(256);
    for (name, fragment) in [
        ("", "empty segment"),
        ("a//b", "empty segment"),
        ("a/", "empty segment"),
        ("/etc/passwd", "absolute"),
        ("C:/windows", "absolute"),
        ("c:model", "absolute"),
        ("..", "steps out"),
        ("a/../../b", "steps out"),
        ("./a", "steps out"),
        ("a\\b", "backslash"),
        ("..\\..\\a", "backslash"),
        ("a\0b", "U+0000"),
        ("a\nb", "U+000A"),
        ("a\u{7f}", "U+007F"),
        ("a\u{85}b", "U+0085"),
        ("weights\u{202E}txt.exe", "U+202E"),
        ("model.", "ends in a dot"),
        ("folder /a", "ends in a dot or a space"),
        ("NUL", "reserved"),
        ("sub/aux.txt", "reserved"),
        ("com1.safetensors", "reserved"),
        ("LPT¹", "reserved"),
        (long.as_str(), "256 bytes"),
    ] {
        let error = name.parse::<FilePath>().unwrap_err().to_string();
        assert!(error.contains(fragment), "{name:?}: {error}");
        assert!(
            !error.chars().any(char::is_control),
            "{name:?} reaches a terminal: {error:?}"
        );
    }
}

#[test]
fn names_that_meet_on_some_file_system_are_refused_as_a_set() {
    for (first, second) in [
        ("README.md", "readme.MD"),
        ("caf\u{e9}.txt", "cafe\u{301}.txt"),
        ("straße", "STRASSE"),
        ("a", "a/b"),
        ("A", "a/b"),
        ("Sub/one", "sub/two"),
        ("same", "same"),
    ] {
        assert!(
            check_collisions([&path(first), &path(second)]).is_err(),
            "{first} and {second}"
        );
        assert!(
            check_collisions([&path(second), &path(first)]).is_err(),
            "{second} and {first}"
        );
    }
    let good = ["a/b", "a/c", "ab", "d/a/b"].map(path);
    assert_eq!(check_collisions(&good), Ok(()));
}

proptest! {
    #[test]
    fn an_accepted_name_never_leaves_its_folder(text in "[a-z./\\\\ :\0-\u{1f}]{0,24}") {
        if let Ok(path) = text.parse::<FilePath>() {
            let joined = std::path::Path::new("/store").join(path.as_str());
            prop_assert!(joined.starts_with("/store"));
            let all_normal = joined.components().skip(1).all(|part| matches!(part, std::path::Component::Normal(_)));
            prop_assert!(all_normal);
            prop_assert_eq!(path.segments().count(), joined.components().count() - 2);
        }
    }
}
