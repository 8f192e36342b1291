//! The life of PID 1: how it begins, what it refuses, how it ends, and what it tells of the sandbox.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(clippy::disallowed_methods, reason = "tests start sandboxes and read files")]
#![allow(dead_code, reason = "each test file uses its part of the support")]

mod support;

use std::process::Command;
use std::time::{Duration, Instant};

use plimsoll_guest_messages::{GuestMessage, Plan, Prepare, ProbePlan};
use support::{Sandbox, code, one_step, project, snippet, steps, text};

#[test]
fn outside_a_pid_namespace_it_refuses_to_work() {
    let output = Command::new(env!("CARGO_BIN_EXE_plimsoll-guest")).output().unwrap();
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0));
    assert_eq!(
        text(&output.stderr),
        "plimsoll-guest without a role must be the first process of a sandbox\n"
    );
    for bad in [&["no-such-role"][..], &["eat-memory", "x"], &["fork-until-refused"]] {
        let output = Command::new(env!("CARGO_BIN_EXE_plimsoll-guest"))
            .args(bad)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(2), "{bad:?}");
    }
}

#[test]
fn the_end_of_its_input_ends_everything_at_any_time() {
    // Before it is opened, while node waits, during a step, after a call.
    let mut sandbox = Sandbox::start();
    assert_eq!(code(sandbox.close()), Some(0));

    let mut sandbox = Sandbox::open(Prepare::Snippet);
    sandbox.expect_ready();
    assert_eq!(code(sandbox.close()), Some(0));

    let mut sandbox = Sandbox::open(Prepare::Project);
    sandbox.expect_ready();
    sandbox.send(Plan::Project(steps(&[
        "trap '' TERM HUP; sleep 999 & setsid sleep 999 & sleep 999",
    ])));
    sandbox.expect_started();
    std::thread::sleep(Duration::from_millis(200));
    let inside = Sandbox::inhabitants(sandbox.host_pid());
    assert!(inside.len() >= 4, "{inside:?}");
    let began = Instant::now();
    assert_eq!(code(sandbox.close()), Some(0));
    assert!(began.elapsed() < Duration::from_secs(1));
    assert!(
        inside
            .iter()
            .all(|pid| !std::path::Path::new(&format!("/proc/{pid}")).exists())
    );

    let mut sandbox = Sandbox::open(Prepare::Project);
    sandbox.expect_ready();
    sandbox.project(steps(&["true"]));
    assert_eq!(code(sandbox.close()), Some(0));
}

#[test]
fn input_that_no_host_writes_ends_it_with_2() {
    let mut sandbox = Sandbox::start();
    sandbox.write(b"GET / HTTP/1.1\r\n");
    assert_eq!(code(sandbox.wait()), Some(2));

    let mut sandbox = Sandbox::start();
    let mut open = sandbox.open_frame(Prepare::Project, &[], 1);
    let last = open.len() - 1;
    open[last] ^= 1;
    sandbox.write(&open);
    assert_eq!(code(sandbox.wait()), Some(2));

    let mut sandbox = Sandbox::open(Prepare::Project);
    sandbox.expect_ready();
    let frame = sandbox.plan_frame(Plan::Project(steps(&["echo once"])));
    sandbox.write(&frame);
    sandbox.expect_started();
    sandbox.report();
    sandbox.write(&frame);
    let fault = sandbox.next_word();
    assert!(
        matches!(&fault, Some(GuestMessage::Fault(f)) if f.text == "frame does not verify"),
        "{fault:?}"
    );
    assert_eq!(code(sandbox.wait()), Some(2));

    let mut sandbox = Sandbox::open(Prepare::Project);
    sandbox.expect_ready();
    sandbox.send(snippet("1", "", 1));
    assert_eq!(code(sandbox.wait()), Some(2));

    let mut sandbox = Sandbox::open_with(Prepare::Project, &[("", "x")], 1);
    assert_eq!(code(sandbox.wait()), Some(2));
}

#[test]
fn frames_may_come_byte_by_byte() {
    let mut sandbox = Sandbox::start();
    let mut frames = sandbox.open_frame(Prepare::Project, &[], 1);
    frames.extend(sandbox.plan_frame(Plan::Project(steps(&["echo slow"]))));
    for byte in frames {
        sandbox.write(&[byte]);
    }
    sandbox.expect_ready();
    sandbox.expect_started();
    assert_eq!(text(&sandbox.report().steps[0].stdout.bytes), "slow\n");
}

