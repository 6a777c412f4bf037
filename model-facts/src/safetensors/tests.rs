use super::*;

fn file(json: &str, data: usize) -> Vec<u8> {
    let mut bytes = (json.len() as u64).to_le_bytes().to_vec();
    bytes.extend_from_slice(json.as_bytes());
    bytes.resize(bytes.len() + data, 0);
    bytes
}

fn parse(json: &str, data: usize) -> Result<SafetensorsHeader, SafetensorsError> {
    let bytes = file(json, data);
    SafetensorsHeader::parse(&bytes, Some(bytes.len() as u64))
}

#[test]
fn a_header_is_read_with_its_tensors_in_the_order_of_their_bytes() {
    let header = parse(
        r#"{"b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]},"a":{"dtype":"BF16","shape":[1,2],"data_offsets":[0,4]},"__metadata__":{"format":"pt"}}   "#,
        12,
    )
    .unwrap();
    let seen: Vec<(&str, u64, u64)> = header
        .tensors
        .iter()
        .map(|tensor| (tensor.name.as_str(), tensor.bytes(), tensor.elements()))
        .collect();
    assert_eq!(seen, [("a", 4, 2), ("b", 8, 2)]);
    assert_eq!(header.data_bytes, 12);
    assert_eq!(header.metadata["format"], "pt");
}

#[test]
fn empty_tensors_scalars_and_an_empty_file_are_legal() {
    assert_eq!(parse("{}", 0).unwrap().tensors, []);
    let header = parse(
        r#"{"empty":{"dtype":"F32","shape":[0,7],"data_offsets":[0,0]},"scalar":{"dtype":"I64","shape":[],"data_offsets":[0,8]},"end":{"dtype":"U8","shape":[0],"data_offsets":[8,8]}}"#,
        8,
    )
    .unwrap();
    assert_eq!(header.tensors.len(), 3);
    assert_eq!(header.data_bytes, 8);
}

#[test]
fn a_short_prefix_says_exactly_how_much_is_needed() {
    let bytes = file(r#"{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}"#, 1);
    let header = bytes.len() - 1;
    let size = Some(bytes.len() as u64);
    assert_eq!(
        SafetensorsHeader::parse(&[], size),
        Err(SafetensorsError::NeedMore { bytes: 8 })
    );
    for end in 8..header {
        let wanted = SafetensorsError::NeedMore { bytes: header as u64 };
        assert_eq!(
            SafetensorsHeader::parse(&bytes[..end], size),
            Err(wanted),
            "prefix of {end}"
        );
    }
    assert!(SafetensorsHeader::parse(&bytes[..header], size).is_ok());
}

#[test]
fn sub_byte_types_count_bits_and_unknown_types_count_their_offsets() {
    assert!(parse(r#"{"a":{"dtype":"F4","shape":[4],"data_offsets":[0,2]}}"#, 2).is_ok());
    assert!(parse(r#"{"a":{"dtype":"F6_E2M3","shape":[4],"data_offsets":[0,3]}}"#, 3).is_ok());
    assert!(parse(r#"{"a":{"dtype":"F4","shape":[3],"data_offsets":[0,2]}}"#, 2).is_err());
    assert!(parse(r#"{"a":{"dtype":"Q9","shape":[3],"data_offsets":[0,5]}}"#, 5).is_ok());
}

#[test]
fn what_is_wrong_is_named() {
    let huge = u64::MAX.to_string();
    let cases: &[(&str, usize, &str)] = &[
        (
            r#"{"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}"#,
            2,
            "tensor a starts at 1, expected 0",
        ),
        (
            r#"{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}}"#,
            3,
            "tensor b starts at 1, expected 2",
        ),
        (
            r#"{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}"#,
            0,
            "describes",
        ),
        (
            r#"{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}"#,
            9,
            "describes",
        ),
        (
            r#"{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,1]}}"#,
            1,
            "tensor a has 1 bytes",
        ),
        (
            r#"{"a":{"dtype":"U8","shape":[-1],"data_offsets":[0,1]}}"#,
            1,
            "header is not valid",
        ),
        (
            r#"{"a":{"dtype":"U8","shape":[1],"data_offsets":[1,0]}}"#,
            1,
            "ends at 0 before it begins at 1",
        ),
        (
            r#"{"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}"#,
            0,
            "tensor a is there twice",
        ),
        (r#"{"__metadata__":{"a":1}}"#, 0, "header is not valid"),
        (r#"{"a":{"dtype":"U8","shape":[1]}}"#, 1, "data_offsets"),
        (" {}", 0, "opening brace"),
        ("{} x", 0, "header is not valid"),
    ];
    for (json, data, wanted) in cases {
        let message = parse(json, *data).unwrap_err().to_string();
        assert!(message.contains(wanted), "{json}: {message}");
    }
    let overflow = format!(r#"{{"a":{{"dtype":"F32","shape":[{huge},2],"data_offsets":[0,1]}}}}"#);
    assert!(matches!(parse(&overflow, 1), Err(SafetensorsError::Overflow { .. })));
    let edge = format!(r#"{{"a":{{"dtype":"Q9","shape":[],"data_offsets":[0,{huge}]}}}}"#);
    assert!(matches!(parse(&edge, 1), Err(SafetensorsError::Overflow { .. })));
}

#[test]
fn files_that_are_something_else_are_called_by_their_name() {
    let cases: &[(&[u8], &str)] = &[
        (
            b"version https://git-lfs.github.com/spec/v1\noid sha256:00",
            "a Git LFS pointer",
        ),
        (b"GGUF\x03\x00\x00\x00\x00", "a GGUF file"),
        (b"<!DOCTYPE html><html>", "an HTML page"),
        (b"PK\x03\x04aaaaaaaa", "a zip archive"),
    ];
    for (bytes, wanted) in cases {
        let message = SafetensorsHeader::parse(bytes, None).unwrap_err().to_string();
        assert!(message.contains(wanted), "{message}");
    }
    let too_large = SafetensorsHeader::parse(&(HEADER_LIMIT + 1).to_le_bytes(), None);
    assert!(matches!(too_large, Err(SafetensorsError::HeaderTooLarge { .. })));
    let cut = SafetensorsHeader::parse(&100_u64.to_le_bytes(), Some(50));
    assert_eq!(
        cut,
        Err(SafetensorsError::FileSize {
            expected: 108,
            actual: 50
        })
    );
}
