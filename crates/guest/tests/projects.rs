//! Projects: files, steps, artifacts, their caps, and what a hostile step cannot do.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(clippy::disallowed_methods, reason = "tests start sandboxes and read files")]
#![allow(dead_code, reason = "each test file uses its part of the support")]

mod support;

use std::time::Instant;

use plimsoll_guest_messages::limits::{PROJECT_OUTPUT_CAP, STEP_STREAM_CAP};
use plimsoll_guest_messages::{Plan, Prepare, ProjectFile, ProjectPlan, Report, Variable};
use support::{Sandbox, one_step, project, steps, text};

fn file(path: &str, content: &str) -> ProjectFile {
    ProjectFile {
        path: path.to_owned(),
        content: content.to_owned(),
    }
}

fn outputs(report: &Report) -> Vec<String> {
    report.steps.iter().map(|step| text(&step.stdout.bytes)).collect()
}

fn artifacts(report: &Report) -> Vec<(&str, usize)> {
    report
        .artifacts
        .iter()
        .map(|one| (one.path.as_str(), one.content.len()))
        .collect()
}

#[test]
fn files_are_there_steps_run_in_turn_and_artifacts_come_back() {
    let report = project(ProjectPlan {
        files: vec![
            file("a/b/c.txt", "ä\n"),
            file("run.js", "console.log(require('fs').readFileSync('a/b/c.txt', 'utf8'))"),
        ],
        artifacts: vec!["out.bin".into(), "a/b/c.txt".into()],
        ..steps(&[
            "node run.js",
            "printf '\\377\\376\\000' >out.bin; pwd; stat -c %a a/b/c.txt a",
            "printf '\\377\\376'",
        ])
    });
    assert_eq!(report.error, "");
    assert_eq!(outputs(&report), ["ä\n\n", "/work\n644\n755\n", "\u{fffd}\u{fffd}"]);
    assert_eq!(report.steps[2].stdout.bytes, [0xff, 0xfe]);
    assert_eq!(report.artifacts[0].content, [0xff, 0xfe, 0]);
    assert_eq!(artifacts(&report), [("out.bin", 3), ("a/b/c.txt", 3)]);
    assert_eq!((report.steps_begun, report.artifacts_truncated), (3, false));
}

#[test]
fn the_first_failing_step_is_the_last_and_artifacts_are_still_captured() {
    let report = project(ProjectPlan {
        artifacts: vec!["kept".into()],
        ..steps(&["echo >kept", "exit 3", "echo no"])
    });
    let codes: Vec<i32> = report.steps.iter().map(|step| step.exit_code).collect();
    assert_eq!((codes, report.steps_begun, report.error.as_str()), (vec![0, 3], 2, ""));
    assert_eq!(artifacts(&report), [("kept", 1)]);
}

#[test]
fn a_step_past_the_budget_is_killed_whatever_it_traps() {
    let report = project(ProjectPlan {
        step_timeout_ms: 1_000,
        artifacts: vec!["kept".into()],
        ..steps(&["echo 1 >kept", "trap '' TERM INT HUP; echo here; sleep 999", "echo no"])
    });
    let last = &report.steps[1];
    assert_eq!(
        (report.steps.len(), last.exit_code, last.timed_out, last.signal),
        (2, 124, true, 9)
    );
    assert_eq!(
        (text(&last.stdout.bytes), artifacts(&report)),
        ("here\n".into(), vec![("kept", 2)])
    );
    assert!((500..2_500).contains(&last.duration_ms), "{last:?}");
}

#[test]
fn a_later_step_gets_what_remains() {
    let report = project(ProjectPlan {
        step_timeout_ms: 1_500,
        ..steps(&["sleep 1", "sleep 1"])
    });
    let codes: Vec<i32> = report.steps.iter().map(|step| step.exit_code).collect();
    assert_eq!(codes, [0, 124]);
    assert!(report.steps[1].duration_ms < 900, "{report:?}");
}

#[test]
fn a_signal_ends_a_step_with_128_and_its_number() {
    for (name, signal) in [("KILL", 9), ("TERM", 15), ("SEGV", 11)] {
        let step = one_step(&format!("kill -{name} $$"));
        assert_eq!(
            (step.exit_code, step.signal, step.timed_out),
            (128 + signal, signal, false)
        );
    }
    let step = one_step("exit 124");
    assert_eq!((step.exit_code, step.timed_out), (124, false));
}

