//! The docker provider: one container per run, under runc (tier container) or gVisor's runsc (tier kernel).
//!
//! The engine is spoken to over its Unix socket ([`engine`]); the docker command is never started and no setting of the
//! operator's docker client but the endpoint is read ([`endpoint`]). What a container may do is written down once
//! ([`container`]) and read back from the engine before anything starts in it.

mod answer;
mod channel;
pub mod container;
pub mod cores;
pub mod endpoint;
pub mod engine;
mod guard;
pub mod guest_uid;
pub mod image_ref;
mod later;
mod launch;
mod limits_hit;
mod oom;
pub mod orphans;
pub mod platform;
mod pool;
pub mod preflight;
mod process;
pub mod provider;
mod run;
pub mod runtime;
pub mod seccomp;
mod session;
pub mod settings;
mod smoke;
pub mod snapshot;
pub mod state;
pub mod storage;
pub mod survey;
mod sys;
mod talk;
mod teardown;

#[cfg(test)]
mod fake;
