//! System calls, sockets, devices and settings that no guest may have.

use crate::kit::{all_refused, attempts, output, told};
use crate::support::{gvisor, run};

#[test]
fn calls_that_reach_the_kernel_or_the_host_are_refused() {
    run(async {
        let found = attempts(
            "
calls = {'bpf': (321, 0, 0, 0), 'perf': (298, 0, 0, -1, -1, 0), 'io_uring': (425, 8, 0), 'userfaultfd': (323, 0), 'setns': (308, 0, 0),
 'pivot_root': (155, b'/tmp', b'/tmp'), 'clock_settime': (227, 0, ctypes.byref((ctypes.c_long * 2)(0, 0))), 'settimeofday': (164, ctypes.byref((ctypes.c_long * 2)(0, 0)), 0),
 'reboot': (169, 0xfee1dead, 672274793, 0, 0), 'swapon': (167, b'/tmp/x', 0), 'modify_ldt': (154, 1, 0, 0), 'init_module': (175, 0, 0, b''),
 'finit_module': (313, 0, b'', 0), 'kexec_load': (246, 0, 0, 0), 'iopl': (172, 3), 'ioperm': (173, 0, 1, 1), 'sethostname': (170, b'x', 1),
 'setdomainname': (171, b'x', 1), 'acct': (163, b'/tmp/x'), 'quotactl': (179, 0, 0, 0), 'open_by_handle_at': (304, 0, 0, 0), 'fanotify': (300, 0, 0),
 'vhangup': (153,), 'lookup_dcookie': (212, 0, 0, 0), 'nfsservctl': (180, 0, 0, 0), 'move_pages': (279, 1, 1, 0, 0, 0, 0), 'migrate_pages': (256, 1, 0, 0, 0),
 'process_madvise': (440, 1, 0, 0, 0, 0), 'process_mrelease': (448, 1, 0), 'memfd_secret': (447, 0), 'uselib': (134, b'x'), 'setuid': (105, 0), 'setgroups': (116, 1, 0)}
for name, arguments in calls.items():
    attempt(name, lambda: call(*arguments))
",
        )
        .await;
        all_refused(&found, &[]);
    });
}

/// What works under gVisor of the calls that runc's filter refuses: in a user namespace that its kernel made, on file systems,
/// objects and a log that its kernel has.
const OF_ITS_OWN_KERNEL: [&str; 18] = [
    "chroot",
    "clone3",
    "fsopen",
    "keyctl",
    "mount",
    "mq_open",
    "msgget",
    "open_tree",
    "pidfd_open",
    "ptrace me",
    "semget",
    "shmget",
    "syslog",
    "umount",
    "unshare mount",
    "unshare net",
    "unshare pid",
    "unshare user",
];

#[test]
fn under_runc_namespaces_mounts_keys_and_tracing_are_refused_by_the_filter() {
    run(async {
        let found = attempts(
            "
me = os.getpid()
calls = {'unshare user': (272, 0x10000000), 'unshare mount': (272, 0x20000), 'unshare net': (272, 0x40000000), 'unshare pid': (272, 0x20000000),
 'clone user': (56, 0x10000000 | 17, 0, 0, 0, 0), 'mount': (165, b'none', b'/tmp', b'tmpfs', 0, 0), 'umount': (166, b'/tmp', 0), 'chroot': (161, b'/tmp'),
 'fsopen': (430, b'tmpfs', 0), 'open_tree': (428, -100, b'/', 1), 'keyctl': (250, 0, -3, 1), 'add_key': (248, b'user', b'a', b'b', 1, -3), 'request_key': (249, b'user', b'a', 0, 0),
 'ptrace me': (101, 0, 0, 0, 0), 'shmget': (29, 0, 4096, 0o1600), 'semget': (64, 0, 1, 0o1600), 'msgget': (68, 0, 0o1600), 'mq_open': (240, b'a', 0o102, 0o600, 0),
 'syslog': (103, 3, 0, 0), 'adjtimex': (159, ctypes.create_string_buffer(512)), 'personality': (135, 0x40000), 'seccomp': (317, 0, 0, 0), 'pidfd_open': (434, 1, 0), 'landlock': (444, 0, 0, 1),
 'name_to_handle_at': (303, -100, b'/', 0, 0, 0), 'vmsplice': (278, 1, 0, 0, 0), 'clone3': (435, ctypes.create_string_buffer(88), 88)}
for name, arguments in calls.items():
    attempt(name, lambda: call(*arguments))
if os.getpid() != me: os._exit(0)
",
        )
        .await;
        if gvisor() {
            // These work on the sandbox's own kernel; a kernel that did more or less would not be the one that was looked at.
            let done: Vec<&str> = found
                .iter()
                .filter(|(_, end)| *end == "done")
                .map(|(name, _)| name.as_str())
                .collect();
            assert_eq!(done, OF_ITS_OWN_KERNEL, "{found:?}");
        } else {
            all_refused(&found, &[]);
            assert_eq!(found["clone3"], "ENOSYS");
            let refused = found.iter().filter(|(_, end)| *end == "EPERM").count();
            assert_eq!(refused, found.len() - 1, "{found:?}");
        }
        // And on nothing of the host's: what they make there would bear the guest's user.
        for kind in ["shm", "sem", "msg"] {
            let listed = fs_err::read_to_string(format!("/proc/sysvipc/{kind}")).unwrap();
            assert!(listed.lines().count() >= 1, "the host lists none of its own");
            let of_guests = listed
                .lines()
                .find(|line| line.split_whitespace().any(|field| field == "61000"));
            assert_eq!(of_guests, None, "{kind}");
        }
    });
}

