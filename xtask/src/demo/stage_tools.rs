//! Stage 1: only our own programs, a registry, and a stand-in hub.

use anyhow::ensure;
use testbed::fixture;

use super::{Demo, show, tool};

pub(super) fn run(demo: &Demo) -> anyhow::Result<()> {
    let artifact = demo.reference("models/smollm2:v1");
    pack(&artifact)?;
    bring_back(demo, &artifact)?;
    ask(demo, &artifact)
}

/// Hub to registry, twice: the second time nothing moves and the digest is the same.
fn pack(artifact: &str) -> anyhow::Result<()> {
    show::note(
        "A model goes from a hub to a registry as one stream. The hub's sha256 of each file becomes its layer digest.",
    );
    let source = format!("hf://{}", fixture::SMOLLM2);
    let arguments = ["push", &source, artifact, "--plain-http"];
    let typed = format!("model-packer {}", arguments.join(" "));
    let first = show::run(&typed, &mut tool("model-packer", &arguments))?;
    show::note("Again: every byte is there already.");
    let second = show::run(&typed, &mut tool("model-packer", &arguments))?;
    let digests = (digest_in(&first), digest_in(&second));
    ensure!(
        digests.0.is_some() && digests.0 == digests.1,
        "two pushes gave different digests: {digests:?}"
    );
    Ok(())
}

fn bring_back(demo: &Demo, artifact: &str) -> anyhow::Result<()> {
    show::note("A node brings it back and proves every byte before a file has its name.");
    let folder = demo.bed.layout().data("pulled");
    let store = demo.bed.layout().data("pulled-store");
    let (folder, store) = (folder.display().to_string(), store.display().to_string());
    let arguments = [
        "pull",
        artifact,
        "--into",
        &folder,
        "--store",
        &store,
        "--plain-http",
        demo.bed.registry_address(),
    ];
    let typed = format!("node-fetcher pull {artifact} --into pulled");
    show::run(&typed, &mut tool("node-fetcher", &arguments))?;
    Ok(())
}

/// The matrix answers for recorded nodes of a mixed cluster.
fn ask(demo: &Demo, artifact: &str) -> anyhow::Result<()> {
    show::note("Facts of a large model, without moving its 16 GB: only headers are read.");
    let large = demo.reference("models/qwen3-8b:v1");
    let arguments = ["push", "hf://Qwen/Qwen3-8B", &large, "--plain-http", "--facts-only"];
    show::run(
        &format!("model-packer {}", arguments.join(" ")),
        &mut tool("model-packer", &arguments),
    )?;
    show::note("Which engine build would each get in a cluster of mixed accelerators, and why not the others?");
    for (deployment, model) in [
        ("examples/deployments/smollm2.yaml", artifact),
        ("examples/deployments/qwen3-8b.yaml", large.as_str()),
    ] {
        let cluster = "examples/clusters/demo.yaml";
        let registry = demo.bed.registry_address();
        let arguments = [
            "explain",
            "-f",
            deployment,
            "--cluster",
            cluster,
            "--model",
            model,
            "--plain-http",
            registry,
        ];
        show::run(
            &format!("plimsoll {}", arguments.join(" ")),
            &mut tool("plimsoll", &arguments),
        )?;
    }
    Ok(())
}

/// The first manifest digest in a program's output.
fn digest_in(text: &str) -> Option<&str> {
    let start = text.find("sha256:")?;
    text.get(start..start + "sha256:".len() + 64)
}
