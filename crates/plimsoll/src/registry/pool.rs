//! How many single-use sandboxes wait ready.

use plimsoll_core::vars::{Kind, Lookup, SettingError, Var};

pub(super) const READY_POOL: Var = Var::new(
    "SANDBOX_READY_POOL",
    Kind::Int { min: 0, max: 1024 },
    "0",
    "Never-used, single-use containers that wait for each kind of run; 0 makes every container when its run comes. Each is \
     charged the memory of one run. At most the effective SANDBOX_MAX_CONCURRENT.",
)
.read_by("docker");

pub(super) const VARS: &[Var] = &[READY_POOL];

/// Reads the size; `kinds` is how many kinds of sandbox the provider keeps ready, 0 where it keeps none.
///
/// # Errors
/// A pool where none can be kept.
pub(super) fn read(lookup: &dyn Lookup, provider: &str, kinds: u32) -> Result<u32, SettingError> {
    let size = u32::try_from(READY_POOL.count(lookup)?).unwrap_or(u32::MAX);
    if size > 0 && kinds == 0 {
        return Err(READY_POOL.unusable(
            size,
            format!("provider {provider} keeps no sandboxes ready"),
            "unset it, or choose provider docker",
        ));
    }
    Ok(size)
}

/// A pool larger than what may run at once would only hold memory.
///
/// # Errors
/// It is.
pub(super) fn within(size: u32, max_concurrent: u32) -> Result<(), SettingError> {
    if size <= max_concurrent {
        return Ok(());
    }
    Err(READY_POOL.unusable(
        size,
        format!("above {max_concurrent}, the runs this daemon does at once"),
        format!("set it to 0 to {max_concurrent}"),
    ))
}
