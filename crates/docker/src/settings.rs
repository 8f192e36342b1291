//! What the operator sets for this provider, as one typed tree.

use plimsoll_core::Resources;
use plimsoll_core::vars::{Kind, Lookup, SettingError, Var};

use crate::endpoint::{self, ClientConfig};
use crate::guest_uid::{self, GuestUidError};
use crate::image_ref::{self, ImageRefError};
use crate::runtime::Runtime;
use crate::seccomp::{SeccompSetting, UNCONFINED};
use crate::storage::{Storage, StorageSettings};

/// The provider's name, and who reads its variables.
const DOCKER: &str = "docker";

/// The image of snippets and projects unless configured.
const DEFAULT_IMAGE: &str = "plimsoll/sandbox:latest";

/// Memory of a run in MiB unless configured.
const DEFAULT_MEMORY_MIB: u32 = 256;

/// The least memory a run can be given: what is written to its tmpfs mounts is charged to it as well.
const MIN_MEMORY_MIB: u32 = 64;

/// Processes of a run unless configured.
const DEFAULT_PROCESSES: u32 = 256;

/// The fewest processes and threads a run can be given. Measured: PID 1, a shell, a program beside it and a node that has
/// started all its threads are 14; with fewer node aborts as soon as it reads a file.
const MIN_PROCESSES: u32 = 16;

/// Processors of a run unless configured.
const DEFAULT_CPUS: f64 = 1.0;

/// The smallest share of a processor an engine takes.
const MIN_CPUS: f64 = 0.01;

/// The image of snippets.
pub const IMAGE: Var = Var::new(
    "SANDBOX_DOCKER_IMAGE",
    Kind::Text,
    DEFAULT_IMAGE,
    "Image of snippets, by name or content ID; never pulled. Built by: plimsoll images build.",
)
.read_by(DOCKER);

/// The image of projects.
pub const PROJECT_IMAGE: Var = Var::new(
    "SANDBOX_DOCKER_PROJECT_IMAGE",
    Kind::Text,
    DEFAULT_IMAGE,
    "Image of projects and sessions, by name or content ID; never pulled.",
)
.read_by(DOCKER);

/// The image of modules.
pub const MODULE_IMAGE: Var = Var::new(
    "SANDBOX_DOCKER_MODULE_IMAGE",
    Kind::Text,
    "",
    "Image of modules; unset, modules are unsupported.",
)
.read_by(DOCKER)
.not_built("module runs are");

/// The OCI runtime.
pub const RUNTIME: Var = Var::new(
    "SANDBOX_DOCKER_RUNTIME",
    Kind::Text,
    "",
    "OCI runtime registered with the engine; unset, the engine's default (runc). runsc is gVisor, the only one that proves tier kernel.",
)
.read_by(DOCKER);

/// The seccomp profile.
pub const SECCOMP: Var = Var::new(
    "SANDBOX_DOCKER_SECCOMP",
    Kind::Text,
    "",
    "Seccomp profile under runc: a path to a profile in Docker's format, engine for the engine's own, or unconfined. Unset, the embedded one.",
)
.read_by(DOCKER);

/// The user of guests.
pub const GUEST_UID: Var = Var::new(
    "SANDBOX_GUEST_UID",
    Kind::Int { min: 1, max: 65_532 },
    "61000",
    "User and group of every guest process. Neither it nor the next number may be used on this host.",
)
.read_by(DOCKER);

/// Whether images must be pinned.
pub const REQUIRE_PINNED_IMAGES: Var = Var::new(
    "SANDBOX_REQUIRE_PINNED_IMAGES",
    Kind::Bool,
    "false",
    "Accept only images named by digest (name@sha256:...) or by content ID (sha256:...).",
)
.read_by("docker, dockercloud, openshell");

/// The platform of images.
pub const PLATFORM: Var = Var::new(
    "DOCKER_DEFAULT_PLATFORM",
    Kind::Text,
    "",
    "Platform of images, such as linux/amd64; unset, the engine's own.",
)
.read_by(DOCKER);

/// The variables of this provider, in the order of the reference page.
pub const SETTINGS: &[Var] = &[
    IMAGE,
    PROJECT_IMAGE,
    MODULE_IMAGE,
    RUNTIME,
    SECCOMP,
    GUEST_UID,
    REQUIRE_PINNED_IMAGES,
    PLATFORM,
];

