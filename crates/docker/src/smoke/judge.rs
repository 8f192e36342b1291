//! What the facts of a container must be. Pure: facts in, the first thing that is wrong out.

use std::collections::BTreeSet;

use plimsoll_broker::GUEST_SOCKET;
use plimsoll_guest_link::messages::{MountFact, ProbeFacts};

use crate::container::{ContainerSpec, WORK};

/// Seccomp mode of a process behind a filter.
const SECCOMP_FILTER: u32 = 2;

/// What the host knows of itself, for comparison under gVisor.
#[derive(Clone, Debug, Default)]
pub(super) struct HostKernel {
    pub(super) version: String,
    pub(super) boot_id: String,
}

impl HostKernel {
    pub(super) fn read() -> std::io::Result<Self> {
        let text = |path: &str| fs_err::read_to_string(path).map(|text| text.trim().to_owned());
        Ok(Self {
            version: text("/proc/version")?,
            boot_id: text("/proc/sys/kernel/random/boot_id")?,
        })
    }
}

/// Judges the facts of a container made from `spec`.
pub(super) fn facts(facts: &ProbeFacts, spec: &ContainerSpec, host: &HostKernel) -> Result<(), String> {
    if facts.root_write_errno == 0 {
        return Err("a guest can create files in /".to_owned());
    }
    writable(facts, spec)?;
    mounted(facts, spec)?;
    identity(facts, spec)?;
    network(facts)?;
    status(facts, spec, host)?;
    limits(facts, spec)
}

fn promised(spec: &ContainerSpec) -> Vec<(&'static str, u32)> {
    let mut promised = vec![("/tmp", spec.storage.tmp), ("/dev/shm", spec.storage.shm)];
    if spec.work {
        promised.push((WORK, spec.storage.work));
    }
    promised
}

fn writable(facts: &ProbeFacts, spec: &ContainerSpec) -> Result<(), String> {
    let found: BTreeSet<&str> = facts
        .mounts
        .iter()
        // The broker's socket takes bytes by being a socket; it is no file.
        .filter(|mount| mount.accepts_bytes && mount.target != GUEST_SOCKET)
        .map(|mount| mount.target.as_str())
        .collect();
    let wanted: BTreeSet<&str> = promised(spec).into_iter().map(|(target, _)| target).collect();
    if let Some(extra) = found.difference(&wanted).next() {
        return Err(format!("{extra} is writable, and only {wanted:?} may be"));
    }
    match wanted.difference(&found).next() {
        Some(&WORK) => Err("/work is not writable for the guest; an image needs /work with mode 1777".to_owned()),
        Some(missing) => Err(format!("{missing} is not writable for the guest")),
        None => Ok(()),
    }
}

fn mounted(facts: &ProbeFacts, spec: &ContainerSpec) -> Result<(), String> {
    for (target, mib) in promised(spec) {
        // The last mount on a place is the one that is seen.
        let mount = facts.mounts.iter().rev().find(|mount| mount.target == target);
        let mount = mount.ok_or_else(|| format!("{target} is not mounted"))?;
        sized_tmpfs(mount, mib)?;
    }
    Ok(())
}

fn sized_tmpfs(mount: &MountFact, mib: u32) -> Result<(), String> {
    let target = &mount.target;
    if mount.fs_type != "tmpfs" {
        return Err(format!("{target} is a {}, not a tmpfs", mount.fs_type));
    }
    let size = format!("size={}k", u64::from(mib) * 1024);
    for option in ["noexec", "nosuid", &size] {
        if !mount.options.iter().any(|known| known == option) {
            return Err(format!(
                "{target} is mounted without {option} ({})",
                mount.options.join(",")
            ));
        }
    }
    Ok(())
}

fn identity(facts: &ProbeFacts, spec: &ContainerSpec) -> Result<(), String> {
    let uid = spec.guest_uid;
    let status = &facts.status;
    let all = |ids: &[u32]| ids.len() == 4 && ids.iter().all(|id| *id == uid);
    if !all(&status.uids) || !all(&status.gids) {
        return Err(format!(
            "a guest runs as {:?}:{:?}, not as {uid}:{uid}",
            status.uids, status.gids
        ));
    }
    if let Some(group) = status.groups.iter().find(|group| **group != uid) {
        return Err(format!("a guest is in group {group}"));
    }
    Ok(())
}

fn network(facts: &ProbeFacts) -> Result<(), String> {
    if facts.net_devices != ["lo"] {
        return Err(format!("the network devices are {:?}, not lo alone", facts.net_devices));
    }
    if let Some(route) = facts.routes.first() {
        return Err(format!("there is a route: {route}"));
    }
    let stranger = facts
        .resolvers
        .iter()
        .find(|resolver| !resolver.starts_with("127.") && *resolver != "::1");
    match stranger {
        Some(resolver) => Err(format!("resolv.conf names {resolver}")),
        None => Ok(()),
    }
}

