//! The subcommands and what they share.

pub(crate) mod pull;
pub(crate) mod serve;

use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;
use node_fetcher::source::RegistrySettings;

/// How registries are reached.
#[derive(Debug, Args)]
pub(crate) struct RegistryArgs {
    /// A registry host that speaks plain http (may be given several times)
    #[arg(long = "plain-http", visible_alias = "plain-http-registry", value_name = "HOST")]
    plain_http: Vec<String>,
    /// A file with certificates of a private authority, PEM (may be given several times)
    #[arg(long, value_name = "FILE")]
    registry_ca: Vec<PathBuf>,
    /// A Dragonfly daemon on this node, asked before the registry
    #[arg(long, value_name = "URL")]
    dragonfly: Option<registry::Url>,
    /// A mirror asked before the registry: URL for all registries, HOST=URL for one (may be given several times)
    #[arg(long, value_name = "[HOST=]URL", value_parser = parse_mirror)]
    mirror: Vec<MirrorArg>,
}

#[derive(Debug, Clone)]
struct MirrorArg {
    registry: Option<String>,
    base: registry::Url,
}

fn parse_mirror(text: &str) -> Result<MirrorArg, String> {
    let (registry, base) = match text.split_once('=') {
        Some((host, base)) if !host.contains("://") => (Some(host.to_owned()), base),
        _ => (None, text),
    };
    let base = registry::Url::parse(base).map_err(|error| format!("{base:?} is no address: {error}"))?;
    Ok(MirrorArg { registry, base })
}

impl RegistryArgs {
    pub(crate) fn settings(&self) -> anyhow::Result<RegistrySettings> {
        let read = |path: &PathBuf| std::fs::read(path).with_context(|| format!("cannot read {}", path.display()));
        let extra_roots = self.registry_ca.iter().map(read).collect::<anyhow::Result<Vec<_>>>()?;
        Ok(RegistrySettings {
            plain_http: self.plain_http.clone(),
            extra_roots,
        })
    }

    /// The ladder, best first, the registry last.
    pub(crate) fn sources(&self, settings: &RegistrySettings) -> Vec<std::sync::Arc<dyn node_fetcher::source::Source>> {
        use node_fetcher::source::{Dragonfly, Mirror, registry_only};
        let mut sources: Vec<std::sync::Arc<dyn node_fetcher::source::Source>> = Vec::new();
        if let Some(base) = &self.dragonfly {
            sources.push(std::sync::Arc::new(Dragonfly::new(base.clone(), settings.clone())));
        }
        for mirror in &self.mirror {
            sources.push(std::sync::Arc::new(Mirror::new(
                mirror.registry.clone(),
                mirror.base.clone(),
            )));
        }
        sources.extend(registry_only());
        sources
    }
}
