//! The command line: single- or double-dash flags, then at most one document.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::emit::Artifact;
use crate::generate::{Options, Prefix};

/// Longest profile name, in bytes; the grants file has the same bound.
const MAX_PROFILE_NAME: usize = 128;

/// A command line that was understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    Help,
    Generate {
        options: Options,
        output: Output,
        /// None and `-` are standard input.
        document: Option<PathBuf>,
    },
}

/// Where the result goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Output {
    Print(Artifact),
    Profile(String),
    Write(PathBuf),
    Check(PathBuf),
}

/// The help of the command as it was invoked.
pub fn help(invoked_name: &str) -> String {
    format!(
        "\
Reads one OpenAPI 3 document, JSON or YAML, and prints what a grant needs: the allow list, the preamble, the
description, the health probe and batch relations. Works offline; the same document gives the same bytes.

Usage: {invoked_name} [flags] [DOCUMENT]

Without DOCUMENT, or with -, the document is read from standard input. Flags come first and take one dash or two.

  -emit WHAT          what to print: all (default), allow, catalog, preamble, description, health, batch, json
  -global NAME        the JavaScript global of the client (default host)
  -only ID,ID         only these operations, by operationId; what is wrong elsewhere does not matter
  -skip-unsupported   leave out what cannot be expressed, with its reason, instead of refusing the document
  -prefix PATH        put a path before every route; auto takes the path that all servers of the document share
  -profile NAME       print a grants file with this profile; base_url and allowed_callers are yours to fill in
  -outdir DIR         write allow.json, preamble.js, description.txt and, where the document has them,
                      health_check.txt and batch_of.json
  -check DIR          write nothing; name every file of DIR that -outdir would change
  -h, -help           this help

Exit code: 0 done, 1 the document cannot be used or a file differs, 2 the command line is wrong.
"
    )
}

/// Reads the arguments after the program's own name.
///
/// # Errors
/// What is wrong with them.
pub(crate) fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Request, String> {
    let mut args = args.into_iter();
    let mut options = Options::default();
    let (mut artifact, mut profile, mut outdir, mut check, mut document) = (None, None, None, None, None);
    while let Some(argument) = args.next() {
        let Some((name, inline)) = flag(&argument) else {
            if argument != "--" {
                document = Some(argument);
            } else {
                document = args.next();
            }
            break;
        };
        if matches!(name.as_str(), "h" | "help") {
            return Ok(Request::Help);
        }
        if name == "skip-unsupported" {
            options.skip_unsupported = match inline.as_deref() {
                None | Some("true") => true,
                Some("false") => false,
                Some(other) => return Err(format!("-{name} is a switch; it takes no {other:?}")),
            };
            continue;
        }
        if !["emit", "global", "only", "prefix", "profile", "outdir", "check"].contains(&name.as_str()) {
            return Err(format!("there is no flag -{name}"));
        }
        // A path may hold any bytes; the other values are text.
        let value = match inline {
            Some(value) => OsString::from(value),
            None => args.next().ok_or_else(|| format!("-{name} needs a value after it"))?,
        };
        if name == "outdir" || name == "check" {
            if value.is_empty() {
                return Err(format!("-{name} needs a folder"));
            }
            *(if name == "outdir" { &mut outdir } else { &mut check }) = Some(PathBuf::from(value));
            continue;
        }
        let value = value
            .into_string()
            .map_err(|_not_text| format!("the value of -{name} must be UTF-8"))?;
        match name.as_str() {
            "emit" => {
                artifact = Some(Artifact::of_word(&value).ok_or_else(|| {
                    let words: Vec<&str> = Artifact::WORDS.iter().map(|(word, _)| *word).collect();
                    format!("-emit must be one of {}, not {value:?}", words.join(", "))
                })?);
            }
            "global" => options.global = value,
            "only" => options.only = Some(ids(&value)?),
            "prefix" => options.prefix = prefix(value)?,
            _ => profile = Some(profile_name(value)?),
        }
    }
    if let Some(extra) = args.next() {
        return Err(format!(
            "{extra:?} comes after the document; flags come first, and there is one document"
        ));
    }
    let output = match (profile, outdir, check) {
        (None, None, None) => Output::Print(artifact.unwrap_or_default()),
        (None, Some(folder), None) => Output::Write(folder),
        (None, None, Some(folder)) => Output::Check(folder),
        (Some(name), None, None) if artifact.is_none() => Output::Profile(name),
        (Some(_), None, None) => return Err("-profile prints a whole file; leave out -emit".to_owned()),
        _ => return Err("-profile, -outdir and -check exclude each other; choose one".to_owned()),
    };
    let document = document.filter(|path| path != "-").map(PathBuf::from);
    Ok(Request::Generate {
        options,
        output,
        document,
    })
}