#[test]
fn it_writes_nothing_but_frames_and_takes_nothing_from_its_environment() {
    let mut sandbox = Sandbox::open(Prepare::Project);
    sandbox.expect_ready();
    let environ = std::fs::read(format!("/proc/{}/environ", sandbox.host_pid())).unwrap();
    assert_eq!(text(&environ), "");
    sandbox.project(steps(&["echo x; echo y >&2"]));
    assert!(sandbox.raw.starts_with(b"PLIMSOLL1 y 0 "), "{}", text(&sandbox.raw));
}

#[test]
fn it_reaps_orphans_while_a_step_runs() {
    let step = one_step(
        "i=0; while [ $i -lt 50 ]; do (true & ) ; i=$((i+1)); done; sleep 0.3; \
         grep -l '^State:.Z' /proc/[0-9]*/status 2>/dev/null | wc -l",
    );
    assert_eq!(text(&step.stdout.bytes).trim(), "0");
}

#[test]
fn an_idle_runner_is_small() {
    let mut sandbox = Sandbox::open(Prepare::Project);
    sandbox.expect_ready();
    let status = std::fs::read_to_string(format!("/proc/{}/status", sandbox.host_pid())).unwrap();
    let rss = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    let kib: u64 = rss.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(kib < 6_000, "{kib} KiB");
}

#[test]
fn probes_state_facts() {
    let mut sandbox = Sandbox::open(Prepare::Probe);
    sandbox.expect_ready();
    sandbox.send(Plan::Probe(ProbePlan {
        host_socket: true,
        banner: true,
    }));
    sandbox.expect_started();
    let Some(GuestMessage::ProbeReport(facts)) = sandbox.next_word() else {
        panic!("no facts")
    };
    assert_eq!(facts.root_write_errno, 13);
    let writable: Vec<_> = facts
        .mounts
        .iter()
        .filter(|one| one.accepts_bytes)
        .map(|one| one.target.as_str())
        .collect();
    for folder in ["/tmp", "/dev/shm", "/work"] {
        assert!(writable.contains(&folder), "{writable:?}");
    }
    let tmp = facts.mounts.iter().find(|one| one.target == "/tmp").unwrap();
    assert_eq!(tmp.fs_type, "tmpfs");
    for option in ["noexec", "nosuid", "size=16384k"] {
        assert!(tmp.options.iter().any(|one| one == option), "{tmp:?}");
    }
    assert_eq!(
        (facts.status.uids.as_slice(), facts.status.gids.as_slice()),
        (&[61_000; 4][..], &[61_000; 4][..])
    );
    assert_eq!(facts.status.capabilities[2], 0);
    assert_eq!(facts.net_devices, ["lo"]);
    assert!(facts.routes.is_empty(), "{:?}", facts.routes);
    assert!(facts.cpus > 0 && facts.kernel_version.contains("Linux") && facts.boot_id.len() == 36);
    assert_eq!(facts.host_socket.unwrap().errno, 2);
    assert_eq!(facts.limits.len(), 4);
    // The probe leaves nothing, and another plan may follow.
    let report = sandbox.project(steps(&["ls -A /tmp /work /dev/shm"]));
    assert_eq!(text(&report.steps[0].stdout.bytes), "/dev/shm:\n\n/tmp:\n\n/work:\n");
}

#[test]
fn the_kill_tree_scenario_leaves_three_kinds_of_processes_and_all_are_gone() {
    let mut sandbox = Sandbox::open(Prepare::Probe);
    sandbox.expect_ready();
    let report = sandbox.project(steps(&["/usr/local/bin/plimsoll-guest leave-processes"]));
    let step = &report.steps[0];
    assert_eq!((step.exit_code, text(&step.stdout.bytes)), (0, "left 3\n".into()));
    assert!(step.limits.most_tasks >= 3, "{step:?}");
    assert_eq!(Sandbox::inhabitants(sandbox.host_pid()), [sandbox.host_pid()]);
}

#[test]
fn a_refused_fork_is_an_ordinary_error() {
    let report = project(steps(&[
        "prlimit --nproc=40 /usr/local/bin/plimsoll-guest fork-until-refused 1000",
    ]));
    let said = text(&report.steps[0].stdout.bytes);
    assert!(
        said.starts_with("refused after ") && said.ends_with("with 11\n"),
        "{said}"
    );
    assert_eq!(report.steps[0].exit_code, 0);
}
