//! Any text as config.json, params.json and the side files; facts must survive their own serialisation.
#![no_main]

use libfuzzer_sys::fuzz_target;
use model_facts::{ModelFacts, ModelFiles, derive, kv_bytes_per_token};

fuzz_target!(|text: &str| {
    let mut with_side_files = ModelFiles { config: Some("{}".to_owned()), ..ModelFiles::default() };
    for name in ["quant_model_description.json", "hf_quant_config.json", "modules.json", "sentence_bert_config.json"] {
        with_side_files.texts.insert(name.to_owned(), text.to_owned());
        let _ = derive(&with_side_files);
    }
    let mut params = ModelFiles::default();
    params.texts.insert("params.json".to_owned(), text.to_owned());
    let _ = derive(&params);
    let config = ModelFiles { config: Some(text.to_owned()), ..ModelFiles::default() };
    if let Ok(facts) = derive(&config) {
        let _ = kv_bytes_per_token(&facts, 2, 2, 2);
        let serialised = serde_json_round_trip(&facts);
        assert_eq!(serialised, facts);
    }
});

fn serde_json_round_trip(facts: &ModelFacts) -> ModelFacts {
    let text = serde_json::to_string(facts).expect("facts are plain data");
    serde_json::from_str(&text).expect("facts read back")
}
