//! The numbers both ends hold to. Sizes are bytes and binary (KiB = 1024).

/// The one version of the protocol that both ends speak. Each end refuses any other.
pub const PROTOCOL_VERSION: u32 = 2;

/// Longest body of a frame, in either direction.
pub const MAX_BODY: usize = 16 << 20;

/// Longest header of a frame, its newline included.
pub const MAX_HEADER: usize = 96;

/// Most bytes that belong to no frame which a host skips while it waits for the end of one call.
pub const MAX_NOISE: usize = 16 << 20;

/// Output kept of each stream of a snippet, unless the host asks for less.
pub const SNIPPET_STREAM_CAP: u64 = 64 << 10;

/// Output kept of each stream of a cell.
pub const CELL_STREAM_CAP: usize = 64 << 10;

/// Output kept of each stream of one project step. A step that writes more is killed.
pub const STEP_STREAM_CAP: usize = 1 << 20;

/// Output kept across all steps of a project, both streams together.
pub const PROJECT_OUTPUT_CAP: usize = 3 << 20;

/// Content of all artifacts of a project together.
pub const ARTIFACTS_CAP: usize = 8 << 20;

/// Longest encoded report of a project. Above it artifacts are dropped, the last one first.
pub const REPORT_CAP: usize = 15 << 20;

/// Longest command that a report repeats.
pub const REPORTED_COMMAND_CAP: usize = 16 << 10;

/// Longest text of a fault or of a report's error.
pub const ERROR_TEXT_CAP: usize = 4 << 10;

/// Time between two heartbeats while a call runs, in milliseconds.
pub const HEARTBEAT_MS: u64 = 1_000;

/// Where the guest binary stands in every image.
pub const GUEST_BINARY: &str = "/usr/local/bin/plimsoll-guest";

/// The working directory of project steps and of sessions.
pub const WORK_DIR: &str = "/work";

/// Where the broker's socket is mounted.
pub const HOST_API_SOCKET: &str = "/run/host-api.sock";
