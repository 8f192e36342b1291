//! Placement: one call, several daemons, and at most one run.
//!
//! ```text
//! call ─► floor and rule: the stronger of both ─► backends in order: described? able? ─► send ─► answer
//!                                                        ▲                                │
//!                                                        └── nothing ran, another may ◄───┘
//! ```
//!
//! A [`Pool`] is made of clients that the caller has configured, so every daemon sees the caller's own credential for it and no
//! other. It is a library and not a service: there is no process of ours between a caller and a daemon.
//!
//! ```no_run
//! use std::time::Duration;
//! use plimsoll_client::placement::{Pool, Requirement};
//! use plimsoll_client::{Client, Tier};
//!
//! # async fn example(token: String) -> Result<(), plimsoll_client::Error> {
//! let near = Client::builder("https://near.example").token(token.clone()).build()?;
//! let far = Client::builder("https://far.example").token(token).build()?;
//! let pool = Pool::new([("near", near), ("far", far)], Duration::ZERO)?;
//!
//! let placed = pool.run_javascript("console.log(6 * 7)").floor(Tier::Kernel).send().await?;
//! println!("{} ran it: {}", placed.choice.backend, placed.value.stdout_text());
//!
//! // The same pool, for calls that ask for more.
//! let python = pool.requiring(Requirement::new().provider("docker"));
//! let session = python.open_session().floor(Tier::Kernel).send().await?.value;
//! # drop(session);
//! # Ok(())
//! # }
//! ```
//!
//! # When a call is sent to the next backend
//!
//! | An error marked | Next backend |
//! |---|---|
//! | `unsupported`, `isolation`, `environment`, `capacity` | yes, while one is left and the caller has not cancelled |
//! | `request`, `permission`, `protocol`, `unknown` | no: another daemon would say the same, or must not be asked |
//! | not at all, whatever its code | no: it may have run |
//!
//! A mark is believed only of an answer that names this very request, so nothing that repeats an old answer can make a call run
//! twice. A daemon that cannot be reached counts as `environment`: nothing was sent.
//!
//! # What is not here
//!
//! No shared quota, no price table, and nobody who compares the grant profiles of two daemons: the same name may mean another API
//! there. A caller that is refused for `capacity` goes on to the next daemon, so it may spend its paid allowance once per daemon.

mod describe;
mod fit;
mod place;
mod requirement;

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;

use self::describe::Backend;
pub(crate) use self::place::in_environment;
pub use self::place::{Choice, Placed, Refused};
pub use self::requirement::Requirement;
use crate::call::{FloorMissing, ModuleRequest, ProjectRequest, RunCall, javascript};
use crate::client::Client;
use crate::error::{Error, ErrorKind};
use crate::results::{JavaScriptResult, ModuleResult, ProjectResult};
use crate::session::OpenSession;

/// How long a description is used when the pool is told nothing else.
const LIFETIME: Duration = Duration::from_secs(60);

/// Daemons a call can go to, in the order in which they are tried. Cheap to clone; clones share what is known of the daemons.
#[derive(Clone)]
pub struct Pool {
    shared: Arc<Shared>,
    requirement: Arc<Requirement>,
}

struct Shared {
    backends: Vec<Backend>,
    lifetime: Duration,
}

impl Pool {
    /// A pool of named clients; nothing is asked yet. A description is used for `lifetime`; zero means 60 s.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidOption`]: no backend, a blank name, or a name that is there twice.
    pub fn new<N: Into<String>>(
        backends: impl IntoIterator<Item = (N, Client)>,
        lifetime: Duration,
    ) -> Result<Self, Error> {
        let backends: Vec<Backend> = backends
            .into_iter()
            .map(|(name, client)| Backend::new(name.into(), client))
            .collect();
        let invalid = |message: String| Err(Error::local(ErrorKind::InvalidOption, message));
        if backends.is_empty() {
            return invalid("a pool has no backend; give it at least 1".to_owned());
        }
        let mut names = HashSet::new();
        for (index, backend) in backends.iter().enumerate() {
            if backend.name().trim().is_empty() {
                return invalid(format!("backend {index} of a pool has a blank name; name it"));
            }
            if !names.insert(backend.name()) {
                let name = backend.name();
                return invalid(format!(
                    "two backends of a pool are named {name:?}; name each differently"
                ));
            }
        }
        drop(names);
        let lifetime = if lifetime.is_zero() { LIFETIME } else { lifetime };
        Ok(Self {
            shared: Arc::new(Shared { backends, lifetime }),
            requirement: Arc::default(),
        })
    }

    /// The same daemons for calls that ask for more. A requirement replaces the one this pool had.
    #[must_use]
    pub fn requiring(&self, requirement: Requirement) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
            requirement: Arc::new(requirement),
        }
    }

    /// The backends' names, in the pool's order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.shared.backends.iter().map(Backend::name)
    }

    /// Describes every backend now, all at once, and keeps every answer.
    ///
    /// # Errors
    /// The first failure in the pool's order. The answers of the others are kept all the same, and the backend that failed is
    /// asked again when a call needs it.
    pub async fn refresh(&self) -> Result<(), Error> {
        let mut asking = JoinSet::new();
        for index in 0..self.shared.backends.len() {
            let shared = Arc::clone(&self.shared);
            asking.spawn(async move { (index, shared.backends[index].ask().await) });
        }
        let mut first: Option<(usize, Error)> = None;
        while let Some(asked) = asking.join_next().await {
            let (index, failure) = match asked {
                Ok((_, Ok(_))) => continue,
                Ok((index, Err(failure))) => (index, failure),
                Err(failure) => {
                    let error = Error::new(ErrorKind::Transport, "asking a backend came to no end");
                    (usize::MAX, error.with_source(failure))
                }
            };
            if first.as_ref().is_none_or(|(earliest, _)| index < *earliest) {
                first = Some((index, failure));
            }
        }
        first.map_or(Ok(()), |(_, failure)| Err(failure))
    }

    /// As [`Client::run_javascript`], on the first backend that can take it.
    pub fn run_javascript(&self, code: impl Into<String>) -> RunCall<'_, JavaScriptResult, FloorMissing, Self> {
        RunCall::new(self, javascript(code.into()))
    }

    /// As [`Client::run_project`], on the first backend that can take it.
    pub fn run_project(&self, project: ProjectRequest) -> RunCall<'_, ProjectResult, FloorMissing, Self> {
        RunCall::new(self, project.into_payload())
    }

    /// As [`Client::run_module`], on the first backend that can take it.
    pub fn run_module(&self, module: ModuleRequest) -> RunCall<'_, ModuleResult, FloorMissing, Self> {
        RunCall::new(self, module.into_payload())
    }

    /// As [`Client::open_session`], on the first backend that can take it. The session stays there: its calls go to that daemon
    /// and to no other.
    pub fn open_session(&self) -> OpenSession<'_, FloorMissing, Self> {
        OpenSession::new(self)
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool")
            .field("backends", &self.names().collect::<Vec<_>>())
            .field("requirement", &self.requirement)
            .finish_non_exhaustive()
    }
}
