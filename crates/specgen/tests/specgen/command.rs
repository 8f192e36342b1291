//! The command: exit codes, streams, and folders of artifacts.

use std::os::unix::fs::PermissionsExt as _;

use plimsoll_grants::{Method, Profiles};

use crate::support::{BERTHS, get, specgen};

const UNMARKED: &str = r#"{"openapi": "3.0.0", "paths": {"/a": {"get": {"operationId": "a"}}}}"#;

#[test]
fn the_exit_code_tells_a_bad_command_line_from_a_bad_document() {
    assert_eq!(specgen(&[], BERTHS).code, 0);
    let ran = specgen(&[], "{");
    assert_eq!((ran.code, ran.stdout.as_str()), (1, ""));
    assert!(
        ran.stderr.starts_with("plimsoll-specgen: invalid JSON: "),
        "{}",
        ran.stderr
    );
    let ran = specgen(&["-emit", "nothing"], BERTHS);
    assert_eq!((ran.code, ran.stdout.as_str()), (2, ""));
    assert!(
        ran.stderr.contains("plimsoll-specgen: -emit must be one of all, allow"),
        "{}",
        ran.stderr
    );
    let ran = specgen(&["/nowhere/at/all.json"], "");
    assert_eq!(ran.code, 1);
    assert!(ran.stderr.contains("/nowhere/at/all.json"), "{}", ran.stderr);
    assert_eq!(specgen(&["-only", "nobody"], BERTHS).code, 1);
}

#[test]
fn help_goes_to_standard_output_under_the_invoked_name() {
    for flag in ["-h", "-help", "--help"] {
        let ran = specgen(&[flag], "");
        assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
        assert!(
            ran.stdout.contains("Usage: plimsoll-specgen [flags] [DOCUMENT]"),
            "{}",
            ran.stdout
        );
    }
}

#[test]
fn a_file_and_standard_input_give_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("berths.json");
    fs_err::write(&path, BERTHS).unwrap();
    let from_file = specgen(&["-emit", "json", path.to_str().unwrap()], "");
    assert_eq!(from_file.stdout, specgen(&["--emit=json"], BERTHS).stdout);
    assert_eq!(from_file.stdout, specgen(&["--emit=json", "-"], BERTHS).stdout);
}

#[test]
fn a_document_over_the_limit_is_refused_before_it_is_read_as_a_whole() {
    let blank = " ".repeat(plimsoll_specgen::MAX_DOCUMENT_BYTES);
    assert!(!specgen(&[], &blank).stderr.contains("more than"));
    let ran = specgen(&[], &(blank + " "));
    assert_eq!(ran.code, 1);
    assert!(ran.stderr.contains("more than 134217728 bytes"), "{}", ran.stderr);
}

#[test]
fn a_folder_of_artifacts_is_written_whole_and_stale_ones_go() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("new/artifacts");
    let out_text = out.to_str().unwrap();
    let ran = specgen(&["-global", "port", "-emit", "allow", "-outdir", out_text], BERTHS);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, ""));
    for (file, artifact) in [
        ("allow.json", "allow"),
        ("preamble.js", "preamble"),
        ("description.txt", "description"),
        ("health_check.txt", "health"),
        ("batch_of.json", "batch"),
    ] {
        let path = out.join(file);
        assert!(
            ran.stderr
                .contains(&format!("plimsoll-specgen: wrote {}\n", path.display())),
            "{}",
            ran.stderr
        );
        let printed = specgen(&["-global", "port", "-emit", artifact], BERTHS).stdout;
        assert_eq!(fs_err::read_to_string(&path).unwrap(), printed, "{file}");
        assert_eq!(
            fs_err::metadata(&path).unwrap().permissions().mode() & 0o777 & !0o644,
            0,
            "{file}"
        );
    }
    assert_eq!(fs_err::metadata(&out).unwrap().permissions().mode() & 0o777 & !0o755, 0);

    let ran = specgen(&["-outdir", out_text], UNMARKED);
    assert_eq!(ran.code, 0);
    assert!(ran.stderr.contains("removed"), "{}", ran.stderr);
    let mut left: Vec<String> = fs_err::read_dir(&out)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    left.sort();
    assert_eq!(left, ["allow.json", "description.txt", "preamble.js"]);
}

