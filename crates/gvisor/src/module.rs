//! Builds `runsc` from its Go module.
//!
//! The module's checksum is compared with the pinned one before anything of it is compiled. Its dependencies are those its
//! pinned `go.mod` names, and Go compares each with its checksum database; where the host has that switched off, nothing
//! is built. Go gets an environment of its own, so that no setting of the operator's changes what is built, only where it
//! is fetched from.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fs_err as fs;
use plimsoll_core::vars::Lookup;
use serde::Deserialize;
use thiserror::Error;

use crate::pins::{Arch, GoVersion, ModulePins};
use crate::process::{ProcessError, Program};

const MODULE: &str = "gvisor.dev/gvisor";
/// About 90 s on two processors; a slow machine on a slow line may take far longer.
const BUILD_WITHIN: Duration = Duration::from_secs(1800);
/// The variables of the operator's that reach Go: where the network is, and whom it trusts.
const PASSED_ON: [&str; 8] = [
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
];

/// Why there is no `runsc` of the module.
#[derive(Debug, Error)]
pub enum ModuleError {
    /// Nothing to build with.
    #[error(
        "no Go is on this host, and building gVisor's module needs one: any version from 1.19 on fetches the one it needs (on Debian: apt-get install golang-1.19-go)"
    )]
    NoGo,
    /// Go fails, in its own words.
    #[error("Go fails: {0}")]
    Go(#[from] ProcessError),
    /// Go's answer is not what it promises to be.
    #[error("Go answers something that cannot be understood: {0}")]
    Answer(#[from] serde_json::Error),
    /// Nothing would vouch for the dependencies.
    #[error(
        "GOSUMDB is off on this host, and the dependencies of gVisor are compared with Go's checksum database; switch it on for this command: GOSUMDB=sum.golang.org"
    )]
    NoChecksums,
    /// Other bytes than the pinned ones.
    #[error("{what} has the checksum {found}, and {expected} is pinned. Nothing of it was built")]
    Sum {
        /// The module and its version.
        what: String,
        /// What Go found.
        found: String,
        /// What is pinned.
        expected: String,
    },
    /// The folder it is built in.
    #[error("the build folder cannot be used: {0}")]
    Folder(#[from] io::Error),
}

/// What `go mod download -json` says.
#[derive(Deserialize)]
struct Download {
    #[serde(rename = "Sum", default)]
    sum: String,
    #[serde(rename = "Dir", default)]
    folder: PathBuf,
}

/// What `go env -json` says of what the operator chose.
#[derive(Deserialize)]
struct Chosen {
    #[serde(rename = "GOVERSION", default)]
    version: String,
    #[serde(rename = "GOPROXY", default)]
    proxy: String,
    #[serde(rename = "GOSUMDB", default)]
    checksums: String,
}

/// Builds the pinned module below `staging` and returns the folder that holds `runsc`. `say` hears what takes long.
///
/// # Errors
/// When there is no Go, a checksum is another one, or the build fails.
pub(crate) fn build(
    pins: &ModulePins,
    arch: Arch,
    staging: &Path,
    lookup: &dyn Lookup,
    say: &mut dyn FnMut(&str),
) -> Result<PathBuf, ModuleError> {
    let (go, chosen) = find_go(
        lookup,
        &["/usr/local/go/bin", "/usr/lib/go/bin", "/usr/lib/go-1.19/bin"],
    )?;
    if chosen.checksums == "off" {
        return Err(ModuleError::NoChecksums);
    }
    let have = version(&chosen);
    let mut builder = Builder::new(go, &chosen, staging, lookup)?;
    if have < Some(pins.go()) {
        say(&format!("fetching Go {}: {} is here", pins.go(), chosen.version));
        let toolchain = format!("golang.org/toolchain@v0.0.1-go{}.linux-{}", pins.go(), arch.go());
        let folder = builder.download(&toolchain, pins.toolchain_sum(arch))?;
        make_executable(&folder)?;
        builder.go = folder.join("bin/go");
    }
    say(&format!("fetching {MODULE} {}", pins.version()));
    builder.download(&format!("{MODULE}@{}", pins.version()), pins.sum())?;
    say("building runsc; about 90 s on two processors");
    builder.install(pins.version())?;
    Ok(staging.join("bin"))
}

