//! What the support rows say about a candidate.

use model_facts::ModelFacts;

use crate::{
    build::Channel,
    decide::candidate::Look,
    index::row_reaches,
    product::Product,
    reason::{ReasonKind, RowReference},
    support::{Level, Limits, ModelMatch, SupportRow},
    words::Words,
};

/// The statement that counts.
#[derive(Debug, Clone)]
pub(super) struct Found {
    pub(super) level: Level,
    pub(super) model_match: ModelMatch,
    pub(super) limits: Limits,
    pub(super) row: RowReference,
    pub(super) evidence: String,
}

/// How closely a row names model, product and quantization; smaller is closer.
type Closeness = (ModelMatch, u8, u8);

/// A row of the model for the build, with what of it holds.
#[derive(Clone, Copy)]
struct Seen<'run> {
    row: &'run SupportRow,
    number: usize,
    /// The upstream version lies in its bounds.
    in_bounds: bool,
    /// The quantization is one of its own.
    meets: bool,
}

impl Seen<'_> {
    fn matches(&self) -> bool {
        self.in_bounds && self.meets
    }
}

pub(super) fn look(look: &mut Look<'_, '_>, product: &Product) -> Option<Found> {
    let matrix = look.evaluation.matrix;
    let facts = &look.evaluation.request.facts;
    if !matrix.index.made_for(look.position, look.build, facts) {
        look.against_build(ReasonKind::OtherModel {
            models: binding_words(look),
        });
    }
    let place = look.place;
    let labels = place.labels.as_ref()?;
    number_format(look, product, labels);
    // In the order of what they say: where a row is written must not matter.
    let rows = look.evaluation.rows_of(look.position);
    let seen: Vec<Seen<'_>> = rows
        .map(|number| (number, &matrix.contents.rows[number]))
        .filter(|(_, row)| speaks_of_product(row, product))
        .map(|(number, row)| Seen {
            row,
            number,
            in_bounds: matrix.index.bounds[number].hold(look.build),
            meets: labels.meet(&row.quantizations),
        })
        .collect();
    let best = best(look, &seen, product);
    refuse(look, &seen, best.map(|seen| seen.row), product);
    let found = best.map(|seen| found(look, seen)).or_else(|| by_binding(look));
    let Some(found) = found else {
        return not_listed(look, product, &seen, labels);
    };
    let minimum = look.evaluation.request.policy.minimum_level;
    if found.level > minimum {
        let closer = closer_miss(look, product, &seen, labels, Some(found.model_match));
        level_too_low(look, &found, closer);
    }
    Some(found)
}

/// An explicit `no`, unless a statement that is closer in some respect and as close in all others says otherwise.
fn refuse(look: &mut Look<'_, '_>, seen: &[Seen<'_>], best: Option<&SupportRow>, product: &Product) {
    let matching = seen.iter().filter(|seen| seen.matches()).map(|seen| seen.row);
    for row in matching.filter(|row| row.level.level().is_none()) {
        let yields = best.is_some_and(|best| is_closer(closeness(best, product), closeness(row, product)));
        if !yields {
            look.against(ReasonKind::ExplicitNo { note: row.note.clone() }, &row.row);
        }
    }
}

fn is_closer(yes: Closeness, no: Closeness) -> bool {
    yes.0 <= no.0 && yes.1 <= no.1 && yes.2 <= no.2 && yes != no
}

fn closeness(row: &SupportRow, product: &Product) -> Closeness {
    let by_product = match &row.products {
        Words::These(list) if list.contains(&product.id) => 0,
        Words::These(list)
            if list
                .iter()
                .any(|word| *word != product.vendor && product.answers_to(word)) =>
        {
            1
        }
        Words::These(_) => 2,
        Words::Unset | Words::Any | Words::None => 3,
    };
    (
        row.closeness(),
        by_product,
        u8::from(row.quantizations.list().is_empty()),
    )
}

/// The closest statement; of equally close ones the strongest, then the first by what they say.
fn best<'run>(look: &Look<'_, '_>, seen: &[Seen<'run>], product: &Product) -> Option<Seen<'run>> {
    let yes = seen
        .iter()
        .filter(|seen| seen.matches() && seen.row.level.level().is_some());
    yes.min_by_key(|seen| (closeness(seen.row, product), level_of(look, seen)))
        .copied()
}

