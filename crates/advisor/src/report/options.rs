//! The command line of the report: one dash or two, before the log's name.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

/// What the report is asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Where the report is written; standard output without it.
    pub output: Option<PathBuf>,
    /// A grants file, read without its secrets, whose allow lists complete the prompts.
    pub grants: Option<PathBuf>,
    /// Heads the page; empty for the usual title.
    pub title: String,
    /// Named on the page as the origin of the log; empty for the log's own name.
    pub source: String,
    /// JSON instead of a page.
    pub json: bool,
    /// The log; standard input without it.
    pub log: Option<PathBuf>,
}

/// What the arguments mean.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Parsed {
    /// Write a report.
    Report(Options),
    /// Print [`help`].
    Help,
}

/// An argument that means nothing here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UsageError {
    /// No such flag.
    #[error("there is no flag {0}; the flags are -o, -grants, -title, -source, -json and -help")]
    Unknown(String),
    /// A flag stands alone.
    #[error("flag -{0} needs a value after it")]
    NoValue(&'static str),
    /// A value is not readable text.
    #[error("the value of flag -{0} is not UTF-8")]
    NotText(&'static str),
    /// `-json` was given a value that is none.
    #[error("flag -json takes no value, or true or false")]
    NotBool,
    /// Two logs.
    #[error("one log can be read at a time, and flags stand before its name: {0} is one argument too many")]
    Extra(String),
}

impl Options {
    /// Reads the arguments that follow the program's name. Flags may be written `-o FILE`, `--o FILE`, `-o=FILE`.
    ///
    /// # Errors
    /// The first argument that is not understood.
    pub fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Parsed, UsageError> {
        let mut options = Self::default();
        let mut args = args.into_iter();
        while let Some(arg) = args.next() {
            let bytes = arg.as_encoded_bytes();
            if bytes == b"--" {
                for log in args.by_ref() {
                    options.set_log(log)?;
                }
                break;
            }
            if bytes == b"-" || !bytes.starts_with(b"-") {
                options.set_log(arg)?;
                continue;
            }
            let flag = arg.to_str().ok_or_else(|| UsageError::Unknown(shown(&arg)))?;
            let name = flag.strip_prefix("--").unwrap_or(&flag[1..]);
            let (name, attached) = match name.split_once('=') {
                Some((name, value)) => (name, Some(OsString::from(value))),
                None => (name, None),
            };
            let mut value = |flag| {
                attached
                    .clone()
                    .or_else(|| args.next())
                    .ok_or(UsageError::NoValue(flag))
            };
            match name {
                "o" | "output" => options.output = Some(value("o")?.into()),
                "grants" => options.grants = Some(value("grants")?.into()),
                "title" => options.title = text("title", value("title")?)?,
                "source" => options.source = text("source", value("source")?)?,
                "json" => {
                    options.json = match attached.as_deref().and_then(OsStr::to_str) {
                        None | Some("true") => true,
                        Some("false") => false,
                        Some(_) => return Err(UsageError::NotBool),
                    };
                }
                "h" | "help" => return Ok(Parsed::Help),
                _ => return Err(UsageError::Unknown(shown(&arg))),
            }
        }
        Ok(Parsed::Report(options))
    }

    fn set_log(&mut self, log: OsString) -> Result<(), UsageError> {
        if self.log.is_some() {
            return Err(UsageError::Extra(shown(&log)));
        }
        self.log = Some(log.into());
        Ok(())
    }
}

/// Arguments are shown so that none of them can drive the terminal.
fn shown(arg: &OsStr) -> String {
    format!("{arg:?}")
}

fn text(flag: &'static str, value: OsString) -> Result<String, UsageError> {
    value.into_string().map_err(|_| UsageError::NotText(flag))
}

/// The help text of a program that answers as `name`.
pub fn help(name: &str) -> String {
    format!(
        "\
Writes one page about how agent code used the APIs it was granted, from the daemon's audit lines.

Usage: {name} [flags] [audit.jsonl]

Without a file, or with -, the log is read from standard input.

  -o FILE       write the report there and the number of runs to standard error; without it, to standard output
  -grants FILE  a grants file: findings without a known route get a prompt for the API owner's own AI.
                Only its routes are read; none of its secrets need to be set
  -title TEXT   the heading
  -source TEXT  what to call the log; without it, its name
  -json         JSON instead of a page
  -help         this text

Flags take one dash or two. Exit status: 0 when the report was written, 1 when not, 2 when the command line is wrong.

Examples:
  {name} -o report.html audit.jsonl
  journalctl -u plimsolld -o cat | {name} -source 'last boot' > report.html
  {name} -json audit.jsonl | jq .totals
"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(args: &[&str]) -> Result<Parsed, UsageError> {
        Options::parse(args.iter().map(OsString::from))
    }

    #[test]
    fn flags_take_one_dash_or_two_and_a_value_after_a_space_or_an_equals_sign() {
        let expected = Parsed::Report(Options {
            output: Some("r.html".into()),
            grants: Some("g.json".into()),
            title: "A = B".to_owned(),
            source: "-x".to_owned(),
            json: true,
            log: Some("a.jsonl".into()),
        });
        let spellings: [&[&str]; 2] = [
            &[
                "-o", "r.html", "-grants", "g.json", "-title", "A = B", "-source", "-x", "-json", "a.jsonl",
            ],
            &[
                "--o=r.html",
                "--grants=g.json",
                "--title=A = B",
                "--source=-x",
                "--json=true",
                "--",
                "a.jsonl",
            ],
        ];
        for args in spellings {
            assert_eq!(parse(args), Ok(expected.clone()), "{args:?}");
        }
        assert_eq!(parse(&[]), Ok(Parsed::Report(Options::default())));
        assert_eq!(parse(&["-json=false"]), Ok(Parsed::Report(Options::default())));
        for help in ["-h", "-help", "--help"] {
            assert_eq!(parse(&[help, "-nosuch"]), Ok(Parsed::Help));
        }
    }

    #[test]
    fn what_is_not_understood_is_named() {
        let cases: [(&[&str], UsageError); 6] = [
            (&["-nosuch"], UsageError::Unknown("\"-nosuch\"".to_owned())),
            (&["-o"], UsageError::NoValue("o")),
            (&["a.jsonl", "-title"], UsageError::NoValue("title")),
            (&["-json=maybe"], UsageError::NotBool),
            (&["a", "b"], UsageError::Extra("\"b\"".to_owned())),
            (&["--", "-a", "-o"], UsageError::Extra("\"-o\"".to_owned())),
        ];
        for (args, error) in cases {
            assert_eq!(parse(args), Err(error), "{args:?}");
        }
    }
}