#[test]
fn emit_is_checked_also_where_a_folder_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    assert_eq!(
        specgen(&["-emit", "x", "-outdir", out.to_str().unwrap()], BERTHS).code,
        2
    );
    assert!(!out.exists());
}

#[test]
fn a_check_names_each_difference_and_writes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().to_str().unwrap();
    let ran = specgen(&["-check", &format!("{out}/missing")], UNMARKED);
    assert_eq!(ran.code, 1);
    assert_eq!(ran.stderr.matches("is missing").count(), 3, "{}", ran.stderr);
    assert!(!folder.path().join("missing").exists());

    assert_eq!(specgen(&["-outdir", out], BERTHS).code, 0);
    let ran = specgen(&["-check", out], BERTHS);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, ""));

    fs_err::write(folder.path().join("allow.json"), "[]\n").unwrap();
    let ran = specgen(&["-check", out], BERTHS);
    assert_eq!(ran.code, 1);
    assert!(ran.stderr.contains("allow.json differs"), "{}", ran.stderr);
    assert_eq!(
        fs_err::read_to_string(folder.path().join("allow.json")).unwrap(),
        "[]\n"
    );

    let ran = specgen(&["-check", out], UNMARKED);
    assert_eq!(ran.code, 1);
    for file in ["health_check.txt", "batch_of.json"] {
        assert!(
            ran.stderr.contains(&format!("{file} is no longer yielded")),
            "{}",
            ran.stderr
        );
        assert!(folder.path().join(file).exists());
    }
}

#[test]
fn a_generated_profile_loads_once_its_two_fields_are_filled_in() {
    let ran = specgen(&["-profile", "berths"], BERTHS);
    assert_eq!(ran.code, 0);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("grants.json");
    fs_err::write(&path, &ran.stdout).unwrap();
    assert!(
        Profiles::load(&path, &|_| None).is_err(),
        "an empty base_url and no caller are not a profile"
    );

    let filled = ran
        .stdout
        .replace("\"base_url\": \"\"", "\"base_url\": \"https://port.example.com\"")
        .replace("\"allowed_callers\": []", "\"allowed_callers\": [\"gateway-a\"]");
    fs_err::write(&path, filled).unwrap();
    let profiles = Profiles::load(&path, &|_| None).unwrap();
    let profile = profiles.look_up("berths", Some("gateway-a")).unwrap();
    assert_eq!(profile.grant().allow().len(), 6);
    assert_eq!(profile.grant().health_check().unwrap().to_string(), "GET /ready");
    assert_eq!(profile.batch_of().len(), 1);
    assert!(
        profile
            .grant()
            .allow()
            .iter()
            .any(|route| route.method() == Method::Put)
    );
}

#[test]
fn a_profile_leaves_out_what_the_document_does_not_mark() {
    let ran = specgen(&["-profile", "p"], &get("/a", ""));
    assert_eq!(
        ran.stdout,
        "{\n  \"profiles\": {\n    \"p\": {\n      \"base_url\": \"\",\n      \"allow\": [\n        \"GET /a\"\n      ],\n      \
         \"catalog\": [\n        \"GET /a\"\n      ],\n      \"allowed_callers\": []\n    }\n  }\n}\n"
    );
}

#[test]
fn a_reader_who_has_gone_is_no_failure_and_a_full_disk_is_one() {
    struct Broken(std::io::ErrorKind);
    impl std::io::Write for Broken {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(self.0.into())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    for (kind, code) in [
        (std::io::ErrorKind::BrokenPipe, 0),
        (std::io::ErrorKind::StorageFull, 1),
    ] {
        let mut stderr = Vec::new();
        let streams = plimsoll_specgen::Streams {
            stdin: &mut BERTHS.as_bytes(),
            stdout: &mut Broken(kind),
            stderr: &mut stderr,
        };
        assert_eq!(plimsoll_specgen::run(Vec::new(), streams, "s"), code);
    }
}