#[test]
fn a_step_returns_when_its_shell_exits_and_its_background_is_gone() {
    let mut sandbox = Sandbox::open(Prepare::Project);
    sandbox.expect_ready();
    let began = Instant::now();
    let report = sandbox.project(steps(&[
        "sleep 999 & setsid sleep 998 & (trap '' TERM; sleep 997) & echo hi",
        "ps -e 2>/dev/null | grep -c sleep",
    ]));
    assert!(began.elapsed().as_secs() < 5);
    assert_eq!((report.steps[0].exit_code, outputs(&report)[0].as_str()), (0, "hi\n"));
    assert!(report.steps[0].duration_ms < 100, "{report:?}");
    assert_eq!(outputs(&report)[1], "0\n");
    assert_eq!(Sandbox::inhabitants(sandbox.host_pid()), [sandbox.host_pid()]);
}

#[test]
fn output_at_the_cap_is_whole_and_one_byte_more_kills_the_step() {
    let step = one_step(&format!("head -c {STEP_STREAM_CAP} /dev/zero; sleep 0.1; exit 7"));
    assert_eq!(
        (step.stdout.bytes.len(), step.stdout.truncated(), step.exit_code),
        (STEP_STREAM_CAP, false, 7)
    );
    let step = one_step("head -c 2097152 /dev/zero; sleep 999");
    assert_eq!(
        (
            step.stdout.bytes.len(),
            step.stdout.truncated(),
            step.stderr.truncated()
        ),
        (STEP_STREAM_CAP, true, false)
    );
    assert_eq!((step.exit_code, step.signal, step.timed_out), (137, 9, false));
    assert!(step.stdout.bytes.iter().all(|byte| *byte == 0) && step.stdout.produced > STEP_STREAM_CAP as u64);
    // However quickly it ends.
    for _ in 0..20 {
        let report = project(steps(&[
            &format!("head -c {} /dev/zero", STEP_STREAM_CAP + 1),
            "echo never",
        ]));
        assert_eq!((report.steps.len(), report.steps[0].exit_code), (1, 137));
    }
    let step = one_step("head -c 614400 /dev/zero; head -c 614400 /dev/zero >&2");
    assert_eq!(
        (step.exit_code, step.stdout.truncated(), step.stderr.truncated()),
        (0, false, false)
    );
}

#[test]
fn the_newest_steps_output_is_cut_to_what_the_run_has_left() {
    let one = "head -c 900000 /dev/zero; head -c 900000 /dev/zero >&2";
    let report = project(steps(&[one, one, "echo last; echo e >&2; exit 4"]));
    let lengths: Vec<_> = report
        .steps
        .iter()
        .map(|step| (step.stdout.bytes.len(), step.stderr.bytes.len()))
        .collect();
    assert_eq!(
        lengths,
        [(900_000, 900_000), (900_000, PROJECT_OUTPUT_CAP - 2_700_000), (0, 0)]
    );
    let last = &report.steps[2];
    assert_eq!(
        (last.stdout.produced, last.stdout.truncated(), last.stderr.truncated()),
        (5, true, true)
    );
    assert_eq!(
        (
            last.exit_code,
            report.steps[1].stdout.truncated(),
            report.steps[1].stderr.truncated()
        ),
        (4, false, true)
    );
}

#[test]
fn the_largest_report_fits_a_frame() {
    let report = project(ProjectPlan {
        artifacts: vec!["a".into()],
        ..steps(&["head -c 900000 /dev/zero; head -c 900000 /dev/zero >&2; head -c 8388608 /dev/zero >a"])
    });
    assert_eq!(
        (artifacts(&report), report.artifacts_truncated),
        (vec![("a", 8 << 20)], false)
    );
}

#[test]
fn artifacts_above_the_total_stop_the_capture_with_a_flag() {
    let report = project(ProjectPlan {
        artifacts: vec!["a.bin".into(), "b.bin".into(), "small".into()],
        ..steps(&["head -c 5242880 /dev/zero >a.bin; cp a.bin b.bin; echo >small"])
    });
    assert_eq!(
        (artifacts(&report), report.artifacts_truncated),
        (vec![("a.bin", 5 << 20)], true)
    );
}

#[test]
fn what_is_no_regular_file_inside_is_left_out_without_a_hang() {
    let make = "ln -s /etc/passwd link; mkfifo pipe; mkdir -p folder real; echo x >real/file; ln -s real alias; \
        ln -s /etc outside; echo secret >/tmp/t; ln -s /dev/zero zero; ln -s . self; touch shut; chmod 0 shut; \
        node -e 'require(\"net\").createServer().listen(\"socket\", () => process.exit())'";
    let asked = [
        "link",
        "pipe",
        "folder",
        "missing",
        "alias/file",
        "outside/passwd",
        "../etc/passwd",
        "/etc/passwd",
        "zero",
        "self/real/file",
        "shut",
        "socket",
        "real/file/x",
        "real/file",
    ];
    let report = project(ProjectPlan {
        artifacts: asked.map(str::to_owned).to_vec(),
        ..steps(&[make])
    });
    assert_eq!(
        (report.steps[0].exit_code, text(&report.steps[0].stderr.bytes)),
        (0, String::new())
    );
    assert_eq!(
        (artifacts(&report), report.artifacts_truncated),
        (vec![("real/file", 2)], false)
    );
    assert_eq!(report.error, "");
}

