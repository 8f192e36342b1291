//! What the tests share.

use std::ffi::OsString;

use plimsoll_specgen::{Generated, Options, Prefix, Streams, generate, run};

/// The document of the worked example.
pub(crate) const BERTHS: &str = include_str!("../data/berths.json");

/// What one invocation of the command gave.
pub(crate) struct Ran {
    pub(crate) code: u8,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Runs the command with a document on standard input.
pub(crate) fn specgen(args: &[&str], document: &str) -> Ran {
    let (mut stdin, mut stdout, mut stderr) = (document.as_bytes(), Vec::new(), Vec::new());
    let code = run(
        args.iter().map(OsString::from),
        Streams {
            stdin: &mut stdin,
            stdout: &mut stdout,
            stderr: &mut stderr,
        },
        "plimsoll-specgen",
    );
    Ran {
        code,
        stdout: String::from_utf8(stdout).expect("text"),
        stderr: String::from_utf8(stderr).expect("text"),
    }
}

/// Generates with the options that leave everything as it is.
pub(crate) fn generated(document: &str) -> Generated {
    generate(document.as_bytes(), &Options::default()).expect("a document that yields routes")
}

/// The problems of a document.
pub(crate) fn problems(document: &str) -> Vec<String> {
    match generate(document.as_bytes(), &Options::default()) {
        Ok(_) => panic!("generated from {document}"),
        Err(refused) => refused.problems().to_vec(),
    }
}

/// Asserts that a document has a problem that says all of this, and that the problem is one line.
pub(crate) fn refused(document: &str, fragments: &[&str]) {
    let problems = problems(document);
    assert!(
        problems
            .iter()
            .any(|problem| fragments.iter().all(|fragment| problem.contains(fragment))),
        "no problem says all of {fragments:?} for {document}: {problems:#?}"
    );
    for problem in problems {
        assert!(!problem.contains(['\n', '\u{2028}']), "{problem:?}");
    }
}

/// A document of these paths, given as the members of a JSON object.
pub(crate) fn paths(paths: &str) -> String {
    format!(r#"{{"openapi": "3.0.0", "paths": {{{paths}}}}}"#)
}

/// A document with one GET operation under this path, with these further members.
pub(crate) fn get(path: &str, members: &str) -> String {
    paths(&format!(
        "{}: {{\"get\": {{\"operationId\": \"one\"{members}}}}}",
        serde_json::to_string(path).expect("text")
    ))
}

/// Options with a prefix.
pub(crate) fn prefixed(prefix: Prefix) -> Options {
    Options {
        prefix,
        ..Options::default()
    }
}

/// The allow list as lines.
pub(crate) fn lines(generated: &Generated) -> Vec<String> {
    generated.allow().iter().map(ToString::to_string).collect()
}
