//! What one run may use: read before any provider is built.

use plimsoll_core::Resources;
use plimsoll_core::vars::{Kind, Lookup, SettingError, Var};

/// A whole number that fits the wire's 32 bits.
const COUNT: Kind = Kind::Int {
    min: 0,
    max: u32::MAX as i64,
};

pub(super) const MEMORY_MB: Var = Var::new(
    "SANDBOX_MEMORY_MB",
    COUNT,
    "0",
    "Memory of one run in MiB; 0 is the provider's default (256). wasm addresses 4096 and lowers more to that; docker needs 64 and refuses more than its host has.",
);

pub(super) const CPUS: Var = Var::new(
    "SANDBOX_CPUS",
    Kind::Float,
    "0",
    "Processors of one run; 0 is the provider's default. wasm cannot enforce it and refuses any other value.",
);

pub(super) const PIDS: Var = Var::new(
    "SANDBOX_PIDS",
    COUNT,
    "0",
    "Processes and threads of one run; 0 is the provider's default. wasm cannot enforce it and refuses any other value; docker needs 16.",
);

pub(super) const DISK_MB: Var = Var::new(
    "SANDBOX_DISK_MB",
    COUNT,
    "0",
    "Writable disk of one run in MiB; 0 is the provider's default. wasm cannot enforce it and refuses any other value.",
);

pub(super) const VARS: &[Var] = &[MEMORY_MB, CPUS, PIDS, DISK_MB];

pub(super) fn read(lookup: &dyn Lookup) -> Result<Resources, SettingError> {
    Ok(Resources {
        memory_mb: narrow(&MEMORY_MB, lookup)?,
        cpus: CPUS.float(lookup)?,
        pids: narrow(&PIDS, lookup)?,
        disk_mb: narrow(&DISK_MB, lookup)?,
    })
}

fn narrow(var: &Var, lookup: &dyn Lookup) -> Result<u32, SettingError> {
    let value = var.count(lookup)?;
    u32::try_from(value).map_err(|_| var.unusable(value, "does not fit 32 bits", "set a smaller number"))
}
