use super::*;

fn read(text: &str) -> Value {
    Value::Object(object("config.json", text).unwrap())
}

#[test]
fn what_python_writes_is_read() {
    let cases = [
        ("\u{feff}{\r\n  \"a\": 1\r\n}\r\n", r#"{"a":1}"#),
        (
            r#"{"a": NaN, "b": [Infinity, -Infinity], "c": "NaN"}"#,
            r#"{"a":null,"b":[null,null],"c":"NaN"}"#,
        ),
        (
            r#"{"a": 1e999, "b": -1e999, "c": 1000000000000000019884624838656}"#,
            r#"{"a":null,"b":null,"c":1e30}"#,
        ),
        (r#"{"a": 1, "a": 2}"#, r#"{"a":2}"#),
        (
            r#"{"a": "\ud83d", "b": "\ud83d\ude00", "c": "\\ud83d \"N"}"#,
            r#"{"a":"\ufffd","b":"😀","c":"\\ud83d \"N"}"#,
        ),
        ("{\"a\": -5}\n\n  \t", r#"{"a":-5}"#),
    ];
    for (text, wanted) in cases {
        let wanted: Value = serde_json::from_str(wanted).unwrap();
        assert_eq!(read(text), wanted, "{text}");
    }
}

#[test]
fn what_is_no_json_is_refused_with_its_place() {
    let cases = [
        ("", "EOF while parsing a value at line 1 column 0"),
        ("{\"a\": 1,}", "trailing comma at line 1 column 9"),
        ("{\"a\": Nope}", "at line 1 column 7"),
        ("{\n \"a\": 1\n} x", "trailing characters at line 3 column 3"),
        ("{\"a", "EOF while parsing a string"),
        ("{\"a\\", "EOF while parsing a string"),
        ("<html>", "at line 1 column 1"),
        ("[1]", "config.json holds a list, not an object"),
        ("null", "config.json holds null, not an object"),
        (
            "version https://git-lfs.github.com/spec/v1\n",
            "config.json is a Git LFS pointer",
        ),
    ];
    for (text, wanted) in cases {
        let message = object("config.json", text).unwrap_err().to_string();
        assert!(message.contains(wanted), "{text}: {message}");
    }
}

#[test]
fn depth_and_size_are_limited() {
    let deep = format!("{{\"a\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
    assert!(
        object("config.json", &deep)
            .unwrap_err()
            .to_string()
            .contains("recursion limit exceeded")
    );
    let large = format!("{{\"a\":\"{}\"}}", "x".repeat(TEXT_LIMIT));
    assert!(matches!(
        object("config.json", &large),
        Err(FactsError::TooLarge { .. })
    ));
}
