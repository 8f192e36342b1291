//! What replacing a file takes: a process of its own, for its memory is measured.

#![allow(clippy::unwrap_used, reason = "a step that fails fails the test")]

use std::time::Duration;

use plimsoll_wasm::engine::{Engine, EngineConfig, Files, RunSpec};

const FILE: u64 = 96 << 20;

/// The process's own greatest resident memory since the last time it was forgotten, in bytes.
fn peak() -> u64 {
    let told = fs_err::read_to_string("/proc/self/status").unwrap();
    let line = told.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() << 10
}

#[tokio::test]
async fn a_file_is_never_there_twice_while_it_is_replaced() {
    let engine = Engine::new(EngineConfig {
        memory_pages: 8192,
        slots: 1,
        ..EngineConfig::default()
    })
    .unwrap();
    let files = Files::default();
    let code = format!(
        "const fs = require('fs');
        const content = new Uint8Array({FILE}).fill(1);
        for (let i = 1; i <= 4; i++) {{
            content[0] = i;
            fs.writeFileSync('a', content);
        }}
        console.log(fs.statSync('a').size);"
    );
    let mut spec = RunSpec::new(&code, Duration::from_secs(60));
    spec.files = Some(files.clone());
    fs_err::write("/proc/self/clear_refs", "5").unwrap();
    let before = peak();
    let report = engine.run(spec).await.unwrap();
    assert_eq!(report.stdout.bytes, format!("{FILE}\n").as_bytes());
    let taken = peak() - before;
    // The program holds the content once and the tree once; with the old content beside the new one it would be thrice.
    assert!(taken > 3 * FILE / 2, "{taken}");
    assert!(taken < 5 * FILE / 2, "{taken}");
    assert!(files.bytes() as u64 >= FILE);
}
