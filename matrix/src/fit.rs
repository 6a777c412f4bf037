//! How many devices a replica takes, and whether the model fits on them.

use model_facts::{ModelFacts, kv_bytes, kv_element_bytes, weights_per_device};

use crate::{
    decision::{Fit, FitArithmetic},
    launch::{MemoryRule, ParallelRule},
    pool::{Offer, Pool},
    reason::ReasonKind,
    support::Limits,
};

/// What decides about the number of devices.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Question<'run> {
    pub(crate) facts: &'run ModelFacts,
    pub(crate) pool: &'run Pool,
    pub(crate) limits: &'run Limits,
    pub(crate) memory: &'run MemoryRule,
    pub(crate) parallel: &'run ParallelRule,
    /// The product wants multiples of this.
    pub(crate) unit: u32,
    /// Counts that the resource allows; empty: any.
    pub(crate) counts: &'run [u32],
    /// Devices that the deployment asks for.
    pub(crate) asked_devices: Option<u32>,
    /// Nodes that the deployment asks for.
    pub(crate) asked_nodes: Option<u32>,
    pub(crate) context: Option<u64>,
    pub(crate) concurrency: u64,
    /// Devices on which somebody ran it, by a verified row.
    pub(crate) proven_devices: Option<u32>,
}

/// Devices and nodes of one replica.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Placement {
    pub(crate) devices: u32,
    pub(crate) nodes: u32,
    pub(crate) tensor_parallel: u32,
    pub(crate) pipeline_parallel: u32,
    pub(crate) fit: Fit,
}

/// No real replica is larger; the search for "how many would it take" ends here.
const MOST_DEVICES: u32 = 64;

/// Finds the smallest number of devices that works, or why none does.
pub(crate) fn place(question: &Question<'_>) -> Result<Placement, Vec<ReasonKind>> {
    let search = Search::new(question);
    if let Some(reasons) = search.impossible() {
        return Err(reasons);
    }
    let missing = search.missing();
    if !missing.is_empty() {
        return search.without_arithmetic(missing);
    }
    search.smallest()
}

struct Search<'run> {
    question: &'run Question<'run>,
    per_node: u32,
    nodes_there: u32,
    fewest_nodes: u32,
    most_nodes: u32,
    fewest: u32,
    multiple: u32,
}

impl<'run> Search<'run> {
    fn new(question: &'run Question<'run>) -> Self {
        let pool = question.pool;
        let plain = pool.offer == Offer::Node;
        let nodes_there = u32::try_from(pool.nodes.len()).unwrap_or(u32::MAX);
        let stated_nodes = question.asked_nodes.or(question.limits.nodes);
        let fewest_nodes = stated_nodes.unwrap_or(1).max(1);
        let divided = is_divided(&pool.offer);
        let spans = question.parallel.tensor && question.parallel.nodes && !divided;
        Self {
            question,
            per_node: if divided {
                1.min(pool.devices_per_node())
            } else {
                pool.devices_per_node()
            },
            nodes_there,
            fewest_nodes,
            // Where nobody says how many nodes a replica takes, it takes as many as it needs.
            most_nodes: match stated_nodes {
                None if spans => nodes_there.max(1),
                _ => fewest_nodes,
            },
            fewest: if plain {
                1
            } else {
                question.limits.devices.unwrap_or(1).max(fewest_nodes)
            },
            multiple: if plain {
                1
            } else {
                lowest_common(question.limits.multiple_of.unwrap_or(1), question.unit)
            },
        }
    }

    fn asked(&self) -> Option<u32> {
        if self.question.pool.offer == Offer::Node {
            None
        } else {
            self.question.asked_devices
        }
    }

