//! What is installed, pinned: two small files of `key=value` lines.
//!
//! They are parsed line by line and never sourced, so that a value can be nothing but a value. Every rule that the values
//! must follow is checked here, once, and what leaves this module is typed.

use std::fmt;

use thiserror::Error;

/// The release archive.
const ARCHIVE: &str = include_str!("../pins/archive.pins");
/// The Go module.
const MODULE: &str = include_str!("../pins/module.pins");

/// The folder of the executables that `runsc` starts by itself, beside it.
const SIDECARS: &str = "gvisor-bin/";
/// `runsc`, its shim and one more: fewer is not a release.
const MIN_EXECUTABLES: usize = 3;
/// Hex digits of a SHA-512.
const SHA512_DIGITS: usize = 128;

/// A processor that gVisor is released for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arch {
    /// 64-bit Intel and AMD.
    X86_64,
    /// 64-bit ARM.
    Aarch64,
}

impl Arch {
    /// That of this program.
    ///
    /// # Errors
    /// On any other processor.
    pub fn of_this_host() -> Result<Self, PinsError> {
        match std::env::consts::ARCH {
            "x86_64" => Ok(Self::X86_64),
            "aarch64" => Ok(Self::Aarch64),
            other => Err(PinsError::Arch(other)),
        }
    }

    /// As the archives are named.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::X86_64 => "x86_64",
            Self::Aarch64 => "aarch64",
        }
    }

    /// As Go names it.
    pub(crate) fn go(self) -> &'static str {
        match self {
            Self::X86_64 => "amd64",
            Self::Aarch64 => "arm64",
        }
    }
}

/// Why a data file cannot be used.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum PinsError {
    /// There is no release of gVisor for it.
    #[error("gVisor is released for x86_64 and aarch64, and this host is {0}")]
    Arch(&'static str),
    /// Neither blank, a comment, nor `key=value`.
    #[error("line {0} is not a comment and not key=value")]
    Line(usize),
    /// A key that means nothing here.
    #[error("line {line}: there is no key {key:?}")]
    Unknown {
        /// Counted from 1.
        line: usize,
        /// What stands before the `=`.
        key: String,
    },
    /// Two lines for one key.
    #[error("{0} stands twice")]
    Twice(&'static str),
    /// No line for a key.
    #[error("{0} is missing")]
    Missing(&'static str),
    /// A value that breaks the rule of its key.
    #[error("{key}={value:?}: {rule}")]
    Value {
        /// Whose value.
        key: &'static str,
        /// As it stands in the file.
        value: String,
        /// What it must be.
        rule: &'static str,
    },
}

/// An executable of the release: its name, below `gvisor-bin/` for those that `runsc` starts itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Executable(String);

impl Executable {
    /// The path below the folder it is installed in.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Executable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The pinned release archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArchivePins {
    release: String,
    sha512_x86_64: String,
    sha512_aarch64: String,
    executables: Vec<Executable>,
}

impl ArchivePins {
    /// Those of this build.
    ///
    /// # Errors
    /// Never, as a test proves; the file is data all the same.
    pub fn built_in() -> Result<Self, PinsError> {
        Self::parse(ARCHIVE)
    }

    /// Reads a data file.
    ///
    /// # Errors
    /// When a line is not one, or a value breaks its rule.
    pub fn parse(text: &str) -> Result<Self, PinsError> {
        let [release, sha512_x86_64, sha512_aarch64, executables] =
            values(text, ["release", "sha512_x86_64", "sha512_aarch64", "executables"])?;
        if !is_release(&release) {
            return refused(
                "release",
                release,
                "must be eight digits, a point and digits, such as 20260907.0",
            );
        }
        for (key, digest) in [("sha512_x86_64", &sha512_x86_64), ("sha512_aarch64", &sha512_aarch64)] {
            if digest.len() != SHA512_DIGITS || !digest.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')) {
                return refused(key, digest.clone(), "must be 128 hex digits in lower case");
            }
        }
        Ok(Self {
            executables: parse_executables(&executables)?,
            release,
            sha512_x86_64,
            sha512_aarch64,
        })
    }

    /// The SHA-512 of the archive for a processor, in lower-case hex.
    pub fn sha512(&self, arch: Arch) -> &str {
        match arch {
            Arch::X86_64 => &self.sha512_x86_64,
            Arch::Aarch64 => &self.sha512_aarch64,
        }
    }

    /// What the archive must hold.
    pub fn executables(&self) -> &[Executable] {
        &self.executables
    }

    /// What `runsc --version` must call itself.
    pub fn label(&self) -> String {
        format!("release-{}", self.release)
    }

    /// Where the project publishes the archive for a processor.
    pub fn url(&self, arch: Arch) -> String {
        format!(
            "https://github.com/google/gvisor/releases/download/release-{}/gvisor-{}.tar.zstd",
            self.release,
            arch.as_str()
        )
    }
}

/// The pinned Go module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModulePins {
    version: String,
    sum: String,
    go: GoVersion,
    toolchain_sum_x86_64: String,
    toolchain_sum_aarch64: String,
}

