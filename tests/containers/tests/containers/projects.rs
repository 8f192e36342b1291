//! Projects: files, steps, artifacts.

use plimsoll_core::ProjectOutcome;

use crate::support::{ask, gvisor, printed, project, project_of, run, steps};

#[test]
fn files_are_written_steps_run_in_order_and_artifacts_come_back() {
    run(async {
        let request = project(
            &[(
                "src/a.mjs",
                "import { writeFileSync } from 'node:fs';\nwriteFileSync('out.bin', Buffer.from([0, 255]));\n",
            )],
            &["node src/a.mjs", "ls -1", "echo done >&2"],
            &["out.bin", "missing"],
        );
        let result = project_of(&ask(request).await.unwrap());
        assert_eq!(result.outcome, ProjectOutcome::COMPLETED, "{result:?}");
        assert_eq!(result.steps.len(), 3);
        assert_eq!(result.steps[1].stdout, b"out.bin\nsrc\n");
        assert_eq!(result.steps[2].stderr, b"done\n");
        let artifacts: Vec<(&str, &[u8])> = result
            .artifacts
            .iter()
            .map(|one| (one.path.as_str(), one.content.as_slice()))
            .collect();
        assert_eq!(artifacts, [("out.bin", &[0, 255][..])]);
    });
}

#[test]
fn the_first_failing_step_is_the_last_and_is_no_error() {
    run(async {
        let result = steps(&["true", "exit 3", "echo no"]).await;
        assert_eq!(
            (result.outcome, result.outcome_detail.as_str()),
            (ProjectOutcome::COMPLETED, "")
        );
        let codes: Vec<i32> = result.steps.iter().map(|step| step.exit_code).collect();
        assert_eq!(codes, [0, 3]);
    });
}

#[test]
fn a_step_may_wait_for_what_it_started() {
    run(async {
        let result = steps(&[
            "sleep 0.1 & wait; echo one",
            "(sleep 0.1; exit 7) & wait $!; echo $?",
            "for n in 1 2 3 4 5 6 7 8; do sleep 0.01 & done; wait; echo all",
        ])
        .await;
        assert_eq!(printed(&result.steps), ["one\n", "7\n", "all\n"], "{result:?}");
    });
}

#[test]
fn a_step_begins_with_no_signal_blocked_or_ignored() {
    run(async {
        let result = steps(&["cat /proc/self/status"]).await;
        let status = String::from_utf8_lossy(&result.steps[0].stdout).into_owned();
        let masks: Vec<&str> = status
            .lines()
            .filter(|line| line.starts_with("SigBlk:") || line.starts_with("SigIgn:"))
            .collect();
        let none = ["SigBlk:\t0000000000000000", "SigIgn:\t0000000000000000"];
        // gVisor does not tell.
        assert_eq!(masks, if gvisor() { &[][..] } else { &none[..] }, "{status}");
    });
}

#[test]
fn a_step_is_the_first_to_go_from_its_first_moment_on() {
    run(async {
        let result = steps(&["cat /proc/self/oom_score_adj"; 20]).await;
        let scores: Vec<_> = result.steps.iter().map(|step| step.stdout.as_slice()).collect();
        assert_eq!(scores, [b"1000\n"; 20], "{result:?}");
    });
}
