//! `plimsoll facts`: what the bytes of a model say.

use model_facts::ModelFacts;

use crate::{
    arguments::{Facts, ModelArguments},
    fault::Answer,
    model,
    output::{self, Format},
};

pub(crate) fn run(own: &Facts, format: Format) -> anyhow::Result<Answer> {
    let given = ModelArguments {
        plain_http: own.plain_http.clone(),
        ..ModelArguments::default()
    };
    let facts = model::from_word(&own.model, &given)?;
    output::print(format, &facts, || table(&facts))?;
    Ok(Answer::Yes)
}

fn table(facts: &ModelFacts) -> String {
    let mut rows: Vec<Vec<String>> = Vec::new();
    let mut add = |name: &str, value: Option<String>| {
        rows.push(vec![name.to_owned(), value.unwrap_or_else(|| "unknown".to_owned())]);
    };
    let words = |list: &[String]| (!list.is_empty()).then(|| list.join(", "));
    add("architecture", words(&facts.architectures));
    add("family", facts.family.clone());
    add("format", Some(format!("{:?}", facts.format).to_lowercase()));
    add("dtype", facts.dtype.clone());
    add(
        "quantization",
        facts
            .quantization
            .label
            .clone()
            .or_else(|| facts.quantization.method.clone()),
    );
    add("weights", facts.weight_bytes.map(|bytes| format!("{bytes} bytes")));
    add("parameters", facts.parameters.map(|number| number.to_string()));
    add("layers", facts.layers.map(|number| number.to_string()));
    add(
        "attention heads",
        facts.attention_heads.map(|number| number.to_string()),
    );
    add("KV heads", facts.kv_heads.map(|number| number.to_string()));
    add("context", facts.context_length.map(|tokens| format!("{tokens} tokens")));
    let element = model_facts::kv_element_bytes(facts);
    add(
        "KV cache",
        element.and_then(|bytes| model_facts::kv_arithmetic(facts, bytes)),
    );
    add("task", facts.task.clone());
    if facts.remote_code {
        add("remote code", Some("needed".to_owned()));
    }
    for unknown in &facts.unknown {
        rows.push(vec![
            "missing".to_owned(),
            format!("{}: {}", unknown.fact, unknown.missing),
        ]);
    }
    output::columns(&["fact", "value"], &rows)
}
