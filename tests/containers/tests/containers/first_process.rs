//! PID 1 of a container and the guest of the same user beside it.

use std::time::Instant;

use plimsoll_core::{ProjectOutcome, RunError};

use crate::support::{ask, gvisor, prints, project, project_of, run, steps, steps_within};

/// Opens what would betray or change PID 1; prints the error of each.
const SNOOP: &str = r"
const fs = require('fs');
const runner = process.env.PLIMSOLL_RUNNER_PID || '1';
const told = {};
const attempt = (name, action) => {
  try { action(); told[name] = 'done'; } catch (error) { told[name] = error.code; }
};
for (const name of ['fd/0', 'fd/1', 'fd/2', 'mem', 'environ', 'maps', 'auxv', 'pagemap'])
  attempt(name, () => fs.readSync(fs.openSync(`/proc/${runner}/${name}`, 'r'), Buffer.alloc(1)));
for (const name of ['fd/1', 'mem']) attempt(`write ${name}`, () => fs.openSync(`/proc/${runner}/${name}`, 'r+'));
for (const name of ['root', 'cwd', 'exe', 'fd/0', 'fd/1']) attempt(`link ${name}`, () => fs.readlinkSync(`/proc/${runner}/${name}`));
attempt('fd', () => fs.readdirSync(`/proc/${runner}/fd`));
console.log(JSON.stringify(told));
";

#[test]
fn nothing_of_the_first_process_can_be_opened() {
    run(async {
        let request = project(&[("snoop.cjs", SNOOP)], &["node snoop.cjs"], &[]);
        let step = project_of(&ask(request).await.unwrap()).steps.remove(0);
        assert_eq!(step.exit_code, 0, "{}", String::from_utf8_lossy(&step.stderr));
        for told in [String::from_utf8(step.stdout).unwrap(), prints(SNOOP).await] {
            let told: serde_json::Map<String, serde_json::Value> = serde_json::from_str(&told).unwrap();
            assert_eq!(told.len(), 16, "{told:?}");
            for (name, error) in &told {
                // A file the kernel does not have cannot be opened either: gVisor shows no pagemap.
                let absent = gvisor() && error == "ENOENT" && name == "pagemap";
                // It lists the numbers of the descriptors, and shows nothing of what they are.
                let numbers = gvisor() && error == "done" && name == "fd";
                assert!(
                    error == "EACCES" || error == "EPERM" || absent || numbers,
                    "{name}: {error}"
                );
            }
        }
    });
}

#[test]
fn the_guest_binary_is_roots_and_may_be_read_and_executed_by_all() {
    run(async {
        let result = steps(&["stat -c '%a %u %g' /usr/local/bin/plimsoll-guest"]).await;
        assert_eq!(result.steps[0].stdout, b"755 0 0\n");
    });
}

#[test]
fn a_killed_first_process_ends_the_run_under_gvisor_and_ignores_it_under_runc() {
    run(async {
        let kill = "kill -9 $PLIMSOLL_RUNNER_PID; sleep 1; echo lives";
        let answer = ask(project(&[], &["echo before", kill], &[])).await;
        if !gvisor() {
            let result = project_of(&answer.unwrap());
            assert_eq!(result.outcome, ProjectOutcome::COMPLETED, "{}", result.outcome_detail);
            assert_eq!(result.steps[1].stdout, b"lives\n");
            return;
        }
        match answer {
            Ok(answer) => {
                let result = project_of(&answer);
                assert_eq!(
                    result.outcome,
                    ProjectOutcome::PROTOCOL_ERROR,
                    "{}",
                    result.outcome_detail
                );
                assert!(result.outcome_detail.contains("137"), "{}", result.outcome_detail);
                assert_eq!((result.steps.len(), result.artifacts.len()), (0, 0));
            }
            Err(RunError::MayHaveRun(fault)) => assert!(fault.to_string().contains("137"), "{fault}"),
            Err(refused @ RunError::NotDispatched(_)) => panic!("it ran: {refused}"),
        }
    });
}

#[test]
fn a_snippet_that_kills_the_first_process_is_never_told_as_its_own_end_under_gvisor() {
    run(async {
        let kill = "process.kill(1, 'SIGKILL'); setTimeout(() => console.log('lives'), 500)";
        let answer = ask(plimsoll_core::RunRequest::javascript(kill)).await;
        if gvisor() {
            let error = answer.unwrap_err();
            assert!(matches!(error, RunError::MayHaveRun(_)), "{error}");
        } else {
            let result = crate::support::javascript(&answer.unwrap());
            assert_eq!((result.stdout.as_slice(), result.exit_code), (&b"lives\n"[..], 0));
        }
    });
}

#[test]
fn a_stopped_first_process_ends_the_run_by_its_deadline_and_the_grace_under_gvisor() {
    run(async {
        for (after, code) in [("", 0), ("; sleep 60", 124)] {
            let began = Instant::now();
            let stop = format!("kill -STOP $PLIMSOLL_RUNNER_PID; sleep 1; echo lives{after}");
            let result = project_of(&steps_within(&[&stop], 3000).await);
            let took = began.elapsed().as_secs();
            if gvisor() {
                // PID 1's own timer ends a sandbox whose PID 1 stands still for five seconds.
                let ends = [ProjectOutcome::TIMED_OUT, ProjectOutcome::PROTOCOL_ERROR];
                assert!(ends.contains(&result.outcome) && result.steps.is_empty(), "{result:?}");
                assert!(took < 15, "{took} s");
            } else {
                let step = &result.steps[0];
                assert_eq!((step.stdout.as_slice(), step.exit_code), (&b"lives\n"[..], code));
                assert!(took < 8, "{took} s");
            }
        }
    });
}
