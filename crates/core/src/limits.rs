//! Every bound of a request and a result, with its number and where the number comes from.

use std::time::Duration;

/// The one protocol number this build speaks.
pub const PROTOCOL: u32 = 4;

/// The record version of every live answer.
pub const RECORD_VERSION: u32 = 4;

/// Longest run a caller can ask for. Longer requests are clamped, not refused.
pub const MAX_TIMEOUT: Duration = Duration::from_millis(MAX_TIMEOUT_MS as u64);

/// [`MAX_TIMEOUT`] in milliseconds, as it travels.
pub const MAX_TIMEOUT_MS: i32 = 300_000;

/// Program text of a snippet or a cell, in bytes of UTF-8.
pub const MAX_CODE_BYTES: usize = 256 * 1024;

/// Steps of one project.
pub const MAX_STEPS: usize = 20;

/// One step's command text, in bytes.
pub const MAX_STEP_BYTES: usize = 16 * 1024;

/// Files of one project or cell.
pub const MAX_FILES: usize = 200;

/// Contents of all files of one request together, in bytes.
pub const MAX_FILE_BYTES: usize = 4 * 1024 * 1024;

/// Artifacts one project can ask for.
pub const MAX_ARTIFACTS: usize = 100;

/// One path, in bytes.
pub const MAX_PATH_BYTES: usize = 1024;

/// A module's model name, in characters.
pub const MAX_MODEL_CHARS: usize = 64;

/// Rows of one module run.
pub const MAX_MODULE_ROWS: usize = 100_000;

/// Values of one module row.
pub const MAX_MODULE_WIDTH: usize = 64;

/// `end_time / step` of a module run.
pub const MAX_MODULE_STEPS: f64 = 1_000_000.0;

/// Encoded size of a module result, in bytes; equal to the answer a client will read comfortably in one piece.
pub const MAX_MODULE_RESULT_BYTES: u64 = 8 * 1024 * 1024;

/// Identities of one `approved` software rule.
pub const MAX_IDENTITIES: usize = 32;

/// One software identity, in bytes.
pub const MAX_IDENTITY_BYTES: usize = 256;

/// A trace id or an owner, in characters.
pub const MAX_LABEL_CHARS: usize = 64;

/// A grant profile's name, in bytes.
pub const MAX_GRANT_PROFILE_BYTES: usize = 128;

/// A request body on the wire, and a request message after decompression, in bytes.
pub const MAX_REQUEST_BYTES: usize = 8 * 1024 * 1024;

/// An answer a client accepts, in bytes.
pub const MAX_RESPONSE_BYTES: usize = 32 * 1024 * 1024;

/// How long a client waits for a whole exchange by default; above the longest run plus its cleanup.
pub const CLIENT_TIMEOUT: Duration = Duration::from_secs(360);

/// Deadline put on every dispatched call whatever the provider does.
pub const DISPATCH_DEADLINE: Duration = Duration::from_secs(300);

/// Output of one snippet or cell stream a provider keeps by default, in bytes.
pub const DEFAULT_OUTPUT_BYTES: usize = 64 * 1024;

/// Exit code of a run its deadline ended.
pub const EXIT_TIMED_OUT: i32 = 124;
