//! Reasons against a candidate: a closed vocabulary with an order of weight. The text is derived, never stored alone.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

mod text;

/// A row of the matrix: the file that holds it and the line where it starts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RowReference {
    /// Path of the document inside the matrix; shared, because every reason of every candidate names a row.
    pub path: Arc<str>,
    /// Line, from 1.
    pub line: u32,
}

impl std::fmt::Display for RowReference {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}:{}", self.path, self.line)
    }
}

/// One reason, with the row it comes from.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Reason {
    /// What is wrong.
    #[serde(flatten)]
    pub kind: ReasonKind,
    /// The row that says so: a support row, a build or a product.
    pub row: RowReference,
}

/// What speaks against a candidate, heaviest first. The order of the variants is the order of weight: the earlier, the less
/// a user can do about it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(tag = "reason", rename_all_fields = "camelCase")]
pub enum ReasonKind {
    /// The cluster has no accelerator of the build's vendor.
    OtherVendor {
        /// Vendors that the build serves.
        vendors: Vec<String>,
    },
    /// The chip of the pool is unknown to the matrix.
    ProductUnknown {
        /// What the node calls it.
        seen: Option<String>,
    },
    /// The build has no image for the product.
    ProductNotServed {
        /// The product.
        product: String,
        /// What the build serves.
        serves: Vec<String>,
    },
    /// The matrix says no.
    ExplicitNo {
        /// Why, as the row puts it.
        note: Option<String>,
    },
    /// The image was made for another model.
    OtherModel {
        /// The models it was made for.
        models: Vec<String>,
    },
    /// The engine cannot read this kind of weight file.
    WeightFormat {
        /// Format of the weights.
        format: String,
        /// Formats that the build loads.
        loads: Vec<String>,
    },
    /// The product has no such number format.
    NumberFormat {
        /// The format that the model needs.
        needs: String,
        /// The product.
        product: String,
    },
    /// Support rows for the model exist, but not with its quantization.
    Quantization {
        /// Quantization of the model; `None` when it is unknown.
        model: Option<String>,
        /// What the rows list.
        listed: Vec<String>,
    },
    /// No support row lists the model for this build and product.
    NotListed {
        /// The architecture or family that was looked up.
        model: String,
    },
    /// The upstream version is outside the range for which the row makes its statement.
    VersionOutsideRow {
        /// Upstream version of the build.
        upstream: String,
        /// The range of the row.
        wants: String,
    },
    /// Nodes have another CPU architecture than the image.
    CpuArchitecture {
        /// Of the nodes.
        node: String,
        /// Of the image.
        image: Vec<String>,
    },
    /// It is unknown for which CPU architecture the image or the node is.
    CpuArchitectureUnknown {
        /// What is unknown: `image` or `node`.
        of: String,
    },
    /// The build has no image that can be pulled.
    NoImage {},
    /// The matrix does not know how the build is started.
    NoLaunchProfile {},
    /// The pool cannot be used.
    PoolUnusable {
        /// Why.
        why: String,
        /// What would change that.
        fix: Option<String>,
    },
    /// The same cards are offered another way, which comes first.
    AlternativeOffer {
        /// The pool that comes first.
        to: String,
        /// How this one is offered.
        offer: String,
    },
    /// The accelerator is not among those that the deployment accepts.
    AcceleratorNotAsked {
        /// The product.
        product: String,
        /// What the deployment accepts.
        asked: Vec<String>,
    },
    /// The image needs a newer driver or stack than the host has.
    StackAboveHost {
        /// Name of the stack.
        stack: String,
        /// What the build needs.
        needs: String,
        /// What the host has.
        has: String,
        /// `driver` or `stack`: what was compared.
        compared: String,
    },
    /// The host's driver or stack version is unknown.
    HostUnknown {
        /// Name of the stack.
        stack: String,
        /// What the build needs.
        needs: String,
    },
    /// The build and pool failed together when they were tried.
    Quarantined {
        /// What happened.
        why: String,
    },
    /// The user asks for another engine.
    EngineNotAsked {
        /// What the user asks for.
        asked: String,
        /// What the build is.
        engine: String,
    },
    /// The build is not the one that the deployment is pinned to.
    NotPinned {
        /// The pin.
        pin: String,
    },
    /// The version is outside the range that the user accepts.
    VersionNotAsked {
        /// Version of the build.
        version: String,
        /// The range.
        range: String,
    },
    /// The channel is not accepted.
    ChannelNotAsked {
        /// Channel of the build.
        channel: String,
    },
    /// The level is below what the user accepts.
    LevelTooLow {
        /// Level of the row.
        level: String,
        /// What the user accepts.
        minimum: String,
    },
    /// The image cannot be had by the ways that the policy allows.
    PullNotAllowed {
        /// How the image is had.
        pull: String,
    },
    /// The context is longer than the row or the model allows.
    ContextTooLong {
        /// Tokens asked for.
        asked: u64,
        /// Tokens allowed.
        limit: u64,
        /// `row` or `model`.
        of: String,
    },
    /// A replica needs more nodes than there are.
    TooFewNodes {
        /// Needed.
        needs: u32,
        /// There, or asked for.
        has: u32,
        /// True when `has` is what a replica may take, whatever there is.
        asked: bool,
    },
    /// A replica needs more devices than there are or were asked for.
    TooFewDevices {
        /// Needed.
        needs: u32,
        /// There, or asked for.
        has: u32,
        /// True when `has` is what the deployment asks for.
        asked: bool,
        /// True when `has` is one node, and more of them would not help: the launch profile starts the engine on one node only.
        #[serde(default, skip_serializing_if = "is_false")]
        one_node: bool,
    },
    /// The number of devices does not divide the model's heads, or is not a multiple that the product or row wants.
    Divisibility {
        /// Devices.
        devices: u32,
        /// What they must divide or be a multiple of.
        rule: String,
    },
    /// The model does not fit.
    TooLittleMemory {
        /// Bytes needed on each device.
        needs: u64,
        /// Bytes that an engine may use on each.
        has: u64,
        /// Devices of this calculation.
        devices: u32,
    },
    /// It is unknown whether the model fits.
    FitUnknown {
        /// What is missing.
        missing: Vec<String>,
    },
}

