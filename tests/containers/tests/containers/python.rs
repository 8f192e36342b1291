//! The image with Python in it, and what only a language with system calls can try.

use plimsoll::{Project, ProjectRun, Sandbox};
use plimsoll_core::ProjectOutcome;
use tokio::sync::OnceCell;

use crate::support::{gvisor, own_sandbox, printed, run};
use crate::upstream::Upstream;

async fn sandbox() -> &'static Sandbox {
    static SANDBOX: OnceCell<Sandbox> = OnceCell::const_new();
    let image = ("SANDBOX_DOCKER_PROJECT_IMAGE", "plimsoll/sandbox-python:latest");
    SANDBOX
        .get_or_init(|| async { own_sandbox(&[image]).await.unwrap() })
        .await
}

/// One step that runs this program.
async fn python(program: &str) -> ProjectRun {
    let project = Project::new().file("main.py", program).step("python3 main.py");
    sandbox().await.run_project(project).any_tier().send().await.unwrap()
}

/// What it prints; it must end with 0.
async fn prints(program: &str) -> String {
    let ran = python(program).await;
    assert!(ran.succeeded(), "{} {:?}", ran.outcome_detail, ran.steps);
    String::from_utf8(ran.steps[0].stdout.clone()).unwrap()
}

#[test]
fn scipy_solves_a_system_of_three_within_a_billionth() {
    run(async {
        let program = "
import numpy, scipy.linalg
matrix = numpy.array([[3.0, 2.0, -1.0], [2.0, -2.0, 4.0], [-1.0, 0.5, -1.0]])
solution = scipy.linalg.solve(matrix, numpy.array([1.0, -2.0, 0.0]))
print(max(abs(solution - numpy.array([1.0, -2.0, -2.0]))) < 1e-9)
";
        assert_eq!(prints(program).await, "True\n");
    });
}

#[test]
fn every_python_of_a_step_can_call_the_grant_and_nothing_else_of_its_folder_shows() {
    run(async {
        let upstream = Upstream::start().await;
        let program = "
import os, subprocess, sys
from plimsoll_host import host, HostError
if sys.argv[1:]:
    sys.exit(print(host.get('/berths/3')['asked']))
sys.stdout.reconfigure(line_buffering=True)
print(host.get('/berths/1')['asked'], host.post('/berths/2', {'ship': 'Samuel'})['asked'])
try:
    host.get('/secret')
except HostError as error:
    print(error.status, str(error))
subprocess.run([sys.executable, '-B', __file__, 'child'], cwd='/', check=True)
print(os.listdir(os.environ['PYTHONPATH']))
";
        let project = Project::new()
            .file("deep/main.py", program)
            .step("python3 -B deep/main.py")
            .step("cd deep && python3 -c 'from plimsoll_host import host; print(host.get(\"/berths/4\")[\"asked\"])'");
        let ran = upstream.berths(sandbox().await, project).await;
        assert_eq!(
            printed(&ran.steps),
            [
                "GET /berths/1 POST /berths/2\nNone host api call not permitted: GET /secret\nGET /berths/3\n\
                 ['plimsoll_host.py']\n",
                "GET /berths/4\n",
            ]
        );
        assert_eq!(upstream.lines().len(), 4);
    });
}

#[test]
fn the_whole_stack_loads_and_draws_without_a_display() {
    run(async {
        let project = Project::new()
            .file("draw.py", "import pandas, matplotlib.pyplot as plot\nplot.plot(pandas.Series([1, 4, 9]))\nplot.savefig('out.png')\n")
            .step("python3 draw.py")
            .artifact("out.png");
        let ran = sandbox().await.run_project(project).any_tier().send().await.unwrap();
        assert!(ran.succeeded(), "{} {:?}", ran.outcome_detail, ran.steps);
        assert!(ran.artifact("out.png").unwrap().starts_with(b"\x89PNG"));
    });
}

#[test]
fn no_package_can_be_installed_and_libraries_use_one_thread() {
    run(async {
        let project = Project::new()
            .step("python3 -m pip --version >/dev/null 2>&1; echo $?")
            .step("echo $OPENBLAS_NUM_THREADS $OMP_NUM_THREADS $MPLBACKEND");
        let ran = sandbox().await.run_project(project).any_tier().send().await.unwrap();
        assert_eq!(ran.steps[0].stdout, b"1\n");
        assert_eq!(ran.steps[1].stdout, b"1 1 Agg\n");
    });
}

#[test]
fn sockets_are_local_or_loopbacks_and_of_no_other_kind() {
    run(async {
        let program = "
import errno, socket
def attempt(name, family, kind, protocol=0):
    try:
        socket.socket(family, kind, protocol).close()
        print(name, 'made')
    except OSError as error:
        print(name, errno.errorcode[error.errno])
stream, datagram, raw, packet = socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW, socket.SOCK_SEQPACKET
attempt('unix', socket.AF_UNIX, stream)
attempt('tcp', socket.AF_INET, stream, 6)
attempt('udp', socket.AF_INET, datagram, 17)
attempt('raw', socket.AF_INET, raw, 1)
attempt('icmp', socket.AF_INET, datagram, 1)
attempt('sctp', socket.AF_INET, stream, 132)
attempt('mptcp', socket.AF_INET, stream, 262)
attempt('netlink', 16, raw)
attempt('packet', 17, raw)
attempt('vsock', 40, stream)
attempt('alg', 38, packet)
attempt('bluetooth', 31, raw)
a, b = socket.socketpair()
print('pair made')
";
        let seen = prints(program).await;
        let lines: Vec<&str> = seen.lines().collect();
        assert_eq!(lines[..3], ["unix made", "tcp made", "udp made"], "{seen}");
        assert_eq!(lines.last(), Some(&"pair made"), "{seen}");
        let refused = &lines[3..lines.len() - 1];
        assert_eq!(refused.len(), 9, "{seen}");
        for line in refused {
            let (name, error) = line.split_once(' ').unwrap();
            if gvisor() {
                // Its own network stack stands behind them: netlink and ICMP reach the sandbox's own loopback.
                let harmless = ["netlink", "icmp"].contains(&name) && error == "made";
                assert!(harmless || error != "made", "{seen}");
            } else {
                assert_eq!(error, "EPERM", "{seen}");
            }
        }
    });
}

