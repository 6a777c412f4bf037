//! The pins: every component, its version, the digest of its prebuilt binary, and how it is built from source.

/// How a component is made from source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recipe {
    /// `go build` in the module `recipes/<module>`, whose go.mod and go.sum pin everything.
    Go {
        /// The folder under `recipes/`.
        module: &'static str,
        /// The package to build; `.` for the module's own.
        package: &'static str,
        /// Whether C code is linked in.
        cgo: bool,
        /// `-X` definitions for the linker.
        definitions: &'static [&'static str],
    },
    /// `cargo install --locked`.
    Cargo {
        /// The published crate.
        crate_name: &'static str,
        /// Debian packages that its build scripts need.
        packages: &'static [&'static str],
    },
    /// `llama-server` from the source that the Python package `llama-cpp-python` carries.
    LlamaServer {
        /// The digest of the source archive.
        archive_sha256: &'static str,
    },
    /// One C file, linked statically with musl.
    StaticC {
        /// The file under `recipes/`.
        source: &'static str,
    },
    /// The program of a Debian package, taken out of the package without installing it: its install scripts would start
    /// a service.
    Debian {
        /// The package.
        package: &'static str,
        /// Where the program is inside.
        program: &'static str,
    },
}

/// A pinned component.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Component {
    /// Its name, which is also the file name of prebuilt ones.
    pub name: &'static str,
    /// Its version.
    pub version: &'static str,
    /// The digest of the prebuilt linux/amd64 binary, where there is one.
    pub prebuilt_sha256: Option<&'static str>,
    /// How to build it.
    pub recipe: Recipe,
    /// What a source build took on two cores, in seconds, to tell people what to expect.
    pub build_seconds: u32,
}

impl Component {
    /// The pinned component of this name.
    pub fn find(name: &str) -> Option<&'static Self> {
        PINS.iter().find(|component| component.name == name)
    }
}

const KUBERNETES: &str = "1.36.3";
const KUBERNETES_VERSION: &[&str] = &[
    "k8s.io/component-base/version.gitVersion=v1.36.3",
    "k8s.io/component-base/version.gitMajor=1",
    "k8s.io/component-base/version.gitMinor=36",
];

const fn kubernetes(name: &'static str, package: &'static str, sha256: &'static str, seconds: u32) -> Component {
    // Without the version definitions the server reports v0.0.0 and clients misjudge its features.
    let recipe = Recipe::Go {
        module: "kubernetes",
        package,
        cgo: false,
        definitions: KUBERNETES_VERSION,
    };
    Component {
        name,
        version: KUBERNETES,
        prebuilt_sha256: Some(sha256),
        recipe,
        build_seconds: seconds,
    }
}

const fn go(
    name: &'static str,
    version: &'static str,
    source: (&'static str, &'static str),
    sha256: &'static str,
    seconds: u32,
) -> Component {
    let recipe = Recipe::Go {
        module: source.0,
        package: source.1,
        cgo: false,
        definitions: &[],
    };
    Component {
        name,
        version,
        prebuilt_sha256: Some(sha256),
        recipe,
        build_seconds: seconds,
    }
}

