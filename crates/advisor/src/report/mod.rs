//! The report: audit lines in, one self-contained page or JSON document out (spec 30 §13.6).
//!
//! ```text
//! log ── input ──► runs ── summary ──► totals, profiles, patterns ──► html or json
//! ```
//!
//! The page holds no script and loads nothing; every value of the log is escaped where it is written.

mod html;
mod input;
mod json;
mod options;
mod summary;
pub(crate) mod text;

use std::ffi::OsString;
use std::fmt;
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::time::{Duration, SystemTime};

use plimsoll_grants::profiles::Profiles;

pub use input::{InputError, MAX_LINE_BYTES};
pub use options::{Options, Parsed, UsageError, help};

use crate::{Class, Cost, prompt};

/// Heads the page when no title is given.
pub const DEFAULT_TITLE: &str = "How agent code used your APIs";

/// Everything a page or document shows.
#[derive(Debug)]
struct Report {
    title: String,
    generated_at: String,
    source: String,
    unreadable: u64,
    totals: summary::Totals,
    profiles: Vec<summary::ProfileRow>,
    patterns: Vec<summary::PatternRow>,
    runs: Vec<input::Run>,
}

/// The three streams of a process.
pub struct Streams<'a> {
    /// The log, when no file is named.
    pub stdin: &'a mut dyn BufRead,
    /// The report, when no file is named; help.
    pub stdout: &'a mut dyn Write,
    /// Everything else.
    pub stderr: &'a mut dyn Write,
}

impl fmt::Debug for Streams<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Streams").finish_non_exhaustive()
    }
}

/// No report was written.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// The log cannot be read.
    #[error("{log}: {error}")]
    Input {
        /// Its name.
        log: String,
        /// Why not.
        error: InputError,
    },
    /// A file cannot be opened or written; the error names it.
    #[error(transparent)]
    File(io::Error),
    /// The grants file is not valid.
    #[error("{0}")]
    Grants(String),
    /// Standard output is gone.
    #[error("the report could not be written: {0}")]
    Output(io::Error),
    /// The report would be written over its own input.
    #[error("-o names the log itself; give the report a file of its own")]
    OverLog,
}

/// Runs the command for `args` (without the program's name) and returns its exit code: 0 when the report was written, 1
/// when not, 2 for arguments that mean nothing. `name` is what the program was called as and starts every message.
pub fn run(args: impl IntoIterator<Item = OsString>, name: &str, now: SystemTime, streams: &mut Streams<'_>) -> u8 {
    match Options::parse(args) {
        Ok(Parsed::Help) => match streams.stdout.write_all(help(name).as_bytes()) {
            Ok(()) => 0,
            Err(error) => explain(name, &ReportError::Output(error), streams),
        },
        Ok(Parsed::Report(options)) => run_with(&options, name, now, streams),
        Err(error) => {
            say(name, &error, streams);
            2
        }
    }
}

/// [`run`] for arguments that were read elsewhere.
pub fn run_with(options: &Options, name: &str, now: SystemTime, streams: &mut Streams<'_>) -> u8 {
    match write(options, now, streams) {
        Ok(told) => {
            if let Some(told) = told {
                say(name, &told, streams);
            }
            0
        }
        Err(error) => explain(name, &error, streams),
    }
}

fn explain(name: &str, error: &ReportError, streams: &mut Streams<'_>) -> u8 {
    say(name, error, streams);
    1
}

fn say(name: &str, message: &dyn fmt::Display, streams: &mut Streams<'_>) {
    // Whoever closed standard error does not want to know.
    let _reader_gone = writeln!(streams.stderr, "{name}: {message}");
}

