//! Which system calls a container may make under runc: our own profile, the operator's, or what the engine has.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;

/// Our profile, in Docker's format.
const EMBEDDED: &str = include_str!("../../../guest/seccomp.json");

/// The largest profile that is read; Docker's own has 13 KiB.
const MAX_PROFILE_BYTES: u64 = 1 << 20;

/// What an operator who switched the filter off is told.
pub const UNCONFINED: &str =
    "SANDBOX_DOCKER_SECCOMP is unconfined: guest code may make every system call of the host's kernel";

/// What `SANDBOX_DOCKER_SECCOMP` asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SeccompSetting {
    /// Unset: our own profile.
    #[default]
    Embedded,
    /// `engine`: the one built into the engine.
    Engine,
    /// `unconfined`: none.
    Unconfined,
    /// A file in Docker's format.
    File(PathBuf),
}

/// What a container is created with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Confinement {
    /// This profile, as JSON text.
    Profile(Arc<str>),
    /// The engine's own.
    Engine,
    /// None.
    Unconfined,
}

/// A profile cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SeccompError {
    /// `default` would be read as the name of a file.
    #[error("\"default\" names no profile; leave it unset for ours, or set engine, unconfined or a path")]
    Default,
    /// The file cannot be read.
    #[error("{}: {problem}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        problem: String,
    },
    /// The file is no profile in Docker's format.
    #[error("{}: not a profile in Docker's format: {problem}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Why.
        problem: String,
    },
    /// The profile lets through what it does not name.
    #[error("{}: defaultAction is {action}; it must be SCMP_ACT_ERRNO, so that what is not named is refused", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// Its default action.
        action: String,
    },
}

impl SeccompError {
    /// What is wrong, without the file.
    pub fn problem(&self) -> String {
        match self {
            Self::Default => "names no profile".to_owned(),
            Self::Unreadable { problem, .. } => problem.clone(),
            Self::Malformed { problem, .. } => format!("not a profile in Docker's format: {problem}"),
            Self::Open { action, .. } => {
                format!("its defaultAction is {action}, and what is not named would not be refused with SCMP_ACT_ERRNO")
            }
        }
    }
}

impl SeccompSetting {
    /// Reads the setting; blank is our own profile.
    ///
    /// # Errors
    /// The word `default`.
    pub fn new(text: &str) -> Result<Self, SeccompError> {
        match text.trim() {
            "" => Ok(Self::Embedded),
            "engine" => Ok(Self::Engine),
            "unconfined" => Ok(Self::Unconfined),
            "default" => Err(SeccompError::Default),
            path => Ok(Self::File(PathBuf::from(path))),
        }
    }

    /// Loads the profile, checked.
    ///
    /// # Errors
    /// A file that cannot be read, is no profile, or lets through what it does not name.
    pub fn load(&self) -> Result<Confinement, SeccompError> {
        match self {
            Self::Embedded => Ok(Confinement::Profile(compact(EMBEDDED).into())),
            Self::Engine => Ok(Confinement::Engine),
            Self::Unconfined => Ok(Confinement::Unconfined),
            Self::File(path) => {
                let text = read(path)?;
                let malformed = |problem: serde_json::Error| SeccompError::Malformed {
                    path: path.clone(),
                    problem: problem.to_string(),
                };
                let profile: Profile = serde_json::from_str(&text).map_err(malformed)?;
                if profile.refuses_the_rest() {
                    Ok(Confinement::Profile(compact(&text).into()))
                } else {
                    Err(SeccompError::Open {
                        path: path.clone(),
                        action: profile.default_action,
                    })
                }
            }
        }
    }
}

impl Confinement {
    /// The security option of a create request; the engine's own needs none. The API takes the text, never a path.
    pub fn security_opt(&self) -> Option<String> {
        match self {
            Self::Profile(text) => Some(format!("seccomp={text}")),
            Self::Engine => None,
            Self::Unconfined => Some("seccomp=unconfined".to_owned()),
        }
    }

    /// The mode `/proc/self/status` must show under runc: 2 with any filter, 0 without.
    pub const fn expected_mode(&self) -> u32 {
        match self {
            Self::Profile(_) | Self::Engine => 2,
            Self::Unconfined => 0,
        }
    }
}

