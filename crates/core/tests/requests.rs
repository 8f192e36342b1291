//! Every rule that a request alone decides, and every bound on both sides.

use plimsoll_core::limits::*;
use plimsoll_core::*;
use proptest::prelude::*;

fn verdict(payload: Payload) -> Result<(), String> {
    match Validated::new(RunRequest::new(payload)) {
        Ok(_) => Ok(()),
        Err(refusal) => {
            assert_eq!(
                (refusal.code(), refusal.reason()),
                (Code::InvalidArgument, Reason::Request),
                "{refusal}"
            );
            Err(refusal.message().to_owned())
        }
    }
}

fn snippet(code: impl Into<String>) -> Result<(), String> {
    verdict(Payload::JavaScript(JavaScriptRun {
        code: code.into(),
        grant_profile: String::new(),
    }))
}

fn project(change: impl FnOnce(&mut ProjectRun)) -> Result<(), String> {
    let mut run = ProjectRun {
        steps: vec!["true".into()],
        ..ProjectRun::default()
    };
    change(&mut run);
    verdict(Payload::Project(run))
}

fn module(change: impl FnOnce(&mut ModuleRun)) -> Result<(), String> {
    let mut run = ModuleRun {
        model: "m".into(),
        rows: vec![vec![1.0]],
        end_time: 1.0,
        step: 0.1,
    };
    change(&mut run);
    verdict(Payload::Module(run))
}

fn file(path: impl Into<String>, content: impl Into<String>) -> ProjectFile {
    ProjectFile {
        path: path.into(),
        content: content.into(),
    }
}

#[test]
fn code_bounds() {
    assert!(snippet("").unwrap_err().contains("javascript.code is empty"));
    snippet("x".repeat(MAX_CODE_BYTES)).unwrap();
    assert_eq!(
        snippet("x".repeat(MAX_CODE_BYTES + 1)).unwrap_err(),
        "javascript.code: 262145 bytes; at most 262144"
    );
    assert!(snippet("é".repeat(131_073)).is_err(), "the limit is bytes");
    assert!(snippet("a\0b").unwrap_err().contains("U+0000"));
}

#[test]
fn step_bounds() {
    for (steps, ok) in [
        (vec![String::new()], true),
        (vec!["x".repeat(MAX_STEP_BYTES)], true),
        (vec!["x".repeat(MAX_STEP_BYTES + 1)], false),
        (vec!["a\0".to_owned()], false),
        (vec!["true".to_owned(); MAX_STEPS], true),
        (vec!["true".to_owned(); MAX_STEPS + 1], false),
        (vec![], false),
    ] {
        let verdict = project(|run| run.steps = steps);
        assert_eq!(verdict.is_ok(), ok, "{verdict:?}");
    }
}

#[test]
fn file_and_artifact_bounds() {
    let many = |count: usize| (0..count).map(|n| file(format!("f{n}"), "")).collect::<Vec<_>>();
    assert!(project(|run| run.files = many(MAX_FILES)).is_ok());
    assert!(project(|run| run.files = many(MAX_FILES + 1)).is_err());
    let halves = |extra: usize| {
        vec![
            file("a", "x".repeat(MAX_FILE_BYTES / 2)),
            file("b", "x".repeat(MAX_FILE_BYTES / 2 + extra)),
        ]
    };
    assert!(project(|run| run.files = halves(0)).is_ok());
    assert!(project(|run| run.files = halves(1)).is_err());
    assert!(
        project(|run| run.files = vec![file("a", ""), file("a", "")])
            .unwrap_err()
            .contains("project.files[1].path")
    );
    assert!(project(|run| run.files = vec![file("a", "nul \0 is fine")]).is_ok());
    assert!(
        project(|run| run.files = vec![file("a", ""), file("a/b", "")]).is_ok(),
        "fails at setup, not here"
    );
    let artifacts = |count: usize| (0..count).map(|n| format!("a{n}")).collect::<Vec<_>>();
    assert!(project(|run| run.artifacts = artifacts(MAX_ARTIFACTS)).is_ok());
    assert!(project(|run| run.artifacts = artifacts(MAX_ARTIFACTS + 1)).is_err());
    assert!(project(|run| run.artifacts = vec!["a".into(), "a".into()]).is_err());
}

#[test]
fn path_rules_hold_for_files_and_artifacts() {
    let wide = "é".repeat(512);
    let wider = "é".repeat(513);
    let good = [
        ".hidden",
        "..a",
        "a..",
        "...",
        "-x",
        "a b",
        "a\u{2028}b",
        wide.as_str(),
        "a/b/c.txt",
    ];
    let bad = [
        "/abs",
        "../up",
        "a/../b",
        "a//b",
        "a/",
        ".",
        "a/./b",
        "./a",
        "back\\slash",
        "bell\u{7}",
        "nel\u{85}",
        "",
        "del\u{7f}",
        "..",
        wider.as_str(),
    ];
    for path in good {
        assert!(
            project(|run| run.files = vec![file(path, "")]).is_ok(),
            "{path:?} as file"
        );
        assert!(
            project(|run| run.artifacts = vec![path.into()]).is_ok(),
            "{path:?} as artifact"
        );
    }
    for path in bad {
        assert!(
            project(|run| run.files = vec![file(path, "")]).is_err(),
            "{path:?} as file"
        );
        assert!(
            project(|run| run.artifacts = vec![path.into()]).is_err(),
            "{path:?} as artifact"
        );
    }
}

