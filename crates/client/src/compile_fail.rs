//! What must not compile: a call or a session whose floor was forgotten or taken back, and a call in a session that was
//! closed. Each pair differs in one line; the
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
//!
//! A session, opened:
//!
//! ```
//! # use plimsoll_client::{Client, Tier};
//! async fn stated(client: Client) {
//!     let _ = client.open_session().owner("alice").floor(Tier::Vm).send().await;
//! }
//! ```
//!
//! ```compile_fail
//! # use plimsoll_client::{Client, Tier};
//! async fn forgotten(client: Client) {
//!     let _ = client.open_session().owner("alice").send().await;
//! }
//! ```
//!
//! A run through a pool, whatever the pool requires, and a session it places:
//!
//! ```
//! # use plimsoll_client::{Tier, placement::{Pool, Requirement}};
//! async fn stated(pool: Pool) {
//!     let pool = pool.requiring(Requirement::new().floor(Tier::Vm));
//!     let _ = pool.run_javascript("1").any_tier().send().await;
//!     let _ = pool.open_session().any_tier().send().await;
//! }
//! ```
//!
//! ```compile_fail,E0599
//! # use plimsoll_client::{Tier, placement::{Pool, Requirement}};
//! async fn forgotten(pool: Pool) {
//!     let pool = pool.requiring(Requirement::new().floor(Tier::Vm));
//!     let _ = pool.run_javascript("1").send().await;
//! }
//! ```
//!
//! ```compile_fail,E0599
//! # use plimsoll_client::{Tier, placement::{Pool, Requirement}};
//! async fn forgotten(pool: Pool) {
//!     let pool = pool.requiring(Requirement::new().floor(Tier::Vm));
//!     let _ = pool.open_session().send().await;
//! }
//! ```
//!
//! A module through a pool takes no grant either:
//!
//! ```compile_fail,E0599
//! # use plimsoll_client::{ModuleRequest, Tier, placement::Pool};
//! async fn granted(pool: Pool, module: ModuleRequest) {
//!     let _ = pool.run_module(module).floor(Tier::Vm).grant_profile("profile").send().await;
//! }
//! ```
//!
//! A session that was closed runs nothing, and is not closed twice:
//!
//! ```
//! # use plimsoll_client::{CellRequest, Session};
//! async fn in_order(session: Session) {
//!     let _ = session.run_cell(CellRequest::python("1")).send().await;
//!     let _ = session.close().await;
//! }
//! ```
//!
//! ```compile_fail,E0382
//! # use plimsoll_client::{CellRequest, Session};
//! async fn too_late(session: Session) {
//!     let _ = session.close().await;
//!     let _ = session.run_cell(CellRequest::python("1")).send().await;
//! }
//! ```
//!
//! ```compile_fail,E0382
//! # use plimsoll_client::Session;
//! async fn twice(session: Session) {
//!     let _ = session.close().await;
//!     let _ = session.close().await;
//! }
//! ```
//!
//! A module has no place in a session:
//!
//! ```compile_fail,E0599
//! # use plimsoll_client::{ModuleRequest, Session};
//! async fn nowhere(session: Session, module: ModuleRequest) {
//!     let _ = session.run_module(module).send().await;
//! }
//! ```
