//! What can be typed: the commands, their options and their help.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Args, CommandFactory as _, Parser, Subcommand};
use plimsoll_core::Tier;

use crate::words::visible;

const EXAMPLES: &str = "\
Examples:
  plimsoll run payroll.js                     run a file in a fresh sandbox
  plimsoll run . --step 'node main.js'        run a folder as a project (for shell steps --provider docker)
  echo 'console.log(6 * 7)' | plimsoll run -  run what arrives on standard input
  plimsoll run --floor vm payroll.js          refuse anything weaker than a virtual machine
  plimsoll session                            keep one sandbox and type cells at a prompt
  plimsoll doctor                             what this host can prove, and what is missing
  plimsoll serve --help                       how to serve others";

const RUN_EXAMPLES: &str = "\
Exit status:
  the program's own  it ran; 124 means its timeout ended it, 134 that the engine trapped
  1                  it ran and succeeded, and its output or an artifact could not be written here; a line says so
  125                nothing ran
  123                it may have run, and there is no checked answer
  2                  the command line is wrong; nothing ran
A program may end with 125, 123 or 2 by itself: the line on standard error says whether it ran.
A project ends with 0 when every step succeeded, otherwise with the exit code of the step that failed; with 124 when its timeout
ended it, 125 when its files could not be written, and 123 when the sandbox gave no report of its own.

Projects:
  Every file of the folder is sent, hidden ones too; .git and the folder of --out are left out, and a line says so. Files are
  UTF-8 text: at most 200, and 4194304 bytes together. A link is followed to a file of the folder; one that leads out is refused.
  Steps run in order with sh -c in a copy of the folder; the first that fails is the last. Nothing of the folder is changed.
  wasm has no shell: there a step is node FILE [arguments].
  Artifacts are written below --out, which is made; a file that is there already is refused before the run without --force.

Examples:
  plimsoll run payroll.js
  plimsoll run --timeout 500ms --floor process payroll.js
  plimsoll run --json payroll.js > answer.json
  plimsoll run --provider docker . --step 'tsc' --step 'node dist/main.js > report.txt' --artifact report.txt --out results
  PLIMSOLL_TOKEN=… plimsoll run --daemon https://sandbox.example payroll.js
  plimsoll run --grants grants.json --grant berths --caller me calls-an-api.js

The token of a daemon is read from PLIMSOLL_TOKEN and is never an argument, because every user of this host can read
the arguments of a process.";

const SESSION_EXAMPLES: &str = "\
One sandbox is kept until the end of input. Variables and files of a cell are there for the next one; programs that a cell leaves
running are gone by then. Threads and timers of an interpreter stand still on docker until its next cell; on wasm, where there are
no threads, timers are dropped with the cell. The value of a cell's last expression is printed.

At a terminal:
  Enter runs a whole cell and goes on in a new line where a bracket, a text or a block is open; Alt-Enter always begins a new line,
  and two empty lines end a cell. Ctrl-C gives up what is typed, or the cell that runs: in this process the session goes on without
  the variables, on a daemon a second Ctrl-C ends it, because the cell's answer is lost. The next cell after a session that is over
  begins another. Ctrl-D ends the command; so do SIGTERM and SIGHUP, which close the session too. Cells are remembered in
  $XDG_STATE_HOME/plimsoll/session-history, or in ~/.local/state; one that begins with a space is not.

Otherwise:
  Each line of standard input is a cell. If there is a line ---, it splits blocks instead, and each block is a cell. The whole input
  is read first, unless its first line is ---: then each block runs as soon as the --- after it has come.

Exit status:
  0                  the end of input, and every cell has a checked answer, also where it failed
  a cell's own       with --fail-fast, the first cell that failed: 1 it raised an error, 124 its timeout ended it
  125                nothing ran: no session could be opened, or no cell was taken
  123                something ran or may have, and then a cell was refused or has no checked answer, cells are left, a signal
                     ended the command, a session could not be closed, or the daemon's count of calls is not the one seen here
  1                  every cell has a checked answer, and its output could not be written here; that a reader has gone, as
                     head does, is no failure
  2                  the command line is wrong
  At a terminal a cell that was refused or has no answer is told, and changes nothing here without --fail-fast; that no other
  session can be opened for it neither. One that could not be closed counts all the same.

