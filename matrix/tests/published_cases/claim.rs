//! The transcription: claims, the models and the products that they speak of.

use std::collections::BTreeMap;

use matrix::Level;
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::case::Case;

/// The claims of one source.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Book {
    source: String,
    claims: Vec<Claim>,
}

/// One published statement.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Claim {
    /// The row of the source, in its own words.
    pub(crate) says: String,
    pub(crate) model: String,
    pub(crate) on: Vec<String>,
    pub(crate) quantizations: Vec<String>,
    /// Nodes of the cluster.
    #[serde(default = "one")]
    pub(crate) nodes: usize,
    /// Longest context that the source names.
    #[serde(default)]
    pub(crate) longest_context: Option<u64>,
    pub(crate) expect: Vec<Expectation>,
}

fn one() -> usize {
    1
}

/// What the claim means for builds. Exactly one of `level`, `at_most` and `reasons` is given.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Expectation {
    /// A distribution with a range of versions, or the id of a build.
    pub(crate) builds: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) level: Option<Level>,
    /// Refused, or no stronger than this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) at_most: Option<Level>,
    /// Refused for exactly these reasons.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) reasons: Vec<String>,
    /// Fewest devices of a replica.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) devices: Option<u32>,
}

/// Public figures of a model.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Model {
    #[serde(default)]
    pub(crate) architecture: Option<String>,
    #[serde(default)]
    pub(crate) family: Option<String>,
    /// Millions of parameters.
    #[serde(default)]
    pub(crate) millions: Option<u64>,
    #[serde(default)]
    pub(crate) layers: Option<u32>,
    #[serde(default)]
    pub(crate) heads: Option<u32>,
    #[serde(default)]
    pub(crate) kv_heads: Option<u32>,
    #[serde(default)]
    pub(crate) head_width: Option<u32>,
    /// Width of the latent vector of multi-head latent attention.
    #[serde(default)]
    pub(crate) latent: Option<u32>,
    pub(crate) context: u64,
    #[serde(default)]
    pub(crate) task: Option<String>,
}

/// How a node with a product shows itself.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Shown {
    pub(crate) devices: u32,
    #[serde(default)]
    pub(crate) resource: Option<String>,
    #[serde(default)]
    pub(crate) architecture: Option<String>,
    #[serde(default)]
    pub(crate) labels: BTreeMap<String, String>,
    #[serde(default)]
    pub(crate) annotation: Option<Registration>,
}

/// A registration of `HAMi`.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Registration {
    pub(crate) key: String,
    pub(crate) handshake: String,
    pub(crate) device: String,
}

pub(crate) fn parse<T: DeserializeOwned>(name: &str, text: &str) -> T {
    serde_saphyr::from_str(text).unwrap_or_else(|error| panic!("{name}: {error}"))
}

pub(crate) fn book(name: &str, text: &str) -> Book {
    parse(name, text)
}

pub(crate) fn models(text: &str) -> BTreeMap<String, Model> {
    parse("models.yaml", text)
}

pub(crate) fn products(text: &str) -> BTreeMap<String, Shown> {
    parse("products.yaml", text)
}

impl Book {
    /// The rows that its claims transcribe.
    pub(crate) fn says(&self) -> impl Iterator<Item = &str> {
        self.claims.iter().map(|claim| claim.says.as_str())
    }

    /// The rule: the first quantization on every product, every other quantization on the first product.
    pub(crate) fn cases(
        &self,
        book: &str,
        models: &BTreeMap<String, Model>,
        products: &BTreeMap<String, Shown>,
    ) -> Vec<Case> {
        let mut cases: Vec<Case> = Vec::new();
        for claim in &self.claims {
            let (first_product, others) = claim.on.split_first().unwrap();
            let (first_quantization, rest) = claim.quantizations.split_first().unwrap();
            let elsewhere = others.iter().map(|product| (product, first_quantization));
            let otherwise = rest.iter().map(|quantization| (first_product, quantization));
            let pairs = std::iter::once((first_product, first_quantization))
                .chain(elsewhere)
                .chain(otherwise);
            for (product, quantization) in pairs {
                let model = models
                    .get(&claim.model)
                    .unwrap_or_else(|| panic!("{} is not in models.yaml", claim.model));
                let shown = products
                    .get(product)
                    .unwrap_or_else(|| panic!("{product} is not in products.yaml"));
                let mut case = Case::new(book, &self.source, claim, (model, product, shown), quantization);
                let same = cases.iter().filter(|other| other.stem == case.stem).count();
                if same > 0 {
                    case.name = format!("{}-{}", case.stem, same + 1);
                }
                cases.push(case);
            }
        }
        cases
    }
}
