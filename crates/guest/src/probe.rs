//! Probes: an ordinary guest process collects facts; the host judges them.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use plimsoll_guest_messages::limits::HOST_API_SOCKET;
use plimsoll_guest_messages::{
    CgroupFacts, End, GuestMessage, MountFact, ProbeFacts, ProbePlan, RlimitFact, SocketFact, StatusFacts,
};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

use crate::child::{Alone, Child, Start};
use crate::facts::{CallFacts, text};
use crate::hub::{Hub, Stop};
use crate::sys::{self, Launch};

/// The role that PID 1 starts for a probe.
pub(crate) const ROLE: &str = "probe";
const WITH_SOCKET: &str = "host-socket";
const WITH_BANNER: &str = "banner";

const TIMEOUT: Duration = Duration::from_secs(10);
const SOCKET_TIMEOUT: Duration = Duration::from_secs(3);
const FACTS_CAP: usize = 1 << 20;
const BANNER_READ: usize = 512;
const BANNER_CHARS: usize = 120;

/// Has the facts collected by a child, and queues them.
pub(crate) fn run(hub: &mut Hub, plan: &ProbePlan) -> Result<(), Stop> {
    hub.begin_call()?;
    let mut wanted = vec![ROLE];
    let extras: Vec<&str> = [(plan.host_socket, WITH_SOCKET), (plan.banner, WITH_BANNER)]
        .into_iter()
        .filter_map(|(asked, word)| asked.then_some(word))
        .collect();
    let extras = extras.join(",");
    wanted.push(&extras);
    let mut child = Child::start(Start {
        launch: Launch {
            program: "/proc/self/exe",
            name: "plimsoll-guest",
            arguments: &wanted,
            environment: &[],
            directory: None,
            stdin: None,
            extra: &[],
            unseen: hub.is_alone(),
            to_be_stopped: false,
        },
        cap: FACTS_CAP,
        kill_at_cap: true,
    })
    .map_err(|error| Stop::fault("the probe cannot be started", error))?;
    hub.send(&GuestMessage::Started)?;
    let ended = child.finish(hub, &mut Alone, Instant::now() + TIMEOUT, &mut CallFacts::begin())?;
    hub.end_call();
    if ended.end != End::Exited(0) {
        return Err(Stop::Fault(format!("the probe ended with {:?}", ended.end)));
    }
    let facts = ProbeFacts::decode(&child.stdout.take().bytes).map_err(|error| Stop::fault("the probe", error))?;
    hub.send(&GuestMessage::ProbeReport(Box::new(facts)))
}

/// The child's part: collects, and writes the facts to standard output.
pub(crate) fn collect(extras: &str) -> std::io::Result<()> {
    let asked = |word: &str| extras.split(',').any(|one| one == word);
    let facts = ProbeFacts {
        root_write_errno: errno(write_in("/").map(|_| ())),
        mounts: mounts(),
        status: status(&read("/proc/self/status")),
        net_devices: net_devices(&read("/proc/net/dev")),
        routes: routes(&read("/proc/net/route"), &read("/proc/net/ipv6_route")),
        resolvers: resolvers(&read("/etc/resolv.conf")),
        cgroup: cgroup(),
        cpus: rustix::thread::sched_getaffinity(None).map_or(0, |set| set.count()),
        limits: rlimits(),
        kernel_version: read("/proc/version").trim().to_owned(),
        boot_id: read("/proc/sys/kernel/random/boot_id").trim().to_owned(),
        host_socket: asked(WITH_SOCKET).then(host_socket),
        banner: if asked(WITH_BANNER) { banner() } else { String::new() },
    };
    let body = facts.encode().map_err(std::io::Error::other)?;
    std::io::stdout().write_all(&body)
}