/// All components. A new version is a new line here and, for Go, `go get` and `go mod tidy` in the recipe's module.
pub const PINS: &[Component] = &[
    kubernetes(
        "kube-apiserver",
        "k8s.io/kubernetes/cmd/kube-apiserver",
        "53682bc382a258a253fd98b4abf093f46aac05eab46b867276f6691dc9976a29",
        470,
    ),
    kubernetes(
        "kube-controller-manager",
        "k8s.io/kubernetes/cmd/kube-controller-manager",
        "d9c137b40a76135a6de173c9c2a384a646f13d99daf2a2b3e0b553f3d9661a1d",
        120,
    ),
    kubernetes(
        "kube-scheduler",
        "k8s.io/kubernetes/cmd/kube-scheduler",
        "06bc7af5996b43910a6c5f7fc0bad15cf190713a7550ec296ecc7999b62deffe",
        15,
    ),
    kubernetes(
        "kubelet",
        "k8s.io/kubernetes/cmd/kubelet",
        "874840ff9e72efd6da6dd937625f99913f5321c794decdddbd8891ab1b5f6455",
        45,
    ),
    kubernetes(
        "kube-proxy",
        "k8s.io/kubernetes/cmd/kube-proxy",
        "e871a2618eb0b1ee1f2fa217f1f156607e7abb0e9ee93999e1403a21a1ce7606",
        20,
    ),
    kubernetes(
        "kubectl",
        "k8s.io/kubernetes/cmd/kubectl",
        "8bb701085f98205d307e8db295b40ab7c590d98af89c17b2b2d96361b151858a",
        25,
    ),
    go(
        "etcd",
        "3.6.16",
        ("etcd", "."),
        "67b0ea53b69413e49a8364f8aad7e8c482227c669f34476293efde93c0d6f18f",
        65,
    ),
    Component {
        name: "containerd",
        version: "2.4.2",
        prebuilt_sha256: Some("9f16bc296dfdbb7b6a728eb7d6dcf04f3824a382c4556bfa61710428551874e2"),
        recipe: Recipe::Go {
            module: "containerd",
            package: "github.com/containerd/containerd/v2/cmd/containerd",
            cgo: true,
            definitions: &["github.com/containerd/containerd/v2/version.Version=2.4.2"],
        },
        build_seconds: 150,
    },
    go(
        "containerd-shim-runc-v2",
        "2.4.2",
        (
            "containerd",
            "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2",
        ),
        "4dab4608481e15e9375eef239a739f80f78bc2807987b25ecf4172df003b4bee",
        20,
    ),
    go(
        "cni-bridge",
        "1.9.1",
        ("cni", "github.com/containernetworking/plugins/plugins/main/bridge"),
        "49ea295c759a7c34b256aaea587fdcf530485d50f82f63b131e9323b3ed79edf",
        25,
    ),
    go(
        "cni-host-local",
        "1.9.1",
        ("cni", "github.com/containernetworking/plugins/plugins/ipam/host-local"),
        "4be97c378e3fe74d51d767e106f0be6ec9dc436c92a5c06ab97835e07577c682",
        5,
    ),
    go(
        "cni-loopback",
        "1.9.1",
        ("cni", "github.com/containernetworking/plugins/plugins/main/loopback"),
        "8fb15ff27435f2f850e2e3470d90ef654849191605cad7bd55e17e3ce9e17cd4",
        5,
    ),
    go(
        "coredns",
        "1.13.1",
        ("coredns", "github.com/coredns/coredns"),
        "c363afa7d67db4555e6a1e2597a4a8b8bbd04f78fa2af919f33e87c922e90c4f",
        220,
    ),
    go(
        "helm",
        "3.22.0",
        ("helm", "helm.sh/helm/v3/cmd/helm"),
        "318ba26d680c8c2cbc04e749d771e501dcb2da9e4f9f59fd19f01e5f8d556d46",
        145,
    ),
    go(
        "oras",
        "1.3.6",
        ("oras", "oras.land/oras/cmd/oras"),
        "3e19d3cc7a773e59b6678a0f5e83f0b1a16d16613f89503db16c8e5a34094d7c",
        15,
    ),
    go(
        "kubeconform",
        "0.8.0",
        ("kubeconform", "github.com/yannh/kubeconform/cmd/kubeconform"),
        "dc9b8011891530f34a6b268490ceb85cef270b286149e668702541cd6565aac6",
        6,
    ),
    go(
        "dragonfly-scheduler",
        "2.5.1",
        ("dragonfly", "d7y.io/dragonfly/v2/cmd/scheduler"),
        "4d4fb99760b7c1ddeda29ed9ff5e9ba37ec449c1d1cd9c45c3aa8eaa5411a307",
        350,
    ),
    Component {
        name: "dfdaemon",
        version: "1.5.10",
        prebuilt_sha256: Some("7c2980b66b2e2281d1b0f18f4a34f707b7225e8ef96a22641ae884c2dc99d55b"),
        recipe: Recipe::Cargo {
            crate_name: "dragonfly-client",
            packages: &[
                "protobuf-compiler",
                "libprotobuf-dev",
                "clang",
                "libclang-dev",
                "cmake",
                "pkg-config",
                "g++",
                "make",
            ],
        },
        build_seconds: 2900,
    },
    Component {
        name: "llama-server",
        version: "0.3.36",
        prebuilt_sha256: Some("0edc472464d204b949e70cd724f49390c6be290cc4762762a3b5786a3528a6ba"),
        recipe: Recipe::LlamaServer {
            archive_sha256: "832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e",
        },
        build_seconds: 900,
    },
    Component {
        name: "pause",
        version: "1",
        prebuilt_sha256: None,
        recipe: Recipe::StaticC {
            source: "pause/pause.c",
        },
        build_seconds: 1,
    },
    // The same registry, two major versions apart: one keeps a broken upload session, the other drops it.
    Component {
        name: "distribution",
        version: "3.1.2",
        prebuilt_sha256: None,
        recipe: Recipe::Go {
            module: "distribution",
            package: "github.com/distribution/distribution/v3/cmd/registry",
            cgo: false,
            definitions: &[],
        },
        build_seconds: 90,
    },
    Component {
        name: "docker-registry",
        version: "debian",
        prebuilt_sha256: None,
        recipe: Recipe::Debian {
            package: "docker-registry",
            program: "usr/bin/docker-registry",
        },
        build_seconds: 5,
    },
    // A shell and tools in one static file, for pods of scenarios that look at what is mounted.
    Component {
        name: "busybox",
        version: "debian",
        prebuilt_sha256: None,
        recipe: Recipe::Debian {
            package: "busybox-static",
            program: "bin/busybox",
        },
        build_seconds: 3,
    },
];
