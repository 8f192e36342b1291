use plimsoll_core::{Limit, RunError};
use plimsoll_guest_link::messages::{Captured, End, LimitFacts};

use super::*;

const PLAIN: Reading = Reading { uncounted_tasks: None };

fn talked(dispatched: bool, started: bool, ending: Ending) -> Talked {
    Talked {
        dispatched,
        started,
        ending,
    }
}

fn end(end: End) -> Box<SnippetEnd> {
    Box::new(SnippetEnd {
        end,
        timed_out: false,
        stdout: Captured {
            bytes: b"42\n".to_vec(),
            produced: 3,
        },
        stderr: Captured::default(),
        duration_ms: 3,
        limits: LimitFacts::default(),
    })
}

fn step(exit_code: i32, timed_out: bool) -> StepReport {
    StepReport {
        command: "true".to_owned(),
        stdout: Captured::default(),
        stderr: Captured::default(),
        exit_code,
        timed_out,
        duration_ms: 1,
        signal: 0,
        limits: LimitFacts::default(),
    }
}

fn unmarked(outcome: Result<impl std::fmt::Debug, NoAnswer>) -> Fault {
    match outcome {
        Err(NoAnswer::Final(RunError::MayHaveRun(fault))) => fault,
        other => panic!("not an unmarked error: {other:?}"),
    }
}

#[test]
fn a_snippets_own_end_is_its_result_with_every_exit_code_as_it_is() {
    for code in [0, 1, 13, 124, 125, 126, 127, 137, 255] {
        let (result, diagnostics) =
            snippet(talked(true, true, Ending::Snippet(end(End::Exited(code)))), PLAIN, "").unwrap();
        assert_eq!(
            (result.exit_code, result.timed_out, diagnostics.signal),
            (code, false, 0)
        );
        assert_eq!(result.stdout, b"42\n");
    }
}

#[test]
fn a_signal_is_128_and_its_number_and_is_named() {
    let mut killed = end(End::Signaled(9));
    killed.limits.oom_kills = 1;
    let (result, diagnostics) = snippet(talked(true, true, Ending::Snippet(killed)), PLAIN, "").unwrap();
    assert_eq!((result.exit_code, diagnostics.signal), (137, 9));
    assert_eq!(diagnostics.limit_hit, Some(Limit::Memory));
    let (_, plain) = snippet(talked(true, true, Ending::Snippet(end(End::Signaled(9)))), PLAIN, "").unwrap();
    assert_eq!((plain.signal, plain.limit_hit), (9, None));
}

#[test]
fn what_pid_1_ended_for_its_time_keeps_its_output_and_reads_124() {
    let mut late = end(End::Signaled(9));
    late.timed_out = true;
    let (result, diagnostics) = snippet(talked(true, true, Ending::Snippet(late)), PLAIN, "").unwrap();
    assert_eq!((result.exit_code, result.timed_out, diagnostics.signal), (124, true, 0));
    assert_eq!(result.stdout, b"42\n");
}

#[test]
fn a_started_snippet_that_never_reports_is_a_timeout_and_one_that_never_started_is_not() {
    let (result, _) = snippet(talked(true, true, Ending::Expired), PLAIN, "").unwrap();
    assert_eq!((result.exit_code, result.timed_out), (124, true));
    let fault = unmarked(snippet(talked(true, false, Ending::Expired), PLAIN, "engine text"));
    assert!(fault.message().contains("engine text"), "{fault}");
    unmarked(project(
        talked(true, false, Ending::Expired),
        PLAIN,
        Exited::default(),
        "",
    ));
}

