//! Every snippet of `tests/snippets` prints what node 22 prints and ends with its exit code.
//!
//! `NNN-name.out` was recorded by `tests/snippets/record`: standard output byte for byte, then a line `[exit N]`.
//! `tests/snippets/differences.txt` names the snippets that differ on purpose; `DIFFERENCES.md` beside it says why.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use plimsoll_wasm::engine::{Engine, EngineConfig, RunSpec};

/// The promise: at most this many snippets may differ.
const MOST_DIFFERENCES: usize = 6;
const SNIPPETS: usize = 150;
/// Far above what any snippet needs; a snippet that reaches it fails.
const TIMEOUT: Duration = Duration::from_secs(20);

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/snippets")
}

fn snippets() -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = fs_err::read_dir(folder())
        .expect("the folder of snippets")
        .map(|entry| entry.expect("an entry of the folder").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "js"))
        .collect();
    files.sort();
    files
}

fn differences() -> BTreeSet<String> {
    fs_err::read_to_string(folder().join("differences.txt"))
        .expect("the list of differences")
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(str::to_owned)
        .collect()
}

fn name_of(path: &Path) -> String {
    path.file_stem().expect("a file name").to_string_lossy().into_owned()
}

/// The first line the two outputs disagree on, for the failure message.
fn first_difference(got: &[u8], expected: &[u8]) -> String {
    let got = String::from_utf8_lossy(got);
    let expected = String::from_utf8_lossy(expected);
    let mut lines = (1..).zip(expected.lines().zip(got.lines()));
    match lines.find(|(_, (expected, got))| expected != got) {
        Some((number, (expected, got))) => format!("line {number}\n  node: {expected}\n  ours: {got}"),
        None => format!(
            "{} lines by node, {} by ours",
            expected.lines().count(),
            got.lines().count()
        ),
    }
}

#[tokio::test]
async fn snippets_print_what_node_prints() {
    let engine = Engine::new(EngineConfig {
        output_cap: 4 << 20,
        ..EngineConfig::default()
    })
    .unwrap();
    let allowed = differences();
    let mut failures = Vec::new();
    for path in snippets() {
        let name = name_of(&path);
        let code = fs_err::read_to_string(&path).unwrap();
        let expected = fs_err::read(path.with_extension("out")).unwrap();
        let report = engine.run(RunSpec::new(&code, TIMEOUT)).await.unwrap();
        let mut got = report.stdout.bytes.clone();
        got.extend_from_slice(format!("[exit {}]\n", report.exit_code).as_bytes());
        match (got == expected, allowed.contains(&name)) {
            (true, false) | (false, true) => {}
            (true, true) => failures.push(format!("{name}: listed in differences.txt, but it does not differ")),
            (false, false) => failures.push(format!("{name}: {}", first_difference(&got, &expected))),
        }
    }
    assert!(
        failures.is_empty(),
        "{} snippets:\n{}",
        failures.len(),
        failures.join("\n")
    );
}

#[test]
fn at_most_six_snippets_differ_each_with_its_reason() {
    let names: BTreeSet<String> = snippets().iter().map(|path| name_of(path)).collect();
    assert_eq!(names.len(), SNIPPETS);
    let allowed = differences();
    assert!(allowed.len() <= MOST_DIFFERENCES, "{allowed:?}");
    let reasons = fs_err::read_to_string(folder().join("DIFFERENCES.md")).unwrap();
    for name in &allowed {
        assert!(
            names.contains(name),
            "differences.txt names {name}, which is no snippet"
        );
        assert!(
            reasons.contains(&format!("`{name}`")),
            "DIFFERENCES.md gives no reason for {name}"
        );
    }
}