#[test]
fn no_socket_but_local_and_internet_streams_and_datagrams() {
    run(async {
        let found = attempts(
            "
kinds = {'raw': (2, 3, 1), 'raw6': (10, 3, 58), 'packet': (17, 3, 3), 'vsock': (40, 1, 0), 'alg': (38, 5, 0), 'sctp': (2, 1, 132), 'tipc': (30, 1, 0), 'bluetooth': (31, 3, 0),
 'can': (29, 3, 1), 'xdp': (44, 3, 0), 'rds': (21, 5, 0), 'kcm': (41, 2, 0), 'smc': (43, 1, 0), 'qipcrtr': (42, 2, 0), 'mptcp': (2, 1, 262), 'udplite': (2, 2, 136), 'netlink': (16, 3, 0), 'ping': (2, 2, 1)}
for name, kind in kinds.items():
    attempt(name, lambda: socket.socket(*kind))
",
        )
        .await;
        // gVisor's own network stack has these two; there is nothing behind them.
        let own: &[&str] = if gvisor() { &["netlink", "ping"] } else { &[] };
        all_refused(&found, own);
    });
}

#[test]
fn no_address_but_loopback_can_be_reached_and_no_name_resolved() {
    run(async {
        let found = attempts(
            "
import select
def dial(address, family=socket.AF_INET, kind=socket.SOCK_STREAM):
    s = socket.socket(family, kind); s.settimeout(2)
    s.connect(address)
    if kind == socket.SOCK_DGRAM: s.send(b'x'); s.recv(1)
for address in ('172.17.0.1', '10.0.0.1', '169.254.169.254', '192.168.0.1', '8.8.8.8', '100.100.100.200', '255.255.255.255', '224.0.0.1'):
    for port in (80, 53):
        attempt(f'{address}:{port}', lambda: dial((address, port)))
        attempt(f'udp {address}:{port}', lambda: dial((address, port), kind=socket.SOCK_DGRAM))
for address in ('fd00:ec2::254', 'fe80::1', '2001:4860:4860::8888'):
    attempt(address, lambda: dial((address, 80), socket.AF_INET6))
for name in ('example.com', 'host.docker.internal', 'metadata.google.internal', 'leak.attacker.example', 'gateway.docker.internal'):
    attempt(name, lambda: socket.getaddrinfo(name, 80))
for port in range(1, 3000):
    try: dial(('127.0.0.1', port)); told['local %d' % port] = 'done'
    except OSError: pass
for name in ('/containerd-shim/', '@docker', '/tmp/.X11-unix/X0', '/run/systemd/journal', '/com/ubuntu/upstart'):
    attempt('abstract ' + name, lambda: dial('\\0' + name, socket.AF_UNIX))
told['namespace sockets'] = 'done' if [l for l in open('/proc/net/unix').read().splitlines()[1:] if '@' in l] else 'none'
",
        )
        .await;
        all_refused(&found, &[]);
    });
}

#[test]
fn no_device_control_group_or_kernel_setting_can_be_opened_for_writing() {
    run(async {
        let found = attempts(
            "
def write(path): os.open(path, os.O_WRONLY)
import glob
for path in ('/dev/kmsg', '/dev/mem', '/dev/kvm', '/dev/fuse', '/dev/net/tun', '/dev/vsock', '/dev/vda', '/dev/sda', '/dev/loop-control', '/dev/uinput', '/dev/console',
  '/proc/sysrq-trigger', '/proc/kcore', '/proc/sys/kernel/core_pattern', '/proc/sys/kernel/modprobe', '/proc/sys/vm/drop_caches', '/proc/sys/kernel/ns_last_pid', '/proc/sys/fs/binfmt_misc/register',
  '/proc/sys/net/ipv4/ip_forward', '/proc/acpi/wakeup', '/proc/bus/pci/devices', '/proc/irq/default_smp_affinity', '/proc/self/loginuid2', '/sys/kernel/uevent_helper', '/sys/power/state', '/sys/fs/cgroup/release_agent'):
    attempt(path, lambda: write(path))
for path in glob.glob('/sys/fs/cgroup/*/*') + glob.glob('/sys/fs/cgroup/*'):
    if os.path.isfile(path): attempt(path, lambda: write(path))
for folder in glob.glob('/sys/fs/cgroup/*') + ['/sys/fs/cgroup']:
    attempt('mkdir ' + folder, lambda: os.mkdir(folder + '/x'))
for kind, device in ((0o20666, (1, 1)), (0o60666, (254, 0)), (0o20666, (10, 200))):
    for folder in ('/work', '/tmp', '/dev/shm', '/dev'):
        attempt(f'mknod {folder} {device}', lambda: os.mknod(folder + '/d', kind, os.makedev(*device)))
",
        )
        .await;
        // gVisor's kernel has these two of its own; there is no host device behind them.
        let own: &[&str] = if gvisor() { &["/dev/fuse", "/dev/net/tun"] } else { &[] };
        all_refused(&found, own);
    });
}

