//! Which files of a folder are the weights: the one set that a loader takes, as the packer chooses it.

use std::collections::BTreeMap;

const ADAPTER: &str = "adapter_model.safetensors";
const INDEX: &str = ".safetensors.index.json";

/// The files of one set, in order; several sets of GGUF files are the error, because nothing says which is meant.
pub(super) fn choose(names: &[String], texts: &BTreeMap<String, String>) -> Result<Vec<String>, Vec<String>> {
    let safetensors: Vec<&str> = ending_in(names, ".safetensors");
    if safetensors.is_empty() {
        return gguf(ending_in(names, ".gguf"));
    }
    if texts.contains_key("adapter_config.json") && safetensors.contains(&ADAPTER) {
        return Ok(vec![ADAPTER.to_owned()]);
    }
    let (consolidated, others): (Vec<&str>, Vec<&str>) = safetensors
        .into_iter()
        .filter(|name| *name != ADAPTER)
        .partition(|name| name.starts_with("consolidated"));
    let mistral = texts.contains_key("params.json") && !consolidated.is_empty();
    let set = if mistral || others.is_empty() {
        indexed(consolidated, "consolidated", texts)
    } else {
        indexed(others, "model", texts)
    };
    Ok(set.into_iter().map(str::to_owned).collect())
}

/// Whether a side file is about the chosen weights: the index of another set is not.
pub(super) fn belongs(side_file: &str, chosen: &[&str]) -> bool {
    let Some(stem) = side_file.strip_suffix(INDEX) else {
        return true;
    };
    let of_consolidated = |name: &&str| name.starts_with("consolidated");
    chosen.is_empty() || chosen.iter().any(of_consolidated) == stem.starts_with("consolidated")
}

fn ending_in<'name>(names: &'name [String], ending: &str) -> Vec<&'name str> {
    let names = names.iter().map(String::as_str);
    names.filter(|name| name.ends_with(ending)).collect()
}

/// The files that the index names; without one, all but the other variants of a file that is there.
fn indexed<'name>(files: Vec<&'name str>, stem: &str, texts: &BTreeMap<String, String>) -> Vec<&'name str> {
    let Some(text) = texts.get(&format!("{stem}{INDEX}")) else {
        let plain = files.clone();
        return files.into_iter().filter(|file| !is_variant(file, &plain)).collect();
    };
    let in_index = |file: &&str| text.contains(&format!("\"{file}\""));
    let (listed, others): (Vec<&str>, Vec<&str>) = files.into_iter().partition(in_index);
    // An index that names none of them is told as a fault when the facts are derived.
    if listed.is_empty() { others } else { listed }
}

/// `model.fp16.safetensors` beside `model.safetensors`: the same tensors twice.
fn is_variant(file: &str, files: &[&str]) -> bool {
    let parts: Vec<&str> = file.split('.').collect();
    match parts.as_slice() {
        [stem, _, extension] => files.contains(&format!("{stem}.{extension}").as_str()),
        _ => false,
    }
}

fn gguf(files: Vec<&str>) -> Result<Vec<String>, Vec<String>> {
    let (projectors, models): (Vec<&str>, Vec<&str>) = files.into_iter().partition(|name| name.starts_with("mmproj"));
    let mut sets: Vec<String> = models.iter().map(|file| set_name(file)).collect();
    sets.dedup();
    if sets.len() > 1 {
        return Err(sets);
    }
    // Precisions of one projector: any of them tells what the model takes.
    let projector = projectors.into_iter().next();
    Ok(models.into_iter().chain(projector).map(str::to_owned).collect())
}

/// The name of a GGUF file without the number of its part.
fn set_name(file: &str) -> String {
    let name = file.trim_end_matches(".gguf");
    match name.rsplit_once("-of-") {
        Some((front, total)) if total.bytes().all(|byte| byte.is_ascii_digit()) => {
            front.rsplit_once('-').map_or(front, |(set, _)| set).to_owned()
        }
        _ => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Row<'row> = (&'row [&'row str], &'row [(&'row str, &'row str)], &'row [&'row str]);

    fn chosen(names: &[&str], texts: &[(&str, &str)]) -> Result<Vec<String>, Vec<String>> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let texts = texts
            .iter()
            .map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
        choose(&names, &texts.collect())
    }

    #[test]
    fn one_set_is_taken_of_a_folder_that_holds_several() {
        let index = r#"{"weight_map":{"a":"model-1.safetensors"}}"#;
        let cases: [Row<'_>; 8] = [
            (
                &["consolidated.safetensors", "model-1.safetensors"],
                &[("params.json", "{}"), ("model.safetensors.index.json", index)],
                &["consolidated.safetensors"],
            ),
            (
                &["consolidated.safetensors", "model-1.safetensors", "stray.safetensors"],
                &[("model.safetensors.index.json", index)],
                &["model-1.safetensors"],
            ),
            (&["consolidated.safetensors"], &[], &["consolidated.safetensors"]),
            (
                &["adapter_model.safetensors", "model.safetensors"],
                &[("adapter_config.json", "{}")],
                &["adapter_model.safetensors"],
            ),
            (
                &["adapter_model.safetensors", "model.safetensors"],
                &[],
                &["model.safetensors"],
            ),
            (
                &["model.fp16.safetensors", "model.safetensors"],
                &[],
                &["model.safetensors"],
            ),
            (&["model.safetensors", "q4.gguf"], &[], &["model.safetensors"]),
            (
                &[
                    "m-00001-of-00002.gguf",
                    "m-00002-of-00002.gguf",
                    "mmproj-BF16.gguf",
                    "mmproj-F16.gguf",
                ],
                &[],
                &["m-00001-of-00002.gguf", "m-00002-of-00002.gguf", "mmproj-BF16.gguf"],
            ),
        ];
        for (names, texts, expected) in cases {
            assert_eq!(
                chosen(names, texts),
                Ok(expected.iter().map(|name| (*name).to_owned()).collect())
            );
        }
        assert_eq!(
            chosen(&["m-Q4_K_M.gguf", "m-Q8_0.gguf"], &[]),
            Err(vec!["m-Q4_K_M".to_owned(), "m-Q8_0".to_owned()])
        );
    }
}
