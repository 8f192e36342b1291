//! The daemon as a whole, started as its operators start it.

mod check;
#[path = "../daemon/mod.rs"]
mod daemon;
mod field_cases;
mod field_cases_grants;
mod grants;
mod reload;
mod serve;
mod sessions;
mod variables_page;
