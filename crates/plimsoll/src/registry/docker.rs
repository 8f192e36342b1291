//! The docker entry.

use std::sync::Arc;

use plimsoll_core::Resources;
use plimsoll_core::vars::{Lookup, SettingError};
use plimsoll_docker::provider::Docker;
use plimsoll_docker::seccomp::SeccompSetting;
use plimsoll_docker::settings::{DockerSettings, GUEST_UID, SECCOMP};
use plimsoll_sandbox::Sandbox;

use super::BuildPlan;
use super::envelope::{CPUS, DISK_MB, MEMORY_MB, PIDS};
use super::hardened::{Hardened, Violation, unpinned};

/// What hardened mode asks of its settings: rule 7, and a whole envelope with a budget for all runs together.
pub(super) const HARDENED: Hardened = Hardened {
    envelope: &[
        MEMORY_MB.name,
        CPUS.name,
        DISK_MB.name,
        PIDS.name,
        "SANDBOX_TOTAL_MEMORY_MB",
    ],
    settings: own_rules,
    ..Hardened::PLAIN
};

fn own_rules(lookup: &dyn Lookup) -> Vec<Violation> {
    let seccomp = SECCOMP.text(lookup).ok().flatten().unwrap_or_default();
    let unfiltered = matches!(SeccompSetting::new(seccomp), Ok(SeccompSetting::Unconfined)).then(|| {
        let problem = format!("{} is unconfined; unset it, or set it to a profile", SECCOMP.name);
        Violation::new(7, problem)
    });
    unpinned(7, lookup).into_iter().chain(unfiltered).collect()
}

/// Builds the provider; the engine is not asked for anything yet.
///
/// # Errors
/// A setting that cannot be used.
pub(super) fn build(plan: &BuildPlan<'_>) -> Result<Arc<dyn Sandbox>, SettingError> {
    let settings = DockerSettings::read(plan.lookup, plan.resources)?;
    settings.check_on_host()?;
    Ok(Arc::new(Docker::new(settings, plan.resources, plan.ready_pool)))
}

/// Everything of an envelope can be enforced; whether the engine's host does is seen at the start.
pub(super) const fn unenforceable(_: Resources) -> Vec<SettingError> {
    Vec::new()
}

/// A security setting must not look applied where it is not.
///
/// # Errors
/// The guest's user is set, and this provider is not the one that runs.
pub(super) fn unused(lookup: &dyn Lookup, provider: &str) -> Result<(), SettingError> {
    match GUEST_UID.int(lookup)? {
        Some(uid) => Err(GUEST_UID.unusable(
            uid,
            format!("provider {provider} has no guest user of its own"),
            "unset it, or choose provider docker",
        )),
        None => Ok(()),
    }
}