/// Writes the report and returns what there is to say of it. Nothing is written before everything was read.
fn write(options: &Options, now: SystemTime, streams: &mut Streams<'_>) -> Result<Option<String>, ReportError> {
    let file = options.log.as_deref().filter(|log| *log != Path::new("-"));
    if let (Some(log), Some(output)) = (file, options.output.as_deref())
        && same_file(log, output)
    {
        return Err(ReportError::OverLog);
    }
    let profiles = options.grants.as_deref().map(profiles).transpose()?;
    let log_name = file.map_or_else(|| "stdin".to_owned(), |file| file.display().to_string());
    let read = match file {
        Some(file) => input::read(BufReader::new(fs_err::File::open(file).map_err(ReportError::File)?)),
        None => input::read(&mut *streams.stdin),
    };
    let mut read = read.map_err(|error| ReportError::Input {
        log: log_name.clone(),
        error,
    })?;
    let told = match read.runs.len() {
        0 => Some(without_runs(&log_name, read.lines, read.unreadable)),
        runs => options
            .output
            .as_ref()
            .map(|_| text::counted(runs as u64, "run", "runs")),
    };
    if let Some(profiles) = &profiles {
        attach_prompts(&mut read.runs, profiles);
    }
    let report = Report {
        title: or_else(&options.title, DEFAULT_TITLE),
        generated_at: text::utc(now),
        source: or_else(&options.source, &log_name),
        unreadable: read.unreadable,
        totals: summary::totals(&read.runs),
        profiles: summary::profiles(&read.runs),
        patterns: summary::patterns(&read.runs),
        runs: read.runs,
    };
    let text = if options.json {
        json::document(&report)
    } else {
        html::page(&report)
    };
    match &options.output {
        Some(output) => fs_err::write(output, text).map_err(ReportError::File)?,
        None => streams
            .stdout
            .write_all(text.as_bytes())
            .and_then(|()| streams.stdout.flush())
            .map_err(ReportError::Output)?,
    }
    Ok(told)
}

/// Why there is nothing in the report: an empty page alone looks like a quiet API.
fn without_runs(log: &str, lines: u64, unreadable: u64) -> String {
    if lines == 0 {
        return format!("0 runs: {log} is empty");
    }
    let lines = text::counted(lines, "line", "lines");
    let json = match unreadable {
        0 => String::new(),
        1 => ", of which 1 is no JSON object".to_owned(),
        more => format!(", of which {more} are no JSON object"),
    };
    format!(
        "0 runs: {log} has {lines}{json}; none is an audit line, whose msg is \"code run\" or \"project run\"; give the log \
         of plimsolld with PLIMSOLL_LOG_FORMAT=json"
    )
}

fn or_else(text: &str, otherwise: &str) -> String {
    if text.is_empty() { otherwise } else { text }.to_owned()
}

/// Whether both names lead to one file; a file that does not exist yet is no other's.
fn same_file(one: &Path, other: &Path) -> bool {
    let real = |path: &Path| fs_err::canonicalize(path).ok();
    real(one).is_some_and(|one| real(other).is_some_and(|other| one == other))
}

fn profiles(file: &Path) -> Result<Profiles, ReportError> {
    Profiles::load_without_secrets(file).map_err(|problems| {
        let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
        ReportError::Grants(format!("{}: {}", file.display(), problems.join("; ")))
    })
}

/// A finding no known route helps gets a prompt when its profile is in the file and may call something.
fn attach_prompts(runs: &mut [input::Run], profiles: &Profiles) {
    for run in runs {
        let Some(profile) = profiles.get(&run.grant_profile) else {
            continue;
        };
        let allow = profile.grant().allow();
        if allow.is_empty() {
            continue;
        }
        for finding in &mut run.findings {
            if finding.class == Class::NoKnownRoute {
                finding.prompt = prompt::prompt_of_log(
                    &finding.remedy,
                    &finding.method,
                    &finding.route,
                    &finding.detail,
                    Cost {
                        extra_calls: finding.extra_calls,
                        added_latency: Duration::from_millis(finding.added_latency_ms),
                        bytes_moved: finding.bytes_moved,
                    },
                    allow,
                );
            }
        }
    }
}

#[cfg(test)]
mod tests;
