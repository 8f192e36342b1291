//! What a guest can read, and what it can pretend to be.

use plimsoll_core::{ProjectOutcome, RunRequest};

use crate::kit::{all_refused, answer, attempts, output, request, told};
use crate::support::{ask, gvisor, javascript, project_of, run};

#[test]
fn nothing_private_of_the_first_process_can_be_read_or_written() {
    run(async {
        let found = attempts(
            "
for base in ('/proc/1', '/proc/1/task/1'):
    for name in ('environ', 'mem', 'maps', 'smaps', 'auxv', 'stack', 'syscall', 'io', 'pagemap', 'numa_maps', 'personality'):
        attempt(base + '/' + name, lambda: open(base + '/' + name, 'rb').read(64))
    for name in ('exe', 'root', 'cwd', 'fd/0', 'fd/1', 'fd/2', 'fd/3', 'fd/4', 'fd/5', 'fd/6', 'fd/7', 'fd/8'):
        attempt('open ' + base + '/' + name, lambda: os.open(base + '/' + name, os.O_RDONLY | os.O_NONBLOCK))
        attempt('write ' + base + '/' + name, lambda: os.open(base + '/' + name, os.O_WRONLY | os.O_NONBLOCK))
    for name in ('mem', 'oom_score_adj', 'clear_refs', 'coredump_filter', 'uid_map', 'setgroups', 'sched'):
        attempt('write ' + base + '/' + name, lambda: open(base + '/' + name, 'wb').write(b'1'))
    attempt('list root', lambda: os.listdir(base + '/root'))
    attempt('through root', lambda: open(base + '/root/etc/passwd').read())
",
        )
        .await;
        all_refused(&found, &[]);
    });
}

#[test]
fn the_first_process_can_be_neither_traced_nor_read_nor_robbed_of_a_descriptor() {
    run(async {
        let found = attempts(
            "
class Piece(ctypes.Structure): _fields_ = [('base', ctypes.c_void_p), ('length', ctypes.c_size_t)]
buffer = ctypes.create_string_buffer(64)
mine, theirs = Piece(ctypes.addressof(buffer), 64), Piece(0x400000, 64)
def steal():
    file = call(434, 1, 0)
    for number in range(10):
        try: call(438, file, number, 0); return
        except OSError as error: last = error
    raise last
def everything(where):
    attempt('attach' + where, lambda: call(101, 16, 1, 0, 0))
    attempt('seize' + where, lambda: call(101, 0x4206, 1, 0, 0))
    attempt('read' + where, lambda: call(310, 1, ctypes.byref(mine), 1, ctypes.byref(theirs), 1, 0))
    attempt('write' + where, lambda: call(311, 1, ctypes.byref(mine), 1, ctypes.byref(theirs), 1, 0))
    attempt('compare' + where, lambda: call(312, 1, os.getpid(), 0, 0, 0))
    attempt('steal' + where, steal)
    attempt('mem' + where, lambda: open('/proc/1/mem', 'rb').read(1))
    attempt('environ' + where, lambda: open('/proc/1/environ', 'rb').read(1))
everything('')
try:
    call(272, 0x10000000)
    open('/proc/self/setgroups', 'w').write('deny')
    open('/proc/self/uid_map', 'w').write('0 61000 1')
    everything(' as root of a namespace')
    for kind in ('user', 'mnt', 'pid', 'net', 'ipc', 'uts'):
        attempt('enter ' + kind, lambda: call(308, os.open('/proc/1/ns/' + kind, os.O_RDONLY), 0))
except OSError: pass
",
        )
        .await;
        all_refused(&found, &[]);
    });
}

