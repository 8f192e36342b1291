#!/usr/bin/env bash
# Builds the static guest binary and prints its path, the last line. Quick when nothing changed.
#
#   tools/guest-binary.sh
#
# Into $CARGO_TARGET_DIR (else target/), below this machine's GNU target. The bytes are the same from every folder: no path
# of this machine, no build id, and compiled parts in a fixed order. RUSTC picks another compiler, as for cargo itself.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"

target=$("${RUSTC:-rustc}" -vV | sed -n 's/^host: //p')
case $target in
  *-linux-gnu) ;;
  *)
    echo "the guest binary is built on Linux with glibc; this compiler is for $target" >&2
    exit 1
    ;;
esac
sysroot=$("${RUSTC:-rustc}" --print sysroot)
cargo_home=${CARGO_HOME:-${HOME:-/root}/.cargo}
target_dir=${CARGO_TARGET_DIR:-$root/target}

flags=(
  -C target-feature=+crt-static
  -C relocation-model=static
  -C 'link-arg=-Wl,--build-id=none'
  "--remap-path-prefix=$root=/plimsoll"
  "--remap-path-prefix=$cargo_home=/cargo"
  "--remap-path-prefix=$sysroot=/rust"
  "--remap-path-prefix=$target_dir=/target"
)
# Encoded, because a folder's name may hold spaces. Also wins over flags that this machine sets for other builds.
CARGO_ENCODED_RUSTFLAGS=$(printf '%s\x1f' "${flags[@]}")
export CARGO_ENCODED_RUSTFLAGS=${CARGO_ENCODED_RUSTFLAGS%$'\x1f'}

cargo build --quiet --locked --profile guest --target "$target" --package plimsoll-guest >&2
echo "$target_dir/$target/guest/plimsoll-guest"