/// Before the stable version a statement counts as experimental.
fn level_of(look: &Look<'_, '_>, seen: &Seen<'_>) -> Level {
    let stated = seen.row.level.level().unwrap_or(Level::Untested);
    if look.evaluation.matrix.index.bounds[seen.number].is_early(look.build) {
        stated.max(Level::Experimental)
    } else {
        stated
    }
}

fn found(look: &Look<'_, '_>, seen: Seen<'_>) -> Found {
    let row = seen.row;
    let named = if look.build.channel == Channel::ModelSpecific {
        ModelMatch::Checkpoint
    } else {
        row.closeness()
    };
    Found {
        level: level_of(look, &seen),
        model_match: named,
        limits: row.limits.clone(),
        row: row.row.clone(),
        evidence: row.evidence.describe(),
    }
}

/// A model-specific image is itself a statement about its model.
fn by_binding(look: &Look<'_, '_>) -> Option<Found> {
    look.build.models.as_ref()?;
    Some(Found {
        level: Level::Declared,
        model_match: ModelMatch::Checkpoint,
        limits: Limits::default(),
        row: look.build.row.clone(),
        evidence: look.build.evidence.describe(),
    })
}

fn level_too_low(look: &mut Look<'_, '_>, found: &Found, closer: Option<(ReasonKind, RowReference)>) {
    let too_low = ReasonKind::LevelTooLow {
        level: found.level.word().to_owned(),
        minimum: look.evaluation.request.policy.minimum_level.word().to_owned(),
    };
    // A closer row that misses by its quantization or version says more than the weak statement that is left.
    let (kind, row) = closer.unwrap_or_else(|| (too_low, found.row.clone()));
    if look.evaluation.request.policy.explicit_engine {
        look.caveat(kind, &row);
    } else {
        look.against(kind, &row);
    }
}

