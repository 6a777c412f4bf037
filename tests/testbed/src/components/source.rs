//! Building a component from source by its recipe.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::{Component, Recipe};
use crate::command::{self, last_lines, run};
use crate::debian;
use crate::error::Error;
use crate::layout::repository;
use crate::report::Reporter;

/// How often a running build says how far it is.
const PROGRESS: Duration = Duration::from_secs(20);

/// One build: what, where, and who hears of it.
pub(super) struct Build<'a> {
    component: &'a Component,
    folder: &'a Path,
    cache: &'a Path,
    reporter: &'a Reporter,
}

impl<'a> Build<'a> {
    pub(super) fn new(component: &'a Component, folder: &'a Path, cache: &'a Path, reporter: &'a Reporter) -> Self {
        Self {
            component,
            folder,
            cache,
            reporter,
        }
    }

    /// Builds the program and puts it at `target`.
    pub(super) fn run(&self, target: &Path) -> Result<(), Error> {
        let Component {
            name,
            version,
            build_seconds,
            ..
        } = self.component;
        if *build_seconds > 10 {
            self.reporter.line(format!(
                "building {name} {version} from source (about {build_seconds} s on two cores)"
            ));
        }
        match &self.component.recipe {
            Recipe::Go {
                module,
                package,
                cgo,
                definitions,
            } => self.go(module, package, *cgo, definitions, target),
            Recipe::Cargo { crate_name, packages } => self.cargo(crate_name, packages, target),
            Recipe::LlamaServer { archive_sha256 } => self.llama_server(archive_sha256, target),
            Recipe::StaticC { source } => Self::static_c(source, target),
            Recipe::Debian { package, program } => self.debian(package, program, target),
        }
    }

    fn go(&self, module: &str, package: &str, cgo: bool, definitions: &[&str], target: &Path) -> Result<(), Error> {
        self.require("go")?;
        if cgo {
            debian::ensure(&["gcc", "libc6-dev"])?;
        }
        let mut linker = String::from("-s -w");
        for definition in definitions {
            linker.push_str(" -X ");
            linker.push_str(definition);
        }
        let mut command = Command::new("go");
        command
            .current_dir(recipes().join(module))
            .args(["build", "-v", "-trimpath", "-o"])
            .arg(target);
        command.arg("-ldflags").arg(linker).arg(package);
        // go.sum is complete, so nothing is resolved and nothing may change while building.
        command
            .env("GOFLAGS", "-mod=readonly -buildvcs=false")
            .env("GOWORK", "off");
        command.env("CGO_ENABLED", if cgo { "1" } else { "0" });
        self.watch(&mut command, "packages compiled")
    }

    fn cargo(&self, crate_name: &str, packages: &[&str], target: &Path) -> Result<(), Error> {
        self.require("cargo")?;
        debian::ensure(packages)?;
        let root = self.cache.join("build").join(self.component.name);
        let mut command = Command::new("cargo");
        command.args(["install", "--locked", "--force", "--version", self.component.version]);
        command
            .args(["--bin", self.component.name, "--root"])
            .arg(root.join("root"))
            .arg(crate_name);
        command
            .env("CARGO_TARGET_DIR", root.join("target"))
            .env("CARGO_PROFILE_RELEASE_STRIP", "symbols");
        // Inside `cargo xtask`, cargo's own variables describe this workspace.
        command.env_remove("CARGO_MANIFEST_DIR").current_dir("/");
        self.watch(&mut command, "crates compiled")?;
        copy(&root.join("root/bin").join(self.component.name), target)
    }

    fn llama_server(&self, archive_sha256: &str, target: &Path) -> Result<(), Error> {
        self.require("python3")?;
        debian::ensure(&["cmake", "make", "g++"])?;
        let root = self.cache.join("build").join(self.component.name);
        fs::create_dir_all(&root).map_err(Error::io("make folder", &root))?;
        let archive = self.fetch_llama_source(&root, archive_sha256)?;
        let mut unpack = Command::new("tar");
        run(
            "unpack llama.cpp",
            unpack
                .args(["--strip-components=1", "-xf"])
                .arg(&archive)
                .arg("-C")
                .arg(&root),
        )?;
        let build = root.join("build");
        let mut configure = Command::new("cmake");
        configure
            .arg("-S")
            .arg(root.join("vendor/llama.cpp"))
            .arg("-B")
            .arg(&build)
            .args(LLAMA_OPTIONS);
        run("configure llama.cpp", &mut configure)?;
        let mut make = Command::new("cmake");
        make.arg("--build")
            .arg(&build)
            .args(["--target", "llama-server", "--parallel", &processors()]);
        self.watch(&mut make, "steps done")?;
        let program = build.join("bin/llama-server");
        run("strip llama-server", Command::new("strip").arg(&program))?;
        copy(&program, target)
    }

