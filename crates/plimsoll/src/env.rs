//! The process environment: read here, once, and nowhere else.

use std::ffi::{OsStr, OsString};
use std::fmt;

pub use plimsoll_core::vars::Lookup;
use zeroize::Zeroize as _;

/// The environment as it was when the process looked. Its values may be credentials, so they are wiped when it goes
/// and never shown.
#[derive(Default)]
pub struct Environment(Vec<(OsString, OsString)>);

impl Environment {
    /// Takes a copy of the process environment.
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the one place the other places are sent to"
    )]
    pub fn of_process() -> Self {
        Self(std::env::vars_os().collect())
    }

    /// The given names and values and nothing else.
    pub fn from_pairs<N: Into<OsString>, V: Into<OsString>>(pairs: impl IntoIterator<Item = (N, V)>) -> Self {
        Self(
            pairs
                .into_iter()
                .map(|(name, value)| (name.into(), value.into()))
                .collect(),
        )
    }
}

impl Lookup for Environment {
    fn get(&self, name: &str) -> Option<&OsStr> {
        self.0
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.as_os_str())
    }

    fn entries(&self) -> Vec<(&OsStr, &OsStr)> {
        self.0
            .iter()
            .map(|(name, value)| (name.as_os_str(), value.as_os_str()))
            .collect()
    }
}

impl Drop for Environment {
    fn drop(&mut self) {
        for (_, value) in self.0.drain(..) {
            value.into_encoded_bytes().zeroize();
        }
    }
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Environment")
            .field("names", &self.0.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_by_name_and_never_shown() {
        let environment = Environment::from_pairs([("PLIMSOLL_TOKEN", "hunter2"), ("B", "")]);
        assert_eq!(environment.get("PLIMSOLL_TOKEN"), Some(OsStr::new("hunter2")));
        assert_eq!(environment.get("B"), Some(OsStr::new("")));
        assert_eq!(environment.get("PLIMSOLL_TOKE"), None);
        assert!(!format!("{environment:?}").contains("hunter2"));
    }

    #[test]
    fn the_process_environment_is_copied_whole() {
        // Cargo sets this for every test it runs.
        assert!(Environment::of_process().get("CARGO_MANIFEST_DIR").is_some());
    }
}
