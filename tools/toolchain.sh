# Sourced by ./demo and ./check: what must be on the machine before our own code can look after the rest.
# Everything else (Debian packages, Go components, the musl target) is installed by the test bed, which says so.

need() { # program, what it is for, how to get it
  command -v "$1" >/dev/null 2>&1 && return 0
  printf '%s: %s is not installed; it is needed to %s.\n  fix: %s\n' "$0" "$1" "$2" "$3" >&2
  exit 1
}

need cargo "build Plimsoll" "install Rust 1.95 or newer with rustup (https://rustup.rs)"
need cc "link Rust programs" "apt-get install build-essential"
need cmake "build the TLS library" "apt-get install cmake"

minor=$(rustc --version | sed -n 's/^rustc 1\.\([0-9]*\)\..*/\1/p')
if [ "${minor:-0}" -lt 95 ]; then
  printf '%s: %s is too old, Plimsoll needs 1.95.\n  fix: rustup update stable\n' "$0" "$(rustc --version)" >&2
  exit 1
fi

# The task runner is small; it builds everything else and shows the progress.
xtask_binary="${CARGO_TARGET_DIR:-target}/debug/xtask"
build_xtask() {
  [ -x "$xtask_binary" ] || printf 'building the task runner (half a minute the first time)\n' >&2
  cargo build --quiet --package xtask
}
