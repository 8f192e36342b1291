//! Guest code whose owner was killed: none may run two seconds later, whatever it did to the first process before.

use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Command;
use tokio::time::sleep;

use crate::support::{run, runtime};

/// Processes of this host in the control groups of one that `owner` holds a handle on, as `pid name`.
fn sandbox_processes(owner: u32) -> Vec<u32> {
    let mut found = Vec::new();
    for entry in fs_err::read_dir(format!("/proc/{owner}/fdinfo"))
        .into_iter()
        .flatten()
        .flatten()
    {
        let text = fs_err::read_to_string(entry.path()).unwrap_or_default();
        let pid = text
            .lines()
            .find_map(|line| line.strip_prefix("Pid:")?.trim().parse::<u32>().ok());
        found.extend(pid.filter(|pid| *pid != owner));
    }
    found
}

/// The control group of a process that names its container.
fn group(pid: u32) -> Option<String> {
    let groups = fs_err::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    let line = groups
        .lines()
        .find(|line| line.contains(":pids:") || line.starts_with("0::"))?;
    line.rsplit('/')
        .next()
        .filter(|name| name.len() >= 64)
        .map(str::to_owned)
}

/// Living processes whose control group is one of these.
fn alive(groups: &[String]) -> usize {
    let processes = fs_err::read_dir("/proc").unwrap().flatten();
    let of_groups = processes.filter(|entry| {
        let text = fs_err::read_to_string(entry.path().join("cgroup")).unwrap_or_default();
        let state = fs_err::read_to_string(entry.path().join("stat")).unwrap_or_default();
        !state.is_empty() && !state.contains(") Z ") && groups.iter().any(|group| text.contains(group.as_str()))
    });
    of_groups.count()
}

/// How long after its owner's death anything of a run may still be there.
const LIMIT: Duration = Duration::from_secs(2);

/// The same of a run whose guest stopped PID 1, which only gVisor lets happen: its own timer ends it.
const STOPPED_LIMIT: Duration = Duration::from_secs(6);

/// Kills an embedder while a project runs this step, and looks a while later.
async fn nothing_runs_after(step: &str, within: Duration) {
    let temp = tempfile::tempdir().unwrap();
    let mut embedder = Command::new(env!("CARGO_BIN_EXE_embedder-under-test"))
        .args(["hold-step", step])
        .env("TMPDIR", temp.path())
        .env("SANDBOX_PROVIDER", "docker")
        .env("SANDBOX_DOCKER_RUNTIME", runtime())
        .env("SANDBOX_DOCKER_PROJECT_IMAGE", "plimsoll/sandbox-python:latest")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut told = BufReader::new(embedder.stdout.take().unwrap());
    let mut line = String::new();
    let _read: usize = tokio::time::timeout(Duration::from_secs(60), told.read_line(&mut line))
        .await
        .unwrap()
        .unwrap();
    let mut groups: Vec<String> = Vec::new();
    for _ in 0..100 {
        groups = sandbox_processes(embedder.id().unwrap())
            .into_iter()
            .filter_map(group)
            .collect();
        if !groups.is_empty() {
            break;
        }
        sleep(Duration::from_millis(100)).await;
    }
    assert!(!groups.is_empty(), "no run was going: {line}");
    // Time for the step to do its worst; a sandbox that is ended for it before the owner dies is as good.
    sleep(Duration::from_millis(1_500)).await;
    embedder.kill().await.unwrap();
    sleep(within).await;
    let left = alive(&groups);
    // Whatever it shows, nothing of this test stays: the next look for orphans takes the container.
    let next = Command::new(env!("CARGO_BIN_EXE_embedder-under-test"))
        .arg("reconcile")
        .env("TMPDIR", temp.path())
        .stdout(Stdio::null())
        .status();
    assert!(next.await.unwrap().success());
    assert_eq!(
        left, 0,
        "processes still run {within:?} after their owner was killed: {step}"
    );
}

#[test]
fn an_idle_and_a_busy_tree_end_with_the_owner() {
    run(async {
        nothing_runs_after("trap '' TERM HUP INT; setsid sleep 3600 & sleep 3600", LIMIT).await;
    });
}

#[test]
fn a_tree_that_starves_the_first_process_ends_with_the_owner() {
    run(async {
        nothing_runs_after(
            "python3 -c \"
import os
for what, who in ((0, 1), (1, 1), (2, os.getuid())):
    try: os.setpriority(what, who, 19)
    except OSError: pass
for _ in range(200):
    try:
        if os.fork() == 0:
            while True: pass
    except OSError: break
while True: pass
\"",
            LIMIT,
        )
        .await;
    });
}

#[test]
fn a_tree_that_stopped_the_first_process_ends_with_the_owner() {
    run(async {
        nothing_runs_after(
            "kill -STOP $PLIMSOLL_RUNNER_PID; sleep 3600 & sleep 3600",
            STOPPED_LIMIT,
        )
        .await;
    });
}

#[test]
fn a_tree_that_stops_the_first_process_again_and_again_ends_with_the_owner() {
    run(async {
        nothing_runs_after("while :; do kill -STOP $PLIMSOLL_RUNNER_PID; done & while :; do kill -CONT $PLIMSOLL_RUNNER_PID; kill -STOP $PLIMSOLL_RUNNER_PID; done", STOPPED_LIMIT)
            .await;
    });
}
