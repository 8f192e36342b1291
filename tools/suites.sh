# The suites, in the order they run: cheap and certain ones first. Sourced by `test`. For each suite `about_NAME` says in
# one line what it proves, and `suite_NAME` runs it.
# shellcheck shell=bash

SUITES=(tools format lint scripts rust docs deny engine containers python node report deploy fuzz)

interop=$root/tests/interop

# What cargo is asked for: always the whole workspace with all features, so that no suite builds anew, with other features
# of its dependencies, what another one has built.
everything=(--release --locked --workspace --all-features)
# Tests that need a container engine and a runtime by name, and therefore run when they are named.
engine_tests=(--test containers --test hostile --test container_projects)

# The crate that reads manifests, with a lock file of its own.
deploy_crate=(--locked --manifest-path tests/deploy/Cargo.toml)

# Tools by one word each, so that a suite can list what it needs.
need_cargo() { need_rust build; }
need_cargo_fmt() { need_rust fmt; }
need_cargo_clippy() { need_rust clippy; }
need_python_packages() { need_python "$interop/python/requirements.txt"; }
need_npm_packages() { need_node && need_node_modules "$interop/node"; }
need_curl() { need_debian curl; }
need_openssl() { need_debian openssl; }
need_cpp() { need_debian g++; }
need_shellcheck() { need_debian shellcheck; }
need_chromium() { need_debian chromium fonts-liberation; }
need_runsc() { run_logged "$cache/log/runsc" register_runsc; }
need_images() { need_node && need_pip && run_logged "$cache/log/images" build_images; }
need_package_tools() { need_debian binutils dpkg-dev lintian man-db mmdebstrap systemd docker-compose; }
need_docker_command() { command -v docker >/dev/null || need_debian docker.io; }
need_pip() { python3 -m pip --version >/dev/null 2>&1 || need_debian python3 python3-pip; }
ALL_TOOLS=(need_engine_toolchain need_cargo need_cargo_fmt need_cargo_clippy need_node need_npm_packages
  need_python_packages need_curl need_openssl need_cpp need_shellcheck need_chromium need_cargo_deny need_openapi_documents need_go
  need_container_engine need_package_tools need_promtool)

about_tools() { say "every tool the other suites need is here, or is installed now"; }
suite_tools() {
  local tool
  for tool in "${ALL_TOOLS[@]}"; do
    if $tool; then count_pass "${tool#need_}"; else count_fail "${tool#need_}"; fi
  done
}

# with_tools SUITE TOOL...: a suite that is run alone still finds its tools; one that cannot be had fails it by name.
with_tools() {
  local suite=$1 tool
  shift
  for tool in "$@"; do
    $tool || {
      count_fail "$suite: ${tool#need_}"
      return 1
    }
  done
}

about_format() { say "Rust, Python and TypeScript are formatted"; }
suite_format() {
  with_tools format need_cargo_fmt need_npm_packages need_python_packages || return 0
  check "cargo fmt" cargo fmt --all --check -- --color never
  check "cargo fmt, fuzz" cargo fmt --manifest-path fuzz/Cargo.toml --check -- --color never
  check "cargo fmt, deploy" cargo fmt --manifest-path tests/deploy/Cargo.toml --check -- --color never
  check "ruff format" "$python" -m ruff format --no-cache --config "$interop/python/pyproject.toml" --check \
    "$interop/python" tests/documents tests/cells tests/deploy crates/guest/py deploy/image/build
  check "prettier" "$node" "$interop/node/node_modules/prettier/bin/prettier.cjs" --check "$interop/node"
  check "prettier, report" "$node" "$interop/node/node_modules/prettier/bin/prettier.cjs" \
    --config "$interop/node/.prettierrc.json" --check tests/report
}

