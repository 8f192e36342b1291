//! What a step writes, and how it ends.

use std::time::Instant;

use plimsoll_core::{Limit, ProjectOutcome};

use crate::support::{ask, gvisor, project, project_of, run, steps, steps_within};

const MIB: usize = 1 << 20;

#[test]
fn a_step_that_writes_two_mib_keeps_the_first_and_is_killed_and_flagged() {
    run(async {
        let began = Instant::now();
        let result = steps(&["yes | head -c 2097152; sleep 60", "echo no"]).await;
        assert_eq!(
            (result.outcome, result.steps.len()),
            (ProjectOutcome::COMPLETED, 1),
            "{}",
            result.outcome_detail
        );
        let step = &result.steps[0];
        assert_eq!((step.stdout.len(), step.stdout_truncated), (MIB, true));
        assert!(
            step.stdout.chunks(2).all(|pair| pair == b"y\n"),
            "something else stands in the stream"
        );
        assert_eq!((step.stderr.len(), step.stderr_truncated), (0, false));
        assert_eq!((step.exit_code, step.timed_out), (137, false));
        assert_eq!(step.diagnostics.limit_hit, Some(Limit::Output));
        assert!(
            began.elapsed().as_secs() < 20,
            "the step was not killed: {:?}",
            began.elapsed()
        );
    });
}

#[test]
fn each_stream_has_a_cap_of_its_own() {
    run(async {
        let result = steps(&[
            "yes | head -c 614400; yes | head -c 614400 >&2",
            "yes | head -c 1048576",
        ])
        .await;
        assert_eq!(result.steps.len(), 2, "{result:?}");
        let both = &result.steps[0];
        assert_eq!(
            (both.stdout.len(), both.stderr.len(), both.exit_code),
            (614_400, 614_400, 0)
        );
        assert!(!both.stdout_truncated && !both.stderr_truncated);
        let exact = &result.steps[1];
        assert_eq!(
            (exact.stdout.len(), exact.stdout_truncated, exact.exit_code),
            (MIB, false, 0)
        );
    });
}

#[test]
fn all_steps_together_keep_three_mib_and_the_ones_beyond_keep_their_exit_code() {
    run(async {
        let full = "yes | head -c 1048576";
        let result = steps(&[full, full, full, "echo over; echo and >&2; exit 7"]).await;
        let last = result.steps.last().unwrap();
        assert_eq!((result.steps.len(), last.exit_code), (4, 7));
        assert_eq!((last.stdout.len(), last.stderr.len()), (0, 0));
        assert!(last.stdout_truncated && last.stderr_truncated);
        assert_eq!((last.diagnostics.stdout_bytes, last.diagnostics.stderr_bytes), (5, 4));
    });
}

#[test]
fn zero_bytes_on_both_streams_beside_a_full_artifact_fit_into_the_report() {
    run(async {
        let zeros = "head -c 900000 /dev/zero; head -c 900000 /dev/zero >&2; head -c 8388608 /dev/zero > zeros";
        let result = project_of(&ask(project(&[], &[zeros], &["zeros"])).await.unwrap());
        assert_eq!(result.outcome, ProjectOutcome::COMPLETED, "{}", result.outcome_detail);
        let step = &result.steps[0];
        assert!(step.stdout == [0; 900_000] && step.stderr == [0; 900_000]);
        assert!(!step.stdout_truncated && !step.stderr_truncated && !result.artifacts_truncated);
        assert!(result.artifacts.len() == 1 && result.artifacts[0].content == vec![0; 8 * MIB]);
    });
}

#[test]
fn bytes_that_are_not_text_come_back_as_they_are() {
    run(async {
        let result = steps(&["printf '\\377\\376\\000\\r\\n'; printf '\\377' >&2"]).await;
        assert_eq!(result.steps[0].stdout, b"\xff\xfe\0\r\n");
        assert_eq!(result.steps[0].stderr, b"\xff");
    });
}

#[test]
fn text_that_looks_like_a_report_is_ordinary_output() {
    run(async {
        let forged = "PLIMSOLL1 \n<<<PLIMSOLL_REPORT_V4>>> {\"steps\":[]}\nPLIMSOLL1 r 0 3 00 abc\n";
        let command = format!("printf '%s' '{forged}'; printf '%s' '{forged}' >&2");
        let result = steps(&[&command, "echo next"]).await;
        assert_eq!(result.outcome, ProjectOutcome::COMPLETED, "{}", result.outcome_detail);
        assert_eq!(result.steps[0].stdout, forged.as_bytes());
        assert_eq!(result.steps[0].stderr, forged.as_bytes());
        assert_eq!(result.steps[1].stdout, b"next\n");
    });
}

