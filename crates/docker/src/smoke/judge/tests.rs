use std::path::PathBuf;

use plimsoll_guest_link::messages::{CgroupFacts, RlimitFact, StatusFacts};

use super::*;
use crate::container::{Ownership, ProcessLimit};
use crate::runtime::Runtime;
use crate::seccomp::Confinement;
use crate::storage::Storage;

const UID: u32 = 61_000;

fn spec(runtime: &str) -> ContainerSpec {
    let runtime = Runtime::new(runtime);
    ContainerSpec {
        image_id: "sha256:0".to_owned(),
        platform: None,
        arguments: Vec::new(),
        work: true,
        auto_remove: true,
        processes: ProcessLimit::new(64, runtime.is_gvisor()),
        runtime,
        memory_mib: 256,
        cpus: 1.0,
        cpuset: "1".to_owned(),
        storage: Storage {
            tmp: 16,
            shm: 16,
            work: 128,
        },
        guest_uid: UID,
        confinement: Confinement::Engine,
        ownership: Ownership {
            expires: 0,
            owner: PathBuf::from("/tmp/owner"),
            session: false,
        },
        broker_socket: PathBuf::from("/tmp/socket"),
    }
}

fn mount(target: &str, mib: u32) -> MountFact {
    MountFact {
        target: target.to_owned(),
        fs_type: "tmpfs".to_owned(),
        options: vec![
            "rw".to_owned(),
            "nosuid".to_owned(),
            "noexec".to_owned(),
            format!("size={}k", mib * 1024),
        ],
        accepts_bytes: true,
        errno: 0,
    }
}

fn limit(name: &str, most: u64) -> RlimitFact {
    RlimitFact {
        name: name.to_owned(),
        soft: most,
        hard: most,
    }
}

fn good() -> ProbeFacts {
    let root = MountFact {
        target: "/".to_owned(),
        fs_type: "overlay".to_owned(),
        options: vec!["ro".to_owned()],
        accepts_bytes: false,
        errno: 30,
    };
    ProbeFacts {
        root_write_errno: 30,
        mounts: vec![root, mount("/tmp", 16), mount("/dev/shm", 16), mount("/work", 128)],
        status: StatusFacts {
            uids: vec![UID; 4],
            gids: vec![UID; 4],
            groups: vec![UID],
            no_new_privs: Some(1),
            seccomp: Some(2),
            capabilities: vec![0; 5],
        },
        net_devices: vec!["lo".to_owned()],
        resolvers: vec!["127.0.0.1".to_owned()],
        cgroup: CgroupFacts {
            version: 1,
            pids_max: "64".to_owned(),
            memory_max: (256 << 20).to_string(),
            swap_max: String::new(),
            cpu_max: "100000 100000".to_owned(),
            cpuset: "1".to_owned(),
        },
        cpus: 1,
        limits: vec![limit("core", 0), limit("nofile", 4096), limit("msgqueue", 0)],
        kernel_version: "Linux version of the host".to_owned(),
        boot_id: "boot of the host".to_owned(),
        ..ProbeFacts::default()
    }
}

fn host() -> HostKernel {
    HostKernel {
        version: "Linux version of the host".to_owned(),
        boot_id: "boot of the host".to_owned(),
    }
}

/// What is found wrong after a change to facts that are right.
fn found(runtime: &str, change: impl FnOnce(&mut ProbeFacts)) -> String {
    let mut changed = if runtime == "runsc" { good_gvisor() } else { good() };
    change(&mut changed);
    facts(&changed, &spec(runtime), &host()).unwrap_err()
}

fn good_gvisor() -> ProbeFacts {
    let mut facts = good();
    facts.status.seccomp = Some(0);
    facts.kernel_version = "Linux version 4.4.0 of gVisor".to_owned();
    facts.boot_id = "another boot".to_owned();
    facts.cgroup = CgroupFacts::default();
    facts.limits = vec![limit("core", 0), limit("nofile", 4096), limit("nproc", 64)];
    facts
}

