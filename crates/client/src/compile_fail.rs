//! What must not compile: a call whose floor was forgotten or taken back. Each pair differs in one line; the
//! first compiles, so the second fails for that line and no other reason.
//!
//! A snippet:
//!
//! ```
//! # use plimsoll_client::{Client, Tier};
//! async fn stated(client: Client) {
//!     let _ = client.run_javascript("1").floor(Tier::Vm).send().await;
//! }
//! ```
//!
//! ```compile_fail
//! # use plimsoll_client::{Client, Tier};
//! async fn forgotten(client: Client) {
//!     let _ = client.run_javascript("1").send().await;
//! }
//! ```
//!
//! A floor is not lowered again:
//!
//! ```compile_fail
//! # use plimsoll_client::{Client, Tier};
//! async fn taken_back(client: Client) {
//!     let _ = client.run_javascript("1").floor(Tier::Vm).any_tier().send().await;
//! }
//! ```
//!
//! A project:
//!
//! ```
//! # use plimsoll_client::{Client, ProjectRequest};
//! async fn stated(client: Client) {
//!     let _ = client.run_project(ProjectRequest::new().step("true")).any_tier().send().await;
//! }
//! ```
//!
//! ```compile_fail
//! # use plimsoll_client::{Client, ProjectRequest};
//! async fn forgotten(client: Client) {
//!     let _ = client.run_project(ProjectRequest::new().step("true")).send().await;
//! }
//! ```
//!
//! A module:
//!
//! ```
//! # use plimsoll_client::{Client, ModuleRequest};
//! async fn stated(client: Client, module: ModuleRequest) {
//!     let _ = client.run_module(module).any_tier().send().await;
//! }
//! ```
//!
//! ```compile_fail
//! # use plimsoll_client::{Client, ModuleRequest};
//! async fn forgotten(client: Client, module: ModuleRequest) {
//!     let _ = client.run_module(module).send().await;
//! }
//! ```
