//! The command: reads, generates, says on standard error what was left out, and prints.

use std::ffi::OsString;
use std::fmt;
use std::io::{self, Read, Write};
use std::path::Path;

use crate::flags::{self, Output, Request};
use crate::folder;
use crate::generate::{Generated, Skip, generate};
use crate::tree::MAX_DOCUMENT_BYTES;

/// Exit code when it was done.
const DONE: u8 = 0;

/// Exit code when the document cannot be used, a file cannot be written, or a checked file differs.
const FAILED: u8 = 1;

/// Exit code when the command line is wrong.
const USAGE: u8 = 2;

/// The three streams of the command.
pub struct Streams<'a> {
    /// Read when no document is named.
    pub stdin: &'a mut dyn Read,
    /// Takes artifacts and help, nothing else.
    pub stdout: &'a mut dyn Write,
    /// Takes everything said to a person.
    pub stderr: &'a mut dyn Write,
}

impl fmt::Debug for Streams<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Streams").finish_non_exhaustive()
    }
}

/// Runs the command and answers its exit code: 0 done, 1 failed, 2 a wrong command line.
///
/// `args` are those after the program's own name. `invoked_name` stands before every line on standard error:
/// `plimsoll-specgen` or `plimsoll specgen`.
pub fn run(args: impl IntoIterator<Item = OsString>, streams: Streams<'_>, invoked_name: &str) -> u8 {
    let Streams { stdin, stdout, stderr } = streams;
    let mut say = Say {
        stderr,
        name: invoked_name,
    };
    let (options, output, document) = match flags::parse(args) {
        Ok(Request::Generate {
            options,
            output,
            document,
        }) => (options, output, document),
        Ok(Request::Help) => return print(stdout, &flags::help(invoked_name), &mut say),
        Err(problem) => {
            say.line(format_args!("{problem}; {invoked_name} -help names the flags"));
            return USAGE;
        }
    };
    let bytes = match read(document.as_deref(), stdin) {
        Ok(bytes) => bytes,
        Err(error) => {
            say.line(format_args!("{error}"));
            return FAILED;
        }
    };
    let generated = match generate(&bytes, &options) {
        Ok(generated) => generated,
        Err(refused) => {
            say.skips(refused.skipped());
            for problem in refused.problems() {
                say.line(format_args!("{problem}"));
            }
            return FAILED;
        }
    };
    drop(bytes);
    say.about(&generated);
    match output {
        Output::Print(artifact) => print(stdout, &generated.emit(artifact), &mut say),
        Output::Profile(name) => print(stdout, &generated.profile(&name), &mut say),
        Output::Write(folder) => say.changes(folder::write(&folder, &generated.files()), false),
        Output::Check(folder) => say.changes(folder::differences(&folder, &generated.files()), true),
    }
}

/// Reads the document, at most one byte more than is allowed.
fn read(document: Option<&Path>, stdin: &mut dyn Read) -> io::Result<Vec<u8>> {
    let limit = u64::try_from(MAX_DOCUMENT_BYTES).unwrap_or(u64::MAX).saturating_add(1);
    let mut bytes = Vec::new();
    match document {
        Some(path) => fs_err::File::open(path)?.take(limit).read_to_end(&mut bytes)?,
        None => stdin
            .take(limit)
            .read_to_end(&mut bytes)
            .map_err(|error| io::Error::new(error.kind(), format!("failed to read standard input: {error}")))?,
    };
    Ok(bytes)
}

/// Prints all of the text. A reader who has gone does not want the rest, which is no failure.
fn print(stdout: &mut dyn Write, text: &str, say: &mut Say<'_>) -> u8 {
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Ok(()) => DONE,
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => DONE,
        Err(error) => {
            say.line(format_args!("the output could not be written: {error}"));
            FAILED
        }
    }
}

/// Standard error, each line with the invoked name before it.
struct Say<'a> {
    stderr: &'a mut dyn Write,
    name: &'a str,
}

impl Say<'_> {
    fn line(&mut self, line: fmt::Arguments<'_>) {
        // There is nowhere left to report a failure of that.
        let _nowhere_to_report = writeln!(self.stderr, "{}: {line}", self.name);
    }

    fn skips(&mut self, skipped: &[Skip]) {
        for skip in skipped {
            self.line(format_args!("skipped {} ({})", skip.operation, skip.reason));
        }
    }

    /// What the operator should know before using the artifacts.
    fn about(&mut self, generated: &Generated) {
        self.skips(generated.skipped());
        for warning in generated.warnings() {
            self.line(format_args!("warning: {warning}"));
        }
        for note in generated.notes() {
            self.line(format_args!("note: {note}"));
        }
        if let Some(note) = generated.health_note() {
            self.line(format_args!("health_check not set: {note}"));
        }
    }

    /// Says what changed, or what would; the latter fails the command.
    fn changes(&mut self, lines: io::Result<Vec<String>>, fails: bool) -> u8 {
        match lines {
            Ok(lines) => {
                for line in &lines {
                    self.line(format_args!("{line}"));
                }
                if fails && !lines.is_empty() { FAILED } else { DONE }
            }
            Err(error) => {
                self.line(format_args!("{error}"));
                FAILED
            }
        }
    }
}