#[test]
fn a_namespace_of_its_own_gives_no_way_out() {
    run(async {
        let result = told(&[
            "unshare -Urmpf --mount-proc sh -c 'id -u; mount -t tmpfs none /mnt && touch /mnt/x; mknod /mnt/d b 254 0 2>&1; mount -t cgroup none /mnt 2>&1; mount /dev/vda /mnt 2>&1; \
             cat /proc/1/environ | tr \"\\0\" \"\\n\" | grep -i -e key -e token; hostname evil 2>/dev/null; date -s 2001-01-01 2>/dev/null >&2; setsid sleep 313 & ' > /tmp/log 2>&1; grep -c d.*vda /proc/mounts; cat /etc/hostname | wc -c",
            "ls /proc | grep -c '^[0-9]'; ps ax 2>/dev/null | grep -c [3]13; date +%Y; stat -c %F /mnt/d 2>/dev/null; true",
        ])
        .await;
        let second = String::from_utf8_lossy(&result.steps[1].stdout).into_owned();
        let lines: Vec<&str> = second.lines().collect();
        assert!(lines[0].parse::<u32>().unwrap() <= 6, "{second}");
        assert_eq!(lines[1], "0", "{second}");
        assert!(lines[2].parse::<u32>().unwrap() >= 2025, "{second}");
        assert_eq!(lines.len(), 3, "{second}");
        assert!(!output(&result).is_empty());
    });
}

#[test]
fn the_clock_cannot_be_moved() {
    run(async {
        let result = told(&["#py
before = time.time()
spec = (ctypes.c_long * 2)(1000000000, 0)
for clock in range(12): libc.syscall(227, clock, ctypes.byref(spec))
libc.settimeofday(ctypes.byref(spec), None);
attempt('timens', lambda: os.write(os.open('/proc/self/timens_offsets', os.O_WRONLY), b'monotonic 1000000 0\\n'))
print(abs(time.time() - before) < 5, told, flush=True)
"])
        .await;
        assert!(
            output(&result).starts_with("True") && !output(&result).contains("done"),
            "{}",
            output(&result)
        );
    });
}

#[test]
fn capabilities_are_none_and_cannot_be_had_back() {
    run(async {
        let result = told(&["#py
lines = dict(l.split(':\\t', 1) for l in open('/proc/self/status').read().splitlines() if ':\\t' in l)
print([int(lines[name], 16) for name in ('CapInh', 'CapPrm', 'CapEff', 'CapBnd', 'CapAmb')], lines['NoNewPrivs'], os.getresuid(), os.getgroups())
attempt('ambient', lambda: call(157, 47, 2, 21, 0, 0))
attempt('keepcaps bound', lambda: call(157, 24, 0, 0, 0, 0))
attempt('undo no new privs', lambda: call(157, 38, 0, 0, 0, 0))
attempt('setresuid', lambda: os.setresuid(0, 0, 0))
print('done' in told.values(), told, flush=True)
"])
        .await;
        let text = output(&result);
        assert!(
            text.starts_with("[0, 0, 0, 0, 0] 1 (61000, 61000, 61000) [61000]\nFalse"),
            "{text}"
        );
    });
}

#[test]
fn the_brokers_socket_cannot_be_removed_replaced_or_shut() {
    run(async {
        let found = attempts(
            "
path = '/run/host-api.sock'
attempt('unlink', lambda: os.unlink(path))
attempt('rename', lambda: os.rename(path, '/run/x'))
attempt('rename over', lambda: os.rename('/tmp', path))
attempt('chmod', lambda: os.chmod(path, 0))
attempt('chown', lambda: os.chown(path, 61000, 61000))
attempt('link', lambda: os.link(path, '/tmp/s'))
attempt('xattr', lambda: os.setxattr(path, 'user.a', b'1'))
attempt('bind', lambda: socket.socket(socket.AF_UNIX).bind(path))
attempt('create beside', lambda: open('/run/other', 'w'))
attempt('parent', lambda: os.listdir(path + '/..'))
attempt('open', lambda: os.open(path, os.O_RDWR))
",
        )
        .await;
        all_refused(&found, &[]);
    });
}
