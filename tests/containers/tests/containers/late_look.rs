//! What is told of a run by a host that was too busy to look in time.

use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tokio::time::sleep;

use crate::embedder::Embedder;
use crate::leftovers::groups_of;
use crate::support::{gvisor, run};

/// Begins after a while, and then takes all memory with many small processes: under gVisor that ends the sandbox.
const MANY_SMALL: &str = r#"python3 -c '
import os, time
time.sleep(6)
for _ in range(60):
    if os.fork() == 0:
        held = bytearray(b"x" * (8 << 20))
        time.sleep(100)
time.sleep(3)
'"#;

/// Begins after a while, and ends its sandbox in another way.
const ENDS: &str = "sleep 6; kill -9 1; kill -9 -1";

/// What the embedder says of this step when it was stopped before the step did anything, and went on when all was over.
async fn seen_late(step: &str, ends_the_sandbox: bool) -> serde_json::Value {
    let image = ("SANDBOX_DOCKER_PROJECT_IMAGE", "plimsoll/sandbox-python:latest");
    let mut embedder = Embedder::start(&["answer-step", step], &[image]);
    embedder.tells().await;
    let mut containers = Vec::new();
    let began = Instant::now();
    // The containers of its smoke test go first.
    while containers.len() != 1 || containers != embedder.containers().await {
        assert!(began.elapsed() < Duration::from_secs(30), "{containers:?}");
        containers = embedder.containers().await;
        sleep(Duration::from_millis(500)).await;
    }
    // The container has its program by now, and the program still sleeps.
    sleep(Duration::from_secs(2)).await;
    let process = Pid::from_raw(i32::try_from(embedder.child.id().unwrap()).unwrap()).unwrap();
    kill_process(process, Signal::STOP).unwrap();
    let stopped = Instant::now();
    let mut groups = groups_of(&containers, Path::new("/sys/fs/cgroup"), 3);
    assert!(!groups.is_empty());
    while !groups.is_empty() && stopped.elapsed() < Duration::from_secs(20) {
        sleep(Duration::from_millis(100)).await;
        groups = groups_of(&containers, Path::new("/sys/fs/cgroup"), 3);
    }
    assert_eq!(groups.is_empty(), ends_the_sandbox, "{groups:?}");
    kill_process(process, Signal::CONT).unwrap();
    embedder.tells().await
}

#[test]
fn an_end_for_want_of_memory_is_told_when_the_engine_has_removed_the_control_group_already() {
    run(async {
        let told = seen_late(MANY_SMALL, gvisor()).await;
        assert_eq!(told["limit"], "memory", "{told}");
    });
}

#[test]
fn another_end_seen_as_late_is_not_told_as_memory() {
    run(async {
        // Under runc nothing in a container can end its PID 1.
        let told = seen_late(ENDS, gvisor()).await;
        assert_eq!(told["limit"], serde_json::Value::Null, "{told}");
    });
}