about_lint() { say "no warning in any Rust target, documentation included"; }
suite_lint() {
  with_tools lint need_engine_toolchain need_cargo_clippy || return 0
  check "cargo clippy" cargo clippy "${everything[@]}" --all-targets -- -D warnings
  check "cargo clippy, tests with an engine" cargo clippy "${everything[@]}" "${engine_tests[@]}" -- -D warnings
  check "cargo clippy, deploy" cargo clippy "${deploy_crate[@]}" --all-targets -- -D warnings
  check "cargo doc" env RUSTDOCFLAGS=-Dwarnings cargo doc "${everything[@]}" --no-deps
}

about_scripts() { say "shell, Python, TypeScript and the wire schema pass their linters and type checkers"; }
suite_scripts() {
  with_tools scripts need_npm_packages need_python_packages need_shellcheck || return 0
  local bin=$interop/node/node_modules
  check "shellcheck" shellcheck --external-sources --check-sourced --source-path="$root" \
    try test .ci/run fuzz/run benches/run tools/openapi-documents.sh tools/engine.sh tools/guest-binary.sh \
    deploy/debian/build deploy/debian/postinst deploy/debian/prerm deploy/debian/postrm
  check "ruff" "$python" -m ruff check --no-cache --config "$interop/python/pyproject.toml" \
    "$interop/python" tests/documents tests/cells tests/deploy crates/guest/py deploy/image/build
  check "mypy --strict" env MYPYPATH="$(python_stubs):tests/cells" "$python" -m mypy --cache-dir "$cache/mypy" \
    --config-file "$interop/python/pyproject.toml" "$interop/python" tests/documents \
    tests/cells tests/deploy crates/guest/py
  check "mypy --strict, deploy" "$python" -m mypy --cache-dir "$cache/mypy" --scripts-are-modules \
    --config-file "$interop/python/pyproject.toml" deploy/image/build
  check "buf lint" "$bin/@bufbuild/buf-linux-x64/bin/buf" lint proto
  check "generate TypeScript messages" node_stubs
  check "tsc" "$node" "$bin/typescript/bin/tsc" --project "$interop/node"
}

about_rust() { say "the tests of every crate"; }
suite_rust() {
  with_tools rust need_engine_toolchain need_cargo need_node need_curl need_openapi_documents || return 0
  # Suites that compare with node find it in NODE; PATH stays as it is, because the engine's build depends on it.
  run_cargo_test cargo-test env NODE="$node" PLIMSOLL_OPENAPI_DOCUMENTS="$openapi_documents" \
    cargo test "${everything[@]}" --no-fail-fast
}

about_docs() { say "links resolve, variables exist, promises name their tests"; }
suite_docs() {
  with_tools docs need_python_packages build_daemon || return 0
  run_pytest documents env PLIMSOLLD="$daemon" "$python" -m pytest -q -p no:cacheprovider tests/documents
}

about_deny() { say "licences, banned crates and sources of the lock file"; }
suite_deny() {
  with_tools deny need_cargo need_cargo_deny || return 0
  check "cargo deny" "$cargo_deny" --locked check licenses bans sources
  check "cargo deny, engine sources" "$cargo_deny" --locked --config deny.toml \
    --manifest-path guest/quickjs/sources/Cargo.toml check -A license-not-encountered licenses sources
  check "cargo deny, deploy" "$cargo_deny" --locked --config deny.toml --manifest-path tests/deploy/Cargo.toml \
    check -A license-not-encountered licenses bans sources
  check "cargo deny, fuzz" "$cargo_deny" --locked --config deny.toml --manifest-path fuzz/Cargo.toml check sources
  # The advisory database is a repository of its own; where it cannot be fetched there is nothing to compare with.
  if run_quietly "$cache/log/advisory-database" timeout 60 "$cargo_deny" --locked fetch db; then
    check "cargo deny, advisories" "$cargo_deny" --locked check --disable-fetch advisories
  else
    say "  note  the advisory database cannot be reached from here, so advisories were not compared"
  fi
}

about_engine() { say "a container engine with runc and gVisor's runsc, and the images, built here from their recipes"; }
suite_engine() {
  with_tools engine need_container_engine need_go need_node need_pip build_daemon || return 0
  check "gVisor, built from its Go module and registered" register_runsc
  check "images build" build_images
  check "images verify" "$plimsoll" images verify --dir "$cache/images"
}

