//! The wasm entry: what the provider cannot enforce is refused, and the rest becomes its configuration.

use std::sync::Arc;

use plimsoll_core::Resources;
use plimsoll_core::vars::{SettingError, Var};
use plimsoll_sandbox::Sandbox;
use plimsoll_wasm::Wasm;
use plimsoll_wasm::engine::BuildError;

use super::envelope::{CPUS, DISK_MB, MEMORY_MB, PIDS};
use super::{BuildPlan, PROVIDER};

/// Builds the provider, with its engine in the plan's folder where one is given.
///
/// # Errors
/// A dimension it cannot enforce, memory the engine image cannot start with, or a host that cannot run the engine.
pub(super) fn build(plan: &BuildPlan<'_>) -> Result<Arc<dyn Sandbox>, SettingError> {
    let BuildPlan {
        resources,
        max_concurrent,
        folder,
        ..
    } = *plan;
    if let Some(error) = unenforceable(resources).into_iter().next() {
        return Err(error);
    }
    let wasm = match folder {
        Some(folder) => Wasm::kept_in(resources, max_concurrent, folder),
        None => Wasm::new(resources, max_concurrent),
    };
    match wasm {
        Ok(wasm) => Ok(Arc::new(wasm)),
        Err(BuildError::TooFewPages { minimum, .. }) => {
            let minimum_mb = minimum.div_ceil(PAGES_PER_MB);
            let problem = format!("the engine of provider wasm needs at least {minimum_mb} MiB to start");
            Err(MEMORY_MB.unusable(
                resources.memory_mb,
                problem,
                format!("set it to at least {minimum_mb}, or unset it"),
            ))
        }
        Err(error) => Err(PROVIDER.unusable(
            "wasm",
            error.to_string(),
            "serve on another host, or choose another provider",
        )),
    }
}

/// Pages of 64 KiB in one MiB.
const PAGES_PER_MB: u32 = 16;

/// What of an envelope it cannot enforce.
pub(super) fn unenforceable(resources: Resources) -> Vec<SettingError> {
    let refuse = |var: &Var, value: &dyn std::fmt::Display, set: bool| {
        set.then(|| {
            var.unusable(
                value,
                "provider wasm cannot enforce it",
                "set it to 0, or choose another provider",
            )
        })
    };
    [
        refuse(&CPUS, &resources.cpus, resources.cpus > 0.0),
        refuse(&PIDS, &resources.pids, resources.pids > 0),
        refuse(&DISK_MB, &resources.disk_mb, resources.disk_mb > 0),
    ]
    .into_iter()
    .flatten()
    .collect()
}