fn status(facts: &ProbeFacts, spec: &ContainerSpec, host: &HostKernel) -> Result<(), String> {
    let status = &facts.status;
    if status.no_new_privs != Some(1) {
        return Err(format!("NoNewPrivs is {:?}, not 1", status.no_new_privs));
    }
    if status.capabilities.len() != 5 || status.capabilities.iter().any(|set| *set != 0) {
        return Err(format!(
            "the capability sets are {:x?}, not five empty ones",
            status.capabilities
        ));
    }
    if spec.runtime.is_gvisor() {
        return own_kernel(facts, host);
    }
    let wanted = spec.confinement.expected_mode();
    if status.seccomp != Some(wanted) {
        return Err(format!("Seccomp is {:?}, not {wanted}", status.seccomp));
    }
    Ok(())
}

/// A program that calls itself runsc and starts another runtime passes every look at the configuration, and not this one.
fn own_kernel(facts: &ProbeFacts, host: &HostKernel) -> Result<(), String> {
    if facts.status.seccomp == Some(SECCOMP_FILTER) {
        return Err(
            "a seccomp filter of the host is in force: the runtime registered as runsc is not gVisor".to_owned(),
        );
    }
    if facts.kernel_version.is_empty() || facts.kernel_version == host.version {
        return Err("the guest sees the host's kernel: the runtime registered as runsc is not gVisor".to_owned());
    }
    if facts.boot_id.is_empty() || facts.boot_id == host.boot_id {
        return Err("the guest sees the host's boot: the runtime registered as runsc is not gVisor".to_owned());
    }
    Ok(())
}

/// The limits a guest can read of itself. Under gVisor the files inside are the runtime's own: they are read on the host.
fn limits(facts: &ProbeFacts, spec: &ContainerSpec) -> Result<(), String> {
    let processors = processors(&spec.cpuset);
    if u32::try_from(processors).ok() != Some(facts.cpus) {
        return Err(format!("the guest sees {} processors, not {processors}", facts.cpus));
    }
    for (name, most) in rlimits(spec) {
        let found = facts.limits.iter().find(|limit| limit.name == name);
        if found.is_none_or(|limit| (limit.soft, limit.hard) != (most, most)) {
            return Err(format!("the resource limit {name} is {found:?}, not {most}"));
        }
    }
    if spec.runtime.is_gvisor() {
        return Ok(());
    }
    let groups = &facts.cgroup;
    equal("pids.max", &groups.pids_max, &spec.processes.cgroup.to_string())?;
    equal("the memory limit", &groups.memory_max, &memory_bytes(spec).to_string())?;
    equal("the processors", &groups.cpuset, &spec.cpuset)?;
    quota(&groups.cpu_max, spec.cpus)
}

/// The limits the host can read of a container, where the guest cannot.
pub(super) fn groups(groups: &crate::process::ControlGroups, spec: &ContainerSpec) -> Result<(), String> {
    let read =
        |what: &str, text: std::io::Result<String>| text.map_err(|error| format!("{what} cannot be read: {error}"));
    equal(
        "pids.max",
        &read("pids.max", groups.pids_max())?,
        &spec.processes.cgroup.to_string(),
    )?;
    equal(
        "the memory limit",
        &read("the memory limit", groups.memory_max())?,
        &memory_bytes(spec).to_string(),
    )?;
    equal(
        "the processors",
        &read("the processors", groups.cpuset())?,
        &spec.cpuset,
    )?;
    quota(&read("the processor quota", groups.cpu_max())?, spec.cpus)
}

fn rlimits(spec: &ContainerSpec) -> Vec<(&'static str, u64)> {
    let mut limits = vec![("core", 0), ("nofile", crate::container::OPEN_FILES.unsigned_abs())];
    match spec.processes.inside {
        Some(most) => limits.push(("nproc", u64::from(most))),
        None => limits.push(("msgqueue", 0)),
    }
    limits
}

fn memory_bytes(spec: &ContainerSpec) -> u64 {
    u64::from(spec.memory_mib) << 20
}

fn equal(what: &str, found: &str, wanted: &str) -> Result<(), String> {
    if found == wanted {
        Ok(())
    } else {
        Err(format!(
            "{what} is {found:?}, not {wanted:?}: this host does not enforce it"
        ))
    }
}

/// Quota and period give the share, to the kernel's own precision of a microsecond.
fn quota(found: &str, cpus: f64) -> Result<(), String> {
    let wrong =
        || format!("the processor quota is {found:?}, not that of {cpus} processors: this host does not enforce it");
    let (quota, period) = found.split_once(' ').ok_or_else(wrong)?;
    let (quota, period): (f64, f64) = (
        quota.parse().map_err(|_| wrong())?,
        period.parse().map_err(|_| wrong())?,
    );
    if (quota - cpus * period).abs() <= 1.0 {
        Ok(())
    } else {
        Err(wrong())
    }
}

/// How many processors a list of the engine's form names.
fn processors(cpuset: &str) -> usize {
    cpuset.split(',').filter(|id| !id.is_empty()).count()
}

#[cfg(test)]
mod tests;