about_containers() { say "the docker provider against the engine: the whole suite under runc, and again under runsc"; }
suite_containers() {
  local runtime
  with_tools containers need_container_engine need_go build_daemon need_runsc need_images || return 0
  for runtime in runc runsc; do
    run_cargo_test "containers-$runtime" env PLIMSOLLD="$daemon" PLIMSOLL_TEST_RUNTIME="$runtime" \
      cargo test "${everything[@]}" "${engine_tests[@]}" --no-fail-fast -- --test-threads=2
  done
  check "nothing left of 300 runs" "$CARGO_TARGET_DIR/release/plimsoll-benches" --container-runs 300 leftovers
  check "examples/providers" "$CARGO_TARGET_DIR/release/example-providers"
  check "examples/sessions" "$CARGO_TARGET_DIR/release/example-sessions"
}

about_python() { say "plimsoll-client 0.23.0, grpcio and curl, unmodified, against a running daemon; the kernels of cells"; }
suite_python() {
  with_tools python need_python_packages need_curl need_openssl need_node build_daemon need_container_engine need_go need_runsc need_images || return 0
  run_pytest interop-python env PLIMSOLLD="$daemon" PYTHONPATH="$(python_stubs)" PYTHONDONTWRITEBYTECODE=1 \
    "$python" -m pytest -q -p no:cacheprovider -c "$interop/python/pyproject.toml" "$interop/python"
  run_pytest cells env NODE="$node" PYTHONDONTWRITEBYTECODE=1 \
    "$python" -m pytest -q -p no:cacheprovider -c "$interop/python/pyproject.toml" tests/cells
}

about_node() { say "@connectrpc/connect-node over Connect, gRPC and gRPC-Web against a running daemon"; }
suite_node() {
  with_tools node need_npm_packages build_daemon || return 0
  run_logged "$cache/log/node-stubs" node_stubs || {
    count_fail "node: generating the messages"
    return 0
  }
  run_node_test interop-node env PLIMSOLLD="$daemon" \
    "$node" --test --test-reporter=tap --test-concurrency=1 "$interop/node/test/*.test.ts"
}

about_report() { say "the report page in a real browser: policy, contrast, keyboard, print"; }
suite_report() {
  with_tools report need_node need_chromium build_daemon || return 0
  # The command as its users call it, under its own name.
  ln -sf plimsoll "$CARGO_TARGET_DIR/release/prospector-report"
  run_node_test report env REPORT="$CARGO_TARGET_DIR/release/prospector-report" \
    "$node" --test --test-reporter=tap tests/report/page.test.mjs
}

about_deploy() { say "the unit, the package, the image, the manifests, the chart, the rules: each by the tool that uses it"; }
suite_deploy() {
  with_tools deploy need_python_packages need_package_tools need_promtool need_go need_container_engine need_docker_command \
    need_openssl need_node need_pip build_daemon need_runsc need_images || return 0
  local out=$cache/deploy renderer=$cache/deploy/render image=plimsoll-deploy-test/debian:12
  rm -rf "$out"
  mkdir -p "$out/binaries"
  # Copies: what is compared is made of one build, also where somebody builds meanwhile.
  cp "$daemon" "$plimsoll" "$out/binaries/"
  check "deploy: the chart's renderer builds" build_renderer "$renderer"
  check "deploy: the package builds" deploy/debian/build "$out/binaries" "$out"
  check "deploy: the image builds" build_daemon_image "$out"
  check "deploy: a clean Debian" clean_debian "$image"
  run_cargo_test deploy-manifests env PLIMSOLLD="$daemon" PLIMSOLL_CHART_RENDERER="$renderer" \
    cargo test "${deploy_crate[@]}" --no-fail-fast
  run_pytest deploy env PLIMSOLLD="$daemon" PROMTOOL="$promtool" PLIMSOLL_BINARIES="$out/binaries" \
    PLIMSOLL_PACKAGE="$(echo "$out"/plimsoll_*.deb)" PLIMSOLL_DAEMON_IMAGE="$out" PLIMSOLL_DEBIAN_IMAGE="$image" \
    PYTHONPATH="$interop/python" PYTHONDONTWRITEBYTECODE=1 \
    "$python" -m pytest -q -p no:cacheprovider -c "$interop/python/pyproject.toml" tests/deploy
}

