//! The daemon's arguments: at most one word, because a misspelt flag must never start a daemon.

use std::ffi::OsString;

/// What the daemon was asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    /// Serve until a signal.
    Serve,
    /// Check the configuration and stop.
    Check,
    /// Print help.
    Help,
    /// Print the version.
    Version,
}

/// Arguments that are none of the daemon's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ArgumentError {
    #[error("unknown argument {0:?}; plimsolld takes its settings from the environment")]
    Unknown(OsString),
    #[error("too many arguments: at most one is accepted, and {0:?} is one more")]
    TooMany(OsString),
}

/// Reads the arguments after the program's name.
pub(crate) fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Command, ArgumentError> {
    let mut arguments = arguments.into_iter();
    let Some(first) = arguments.next() else {
        return Ok(Command::Serve);
    };
    if let Some(more) = arguments.next() {
        return Err(ArgumentError::TooMany(more));
    }
    match first.to_str() {
        Some("-h" | "--help" | "help") => Ok(Command::Help),
        Some("version" | "--version") => Ok(Command::Version),
        Some("check") => Ok(Command::Check),
        _ => Err(ArgumentError::Unknown(first)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(arguments: &[&str]) -> Result<Command, ArgumentError> {
        parse(arguments.iter().map(OsString::from))
    }

    #[test]
    fn one_known_word_or_none() {
        assert_eq!(read(&[]), Ok(Command::Serve));
        for help in ["-h", "--help", "help"] {
            assert_eq!(read(&[help]), Ok(Command::Help));
        }
        for version in ["version", "--version"] {
            assert_eq!(read(&[version]), Ok(Command::Version));
        }
        assert_eq!(read(&["check"]), Ok(Command::Check));
    }

    #[test]
    fn any_other_argument_is_an_error() {
        for arguments in [
            &["-v"][..],
            &["--Version"],
            &["Check"],
            &[""],
            &["serve"],
            &["-h", "x"],
            &["check", "check"],
        ] {
            assert!(read(arguments).is_err(), "{arguments:?}");
        }
    }
}
