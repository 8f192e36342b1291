//! Limits of a control group, as PID 1 sees them from inside. Needs a machine whose control groups root may change.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(clippy::disallowed_methods, reason = "tests start sandboxes and read files")]
#![allow(dead_code, reason = "each test file uses its part of the support")]

mod support;

use std::path::{Path, PathBuf};

use plimsoll_guest_messages::limits::SNIPPET_STREAM_CAP;
use plimsoll_guest_messages::{GuestMessage, Plan, Prepare, ProbePlan, ProjectPlan};
use support::{Sandbox, steps, text};

const MEMORY: u64 = 96 << 20;
const PIDS: u64 = 40;

/// Control groups with a memory and a process limit, removed when dropped.
struct Groups(Vec<PathBuf>);

impl Groups {
    /// Makes the groups and puts PID 1 of a sandbox into them.
    fn around(sandbox: &Sandbox, name: &str) -> Self {
        let name = format!("plimsoll-guest-test-{}-{name}", std::process::id());
        let pid = sandbox.host_pid().to_string();
        let mount = Path::new("/sys/fs/cgroup");
        let older = mount.join("memory").is_dir();
        let folders: Vec<PathBuf> = if older {
            vec![mount.join("memory").join(&name), mount.join("pids").join(&name)]
        } else {
            vec![mount.join(&name)]
        };
        for folder in &folders {
            std::fs::create_dir(folder).expect("a control group can be made");
        }
        let set = |folder: &PathBuf, file: &str, value: &str| {
            std::fs::write(folder.join(file), value).unwrap_or_else(|error| panic!("{file}: {error}"));
        };
        if older {
            set(&folders[0], "memory.limit_in_bytes", &MEMORY.to_string());
            set(&folders[1], "pids.max", &PIDS.to_string());
        } else {
            set(&folders[0], "memory.max", &MEMORY.to_string());
            set(&folders[0], "memory.swap.max", "0");
            set(&folders[0], "pids.max", &PIDS.to_string());
        }
        for folder in &folders {
            set(folder, "cgroup.procs", &pid);
        }
        Self(folders)
    }
}

impl Drop for Groups {
    fn drop(&mut self) {
        for folder in &self.0 {
            // The kernel may still count a process that has just ended.
            for _ in 0..100 {
                if std::fs::remove_dir(folder).is_ok() {
                    break;
                }
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
        }
    }
}

/// Runs with a sandbox in groups of its own, as a container is in its groups before it is opened; the sandbox ends before the
/// groups are removed.
fn limited(name: &str, run: impl FnOnce(&mut Sandbox)) {
    let mut sandbox = Sandbox::start();
    let groups = Groups::around(&sandbox, name);
    let open = sandbox.open_frame(Prepare::Project, &[], SNIPPET_STREAM_CAP);
    sandbox.write(&open);
    sandbox.expect_ready();
    run(&mut sandbox);
    drop(sandbox);
    drop(groups);
}

#[test]
fn out_of_memory_falls_on_guest_code_and_is_counted_in_its_step() {
    limited("memory", |sandbox| {
        let report = sandbox.project(ProjectPlan {
            artifacts: vec!["kept".into()],
            ..steps(&[
                "echo >kept",
                "/usr/local/bin/plimsoll-guest eat-memory-child 400",
                "exec /usr/local/bin/plimsoll-guest eat-memory 400",
            ])
        });
        let seen: Vec<_> = report
            .steps
            .iter()
            .map(|step| (step.exit_code, step.limits.oom_kills))
            .collect();
        assert_eq!(seen, [(0, 0), (0, 1), (137, 1)], "{report:?}");
        assert_eq!(text(&report.steps[1].stdout.bytes), "child ended by signal 9\n");
        assert_eq!((report.limits.oom_kills, report.artifacts.len()), (2, 1));
        assert!((MEMORY / 2..=MEMORY).contains(&report.limits.peak_memory), "{report:?}");
        // PID 1 lives and serves on.
        assert_eq!(sandbox.project(steps(&["true"])).limits.oom_kills, 0);
    });
}

#[test]
fn the_process_limit_is_an_ordinary_error_and_is_counted() {
    limited("pids", |sandbox| {
        let report = sandbox.project(steps(&[
            "true",
            "/usr/local/bin/plimsoll-guest fork-until-refused 1000",
            "i=0; while [ $i -lt 30 ]; do sleep 999 & i=$((i+1)); done; true",
        ]));
        let said = text(&report.steps[1].stdout.bytes);
        assert!(
            said.starts_with("refused after 3") && said.ends_with(" with 11\n"),
            "{said}"
        );
        let refused: Vec<_> = report
            .steps
            .iter()
            .map(|step| (step.exit_code, step.limits.pids_refused))
            .collect();
        assert_eq!(refused, [(0, 0), (0, 1), (0, 0)], "{report:?}");
        assert_eq!(report.limits.pids_refused, 1);
        assert!((30..PIDS).contains(&report.limits.most_tasks), "{report:?}");
    });
}

#[test]
fn a_probe_states_the_limits_of_the_group() {
    limited("probe", |sandbox| {
        sandbox.send(Plan::Probe(ProbePlan::default()));
        sandbox.expect_started();
        let Some(GuestMessage::ProbeReport(facts)) = sandbox.next_word() else {
            panic!("no facts")
        };
        assert_eq!(
            (facts.cgroup.pids_max, facts.cgroup.memory_max),
            (PIDS.to_string(), MEMORY.to_string())
        );
        assert!(facts.cgroup.version == 1 || facts.cgroup.version == 2);
        assert_eq!((facts.host_socket, facts.banner.as_str()), (None, ""));
    });
}
