//! The rows of the table, one function each.

mod broker;
mod container_sessions;
mod containers;
mod deadline;
mod hostile;
mod in_process;
mod leftovers;
mod memory;
mod neighbour;
mod over_loopback;
mod sessions;
mod soak;
mod start;
mod whole_process;

pub use hostile::attack;

use crate::Row;
use crate::daemon::Program;

/// Options of a whole measurement.
#[derive(Clone, Debug)]
pub struct Options {
    /// The daemon; without it, the one built beside this program.
    pub daemon: Option<Program>,
    /// Runs of the memory row.
    pub memory_runs: u64,
    /// Runs of the leftovers row.
    pub container_runs: u64,
    /// How long the load test lasts.
    pub load: std::time::Duration,
    /// How long the soak lasts.
    pub soak: std::time::Duration,
    /// The `node` to compare with.
    pub node: std::path::PathBuf,
}

/// Every row by name, in the order of the table; the load test last.
pub const NAMES: [&str; 14] = [
    "in-process",
    "loopback",
    "throughput",
    "start",
    "memory",
    "process",
    "deadline",
    "broker",
    "neighbour",
    "session-cell",
    "session-open",
    "session-idle",
    "session-calls",
    "load",
];

/// Rows that take long, or root; measured when they are named.
pub const LONG_NAMES: [&str; 2] = ["hostile", "soak"];

/// Rows that need a container engine with gVisor, and the images; measured when they are named.
pub const CONTAINER_NAMES: [&str; 13] = [
    "pool-runc",
    "cold-runc",
    "pool-runsc",
    "project-runc",
    "burst",
    "quick",
    "leftovers",
    "session-open-runc",
    "session-open-runsc",
    "session-cell-runc",
    "session-cell-runsc",
    "session-cells-runc",
    "session-cells-runsc",
];

/// Measures one row.
///
/// # Errors
/// When it cannot be measured; a figure outside its bar is a [`Row`] that does not hold.
pub async fn measure(name: &str, options: &Options) -> anyhow::Result<Row> {
    let daemon = || options.daemon.clone().map_or_else(Program::plimsolld, Ok);
    match name {
        "in-process" => in_process::measure().await,
        "loopback" => over_loopback::latency(&daemon()?).await,
        "throughput" => over_loopback::throughput(&daemon()?).await,
        "start" => start::measure(&daemon()?).await,
        "memory" => memory::measure(&daemon()?, options.memory_runs).await,
        "process" => whole_process::measure(&options.node),
        "deadline" => deadline::measure(&daemon()?).await,
        "broker" => broker::measure().await,
        "neighbour" => neighbour::measure(&daemon()?).await,
        "session-cell" => sessions::cell(&daemon()?).await,
        "session-open" => sessions::open(&daemon()?).await,
        "session-idle" => sessions::idle(&daemon()?).await,
        "session-calls" => sessions::calls(&daemon()?).await,
        "load" => crate::load::measure(&daemon()?, options.load).await,
        "hostile" => hostile::measure(&daemon()?).await,
        "soak" => soak::measure(&daemon()?, options.soak).await,
        "pool-runc" => containers::against_docker_run(&daemon()?, containers::POOL_RUNC).await,
        "cold-runc" => containers::against_docker_run(&daemon()?, containers::COLD_RUNC).await,
        "pool-runsc" => containers::against_docker_run(&daemon()?, containers::POOL_RUNSC).await,
        "project-runc" => containers::project(&daemon()?).await,
        "burst" => containers::burst(&daemon()?).await,
        "quick" => containers::quick(&daemon()?).await,
        "leftovers" => leftovers::leftovers(&daemon()?, options.container_runs).await,
        "session-open-runc" => container_sessions::open(&daemon()?, container_sessions::OPEN_RUNC).await,
        "session-open-runsc" => container_sessions::open(&daemon()?, container_sessions::OPEN_RUNSC).await,
        "session-cell-runc" => container_sessions::cells(&daemon()?, container_sessions::CELL_RUNC).await,
        "session-cell-runsc" => container_sessions::cells(&daemon()?, container_sessions::CELL_RUNSC).await,
        "session-cells-runc" => container_sessions::cells(&daemon()?, container_sessions::CELLS_RUNC).await,
        "session-cells-runsc" => container_sessions::cells(&daemon()?, container_sessions::CELLS_RUNSC).await,
        other => anyhow::bail!(
            "there is no row {other}; the rows are {}, {} and {}",
            NAMES.join(", "),
            LONG_NAMES.join(", "),
            CONTAINER_NAMES.join(", ")
        ),
    }
}