/// Every variable read here, in groups.
pub const VARS: &[&[Var]] = &[SETTINGS, endpoint::VARS];

/// What a run may use.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RunLimits {
    /// Memory in MiB, swap included.
    pub memory_mib: u32,
    /// Guest processes.
    pub processes: u32,
    /// Share of processor time, in processors.
    pub cpus: f64,
    /// Sizes of what is writable.
    pub storage: Storage,
}

/// Everything the provider is built from; nothing of it has met the engine yet.
#[derive(Clone, Debug, PartialEq)]
pub struct DockerSettings {
    /// Image of snippets.
    pub image: String,
    /// Image of projects.
    pub project_image: String,
    /// The runtime.
    pub runtime: Runtime,
    /// The seccomp profile asked for.
    pub seccomp: SeccompSetting,
    /// User and group of guests.
    pub guest_uid: u32,
    /// Whether every image must be pinned.
    pub require_pinned: bool,
    /// The platform asked for.
    pub platform: Option<String>,
    /// What a run may use.
    pub limits: RunLimits,
    /// Where to find the engine.
    pub client: ClientConfig,
}

impl DockerSettings {
    /// Reads the settings. `resources` is the operator's envelope, read before any provider is built; 0 in a field of it
    /// is this provider's default.
    ///
    /// # Errors
    /// The first value that cannot be used.
    pub fn read(lookup: &dyn Lookup, resources: Resources) -> Result<Self, SettingError> {
        MODULE_IMAGE.check(lookup)?;
        let limits = RunLimits::from_envelope(resources)?;
        let require_pinned = REQUIRE_PINNED_IMAGES.bool(lookup)?;
        let settings = Self {
            image: image(&IMAGE, lookup, require_pinned)?,
            project_image: image(&PROJECT_IMAGE, lookup, require_pinned)?,
            runtime: Runtime::new(RUNTIME.text(lookup)?.unwrap_or_default()),
            seccomp: seccomp(lookup)?,
            guest_uid: guest_uid(lookup)?,
            require_pinned,
            platform: platform(lookup)?,
            limits,
            client: ClientConfig::read(lookup)?,
        };
        Ok(settings)
    }

    /// What can be judged of these settings on this host without asking its engine: the guest's user against the account
    /// files, the seccomp profile, and where the engine is. A preflight looks again.
    ///
    /// # Errors
    /// The first setting that start-up would refuse.
    pub fn check_on_host(&self) -> Result<(), SettingError> {
        guest_uid::check_on_host(self.guest_uid).map_err(|error| unusable_uid(self.guest_uid, &error))?;
        if let SeccompSetting::File(path) = &self.seccomp {
            self.seccomp.load().map_err(|error| {
                SECCOMP.unusable(
                    path.display(),
                    error.problem(),
                    "set it to a profile in Docker's format, to engine or unconfined, or unset it for the embedded one",
                )
            })?;
        }
        self.client.check()
    }

    /// What weakens a wall and is none the less what was asked for. Under gVisor no filter of the host is used at all.
    pub fn warnings(&self) -> Vec<&'static str> {
        let unconfined = self.seccomp == SeccompSetting::Unconfined && !self.runtime.is_gvisor();
        unconfined.then_some(UNCONFINED).into_iter().collect()
    }

    /// The configured images, each reference once, in the order they are verified.
    pub fn images(&self) -> Vec<&str> {
        let mut images = vec![self.image.as_str()];
        if self.project_image != self.image {
            images.push(&self.project_image);
        }
        images
    }
}

