//! Two runs side by side.

use std::time::{Duration, Instant};

use plimsoll_core::{ProjectOutcome, ProjectResult};

use crate::kit::{answer, output, request, still_serves};
use crate::support::{gvisor, project_of, run};

/// Runs `hostile`, and one second later `victim` beside it.
async fn beside(hostile: &str, victim: &str) -> (ProjectResult, ProjectResult) {
    // The provider is made before either begins.
    still_serves().await;
    let victim = async {
        tokio::time::sleep(Duration::from_millis(2_500)).await;
        answer(request(&[victim], &[], 10_000)).await
    };
    let (hostile, victim) = tokio::join!(answer(request(&[hostile], &[], 15_000)), victim);
    (project_of(&hostile), project_of(&victim))
}

#[test]
fn neither_sees_the_others_files_processes_or_sockets() {
    run(async {
        let hostile = "#py
for folder in ('/tmp', '/dev/shm', '/work'): open(folder + '/mark-of-a-neighbour', 'w').write('x')
one = socket.socket(socket.AF_UNIX); one.bind('\\0mark-of-a-neighbour'); one.listen()
two = socket.socket(); two.bind(('127.0.0.1', 4711)); two.listen()
print('marked', flush=True)
time.sleep(6)
";
        let victim = "#py
import subprocess
print([f for folder in ('/tmp', '/dev/shm', '/work') for f in os.listdir(folder) if 'mark' in f])
def dial(family, address):
    s = socket.socket(family); s.settimeout(1); s.connect(address)
attempt('abstract', lambda: dial(socket.AF_UNIX, '\\0mark-of-a-neighbour'))
attempt('tcp', lambda: dial(socket.AF_INET, ('127.0.0.1', 4711)))
print('mark' in open('/proc/net/unix').read(), sorted(told.values()))
print(sum(1 for p in os.listdir('/proc') if p.isdigit()) < 6)
";
        let (hostile, victim) = beside(hostile, victim).await;
        assert_eq!(output(&hostile), "marked\n");
        assert_eq!(
            output(&victim),
            "[]\nFalse ['ECONNREFUSED', 'ECONNREFUSED']\nTrue\n",
            "{victim:?}"
        );
    });
}

#[test]
fn signals_to_every_process_reach_no_neighbour() {
    run(async {
        let (hostile, victim) = beside(
            "#py
print('begun', flush=True)
end = time.time() + 6
signal.signal(signal.SIGUSR1, signal.SIG_IGN)
while time.time() < end:
    for pid in range(2, 3000):
        if pid in (os.getpid(), os.getppid()): continue
        try: os.kill(pid, signal.SIGKILL)
        except OSError: pass
    try: os.kill(-1, signal.SIGUSR1)
    except OSError: pass
",
            "sleep 2; echo unhurt",
        )
        .await;
        assert_eq!(output(&hostile), "begun\n");
        assert_eq!(output(&victim), "unhurt\n", "{victim:?}");
    });
}

#[test]
fn a_neighbour_that_burns_every_processor_slows_nothing_down_to_a_standstill() {
    run(async {
        still_serves().await;
        let burn = "#py
print('burns', flush=True)
for _ in range(150):
    try:
        if os.fork() == 0:
            while True: pass
    except OSError: break
while True: pass
";
        let burner = || answer(request(&[burn], &[], 8_000));
        let beside = async {
            tokio::time::sleep(Duration::from_secs(2)).await;
            let began = Instant::now();
            still_serves().await;
            began.elapsed()
        };
        let (first, second, took) = tokio::join!(burner(), burner(), beside);
        assert!(took < Duration::from_secs(5), "{took:?}");
        for answer in [first, second] {
            let result = project_of(&answer);
            assert_eq!(result.outcome, ProjectOutcome::TIMED_OUT, "{result:?}");
            assert_eq!(output(&result), "burns\n");
        }
    });
}

#[test]
fn a_neighbour_out_of_memory_takes_nobody_with_it() {
    run(async {
        let (_, victim) = beside(
            "#py
print('eats', flush=True)
end = time.time() + 6
while time.time() < end:
    if os.fork() == 0:
        held = []
        while True: held.append(b'x' * (8 << 20))
    try: os.wait()
    except OSError: pass
",
            "#py
held = bytearray(b'y' * (64 << 20))
time.sleep(2)
print(len(held) == held.count(b'y'))
",
        )
        .await;
        assert_eq!(output(&victim), "True\n", "{victim:?}");
    });
}

/// What the kernel counts for each user of the host and not for each container.
const HOARD: &str = "#py
import resource
watches = []
while True:
    one = libc.inotify_init1(0)
    if one < 0 or len(watches) > 1500: break
    watches.append(one)
number = ctypes.c_int()
timers = 0
while timers < 120000 and libc.syscall(222, 1, 0, ctypes.byref(number)) == 0: timers += 1
pipes = []
print('hoards', len(watches), timers, flush=True)
time.sleep(6)
";

// Under runc all guests are one user of the host's kernel, so what it counts by user one run can take from the others: they
// are served all the same, and their programs get an ordinary error (docs/limitations.md). Under gVisor each has its own.

#[test]
fn a_hoard_of_watches_and_timers_leaves_a_neighbour_its_own_or_an_ordinary_error() {
    run(async {
        let (_, victim) = beside(
            HOARD,
            "#py
number = ctypes.c_int()
print(libc.inotify_init1(0) >= 0, libc.syscall(222, 1, 0, ctypes.byref(number)) == 0, flush=True)
",
        )
        .await;
        let served = ["True True\n", "False True\n", "True False\n", "False False\n"];
        let allowed = if gvisor() { &served[..1] } else { &served[..] };
        assert!(allowed.contains(&output(&victim).as_str()), "{victim:?}");
    });
}

#[test]
fn a_hoard_of_terminals_leaves_a_neighbour_one_or_an_ordinary_error() {
    run(async {
        let (hostile, victim) = beside(
            "#py
held = []
try:
    while True: held.append(os.open('/dev/ptmx', os.O_RDWR | os.O_NOCTTY))
except OSError: pass
print('holds', flush=True)
time.sleep(6)
",
            "#py
attempt('terminal', lambda: os.openpty())
print(told['terminal'], flush=True)
",
        )
        .await;
        assert_eq!(output(&hostile), "holds\n");
        let allowed: &[&str] = if gvisor() {
            &["done\n"]
        } else {
            &["done\n", "ENOSPC\n", "None\n"]
        };
        assert!(allowed.contains(&output(&victim).as_str()), "{victim:?}");
    });
}

#[test]
fn a_hoard_of_pipes_leaves_a_neighbour_whole_or_shorter_ones() {
    run(async {
        let (hostile, victim) = beside(
            "#py
import fcntl
held = []
try:
    while len(held) < 1800:
        pair = os.pipe(); held.append(pair)
        try: fcntl.fcntl(pair[1], 1031, 1 << 20)
        except OSError: pass
except OSError: pass
print('holds', flush=True)
time.sleep(6)
",
            "#py
import fcntl
ends = os.pipe()
print(fcntl.fcntl(ends[1], 1032) >= 65536, flush=True)
",
        )
        .await;
        assert_eq!(output(&hostile), "holds\n");
        let allowed: &[&str] = if gvisor() { &["True\n"] } else { &["True\n", "False\n"] };
        assert!(allowed.contains(&output(&victim).as_str()), "{victim:?}");
    });
}