/// A row that would speak of the candidate, were it not for its quantizations or versions; only rows closer than `than`.
fn closer_miss(
    look: &Look<'_, '_>,
    product: &Product,
    seen: &[Seen<'_>],
    labels: &Labels,
    than: Option<ModelMatch>,
) -> Option<(ReasonKind, RowReference)> {
    let counts = |row: &SupportRow| {
        row.level.level().is_some()
            && row.models.closeness() != ModelMatch::EngineList
            && than.is_none_or(|closeness| row.closeness() < closeness)
    };
    let misses: Vec<&SupportRow> = seen
        .iter()
        .filter(|seen| seen.in_bounds && !seen.meets && counts(seen.row))
        .map(|seen| seen.row)
        .collect();
    if let Some(first) = misses.first() {
        let mut listed: Vec<String> = misses
            .iter()
            .flat_map(|row| row.quantizations.list().to_vec())
            .collect();
        listed.sort();
        listed.dedup();
        let model = labels.own.clone();
        return Some((ReasonKind::Quantization { model, listed }, first.row.clone()));
    }
    let rows = &look.evaluation.matrix.contents.rows;
    let outside = seen
        .iter()
        .find(|seen| !seen.in_bounds && counts(seen.row))
        .map(|seen| seen.number);
    let elsewhere = || other_versions(look, product, labels).filter(|number| counts(&rows[*number]));
    let number = outside.or_else(elsewhere)?;
    let upstream = look
        .build
        .upstream
        .as_ref()
        .unwrap_or(&look.build.version)
        .text()
        .to_owned();
    Some((
        ReasonKind::VersionOutsideRow {
            upstream,
            wants: look.evaluation.matrix.index.ranges[number].clone(),
        },
        rows[number].row.clone(),
    ))
}

/// Says why no row counts: wrong quantization, wrong version, or no row at all. The user's own engine goes on untested.
fn not_listed(look: &mut Look<'_, '_>, product: &Product, seen: &[Seen<'_>], labels: &Labels) -> Option<Found> {
    let miss = closer_miss(look, product, seen, labels, None);
    let (kind, row) = miss.unwrap_or_else(|| {
        let facts = &look.evaluation.request.facts;
        let model = facts
            .architectures
            .first()
            .or(facts.family.as_ref())
            .or(facts.checkpoint.as_ref());
        let model = model
            .cloned()
            .unwrap_or_else(|| "a model of unknown architecture".to_owned());
        (ReasonKind::NotListed { model }, look.build.row.clone())
    });
    if look.evaluation.request.policy.explicit_engine {
        look.caveat(kind, &row);
        return Some(Found {
            level: Level::Untested,
            model_match: ModelMatch::Any,
            limits: Limits::default(),
            evidence: "the user's own choice".to_owned(),
            row,
        });
    }
    look.against(kind, &row);
    None
}

/// A row that speaks of this model and product, but of other versions of the same distribution.
fn other_versions(look: &Look<'_, '_>, product: &Product, labels: &Labels) -> Option<usize> {
    let rows = &look.evaluation.matrix.contents.rows;
    look.place.other_row(&look.build.distribution, || {
        let of_model = look.evaluation.rows_of_model.iter().copied();
        of_model.into_iter().find(|number| {
            let row = &rows[*number];
            row.level.level().is_some()
                && row.models.closeness() != ModelMatch::EngineList
                && row_reaches(row, look.build)
                && speaks_of_product(row, product)
                && labels.meet(&row.quantizations)
        })
    })
}

fn speaks_of_product(row: &SupportRow, product: &Product) -> bool {
    match &row.products {
        Words::Unset | Words::Any => true,
        Words::None => false,
        Words::These(list) => list.iter().any(|word| product.answers_to(word)),
    }
}

/// The quantization words that describe a model on a product.
pub(crate) struct Labels {
    own: Option<String>,
    accepted: Vec<String>,
    /// The number format that the devices must have.
    format: Option<String>,
    /// The format was changed, because the product has only the other half precision.
    cast: bool,
}

impl Labels {
    pub(super) fn new(facts: &ModelFacts, product: &Product) -> Self {
        let own = facts
            .quantization
            .label
            .clone()
            .or_else(|| match facts.quantization.method.as_deref() {
                None | Some("none") => facts.dtype.clone(),
                Some(_) => None,
            });
        let mut accepted: Vec<String> = own.iter().cloned().collect();
        let mut cast = false;
        let lacks = |format: &str| lacks_format(product, format);
        match own.as_deref() {
            // Engines load single precision as half precision.
            Some("fp32") => accepted.extend(
                ["fp16", "bf16"]
                    .into_iter()
                    .filter(|format| !lacks(format))
                    .map(str::to_owned),
            ),
            Some("bf16") if lacks("bf16") && !lacks("fp16") => {
                accepted = vec!["fp16".to_owned()];
                cast = true;
            }
            _ => {}
        }
        let format = own.as_deref().and_then(number_format_of).map(str::to_owned);
        Self {
            own,
            accepted,
            format,
            cast,
        }
    }

    /// Whether a row speaks of the quantization. A row without a list speaks of all; a model of unknown quantization meets
    /// only such rows.
    fn meet(&self, words: &Words) -> bool {
        match words {
            Words::Unset | Words::Any => true,
            Words::None => self
                .own
                .as_deref()
                .is_some_and(|own| matches!(own, "bf16" | "fp16" | "fp32")),
            Words::These(list) => self.accepted.iter().any(|label| list.contains(label)),
        }
    }
}

/// The number format that devices need for a quantization; integer weights run on what every product has.
fn number_format_of(label: &str) -> Option<&'static str> {
    match label {
        "bf16" => Some("bf16"),
        "fp8" | "w4a8-fp8" => Some("fp8"),
        "w8a8-mxfp8" => Some("mxfp8"),
        "nvfp4" => Some("nvfp4"),
        "mxfp4" | "w4a4-mxfp4" | "w4a8-mxfp4" | "fp8-mxfp4" => Some("mxfp4"),
        "w8a8-int8" => Some("w8a8-int8"),
        _ => None,
    }
}

/// Whether a product is known to lack a format: it says so, or bf16 is not in its list. Other formats that a list leaves out
/// may still be emulated by an engine, so the support rows speak for them.
fn lacks_format(product: &Product, format: &str) -> bool {
    if product.no_formats.list().iter().any(|word| word == format) {
        return true;
    }
    format == "bf16" && !product.formats.list().is_empty() && !product.formats.holds(format)
}

fn number_format(look: &mut Look<'_, '_>, product: &Product, labels: &Labels) {
    let Some(needs) = &labels.format else { return };
    if !lacks_format(product, needs) {
        return;
    }
    let kind = ReasonKind::NumberFormat {
        needs: needs.clone(),
        product: product.id.clone(),
    };
    if labels.cast {
        look.caveat(kind, &product.row);
    } else {
        look.against(kind, &product.row);
    }
}

fn binding_words(look: &Look<'_, '_>) -> Vec<String> {
    let Some(binding) = &look.build.models else {
        return Vec::new();
    };
    [&binding.checkpoints, &binding.architectures, &binding.families]
        .into_iter()
        .flatten()
        .cloned()
        .collect()
}