impl RunLimits {
    /// What an envelope means for this provider.
    ///
    /// # Errors
    /// A dimension that is set and too small, or sizes that cannot hold together.
    pub fn from_envelope(resources: Resources) -> Result<Self, SettingError> {
        let Resources {
            memory_mb,
            cpus,
            pids,
            disk_mb,
        } = resources;
        if (1..MIN_MEMORY_MIB).contains(&memory_mb) {
            return Err(envelope(
                "SANDBOX_MEMORY_MB",
                &memory_mb,
                format!("provider docker needs at least {MIN_MEMORY_MIB} MiB for a container"),
                format!("set it to at least {MIN_MEMORY_MIB}, or unset it ({DEFAULT_MEMORY_MIB})"),
            ));
        }
        if (1..MIN_PROCESSES).contains(&pids) {
            return Err(envelope(
                "SANDBOX_PIDS",
                &pids,
                format!("provider docker needs at least {MIN_PROCESSES} processes and threads for a container"),
                format!("set it to at least {MIN_PROCESSES}, or unset it ({DEFAULT_PROCESSES})"),
            ));
        }
        if cpus > 0.0 && cpus < MIN_CPUS {
            return Err(envelope(
                "SANDBOX_CPUS",
                &cpus,
                format!("an engine takes no less than {MIN_CPUS}"),
                format!("set it to at least {MIN_CPUS}, or unset it ({DEFAULT_CPUS})"),
            ));
        }
        let budget = (disk_mb > 0).then_some(i64::from(disk_mb));
        let storage = StorageSettings {
            budget,
            ..StorageSettings::default()
        };
        let storage = storage.resolve().map_err(|error| {
            envelope(
                "SANDBOX_DISK_MB",
                &disk_mb,
                error.to_string(),
                "set a larger number, or unset it".to_owned(),
            )
        })?;
        Ok(Self {
            memory_mib: or(memory_mb, DEFAULT_MEMORY_MIB),
            processes: or(pids, DEFAULT_PROCESSES),
            cpus: if cpus > 0.0 { cpus } else { DEFAULT_CPUS },
            storage,
        })
    }
}

const fn or(value: u32, default: u32) -> u32 {
    if value == 0 { default } else { value }
}

fn envelope(variable: &'static str, value: &dyn std::fmt::Display, problem: String, fix: String) -> SettingError {
    SettingError::Unusable {
        variable,
        value: value.to_string(),
        problem,
        fix,
    }
}

fn image(var: &Var, lookup: &dyn Lookup, require_pinned: bool) -> Result<String, SettingError> {
    let reference = var.text(lookup)?.unwrap_or(var.default);
    match image_ref::check(reference, require_pinned) {
        Ok(()) => Ok(reference.to_owned()),
        Err(ImageRefError::Malformed { .. }) => Err(var.unusable(
            reference,
            "not a reference to an image",
            "set it to a name such as plimsoll/sandbox:latest, or to a content ID",
        )),
        Err(ImageRefError::NotPinned { .. }) => Err(var.unusable(
            reference,
            "not pinned, and SANDBOX_REQUIRE_PINNED_IMAGES is on",
            "set it to name@sha256:<64 hex digits> or sha256:<64 hex digits>",
        )),
    }
}

fn seccomp(lookup: &dyn Lookup) -> Result<SeccompSetting, SettingError> {
    let text = SECCOMP.text(lookup)?.unwrap_or_default();
    SeccompSetting::new(text).map_err(|_| {
        SECCOMP.unusable(
            text,
            "names no profile",
            "set a path, engine or unconfined, or unset it for the embedded profile",
        )
    })
}

fn guest_uid(lookup: &dyn Lookup) -> Result<u32, SettingError> {
    let value = GUEST_UID.count(lookup)?;
    let uid = u32::try_from(value).unwrap_or(u32::MAX);
    guest_uid::check(uid).map_err(|error| unusable_uid(uid, &error))?;
    Ok(uid)
}

fn unusable_uid(uid: u32, error: &GuestUidError) -> SettingError {
    let fix = match error {
        GuestUidError::Unreadable { .. } => "make the file readable".to_owned(),
        _ if uid == guest_uid::DEFAULT_GUEST_UID => "set a number that this host does not use".to_owned(),
        _ => format!("set another number, or unset it ({})", guest_uid::DEFAULT_GUEST_UID),
    };
    GUEST_UID.unusable(uid, error.problem(), fix)
}

