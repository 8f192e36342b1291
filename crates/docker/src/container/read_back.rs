//! What the engine says it created, compared with what was asked for.

use std::collections::BTreeSet;

use bollard::models::{ContainerCreateBody, ContainerInspectResponse, HostConfig};

/// The container differs from the request; it must be removed, never started.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the engine's container differs from the request in {}", differences.join(", "))]
pub struct ReadBackError {
    /// The fields that differ.
    pub differences: Vec<&'static str>,
}

/// Compares a created container with its request: every field that was set, and every field that would widen the
/// container and was not.
///
/// # Errors
/// The names of all fields that differ.
pub fn read_back(asked: &ContainerCreateBody, seen: &ContainerInspectResponse) -> Result<(), ReadBackError> {
    let mut differences = Vec::new();
    config(asked, seen, &mut differences);
    match (&asked.host_config, &seen.host_config) {
        (Some(asked), Some(seen)) => host_config(asked, seen, &mut differences),
        _ => differences.push("HostConfig"),
    }
    if differences.is_empty() {
        Ok(())
    } else {
        Err(ReadBackError { differences })
    }
}

fn config(asked: &ContainerCreateBody, seen: &ContainerInspectResponse, differences: &mut Vec<&'static str>) {
    let Some(config) = &seen.config else {
        differences.push("Config");
        return;
    };
    let mut check = |name, same: bool| {
        if !same {
            differences.push(name);
        }
    };
    check("Image", config.image == asked.image && seen.image == asked.image);
    check("Entrypoint", config.entrypoint == asked.entrypoint);
    check("Cmd", list(&config.cmd) == list(&asked.cmd));
    check("User", config.user == asked.user);
    if asked.working_dir.is_some() {
        check("WorkingDir", config.working_dir == asked.working_dir);
    }
    check("OpenStdin", config.open_stdin == asked.open_stdin);
    check("StdinOnce", config.stdin_once == asked.stdin_once);
    check("Tty", !config.tty.unwrap_or_default());
    let test = |health: &Option<bollard::models::HealthConfig>| health.as_ref().and_then(|health| health.test.clone());
    check("Healthcheck", test(&config.healthcheck) == test(&asked.healthcheck));
    check("Volumes", list(&config.volumes).is_empty());
    let labels = config.labels.as_ref();
    let kept = asked
        .labels
        .iter()
        .flatten()
        .all(|(name, value)| labels.and_then(|labels| labels.get(name)) == Some(value));
    check("Labels", kept);
}

fn host_config(asked: &HostConfig, seen: &HostConfig, differences: &mut Vec<&'static str>) {
    let mut check = |name, same: bool| {
        if !same {
            differences.push(name);
        }
    };
    check("AutoRemove", seen.auto_remove == asked.auto_remove);
    if asked.runtime.is_some() {
        check("Runtime", seen.runtime == asked.runtime);
    }
    check("Memory", seen.memory == asked.memory);
    check("MemorySwap", seen.memory_swap == asked.memory_swap);
    check("PidsLimit", seen.pids_limit == asked.pids_limit);
    check("NanoCpus", seen.nano_cpus == asked.nano_cpus);
    check("CpusetCpus", seen.cpuset_cpus == asked.cpuset_cpus);
    check("ReadonlyRootfs", seen.readonly_rootfs == asked.readonly_rootfs);
    check("Tmpfs", seen.tmpfs == asked.tmpfs);
    check("Binds", seen.binds == asked.binds);
    check("CapDrop", seen.cap_drop == asked.cap_drop);
    check("SecurityOpt", set(&seen.security_opt) == set(&asked.security_opt));
    check("IpcMode", seen.ipc_mode == asked.ipc_mode);
    check("NetworkMode", seen.network_mode == asked.network_mode);
    check("Dns", seen.dns == asked.dns);
    check("DnsSearch", seen.dns_search == asked.dns_search);
    let driver = |config: &HostConfig| config.log_config.as_ref().and_then(|log| log.typ.clone());
    check("LogConfig", driver(seen) == driver(asked));
    check("Init", !seen.init.unwrap_or_default());
    check("Ulimits", ulimits_hold(asked, seen));
    for (name, empty) in widening(seen) {
        check(name, empty);
    }
}

/// The engine may add limits of its own configuration; those asked for must hold, once each.
fn ulimits_hold(asked: &HostConfig, seen: &HostConfig) -> bool {
    let seen = list(&seen.ulimits);
    list(&asked.ulimits).iter().all(|limit| {
        let mut same_name = seen.iter().filter(|other| other.name == limit.name);
        same_name.next() == Some(limit) && same_name.next().is_none()
    })
}

/// Every way a container could have more than was asked for, and whether it is absent.
fn widening(seen: &HostConfig) -> [(&'static str, bool); 21] {
    let no = |flag: Option<bool>| !flag.unwrap_or_default();
    let blank = |text: &Option<String>| text.as_deref().unwrap_or_default().is_empty();
    [
        ("Privileged", no(seen.privileged)),
        ("CapAdd", list(&seen.cap_add).is_empty()),
        ("Devices", list(&seen.devices).is_empty()),
        ("DeviceCgroupRules", list(&seen.device_cgroup_rules).is_empty()),
        ("DeviceRequests", list(&seen.device_requests).is_empty()),
        ("GroupAdd", list(&seen.group_add).is_empty()),
        ("Mounts", list(&seen.mounts).is_empty()),
        ("VolumesFrom", list(&seen.volumes_from).is_empty()),
        ("Links", list(&seen.links).is_empty()),
        ("ExtraHosts", list(&seen.extra_hosts).is_empty()),
        ("DnsOptions", list(&seen.dns_options).is_empty()),
        (
            "PortBindings",
            seen.port_bindings.as_ref().is_none_or(|ports| ports.is_empty()),
        ),
        ("PublishAllPorts", no(seen.publish_all_ports)),
        ("PidMode", blank(&seen.pid_mode)),
        ("UTSMode", blank(&seen.uts_mode)),
        ("UsernsMode", blank(&seen.userns_mode)),
        ("CgroupParent", blank(&seen.cgroup_parent)),
        (
            "Sysctls",
            seen.sysctls.as_ref().is_none_or(|sysctls| sysctls.is_empty()),
        ),
        ("OomKillDisable", no(seen.oom_kill_disable)),
        ("OomScoreAdj", seen.oom_score_adj.unwrap_or_default() == 0),
        ("CpusetMems", blank(&seen.cpuset_mems)),
    ]
}

fn list<T>(values: &Option<Vec<T>>) -> &[T] {
    values.as_deref().unwrap_or_default()
}

fn set(values: &Option<Vec<String>>) -> BTreeSet<&str> {
    list(values).iter().map(String::as_str).collect()
}