/// The name of a flag and the value after `=`, or none when the argument is no flag.
fn flag(argument: &OsString) -> Option<(String, Option<String>)> {
    // A flag with a value that is not UTF-8 behind `=` is read as a document that does not exist, and so refused.
    let text = argument.to_str()?;
    let body = text.strip_prefix("--").or_else(|| text.strip_prefix('-'))?;
    if body.is_empty() {
        return None;
    }
    Some(match body.split_once('=') {
        Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
        None => (body.to_owned(), None),
    })
}

fn ids(value: &str) -> Result<Vec<String>, String> {
    // As they stand in the document: an operationId may hold spaces.
    let ids: Vec<String> = value.split(',').map(str::to_owned).collect();
    if ids.iter().any(String::is_empty) {
        return Err("-only takes operationIds with a comma between them; one is empty".to_owned());
    }
    Ok(ids)
}

fn prefix(value: String) -> Result<Prefix, String> {
    match value.as_str() {
        "auto" => Ok(Prefix::Auto),
        "" => Err("-prefix needs a path or auto".to_owned()),
        path if !path.starts_with('/') => Err(format!("-prefix must start with / or be auto, not {path:?}")),
        _ => Ok(Prefix::Path(value)),
    }
}

fn profile_name(name: String) -> Result<String, String> {
    let fits = (1..=MAX_PROFILE_NAME).contains(&name.len())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-'));
    if !fits {
        return Err(format!(
            "-profile must be 1 to {MAX_PROFILE_NAME} letters, digits, dots, dashes and underscores, not {name:?}"
        ));
    }
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::{Output, Request, parse};
    use crate::emit::Artifact;

    fn parsed(line: &str) -> Result<Request, String> {
        parse(line.split(' ').filter(|word| !word.is_empty()).map(Into::into))
    }

    fn output(line: &str) -> Output {
        match parsed(line).unwrap() {
            Request::Generate { output, .. } => output,
            Request::Help => panic!("help"),
        }
    }

    #[test]
    fn one_dash_two_dashes_and_an_equals_sign_are_the_same() {
        for line in ["-emit allow", "--emit allow", "-emit=allow", "--emit=allow"] {
            assert_eq!(output(line), Output::Print(Artifact::Allow), "{line}");
        }
    }

    #[test]
    fn the_document_comes_last_and_a_dash_is_standard_input() {
        for (line, wanted) in [
            ("", None),
            ("-", None),
            ("-emit json a.json", Some("a.json")),
            ("-- -a", Some("-a")),
        ] {
            let Request::Generate { document, .. } = parsed(line).unwrap() else {
                panic!("help")
            };
            assert_eq!(document.as_deref(), wanted.map(std::path::Path::new), "{line}");
        }
    }

    #[test]
    fn a_wrong_command_line_says_which_word_is_wrong() {
        for (line, fragment) in [
            ("-emit nothing", "nothing"),
            ("-emit nothing -outdir d", "nothing"),
            ("-emit", "-emit needs a value"),
            ("-loud", "no flag -loud"),
            ("a.json -emit allow", "comes after the document"),
            ("a.json b.json", "comes after the document"),
            ("-prefix v1", "must start with /"),
            ("-only a,,b", "one is empty"),
            ("-profile a/b", "-profile must be"),
            ("-profile p -emit json", "leave out -emit"),
            ("-profile p -outdir d", "exclude each other"),
            ("-check d -outdir d", "exclude each other"),
            ("-skip-unsupported=maybe", "switch"),
        ] {
            let problem = parsed(line).unwrap_err();
            assert!(problem.contains(fragment), "{line}: {problem}");
        }
    }
}