fn platform(lookup: &dyn Lookup) -> Result<Option<String>, SettingError> {
    let Some(text) = PLATFORM.text(lookup)? else {
        return Ok(None);
    };
    let parts: Vec<&str> = text.split('/').collect();
    let well_formed = (2..=3).contains(&parts.len())
        && parts.iter().all(|part| {
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
            !part.is_empty() && part.bytes().all(plain)
        });
    if well_formed {
        Ok(Some(text.to_owned()))
    } else {
        Err(PLATFORM.unusable(
            text,
            "not a platform",
            "set it to os/architecture or os/architecture/variant, such as linux/amd64, or unset it",
        ))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::ffi::OsString;

    use super::*;

    fn read(values: &[(&str, &str)], resources: Resources) -> Result<DockerSettings, String> {
        let lookup: BTreeMap<OsString, OsString> =
            values.iter().map(|(name, value)| (name.into(), value.into())).collect();
        DockerSettings::read(&lookup, resources).map_err(|error| error.to_string())
    }

    #[test]
    fn an_empty_environment_is_the_documented_default() {
        let settings = read(&[], Resources::default()).unwrap();
        assert_eq!(settings.images(), ["plimsoll/sandbox:latest"]);
        assert_eq!(settings.runtime, Runtime::EngineDefault);
        assert_eq!(settings.seccomp, SeccompSetting::Embedded);
        assert_eq!(settings.guest_uid, guest_uid::DEFAULT_GUEST_UID);
        assert_eq!(GUEST_UID.default, guest_uid::DEFAULT_GUEST_UID.to_string());
        let limits = settings.limits;
        assert_eq!((limits.memory_mib, limits.processes), (256, 256));
        assert!((limits.cpus - 1.0).abs() < f64::EPSILON);
        assert_eq!(limits.storage.work, 128);
    }

    #[test]
    fn memory_too_small_for_a_container_stops_the_start_naming_the_minimum() {
        for memory_mb in [1, 63] {
            let error = read(
                &[],
                Resources {
                    memory_mb,
                    ..Resources::default()
                },
            )
            .unwrap_err();
            assert!(
                error.starts_with("SANDBOX_MEMORY_MB=") && error.contains("at least 64"),
                "{error}"
            );
        }
        let resources = Resources {
            memory_mb: 64,
            ..Resources::default()
        };
        assert_eq!(read(&[], resources).unwrap().limits.memory_mib, 64);
    }

    #[test]
    fn fewer_processes_than_a_node_has_threads_stop_the_start_naming_the_minimum() {
        let of = |pids| {
            let resources = Resources {
                pids,
                ..Resources::default()
            };
            read(&[], resources).map(|settings| settings.limits.processes)
        };
        for pids in [1, 15] {
            let error = of(pids).unwrap_err();
            assert!(
                error.starts_with(&format!("SANDBOX_PIDS=\"{pids}\"")) && error.contains("at least 16"),
                "{error}"
            );
        }
        assert_eq!((of(16), of(0)), (Ok(16), Ok(256)));
    }

    #[test]
    fn what_this_host_alone_refuses_is_found_without_its_engine() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs_err::write(&path, text).unwrap();
            path.to_str().unwrap().to_owned()
        };
        let checked = |name: &str, value: &str| {
            let lookup = BTreeMap::from([(OsString::from(name), OsString::from(value))]);
            let settings = DockerSettings::read(&lookup, Resources::default()).unwrap();
            settings.check_on_host().map_err(|error| error.to_string())
        };
        let closed = file("closed.json", r#"{"defaultAction":"SCMP_ACT_ERRNO"}"#);
        let open = file("open.json", r#"{"defaultAction":"SCMP_ACT_ALLOW"}"#);
        let none = file("none.json", "root:x:0:0::/:/bin/sh");
        for (name, value, words) in [
            ("SANDBOX_DOCKER_SECCOMP", "/nonexistent/profile.json", "No such file"),
            (
                "SANDBOX_DOCKER_SECCOMP",
                none.as_str(),
                "not a profile in Docker's format",
            ),
            (
                "SANDBOX_DOCKER_SECCOMP",
                open.as_str(),
                "defaultAction is SCMP_ACT_ALLOW",
            ),
            // Every host has this user: daemon, or bin.
            ("SANDBOX_GUEST_UID", "1", "1 is already used in /etc/passwd"),
        ] {
            let error = checked(name, value).unwrap_err();
            assert!(
                error.starts_with(&format!("{name}={value:?}: ")) && error.contains(words),
                "{error}"
            );
        }
        for (name, value) in [
            ("SANDBOX_DOCKER_SECCOMP", closed.as_str()),
            ("SANDBOX_DOCKER_SECCOMP", "unconfined"),
            ("SANDBOX_GUEST_UID", "61000"),
            ("DOCKER_HOST", "unix:///nonexistent/engine.sock"),
        ] {
            assert_eq!(checked(name, value), Ok(()), "{name}={value}");
        }
    }

    #[test]
    fn the_disk_budget_is_shared_out_and_a_small_one_refused() {
        let of = |disk_mb| {
            read(
                &[],
                Resources {
                    disk_mb,
                    ..Resources::default()
                },
            )
        };
        assert_eq!(of(256).unwrap().limits.storage.work, 224);
        assert!(of(32).unwrap_err().starts_with("SANDBOX_DISK_MB=\"32\""));
    }

    #[test]
    fn a_module_image_stops_the_start_until_modules_run() {
        let error = read(
            &[("SANDBOX_DOCKER_MODULE_IMAGE", "plimsoll/sandbox-sim")],
            Resources::default(),
        )
        .unwrap_err();
        assert!(
            error.starts_with("SANDBOX_DOCKER_MODULE_IMAGE") && error.contains("not built"),
            "{error}"
        );
    }

    #[test]
    fn a_filter_that_is_switched_off_is_warned_of_where_one_would_stand() {
        let warnings = |values: &[(&str, &str)]| read(values, Resources::default()).unwrap().warnings();
        let off = ("SANDBOX_DOCKER_SECCOMP", "unconfined");
        assert_eq!(warnings(&[off]), [UNCONFINED]);
        assert!(warnings(&[off, ("SANDBOX_DOCKER_RUNTIME", "runsc")]).is_empty());
        assert!(warnings(&[]).is_empty() && warnings(&[("SANDBOX_DOCKER_SECCOMP", "engine")]).is_empty());
    }

    #[test]
    fn every_wrong_value_names_its_variable() {
        for (name, value) in [
            ("SANDBOX_DOCKER_IMAGE", "-node"),
            ("SANDBOX_DOCKER_PROJECT_IMAGE", "--privileged"),
            ("SANDBOX_DOCKER_SECCOMP", "default"),
            ("SANDBOX_GUEST_UID", "0"),
            ("SANDBOX_GUEST_UID", "60001"),
            ("SANDBOX_GUEST_UID", "65533"),
            ("SANDBOX_REQUIRE_PINNED_IMAGES", "yes"),
            ("DOCKER_HOST", "tcp://10.0.0.1:2375"),
            ("DOCKER_HOST", "unix://docker.sock"),
            ("DOCKER_DEFAULT_PLATFORM", "amd64"),
            ("DOCKER_DEFAULT_PLATFORM", "linux/amd64/v1/x"),
            ("DOCKER_DEFAULT_PLATFORM", "linux/amd 64"),
        ] {
            let error = read(&[(name, value)], Resources::default()).unwrap_err();
            assert!(error.starts_with(&format!("{name}={value:?}")), "{error}");
        }
    }

    #[test]
    fn a_required_pin_is_required_of_every_image() {
        let pinned = format!("sha256:{}", "0".repeat(64));
        let error = read(
            &[
                ("SANDBOX_REQUIRE_PINNED_IMAGES", "1"),
                ("SANDBOX_DOCKER_IMAGE", &pinned),
            ],
            Resources::default(),
        );
        assert!(error.unwrap_err().starts_with("SANDBOX_DOCKER_PROJECT_IMAGE"));
        let both = [
            ("SANDBOX_REQUIRE_PINNED_IMAGES", "1"),
            ("SANDBOX_DOCKER_IMAGE", pinned.as_str()),
            ("SANDBOX_DOCKER_PROJECT_IMAGE", &pinned),
        ];
        assert_eq!(read(&both, Resources::default()).unwrap().images(), [pinned]);
    }

    #[test]
    fn every_row_says_who_reads_it() {
        for var in VARS.iter().copied().flatten() {
            assert!(var.help.ends_with('.') && var.provider.is_some(), "{}", var.name);
        }
    }
}