    /// Reasons that need no arithmetic.
    fn impossible(&self) -> Option<Vec<ReasonKind>> {
        let mut reasons = Vec::new();
        if let (Some(asked), Some(needs)) = (self.question.asked_nodes, self.question.limits.nodes)
            && asked < needs
        {
            reasons.push(ReasonKind::TooFewNodes {
                needs,
                has: asked,
                asked: true,
            });
        }
        if let Some(asked) = self.asked() {
            if asked < self.fewest {
                reasons.push(ReasonKind::TooFewDevices {
                    needs: self.fewest,
                    has: asked,
                    asked: true,
                    one_node: false,
                });
            }
            if asked % self.multiple != 0 {
                let rule = format!("a multiple of {}", self.multiple);
                reasons.push(ReasonKind::Divisibility { devices: asked, rule });
            }
            if asked > self.room() {
                reasons.push(self.no_room(asked));
            }
        } else if self.fewest.max(self.multiple) > self.room() {
            reasons.push(self.no_room(self.fewest.max(self.multiple)));
        }
        if self.fewest_nodes > self.nodes_there {
            reasons.push(ReasonKind::TooFewNodes {
                needs: self.fewest_nodes,
                has: self.nodes_there,
                asked: false,
            });
        }
        (!reasons.is_empty()).then_some(reasons)
    }

    /// More devices than a replica can get. Where only the wish for fewer nodes stands in the way, that is the reason.
    fn no_room(&self, needs: u32) -> ReasonKind {
        let nodes = needs.div_ceil(self.per_node.max(1));
        match self.question.asked_nodes {
            Some(asked) if self.per_node > 0 && nodes > asked && self.nodes_there >= nodes => ReasonKind::TooFewNodes {
                needs: nodes,
                has: asked,
                asked: true,
            },
            _ => ReasonKind::TooFewDevices {
                needs,
                has: self.room(),
                asked: false,
                one_node: self.is_held_to_one_node(),
            },
        }
    }

    /// True when the launch profile is what keeps a replica on one node; a node without a device is another trouble.
    fn is_held_to_one_node(&self) -> bool {
        let divided = is_divided(&self.question.pool.offer);
        self.per_node > 0 && self.most_nodes == 1 && !self.question.parallel.nodes && !divided
    }

    /// Nodes that a number of devices spreads over.
    fn nodes_of(&self, devices: u32) -> u32 {
        let needed = devices.div_ceil(self.per_node.max(1));
        needed.clamp(self.fewest_nodes, self.most_nodes.max(self.fewest_nodes))
    }

    /// Devices of the nodes that a replica may span.
    fn room(&self) -> u32 {
        self.per_node
            .saturating_mul(self.most_nodes.min(self.nodes_there.max(1)))
    }

    /// What the arithmetic needs and nobody knows.
    fn missing(&self) -> Vec<String> {
        let question = self.question;
        let facts = question.facts;
        let mut missing = Vec::new();
        if facts.weight_bytes.is_none() {
            missing.push("the size of the weights".to_owned());
        }
        if facts.kv_cache.groups.is_none() {
            missing.push("the shape of the KV cache".to_owned());
        } else if element_bytes(question).is_none() {
            missing.push("the data type of the KV cache".to_owned());
        }
        if question.context.is_none() {
            missing.push("the context length".to_owned());
        }
        if question.pool.memory.bytes.is_none() {
            let why = question
                .pool
                .memory
                .missing
                .as_ref()
                .map(|why| format!(" ({why})"))
                .unwrap_or_default();
            missing.push(format!("the memory of a device{why}"));
        }
        missing
    }

    /// Without the arithmetic the row's or the user's number of devices is taken, or as many as the weights alone need; weights
    /// that are too much for all there are still say no.
    fn without_arithmetic(&self, missing: Vec<String>) -> Result<Placement, Vec<ReasonKind>> {
        let wanted = self
            .asked()
            .unwrap_or_else(|| self.fewest.next_multiple_of(self.multiple));
        let most = self.asked().unwrap_or_else(|| self.room().max(wanted));
        let mut refused: Option<ReasonKind> = None;
        for devices in wanted..=most {
            let Ok((tensor, pipeline)) = self.split(devices) else {
                continue;
            };
            match self.weights_alone(tensor, pipeline) {
                Some(reason) => refused = Some(reason),
                None => {
                    return Ok(self.placement(devices, tensor, pipeline, Fit::Unknown { missing }));
                }
            }
        }
        let undivided = || {
            self.split(wanted).err().unwrap_or(ReasonKind::Divisibility {
                devices: wanted,
                rule: "the model's heads".to_owned(),
            })
        };
        Err(vec![refused.unwrap_or_else(undivided)])
    }

