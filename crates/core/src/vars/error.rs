//! Why a setting is refused.

use std::fmt;

/// Why a setting is refused: the variable, its value unless it is a credential, the limit and the fix.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingError {
    /// The value of a known variable is not text.
    #[error("{variable}: the value is not valid UTF-8; set it again as UTF-8 text, or unset it")]
    NotUtf8 {
        /// The variable.
        variable: &'static str,
    },
    /// The value cannot be read as what the variable holds.
    #[error("{variable}={value:?}: not {expected}; set it to {expected}, or unset it ({default})")]
    Malformed {
        /// The variable.
        variable: &'static str,
        /// Its value as given.
        value: String,
        /// What it must be.
        expected: String,
        /// What holds when it is unset.
        default: Unset,
    },
    /// The value can be read, and lies outside the bounds.
    #[error("{variable}={value:?}: out of range; set it to {limit}, or unset it ({default})")]
    OutOfRange {
        /// The variable.
        variable: &'static str,
        /// Its value as given.
        value: String,
        /// The bounds.
        limit: String,
        /// What holds when it is unset.
        default: Unset,
    },
    /// The value is readable and cannot hold together with the other settings.
    #[error("{variable}={value:?}: {problem}; {fix}")]
    Unusable {
        /// The variable.
        variable: &'static str,
        /// Its value as given, or the value in force.
        value: String,
        /// What is wrong.
        problem: String,
        /// What to do.
        fix: String,
    },
    /// A credential, or a variable that is missing, is wrong; no value is shown.
    #[error("{variable}: {problem}; {fix}")]
    Hidden {
        /// The variable.
        variable: &'static str,
        /// What is wrong, without the value.
        problem: String,
        /// What to do.
        fix: String,
    },
    /// The variable belongs to a feature that does not exist yet.
    #[error("{variable}: set, but {feature} not built yet, so it would have no effect; unset it")]
    NotBuilt {
        /// The variable.
        variable: &'static str,
        /// The feature and its verb: "sessions are", "the docker provider is".
        feature: &'static str,
    },
}

impl SettingError {
    /// The variable the error is about.
    pub fn variable(&self) -> &'static str {
        match self {
            Self::NotUtf8 { variable }
            | Self::Malformed { variable, .. }
            | Self::OutOfRange { variable, .. }
            | Self::Unusable { variable, .. }
            | Self::Hidden { variable, .. }
            | Self::NotBuilt { variable, .. } => variable,
        }
    }
}

/// How an error words what holds when the variable is unset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unset(pub(super) &'static str);

impl fmt::Display for Unset {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            out.write_str("no default")
        } else {
            write!(out, "default {}", self.0)
        }
    }
}
