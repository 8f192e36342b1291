//! The file itself, and preambles beside it.

use std::os::unix::fs::{PermissionsExt as _, symlink};

use super::*;

fn file(text: &str) -> (tempfile::TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("grants.json");
    fs_err::write(&path, text).unwrap();
    fs_err::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    (folder, path)
}

fn load_problem(path: &Path) -> String {
    let problems = Profiles::load(path, &variables).unwrap_err();
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert_eq!(problems[0].profile(), None);
    problems[0].to_string()
}

#[test]
fn a_file_that_is_missing_special_or_too_large_is_refused() {
    let (folder, path) = file(&one(""));
    assert_eq!(load_problem(&folder.path().join("absent")), "the file does not exist");
    assert_eq!(load_problem(folder.path()), "the file is not a regular file");
    fs_err::write(&path, vec![b' '; MAX_FILE_BYTES + 1]).unwrap();
    assert_eq!(load_problem(&path), "the file is larger than 8388608 bytes");
    let mut largest = one("").into_bytes();
    largest.resize(MAX_FILE_BYTES, b' ');
    fs_err::write(&path, largest).unwrap();
    assert_eq!(Profiles::load(&path, &variables).unwrap().names().count(), 1);
}

#[test]
fn a_file_others_can_write_is_warned_about() {
    let (_folder, path) = file(&one(""));
    for (mode, warned) in [(0o600, 0), (0o644, 0), (0o660, 1), (0o602, 1)] {
        fs_err::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        let profiles = Profiles::load(&path, &variables).unwrap();
        assert_eq!(profiles.warnings().len(), warned, "{mode:o}");
    }
}

#[test]
fn a_tool_that_only_looks_needs_no_secret_and_gets_no_credential() {
    let token = r#", "token": {"type": "jwt", "secret_env": "ABSENT", "audience": "x"}, "scopes": ["a"]"#;
    let (_folder, path) = file(&one(token));
    assert!(Profiles::load(&path, &variables).is_err());
    let profiles = Profiles::load_without_secrets(&path).unwrap();
    let profile = profiles.get("p").unwrap();
    let minting = crate::mint::mint(profile.grant(), Some("alice"), Duration::ZERO);
    let std::task::Poll::Ready(minted) =
        std::pin::pin!(minting).poll(&mut std::task::Context::from_waker(std::task::Waker::noop()))
    else {
        panic!("the stand-in waits for something");
    };
    assert!(minted.unwrap_err().to_string().contains("without their secrets"));
    let (_folder, path) = file(&one(r#", "token": {"type": "jwt", "secret_env": "ABSENT"}"#));
    assert!(
        Profiles::load_without_secrets(&path).is_err(),
        "every other rule still holds"
    );
}

/// Loads a file whose one profile has this preamble file, beside `beside.js`, `sub/inner.js` and links.
fn preamble(name: &str) -> Result<String, String> {
    let (folder, path) = file(&one(&format!(r#", "preamble_file": "{name}""#)));
    let outside = tempfile::tempdir().unwrap();
    let (inside, outside) = (folder.path(), outside.path());
    fs_err::write(outside.join("secret"), "outside").unwrap();
    fs_err::write(inside.join("beside.js"), "beside").unwrap();
    fs_err::create_dir(inside.join("sub")).unwrap();
    fs_err::write(inside.join("sub/inner.js"), "inner").unwrap();
    fs_err::write(inside.join("latin1.js"), b"caf\xe9").unwrap();
    fs_err::write(inside.join("large.js"), vec![b' '; MAX_PREAMBLE_BYTES + 1]).unwrap();
    fs_err::write(inside.join("largest.js"), vec![b' '; MAX_PREAMBLE_BYTES]).unwrap();
    symlink(outside.join("secret"), inside.join("out.js")).unwrap();
    symlink(outside, inside.join("outdir")).unwrap();
    symlink("sub/inner.js", inside.join("in.js")).unwrap();
    match Profiles::load(&path, &variables) {
        Ok(profiles) => Ok(profiles.get("p").unwrap().grant().preamble().to_owned()),
        Err(problems) => {
            assert_eq!(problems.len(), 1, "{problems:?}");
            assert_eq!(problems[0].field(), "preamble_file");
            Err(problems[0].problem().to_owned())
        }
    }
}

#[test]
fn a_preamble_file_lies_in_the_folder_of_the_grants_file() {
    for (name, text) in [
        ("beside.js", "beside"),
        ("/beside.js", "beside"),
        ("./sub/../beside.js", "beside"),
        ("sub/inner.js", "inner"),
        ("in.js", "inner"),
    ] {
        assert_eq!(preamble(name).as_deref(), Ok(text), "{name}");
    }
    for name in ["../e.js", "sub/../../e.js", "/../beside.js", "out.js", "outdir/secret"] {
        let problem = preamble(name).unwrap_err();
        assert!(
            problem.starts_with("must stay in the folder of the grants file"),
            "{name} {problem}"
        );
    }
    assert_eq!(preamble("absent.js").unwrap_err(), "does not exist");
    assert_eq!(preamble("sub").unwrap_err(), "is not a regular file");
    assert_eq!(preamble("latin1.js").unwrap_err(), "must hold valid UTF-8");
    assert_eq!(preamble("large.js").unwrap_err(), "is larger than 1048576 bytes");
    assert_eq!(preamble("largest.js").unwrap().len(), MAX_PREAMBLE_BYTES);
}

#[test]
fn a_preamble_is_in_the_file_or_beside_it_and_bounded_either_way() {
    refused(
        r#", "preamble": "1", "preamble_file": "p.js""#,
        "profile \"p\", preamble_file: must not be set beside preamble",
    );
    assert_eq!(
        accepted(r#", "preamble": "let x = 1;""#).grant().preamble(),
        "let x = 1;"
    );
    let large = format!(r#", "preamble": "{}""#, "a".repeat(MAX_PREAMBLE_BYTES + 1));
    let found = problems(&one(&large));
    assert_eq!(found, ["profile \"p\", preamble: must be at most 1048576 bytes"]);
}