    fn weights_alone(&self, tensor: u32, pipeline: u32) -> Option<ReasonKind> {
        let weights = weights_per_device(self.question.facts, tensor, pipeline)?;
        let usable = usable(self.question.pool.memory.bytes?, self.question.memory);
        (weights > usable).then_some(ReasonKind::TooLittleMemory {
            needs: weights,
            has: usable,
            devices: tensor * pipeline,
        })
    }

    fn smallest(&self) -> Result<Placement, Vec<ReasonKind>> {
        let mut last: Option<(u32, FitArithmetic)> = None;
        let mut refused: Option<ReasonKind> = None;
        let range = self.asked().map_or(1..=MOST_DEVICES.max(self.room()), |asked| {
            asked..=MOST_DEVICES.max(asked)
        });
        for devices in range {
            let (tensor, pipeline) = match self.split(devices) {
                Ok(split) => split,
                Err(reason) => {
                    refused.get_or_insert(reason);
                    continue;
                }
            };
            let Some(arithmetic) = self.arithmetic(tensor, pipeline) else {
                continue;
            };
            let fits = arithmetic.needed <= arithmetic.usable;
            let allowed = self.asked().map_or(devices <= self.room(), |asked| devices == asked);
            match (fits, allowed) {
                (true, true) => return Ok(self.placement(devices, tensor, pipeline, Fit::Fits(arithmetic))),
                (true, false) => return Err(self.would_fit(devices, last.as_ref(), refused)),
                (false, true) => last = Some((devices, arithmetic)),
                (false, false) => {}
            }
        }
        Err(too_little(last.as_ref()).or(refused).into_iter().collect())
    }

    /// It fits only on more devices than there are or were asked for.
    fn would_fit(
        &self,
        needs: u32,
        last: Option<&(u32, FitArithmetic)>,
        refused: Option<ReasonKind>,
    ) -> Vec<ReasonKind> {
        if let (None, Some(reason)) = (last, refused) {
            return vec![reason];
        }
        // The node itself is the device: more of them is not what is missing.
        if self.question.pool.offer == Offer::Node {
            return too_little(last).into_iter().collect();
        }
        let (has, asked) = self.asked().map_or((self.room(), false), |asked| (asked, true));
        let mut reasons = vec![ReasonKind::TooFewDevices {
            needs,
            has,
            asked,
            one_node: !asked && self.is_held_to_one_node(),
        }];
        reasons.extend(too_little(last));
        reasons
    }

    /// Tensor and pipeline degree for a number of devices.
    fn split(&self, devices: u32) -> Result<(u32, u32), ReasonKind> {
        let fault = |rule: String| ReasonKind::Divisibility { devices, rule };
        let nodes = self.nodes_of(devices);
        if devices < self.fewest {
            return Err(ReasonKind::TooFewDevices {
                needs: self.fewest,
                has: devices,
                asked: self.asked().is_some(),
                one_node: false,
            });
        }
        if !devices.is_multiple_of(nodes) {
            return Err(fault(format!("the same number on each of {nodes} nodes")));
        }
        if !devices.is_multiple_of(self.multiple) {
            return Err(fault(format!("a multiple of {}", self.multiple)));
        }
        let per_node = devices / nodes;
        let counts = self.question.counts;
        if !counts.is_empty() && !counts.contains(&per_node) {
            return Err(fault(format!("one of {counts:?} on a node")));
        }
        let parallel = self.question.parallel;
        if devices > 1 && !parallel.tensor {
            return if parallel.layers {
                Ok((1, devices))
            } else {
                Err(fault("one device: the engine does not split".to_owned()))
            };
        }
        if nodes > 1 && !parallel.nodes {
            return Err(fault("one node: the engine does not span nodes".to_owned()));
        }
        self.heads_divide(devices, per_node)?;
        Ok((per_node, nodes))
    }