impl ModulePins {
    /// Those of this build.
    ///
    /// # Errors
    /// Never, as a test proves; the file is data all the same.
    pub fn built_in() -> Result<Self, PinsError> {
        Self::parse(MODULE)
    }

    /// Reads a data file.
    ///
    /// # Errors
    /// When a line is not one, or a value breaks its rule.
    pub fn parse(text: &str) -> Result<Self, PinsError> {
        let [version, sum, go, toolchain_sum_x86_64, toolchain_sum_aarch64] = values(
            text,
            ["version", "sum", "go", "toolchain_sum_x86_64", "toolchain_sum_aarch64"],
        )?;
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-');
        if !version.starts_with('v') || !version.chars().all(plain) {
            return refused(
                "version",
                version,
                "must be a module version, such as v0.0.0-20260905035102-160fafc42237",
            );
        }
        let sums = [
            ("sum", &sum),
            ("toolchain_sum_x86_64", &toolchain_sum_x86_64),
            ("toolchain_sum_aarch64", &toolchain_sum_aarch64),
        ];
        for (key, sum) in sums {
            // 32 bytes in base64, as Go writes its checksums.
            let digits = sum.strip_prefix("h1:").and_then(|rest| rest.strip_suffix('='));
            let base64 = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/');
            if !digits.is_some_and(|digits| digits.len() == 43 && digits.bytes().all(base64)) {
                return refused(
                    key,
                    sum.clone(),
                    "must be a checksum as Go writes it: h1: and 44 digits of base64",
                );
            }
        }
        let Some(go) = GoVersion::parse(&go) else {
            return refused("go", go, "must be a version of Go, such as 1.26.3");
        };
        Ok(Self {
            version,
            sum,
            go,
            toolchain_sum_x86_64,
            toolchain_sum_aarch64,
        })
    }

    /// The module's version, which `runsc --version` must call itself too.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Go's checksum of the module.
    pub fn sum(&self) -> &str {
        &self.sum
    }

    /// The oldest Go that builds it.
    pub(crate) fn go(&self) -> GoVersion {
        self.go
    }

    /// Go's checksum of that Go, as a module.
    pub(crate) fn toolchain_sum(&self, arch: Arch) -> &str {
        match arch {
            Arch::X86_64 => &self.toolchain_sum_x86_64,
            Arch::Aarch64 => &self.toolchain_sum_aarch64,
        }
    }
}

/// A version of Go. A release candidate counts as older than every release of its line that has a third number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct GoVersion([u32; 3]);

impl GoVersion {
    /// `1.26.3`, `1.26`, `1.26rc1`; what follows after a blank is not read.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let word = text.split_whitespace().next()?;
        let mut numbers = word.split('.').map(|part| {
            let end = part.find(|c: char| !c.is_ascii_digit()).unwrap_or(part.len());
            part.get(..end)?.parse().ok()
        });
        let (major, minor) = (numbers.next()??, numbers.next()??);
        Some(Self([major, minor, numbers.next().flatten().unwrap_or(0)]))
    }
}