    fn fetch_llama_source(&self, root: &Path, archive_sha256: &str) -> Result<PathBuf, Error> {
        let list = root.join("requirements.txt");
        let line = format!(
            "llama-cpp-python=={} --hash=sha256:{archive_sha256}\n",
            self.component.version
        );
        fs::write(&list, line).map_err(Error::io("write", &list))?;
        let mut command = Command::new("python3");
        command.args([
            "-m",
            "pip",
            "download",
            "--quiet",
            "--no-deps",
            "--no-binary",
            "llama-cpp-python",
            "--require-hashes",
        ]);
        run(
            "download the source of llama.cpp",
            command.arg("--requirement").arg(&list).arg("--dest").arg(root),
        )?;
        Ok(root.join(format!("llama_cpp_python-{}.tar.gz", self.component.version)))
    }

    fn static_c(source: &str, target: &Path) -> Result<(), Error> {
        debian::ensure(&["musl-tools"])?;
        let mut command = Command::new("musl-gcc");
        command
            .args(["-static", "-Os", "-s", "-Wall", "-Wextra", "-Werror", "-o"])
            .arg(target);
        run("compile", command.arg(recipes().join(source))).map(drop)
    }

    fn debian(&self, package: &str, program: &str, target: &Path) -> Result<(), Error> {
        let installed = Path::new("/").join(program);
        if installed.is_file() {
            return copy(&installed, target);
        }
        let folder = self.folder.join("package");
        debian::unpack(package, &folder)?;
        copy(&folder.join(program), target)?;
        fs::remove_dir_all(&folder).map_err(Error::io("remove", &folder))
    }

    fn require(&self, tool: &str) -> Result<(), Error> {
        let missing = || Error::MissingTool {
            component: self.component.name.into(),
            tool: tool.into(),
        };
        if command::is_installed(tool) {
            Ok(())
        } else {
            Err(missing())
        }
    }

    /// Runs a long command, and says from time to time how many lines it has come.
    fn watch(&self, command: &mut Command, unit: &str) -> Result<(), Error> {
        let path = self.folder.join("build.log");
        let log = File::create(&path).map_err(Error::io("write", &path))?;
        let errors = log.try_clone().map_err(Error::io("write", &path))?;
        command.stdin(Stdio::null()).stdout(log).stderr(errors);
        let mut child = command.spawn().map_err(Error::io("start", command.get_program()))?;
        let status = self
            .follow(&mut child, &path, unit)
            .map_err(Error::io("wait for", command.get_program()))?;
        if status.success() {
            return Ok(());
        }
        let text = fs::read_to_string(&path).unwrap_or_default();
        Err(Error::Command {
            step: format!(
                "build {} {} from source (log: {})",
                self.component.name,
                self.component.version,
                path.display()
            ),
            program: command::describe(command),
            status: status.to_string(),
            output: last_lines(&text, 15),
        })
    }

    fn follow(&self, child: &mut Child, log: &Path, unit: &str) -> std::io::Result<std::process::ExitStatus> {
        let started = Instant::now();
        let mut next = PROGRESS;
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok(status);
            }
            std::thread::sleep(Duration::from_millis(50));
            if started.elapsed() >= next {
                next += PROGRESS;
                let lines = fs::read_to_string(log).unwrap_or_default().lines().count();
                let seconds = started.elapsed().as_secs();
                self.reporter
                    .line(format!("building {}: {lines} {unit}, {seconds} s", self.component.name));
            }
        }
    }
}

const LLAMA_OPTIONS: &[&str] = &[
    "-DCMAKE_BUILD_TYPE=Release",
    "-DBUILD_SHARED_LIBS=OFF",
    "-DLLAMA_CURL=OFF",
    // Nothing is fetched over HTTPS; where OpenSSL's headers are installed it would be found, and cannot be linked statically.
    "-DLLAMA_OPENSSL=OFF",
    // Not native: the binary has to run on any machine with AVX2.
    "-DGGML_NATIVE=OFF",
    "-DGGML_AVX2=ON",
    "-DGGML_FMA=ON",
    "-DGGML_F16C=ON",
    "-DGGML_OPENMP=OFF",
    "-DLLAMA_BUILD_TESTS=OFF",
    "-DLLAMA_BUILD_EXAMPLES=OFF",
    "-DCMAKE_EXE_LINKER_FLAGS=-static",
];

/// The committed files that a recipe is made of.
pub(super) fn recipe_files(component: &Component) -> Vec<PathBuf> {
    match component.recipe {
        Recipe::Go { module, package, .. } => {
            let folder = recipes().join(module);
            let mut files = vec![folder.join("go.mod"), folder.join("go.sum")];
            if package == "." {
                files.push(folder.join("main.go"));
            }
            files
        }
        Recipe::StaticC { source } => vec![recipes().join(source)],
        _ => Vec::new(),
    }
}

fn recipes() -> PathBuf {
    repository().join("tests/testbed/recipes")
}

fn processors() -> String {
    std::thread::available_parallelism()
        .map_or(1, std::num::NonZero::get)
        .to_string()
}

fn copy(from: &Path, to: &Path) -> Result<(), Error> {
    fs::copy(from, to).map(drop).map_err(Error::io("copy", from))
}
