//! `cargo xtask images`: container images from static binaries, without a container engine, pushed to a registry.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use testbed::images::{Image, ImageConfig, ImageFile, push};
use testbed::{Bed, BedConfig, ComponentStore, Reporter};

use crate::{bed, binaries};

/// Arguments of `cargo xtask images`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// A registry without TLS, as `host:port` [default: the running test bed's].
    #[arg(long)]
    registry: Option<String>,
    /// Only images whose name contains this.
    filter: Option<String>,
}

/// Where a program of an image comes from.
#[derive(Debug, Clone, Copy)]
enum Source {
    /// A package of this workspace, as a static binary.
    Package(&'static str),
    /// A component of the test bed.
    Component(&'static str),
}

/// An image to make: one program, under one or more paths.
struct Recipe {
    repository: &'static str,
    tag: &'static str,
    program: Source,
    paths: &'static [&'static str],
    /// Numeric; empty for root.
    user: &'static str,
}

const UNPRIVILEGED: &str = "65532:65532";

/// All images. Vendors' images are stand-ins under the names that a mirror of theirs would have.
const RECIPES: &[Recipe] = &[
    Recipe {
        repository: "plimsoll/controller",
        tag: "dev",
        program: Source::Package("controller"),
        paths: &["/usr/local/bin/controller"],
        user: UNPRIVILEGED,
    },
    Recipe {
        repository: "plimsoll/node-fetcher",
        tag: "dev",
        program: Source::Package("node-fetcher"),
        paths: &["/usr/local/bin/node-fetcher"],
        user: "",
    },
    Recipe {
        repository: "plimsoll/sim-accelerator",
        tag: "dev",
        program: Source::Package("sim-accelerator"),
        paths: &["/usr/local/bin/sim-accelerator"],
        user: "",
    },
    Recipe {
        repository: "mirror/ghcr.io/ggml-org/llama.cpp",
        tag: "server",
        program: Source::Component("llama-server"),
        paths: &["/app/llama-server"],
        user: "",
    },
    // The launch profile runs `python3 -m vllm...` or `vllm serve`: the stand-in answers to both.
    Recipe {
        repository: "mirror/artifact.enflame.cn/enflame_docker_release/amd64_ubuntu2004_tr",
        tag: "latest",
        program: Source::Package("standin-engine"),
        paths: &["/usr/bin/python3", "/usr/local/bin/vllm"],
        user: "",
    },
];

/// Makes and pushes images, and prints one reference by digest per line.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let reporter = Reporter::stderr();
    let registry = match &arguments.registry {
        Some(registry) => registry.clone(),
        None => running_registry(&reporter)?,
    };
    let filter = arguments.filter.as_deref().unwrap_or_default();
    let wanted: Vec<_> = RECIPES
        .iter()
        .filter(|recipe| recipe.repository.contains(filter))
        .collect();
    let packages: Vec<_> = wanted.iter().filter_map(|recipe| recipe.package()).collect();
    if !packages.is_empty() {
        binaries::build(&packages)?;
    }
    let store = ComponentStore::from_environment(reporter.clone());
    for recipe in wanted {
        println!("{}", recipe.push(&registry, &store, &reporter)?);
    }
    Ok(ExitCode::SUCCESS)
}

/// Pushes all images to the bed's registry; the binaries are built already.
pub(crate) fn push_all(bed: &Bed) -> anyhow::Result<()> {
    let reporter = Reporter::stderr();
    let store = ComponentStore::from_environment(reporter.clone());
    RECIPES
        .iter()
        .try_for_each(|recipe| recipe.push(bed.registry_address(), &store, &reporter).map(drop))
}

fn running_registry(reporter: &Reporter) -> anyhow::Result<String> {
    let bed = Bed::attach(BedConfig::from_environment(reporter.clone())).map_err(bed::explain)?;
    Ok(bed.registry_address().to_owned())
}

impl Recipe {
    fn package(&self) -> Option<&'static str> {
        match self.program {
            Source::Package(package) => Some(package),
            Source::Component(_) => None,
        }
    }

    /// Pushes the image and returns its reference by digest.
    fn push(&self, registry: &str, store: &ComponentStore, reporter: &Reporter) -> anyhow::Result<String> {
        let program = match self.program {
            Source::Package(package) => binaries::path(package),
            Source::Component(component) => store.ensure(component).map_err(bed::explain)?,
        };
        let image = self.build(&program).map_err(bed::explain)?;
        let sent = push(registry, self.repository, self.tag, &image).map_err(bed::explain)?;
        let reference = format!("{registry}/{}:{}@{}", self.repository, self.tag, image.digest());
        reporter.line(format!(
            "pushed {}:{}, {:.1} MB sent",
            self.repository,
            self.tag,
            megabytes(sent)
        ));
        Ok(reference)
    }

    fn build(&self, program: &Path) -> Result<Image, testbed::Error> {
        let mut files = vec![ImageFile::folder("/tmp", 0o1777)];
        for path in self.paths {
            files.push(ImageFile::read(program, path, 0o755)?);
        }
        let authorities = PathBuf::from(AUTHORITIES);
        if authorities.is_file() {
            files.push(ImageFile::read(&authorities, AUTHORITIES, 0o644)?);
        }
        let entrypoint = self.paths.first().map(|path| (*path).to_owned()).into_iter().collect();
        Image::build(
            &files,
            &ImageConfig {
                entrypoint,
                user: self.user.into(),
                ..ImageConfig::default()
            },
        )
    }
}

/// Who may vouch for a registry; a program that cannot find this file trusts nobody.
const AUTHORITIES: &str = "/etc/ssl/certs/ca-certificates.crt";

#[expect(clippy::cast_precision_loss, reason = "shown with one digit")]
fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}
