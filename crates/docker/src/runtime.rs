//! Which OCI runtime starts the containers, and what that changes.

use std::path::Path;

use crate::engine::EngineFacts;

/// gVisor's runtime: the only one that can prove the kernel tier.
pub const GVISOR: &str = "runsc";

/// The runtime of every container of this provider.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Runtime {
    /// The engine's own choice: runc, unless its operator said otherwise.
    #[default]
    EngineDefault,
    /// A runtime registered with the engine under this name.
    Named(String),
}

/// The engine does not have the runtime that is asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RuntimeError {
    /// Not in the engine's map.
    #[error(
        "SANDBOX_DOCKER_RUNTIME={name:?}: the engine has no runtime of that name (it has {known}); register it, or choose one of those"
    )]
    NotRegistered {
        /// The name asked for.
        name: String,
        /// The names there are.
        known: String,
    },
    /// The name says gVisor and the program is another.
    #[error(
        "SANDBOX_DOCKER_RUNTIME=\"runsc\": the engine starts {path:?} under that name; register gVisor's runsc under it"
    )]
    NotGvisor {
        /// The registered program.
        path: String,
    },
    /// The engine's default is gVisor, which is not what an unset runtime means.
    #[error("SANDBOX_DOCKER_RUNTIME is unset and the engine's default runtime is runsc; set it to runsc, or to runc")]
    GvisorByDefault,
}

impl Runtime {
    /// The runtime of this name; blank is the engine's default.
    pub fn new(name: &str) -> Self {
        match name.trim() {
            "" => Self::EngineDefault,
            name => Self::Named(name.to_owned()),
        }
    }

    /// Its name, unless the engine chooses.
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::EngineDefault => None,
            Self::Named(name) => Some(name),
        }
    }

    /// Whether it is gVisor, by name.
    pub fn is_gvisor(&self) -> bool {
        self.name() == Some(GVISOR)
    }

    /// Checks that the engine registers it, and under gVisor's name gVisor's program: a label alone is no evidence.
    ///
    /// # Errors
    /// [`RuntimeError`].
    pub fn verify(&self, facts: &EngineFacts) -> Result<(), RuntimeError> {
        let Some(name) = self.name() else {
            return if facts.default_runtime == GVISOR {
                Err(RuntimeError::GvisorByDefault)
            } else {
                Ok(())
            };
        };
        let Some(registered) = facts.runtimes.get(name) else {
            let known: Vec<&str> = facts.runtimes.keys().map(String::as_str).collect();
            return Err(RuntimeError::NotRegistered {
                name: name.to_owned(),
                known: if known.is_empty() {
                    "none".to_owned()
                } else {
                    known.join(", ")
                },
            });
        };
        let base = Path::new(&registered.path).file_name();
        if self.is_gvisor() && base.is_none_or(|base| base != GVISOR) {
            return Err(RuntimeError::NotGvisor {
                path: registered.path.clone(),
            });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::RegisteredRuntime;

    fn facts(runtimes: &[(&str, &str)]) -> EngineFacts {
        let runtimes = runtimes.iter().map(|(name, path)| {
            let runtime = RegisteredRuntime {
                path: (*path).to_owned(),
                arguments: Vec::new(),
            };
            ((*name).to_owned(), runtime)
        });
        EngineFacts {
            runtimes: runtimes.collect(),
            ..EngineFacts::default()
        }
    }

    #[test]
    fn a_runtime_the_engine_lacks_is_refused_by_name_with_those_it_has() {
        let error = Runtime::new("runsc").verify(&facts(&[("runc", "runc")])).unwrap_err();
        assert!(matches!(error, RuntimeError::NotRegistered { .. }));
        assert!(error.to_string().contains("it has runc"), "{error}");
    }

    #[test]
    fn runsc_counts_only_when_its_program_is_runsc() {
        let runsc = Runtime::new(" runsc ");
        assert_eq!(runsc.verify(&facts(&[("runsc", "/usr/local/bin/runsc")])), Ok(()));
        for path in ["runc", "", "/usr/bin/runc", "/opt/runsc/run", "/opt/runsc.sh"] {
            let error = runsc.verify(&facts(&[("runsc", path)])).unwrap_err();
            assert!(matches!(error, RuntimeError::NotGvisor { .. }), "{path:?}");
        }
    }

    #[test]
    fn an_unset_runtime_is_not_silently_gvisor() {
        let mut facts = facts(&[]);
        assert_eq!(Runtime::new("").verify(&facts), Ok(()));
        facts.default_runtime = "runsc".to_owned();
        assert_eq!(Runtime::new("").verify(&facts), Err(RuntimeError::GvisorByDefault));
    }
}
