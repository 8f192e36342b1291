//! The registry editor as its users start it: what it prints where, what it leaves behind, and what it never says.

#![expect(clippy::unwrap_used, reason = "tests of a program start it and fail by panicking")]

mod edits;
mod refusals;
mod shown;

use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::support::{Ran, command, finish, plimsoll, program};

const TOKEN: &str = "0123456789abcdef0123456789abcdef";
const OTHER: &str = "fedcba9876543210fedcba9876543210";

/// A folder with a registry in it, or none yet.
struct House(tempfile::TempDir);

impl House {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn path(&self) -> PathBuf {
        self.at("clients.json")
    }

    fn bytes(&self) -> Vec<u8> {
        fs_err::read(self.path()).unwrap()
    }

    /// What is in the folder, by name.
    fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = fs_err::read_dir(self.0.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    /// One command on the registry, with words split at spaces.
    fn clients(&self, words: &str) -> Ran {
        on(&self.path(), words, b"")
    }

    fn fed(&self, words: &str, input: impl AsRef<[u8]>) -> Ran {
        on(&self.path(), words, input.as_ref())
    }

    /// One that succeeds.
    fn done(&self, words: &str) -> Ran {
        let ran = self.clients(words);
        assert_eq!(ran.code, 0, "{words}: {}", ran.stderr);
        ran
    }

    fn import(&self, id: &str, token: &str) {
        let ran = self.fed(&format!("import -id {id}"), token);
        assert_eq!((ran.code, ran.stdout_text()), (0, ""), "{}", ran.stderr);
    }

    fn registry(&self) -> Value {
        serde_json::from_slice(&self.bytes()).unwrap()
    }

    /// One that is refused, prints nothing and leaves the folder as it was.
    #[track_caller]
    fn refused(&self, words: &str, input: impl AsRef<[u8]>) -> String {
        let before = (self.names(), fs_err::read(self.path()).ok());
        let ran = self.fed(words, input);
        assert_eq!((ran.code, ran.stdout_text()), (1, ""), "{words}: {}", ran.stderr);
        assert_eq!((self.names(), fs_err::read(self.path()).ok()), before, "{words}");
        ran.stderr
    }
}

fn on(path: &Path, words: &str, input: &[u8]) -> Ran {
    let mut words: Vec<&str> = words.split(' ').collect();
    words.splice(1..1, ["-file", path.to_str().unwrap()]);
    with_input(command(&[&["clients"], words.as_slice()].concat()), input)
}

fn with_input(mut command: Command, input: &[u8]) -> Ran {
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    // The command may refuse before it has read everything.
    let _refused_early = child.stdin.take().unwrap().write_all(input);
    finish(child)
}

/// The program under its other name.
fn linked(folder: &Path, args: &[&str]) -> Ran {
    let link = folder.join("plimsoll-clients");
    if !link.exists() {
        symlink(env!("CARGO_BIN_EXE_plimsoll"), &link).unwrap();
    }
    finish(program(&link, args).spawn().unwrap())
}

/// Standard output goes where the shell puts it.
fn redirected(redirection: &str, args: &[&str]) -> Ran {
    let script = format!("exec {} \"$@\" {redirection}", env!("CARGO_BIN_EXE_plimsoll"));
    let args = [&["-c", &script, "sh"], args].concat();
    finish(program(Path::new("/bin/sh"), &args).spawn().unwrap())
}

fn mode(path: &Path) -> u32 {
    fs_err::metadata(path).unwrap().mode() & 0o7777
}

fn digest(token: &str) -> String {
    use sha2::{Digest as _, Sha256};
    Sha256::digest(token).iter().map(|byte| format!("{byte:02x}")).collect()
}
