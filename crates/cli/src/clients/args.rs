//! What can be typed after `clients`. Nothing is required here: what is missing is told in an order of its own.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

/// What stands under the help of `clients` itself.
pub(crate) const EXAMPLES: &str = "\
The editor works on the file alone and asks no daemon. A token is printed once, or read from standard input; the file keeps its
SHA-256. Flags take one dash or two, and a value behind a space or =.

Exit status: 0 when it is done and for help, 1 otherwise; then the file is as it was, unless the message says that it was replaced.

Examples:
  plimsoll clients create -file clients.json -id ci -token-stdout > ci.token
  plimsoll clients import -file clients.json -id ci < ci.token
  plimsoll clients list -file clients.json
  plimsoll clients rotate -file clients.json -id ci -token-stdout > ci.token
  plimsoll clients revoke -file clients.json -id ci
  plimsoll clients verify -file clients.json";

const CREATE_EXAMPLES: &str = "\
Standard output gets the token and one line end, and nothing else ever does. It cannot be had again: whoever loses it is rotated.

Examples:
  plimsoll clients create -file clients.json -id ci -token-stdout > ci.token
  plimsoll clients create -file clients.json -id report -scope code:run -paid-seconds-per-day 3600 -token-stdout > report.token";

const IMPORT_EXAMPLES: &str = "\
The token has 32 to 4096 bytes, each a visible ASCII character; one line end behind it is dropped.

Examples:
  plimsoll clients import -file clients.json -id ci < ci.token
  openssl rand -hex 32 | tee ci.token | plimsoll clients import -file clients.json -id ci";

const LIMIT_EXAMPLES: &str = "\
Examples:
  plimsoll clients limit -file clients.json -id report -paid-seconds-per-day 3600
  plimsoll clients limit -file clients.json -id report -paid-seconds-per-day 0";

const LIST_EXAMPLES: &str = "\
Neither a token nor a fingerprint is shown.

Examples:
  plimsoll clients list -file clients.json
  plimsoll clients list -file clients.json -json";

const ROTATE_EXAMPLES: &str = "\
The old token is refused by every daemon that has read the new file; id, scopes and allowance stay.

Examples:
  plimsoll clients rotate -file clients.json -id ci -token-stdout > ci.token
  plimsoll clients rotate -file clients.json -id ci -token-stdin < ci.token";

const REVOKE_EXAMPLES: &str = "\
Examples:
  plimsoll clients revoke -file clients.json -id ci";

const VERIFY_EXAMPLES: &str = "\
Everything that keeps a daemon from using the file is told on standard output, a problem a line. Only the file is looked at.

Exit status: 0 when a daemon can use it, 1 when none can.

Examples:
  plimsoll clients verify -file clients.json";

/// Edits the caller registry, the file that PLIMSOLL_CLIENTS_FILE names.
#[derive(Debug, Parser)]
#[command(name = "plimsoll clients", after_help = EXAMPLES, disable_help_subcommand = true)]
pub(crate) struct Clients {
    #[command(subcommand)]
    pub(crate) command: ClientsCommand,
}

/// What `clients` can do.
#[derive(Debug, Subcommand)]
pub enum ClientsCommand {
    /// Add a caller with a new token, which is printed once.
    #[command(after_help = CREATE_EXAMPLES)]
    Create(CreateArgs),
    /// Add a caller with a token that you have, read from standard input.
    #[command(after_help = IMPORT_EXAMPLES)]
    Import(ImportArgs),
    /// Set how many paid seconds a caller has per day.
    #[command(after_help = LIMIT_EXAMPLES)]
    Limit(LimitArgs),
    /// Show the callers.
    #[command(after_help = LIST_EXAMPLES)]
    List(ListArgs),
    /// Give a caller another token.
    #[command(after_help = ROTATE_EXAMPLES)]
    Rotate(RotateArgs),
    /// Remove a caller.
    #[command(after_help = REVOKE_EXAMPLES)]
    Revoke(CallerArgs),
    /// Say whether a daemon can use the file, and what is wrong with it.
    #[command(after_help = VERIFY_EXAMPLES)]
    Verify(FileArgs),
}

/// What every command takes.
#[derive(Args, Debug)]
pub struct FileArgs {
    /// The clients file; always needed. A symbolic link is refused.
    #[arg(long, value_name = "PATH")]
    pub file: Option<PathBuf>,
    /// Anything that is no flag; there is no such argument.
    #[arg(hide = true)]
    pub others: Vec<OsString>,
}

/// What every command about one caller takes.
#[derive(Args, Debug)]
pub struct CallerArgs {
    /// The file.
    #[command(flatten)]
    pub file: FileArgs,
    /// The caller's id; always needed. White space around it is dropped.
    #[arg(long, value_name = "ID")]
    pub id: Option<String>,
}

/// What a new caller may do.
#[derive(Args, Debug)]
pub struct NewArgs {
    /// The caller.
    #[command(flatten)]
    pub caller: CallerArgs,
    /// What it may do; may be given again. Without it, code:run.
    #[arg(long = "scope", value_name = "SCOPE")]
    pub scopes: Vec<String>,
    /// Seconds of paid time per day, on a provider that is paid by the second; without it or with 0 the caller has none of its
    /// own.
    #[arg(long, value_name = "SECONDS", allow_hyphen_values = true)]
    pub paid_seconds_per_day: Option<i64>,
}

/// Options of `create`.
#[derive(Args, Debug)]
pub struct CreateArgs {
    /// Who is added.
    #[command(flatten)]
    pub new: NewArgs,
    /// Print the token on standard output; needed, because nothing else ever shows it.
    #[arg(long)]
    pub token_stdout: bool,
}

/// Options of `import`.
#[derive(Args, Debug)]
pub struct ImportArgs {
    /// Who is added.
    #[command(flatten)]
    pub new: NewArgs,
}

/// Options of `limit`.
#[derive(Args, Debug)]
pub struct LimitArgs {
    /// Whose allowance is set.
    #[command(flatten)]
    pub caller: CallerArgs,
    /// The allowance; needed. 0 takes it away.
    #[arg(long, value_name = "SECONDS", allow_hyphen_values = true)]
    pub paid_seconds_per_day: Option<i64>,
}

/// Options of `list`.
#[derive(Args, Debug)]
pub struct ListArgs {
    /// The file.
    #[command(flatten)]
    pub file: FileArgs,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// Options of `rotate`.
#[derive(Args, Debug)]
pub struct RotateArgs {
    /// Whose token is replaced.
    #[command(flatten)]
    pub caller: CallerArgs,
    /// Make a new token and print it on standard output.
    #[arg(long)]
    pub token_stdout: bool,
    /// Read the new token from standard input.
    #[arg(long)]
    pub token_stdin: bool,
}