#[test]
fn a_file_that_would_leave_the_working_directory_fails_the_setup() {
    for path in ["../x", "/x", "a/../../x", "", "a//b", ".", "a\0b"] {
        let mut sandbox = Sandbox::open(Prepare::Project);
        sandbox.expect_ready();
        sandbox.send(Plan::Project(ProjectPlan {
            files: vec![file(path, "x")],
            ..steps(&["echo ran"])
        }));
        let report = sandbox.report();
        assert!(report.error.starts_with("file "), "{path:?}: {report:?}");
        assert_eq!((report.steps_begun, report.steps.len()), (0, 0));
    }
}

#[test]
fn what_an_earlier_call_left_cannot_redirect_a_file() {
    let mut sandbox = Sandbox::open(Prepare::Project);
    sandbox.expect_ready();
    sandbox.project(steps(&[
        "ln -s /tmp out; ln -s /tmp/target leaf; mkfifo pipe; mkdir real; ln -s real in; echo old >f; mkdir d",
    ]));
    for path in ["out/x", "leaf", "pipe", "d", "f/x"] {
        sandbox.send(Plan::Project(ProjectPlan {
            files: vec![file(path, "x")],
            ..steps(&["true"])
        }));
        let report = sandbox.report();
        assert!(report.error.contains(&format!("{path:?}")), "{path}: {report:?}");
        assert_eq!(report.steps_begun, 0);
    }
    let report = sandbox.project(ProjectPlan {
        files: vec![file("in/x", "inside"), file("f", "new")],
        ..steps(&["cat real/x f; ls -A /tmp"])
    });
    assert_eq!((report.error.as_str(), outputs(&report)[0].as_str()), ("", "insidenew"));
}

#[test]
fn a_step_sees_exactly_its_environment() {
    let mut sandbox = Sandbox::open_with(
        Prepare::Project,
        &[
            ("B", "image"),
            ("NODE_OPTIONS", "--no-warnings"),
            ("PYTHONPATH", "/opt/modules"),
        ],
        0,
    );
    sandbox.expect_ready();
    let report = sandbox.project(ProjectPlan {
        host_sdk: Some("globalThis.host = 'sdk'".into()),
        host_python: Some("host = 'module'\n".into()),
        env: vec![
            Variable::new("HOST_API_SOCKET", "/run/host-api.sock"),
            Variable::new("B", "run"),
        ],
        ..steps(&[
            "env | sort",
            "node -p host",
            "cd /tmp; find . -type f | sort; cat ./plimsoll-python/plimsoll_host.py",
            "cat; id -u; id -G; grep Sig.*: /proc/self/status; ls /proc/self/fd",
        ])
    });
    let expected = "B=run\nHOME=/\nHOSTNAME=box\nHOST_API_SOCKET=/run/host-api.sock\n\
        NODE_OPTIONS=--no-warnings --import=file:///tmp/plimsoll-host.mjs\n\
        PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\nPLIMSOLL_RUNNER_PID=1\nPWD=/work\n\
        PYTHONPATH=/opt/modules:/tmp/plimsoll-python\n";
    assert_eq!(outputs(&report)[0], expected);
    assert_eq!(outputs(&report)[1], "sdk\n");
    assert_eq!(
        outputs(&report)[2],
        "./plimsoll-host.mjs\n./plimsoll-python/plimsoll_host.py\nhost = 'module'\n"
    );
    let last = &outputs(&report)[3];
    assert!(last.starts_with("61000\n61000\nSigQ:"), "{last}");
    for expected in [
        "SigBlk:\t0000000000000000",
        "SigIgn:\t0000000000000000",
        "\n0\n1\n2\n3\n",
    ] {
        assert!(last.contains(expected), "{last}");
    }
    assert!(!last.contains("\n4\n"), "a descriptor of PID 1 leaked: {last}");
}

#[test]
fn a_variable_that_no_process_can_have_fails_the_setup() {
    for (name, value) in [("", "x"), ("A=B", "x"), ("A", "x\0y")] {
        let mut sandbox = Sandbox::open(Prepare::Project);
        sandbox.expect_ready();
        sandbox.send(Plan::Project(ProjectPlan {
            env: vec![Variable::new(name, value)],
            ..steps(&["true"])
        }));
        assert_eq!(sandbox.report().error, "env has an entry without a name, or with NUL");
    }
}

