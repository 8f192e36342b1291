//! Every variable there is: the groups of all crates as one table.
//!
//! Parsing, `-h`, the reference page and the warning about names nobody reads all start from here.

use plimsoll_core::vars::{self, Lookup, SettingError, State, Var};

use crate::registry;

/// The groups, in the order of the reference page.
const GROUPS: &[&[&[Var]]] = &[
    registry::VARS,
    #[cfg(feature = "service")]
    plimsoll_service::settings::VARS,
    #[cfg(feature = "service")]
    &[plimsoll_service::planned::VARS],
    &[registry::PLANNED],
];

/// Every row.
pub fn all() -> impl Iterator<Item = &'static Var> {
    GROUPS.iter().copied().flatten().copied().flatten()
}

/// Rows that have their effect in this build.
pub fn built() -> impl Iterator<Item = &'static Var> {
    all().filter(|var| var.state == State::Built)
}

/// What is wrong with the values, each looked at by itself: unreadable, out of bounds, or of a feature not built yet.
/// In the order of the table; empty when nothing is.
pub fn problems(lookup: &dyn Lookup) -> Vec<SettingError> {
    all().filter_map(|var| var.check(lookup).err()).collect()
}

/// Names that begin like ours and that nothing reads, sorted.
pub fn unknown(lookup: &dyn Lookup) -> Vec<String> {
    vars::unknown(all(), lookup)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::env::Environment;

    #[test]
    fn no_two_rows_share_a_name() {
        let mut names = BTreeSet::new();
        for var in all() {
            assert!(names.insert(var.name), "{} stands in the table twice", var.name);
        }
    }

    #[test]
    fn every_row_says_what_it_does_and_its_default_can_be_read() {
        for var in all() {
            assert!(var.help.ends_with('.'), "{}", var.name);
            let built = Var {
                state: State::Built,
                ..*var
            };
            // A computed default is a sentence; every other one is a value.
            if !var.default.is_empty() && !var.default.contains(' ') {
                let environment = Environment::from_pairs([(var.name, var.default)]);
                assert_eq!(built.check(&environment), Ok(()), "{}", var.name);
            }
        }
    }

    #[test]
    fn every_wrong_value_is_reported_at_once() {
        let environment = Environment::from_pairs([
            ("SANDBOX_MEMORY_MB", "abc"),
            ("SANDBOX_GUEST_UID", "nobody"),
            ("SANDBOX_PROVIDER", "dokcer"),
            ("E2B_API_KEY", "hunter2"),
        ]);
        let problems = problems(&environment);
        let names: Vec<&str> = problems.iter().map(SettingError::variable).collect();
        assert_eq!(
            names,
            [
                "SANDBOX_PROVIDER",
                "SANDBOX_MEMORY_MB",
                "SANDBOX_GUEST_UID",
                "E2B_API_KEY"
            ]
        );
        let text: String = problems.iter().map(|problem| format!("{problem}\n")).collect();
        assert!(
            text.contains("a provider of this build (wasm or docker)") && !text.contains("hunter2"),
            "{text}"
        );
    }
}
