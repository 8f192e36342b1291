//! The daemon's service: edge, authentication, limiter, corridor driver, session keeper, metrics, audit.

pub mod audit;
pub mod auth;
pub mod corridor;
pub mod edge;
pub mod grants;
pub mod handler;
pub mod limiter;
pub mod log;
pub mod metrics;
pub mod planned;
mod random;
pub mod readiness;
mod rpc;
pub mod sessions;
pub mod settings;
pub mod tls;
