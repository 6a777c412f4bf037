//! Reasons in words, with what would help.

use super::ReasonKind;
use crate::explain::gibibytes;

impl ReasonKind {
    /// From this weight on a user can do nothing about a reason.
    pub const BEYOND_THE_USER: u32 = 70;

    /// How far away from working a reason keeps a candidate. Reasons that a user can lift weigh less than reasons that only
    /// another device, another model or another release could lift.
    pub fn weight(&self) -> u32 {
        match self {
            Self::OtherVendor { .. } => 100,
            Self::ProductUnknown { .. } => 95,
            Self::ProductNotServed { .. } => 90,
            Self::OtherModel { .. } => 88,
            Self::WeightFormat { .. } => 86,
            Self::ExplicitNo { .. } => 84,
            Self::NumberFormat { .. } => 82,
            Self::CpuArchitecture { .. } => 80,
            Self::NoImage {} => 75,
            Self::NoLaunchProfile {} => 74,
            Self::NotListed { .. } => 72,
            Self::Quantization { .. } => 60,
            Self::VersionOutsideRow { .. } => 55,
            Self::EngineNotAsked { .. } | Self::NotPinned { .. } | Self::AcceleratorNotAsked { .. } => 50,
            Self::AlternativeOffer { .. } => 48,
            Self::PoolUnusable { .. } => 45,
            Self::VersionNotAsked { .. } | Self::ChannelNotAsked { .. } => 42,
            Self::TooLittleMemory { .. } => 40,
            Self::TooFewNodes { .. } => 36,
            Self::Divisibility { .. } => 34,
            Self::TooFewDevices { asked: false, .. } => 32,
            Self::Quarantined { .. } => 28,
            Self::StackAboveHost { .. } => 24,
            Self::PullNotAllowed { .. } => 22,
            Self::LevelTooLow { .. } => 20,
            Self::ContextTooLong { .. } => 16,
            Self::TooFewDevices { asked: true, .. } => 12,
            Self::HostUnknown { .. } | Self::FitUnknown { .. } | Self::CpuArchitectureUnknown { .. } => 8,
        }
    }

    /// What is wrong, in a phrase.
    pub fn text(&self) -> String {
        match self {
            Self::OtherVendor { vendors } => {
                format!("is built for {}, of which the cluster has nothing", listed(vendors))
            }
            Self::ProductUnknown { seen: Some(seen) } => format!("the chip `{seen}` is unknown to the matrix"),
            Self::ProductUnknown { seen: None } => "nothing on the nodes names the chip".to_owned(),
            Self::ProductNotServed { product, serves } => {
                format!("has no image for {product}, only for {}", listed(serves))
            }
            Self::ExplicitNo { note: Some(note) } => format!("the matrix says no: {note}"),
            Self::ExplicitNo { note: None } => "the matrix says no".to_owned(),
            Self::OtherModel { models } => format!("was made for {} only", listed(models)),
            Self::WeightFormat { format, loads } => format!("loads {}, not {format}", listed(loads)),
            Self::NumberFormat { needs, product } => format!("{product} has no {needs}"),
            Self::Quantization { model, listed: rows } => match model {
                Some(model) => format!("lists the model in {}, not in {model}", listed(rows)),
                None => format!(
                    "lists the model in {}, and the quantization of these weights is unknown",
                    listed(rows)
                ),
            },
            Self::NotListed { model } => format!("no support row lists {model}"),
            Self::VersionOutsideRow { upstream, wants } => format!("is {upstream}, the statement holds for {wants}"),
            Self::CpuArchitecture { node, image } => {
                format!("the image is for {}, the nodes are {node}", listed(image))
            }
            Self::CpuArchitectureUnknown { of } => format!("the CPU architecture of the {of} is not stated"),
            Self::NoImage {} => "has no published image".to_owned(),
            Self::NoLaunchProfile {} => "has no launch profile: how it is started is not known".to_owned(),
            Self::PoolUnusable { why, .. } => why.clone(),
            Self::AlternativeOffer { to, offer } => format!("{offer} are the same cards as pool {to}"),
            Self::AcceleratorNotAsked { product, asked } => format!("{product} is not among {}", listed(asked)),
            Self::Quarantined { why } => format!("failed here before: {why}"),
            _ => self.text_of_limits(),
        }
    }

