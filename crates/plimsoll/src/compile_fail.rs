//! What must not compile. Each pair differs in one line; the first compiles, so the second fails for that line
//! and no other reason.
//!
//! A floor that was forgotten, or taken back:
//!
//! ```
//! # use plimsoll::{Sandbox, Tier};
//! async fn stated(sandbox: Sandbox) {
//!     let _ = sandbox.run_javascript("1").floor(Tier::Vm).send().await;
//! }
//! ```
//!
//! ```compile_fail
//! # use plimsoll::{Sandbox, Tier};
//! async fn forgotten(sandbox: Sandbox) {
//!     let _ = sandbox.run_javascript("1").send().await;
//! }
//! ```
//!
//! ```compile_fail
//! # use plimsoll::{Sandbox, Tier};
//! async fn taken_back(sandbox: Sandbox) {
//!     let _ = sandbox.run_javascript("1").floor(Tier::Vm).any_tier().send().await;
//! }
//! ```
//!
//! The same for a project:
//!
//! ```
//! # use plimsoll::{Project, Sandbox, Tier};
//! async fn stated(sandbox: Sandbox) {
//!     let _ = sandbox.run_project(Project::new().step("true")).floor(Tier::Vm).send().await;
//! }
//! ```
//!
//! ```compile_fail
//! # use plimsoll::{Project, Sandbox, Tier};
//! async fn forgotten(sandbox: Sandbox) {
//!     let _ = sandbox.run_project(Project::new().step("true")).send().await;
//! }
//! ```
//!
//! "It may have run" turned into "nothing ran":
//!
//! ```
//! fn nothing_ran(refusal: plimsoll::Refusal) -> Result<(), plimsoll::Refusal> {
//!     Err(refusal)?
//! }
//! ```
//!
//! ```compile_fail
//! fn nothing_ran(fault: plimsoll::Fault) -> Result<(), plimsoll::Refusal> {
//!     Err(fault)?
//! }
//! ```
//!
//! A session without a floor, and a call in a session that was closed:
//!
//! ```
//! # use plimsoll::{Cell, Sandbox, Tier};
//! async fn in_order(sandbox: Sandbox) {
//!     let session = sandbox.open_session().floor(Tier::Vm).send().await.unwrap();
//!     let _ = session.run_cell(Cell::python("1")).send().await;
//!     let _ = session.close().await;
//! }
//! ```
//!
//! ```compile_fail
//! # use plimsoll::Sandbox;
//! async fn forgotten(sandbox: Sandbox) {
//!     let _ = sandbox.open_session().send().await;
//! }
//! ```
//!
//! ```compile_fail,E0382
//! # use plimsoll::{Cell, Session};
//! async fn too_late(session: Session) {
//!     let _ = session.close().await;
//!     let _ = session.run_cell(Cell::python("1")).send().await;
//! }
//! ```
//!
//! A cell with a grant, which it could not use:
//!
//! ```
//! # use plimsoll::Session;
//! async fn a_program_may(session: Session) {
//!     let _ = session.run_javascript("1").grant_profile("berths").send().await;
//! }
//! ```
//!
//! ```compile_fail,E0599
//! # use plimsoll::{Cell, Session};
//! async fn a_cell_may_not(session: Session) {
//!     let _ = session.run_cell(Cell::javascript("1")).grant_profile("berths").send().await;
//! }
//! ```