impl ReasonKind {
    /// All words, heaviest first.
    pub const TOKENS: [&'static str; 32] = [
        "OtherVendor",
        "ProductUnknown",
        "ProductNotServed",
        "ExplicitNo",
        "OtherModel",
        "WeightFormat",
        "NumberFormat",
        "Quantization",
        "NotListed",
        "VersionOutsideRow",
        "CpuArchitecture",
        "CpuArchitectureUnknown",
        "NoImage",
        "NoLaunchProfile",
        "PoolUnusable",
        "AlternativeOffer",
        "AcceleratorNotAsked",
        "StackAboveHost",
        "HostUnknown",
        "Quarantined",
        "EngineNotAsked",
        "NotPinned",
        "VersionNotAsked",
        "ChannelNotAsked",
        "LevelTooLow",
        "PullNotAllowed",
        "ContextTooLong",
        "TooFewNodes",
        "TooFewDevices",
        "Divisibility",
        "TooLittleMemory",
        "FitUnknown",
    ];

    /// The fixed word of this reason: condition reason, metric label and documentation page.
    pub fn token(&self) -> &'static str {
        match self {
            Self::OtherVendor { .. } => "OtherVendor",
            Self::ProductUnknown { .. } => "ProductUnknown",
            Self::ProductNotServed { .. } => "ProductNotServed",
            Self::ExplicitNo { .. } => "ExplicitNo",
            Self::OtherModel { .. } => "OtherModel",
            Self::WeightFormat { .. } => "WeightFormat",
            Self::NumberFormat { .. } => "NumberFormat",
            Self::Quantization { .. } => "Quantization",
            Self::NotListed { .. } => "NotListed",
            Self::VersionOutsideRow { .. } => "VersionOutsideRow",
            Self::CpuArchitecture { .. } => "CpuArchitecture",
            Self::CpuArchitectureUnknown { .. } => "CpuArchitectureUnknown",
            Self::NoImage { .. } => "NoImage",
            Self::NoLaunchProfile { .. } => "NoLaunchProfile",
            Self::PoolUnusable { .. } => "PoolUnusable",
            Self::AlternativeOffer { .. } => "AlternativeOffer",
            Self::AcceleratorNotAsked { .. } => "AcceleratorNotAsked",
            Self::StackAboveHost { .. } => "StackAboveHost",
            Self::HostUnknown { .. } => "HostUnknown",
            Self::Quarantined { .. } => "Quarantined",
            Self::EngineNotAsked { .. } => "EngineNotAsked",
            Self::NotPinned { .. } => "NotPinned",
            Self::VersionNotAsked { .. } => "VersionNotAsked",
            Self::ChannelNotAsked { .. } => "ChannelNotAsked",
            Self::LevelTooLow { .. } => "LevelTooLow",
            Self::PullNotAllowed { .. } => "PullNotAllowed",
            Self::ContextTooLong { .. } => "ContextTooLong",
            Self::TooFewNodes { .. } => "TooFewNodes",
            Self::TooFewDevices { .. } => "TooFewDevices",
            Self::Divisibility { .. } => "Divisibility",
            Self::TooLittleMemory { .. } => "TooLittleMemory",
            Self::FitUnknown { .. } => "FitUnknown",
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_false(flag: &bool) -> bool {
    !*flag
}