/// A profile in Docker's format, as far as it is looked at.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Profile {
    /// What happens to a call no rule names.
    pub default_action: String,
    /// The rules.
    #[serde(default)]
    pub syscalls: Vec<Rule>,
}

/// One rule of a profile.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Rule {
    /// The calls; a profile of the older form names one in `name`.
    #[serde(default)]
    pub names: Vec<String>,
    /// The call, in the older form.
    #[serde(default)]
    pub name: String,
    /// What happens.
    pub action: String,
    /// The error number of an errno action.
    #[serde(default)]
    pub errno_ret: Option<u32>,
    /// Conditions, all of which must hold.
    #[serde(default)]
    pub args: Option<Vec<Condition>>,
}

/// A condition on one argument.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// Which argument.
    pub index: u32,
    /// What it is compared with; the mask of a masked comparison.
    pub value: u64,
    /// What a masked comparison must give.
    #[serde(default)]
    pub value_two: u64,
    /// How it is compared.
    pub op: Op,
}

/// A comparison.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
pub enum Op {
    /// Equal.
    #[serde(rename = "SCMP_CMP_EQ")]
    Equal,
    /// Equal after the mask.
    #[serde(rename = "SCMP_CMP_MASKED_EQ")]
    MaskedEqual,
    /// Not equal.
    #[serde(rename = "SCMP_CMP_NE")]
    NotEqual,
    /// Less.
    #[serde(rename = "SCMP_CMP_LT")]
    Less,
    /// At most.
    #[serde(rename = "SCMP_CMP_LE")]
    AtMost,
    /// At least.
    #[serde(rename = "SCMP_CMP_GE")]
    AtLeast,
    /// Greater.
    #[serde(rename = "SCMP_CMP_GT")]
    Greater,
}

impl Profile {
    /// Our own profile.
    ///
    /// # Errors
    /// The embedded text is no profile; a test shows that it is.
    pub fn embedded() -> Result<Self, serde_json::Error> {
        serde_json::from_str(EMBEDDED)
    }

    /// Whether a call no rule names is refused with an error.
    pub fn refuses_the_rest(&self) -> bool {
        self.default_action == "SCMP_ACT_ERRNO"
    }

    /// The calls some rule lets through, whatever its conditions.
    pub fn allowed(&self) -> BTreeSet<&str> {
        let rules = self.syscalls.iter().filter(|rule| rule.allows());
        rules.flat_map(Rule::calls).collect()
    }

    /// The conditions under which a call is let through, one list per rule.
    pub fn conditions(&self, call: &str) -> Vec<&[Condition]> {
        let rules = self.syscalls.iter().filter(|rule| rule.allows());
        let naming = rules.filter(|rule| rule.calls().any(|name| name == call));
        naming.map(|rule| rule.args.as_deref().unwrap_or_default()).collect()
    }
}

impl Rule {
    fn allows(&self) -> bool {
        self.action == "SCMP_ACT_ALLOW"
    }

    fn calls(&self) -> impl Iterator<Item = &str> {
        let single = Some(self.name.as_str()).filter(|name| !name.is_empty());
        self.names.iter().map(String::as_str).chain(single)
    }
}

fn read(path: &Path) -> Result<String, SeccompError> {
    let unreadable = |problem: String| SeccompError::Unreadable {
        path: path.to_owned(),
        problem,
    };
    let metadata = fs_err::metadata(path).map_err(|error| unreadable(error.to_string()))?;
    if !metadata.is_file() {
        return Err(unreadable("not a regular file".to_owned()));
    }
    if metadata.len() > MAX_PROFILE_BYTES {
        return Err(unreadable(format!("larger than {MAX_PROFILE_BYTES} bytes")));
    }
    fs_err::read_to_string(path).map_err(|error| unreadable(error.to_string()))
}

/// The same JSON without white space: it travels with every create request.
fn compact(text: &str) -> String {
    serde_json::from_str::<serde_json::Value>(text).map_or_else(|_| text.to_owned(), |value| value.to_string())
}

#[cfg(test)]
mod tests;
