//! Any bytes behind a right magic; what is read must lie inside the file, and its facts must be derivable.
#![no_main]

use libfuzzer_sys::fuzz_target;
use model_facts::{GgufHeader, ModelFiles, derive};

fuzz_target!(|bytes: &[u8]| {
    let file = [b"GGUF\x03\x00\x00\x00".as_slice(), bytes].concat();
    let _ = GgufHeader::parse(&file, None);
    if let Ok(header) = GgufHeader::parse(&file, Some(file.len() as u64)) {
        assert!(header.tensors.is_empty() || header.file_size() <= file.len() as u64);
        let _ = derive(&ModelFiles { gguf: vec![header], ..ModelFiles::default() });
    }
});