impl fmt::Display for GoVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [major, minor, patch] = self.0;
        write!(f, "{major}.{minor}.{patch}")
    }
}

/// The values of exactly these keys, each on one line.
fn values<const N: usize>(text: &str, keys: [&'static str; N]) -> Result<[String; N], PinsError> {
    let mut found: [Option<&str>; N] = [None; N];
    for (index, line) in text.lines().enumerate() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (key, value) = line.split_once('=').ok_or(PinsError::Line(index + 1))?;
        let slot = keys
            .iter()
            .position(|known| *known == key)
            .ok_or_else(|| PinsError::Unknown {
                line: index + 1,
                key: key.to_owned(),
            })?;
        if found[slot].replace(value).is_some() {
            return Err(PinsError::Twice(keys[slot]));
        }
    }
    for (value, key) in found.iter().zip(keys) {
        if value.is_none() {
            return Err(PinsError::Missing(key));
        }
    }
    Ok(found.map(|value| value.unwrap_or_default().to_owned()))
}

fn is_release(text: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    text.split_once('.')
        .is_some_and(|(date, number)| date.len() == 8 && digits(date) && digits(number))
}

fn parse_executables(text: &str) -> Result<Vec<Executable>, PinsError> {
    const KEY: &str = "executables";
    let mut names: Vec<Executable> = Vec::new();
    for name in text.split(' ') {
        let base = name.strip_prefix(SIDECARS).unwrap_or(name);
        let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-');
        if base.is_empty() || !base.bytes().all(plain) {
            return refused(
                KEY,
                name.to_owned(),
                "a name has letters, digits, _ and - only, below gvisor-bin/ or beside it; one blank between two names",
            );
        }
        if names.iter().any(|known| known.as_str() == name) {
            return refused(KEY, name.to_owned(), "stands twice");
        }
        names.push(Executable(name.to_owned()));
    }
    if names.len() < MIN_EXECUTABLES || !names.iter().any(|name| name.as_str() == "runsc") {
        return refused(
            KEY,
            text.to_owned(),
            "must name at least three executables, runsc among them",
        );
    }
    Ok(names)
}