/// The first Go on the search path or in the usual places, and what it says of itself.
fn find_go(lookup: &dyn Lookup, usual: &[&str]) -> Result<(PathBuf, Chosen), ModuleError> {
    let path = lookup.get("PATH").unwrap_or_default();
    let folders = std::env::split_paths(path).chain(usual.iter().map(PathBuf::from));
    let mut found = folders
        .map(|folder| folder.join("go"))
        .filter(|go| go.is_absolute() && go.is_file());
    let go = found.next().ok_or(ModuleError::NoGo)?;
    let mut ask = Program::new(&go, ["env", "-json", "GOVERSION", "GOPROXY", "GOSUMDB"]);
    // The operator's own environment: this is where the choices are. No toolchain is fetched for a question.
    ask.environment = lookup
        .entries()
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .chain([("GOTOOLCHAIN".into(), "local".into())])
        .collect();
    let chosen = serde_json::from_slice(&ask.answer()?)?;
    Ok((go, chosen))
}

fn version(chosen: &Chosen) -> Option<GoVersion> {
    GoVersion::parse(chosen.version.strip_prefix("go")?)
}

/// Go, and the only environment it is run in.
struct Builder<'a> {
    go: PathBuf,
    environment: Vec<(OsString, OsString)>,
    staging: &'a Path,
}

impl<'a> Builder<'a> {
    fn new(go: PathBuf, chosen: &Chosen, staging: &'a Path, lookup: &dyn Lookup) -> Result<Self, ModuleError> {
        let below = |name: &str| staging.join(name).into_os_string();
        for folder in ["temporary", "home"] {
            fs::create_dir_all(staging.join(folder))?;
        }
        let own: [(&str, OsString); 19] = [
            ("HOME", below("home")),
            ("TMPDIR", below("temporary")),
            ("GOPATH", below("go")),
            ("GOMODCACHE", below("go/modules")),
            ("GOCACHE", below("cache")),
            ("GOBIN", below("bin")),
            // Where `go env -w` writes: not read here.
            ("GOENV", "off".into()),
            // Not `-mod`, `-toolexec` or `-overlay` of somebody's: the module as it is. Writable, so that it can be removed.
            ("GOFLAGS", "-modcacherw".into()),
            ("GOTOOLCHAIN", "local".into()),
            ("GOWORK", "off".into()),
            ("GO111MODULE", "on".into()),
            ("CGO_ENABLED", "0".into()),
            ("GOPROXY", (&chosen.proxy).into()),
            ("GOSUMDB", (&chosen.checksums).into()),
            // No module is exempt from the checksums, and none is fetched without TLS.
            ("GOPRIVATE", "".into()),
            ("GONOSUMDB", "".into()),
            ("GONOSUMCHECK", "".into()),
            ("GOINSECURE", "".into()),
            // Only a proxy serves; what a proxy does not have is not looked for in repositories.
            ("GOVCS", "*:off".into()),
        ];
        let passed = PASSED_ON
            .iter()
            .filter_map(|name| Some((OsString::from(name), lookup.get(name)?.to_owned())));
        Ok(Self {
            go,
            environment: own
                .into_iter()
                .map(|(name, value)| (name.into(), value))
                .chain(passed)
                .collect(),
            staging,
        })
    }

    fn go<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Result<Vec<u8>, ProcessError> {
        let mut program = Program::new(&self.go, args);
        program.environment.clone_from(&self.environment);
        // Outside any module of somebody's.
        program.folder = self.staging;
        program.deadline = BUILD_WITHIN;
        program.answer()
    }

    /// The folder of a module whose checksum is the expected one.
    fn download(&self, module: &str, expected: &str) -> Result<PathBuf, ModuleError> {
        let download: Download = serde_json::from_slice(&self.go(["mod", "download", "-json", module])?)?;
        if download.sum != expected {
            return Err(ModuleError::Sum {
                what: module.to_owned(),
                found: download.sum,
                expected: expected.to_owned(),
            });
        }
        Ok(download.folder)
    }

    fn install(&self, version: &str) -> Result<(), ModuleError> {
        let flags = format!("-s -w -X {MODULE}/runsc/version.version={version}");
        let package = format!("{MODULE}/runsc@{version}");
        self.go(["install", "-trimpath", "-ldflags", &flags, &package])?;
        Ok(())
    }
}

/// A toolchain that comes as a module has lost its executable bits.
fn make_executable(toolchain: &Path) -> io::Result<()> {
    let mut folders = vec![toolchain.join("bin")];
    for platform in fs::read_dir(toolchain.join("pkg/tool"))? {
        folders.push(platform?.path());
    }
    for folder in folders {
        for file in fs::read_dir(folder)? {
            fs::set_permissions(file?.path(), std::fs::Permissions::from_mode(0o755))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