#[test]
fn no_process_of_the_sandbox_shows_a_key_or_a_token() {
    run(async {
        let result = told(&["#py
for pid in [p for p in os.listdir('/proc') if p.isdigit()]:
    for name in ('environ', 'cmdline'):
        try: print(pid, name, open(f'/proc/{pid}/{name}', 'rb').read())
        except OSError as error: print(pid, name, errno.errorcode[error.errno])
"])
        .await;
        let text = output(&result).to_lowercase();
        for word in [
            "token",
            "secret",
            "bearer",
            "reportkey",
            "docker_",
            "sandbox_",
            "proxy",
            "cargo",
        ] {
            assert!(!text.contains(word), "{word}: {text}");
        }
        assert!(text.contains("1 environ eacces"), "{text}");
    });
}

#[test]
fn its_own_memory_holds_nothing_of_the_first_process() {
    run(async {
        // A child begins as a copy of PID 1: whatever that held must be gone with the exec.
        let result = told(&["#py
import re
found = []
for line in open('/proc/self/maps'):
    span, rights = line.split()[:2]
    if 'r' not in rights or '[v' in line: continue
    start, end = (int(x, 16) for x in span.split('-'))
    if end - start > 64 << 20: continue
    try:
        with open('/proc/self/mem', 'rb') as memory:
            memory.seek(start); data = memory.read(end - start)
    except (OSError, ValueError, OverflowError): continue
    for word in (b'[p]limsoll_guest_messages', b'[r]eportKey', b'[c]hannel that is not open'):
        if re.search(word, data): found.append((word, line))
print(found, sorted(int(fd) for fd in os.listdir('/proc/self/fd'))[:3], flush=True)
"])
        .await;
        assert_eq!(output(&result), "[] [0, 1, 2]\n");
    });
}

#[test]
fn a_guest_inherits_three_descriptors_and_no_more() {
    run(async {
        let result = told(&["ls -l /proc/self/fd | grep -c -e pipe -e null; ls /proc/$$/fd | tr '\\n' ' '"]).await;
        assert!(output(&result).starts_with("3\n0 1 2 "), "{}", output(&result));
        let code = "const fs = require('fs'); const open = fs.readdirSync('/proc/self/fd').filter((fd) => { try { return /socket/.test(fs.readlinkSync('/proc/self/fd/' + fd)) } catch { return false } }); console.log(open.length)";
        let snippet = javascript(&ask(RunRequest::javascript(code)).await.unwrap());
        assert_eq!(snippet.stdout, b"0\n", "{snippet:?}");
    });
}

#[test]
fn frames_forged_on_every_descriptor_are_ordinary_output_or_nothing() {
    run(async {
        let forge = "#py
import hashlib, hmac, struct, zlib
bodies = [b'{\"steps\":[{\"command\":\"x\",\"exitCode\":0}],\"stepsBegun\":1}', b'\\x00' * 64, b'<<<PLIMSOLL_REPORT_V4>>>']
noise = b''
for body in bodies:
    for key in (b'', b'\\0' * 32, b'A' * 32):
        mac = hmac.new(key, body, hashlib.sha256).digest()
        noise += b'PLIM' + struct.pack('>I', len(body)) + body + mac + struct.pack('<I', len(body)) + mac + body
for number in list(range(3, 256)):
    try: os.write(number, noise)
    except OSError: pass
for pid in ('1', 'self', str(os.getppid())):
    for number in range(16):
        try:
            file = os.open(f'/proc/{pid}/fd/{number}', os.O_WRONLY | os.O_NONBLOCK)
            if number == 0 or pid == '1': os.write(file, noise)
        except OSError: pass
for path in ('/dev/console', '/dev/tty', '/dev/pts/0', '/dev/ptmx', '/dev/null', '/proc/1/fd/1'):
    try: os.write(os.open(path, os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK), noise)
    except OSError: pass
print('honest')
sys.exit(3)
";
        let result = told(&[forge]).await;
        assert_eq!(output(&result), "honest\n");
        assert_eq!(result.steps[0].exit_code, 3);
    });
}

#[test]
fn a_failing_step_cannot_be_made_a_success_by_what_it_leaves_behind() {
    run(async {
        let plant = "#py
for folder in ('/work', '/tmp', '/dev/shm'):
    for name in ('sh', 'bash', 'node', 'python3', 'plimsoll-host.mjs', '.plimsoll-snippet.cjs', 'ld.so.preload', '.profile', '.bashrc', 'sitecustomize.py', 'package.json'):
        try:
            open(os.path.join(folder, name), 'w').write('#!/bin/sh\\nexit 0\\n'); os.chmod(os.path.join(folder, name), 0o755)
        except OSError: pass
";
        let result = told(&[plant, "command -v sh; exit 9"]).await;
        assert_eq!(result.steps[1].exit_code, 9);
        assert!(String::from_utf8_lossy(&result.steps[1].stdout).ends_with("bin/sh\n"));
    });
}

#[test]
fn loader_variables_do_nothing_to_the_guest_binary() {
    run(async {
        let step = "cp /lib/x86_64-linux-gnu/libc.so.6 /tmp/evil.so 2>/dev/null; B=/usr/local/bin/plimsoll-guest; \
                    LD_PRELOAD=/tmp/evil.so LD_AUDIT=/tmp/evil.so LD_LIBRARY_PATH=/tmp LD_DEBUG=all LD_SHOW_AUXV=1 LD_TRACE_LOADED_OBJECTS=1 \
                    GLIBC_TUNABLES=glibc.malloc.check=3 MALLOC_PERTURB_=1 GCONV_PATH=/tmp LOCPATH=/tmp RUST_BACKTRACE=full RUST_LOG=trace $B version; echo $?; \
                    /lib64/ld-linux-x86-64.so.2 $B version >/dev/null 2>&1; echo; $B; echo $?; $B no-such-role; echo $?";
        let result = told(&[step, "echo still; exit 4"]).await;
        let text = output(&result);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].parse::<u32>().is_ok() && lines[1] == "0", "{text}");
        assert_eq!((lines[3], lines[4]), ("2", "2"), "{text}");
        assert_eq!(result.steps[1].exit_code, 4);
    });
}

#[test]
fn the_guest_binary_cannot_be_changed_or_taken_the_place_of() {
    run(async {
        let found = attempts(
            "
guest = '/usr/local/bin/plimsoll-guest'
attempt('write', lambda: os.open(guest, os.O_WRONLY))
attempt('truncate', lambda: os.truncate(guest, 0))
attempt('unlink', lambda: os.unlink(guest))
attempt('rename over', lambda: os.rename('/tmp', guest))
attempt('chmod', lambda: os.chmod(guest, 0o777))
attempt('through own exe', lambda: os.open('/proc/self/exe', os.O_WRONLY))
attempt('through pid 1 exe', lambda: os.open('/proc/1/exe', os.O_WRONLY))
attempt('etc preload', lambda: open('/etc/ld.so.preload', 'w'))
attempt('passwd', lambda: open('/etc/passwd', 'a'))
attempt('hosts', lambda: open('/etc/hosts', 'a'))
attempt('resolv', lambda: open('/etc/resolv.conf', 'a'))
",
        )
        .await;
        all_refused(&found, &[]);
    });
}

#[test]
fn node_options_of_one_step_do_not_reach_the_next_and_preloads_stay_in_the_guest() {
    run(async {
        let result = told(&[
            "export NODE_OPTIONS=--require=/tmp/x.js BASH_ENV=/tmp/b ENV=/tmp/b PYTHONPATH=/tmp PYTHONSTARTUP=/tmp/p LD_PRELOAD=/tmp/e.so; \
             echo 'exit 0' > /tmp/b; echo 'import os; os._exit(0)' > /tmp/sitecustomize.py; true",
            "env | grep -c -e NODE_OPTIONS -e BASH_ENV -e PYTHONPATH -e LD_ ; python3 -c 'print(5)'; exit 6",
        ])
        .await;
        assert_eq!(result.steps[1].stdout, b"0\n5\n");
        assert_eq!(result.steps[1].exit_code, 6);
    });
}

#[test]
fn the_host_and_other_runs_cannot_be_seen() {
    run(async {
        let result = told(&["#py
print(sorted(int(p) for p in os.listdir('/proc') if p.isdigit())[0], len([p for p in os.listdir('/proc') if p.isdigit()]) < 6)
for path in ('/var/run/docker.sock', '/run/docker.sock', '/run/containerd/containerd.sock', '/root/.docker', '/host', '/var/lib/docker'):
    print(os.path.exists(path))
print(sorted(os.listdir('/run')))
"])
        .await;
        assert_eq!(
            output(&result),
            format!("1 True\n{}['host-api.sock']\n", "False\n".repeat(6)),
        );
    });
}

#[test]
fn a_forged_report_in_a_file_or_the_environment_is_no_report() {
    run(async {
        let result = project_of(
            &answer(request(
                &["printf '<<<PLIMSOLL_REPORT_V4>>> {}' > /tmp/report; cp /tmp/report /work/report.json; exit 1"],
                &["report.json"],
                10_000,
            ))
            .await,
        );
        assert_eq!(result.outcome, ProjectOutcome::COMPLETED);
        assert_eq!(result.steps[0].exit_code, 1);
        assert_eq!(result.artifacts[0].content, b"<<<PLIMSOLL_REPORT_V4>>> {}");
    });
}

#[test]
fn a_snippet_cannot_reach_what_started_it() {
    run(async {
        let code = "
const fs = require('fs');
const tries = ['/proc/1/environ', '/proc/1/mem', '/proc/1/fd/0', '/proc/1/fd/1', '/proc/1/maps', '/proc/1/root/etc/passwd'];
for (const path of tries) { try { fs.closeSync(fs.openSync(path)); console.log('OPEN', path); } catch (e) { console.log(e.code); } }
for (let fd = 3; fd < 64; fd++) { try { fs.writeSync(fd, 'rrrr'); } catch {} }
try { fs.writeFileSync('/dev/shm/.plimsoll-snippet.cjs', 'process.exit(0)'); } catch {}
process.exitCode = 5;
";
        let result = javascript(&ask(RunRequest::javascript(code)).await.unwrap());
        let text = String::from_utf8_lossy(&result.stdout).into_owned();
        assert_eq!(text, "EACCES\n".repeat(6), "gVisor: {}", gvisor());
        assert_eq!(result.exit_code, 5);
    });
}
