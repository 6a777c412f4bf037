//! Sizes of the network.

use crate::config::{Config, Lookup};
use crate::draft::Draft;
use crate::layers::{HIDDEN, head_count, layer_count};

pub(super) fn derive(draft: &mut Draft, config: &Config) {
    let absent = |key: &str| format!("{key} and its other names are absent from {}", config.file());
    let layers = layer_count(config);
    draft.facts.layers = draft.take("layers", layers, || absent("num_hidden_layers"));
    let hidden = positive(config.number(HIDDEN));
    draft.facts.hidden_size = draft.take("hiddenSize", hidden, || absent(HIDDEN[0]));
    draft.facts.attention_heads = match head_count(config) {
        Ok(heads) => heads.uniform(),
        Err(_) if crate::layers::is_attention_free(config) => None,
        Err(missing) => {
            draft.unknown("attentionHeads", missing);
            None
        }
    };
    draft.facts.vocabulary = positive(config.number(&["vocab_size", "padded_vocab_size", "n_vocab"])).found();
}

fn positive(lookup: Lookup<u64>) -> Lookup<u64> {
    match lookup {
        Lookup::Found(0, key) => Lookup::Wrong(format!("{key} is 0, which is not possible")),
        other => other,
    }
}
