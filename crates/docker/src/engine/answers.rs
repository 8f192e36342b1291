//! What is read out of the engine's answers; everything else in them is passed over.

use std::collections::{BTreeMap, HashMap};

use bollard::models::SystemInfo;
use serde::Deserialize;

use super::ApiVersion;
use super::error::EngineError;

/// The engine's version, as told before an API version is settled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerVersion {
    /// Newest API version it speaks.
    pub api: ApiVersion,
    /// Oldest API version it speaks.
    pub oldest_api: ApiVersion,
    /// Its release, for the log.
    pub release: String,
    /// Operating system of its containers.
    pub os: String,
    /// Architecture in the engine's spelling.
    pub arch: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct VersionAnswer {
    api_version: String,
    #[serde(rename = "MinAPIVersion", default)]
    min_api_version: String,
    #[serde(default)]
    version: String,
    os: String,
    arch: String,
}

impl VersionAnswer {
    pub(super) fn checked(self) -> Result<ServerVersion, EngineError> {
        let api = ApiVersion::parse(&self.api_version).ok_or_else(|| {
            EngineError::malformed(format_args!("ApiVersion {:?} is not a version", self.api_version))
        })?;
        let oldest_api = ApiVersion::parse(&self.min_api_version).unwrap_or(ApiVersion { major: 1, minor: 0 });
        Ok(ServerVersion {
            api,
            oldest_api,
            release: self.version,
            os: self.os,
            arch: self.arch,
        })
    }
}

/// What the engine says about itself and its host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EngineFacts {
    /// The runtimes it can start containers with, by name.
    pub runtimes: BTreeMap<String, RegisteredRuntime>,
    /// The runtime of a container that names none.
    pub default_runtime: String,
    /// Key and value of the storage driver's status.
    pub driver_status: Vec<(String, String)>,
    /// Processors the engine may use; 0 when it does not say.
    pub cpus: u32,
    /// Memory of the host in bytes; 0 when it does not say.
    pub memory: u64,
    /// `1` or `2`; empty when it does not say.
    pub cgroup_version: String,
    /// Which limits its kernel can set.
    pub limits: KernelLimits,
}

/// Which limits the engine says its kernel can set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelLimits {
    /// Memory.
    pub memory: bool,
    /// Memory together with swap.
    pub swap: bool,
    /// A share of processor time.
    pub cpu_quota: bool,
    /// A set of processors.
    pub cpu_set: bool,
    /// A number of processes.
    pub pids: bool,
}

/// A registered runtime.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RegisteredRuntime {
    /// Its program; empty when the engine does not say.
    pub path: String,
    /// The arguments it is given.
    pub arguments: Vec<String>,
}

impl EngineFacts {
    /// Whether images are kept in containerd's store.
    pub fn uses_containerd_store(&self) -> bool {
        self.driver_status
            .iter()
            .any(|(key, value)| key == "driver-type" && value == "io.containerd.snapshotter.v1")
    }
}

impl From<SystemInfo> for EngineFacts {
    fn from(info: SystemInfo) -> Self {
        let runtimes = info.runtimes.unwrap_or_default().into_iter().map(|(name, runtime)| {
            let runtime = RegisteredRuntime {
                path: runtime.path.unwrap_or_default(),
                arguments: runtime.runtime_args.unwrap_or_default(),
            };
            (name, runtime)
        });
        let status = info.driver_status.unwrap_or_default().into_iter().filter_map(|pair| {
            let mut pair = pair.into_iter();
            Some((pair.next()?, pair.next()?))
        });
        let limits = KernelLimits {
            memory: info.memory_limit.unwrap_or_default(),
            swap: info.swap_limit.unwrap_or_default(),
            cpu_quota: info.cpu_cfs_quota.unwrap_or_default(),
            cpu_set: info.cpu_set.unwrap_or_default(),
            pids: info.pids_limit.unwrap_or_default(),
        };
        Self {
            runtimes: runtimes.collect(),
            default_runtime: info.default_runtime.unwrap_or_default(),
            driver_status: status.collect(),
            cpus: info.ncpu.and_then(|count| u32::try_from(count).ok()).unwrap_or(0),
            memory: info.mem_total.and_then(|bytes| u64::try_from(bytes).ok()).unwrap_or(0),
            cgroup_version: info
                .cgroup_version
                .map(|version| version.to_string())
                .unwrap_or_default(),
            limits,
        }
    }
}

/// What the engine knows of an image.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "PascalCase")]
pub struct ImageAnswer {
    /// Content ID.
    pub id: String,
    /// The manifest behind it, where the engine keeps manifests.
    #[serde(default)]
    pub descriptor: Option<Descriptor>,
    /// What containers of it inherit.
    #[serde(default)]
    pub config: Option<ImageConfig>,
    /// Architecture it is for.
    #[serde(default)]
    pub architecture: String,
    /// Variant of the architecture.
    #[serde(default)]
    pub variant: String,
    /// Operating system it is for.
    #[serde(default)]
    pub os: String,
}

/// What an image declares for its containers.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "PascalCase")]
pub struct ImageConfig {
    /// `NAME=value` entries.
    #[serde(default)]
    pub env: Option<Vec<String>>,
    /// Declared volumes, by path.
    #[serde(default)]
    pub volumes: Option<BTreeMap<String, serde_json::Value>>,
}

/// A content descriptor.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Descriptor {
    /// Type of the content.
    #[serde(default)]
    pub media_type: String,
    /// Digest of the content.
    #[serde(default)]
    pub digest: String,
}

/// A container in a listing.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "PascalCase")]
pub struct Listed {
    /// Container ID.
    pub id: String,
    /// Names, each with a leading slash.
    #[serde(default)]
    names: Option<Vec<String>>,
    /// Labels, its image's included.
    #[serde(default)]
    labels: Option<HashMap<String, String>>,
    /// `created`, `running`, `exited` and so on.
    #[serde(default)]
    state: String,
}

impl Listed {
    /// Whether it has run and does so no longer.
    pub fn is_over(&self) -> bool {
        matches!(self.state.as_str(), "exited" | "dead")
    }

    /// Whether this is the container of exactly this name.
    pub fn is_named(&self, name: &str) -> bool {
        self.names().any(|own| own == name)
    }

    /// Its names, without the slash the engine puts before them.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let names = self.names.as_deref().unwrap_or_default();
        names.iter().map(|own| own.strip_prefix('/').unwrap_or(own))
    }

    /// A label's value.
    pub fn label(&self, name: &str) -> Option<&str> {
        self.labels.as_ref()?.get(name).map(String::as_str)
    }
}