#[test]
fn text_that_looks_like_a_frame_is_ordinary_output() {
    let line =
        "<<<PLIMSOLL_REPORT_V4>>> PLIMSOLL1 p 2 3 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    let step = one_step(&format!("echo '{line}'; echo 'PLIMSOLL1 '; printf 'PLIMSOLL1 h 0 0 '"));
    assert_eq!(
        text(&step.stdout.bytes),
        format!("{line}\nPLIMSOLL1 \nPLIMSOLL1 h 0 0 ")
    );
}

#[test]
fn a_step_cannot_open_kill_or_stop_its_runner() {
    let mut sandbox = Sandbox::open(Prepare::Project);
    sandbox.expect_ready();
    let look = "for f in fd/0 fd/1 mem environ maps root/etc/passwd cwd exe; do cat /proc/$PLIMSOLL_RUNNER_PID/$f >/dev/null 2>&1 && echo $f; done; \
        ls /proc/1/fd 2>/dev/null; /usr/local/bin/plimsoll-guest try-runner";
    let report = sandbox.project(steps(&[
        look,
        "kill -9 $PLIMSOLL_RUNNER_PID; kill -STOP 1; kill -TERM 1; echo still",
    ]));
    assert_eq!(
        outputs(&report),
        [
            "fd/0 read 13\nfd/1 read 13\nfd/1 write 13\nmem read 13\nenviron read 13\n",
            "still\n"
        ]
    );
    assert_eq!(report.steps[0].exit_code, 0);
    assert_eq!(outputs(&sandbox.project(steps(&["echo alive"]))), ["alive\n"]);
}

#[test]
fn a_changed_limit_of_the_runner_is_the_runners_failure() {
    let step = "exec 3>&1; pid=1; prlimit --pid $pid --nofile=64:64 && echo changed";
    let report = project(steps(&[step, "true"]));
    assert_eq!(
        outputs(&report).first().map(String::as_str),
        Some("changed\n"),
        "{report:?}"
    );
    assert_eq!(
        report.error,
        "the runner's own resource limits were changed by a step, or by an earlier call of the session"
    );
    assert_eq!((report.steps_begun, report.artifacts.len()), (2, 0));
}

#[test]
fn a_full_disk_is_seen_in_the_step_that_filled_it() {
    let report = project(steps(&[
        "true",
        "head -c 64M /dev/zero >fill 2>/dev/null; rm -f nothing; exit 0",
        "rm fill",
    ]));
    let full: Vec<bool> = report.steps.iter().map(|step| step.limits.disk_full).collect();
    assert_eq!((full, report.limits.disk_full), (vec![false, true, false], true));
}

#[test]
fn a_crowd_that_goes_on_forking_is_gone_after_its_step() {
    let mut sandbox = Sandbox::open(Prepare::Project);
    sandbox.expect_ready();
    let crowd = "i=0; while [ $i -lt 100 ]; do sleep 999 & i=$((i+1)); done; \
        (while :; do true & done) & setsid sh -c 'while :; do (sleep 0.01 &) done' & sleep 999";
    let report = sandbox.project(ProjectPlan {
        step_timeout_ms: 1_500,
        ..steps(&[crowd, "echo no"])
    });
    assert_eq!((report.steps[0].exit_code, report.steps.len()), (124, 1));
    assert!(report.limits.most_tasks > 100, "{report:?}");
    assert_eq!(Sandbox::inhabitants(sandbox.host_pid()), [sandbox.host_pid()]);
}

#[test]
fn a_step_that_no_process_can_be_given_fails_the_setup() {
    let mut sandbox = Sandbox::open(Prepare::Project);
    sandbox.expect_ready();
    sandbox.send(Plan::Project(ProjectPlan {
        steps: vec!["a\0b".into()],
        step_timeout_ms: 1_000,
        ..ProjectPlan::default()
    }));
    assert_eq!(sandbox.report().error, "step 1 contains NUL");
}

#[test]
fn a_budget_beyond_any_clock_is_no_budget() {
    let report = project(ProjectPlan {
        step_timeout_ms: u64::MAX,
        ..steps(&["echo on"])
    });
    assert_eq!(
        (outputs(&report), report.steps[0].timed_out),
        (vec!["on\n".to_owned()], false)
    );
}

#[test]
fn a_budget_of_nothing_times_the_first_step_out() {
    let report = project(ProjectPlan {
        step_timeout_ms: 0,
        ..steps(&["sleep 999"])
    });
    assert_eq!((report.steps[0].exit_code, report.steps[0].timed_out), (124, true));
}

#[test]
fn a_huge_command_is_reported_and_run_whole() {
    let command = format!("printf %s '{}' | wc -c", "ä".repeat(8_180));
    let step = one_step(&command);
    assert_eq!(
        (text(&step.stdout.bytes).trim(), step.command == command),
        ("16360", true)
    );
}
