//! `plimsoll run` with a file of grants: its owner is told what a daemon's callers never are.

#![expect(clippy::unwrap_used, reason = "tests of a program start it and fail by panicking")]

use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;

use crate::support::{Ran, run, run_with};

/// A file of two profiles: one of an API that nobody serves at its port, and one of somebody else's.
struct Grants {
    folder: tempfile::TempDir,
    port: u16,
}

impl Grants {
    fn new() -> Self {
        let gone = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = gone.local_addr().unwrap().port();
        let grants = Self {
            folder: tempfile::tempdir().unwrap(),
            port,
        };
        let profiles = serde_json::json!({ "profiles": {
            "berths": { "base_url": format!("http://127.0.0.1:{port}"), "allow": ["get /berths/*"], "allowed_callers": ["me", "ci"] },
            "cranes": { "base_url": "http://localhost:1", "allow": ["GET /x"], "allowed_callers": ["you"] },
        } });
        fs_err::write(grants.file(), profiles.to_string()).unwrap();
        fs_err::set_permissions(grants.file(), std::fs::Permissions::from_mode(0o600)).unwrap();
        grants
    }

    fn file(&self) -> String {
        self.folder.path().join("grants.json").to_str().unwrap().to_owned()
    }

    fn run(&self, program: &str, profile: &str, caller: &str, more: &[&str]) -> Ran {
        let file = self.file();
        let args = ["--grants", &file, "--grant", profile, "--caller", caller];
        run(program, &[&args, more].concat())
    }

    /// What was said, without what differs from run to run.
    fn said(&self, ran: &Ran) -> String {
        let folder = self.folder.path().to_str().unwrap();
        ran.stderr_named()
            .replace(folder, "FOLDER")
            .replace(&self.port.to_string(), "PORT")
    }
}

#[test]
fn the_wrong_name_is_told_with_those_there_are() {
    let grants = Grants::new();
    let told = [("brths", "me"), ("berths", "mee"), ("cranes", "me")].map(|(profile, caller)| {
        let ran = grants.run("console.log('never')", profile, caller, &[]);
        assert_eq!((ran.code, ran.stdout_text()), (125, ""));
        grants.said(&ran)
    });
    insta::assert_snapshot!(told.concat(), @r#"
    plimsoll: nothing ran (permission): --grant "brths" names no profile of the grants file; it holds "berths", "cranes" (FOLDER/grants.json)
    plimsoll: nothing ran (permission): --caller "mee" may not use profile "berths" of the grants file; its allowed_callers are "ci", "me" (FOLDER/grants.json)
    plimsoll: nothing ran (permission): --caller "me" may not use profile "cranes" of the grants file; its allowed_callers are "you" (FOLDER/grants.json)
    "#);
}

#[test]
fn a_file_that_cannot_be_used_is_named_with_what_is_wrong() {
    let args = |file: &'static str| ["--grants", file, "--grant", "berths", "--caller", "me"];
    let missing = run("1", &args("/nonexistent/grants.json"));
    assert_eq!(missing.code, 125);
    insta::assert_snapshot!(missing.stderr, @"plimsoll: nothing ran (request): --grants /nonexistent/grants.json cannot be used: the file does not exist");
    let folder = run("1", &args("/"));
    insta::assert_snapshot!(folder.stderr, @"plimsoll: nothing ran (request): --grants / cannot be used: the file is not a regular file");
}

#[test]
fn the_owner_is_told_why_a_call_got_no_answer_and_the_program_is_not() {
    let grants = Grants::new();
    let program =
        "for (const berth of [1, 2]) await host.get('/berths/' + berth).catch((error) => console.log(error.message))";
    let ran = grants.run(program, "berths", "me", &[]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_eq!(
        ran.stdout_text().matches("host api 502: no answer").count(),
        2,
        "{}",
        ran.stdout_text()
    );
    assert!(!ran.stdout_text().contains("refused"), "{}", ran.stdout_text());
    insta::assert_snapshot!(grants.said(&ran), @"
    plimsoll: 2 calls brought back no answer: cannot connect to the host of base_url: Connection refused (os error 111)
    plimsoll: tier process, <duration>, exit 0, record <digest>
    ");
    assert_eq!(grants.run(program, "berths", "me", &["--quiet"]).stderr, "");
    // A run that calls nothing has nothing to tell.
    let silent = grants.run("1", "berths", "me", &[]);
    assert_eq!(silent.stderr.lines().count(), 1, "{}", silent.stderr);
}

#[test]
fn the_operators_minimum_holds_for_a_run_with_a_grant_too() {
    let grants = Grants::new();
    let file = grants.file();
    let args = ["--grants", &file, "--grant", "berths", "--caller", "me"];
    let ran = run_with("console.log('never')", &args, &[("SANDBOX_MIN_ISOLATION", "kernel")]);
    assert_eq!((ran.code, ran.stdout_text()), (125, ""));
    assert!(ran.stderr.contains("SANDBOX_MIN_ISOLATION"), "{}", ran.stderr);
}
