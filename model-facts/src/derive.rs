//! From files to facts.

mod experts;
mod gguf;
mod identity;
mod params;
mod shape;
mod task;
mod weights;

pub(crate) use weights::{has_packed_tensors, largest_dtype};

use crate::config::Config;
use crate::draft::Draft;
use crate::error::FactsError;
use crate::facts::{Adapter, ModelFacts, WeightFormat};
use crate::files::ModelFiles;
use crate::gguf::RawPart;
use crate::{context, json, layers, quantization};

/// Derives what the files say. What they do not say is named in [`ModelFacts::unknown`]; the error is for files that cannot be read.
pub fn derive(input: &ModelFiles) -> Result<ModelFacts, FactsError> {
    let mut draft = Draft::default();
    draft.facts.checkpoint.clone_from(&input.checkpoint);
    check_indexes(input)?;
    refuse_raw_parts(input)?;
    let config = read_config(input)?;
    draft.facts.format = format(input);
    draft.facts.adapter = adapter(input)?;
    match (&config, input.gguf.is_empty()) {
        (_, false) => gguf::derive(&mut draft, &input.gguf),
        (Some(config), true) => from_config(&mut draft, config, input)?,
        (None, true) => without_config(&mut draft, input)?,
    }
    Ok(draft.finish())
}

/// config.json, else params.json in the same words.
fn read_config(input: &ModelFiles) -> Result<Option<Config>, FactsError> {
    let text = input.config.as_deref().or_else(|| input.text("config.json"));
    if let Some(text) = text {
        return Ok(Some(Config::new("config.json", json::object("config.json", text)?)));
    }
    match input.text("params.json") {
        Some(text) => Ok(Some(params::translate(&json::object("params.json", text)?))),
        None => Ok(None),
    }
}

fn from_config(draft: &mut Draft, config: &Config, input: &ModelFiles) -> Result<(), FactsError> {
    identity::derive(draft, config);
    identity::tokenizer_code(draft, input)?;
    weights::derive(draft, input);
    identity::dtype(draft, config, input);
    quantization::derive(draft, Some(config), input)?;
    weights::parameters(draft, input);
    shape::derive(draft, config);
    experts::derive(draft, config);
    context::derive(draft, config, input)?;
    layers::derive(draft, config);
    task::derive(draft, config, input)
}

/// An adapter, a pipeline, or a quantization side file alone.
fn without_config(draft: &mut Draft, input: &ModelFiles) -> Result<(), FactsError> {
    weights::derive(draft, input);
    quantization::derive(draft, None, input)?;
    if let Some(text) = input.text("model_index.json") {
        identity::pipeline(draft, &json::object("model_index.json", text)?);
    } else if draft.facts.adapter.is_none() && draft.facts.quantization.found_in.is_none() {
        return Err(FactsError::NothingToRead);
    }
    for fact in ["contextLength", "dtype", "hiddenSize", "kvCache", "layers"] {
        draft.unknown(fact, "config.json is absent");
    }
    if draft.facts.architectures.is_empty() {
        draft.unknown("architectures", "config.json is absent");
    }
    if draft.facts.task.is_none() {
        draft.unknown("task", "config.json is absent");
    }
    if draft.facts.weight_bytes.is_none() {
        draft.unknown("weightBytes", "no header of a weight file was given");
    }
    Ok(())
}

fn format(input: &ModelFiles) -> WeightFormat {
    let consolidated = input.safetensors.iter().any(|header| {
        header
            .file
            .as_deref()
            .is_some_and(|file| file.starts_with("consolidated"))
    });
    let only_params = input.config.is_none() && input.text("config.json").is_none();
    match (input.gguf.is_empty(), input.safetensors.is_empty()) {
        (false, _) => WeightFormat::Gguf,
        (true, false) if input.text("params.json").is_some() && (consolidated || only_params) => WeightFormat::Mistral,
        (true, false) => WeightFormat::Safetensors,
        (true, true) => WeightFormat::Unknown,
    }
}

fn adapter(input: &ModelFiles) -> Result<Option<Adapter>, FactsError> {
    let Some(text) = input.text("adapter_config.json") else {
        return Ok(None);
    };
    let map = json::object("adapter_config.json", text)?;
    Ok(Some(Adapter {
        kind: json::text(&map, "peft_type").map(str::to_owned),
        base_model: json::text(&map, "base_model_name_or_path").map(str::to_owned),
        rank: json::small(&map, "r"),
    }))
}

fn refuse_raw_parts(input: &ModelFiles) -> Result<(), FactsError> {
    let mut names = input.gguf.iter().filter_map(|header| header.file.as_deref());
    match names.find_map(|file| Some((file, RawPart::of(file)?))) {
        Some((file, part)) => Err(FactsError::RawPart {
            file: file.to_owned(),
            whole: part.whole,
        }),
        None => Ok(()),
    }
}

/// Every index of a weight set, when the headers carry their names.
fn check_indexes(input: &ModelFiles) -> Result<(), FactsError> {
    if input.safetensors.is_empty() || input.safetensors.iter().any(|header| header.file.is_none()) {
        return Ok(());
    }
    for (file, text) in input
        .texts
        .iter()
        .filter(|(name, _)| name.ends_with(".safetensors.index.json"))
    {
        let faults = crate::check_index(file, text, &input.safetensors)?;
        if !faults.is_empty() {
            return Err(FactsError::Index {
                file: file.clone(),
                faults,
            });
        }
    }
    Ok(())
}
