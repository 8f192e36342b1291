//! The commands that read their own arguments and know nothing of sandboxes: `clients`, `specgen` and `report`. They also
//! answer under names of their own.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;
use std::process::ExitCode;
use std::time::SystemTime;

use plimsoll_advisor::report;

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tool {
    Clients,
    Specgen,
    Report,
}

/// A tool, what it was called as, and how many of the arguments are not its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Invoked {
    tool: Tool,
    name: &'static str,
    skip: usize,
}

/// Whether these arguments (the first is the program's own name) call one of the tools.
pub(crate) fn invoked(args: &[OsString]) -> Option<Invoked> {
    let program = args.first().and_then(|path| Path::new(path).file_name());
    let by_name = |(tool, name, skip)| Invoked { tool, name, skip };
    match (
        program.and_then(OsStr::to_str),
        args.get(1).and_then(|arg| arg.to_str()),
    ) {
        (Some("plimsoll-clients"), _) => Some((Tool::Clients, "plimsoll-clients", 1)),
        (Some("plimsoll-specgen"), _) => Some((Tool::Specgen, "plimsoll-specgen", 1)),
        (Some("prospector-report"), _) => Some((Tool::Report, "prospector-report", 1)),
        (_, Some("clients")) => Some((Tool::Clients, "plimsoll clients", 2)),
        (_, Some("specgen")) => Some((Tool::Specgen, "plimsoll specgen", 2)),
        (_, Some("report")) => Some((Tool::Report, "plimsoll report", 2)),
        _ => None,
    }
    .map(by_name)
}

impl Invoked {
    /// Runs it on this process's streams.
    pub(crate) fn run(self, args: Vec<OsString>) -> ExitCode {
        self.tool.run(self.name, args.into_iter().skip(self.skip))
    }
}

impl Tool {
    /// Runs it under a name on this process's streams.
    pub(crate) fn run(self, name: &'static str, args: impl IntoIterator<Item = OsString>) -> ExitCode {
        match self {
            // It takes standard input itself, and only where it reads a token.
            Tool::Clients => crate::clients::run(name, args.into_iter().collect()),
            Tool::Specgen | Tool::Report => ExitCode::from(self.run_on_streams(name, args)),
        }
    }

    fn run_on_streams(self, name: &str, args: impl IntoIterator<Item = OsString>) -> u8 {
        let (mut stdin, mut stdout, mut stderr) = (io::stdin().lock(), io::stdout().lock(), io::stderr().lock());
        if self == Tool::Specgen {
            let streams = plimsoll_specgen::Streams {
                stdin: &mut stdin,
                stdout: &mut stdout,
                stderr: &mut stderr,
            };
            return plimsoll_specgen::run(args, streams, name);
        }
        let mut streams = report::Streams {
            stdin: &mut stdin,
            stdout: &mut stdout,
            stderr: &mut stderr,
        };
        report::run(args, name, SystemTime::now(), &mut streams)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn called(args: &[&str]) -> Option<(Tool, &'static str, usize)> {
        let args: Vec<OsString> = args.iter().map(OsString::from).collect();
        invoked(&args).map(|Invoked { tool, name, skip }| (tool, name, skip))
    }

    #[test]
    fn a_tool_is_called_by_its_own_name_or_by_the_first_argument() {
        let specgen = Some((Tool::Specgen, "plimsoll-specgen", 1));
        assert_eq!(called(&["/usr/bin/plimsoll-specgen", "-emit", "allow"]), specgen);
        assert_eq!(called(&["plimsoll-specgen"]), specgen);
        assert_eq!(
            called(&["/usr/bin/plimsoll-clients", "list"]),
            Some((Tool::Clients, "plimsoll-clients", 1))
        );
        assert_eq!(
            called(&["plimsoll", "clients", "list"]),
            Some((Tool::Clients, "plimsoll clients", 2))
        );
        assert_eq!(
            called(&["prospector-report", "run"]),
            Some((Tool::Report, "prospector-report", 1))
        );
        assert_eq!(
            called(&["plimsoll", "specgen", "x"]),
            Some((Tool::Specgen, "plimsoll specgen", 2))
        );
        assert_eq!(
            called(&["plimsoll", "report"]),
            Some((Tool::Report, "plimsoll report", 2))
        );
        for other in [
            &["plimsoll"][..],
            &["plimsoll", "run", "specgen"],
            &["plimsoll", "--help"],
            &[],
        ] {
            assert_eq!(called(other), None);
        }
    }
}