#[test]
fn facts_that_are_as_promised_pass() {
    assert_eq!(facts(&good(), &spec(""), &host()), Ok(()));
    assert_eq!(facts(&good_gvisor(), &spec("runsc"), &host()), Ok(()));
}

#[test]
fn the_writable_set_is_exact() {
    assert!(found("", |facts| facts.root_write_errno = 0).contains("files in /"));
    assert!(found("", |facts| facts.mounts.push(mount("/var/cache", 1))).contains("/var/cache is writable"));
    assert!(found("", |facts| facts.mounts[1].accepts_bytes = false).contains("/tmp is not writable"));
    assert!(found("", |facts| facts.mounts[3].accepts_bytes = false).contains("mode 1777"));
}

#[test]
fn a_promised_mount_is_a_sized_tmpfs_without_programs() {
    let option = |gone: &'static str| {
        move |facts: &mut ProbeFacts| facts.mounts[1].options.retain(|option| !option.starts_with(gone))
    };
    for gone in ["noexec", "nosuid", "size="] {
        assert!(found("", option(gone)).contains("/tmp is mounted without"));
    }
    assert!(found("", |facts| facts.mounts[2] = mount("/dev/shm", 17)).contains("size=16384k"));
    assert!(found("", |facts| facts.mounts[1].fs_type = "ramfs".to_owned()).contains("not a tmpfs"));
    assert!(found("", |facts| facts.mounts.truncate(3)).contains("/work"));
}

#[test]
fn a_guest_is_nobody_else_and_has_nothing() {
    assert!(found("", |facts| facts.status.uids[1] = 0).contains("runs as"));
    assert!(found("", |facts| facts.status.gids.truncate(3)).contains("runs as"));
    assert!(found("", |facts| facts.status.groups.push(0)).contains("group 0"));
    assert!(found("", |facts| facts.status.no_new_privs = None).contains("NoNewPrivs"));
    assert!(found("", |facts| facts.status.capabilities[3] = 1).contains("capability"));
    assert!(found("", |facts| facts.status.capabilities.clear()).contains("capability"));
    assert!(found("", |facts| facts.status.seccomp = Some(0)).contains("Seccomp"));
}

#[test]
fn there_is_no_way_out() {
    assert!(found("", |facts| facts.net_devices.push("eth0".to_owned())).contains("eth0"));
    assert!(found("", |facts| facts.net_devices.clear()).contains("network devices"));
    assert!(found("", |facts| facts.routes.push("eth0 0".to_owned())).contains("route"));
    assert!(found("", |facts| facts.resolvers.push("10.0.0.2".to_owned())).contains("10.0.0.2"));
}

#[test]
fn a_limit_that_is_not_enforced_is_found() {
    for text in ["max", "", "65"] {
        assert!(found("", |facts| facts.cgroup.pids_max = text.to_owned()).contains("pids.max"));
    }
    assert!(found("", |facts| facts.cgroup.memory_max = "max".to_owned()).contains("memory"));
    assert!(found("", |facts| facts.cgroup.cpu_max = "max 100000".to_owned()).contains("quota"));
    assert!(found("", |facts| facts.cgroup.cpu_max = "200000 100000".to_owned()).contains("quota"));
    assert!(found("", |facts| facts.cpus = 8).contains("8 processors"));
    assert!(found("", |facts| facts.limits.clear()).contains("core"));
    assert!(found("runsc", |facts| facts.limits.truncate(2)).contains("nproc"));
}

#[test]
fn a_runtime_that_only_calls_itself_runsc_is_found() {
    assert!(found("runsc", |facts| facts.status.seccomp = Some(2)).contains("not gVisor"));
    assert!(found("runsc", |facts| facts.kernel_version = host().version).contains("not gVisor"));
    assert!(found("runsc", |facts| facts.kernel_version.clear()).contains("not gVisor"));
    assert!(found("runsc", |facts| facts.boot_id = host().boot_id).contains("not gVisor"));
}