Examples:
  plimsoll session
  printf 'let n = 41\\nn + 1\\n' | plimsoll session
  SANDBOX_DOCKER_PROJECT_IMAGE=plimsoll/sandbox-python plimsoll session --provider docker --fail-fast < analysis.txt
  plimsoll session --provider docker --floor container --language javascript
  PLIMSOLL_TOKEN=… plimsoll session --daemon https://sandbox.example --language python";

const DESCRIBE_EXAMPLES: &str = "\
Exit status: 0 with a description, 1 without one, 2 when the command line is wrong.

Examples:
  plimsoll describe
  plimsoll describe --json
  PLIMSOLL_TOKEN=… plimsoll describe --daemon https://sandbox.example";

const SERVE_EXAMPLES: &str = "\
The daemon takes its configuration from the environment only; `plimsoll serve --variables` lists every variable.

Examples:
  SANDBOX_PROVIDER=wasm PLIMSOLL_CLIENTS_FILE=clients.json plimsoll serve
  SANDBOX_PROVIDER=wasm PLIMSOLL_INSECURE=1 PLIMSOLL_ADDR=127.0.0.1:8746 plimsoll serve   no authentication: this host only";

const CHECK_EXAMPLES: &str = "\
Exit status: 0 when the daemon would start with this environment, 1 when it would not.

Examples:
  SANDBOX_PROVIDER=wasm PLIMSOLL_CLIENTS_FILE=clients.json plimsoll check";

const DOCTOR_EXAMPLES: &str = "\
Exit status: 0 when at least one tier is proven, 1 when none is.

Examples:
  plimsoll doctor
  plimsoll doctor --json";

const BENCH_EXAMPLES: &str = "\
Each tier this host can prove is measured with `console.log(6*7)` in a fresh sandbox per run: first one run at a time
for the latencies, then one task per processor for the runs per second.

Examples:
  plimsoll bench
  plimsoll bench --json";

const GVISOR_EXAMPLES: &str = "\
Exit status: 0 when it is installed and registered, 1 when it is not, 2 when the command line is wrong.

Installing takes root. The engine is told to read its configuration again, which stops no container; it is restarted only
where that does not show the runtime and systemd started it.

Examples:
  plimsoll gvisor install
  plimsoll gvisor install --from-module
  plimsoll gvisor install --archive gvisor-x86_64.tar.zstd
  plimsoll gvisor install --verify-only";

const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  plimsoll completions bash > /etc/bash_completion.d/plimsoll
  plimsoll completions zsh > ~/.zfunc/_plimsoll
  plimsoll completions fish > ~/.config/fish/completions/plimsoll.fish";

const MAN_EXAMPLES: &str = "\
Examples:
  plimsoll man > /usr/share/man/man1/plimsoll.1
  plimsoll man run > /usr/share/man/man1/plimsoll-run.1";

/// Runs other people's code behind a stated wall, and gives a record of what happened.
#[derive(Debug, Parser)]
#[command(name = "plimsoll", version, after_help = EXAMPLES, arg_required_else_help = true)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run one JavaScript program, or a folder with shell steps, in a fresh sandbox.
    #[command(after_help = RUN_EXAMPLES)]
    Run(RunArgs),
    /// Keep one sandbox for many cells, typed at a prompt or read from standard input.
    #[command(after_help = SESSION_EXAMPLES)]
    Session(SessionArgs),
    /// Show what a provider states about itself: its tier, what it runs, its limits.
    #[command(after_help = DESCRIBE_EXAMPLES)]
    Describe(DescribeArgs),
    /// Run the daemon, plimsolld.
    #[command(after_help = SERVE_EXAMPLES)]
    Serve(ServeArgs),
    /// Check the daemon's configuration without starting it.
    #[command(after_help = CHECK_EXAMPLES)]
    Check,
    /// Show what this host can prove, tier by tier, and what is missing.
    #[command(after_help = DOCTOR_EXAMPLES)]
    Doctor(FormatArgs),
    /// Measure this host: latency and throughput of each tier it can prove.
    #[command(after_help = BENCH_EXAMPLES)]
    Bench(FormatArgs),
    /// Edit the caller registry: who may call a daemon. `plimsoll clients COMMAND -h` has the flags.
    #[command(after_help = crate::clients::args::EXAMPLES)]
    Clients {
        /// What to do.
        #[command(subcommand)]
        command: crate::clients::args::ClientsCommand,
    },
    /// Make an allow list, a client and a tool description from an OpenAPI document; `plimsoll specgen -help` has the flags.
    #[command(disable_help_flag = true)]
    Specgen {
        /// Its own flags and the document.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGS")]
        args: Vec<OsString>,
    },
    /// Make a page from an audit log: what granted runs called and could have called; `plimsoll report -help` has the flags.
    #[command(disable_help_flag = true)]
    Report {
        /// Its own flags and the log.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGS")]
        args: Vec<OsString>,
    },
    /// Install gVisor, with which the docker provider proves the kernel tier.
    Gvisor {
        /// What to do.
        #[command(subcommand)]
        command: GvisorCommand,
    },
    /// Build the images that the docker provider runs code in, without a registry.
    Images {
        /// What to do.
        #[command(subcommand)]
        command: crate::images::ImagesCommand,
    },
    /// Print the licences of the works inside the embedded engine.
    Notices,
    /// Print a completion script for a shell.
    #[command(after_help = COMPLETIONS_EXAMPLES)]
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Print a manual page.
    #[command(after_help = MAN_EXAMPLES)]
    Man {
        /// The command to print the page of; without one, that of plimsoll itself.
        command: Option<String>,
    },
}

