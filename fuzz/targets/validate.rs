//! Validation: whatever passes keeps the promises that the rooms above rely on, checked here in the plainest words.

#![no_main]

use libfuzzer_sys::fuzz_target;
use plimsoll_core::{Payload, ProjectFile, Reason, RunRequest, Validated};
use plimsoll_wire::decode_run_binary;

fuzz_target!(|body: &[u8]| {
    let Ok(request) = decode_run_binary(body) else { return };
    match Validated::new(request) {
        Ok(validated) => holds(&validated.into_request().0),
        Err(refusal) => {
            assert!(
                matches!(refusal.reason(), Reason::Request | Reason::Protocol),
                "only these two can be at fault"
            );
            assert!(!refusal.to_string().is_empty(), "a refusal says why");
        }
    }
});

fn holds(request: &RunRequest) {
    assert_eq!(request.protocol, 4);
    assert!(["", "process", "container", "kernel", "vm"].contains(&request.minimum_isolation.as_str()));
    match request.payload.as_ref().expect("a payload") {
        Payload::JavaScript(run) => assert!(plain_text(&run.code, 1, 262_144)),
        Payload::Project(run) => {
            assert!((1..=20).contains(&run.steps.len()));
            assert!(run.steps.iter().all(|step| plain_text(step, 0, 16_384)));
            assert!(run.files.len() <= 200 && run.artifacts.len() <= 100);
            assert!(run.files.iter().map(|file| file.content.len()).sum::<usize>() <= 4_194_304);
            stays_inside(run.files.iter().map(|ProjectFile { path, .. }| path));
            stays_inside(run.artifacts.iter());
        }
        Payload::Module(run) => {
            assert!((1..=100_000).contains(&run.rows.len()));
            let width = run.rows[0].len();
            assert!((1..=64).contains(&width));
            assert!(
                run.rows
                    .iter()
                    .all(|row| row.len() == width && row.iter().all(|value| value.is_finite()))
            );
            assert!(run.end_time.is_finite() && run.end_time > 0.0 && run.step.is_finite() && run.step > 0.0);
            assert!(run.end_time / run.step <= 1_000_000.0);
        }
        Payload::Cell(_) => panic!("a Run takes no cell"),
    }
}

fn plain_text(text: &str, least: usize, most: usize) -> bool {
    (least..=most).contains(&text.len()) && !text.contains('\0')
}

/// Joined to a folder, every path stays below it, names one file, and no two name the same.
fn stays_inside<'a>(paths: impl Iterator<Item = &'a String>) {
    let mut seen = std::collections::HashSet::new();
    for path in paths {
        assert!(
            path.len() <= 1024 && !path.chars().any(|c| c == '\\' || c.is_control()),
            "{path:?}"
        );
        assert!(
            path.split('/').all(|segment| !["", ".", ".."].contains(&segment)),
            "{path:?}"
        );
        assert!(seen.insert(path), "{path:?} twice");
    }
}
