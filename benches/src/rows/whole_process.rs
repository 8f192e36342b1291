//! One whole `plimsoll run` process, against `node -e` and native `qjs` on the same line, side by side.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use serde_json::{Value, json};

use crate::daemon::beside;
use crate::stats::{Round, micros, ratio};
use crate::{CODE, Row};

const PROCESSES: usize = 60;
const FASTER_THAN_NODE: f64 = 3.0;
const WITHIN_OF_QJS: f64 = 3.0;

pub(super) fn measure(node: &Path) -> anyhow::Result<Row> {
    let folder = tempfile::tempdir()?;
    let program = folder.path().join("line.js");
    fs_err::write(&program, CODE)?;
    let qjs = build_qjs(folder.path())?;
    let plimsoll = beside("plimsoll")?;
    let program = program.to_str().context("the temporary folder's name is text")?;
    let [mut ours, mut nodes, mut natives] = [const { Vec::new() }; 3];
    for _ in 0..PROCESSES {
        // Alternating, so that whatever else the machine does slows all three.
        ours.push(one(&plimsoll, &["run", "--quiet", program])?);
        nodes.push(one(node, &["-e", CODE])?);
        natives.push(one(&qjs, &["-e", CODE])?);
    }
    let [ours, nodes, natives] = [ours, nodes, natives].map(|taken| Round::new(taken).p50());
    let (faster, slower) = (ratio(nodes, ours), ratio(ours, natives));
    Ok(Row {
        name: "process",
        what: "one whole `plimsoll run` process, against `node -e` and native `qjs -e` on the same line, alternating",
        figure: format!(
            "plimsoll {} us, node {} us, qjs {} us: {faster}x faster than node, {slower}x the time of qjs",
            micros(ours),
            micros(nodes),
            micros(natives)
        ),
        bar: "at least 3x faster than node; within 3x of qjs",
        holds: faster >= FASTER_THAN_NODE && slower <= WITHIN_OF_QJS,
        numbers: json!({ "plimsoll_us": micros(ours), "node_us": micros(nodes), "qjs_us": micros(natives),
            "processes": PROCESSES }),
    })
}

#[expect(clippy::disallowed_methods, reason = "whole processes are what is measured")]
fn one(program: &Path, args: &[&str]) -> anyhow::Result<Duration> {
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::null()).stderr(Stdio::null());
    let start = Instant::now();
    let output = command
        .output()
        .with_context(|| format!("starting {}", program.display()))?;
    let taken = start.elapsed();
    anyhow::ensure!(
        output.stdout == b"42\n",
        "{} printed {:?}",
        program.display(),
        String::from_utf8_lossy(&output.stdout)
    );
    Ok(taken)
}

/// The native shell of the very engine sources that our image is made of, optimised, by the system's C compiler.
fn build_qjs(folder: &Path) -> anyhow::Result<PathBuf> {
    let sources = engine_sources()?;
    let qjs = folder.join("qjs");
    let units = [
        "qjs.c",
        "quickjs-libc.c",
        "quickjs.c",
        "libregexp.c",
        "libunicode.c",
        "dtoa.c",
        "gen/repl.c",
        "gen/standalone.c",
    ];
    run(&sources, "cc", |command| {
        command.args([
            "-O2",
            "-D_GNU_SOURCE",
            "-DQUICKJS_NG_BUILD",
            "-DNDEBUG",
            "-funsigned-char",
            "-fwrapv",
            "-w",
            "-o",
        ]);
        command.arg(&qjs).args(units).args(["-lm", "-lpthread", "-ldl"]);
    })?;
    Ok(qjs)
}

/// Where Cargo keeps the pinned sources.
fn engine_sources() -> anyhow::Result<PathBuf> {
    let pinned = Path::new(env!("CARGO_MANIFEST_DIR")).join("../guest/quickjs/sources");
    let metadata = run(&pinned, "cargo", |command| {
        command.args(["metadata", "--locked", "--format-version", "1"]);
    })?;
    let metadata: Value = serde_json::from_slice(&metadata)?;
    let packages = metadata["packages"]
        .as_array()
        .context("cargo metadata lists packages")?;
    let package = packages.iter().find(|package| package["name"] == "rquickjs-sys");
    let manifest = package
        .and_then(|package| package["manifest_path"].as_str())
        .context("rquickjs-sys is pinned")?;
    Ok(Path::new(manifest).with_file_name("quickjs"))
}

#[expect(clippy::disallowed_methods, reason = "a benchmark builds what it compares with")]
fn run(folder: &Path, program: &str, arguments: impl FnOnce(&mut Command)) -> anyhow::Result<Vec<u8>> {
    let mut command = Command::new(program);
    command.current_dir(folder);
    arguments(&mut command);
    let output = command.output().with_context(|| format!("starting {program}"))?;
    anyhow::ensure!(
        output.status.success(),
        "{program}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(output.stdout)
}
