//! The create request: every row of the lockdown, and nothing beside it.

use std::collections::HashMap;

use bollard::models::{ContainerCreateBody, HealthConfig, HostConfig, HostConfigLogConfig, ResourcesUlimits};

use plimsoll_broker::GUEST_SOCKET;

use super::{
    ContainerSpec, EXPIRES_LABEL, GUEST_BINARY, OPEN_FILES, OWNER_LABEL, SESSION_LABEL, SpecError, WORK, mountable,
};

/// Billionths of a processor in one.
const NANO: f64 = 1e9;

impl ContainerSpec {
    /// The body of the create request.
    ///
    /// # Errors
    /// A path that cannot be mounted.
    pub fn request(&self) -> Result<Box<ContainerCreateBody>, SpecError> {
        Ok(Box::new(ContainerCreateBody {
            image: Some(self.image_id.clone()),
            entrypoint: Some(vec![GUEST_BINARY.to_owned()]),
            cmd: Some(self.arguments.clone()),
            user: Some(self.user()),
            working_dir: self.work.then(|| WORK.to_owned()),
            attach_stdin: Some(true),
            attach_stdout: Some(true),
            attach_stderr: Some(true),
            open_stdin: Some(true),
            stdin_once: Some(true),
            tty: Some(false),
            // An image's health check would be a process we did not start.
            healthcheck: Some(HealthConfig {
                test: Some(vec!["NONE".to_owned()]),
                ..HealthConfig::default()
            }),
            labels: Some(self.labels()?),
            host_config: Some(self.host_config()?),
            ..ContainerCreateBody::default()
        }))
    }

    fn labels(&self) -> Result<HashMap<String, String>, SpecError> {
        let owner = mountable(&self.ownership.owner)?;
        let mut labels = HashMap::from([
            (EXPIRES_LABEL.to_owned(), self.ownership.expires.to_string()),
            (OWNER_LABEL.to_owned(), owner.to_owned()),
        ]);
        if self.ownership.session {
            labels.insert(SESSION_LABEL.to_owned(), "1".to_owned());
        }
        Ok(labels)
    }

    fn host_config(&self) -> Result<HostConfig, SpecError> {
        let memory = i64::from(self.memory_mib) << 20;
        let socket = mountable(&self.broker_socket)?;
        Ok(HostConfig {
            auto_remove: Some(self.auto_remove),
            runtime: self.runtime.name().map(str::to_owned),
            memory: Some(memory),
            memory_swap: Some(memory),
            pids_limit: Some(i64::from(self.processes.cgroup)),
            nano_cpus: Some(nano_cpus(self.cpus)),
            cpuset_cpus: Some(self.cpuset.clone()),
            readonly_rootfs: Some(true),
            tmpfs: Some(self.tmpfs_mounts()),
            binds: Some(vec![format!("{socket}:{GUEST_SOCKET}:rw")]),
            cap_drop: Some(vec!["ALL".to_owned()]),
            security_opt: Some(self.security_opt()),
            ulimits: Some(self.ulimits()),
            ipc_mode: Some("private".to_owned()),
            network_mode: Some("none".to_owned()),
            // Without these a container without a network still reads the host's nameserver in resolv.conf.
            dns: Some(vec!["127.0.0.1".to_owned()]),
            dns_search: Some(vec![".".to_owned()]),
            log_config: Some(HostConfigLogConfig {
                typ: Some("none".to_owned()),
                config: None,
            }),
            init: Some(false),
            privileged: Some(false),
            ..HostConfig::default()
        })
    }

    fn tmpfs_mounts(&self) -> HashMap<String, String> {
        let mut mounts = HashMap::from([
            ("/tmp".to_owned(), self.tmpfs(self.storage.tmp)),
            ("/dev/shm".to_owned(), self.tmpfs(self.storage.shm)),
        ]);
        if self.work {
            // Some runtimes copy the mode of a folder the engine made and ignore `mode`; the owner still holds.
            let options = format!(
                "{0},mode=1777,uid={1},gid={1}",
                self.tmpfs(self.storage.work),
                self.guest_uid
            );
            mounts.insert(WORK.to_owned(), options);
        }
        mounts
    }

    fn security_opt(&self) -> Vec<String> {
        let mut options = vec!["no-new-privileges".to_owned()];
        if !self.runtime.is_gvisor() {
            options.extend(self.confinement.security_opt());
        }
        options
    }

    fn ulimits(&self) -> Vec<ResourcesUlimits> {
        let mut limits = vec![ulimit("core", 0), ulimit("nofile", OPEN_FILES)];
        if self.runtime.is_gvisor() {
            // Counted inside the sandbox there; under runc it would count the user over the whole host.
            limits.extend(self.processes.inside.map(|most| ulimit("nproc", i64::from(most))));
        } else {
            limits.push(ulimit("msgqueue", 0));
        }
        limits
    }
}

fn ulimit(name: &str, most: i64) -> ResourcesUlimits {
    ResourcesUlimits {
        name: Some(name.to_owned()),
        soft: Some(most),
        hard: Some(most),
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "the cast saturates, and the setting is bounded by the host's processors"
)]
fn nano_cpus(cpus: f64) -> i64 {
    (cpus * NANO).round() as i64
}
