//! What a session may write. Whoever keeps sessions reads it from this row: the daemon, and a program that embeds a provider.

use plimsoll_core::vars::{Kind, Lookup, SettingError, Var};

/// 1 TiB in MiB.
const MOST_MB: i64 = 1 << 20;

/// What a session may write where nobody says, in MiB.
pub const DEFAULT_SESSION_DISK_MB: u32 = 1024;

/// The variable.
pub const SESSION_DISK_MB: Var = Var::new(
    "SANDBOX_SESSION_DISK_MB",
    Kind::Int { min: 0, max: MOST_MB },
    "1024",
    "What a session may write, in MiB, measured after each call; 0 sets no bound. Only with a provider that can bound it: \
     in wasm sessions files count as memory.",
);

/// What it is set to, in MiB; 0 = no bound, `None` where it is unset.
///
/// # Errors
/// The value cannot be used.
pub fn session_disk_mb(lookup: &dyn Lookup) -> Result<Option<u32>, SettingError> {
    let asked = SESSION_DISK_MB.int(lookup)?;
    // The row's own bounds leave no other value.
    Ok(asked.map(|mb| u32::try_from(mb).unwrap_or(DEFAULT_SESSION_DISK_MB)))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::ffi::OsString;

    use super::*;

    #[test]
    fn the_row_says_what_holds_when_it_is_unset() {
        let set = |value: &str| BTreeMap::<OsString, OsString>::from([(SESSION_DISK_MB.name.into(), value.into())]);
        assert_eq!(session_disk_mb(&BTreeMap::<OsString, OsString>::new()), Ok(None));
        let stated = session_disk_mb(&set(SESSION_DISK_MB.default));
        assert_eq!(stated, Ok(Some(DEFAULT_SESSION_DISK_MB)));
        for (value, mb) in [("0", 0), ("64", 64), ("1048576", 1 << 20)] {
            assert_eq!(session_disk_mb(&set(value)), Ok(Some(mb)));
        }
        for value in ["-1", "much", "1048577"] {
            session_disk_mb(&set(value)).unwrap_err();
        }
    }
}
