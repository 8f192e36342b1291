use std::collections::BTreeMap;
use std::ffi::OsString;

use fs_err as fs;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use sha2::{Digest as _, Sha512};

use super::*;

/// A `runsc` that states a version and registers itself, as the real one.
fn runsc(version: &str) -> String {
    format!(
        "#!/bin/sh\ncase $1 in\n  --version) printf 'runsc version {version}\\nspec: 1.2.1\\n' ;;\n  install) printf \
         '{{\"runtimes\":{{\"runsc\":{{\"path\":\"%s\",\"runtimeArgs\":[\"%s\"]}}}}}}' \"$0\" \"$9\" >\"$3\" ;;\nesac\n"
    )
}

/// A release archive with that `runsc`, what pins it, and a folder to install into.
struct Release {
    folder: tempfile::TempDir,
    pins: Pins,
}

impl Release {
    fn new(version: &str) -> Self {
        let mut tar = tar::Builder::new(Vec::new());
        let script = runsc(version);
        for (name, content) in [
            ("runsc", script.as_str()),
            ("shim", "shim"),
            ("gvisor-bin/sentry", "sentry"),
        ] {
            let mut header = tar::Header::new_ustar();
            header.set_mode(0o755);
            header.set_size(content.len() as u64);
            tar.append_data(&mut header, name, content.as_bytes()).unwrap();
        }
        let archive = compress_to_vec(&tar.into_inner().unwrap()[..], CompressionLevel::Fastest);
        let digest: String = Sha512::digest(&archive)
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let text = format!(
            "release=20260907.0\nsha512_x86_64={digest}\nsha512_aarch64={digest}\nexecutables=runsc shim gvisor-bin/sentry\n"
        );
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("archive"), archive).unwrap();
        Self {
            folder,
            pins: Pins::Archive(ArchivePins::parse(&text).unwrap()),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn install(&self, verify_only: bool) -> Result<Installed, Error> {
        let options = Options {
            source: Source::Archive(self.path("archive")),
            verify_only,
            into: self.path("bin"),
            config: Some(self.path("daemon.json")),
            socket: self.path("no-engine.sock"),
        };
        let nothing: BTreeMap<OsString, OsString> = BTreeMap::new();
        install_pinned(&self.pins, Arch::X86_64, &options, &nothing, &mut |_| ())
    }
}

const LABEL: &str = "release-20260907.0";

#[test]
fn an_archive_is_checked_placed_and_registered_and_a_second_time_changes_nothing() {
    let release = Release::new(LABEL);
    let placed = release.install(false).unwrap().placed.unwrap();
    assert!(!placed.was_there && placed.registered_now && placed.reload == Reload::NoEngine);
    assert_eq!(placed.runsc, fs::canonicalize(release.path("bin/runsc")).unwrap());
    assert_eq!(
        fs::read_to_string(release.path("bin/gvisor-bin/sentry")).unwrap(),
        "sentry"
    );
    let config: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(release.path("daemon.json")).unwrap()).unwrap();
    assert_eq!(config["runtimes"]["runsc"]["path"], placed.runsc.to_str().unwrap());
    assert_eq!(
        fs::read_dir(release.path("bin")).unwrap().count(),
        3,
        "the staging folder is left behind"
    );
    fs::remove_file(release.path("archive")).unwrap();
    let again = release.install(false).unwrap().placed.unwrap();
    assert!(again.was_there && !again.registered_now);
    fs::remove_file(release.path("bin/shim")).unwrap();
    release
        .install(false)
        .expect_err("an executable is missing, and there is no archive to take it from");
}

#[test]
fn verifying_leaves_no_trace() {
    let release = Release::new(LABEL);
    let installed = release.install(true).unwrap();
    assert_eq!((installed.label.as_str(), installed.placed), (LABEL, None));
    assert!(!release.path("bin").exists() && !release.path("daemon.json").exists());
}

#[test]
fn an_archive_that_is_not_the_pinned_one_installs_nothing() {
    let release = Release::new(LABEL);
    let mut bytes = fs::read(release.path("archive")).unwrap();
    bytes.push(0);
    fs::write(release.path("archive"), bytes).unwrap();
    let error = release.install(false).unwrap_err();
    assert!(matches!(error, Error::Archive(ArchiveError::Digest { .. })), "{error}");
    assert_eq!(fs::read_dir(release.path("bin")).unwrap().count(), 0);
    assert!(!release.path("daemon.json").exists());
}

#[test]
fn a_binary_that_calls_itself_something_else_is_not_installed() {
    for version in ["release-20260907.0-5-gabc", "VERSION_MISSING", "release-20260908.0", ""] {
        let release = Release::new(version);
        let error = release.install(false).unwrap_err();
        assert!(matches!(error, Error::Version { .. }), "{version}: {error}");
        assert_eq!(fs::read_dir(release.path("bin")).unwrap().count(), 0);
    }
}

#[test]
fn a_configuration_that_cannot_be_changed_is_said_to_be_what_is_missing() {
    let release = Release::new(LABEL);
    fs::write(release.path("daemon.json"), "not json").unwrap();
    let error = release.install(false).unwrap_err().to_string();
    assert!(error.starts_with("runsc is installed and not registered: "), "{error}");
    assert_eq!(fs::read_to_string(release.path("daemon.json")).unwrap(), "not json");
}