/// Options of `run`.
#[derive(Args, Debug)]
pub struct RunArgs {
    /// The program: a file, or - for standard input. With --step, the folder of a project.
    #[arg(value_name = "FILE|DIR")]
    pub file: PathBuf,
    /// What makes a folder a project.
    #[command(flatten)]
    pub project: ProjectArgs,
    /// Where it runs.
    #[command(flatten)]
    pub target: TargetArgs,
    /// Refuse to run behind anything weaker [process, container, kernel, vm].
    #[arg(long, value_name = "TIER", value_parser = parse_tier)]
    pub floor: Option<Tier>,
    /// End the program after this long, e.g. 500ms, 30s, 1m30s; without it, or with 0, the provider's default holds, and
    /// above the provider's maximum (`plimsoll describe` shows it) the maximum.
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = parse_timeout)]
    pub timeout: Option<Timeout>,
    /// What it may call.
    #[command(flatten)]
    pub grant: GrantArgs,
    /// Print the whole answer as JSON instead of the program's output: a RunResponse, or a Connect error object.
    #[arg(long)]
    pub json: bool,
    /// Leave out the line about the run on standard error.
    #[arg(long, short)]
    pub quiet: bool,
}

/// Options of `session`.
#[derive(Args, Debug)]
pub struct SessionArgs {
    /// Where it is kept.
    #[command(flatten)]
    pub target: TargetArgs,
    /// Refuse to run behind anything weaker [process, container, kernel, vm].
    #[arg(long, value_name = "TIER", value_parser = parse_tier)]
    pub floor: Option<Tier>,
    /// The language of the cells; without it javascript on provider wasm and python elsewhere.
    #[arg(long, value_name = "NAME")]
    pub language: Option<Language>,
    /// End a cell after this long, e.g. 500ms, 30s, 1m30s, and its interpreter with it; without it, or with 0, the provider's
    /// default holds, and above the provider's maximum (`plimsoll describe` shows it) the maximum.
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = parse_timeout)]
    pub timeout: Option<Timeout>,
    /// Stop at the first cell that fails, with its exit code.
    #[arg(long)]
    pub fail_fast: bool,
    /// Leave out the lines about the session and its cells on standard error.
    #[arg(long, short)]
    pub quiet: bool,
}

/// A language of cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Language {
    /// JavaScript.
    #[value(name = "javascript")]
    JavaScript,
    /// Python.
    #[value(name = "python")]
    Python,
}

impl Language {
    /// The word on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::JavaScript => "javascript",
            Self::Python => "python",
        }
    }

    /// What is meant on this provider where nobody says.
    pub(crate) fn default_of(provider: &str) -> Self {
        if provider == "wasm" {
            Self::JavaScript
        } else {
            Self::Python
        }
    }
}