about_fuzz() { say "the parsers survive hostile bytes"; }
suite_fuzz() {
  with_tools fuzz need_engine_toolchain need_cargo need_cpp || return 0
  local seconds=30 targets target each
  if [ "${CI:-}" = true ]; then seconds=240; fi
  if ! run_logged "$cache/log/fuzz-build" fuzz/run --build; then
    count_fail "fuzz: building the targets"
    return 0
  fi
  mapfile -t targets < <(fuzz/run --list)
  each=$((seconds / ${#targets[@]}))
  for target in "${targets[@]}"; do check "fuzz $target, $each s" fuzz/run "$each" "$target"; done
}

# build_daemon: the release build of plimsolld as `$daemon`, of the plimsoll command beside it as `$plimsoll`, and of the
# programs that suites run. All at once: built one after the other they would share less.
build_daemon() {
  need_engine_toolchain && need_cargo || return 1
  daemon=$CARGO_TARGET_DIR/release/plimsolld
  plimsoll=$CARGO_TARGET_DIR/release/plimsoll
  run_logged "$cache/log/build-daemon" cargo build --release --locked -p plimsolld -p plimsoll-cli -p plimsoll-benches \
    -p example-providers -p example-sessions
}

# build_renderer FILE: the program that renders the chart; Go's own library is all it needs.
build_renderer() {
  local go
  go=$(go_program) && (cd tests/deploy/render && GOPROXY=off GOCACHE="$cache/go-build" "$go" build -o "$1" .)
}

# build_daemon_image OUT: the daemon's container image of the package that lies there.
build_daemon_image() {
  cargo tree --locked --package plimsolld --edges normal,no-proc-macro --prefix none --no-dedupe --format '{p}|{l}' \
    >"$1/crates.txt" && deploy/image/build "$1"/plimsoll_*.deb "$1" --crates "$1/crates.txt"
}

# clean_debian IMAGE: a minimal Debian 12 with systemd, made with this host's mirror, as an image of the engine.
clean_debian() {
  local sources=/etc/apt/sources.list.d/debian.sources
  [ -e "$sources" ] || sources=/etc/apt/sources.list
  mmdebstrap --quiet --variant=minbase --include=ca-certificates,systemd,systemd-sysv \
    bookworm - "$sources" | docker import - "$1"
}

# build_images: the images that the docker provider runs code in, built here and loaded into the engine.
build_images() {
  local guest
  guest=$(tools/guest-binary.sh) || return 1
  "$plimsoll" images build --guest-binary "$guest" --dir "$cache/images"
}

# python_stubs: the messages that grpcio-tools makes of the wire schema; prints their folder.
python_stubs() {
  local folder="$cache/stubs/python"
  mkdir -p "$folder"
  "$python" -m grpc_tools.protoc -I proto --python_out="$folder" --pyi_out="$folder" --grpc_python_out="$folder" \
    plimsoll/v1/plimsoll.proto >&2 && printf '%s' "$folder"
}

# node_stubs: the messages that protoc-gen-es makes of the wire schema, below the TypeScript suite.
node_stubs() {
  (cd "$interop/node" && PATH="$(dirname "$node"):$PATH" node_modules/@bufbuild/buf-linux-x64/bin/buf generate "$root/proto")
}

# run_quietly LOG COMMAND...: for a question whose "no" is an answer and not a failure.
run_quietly() {
  local log=$1
  shift
  "$@" >"$log" 2>&1 </dev/null
}
