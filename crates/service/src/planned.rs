//! Variables of the service whose features do not exist yet.
//!
//! They stand in the table so that setting one stops the start instead of looking applied. A value is still
//! read, so that a typo is reported as one. The issue that builds a feature moves its rows to the module that reads them.

use plimsoll_core::vars::{Kind, Var};

const COUNT: Kind = Kind::Int { min: 0, max: i64::MAX };
/// The variables, in the order of the reference page.
pub const VARS: &[Var] = &[
    Var::new(
        "PLIMSOLL_STATE_DIR",
        Kind::Path,
        "",
        "Private folder for counters that outlive a restart.",
    )
    .not_built("the state folder is"),
    Var::new(
        "PLIMSOLL_GUARD_ADDR",
        Kind::HostPort { off: false },
        "",
        "Where the egress guard of a hosted provider listens.",
    )
    .not_built("the egress guard is"),
    Var::new(
        "SANDBOX_PAID_SECONDS_PER_DAY",
        COUNT,
        "0",
        "Paid seconds all callers may use per UTC day; 0 sets no limit.",
    )
    .not_built("paid allowances are"),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::ffi::OsString;

    use super::*;
    use plimsoll_core::vars::{SettingError, State};

    fn check(name: &str, value: &str) -> Result<(), SettingError> {
        let lookup: BTreeMap<OsString, OsString> = BTreeMap::from([(name.into(), value.into())]);
        VARS.iter().find(|var| var.name == name).unwrap().check(&lookup)
    }

    #[test]
    fn a_well_formed_value_of_every_row_stops_the_start_by_name_and_a_blank_one_does_not() {
        for var in VARS {
            assert!(matches!(var.state, State::NotBuilt(_)), "{}", var.name);
            let value = match var.kind {
                Kind::Bool => "true",
                Kind::HostPort { .. } => "127.0.0.1:1",
                Kind::Int { .. } => "1",
                _ => "/somewhere",
            };
            let error = check(var.name, value).unwrap_err();
            assert!(matches!(error, SettingError::NotBuilt { .. }), "{error}");
            assert!(error.to_string().starts_with(var.name), "{error}");
            assert_eq!(check(var.name, "  "), Ok(()));
        }
    }

    #[test]
    fn a_default_spelled_out_stops_the_start_too() {
        let error = check("SANDBOX_PAID_SECONDS_PER_DAY", "0").unwrap_err();
        assert!(matches!(error, SettingError::NotBuilt { .. }), "{error}");
    }

    #[test]
    fn a_malformed_value_is_named_with_its_text() {
        for (name, value) in [
            ("SANDBOX_PAID_SECONDS_PER_DAY", "two"),
            ("SANDBOX_PAID_SECONDS_PER_DAY", "-1"),
        ] {
            let error = check(name, value).unwrap_err();
            assert!(!matches!(error, SettingError::NotBuilt { .. }), "{error}");
            assert!(error.to_string().starts_with(&format!("{name}={value:?}")), "{error}");
        }
    }
}
