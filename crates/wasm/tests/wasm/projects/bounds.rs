//! Bounds: output, artifacts, memory, and how many files there are.

use plimsoll_core::{Limit, ProjectOutcome, Resources};
use plimsoll_wasm::Wasm;

use super::support::*;

#[tokio::test]
async fn a_step_that_writes_more_than_is_kept_is_ended_and_the_run_keeps_three_mebibytes() {
    let flood = "const part = 'x'.repeat(65536); for (;;) process.stdout.write(part)";
    let files = [
        ("flood.js", flood),
        (
            "some.js",
            "process.stdout.write('o'.repeat(1 << 20)); process.stderr.write('e'.repeat(600 << 10))",
        ),
    ];
    let result = result(
        &files,
        &["node some.js", "node some.js", "node flood.js", "node some.js"],
        &[],
    )
    .await;
    assert_eq!(result.outcome, ProjectOutcome::COMPLETED);
    let told: Vec<_> = result
        .steps
        .iter()
        .map(|step| {
            (
                step.exit_code,
                step.stdout.len(),
                step.stdout_truncated,
                step.stderr.len(),
                step.stderr_truncated,
            )
        })
        .collect();
    let (mebibyte, most) = (1 << 20, 600 << 10);
    assert_eq!(
        told,
        [
            (0, mebibyte, false, most, false),
            (0, mebibyte, false, 3 * mebibyte - 2 * mebibyte - most, true),
            (137, 0, true, 0, false)
        ]
    );
    assert_eq!(result.steps[2].diagnostics.limit_hit, Some(Limit::Output));
}

#[tokio::test]
async fn artifacts_stop_at_eight_mebibytes() {
    let write = "for (const name of ['a', 'b', 'c']) require('fs').writeFileSync(name, new Uint8Array(name === 'c' ? 1 : 5 << 20))";
    let result = result(&[("w.js", write)], &["node w.js"], &["c", "a", "b", "w.js"]).await;
    let kept: Vec<_> = result
        .artifacts
        .iter()
        .map(|one| (&*one.path, one.content.len()))
        .collect();
    assert_eq!(kept, [("c", 1), ("a", 5 << 20)]);
    assert!(result.artifacts_truncated);
}

#[tokio::test]
async fn files_and_program_have_one_memory_limit_and_too_many_files_are_told_as_such() {
    let small = Wasm::new(
        Resources {
            memory_mb: 64,
            ..Resources::default()
        },
        1,
    )
    .unwrap();
    let fill = "
        const fs = require('fs');
        let n = 0;
        try { for (;; n++) fs.writeFileSync(`f${n}`, new Uint8Array(1 << 20)) } catch (error) { console.log(error.code, n > 20 && n < 64) }
    ";
    let (result, told) = outcome(&small, project(&[("a.js", fill)], &["node a.js", "node a.js"], &[])).await;
    assert_eq!(result.steps[0].stdout_text(), "ENOSPC true\n", "{result:?}");
    assert_eq!(told.diagnostics.limit_hit, Some(Limit::Memory));
    assert_eq!(result.outcome, ProjectOutcome::RUNNER_FAILED);
    assert!(
        result.outcome_detail.starts_with("step 2 could not start"),
        "{}",
        result.outcome_detail
    );

    let many = "
        const fs = require('fs');
        let n = 0;
        try { for (;; n++) fs.writeFileSync(`f${n}`, '') } catch (error) { console.log(error.code, n) }
        fs.renameSync('f0', 'g'); fs.rmSync('f1'); fs.writeFileSync('f1', '');
    ";
    let (result, told) = outcome(&small, project(&[("a.js", many)], &["node a.js"], &[])).await;
    assert_eq!(result.steps[0].stdout_text(), "ENOSPC 9999\n", "{result:?}");
    assert_eq!(told.diagnostics.limit_hit, Some(Limit::Disk));
}