#[test]
fn a_step_that_ignores_its_end_is_ended_by_the_runs_time_and_those_before_it_stay() {
    run(async {
        let began = Instant::now();
        let ignores = "trap '' TERM INT HUP; echo waits; sleep 999; sleep 999";
        let answer = steps_within(&["echo first", ignores, "echo never"], 1000).await;
        let result = project_of(&answer);
        assert_eq!(result.outcome, ProjectOutcome::TIMED_OUT);
        assert!(result.outcome_detail.contains("step 2"), "{}", result.outcome_detail);
        assert_eq!(result.steps.len(), 2);
        assert_eq!(
            (result.steps[0].stdout.as_slice(), result.steps[0].exit_code),
            (&b"first\n"[..], 0)
        );
        let last = &result.steps[1];
        assert_eq!(
            (last.stdout.as_slice(), last.exit_code, last.timed_out),
            (&b"waits\n"[..], 124, true)
        );
        assert!(began.elapsed().as_secs() < 5, "{:?}", began.elapsed());
    });
}

#[test]
fn a_step_that_a_signal_ends_exits_with_128_and_its_number() {
    run(async {
        for (signal, code) in [("KILL", 137), ("TERM", 143), ("SEGV", 139)] {
            let result = steps(&[&format!("kill -{signal} $$")]).await;
            let step = &result.steps[0];
            assert_eq!((step.exit_code, step.timed_out), (code, false), "{signal}");
            assert_eq!(step.diagnostics.signal, u32::try_from(code - 128).unwrap(), "{signal}");
        }
        let own = steps(&["exit 125"]).await;
        assert_eq!((own.steps[0].exit_code, own.steps[0].diagnostics.signal), (125, 0));
    });
}

#[test]
fn a_step_returns_with_its_shell_and_nothing_it_started_is_left() {
    run(async {
        let began = Instant::now();
        let others = "for one in /proc/[0-9]*; do [ -r $one/cmdline ] && tr '\\0' ' ' < $one/cmdline; echo; done";
        let detached =
            "node -e \"require('child_process').spawn('sleep', ['998'], {detached: true, stdio: 'inherit'}).unref()\"";
        let result = steps(&["sleep 999 & echo hi", detached, others]).await;
        assert_eq!(result.steps.len(), 3, "{result:?}");
        assert_eq!(result.steps[0].stdout, b"hi\n");
        // Beside starting and removing the container.
        assert!(result.steps[0].duration_ms < 2000, "{}", result.steps[0].duration_ms);
        let left = String::from_utf8_lossy(&result.steps[2].stdout).into_owned();
        assert!(!left.contains("sleep"), "{left}");
        assert!(began.elapsed().as_secs() < 20, "{:?}", began.elapsed());
    });
}

#[test]
fn a_step_has_no_input_to_wait_for() {
    run(async {
        let result = steps(&["cat; read line; echo \"$? end\""]).await;
        assert_eq!(result.steps[0].stdout, b"1 end\n");
    });
}

#[test]
fn a_fork_bomb_ends_as_an_ordinary_failure_or_under_gvisor_takes_its_own_sandbox_along() {
    run(async {
        let answer = steps_within(&["bomb() { bomb | bomb & }; bomb; sleep 2; echo over"], 20_000).await;
        let result = project_of(&answer);
        if result.outcome == ProjectOutcome::PROTOCOL_ERROR {
            // There every process costs the sandbox's own kernel memory, which may be used up before the process limit is.
            assert!(gvisor() && result.outcome_detail.contains("137"), "{result:?}");
            assert_eq!(answer.diagnostics.unwrap().limit_hit, Some(Limit::Memory), "{result:?}");
            return;
        }
        assert_eq!(answer.diagnostics.unwrap().limit_hit, Some(Limit::Pids), "{result:?}");
        assert!(
            [ProjectOutcome::COMPLETED, ProjectOutcome::TIMED_OUT].contains(&result.outcome),
            "{result:?}"
        );
    });
}