fn refused<T>(key: &'static str, value: String, rule: &'static str) -> Result<T, PinsError> {
    Err(PinsError::Value { key, value, rule })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The data file with one key's line replaced.
    fn archive_with(key: &str, line: &str) -> Result<ArchivePins, PinsError> {
        let lines: Vec<&str> = ARCHIVE
            .lines()
            .map(|old| if old.starts_with(&format!("{key}=")) { line } else { old })
            .collect();
        ArchivePins::parse(&lines.join("\n"))
    }

    #[test]
    fn the_built_in_files_are_well_formed() {
        let archive = ArchivePins::built_in().unwrap();
        assert_eq!(archive.label(), "release-20260907.0");
        assert_eq!(archive.executables().len(), 6);
        assert!(archive.sha512(Arch::X86_64).starts_with("0849") && archive.sha512(Arch::Aarch64).starts_with("05de"));
        assert!(
            archive
                .url(Arch::Aarch64)
                .ends_with("/release-20260907.0/gvisor-aarch64.tar.zstd")
        );
        let module = ModulePins::built_in().unwrap();
        assert_eq!(module.go().to_string(), "1.26.3");
        assert!(module.version().ends_with("-160fafc42237") && module.sum().starts_with("h1:AU5"));
    }

    #[test]
    fn a_release_is_a_date_and_a_number_and_nothing_a_shell_or_a_url_would_read() {
        for value in [
            "20260907",
            "2026090.0",
            "202609070.0",
            "20260907.",
            "20260907.0 ",
            "20260907.0/../x",
            "$(id).0",
            "",
        ] {
            let error = archive_with("release", &format!("release={value}")).unwrap_err();
            assert!(
                matches!(error, PinsError::Value { key: "release", .. }),
                "{value}: {error}"
            );
        }
        assert_eq!(
            archive_with("release", "release=20261231.12").unwrap().label(),
            "release-20261231.12"
        );
    }

    #[test]
    fn a_digest_is_128_lower_case_hex_digits() {
        for value in [
            "",
            &"a".repeat(127),
            &"a".repeat(129),
            &"A".repeat(128),
            &"g".repeat(128),
        ] {
            for key in ["sha512_x86_64", "sha512_aarch64"] {
                archive_with(key, &format!("{key}={value}")).unwrap_err();
            }
        }
    }

    #[test]
    fn an_executable_is_a_plain_name_beside_runsc_or_in_its_folder() {
        for list in [
            "runsc shim",
            "a b c",
            "runsc runsc shim more",
            "runsc shim ../evil",
            "runsc shim /bin/sh",
            "runsc shim gvisor-bin/",
            "runsc shim gvisor-bin/a/b",
            "runsc shim other/x",
            "runsc  shim more",
            "runsc shim a.b",
            "",
        ] {
            let error = archive_with("executables", &format!("executables={list}")).unwrap_err();
            assert!(
                matches!(error, PinsError::Value { key: "executables", .. }),
                "{list}: {error}"
            );
        }
        archive_with("executables", "executables=runsc shim gvisor-bin/more_1").unwrap();
    }

    #[test]
    fn every_key_stands_once_and_no_other_key_does() {
        assert_eq!(archive_with("release", "# none"), Err(PinsError::Missing("release")));
        let twice = format!("{ARCHIVE}release=20260907.0\n");
        assert_eq!(ArchivePins::parse(&twice), Err(PinsError::Twice("release")));
        let unknown = format!("{ARCHIVE}url=https://elsewhere.example\n");
        assert!(matches!(
            ArchivePins::parse(&unknown),
            Err(PinsError::Unknown { line: 6, .. })
        ));
        assert_eq!(ArchivePins::parse("release\n"), Err(PinsError::Line(1)));
        assert_eq!(
            archive_with("release", " release=20260907.0").unwrap_err().to_string(),
            "line 2: there is no key \" release\""
        );
    }

    #[test]
    fn a_module_has_a_version_and_checksums_as_go_writes_them() {
        for (key, value) in [
            ("version", "main"),
            ("version", "v1 -toolexec=x"),
            ("sum", "AU5+CtCvnBnxdZRNcZt1NfSLqgkXZVT3N/u6u1aXg44="),
            ("sum", "h1:AU5"),
            (
                "toolchain_sum_x86_64",
                "h1:*U5+CtCvnBnxdZRNcZt1NfSLqgkXZVT3N/u6u1aXg44=",
            ),
            ("go", "newest"),
        ] {
            let lines: Vec<String> = MODULE
                .lines()
                .map(|old| match old.split_once('=') {
                    Some((known, _)) if known == key => format!("{key}={value}"),
                    _ => old.to_owned(),
                })
                .collect();
            let error = ModulePins::parse(&lines.join("\n")).unwrap_err();
            assert!(
                matches!(error, PinsError::Value { key: of, .. } if of == key),
                "{key}={value}: {error}"
            );
        }
    }

    #[test]
    fn versions_of_go_are_compared_as_numbers() {
        let version = |text| GoVersion::parse(text).unwrap();
        assert!(version("1.26.10") > version("1.26.3") && version("1.27") > version("1.26.3"));
        assert!(version("1.26rc1") < version("1.26.3") && version("1.9") < version("1.26.3"));
        assert_eq!(version("1.26.8 X:nodwarf5").to_string(), "1.26.8");
        for text in ["", "devel", "1", "1.x"] {
            assert_eq!(GoVersion::parse(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn hostile_text_is_an_error_and_never_a_panic(text in "\\PC*(=|\n|#)\\PC*") {
            prop_assert!(ArchivePins::parse(&text).is_err());
            prop_assert!(ModulePins::parse(&text).is_err());
        }
    }
}
