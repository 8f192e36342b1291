//! Too many processes, processes that will not go, and attacks on the first process by signals and priorities.

use std::time::{Duration, Instant};

use plimsoll_core::{Limit, ProjectOutcome};

use crate::kit::{all_refused, answer, attack, attempts, limit, output, request, still_serves, told};
use crate::support::{gvisor, project_of, run};

#[test]
fn a_fork_bomb_is_stopped_by_its_limit_and_told_as_such() {
    run(async {
        let bomb = attack(&["b(){ b|b& }; b; sleep 3; echo over"]).await;
        assert_eq!(limit(&bomb), Some(Limit::Pids), "{bomb:?}");
        still_serves().await;
    });
}

#[test]
fn a_bomb_of_busy_processes_ends_at_its_deadline_with_its_output() {
    run(async {
        let began = Instant::now();
        let program = "#py
print('before', flush=True)
for _ in range(1000):
    try:
        if os.fork() == 0:
            while True: pass
    except OSError:
        break
while True: pass
";
        let result = project_of(&answer(request(&[program], &[], 5_000)).await);
        assert_eq!(result.outcome, ProjectOutcome::TIMED_OUT, "{result:?}");
        assert_eq!(output(&result), "before\n");
        assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    });
}

#[test]
fn a_thread_bomb_is_an_ordinary_failure() {
    run(async {
        let program = "#py
import threading
stop = threading.Event()
count = 0
try:
    for _ in range(3000):
        threading.Thread(target=stop.wait, daemon=True).start()
        count += 1
except RuntimeError:
    print('refused', count < 600, flush=True)
os._exit(0)
";
        let answer = attack(&[program, "echo next"]).await;
        let result = project_of(&answer);
        assert_eq!(output(&result), "refused True\n", "{result:?}");
        // gVisor counts no refusals: the limit is told where it is still met when PID 1 looks.
        let told = limit(&answer);
        assert!(told == Some(Limit::Pids) || (gvisor() && told.is_none()), "{answer:?}");
        assert_eq!(result.steps[1].stdout, b"next\n");
    });
}

#[test]
fn a_storm_of_orphans_is_reaped_and_ended() {
    run(async {
        let storm = "#py
for _ in range(200):
    child = os.fork()
    if child == 0:
        if os.fork() == 0:
            os.setsid()
            time.sleep(0.05)
        os._exit(0)
    os.waitpid(child, 0)
time.sleep(1)
states = [open(f'/proc/{pid}/stat').read().rsplit(')')[1].split()[0] for pid in os.listdir('/proc') if pid.isdigit()]
print(states.count('Z'))
";
        let result = told(&[storm, "ls -d /proc/[0-9]* | wc -l"]).await;
        assert_eq!(output(&result), "0\n", "zombies; {result:?}");
        let left: u32 = String::from_utf8_lossy(&result.steps[1].stdout).trim().parse().unwrap();
        assert!(left <= 5, "{left}");
    });
}

#[test]
fn zombies_of_a_living_parent_go_with_it() {
    run(async {
        let program = "#py
for _ in range(150):
    if os.fork() == 0: os._exit(0)
print('made', flush=True)
os.kill(os.getppid(), 9)
time.sleep(60)
";
        let result = told(&[program]).await;
        assert_eq!((output(&result).as_str(), result.steps[0].exit_code), ("made\n", 137));
        still_serves().await;
    });
}

#[test]
fn sessions_groups_and_double_forks_do_not_outlive_their_step() {
    run(async {
        let escape = "#py
for depth in range(20):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            for number in range(1, 65):
                try: signal.signal(number, signal.SIG_IGN)
                except (OSError, ValueError): pass
            os.closerange(0, 10)
            open('/tmp/alive%d' % depth, 'w')
            time.sleep(100)
        os._exit(0)
time.sleep(0.5)
print(len(os.listdir('/tmp')) >= 20)
";
        let look = "#py
found = [pid for pid in os.listdir('/proc') if pid.isdigit() and b'attack0' in open(f'/proc/{pid}/cmdline','rb').read()]
print(found)
";
        let result = told(&[escape, look]).await;
        assert_eq!(output(&result), "True\n", "{result:?}");
        assert_eq!(result.steps[1].stdout, b"[]\n");
    });
}

#[test]
fn forks_that_race_the_kill_do_not_survive_it() {
    run(async {
        let race = "#py
if os.fork() == 0:
    os.setsid()
    while True:
        if os.fork() == 0: continue
        os._exit(0)
time.sleep(0.3)
print('racing', flush=True)
";
        let look = "#py
time.sleep(0.3)
found = [pid for pid in os.listdir('/proc') if pid.isdigit() and b'attack0' in open(f'/proc/{pid}/cmdline','rb').read()]
print(found)
";
        let result = told(&[race, look]).await;
        assert_eq!(result.steps[1].stdout, b"[]\n", "{result:?}");
    });
}

#[test]
fn killing_every_process_it_may_ends_the_step_and_not_the_run() {
    run(async {
        let answer = attack(&["#py\nos.kill(-1, signal.SIGTERM)\ntime.sleep(20)\n"]).await;
        let result = project_of(&answer);
        assert_eq!(result.outcome, ProjectOutcome::COMPLETED, "{result:?}");
        assert!(
            [143, 0].contains(&result.steps[0].exit_code) || result.steps[0].exit_code > 128,
            "{result:?}"
        );
    });
}