    fn text_of_limits(&self) -> String {
        match self {
            Self::StackAboveHost { needs, has, .. } => format!("host {has} is below {needs}"),
            Self::HostUnknown { stack, needs } if stack == "driver" => {
                format!("needs driver {needs}, the host's is unknown")
            }
            Self::HostUnknown { stack, needs } => format!("needs {stack} {needs}, what the host serves is unknown"),
            Self::EngineNotAsked { asked, engine } => format!("is {engine}, asked for {asked}"),
            Self::NotPinned { pin } => format!("is not the pinned {pin}"),
            Self::VersionNotAsked { version, range } => format!("version {version} is outside {range}"),
            Self::ChannelNotAsked { channel } => format!("is a {channel} release"),
            Self::LevelTooLow { level, minimum } => format!("is {level}, at least {minimum} is asked for"),
            Self::PullNotAllowed { pull } => format!("its image is {pull}"),
            Self::ContextTooLong { asked, limit, of } => format!("{asked} tokens of context, the {of} allows {limit}"),
            Self::TooFewNodes {
                needs,
                has,
                asked: true,
            } => format!("needs {needs} nodes, a replica may take {has}"),
            Self::TooFewNodes {
                needs,
                has,
                asked: false,
            } => format!("needs {needs} nodes, there are {has}"),
            Self::TooFewDevices {
                needs,
                has,
                asked: true,
                ..
            } => format!("needs {}, asked {has}", devices(*needs)),
            Self::TooFewDevices {
                needs,
                has,
                one_node: true,
                ..
            } => format!(
                "needs {}, a node has {has}, and its launch profile starts the engine on one node only",
                devices(*needs)
            ),
            Self::TooFewDevices { needs, has, .. } => format!("needs {}, a replica can get {has}", devices(*needs)),
            Self::Divisibility { devices: number, rule } => format!("{} do not go with {rule}", devices(*number)),
            Self::TooLittleMemory {
                needs,
                has,
                devices: number,
            } => format!(
                "needs {} GiB on each of {}, {} GiB are usable",
                gibibytes(*needs),
                devices(*number),
                gibibytes(*has)
            ),
            Self::FitUnknown { missing } => format!("whether it fits is unknown: {} missing", listed(missing)),
            other => other.token().to_owned(),
        }
    }

    /// What would lift it.
    pub fn fix(&self, build: &str) -> String {
        match self {
            Self::Quantization { listed: rows, .. } => format!("use weights in {}", listed(rows)),
            Self::VersionOutsideRow { wants, .. } => format!("take {wants}"),
            Self::EngineNotAsked { .. } => "take another engine in spec.engine.name".to_owned(),
            Self::NotPinned { .. } => format!("pin {build}, or nothing"),
            Self::AcceleratorNotAsked { product, .. } => format!("add {product} to spec.accelerators"),
            Self::AlternativeOffer { offer, .. } => format!("ask for {offer} with spec.accelerators[].partition"),
            Self::PoolUnusable { fix: Some(fix), .. } => fix.clone(),
            Self::PoolUnusable { fix: None, .. } => "mend the nodes".to_owned(),
            Self::VersionNotAsked { version, .. } => format!("let spec.engine.versionRange hold {version}"),
            Self::ChannelNotAsked { channel } => format!("accept {channel} releases"),
            Self::TooLittleMemory { .. } => "lower spec.context, or use smaller weights or larger devices".to_owned(),
            Self::TooFewNodes { has, asked: true, .. } => {
                format!("use nodes with more devices: a replica may take {has}")
            }
            Self::TooFewNodes { needs, .. } => format!("give the pool {needs} nodes"),
            Self::Divisibility { .. } => "ask for another number of devices, or leave the number open".to_owned(),
            Self::TooFewDevices { needs, asked: true, .. } => format!("ask for {}", devices(*needs)),
            Self::TooFewDevices {
                needs, one_node: true, ..
            } => format!(
                "use nodes with {}, or an engine whose launch profile spans nodes",
                devices(*needs)
            ),
            Self::TooFewDevices { needs, .. } => format!("use nodes with {}", devices(*needs)),
            Self::Quarantined { .. } => "lift the quarantine when the cause is mended".to_owned(),
            Self::StackAboveHost { needs, compared, .. } if compared == "driver" => {
                format!("upgrade the driver to {}", needs.trim_start_matches("driver "))
            }
            Self::StackAboveHost { needs, .. } => format!("upgrade the host to {needs}"),
            Self::PullNotAllowed { .. } => "mirror the image and allow it".to_owned(),
            Self::LevelTooLow { level, .. } => format!("accept {level} with spec.engine.minimumLevel"),
            Self::ContextTooLong { limit, .. } => format!("lower spec.context.maxTokens to {limit}"),
            Self::HostUnknown { .. } => "label the nodes with their driver version, or allow unknown hosts".to_owned(),
            Self::FitUnknown { missing } => format!("state {}", listed(missing)),
            Self::CpuArchitectureUnknown { of } => format!("state the architecture of the {of}"),
            other => format!("nothing but another device, model or release ({})", other.token()),
        }
    }
}

fn devices(number: u32) -> String {
    if number == 1 {
        "1 device".to_owned()
    } else {
        format!("{number} devices")
    }
}

/// At most four words of a list.
fn listed(words: &[String]) -> String {
    match words {
        [] => "nothing".to_owned(),
        [one] => one.clone(),
        [first @ .., last] if words.len() <= 4 => format!("{} and {last}", first.join(", ")),
        _ => format!("{} and {} more", words[..3].join(", "), words.len() - 3),
    }
}