#[test]
fn nothing_sent_is_told_apart_from_something_that_may_have_run() {
    for ending in [
        Ending::Closed(Verdict::NotFound),
        Ending::Lost("broken pipe".to_owned()),
        Ending::Expired,
    ] {
        let outcome = snippet(talked(false, false, ending), PLAIN, "");
        assert!(matches!(outcome, Err(NoAnswer::NotSent(_))), "{outcome:?}");
    }
    for (started, ending) in [
        (false, Ending::Closed(Verdict::NotFound)),
        (true, Ending::Closed(Verdict::NotFound)),
        (true, Ending::Lost("reset".to_owned())),
        (false, Ending::Lost("reset".to_owned())),
        (false, Ending::Fault("no node".to_owned())),
        (true, Ending::Report(Box::default())),
    ] {
        let fault = unmarked(snippet(talked(true, started, ending), PLAIN, ""));
        assert_eq!(fault.kind(), FaultKind::Internal);
    }
}

#[test]
fn a_caller_who_leaves_is_refused_before_the_first_byte_and_unmarked_after_it() {
    let before = snippet(talked(false, false, Ending::Cancelled), PLAIN, "");
    assert!(
        matches!(before, Err(NoAnswer::Final(RunError::NotDispatched(_)))),
        "{before:?}"
    );
    for started in [false, true] {
        let fault = unmarked(project(
            talked(true, started, Ending::Cancelled),
            PLAIN,
            Exited::default(),
            "",
        ));
        assert_eq!(fault.kind(), FaultKind::Canceled);
    }
}

#[test]
fn a_report_decides_the_outcome_in_the_order_of_the_table() {
    let outcome = |steps: Vec<StepReport>, error: &str, steps_begun| {
        let report = Report {
            steps,
            error: error.to_owned(),
            steps_begun,
            ..Report::default()
        };
        let (result, _) = project(
            talked(true, steps_begun > 0, Ending::Report(Box::new(report))),
            PLAIN,
            Exited::default(),
            "",
        )
        .unwrap();
        (result.outcome, result.outcome_detail)
    };
    assert_eq!(
        outcome(vec![step(0, false), step(3, false)], "", 2),
        (ProjectOutcome::COMPLETED, String::new())
    );
    let (timed_out, detail) = outcome(vec![step(0, false), step(124, true)], "", 2);
    assert_eq!(timed_out, ProjectOutcome::TIMED_OUT);
    assert!(detail.starts_with("step 2 "), "{detail}");
    assert_eq!(
        outcome(vec![], "no room", 0),
        (ProjectOutcome::SETUP_FAILED, "no room".to_owned())
    );
    assert_eq!(
        outcome(vec![step(124, true)], "lost a step", 1),
        (ProjectOutcome::RUNNER_FAILED, "lost a step".to_owned())
    );
}

#[test]
fn a_started_project_without_a_report_is_a_protocol_error_in_fixed_words() {
    for (verdict, exit, word) in [
        (Verdict::NotFound, Some(137), "137"),
        (Verdict::NotFound, Some(2), "exit code 2"),
        (Verdict::NotFound, None, "without a report"),
        (Verdict::Unauthenticated, Some(0), "none of them is its own"),
        (Verdict::Undecodable, Some(0), "cannot be read"),
    ] {
        let (result, _) = project(
            talked(true, true, Ending::Closed(verdict)),
            PLAIN,
            Exited {
                code: exit,
                out_of_memory: false,
            },
            "guest words",
        )
        .unwrap();
        assert_eq!(result.outcome, ProjectOutcome::PROTOCOL_ERROR);
        assert!(result.outcome_detail.contains(word), "{}", result.outcome_detail);
        assert!(!result.outcome_detail.contains("guest words"));
        unmarked(project(
            talked(true, false, Ending::Closed(verdict)),
            PLAIN,
            Exited {
                code: exit,
                out_of_memory: false,
            },
            "",
        ));
    }
    let (result, _) = project(talked(true, true, Ending::Expired), PLAIN, Exited::default(), "").unwrap();
    assert_eq!((result.outcome, result.steps.len()), (ProjectOutcome::TIMED_OUT, 0));
}

#[test]
fn a_time_limit_is_never_nothing() {
    assert_eq!(limit_ms(Duration::from_micros(10)), 1);
    assert_eq!(limit_ms(Duration::from_secs(5)), 5000);
}