#[test]
fn a_regular_file_is_made_by_opening_it_and_not_as_a_node() {
    run(async {
        let program = "
import errno, os, stat
def attempt(name, mode, device=0):
    try:
        os.mknod(name, mode | 0o600, device)
        print(name, 'made')
    except OSError as error:
        print(name, errno.errorcode[error.errno])
attempt('fifo', stat.S_IFIFO)
attempt('file', stat.S_IFREG)
attempt('socket', stat.S_IFSOCK)
attempt('character', stat.S_IFCHR, os.makedev(1, 3))
attempt('block', stat.S_IFBLK, os.makedev(8, 0))
";
        let seen = prints(program).await;
        let expected = if gvisor() {
            // The sentry's own tmpfs: a file or a socket there is harmless.
            "fifo made\nfile made\nsocket made\ncharacter EPERM\nblock EPERM\n"
        } else {
            "fifo made\nfile EPERM\nsocket EPERM\ncharacter EPERM\nblock EPERM\n"
        };
        assert_eq!(seen, expected);
    });
}

#[test]
fn calls_that_reach_into_a_kernel_or_another_process_fail() {
    run(async {
        let program = "
import ctypes, errno, os
libc = ctypes.CDLL(None, use_errno=True)
calls = {'ptrace': (101, 16, 1, 0, 0), 'io_uring_setup': (425, 8, 0),
  'userfaultfd': (323, 0), 'perf_event_open': (298, 0, 0, -1, -1, 0), 'bpf': (321, 0, 0, 0), 'keyctl': (250, 0, 0),
  'unshare': (272, 0x10000000), 'mount': (165, 0, 0, 0, 0, 0), 'chroot': (161, b'/tmp'), 'modify_ldt': (154, 0, 0, 0),
  'kexec_load': (246, 0, 0, 0, 0), 'shmget': (29, 0, 4096, 0o600), 'mq_open': (240, b'q', 0o102, 0o600, 0),
  'clone_user': (56, 0x10000000 | 17, 0, 0, 0, 0), 'setns': (308, 0, 0), 'open_by_handle_at': (304, 0, 0, 0)}
for name, arguments in calls.items():
    ctypes.set_errno(0)
    answer = libc.syscall(*[ctypes.c_long(one) if isinstance(one, int) else one for one in arguments])
    if name == 'clone_user' and answer == 0:
        os._exit(0)
    print(name, 'done' if answer >= 0 else errno.errorcode[ctypes.get_errno()])
";
        let seen = prints(program).await;
        assert_eq!(seen.lines().count(), 16, "{seen}");
        for line in seen.lines() {
            let (name, error) = line.split_once(' ').unwrap();
            if gvisor() {
                // Its own kernel answers: namespaces, keys and queues there are the sandbox's own.
                let own = ["unshare", "clone_user", "chroot", "shmget", "mq_open"].contains(&name);
                assert!(own || error != "done", "{seen}");
            } else {
                assert_eq!(error, "EPERM", "{seen}");
            }
        }
    });
}

#[test]
fn the_first_processs_memory_cannot_be_read_by_a_call_either() {
    run(async {
        // A wrong address alone would be EFAULT: the answer must be that it is not permitted.
        let program = "
import ctypes, errno
class Range(ctypes.Structure):
    _fields_ = [('base', ctypes.c_void_p), ('length', ctypes.c_size_t)]
libc = ctypes.CDLL(None, use_errno=True)
held = ctypes.create_string_buffer(16)
own, other = Range(ctypes.addressof(held), 16), Range(0x400000, 16)
for call in (libc.process_vm_readv, libc.process_vm_writev):
    answer = call(1, ctypes.byref(own), 1, ctypes.byref(other), 1, 0)
    print('done' if answer >= 0 else errno.errorcode[ctypes.get_errno()])
for request in (16, 0x4206):
    print('done' if libc.ptrace(request, 1, 0, 0) >= 0 else errno.errorcode[ctypes.get_errno()])
";
        assert_eq!(prints(program).await, "EPERM\nEPERM\nEPERM\nEPERM\n");
    });
}

#[test]
fn the_first_processs_limits_cannot_be_changed_or_the_change_is_told() {
    run(async {
        let program = "
import errno, resource
try:
    resource.prlimit(1, resource.RLIMIT_NOFILE, (64, 64))
    print('changed')
except OSError as error:
    print(errno.errorcode[error.errno])
";
        let ran = python(program).await;
        assert_eq!(ran.steps.len(), 1, "{ran:?}");
        if gvisor() {
            assert_eq!(ran.steps[0].stdout, b"changed\n");
            assert_eq!(ran.outcome, ProjectOutcome::RUNNER_FAILED, "{}", ran.outcome_detail);
            assert!(ran.artifacts.is_empty());
        } else {
            assert_eq!(ran.steps[0].stdout, b"EPERM\n");
            assert_eq!(ran.outcome, ProjectOutcome::COMPLETED, "{}", ran.outcome_detail);
        }
    });
}