#[test]
fn every_signal_to_the_first_process_but_kill_and_stop_is_lost_on_it() {
    run(async {
        let program = "#py
for number in list(range(1, 65)) * 20:
    if number in (signal.SIGKILL, signal.SIGSTOP): continue
    try: os.kill(1, number)
    except (OSError, ValueError): pass
print('sent', flush=True)
";
        let result = project_of(&attack(&[program, "echo next"]).await);
        if gvisor() && result.outcome == ProjectOutcome::PROTOCOL_ERROR {
            // Its kernel lets a signal without a handler end the first process: told, and no success.
            return;
        }
        assert_eq!(result.outcome, ProjectOutcome::COMPLETED, "{result:?}");
        assert_eq!(output(&result), "sent\n");
        assert_eq!(result.steps[1].stdout, b"next\n");
    });
}

#[test]
fn a_first_process_that_was_made_nice_still_ends_the_run_in_time() {
    run(async {
        let began = Instant::now();
        let starve = "#py
print('before', flush=True)
for what, who in ((0, 1), (1, 1), (2, os.getuid())):
    try: os.setpriority(what, who, 19)
    except OSError: pass
try: os.sched_setaffinity(1, [min(os.sched_getaffinity(0))])
except OSError: pass
for _ in range(200):
    try:
        if os.fork() == 0:
            while True: pass
    except OSError:
        break
while True: pass
";
        let result = project_of(&answer(request(&[starve], &[], 4_000)).await);
        assert_eq!(result.outcome, ProjectOutcome::TIMED_OUT, "{result:?}");
        assert_eq!(
            result.steps.len(),
            1,
            "what the step wrote is lost: {}",
            result.outcome_detail
        );
        assert_eq!(output(&result), "before\n");
        assert!(began.elapsed() < Duration::from_secs(8), "{:?}", began.elapsed());
    });
}

#[test]
fn nobody_but_itself_has_its_priority_and_limits_changed() {
    run(async {
        let program = "#py
import resource
attempt('nice', lambda: os.setpriority(os.PRIO_PROCESS, 1, 19))
attempt('nice group', lambda: os.setpriority(os.PRIO_PGRP, 1, 19))
attempt('nice user', lambda: os.setpriority(os.PRIO_USER, os.getuid(), 19))
attempt('idle', lambda: os.sched_setscheduler(1, os.SCHED_IDLE, os.sched_param(0)))
attempt('ioprio', lambda: call(251, 1, 1, 3 << 13))
attempt('cpu limit', lambda: resource.prlimit(1, resource.RLIMIT_CPU, (1000, 1000)))
attempt('oom', lambda: open('/proc/1/oom_score_adj', 'w').write('1000'))
attempt('autogroup', lambda: open('/proc/1/autogroup', 'w').write('19'))
attempt('own nice', lambda: os.setpriority(os.PRIO_PROCESS, 0, 5))
tell()
";
        let result = project_of(&attack(&[program]).await);
        if gvisor() {
            // Its kernel allows it, so it is found out: nothing of such a run is believed.
            assert_eq!(result.outcome, ProjectOutcome::RUNNER_FAILED, "{result:?}");
            return;
        }
        let found: std::collections::BTreeMap<String, String> =
            serde_json::from_slice(&result.steps[0].stdout).unwrap();
        all_refused(&found, &["own nice"]);
        assert_eq!(found["own nice"], "done");
    });
}

#[test]
fn a_step_that_ignores_every_signal_ends_at_the_deadline() {
    run(async {
        let began = Instant::now();
        let stubborn = "#py
for number in range(1, 65):
    try: signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError): pass
print('stubborn', flush=True)
while True: time.sleep(1)
";
        let result = project_of(&answer(request(&["echo first", stubborn], &[], 3_000)).await);
        assert_eq!(result.outcome, ProjectOutcome::TIMED_OUT, "{result:?}");
        assert_eq!((result.steps[1].exit_code, result.steps[1].timed_out), (124, true));
        assert_eq!(result.steps[0].stdout, b"first\n");
        assert!(began.elapsed() < Duration::from_secs(8), "{:?}", began.elapsed());
    });
}

#[test]
fn a_parent_that_waits_in_the_kernel_for_its_vfork_dies_like_another() {
    run(async {
        let began = Instant::now();
        // The child of vfork sleeps in the kernel, so its parent cannot be interrupted by anything but SIGKILL.
        let wait = "#py
code = bytes.fromhex('b83a0000000f05' '85c0' '7512' 'bf00000000be00000000' 'b822000000' '0f05' 'ebf7' 'c3')
import mmap
page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
page.write(code)
print('waiting', flush=True)
ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))()
";
        let result = project_of(&answer(request(&[wait], &[], 2_000)).await);
        assert_eq!(result.outcome, ProjectOutcome::TIMED_OUT, "{result:?}");
        assert_eq!(output(&result), "waiting\n");
        assert!(began.elapsed() < Duration::from_secs(7), "{:?}", began.elapsed());
    });
}

#[test]
fn a_stopped_shell_ends_at_the_deadline() {
    run(async {
        let result = project_of(&answer(request(&["echo stop; kill -STOP $$; echo never"], &[], 2_000)).await);
        assert_eq!(result.outcome, ProjectOutcome::TIMED_OUT);
        assert_eq!(output(&result), "stop\n");
    });
}

#[test]
fn limits_that_it_sets_itself_hurt_only_itself() {
    run(async {
        let result = told(&[
            "ulimit -n 5; ulimit -u 1 2>/dev/null; ulimit -v 1000 2>/dev/null; ulimit -f 0; ulimit -t 1; echo set",
            "ulimit -n; head -c 1000 /dev/zero > x && wc -c < x",
        ])
        .await;
        assert_eq!(output(&result), "set\n");
        assert_eq!(result.steps[1].stdout, b"4096\n1000\n", "{result:?}");
        let raised = attempts(
            "
import resource
attempt('nofile', lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (8192, 8192)))
attempt('core', lambda: resource.setrlimit(resource.RLIMIT_CORE, (1, 1)))
",
        )
        .await;
        all_refused(&raised, &[]);
    });
}
