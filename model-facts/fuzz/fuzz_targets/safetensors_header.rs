//! Any bytes, with the size of the file known and unknown; what is read must hold what the format promises.
#![no_main]

use libfuzzer_sys::fuzz_target;
use model_facts::SafetensorsHeader;

fuzz_target!(|bytes: &[u8]| {
    let _ = SafetensorsHeader::parse(bytes, Some(bytes.len() as u64));
    if let Ok(header) = SafetensorsHeader::parse(bytes, None) {
        let mut end = 0;
        for tensor in &header.tensors {
            assert_eq!(tensor.begin, end, "a hole before {}", tensor.name);
            end = tensor.end;
        }
        assert_eq!(header.data_bytes, end);
        assert!(header.data_start <= bytes.len() as u64);
    }
});