#[test]
fn module_budget_and_form() {
    let sweep = |rows: usize, end: f64| {
        module(|run| {
            run.rows = vec![vec![1.0]; rows];
            run.end_time = end;
            run.step = 1.0;
        })
    };
    for (rows, fits, too_much) in [(1000, 1046.0, 1047.0), (10_000, 102.0, 103.0), (100_000, 7.0, 8.0)] {
        assert!(sweep(rows, fits).is_ok(), "{rows} rows to {fits}");
        assert!(sweep(rows, too_much).is_err(), "{rows} rows to {too_much}");
    }
    for bad in [
        module(|run| run.model = "../x".into()),
        module(|run| run.model = "m\n".into()),
        module(|run| run.model = "x".repeat(65)),
        module(|run| run.rows = vec![]),
        module(|run| run.rows = vec![vec![]]),
        module(|run| run.rows = vec![vec![0.0; 65]]),
        module(|run| run.rows = vec![vec![1.0], vec![1.0, 2.0]]),
        module(|run| run.rows = vec![vec![f64::NAN]]),
        module(|run| run.end_time = 0.0),
        module(|run| run.step = f64::INFINITY),
        module(|run| {
            run.end_time = 1e7;
            run.step = 1.0;
        }),
    ] {
        assert!(bad.is_err());
    }
}

#[test]
fn a_cell_is_refused_by_run_and_checked_for_sessions() {
    let cell = |language: &str| CellRun {
        language: language.into(),
        code: "1".into(),
        files: vec![],
    };
    assert!(verdict(Payload::Cell(cell("python"))).unwrap_err().contains("session"));
    assert!(validate_cell(&cell("python")).is_ok());
    for language in ["cobol", "Python", ""] {
        assert_eq!(validate_cell(&cell(language)).unwrap_err().reason(), Reason::Request);
    }
    for owner in ["a/b", "a b", &"x".repeat(65)] {
        assert!(validate_owner(owner).is_err());
    }
    assert!(validate_owner("").is_ok() && validate_owner("u-1").is_ok());
}

proptest! {
    /// Whatever a request holds, validation answers and never panics, and what it lets through is within bounds.
    #[test]
    fn validation_is_total_and_bounded(
        protocol in 0u32..6,
        floor in "(|process|vm|[a-zA-Z]{0,9})",
        mode in "(|exact|approved|x)",
        identities in proptest::collection::vec("[a-z:@ ]{0,4}", 0..4),
        code in "\\PC{0,40}",
        paths in proptest::collection::vec("[a./\\\\\u{7}]{0,6}", 0..5),
        steps in proptest::collection::vec("[a-z\u{0} ]{0,4}", 0..23),
        which in 0u8..3,
    ) {
        let payload = match which {
            0 => Payload::JavaScript(JavaScriptRun { code, grant_profile: String::new() }),
            1 => Payload::Project(ProjectRun {
                files: paths.iter().map(|path| file(path.clone(), "")).collect(),
                steps,
                artifacts: paths,
                grant_profile: String::new(),
            }),
            _ => Payload::Cell(CellRun { language: "python".into(), code, files: vec![] }),
        };
        let request = RunRequest {
            protocol,
            minimum_isolation: floor,
            software_rule: Some(SoftwareRuleText { mode, identities }),
            payload: Some(payload),
            ..RunRequest::default()
        };
        match Validated::new(request.clone()) {
            Ok(_) => {
                prop_assert_eq!(request.protocol, PROTOCOL);
                match request.payload {
                    Some(Payload::JavaScript(run)) => {
                        prop_assert!(!run.code.is_empty() && run.code.len() <= MAX_CODE_BYTES);
                        prop_assert!(!run.code.contains('\0'));
                    }
                    Some(Payload::Project(run)) => {
                        prop_assert!((1..=MAX_STEPS).contains(&run.steps.len()));
                        for path in run.files.iter().map(|file| &file.path).chain(&run.artifacts) {
                            prop_assert!(!path.contains("..") || path.split('/').all(|part| part != ".."));
                            let bad = |ch: char| ch == '\\' || ch == '\u{7}';
                            prop_assert!(!path.starts_with('/') && !path.contains(bad));
                        }
                    }
                    other => prop_assert!(false, "let through: {:?}", other),
                }
            }
            Err(refusal) => prop_assert!(matches!(refusal.reason(), Reason::Request | Reason::Protocol)),
        }
    }
}