/// What is done with a folder.
#[derive(Args, Debug, Default)]
pub struct ProjectArgs {
    /// Run this shell command in the folder, after the steps before it; up to 20 of them.
    #[arg(id = "steps", long = "step", value_name = "COMMAND", allow_hyphen_values = true)]
    pub steps: Vec<String>,
    /// Bring this file back after the steps, failed ones included; up to 100, 8388608 bytes together.
    #[arg(id = "artifacts", long = "artifact", value_name = "PATH", requires = "steps")]
    pub artifacts: Vec<String>,
    /// The folder to write artifacts below; --json needs none.
    #[arg(long, value_name = "DIR", requires = "artifacts")]
    pub out: Option<PathBuf>,
    /// Replace files that exist below --out.
    #[arg(long, requires = "out")]
    pub force: bool,
}

/// Which sandbox is meant: one in this process, or a daemon's.
#[derive(Args, Debug)]
pub struct TargetArgs {
    /// The provider to use in this process; without it SANDBOX_PROVIDER decides, and without that wasm.
    #[arg(long, value_name = "NAME", conflicts_with = "daemon", value_parser = providers())]
    pub provider: Option<String>,
    /// Use a daemon instead of this process; its token comes from PLIMSOLL_TOKEN.
    #[arg(long, value_name = "URL")]
    pub daemon: Option<String>,
    /// Allow http:// to a daemon that is not on this host: anyone on the way can then read the token.
    #[arg(long, requires = "daemon")]
    pub insecure_http: bool,
    /// Believe an https:// daemon by the certificate authorities in this PEM file, and by no other.
    #[arg(long, value_name = "FILE", requires = "daemon", conflicts_with = "insecure_http")]
    pub ca: Option<PathBuf>,
}

/// What a program may call without holding the credential.
#[derive(Args, Debug)]
pub struct GrantArgs {
    /// Let the program call the routes of this grant profile: one of the daemon's, or one of --grants.
    #[arg(long = "grant", value_name = "NAME")]
    pub profile: Option<String>,
    /// The file of grant profiles, for a run in this process; its secrets come from the variables it names.
    #[arg(id = "grants", long = "grants", value_name = "FILE", conflicts_with = "daemon", requires_all = ["profile", "caller"])]
    pub file: Option<PathBuf>,
    /// Who runs it: one of the profile's allowed_callers, and the subject of a minted token.
    #[arg(long, value_name = "ID", requires = "grants", conflicts_with = "daemon")]
    pub caller: Option<String>,
}

/// Options of `describe`.
#[derive(Args, Debug)]
pub struct DescribeArgs {
    /// What is described.
    #[command(flatten)]
    pub target: TargetArgs,
    /// Print the whole answer as JSON: a DescribeResponse, or a Connect error object.
    #[arg(long)]
    pub json: bool,
}

/// Options of `serve`.
#[derive(Args, Debug)]
pub struct ServeArgs {
    /// List every variable the daemon reads, and stop.
    #[arg(long)]
    pub variables: bool,
}

/// What `gvisor` can do.
#[derive(Debug, Subcommand)]
pub enum GvisorCommand {
    /// Install the pinned runsc and register it with the container engine as the runtime `runsc`.
    #[command(after_help = GVISOR_EXAMPLES)]
    Install(GvisorInstallArgs),
}

/// Options of `gvisor install`.
#[derive(Args, Debug)]
pub struct GvisorInstallArgs {
    /// Build the pinned Go module here instead of downloading the release: for hosts that reach Go's module proxy and not
    /// the releases. Takes Go, a minute or two, and 1 GB of disk until it is built.
    #[arg(long, conflicts_with = "archive")]
    pub from_module: bool,
    /// Take the release archive from this file; it must be the pinned one.
    #[arg(long, value_name = "FILE")]
    pub archive: Option<PathBuf>,
    /// Check that the pinned runsc can be had, and stop: nothing is installed. Takes no root.
    #[arg(long)]
    pub verify_only: bool,
    /// The folder to install into, with what runsc needs beside it.
    #[arg(long, value_name = "FOLDER", default_value = "/usr/local/bin")]
    pub into: PathBuf,
    /// The engine's configuration file; without it the one that the running engine was started with, and without an engine
    /// /etc/docker/daemon.json.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The engine's socket.
    #[arg(long, value_name = "SOCKET", default_value = "/var/run/docker.sock")]
    pub engine: PathBuf,
}

/// Text or JSON.
#[derive(Args, Debug)]
pub struct FormatArgs {
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// A timeout as it travels: whole milliseconds, 0 for the provider's default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeout {
    /// Milliseconds.
    pub ms: i32,
}