fn read(path: &str) -> String {
    let bytes = fs_err::read(path).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

fn errno(outcome: Result<(), Errno>) -> i32 {
    outcome.map_or_else(Errno::raw_os_error, |()| 0)
}

/// Creates a file in a folder, writes one byte, and removes it. Creating it may work where writing does not.
fn write_in(folder: &str) -> Result<(), Errno> {
    let path = format!(
        "{}/.plimsoll-probe-{}",
        folder.trim_end_matches('/'),
        std::process::id()
    );
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = rustix::fs::open(&path, flags, Mode::from_raw_mode(0o600))?;
    let written = rustix::io::write(&file, b"x");
    let removed = rustix::fs::unlinkat(CWD, &path, AtFlags::empty());
    written.and(removed)
}

fn mounts() -> Vec<MountFact> {
    read("/proc/mounts").lines().filter_map(mount).collect()
}

fn mount(line: &str) -> Option<MountFact> {
    let mut words = line.split(' ').skip(1);
    let target = unescape(words.next()?);
    let fs_type = words.next()?.to_owned();
    let options = words.next()?.split(',').map(str::to_owned).collect();
    let attempt = match rustix::fs::stat(&target).map(|stat| FileType::from_raw_mode(stat.st_mode)) {
        Ok(FileType::Directory) => Some(write_in(&target)),
        Ok(FileType::RegularFile) => {
            let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::NONBLOCK | OFlags::CLOEXEC;
            Some(rustix::fs::open(&target, flags, Mode::empty()).map(drop))
        }
        Ok(_) => None,
        Err(error) => Some(Err(error)),
    };
    Some(MountFact {
        target,
        fs_type,
        options,
        accepts_bytes: attempt == Some(Ok(())),
        errno: attempt.map_or(0, errno),
    })
}

/// `/proc/mounts` writes space, tab, newline and backslash as three octal digits.
fn unescape(word: &str) -> String {
    let mut plain = String::with_capacity(word.len());
    let mut rest = word;
    while let Some((before, after)) = rest.split_once('\\') {
        plain.push_str(before);
        let code = after.get(..3).and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match code {
            Some(code) => {
                plain.push(char::from(code));
                rest = &after[3..];
            }
            None => {
                plain.push('\\');
                rest = after;
            }
        }
    }
    plain.push_str(rest);
    plain
}

fn status(text: &str) -> StatusFacts {
    let field = |name: &str| {
        let found = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        found.unwrap_or_default().split_whitespace()
    };
    let numbers = |name: &str| field(name).filter_map(|word| word.parse().ok()).collect();
    let number = |name: &str| field(name).next().and_then(|word| word.parse().ok());
    let masks = ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"];
    StatusFacts {
        uids: numbers("Uid"),
        gids: numbers("Gid"),
        groups: numbers("Groups"),
        no_new_privs: number("NoNewPrivs"),
        seccomp: number("Seccomp"),
        capabilities: masks
            .into_iter()
            .filter_map(|name| field(name).next().and_then(|mask| u64::from_str_radix(mask, 16).ok()))
            .collect(),
    }
}

fn net_devices(text: &str) -> Vec<String> {
    let device = |line: &str| line.split_once(':').map(|(name, _)| name.trim().to_owned());
    text.lines().skip(2).filter_map(device).collect()
}

fn routes(ipv4: &str, ipv6: &str) -> Vec<String> {
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let ipv4 = ipv4.lines().skip(1).map(words);
    let ipv6 = ipv6.lines().map(words).filter(|line| !line.ends_with(" lo"));
    ipv4.chain(ipv6).filter(|line| !line.is_empty()).collect()
}

fn resolvers(text: &str) -> Vec<String> {
    let server = |line: &str| {
        let mut words = line.split_whitespace();
        (words.next() == Some("nameserver")).then(|| words.next().unwrap_or_default().to_owned())
    };
    text.lines().filter_map(server).collect()
}

fn cgroup() -> CgroupFacts {
    let first = |files: &[(&str, &str)]| {
        files
            .iter()
            .find_map(|(controller, file)| text(controller, file))
            .unwrap_or_default()
    };
    let version = match (text("pids", "pids.max"), text("", "cgroup.controllers")) {
        (Some(_), _) => 1,
        (None, Some(_)) => 2,
        (None, None) => 0,
    };
    let cpu_max = match (text("cpu", "cpu.cfs_quota_us"), text("cpu", "cpu.cfs_period_us")) {
        (Some(quota), Some(period)) => format!("{quota} {period}"),
        _ => first(&[("", "cpu.max")]),
    };
    CgroupFacts {
        version,
        pids_max: first(&[("pids", "pids.max"), ("", "pids.max")]),
        memory_max: first(&[("memory", "memory.limit_in_bytes"), ("", "memory.max")]),
        swap_max: first(&[("memory", "memory.memsw.limit_in_bytes"), ("", "memory.swap.max")]),
        cpu_max,
        cpuset: first(&[("cpuset", "cpuset.cpus"), ("", "cpuset.cpus.effective")]),
    }
}

fn rlimits() -> Vec<RlimitFact> {
    let wanted = [
        ("core", Resource::Core),
        ("nofile", Resource::Nofile),
        ("nproc", Resource::Nproc),
        ("msgqueue", Resource::Msgqueue),
    ];
    let fact = |(name, resource): (&str, Resource)| {
        let limit = getrlimit(resource);
        RlimitFact {
            name: name.to_owned(),
            soft: limit.current.unwrap_or(u64::MAX),
            hard: limit.maximum.unwrap_or(u64::MAX),
        }
    };
    wanted.into_iter().map(fact).collect()
}

fn host_socket() -> SocketFact {
    let mut fact = SocketFact::default();
    match ask_host_socket() {
        Ok(answer) => fact.answer = answer,
        Err(error) => fact.errno = error.raw_os_error().unwrap_or(libc::ECONNRESET),
    }
    fact
}

fn ask_host_socket() -> std::io::Result<String> {
    let mut socket = UnixStream::connect(HOST_API_SOCKET)?;
    socket.set_read_timeout(Some(SOCKET_TIMEOUT))?;
    socket.set_write_timeout(Some(SOCKET_TIMEOUT))?;
    socket.write_all(b"ping\n")?;
    let mut answer = Vec::new();
    let mut byte = [0; 1];
    while answer.len() < 256 {
        socket.read_exact(&mut byte)?;
        if byte == *b"\n" {
            break;
        }
        answer.push(byte[0]);
    }
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

fn banner() -> String {
    let log = sys::kernel_log(BANNER_READ).unwrap_or_default();
    let line = log.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let printable = line.iter().filter(|byte| (0x20..0x7f).contains(*byte));
    printable.take(BANNER_CHARS).map(|byte| char::from(*byte)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_fields_are_read_by_their_exact_names() {
        let facts = status(
            "Name:\tx\nUid:\t61000\t61000\t61000\t61000\nGid:\t1\t2\t3\t4\nGroups:\t5 6 \nCapInh:\t0\nCapPrm:\t0\n\
             CapEff:\t00000000a80425fb\nCapBnd:\t0\nCapAmb:\t0\nNoNewPrivs:\t1\nSeccomp:\t2\nSeccomp_filters:\t1\n",
        );
        assert_eq!(facts.uids, [61000; 4]);
        assert_eq!(facts.gids, [1, 2, 3, 4]);
        assert_eq!(facts.groups, [5, 6]);
        assert_eq!(facts.capabilities, [0, 0, 0xa804_25fb, 0, 0]);
        assert_eq!((facts.no_new_privs, facts.seccomp), (Some(1), Some(2)));
        assert_eq!(status("").no_new_privs, None);
    }

    #[test]
    fn only_loopback_routes_are_left_out() {
        let ipv4 = "Iface\tDestination\neth0\t00000000\t010011AC\n";
        let ipv6 =
            "0000 00 0000 00 0000 ffffffff 00000001 00000000 00200200       lo\nfe80 40 0 00 0 0 0 0 0     eth0\n";
        assert_eq!(
            routes(ipv4, ipv6),
            ["eth0 00000000 010011AC", "fe80 40 0 00 0 0 0 0 0 eth0"]
        );
        assert!(routes("Iface\n", "0 0 lo\n").is_empty());
    }

    #[test]
    fn devices_and_resolvers_are_listed() {
        let devices = "Inter-|   Receive\n face |bytes\n    lo:       0       0\n  eth0: 1 2\n";
        assert_eq!(net_devices(devices), ["lo", "eth0"]);
        let conf = "# nameserver 9.9.9.9\nsearch .\nnameserver 127.0.0.1\n nameserver ::1\n";
        assert_eq!(resolvers(conf), ["127.0.0.1", "::1"]);
    }

    #[test]
    fn an_escaped_mount_point_is_found() {
        assert_eq!(unescape(r"/a\040b\134c"), r"/a b\c");
        assert_eq!(unescape(r"/a\09"), r"/a\09");
        assert_eq!(mount("x"), None);
    }
}
