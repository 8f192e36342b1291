//! Memory in every form that is charged to the container, and the truth about it.

use plimsoll_core::{Limit, ProjectOutcome};

use crate::kit::{answer, attack, limit, output, request, still_serves};
use crate::support::{gvisor, own_sandbox, project_of, run};

/// The limit is named, and every step that ended before is told unless the sandbox itself was lost.
async fn told_as_memory(programs: &[&str]) {
    let answer = attack(programs).await;
    assert_eq!(limit(&answer), Some(Limit::Memory), "{answer:?}");
    still_serves().await;
}

#[test]
fn a_process_that_takes_it_all_is_killed_and_the_run_goes_on() {
    run(async {
        let answer = attack(&[
            "python3 -c 'x = [bytes(8 << 20) + b\"x\" for _ in range(1000)]'; echo $?",
            "echo next",
        ])
        .await;
        let result = project_of(&answer);
        assert_eq!(limit(&answer), Some(Limit::Memory), "{answer:?}");
        assert_eq!(result.outcome, ProjectOutcome::COMPLETED);
        assert_eq!(output(&result), "137\n");
        assert_eq!(result.steps[1].stdout, b"next\n");
    });
}

#[test]
fn many_small_processes_together_are_told_as_memory() {
    run(async {
        told_as_memory(&["#py
for _ in range(60):
    if os.fork() == 0:
        held = bytearray(b'x' * (8 << 20))
        time.sleep(100)
time.sleep(3)
"])
        .await;
    });
}

#[test]
fn memory_that_belongs_to_no_process_is_told_as_memory() {
    run(async {
        told_as_memory(&["#py
files = [os.memfd_create('x') for _ in range(4)]
while True:
    for file in files: os.write(file, b'x' * (1 << 20))
"])
        .await;
    });
}

#[test]
fn a_victim_chosen_so_that_the_first_process_dies_is_still_told_as_memory() {
    run(async {
        let filled = "head -c 1048576 /dev/zero";
        told_as_memory(&[
            filled,
            filled,
            "head -c 1000000 /dev/zero",
            "#py
file = os.memfd_create('x', 0)
os.dup2(file, 9, True)
os.execv('/bin/sh', ['sh', '-c', 'echo 0 > /proc/self/oom_score_adj; head -c 1048576 /dev/zero; exec cat /dev/zero > /proc/self/fd/9'])
",
        ])
        .await;
    });
}

#[test]
fn pipes_and_sockets_full_of_bytes_are_bounded() {
    run(async {
        let answer = attack(&[
            "#py
held = []
try:
    while True:
        ends = socket.socketpair()
        ends[0].setblocking(False)
        held.append(ends)
        try:
            while True: ends[0].send(b'x' * 65536)
        except BlockingIOError: pass
except OSError as error:
    print(errno.errorcode[error.errno], flush=True)
",
            "echo next",
        ])
        .await;
        let result = project_of(&answer);
        let lost = result.outcome == ProjectOutcome::PROTOCOL_ERROR;
        assert!(
            limit(&answer) == Some(Limit::Memory) || (!lost && output(&result) == "EMFILE\n"),
            "{answer:?}"
        );
        assert!(!lost || gvisor(), "{result:?}");
        still_serves().await;
    });
}

#[test]
fn an_address_space_of_a_tebibyte_costs_nothing() {
    run(async {
        let answer = attack(&["#py
import mmap
try:
    held = [mmap.mmap(-1, 1 << 36, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000) for _ in range(16)]
    for one in held: one[0] = 1
    print('mapped', flush=True)
except OSError as error:
    print(errno.errorcode[error.errno], flush=True)
"])
        .await;
        let text = output(&project_of(&answer));
        assert!(["mapped\n", "ENOMEM\n"].contains(&text.as_str()), "{text}");
        assert_eq!(limit(&answer), None);
    });
}

#[test]
fn a_mapped_file_that_fills_the_disk_is_a_bus_error_of_its_own() {
    run(async {
        let answer = attack(&[
            "#py
import mmap
file = os.open('/work/big', os.O_RDWR | os.O_CREAT)
os.ftruncate(file, 1 << 30)
held = mmap.mmap(file, 1 << 30)
for at in range(0, 1 << 30, 4096): held[at] = 1
",
            "echo next",
        ])
        .await;
        let result = project_of(&answer);
        assert_eq!(result.outcome, ProjectOutcome::COMPLETED, "{result:?}");
        assert_eq!(result.steps[0].exit_code, 128 + 7, "{result:?}");
        assert_eq!(limit(&answer), Some(Limit::Disk), "{answer:?}");
    });
}

#[test]
fn every_scratch_folder_full_leaves_room_for_the_artifacts() {
    run(async {
        let fill = "head -c 8000000 /dev/urandom > /work/keep; head -c 100m /dev/zero > /dev/shm/x; head -c 100m /dev/zero > /tmp/x; \
                    head -c 300m /dev/zero > /work/x; sha256sum keep";
        let answer = answer(request(&[fill], &["keep"], 20_000)).await;
        let result = project_of(&answer);
        assert_eq!(result.outcome, ProjectOutcome::COMPLETED, "{result:?}");
        assert_eq!(result.artifacts.len(), 1);
        assert_eq!(result.artifacts[0].content.len(), 8_000_000);
        assert_eq!(limit(&answer), Some(Limit::Disk));
    });
}

#[test]
fn the_smallest_memory_with_full_folders_is_told_and_never_a_success() {
    run(async {
        let variables = [
            ("SANDBOX_DOCKER_PROJECT_IMAGE", "plimsoll/sandbox-python:latest"),
            ("SANDBOX_MEMORY_MB", "64"),
        ];
        let sandbox = match own_sandbox(&variables).await {
            Ok(sandbox) => sandbox,
            Err(error) => {
                // gVisor's own kernel needs more than that: refused at the start, before anything runs.
                assert!(gvisor(), "{error}");
                return;
            }
        };
        let fill = "head -c 6000000 /dev/zero > /work/keep; for i in 1 2 3 4 5 6; do head -c 30m /dev/zero > /work/x$i; done; echo filled";
        let answer = sandbox.exchange(request(&[fill], &["keep"], 20_000)).await.unwrap();
        let result = project_of(&answer);
        assert_eq!(limit(&answer), Some(Limit::Memory), "{answer:?}");
        if result.outcome == ProjectOutcome::COMPLETED {
            assert!(
                result.artifacts_truncated || result.artifacts.iter().any(|one| one.content.len() == 6_000_000),
                "an artifact went missing without a word: {result:?}"
            );
        }
        sandbox.drain().await.unwrap();
    });
}