    fn heads_divide(&self, devices: u32, tensor: u32) -> Result<(), ReasonKind> {
        let facts = self.question.facts;
        if let Some(heads) = facts.attention_heads
            && heads % tensor != 0
        {
            return Err(ReasonKind::Divisibility {
                devices,
                rule: format!("{heads} attention heads"),
            });
        }
        match facts.kv_heads {
            Some(heads) if heads > 0 && heads % tensor != 0 && !tensor.is_multiple_of(heads) => {
                Err(ReasonKind::Divisibility {
                    devices,
                    rule: format!("{heads} KV heads"),
                })
            }
            _ => Ok(()),
        }
    }

    fn arithmetic(&self, tensor: u32, pipeline: u32) -> Option<FitArithmetic> {
        let question = self.question;
        let rule = question.memory;
        let memory = question.pool.memory.bytes?;
        let weights = weights_per_device(question.facts, tensor, pipeline)?;
        let element = element_bytes(question)?;
        let kv_cache = kv_bytes(
            question.facts,
            question.context?,
            question.concurrency,
            tensor,
            pipeline,
            element,
        )?;
        // A published run on as many devices knows more than an estimate of what the engine takes beside weights and cache.
        let proven = question
            .proven_devices
            .is_some_and(|proven| tensor.saturating_mul(pipeline) >= proven);
        let base = rule.base_mib.saturating_mul(1 << 20);
        let (overhead, usable) = if proven {
            (base, memory)
        } else {
            let estimate = base.saturating_add(permille(weights, rule.weights_permille));
            (estimate, usable(memory, rule))
        };
        Some(FitArithmetic {
            weights,
            kv_cache,
            overhead,
            needed: weights.saturating_add(kv_cache).saturating_add(overhead),
            usable,
            memory,
            lower_bound: question.facts.kv_cache.lower_bound,
        })
    }

    fn placement(&self, devices: u32, tensor_parallel: u32, pipeline_parallel: u32, fit: Fit) -> Placement {
        Placement {
            devices,
            nodes: self.nodes_of(devices),
            tensor_parallel,
            pipeline_parallel,
            fit,
        }
    }
}

/// Parts of one card do not work together as if they were cards; the node itself is one device.
fn is_divided(offer: &Offer) -> bool {
    match offer {
        Offer::Partition { .. } | Offer::Claim { profile: Some(_), .. } | Offer::Node => true,
        // HAMi gives every share of a pod from another card.
        Offer::Share { by, .. } => !matches!(by.as_str(), "hami" | "volcano" | "dynamic"),
        Offer::Whole { .. } | Offer::Claim { .. } | Offer::Nothing => false,
    }
}

fn too_little(last: Option<&(u32, FitArithmetic)>) -> Option<ReasonKind> {
    last.map(|(devices, arithmetic)| ReasonKind::TooLittleMemory {
        needs: arithmetic.needed,
        has: arithmetic.usable,
        devices: *devices,
    })
}

fn element_bytes(question: &Question<'_>) -> Option<u64> {
    question
        .memory
        .kv_element_bytes
        .or_else(|| kv_element_bytes(question.facts))
}

fn usable(memory: u64, rule: &MemoryRule) -> u64 {
    permille(memory, rule.usable_permille)
}

fn permille(amount: u64, thousandths: u64) -> u64 {
    u64::try_from(u128::from(amount) * u128::from(thousandths) / 1000).unwrap_or(u64::MAX)
}

fn lowest_common(left: u32, right: u32) -> u32 {
    let (left, right) = (left.max(1), right.max(1));
    let (mut a, mut b) = (left, right);
    while b != 0 {
        (a, b) = (b, a % b);
    }
    left / a * right
}
