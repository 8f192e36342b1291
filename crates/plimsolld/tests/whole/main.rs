//! The daemon as a whole, started as its operators start it.

mod check;
mod clock;
#[path = "../daemon/mod.rs"]
mod daemon;
mod fail_closed;
mod faults;
mod field_cases;
mod field_cases_grants;
mod grants;
mod hardened;
mod low_privilege;
mod reload;
mod serve;
mod sessions;
mod tls;
mod variables_page;