/// The providers built into this program, and no other name.
fn providers() -> clap::builder::PossibleValuesParser {
    plimsoll::registry::PROVIDERS
        .iter()
        .map(|entry| entry.name)
        .collect::<Vec<_>>()
        .into()
}

fn parse_tier(text: &str) -> Result<Tier, String> {
    text.parse()
        .map_err(|unknown: plimsoll_core::UnknownTier| unknown.to_string())
}

/// The duration syntax of every variable. What is above the largest number that travels is lowered to it: the provider's
/// ceiling is far below.
fn parse_timeout(text: &str) -> Result<Timeout, String> {
    const NANOS_PER_MS: i64 = 1_000_000;
    let nanos = plimsoll_core::vars::parse_duration(text.trim())
        .ok_or("is not a duration: write numbers with a unit of ns, us, ms, s, m or h, e.g. 500ms, 30s or 1m30s")?;
    match nanos {
        ..=-1 => Err("is negative: write how long the program may run, or 0 for the provider's default".to_owned()),
        0 => Ok(Timeout { ms: 0 }),
        1.. => Ok(Timeout {
            ms: i32::try_from((nanos / NANOS_PER_MS).max(1)).unwrap_or(i32::MAX),
        }),
    }
}

/// What to do about an argument that `session` does not take: a file, as `run` takes one, is its standard input.
pub(crate) fn with_input_named(mut error: clap::Error) -> clap::Error {
    let file = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(file)) if error.kind() == ErrorKind::UnknownArgument && !file.starts_with('-') => {
            visible(file)
        }
        _ => return error,
    };
    let advice = format!("cells are read from standard input: plimsoll session < {file}").into();
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![advice]));
    error
}

/// The arguments with single-dash long options (`-floor vm`) spelled with two dashes.
pub fn normalised(args: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let args: Vec<OsString> = args.into_iter().collect();
    // Building the tree costs time that almost no command line is worth.
    let candidate = |arg: &OsString| {
        arg.to_str()
            .is_some_and(|text| text.len() > 2 && text.starts_with('-') && !text.starts_with("--"))
    };
    if !args.iter().any(candidate) {
        return args;
    }
    let known = long_options(&Cli::command());
    let mut literal = false;
    args.into_iter()
        .enumerate()
        .map(|(index, arg)| {
            let text = arg.to_str().unwrap_or_default();
            literal |= text == "--";
            match text
                .strip_prefix('-')
                .filter(|name| index > 0 && !literal && is_known(name, &known))
            {
                Some(_) => OsString::from(format!("-{text}")),
                None => arg,
            }
        })
        .collect()
}

/// Short options are one letter, so a longer name after one dash is a long option and nothing else.
fn is_known(name: &str, known: &[String]) -> bool {
    let name = name.split_once('=').map_or(name, |(name, _)| name);
    name.len() > 1 && known.iter().any(|one| one == name)
}

fn long_options(command: &clap::Command) -> Vec<String> {
    let own = command
        .get_arguments()
        .filter_map(|arg| arg.get_long())
        .map(str::to_owned);
    own.chain(["help".to_owned(), "version".to_owned()])
        .chain(command.get_subcommands().flat_map(long_options))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_tree_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_timeout_has_a_unit_and_travels_in_milliseconds() {
        for (text, ms) in [
            ("500ms", 500),
            ("1m30s", 90_000),
            ("0", 0),
            ("1us", 1),
            (" 2s ", 2_000),
            ("999h", i32::MAX),
        ] {
            assert_eq!(parse_timeout(text), Ok(Timeout { ms }), "{text}");
        }
        for text in ["30", "", "-1s", "1d", "soon", "NaN", "1e3s", "99999999999999h"] {
            parse_timeout(text).expect_err(text);
        }
    }

    #[test]
    fn one_dash_before_a_long_option_is_two() {
        let given = [
            "plimsoll",
            "run",
            "-floor",
            "vm",
            "-timeout=1s",
            "-q",
            "-",
            "-nosuch",
            "--",
            "-json",
        ];
        let expected = [
            "plimsoll",
            "run",
            "--floor",
            "vm",
            "--timeout=1s",
            "-q",
            "-",
            "-nosuch",
            "--",
            "-json",
        ];
        assert_eq!(normalised(given.map(OsString::from)), expected.map(OsString::from));
    }
}
