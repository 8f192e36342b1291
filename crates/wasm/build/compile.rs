//! C to one WebAssembly module, with Debian's clang. Objects are cached by content, so a change of the JavaScript compiles
//! one small file.
//!
//! The bytes depend on sources and compiler alone: sources are copied into one folder and named relatively there, there is
//! no debug information, and objects are linked in name order.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};
use sha2::{Digest as _, Sha256};

use crate::{hex, patch, write_if_changed};

const CLANG: &str = "clang-14";
const INCLUDE: &str = "/usr/include/wasm32-wasi";
const LIBRARIES: &str = "/usr/lib/wasm32-wasi";
const BUILTINS: &str = "/usr/lib/llvm-14/lib/clang/14.0.6/lib/wasi/libclang_rt.builtins-wasm32.a";
const PACKAGES: &str = "clang-14 lld-14 wasi-libc libclang-rt-14-dev-wasm32";

/// QuickJS's own files; the rest of its folder is tools and tests.
const QUICKJS_SOURCES: [&str; 4] = ["dtoa.c", "libregexp.c", "libunicode.c", "quickjs.c"];

/// Bytes of linear stack. The shim lets JavaScript use 4 MiB of it (`STACK_LIMIT`); the rest is for C below the last check.
/// It lies at the bottom of memory, so running past it is a trap and never a write into data.
const LINEAR_STACK: u32 = 5 << 20;

const COMMON_FLAGS: [&str; 15] = [
    "--target=wasm32-wasi",
    "-O2",
    "-std=gnu11",
    "-nostdlibinc",
    "-isystem",
    INCLUDE,
    "-I.",
    "-D_GNU_SOURCE",
    // Assertions and dump functions would pull in stdio, and with it WASI imports.
    "-DNDEBUG",
    // No bulk memory: one `memory.fill` over all of a run's memory would hold its thread for half a second, and nothing can
    // interrupt an instruction. The library's loops can be interrupted.
    "-mno-bulk-memory",
    "-mnontrapping-fptoint",
    "-msign-ext",
    "-fno-strict-aliasing",
    "-ffunction-sections",
    "-fdata-sections",
];

const OUR_FLAGS: [&str; 3] = ["-Wall", "-Wextra", "-Werror"];

const QUICKJS_FLAGS: [&str; 5] = [
    // WebAssembly rounds to nearest and knows no other mode; QuickJS names them without using them there.
    "-DFE_DOWNWARD=0",
    "-DFE_UPWARD=0",
    "-include",
    "nothreads.h",
    "-w",
];

/// The compiler, checked to be complete.
#[derive(Debug)]
pub(crate) struct Toolchain {
    version: String,
}

impl Toolchain {
    /// Finds Debian's clang and the WebAssembly libraries, or names the packages that hold them.
    pub(crate) fn find() -> Result<Self> {
        let mut missing = Vec::new();
        let version = Command::new(CLANG).arg("--version").output();
        if version.is_err() {
            missing.push(CLANG);
        }
        for path in [INCLUDE, LIBRARIES, BUILTINS, "/usr/bin/wasm-ld-14"] {
            if !Path::new(path).exists() {
                missing.push(path);
            }
        }
        ensure!(
            missing.is_empty(),
            "the wasm engine is compiled from C and this host lacks {}; on Debian 12: apt-get install {PACKAGES}",
            missing.join(", ")
        );
        let version = String::from_utf8_lossy(&version.context("asking clang for its version")?.stdout).into_owned();
        Ok(Self { version })
    }

    fn run<S: AsRef<OsStr>>(&self, folder: &Path, arguments: impl IntoIterator<Item = S>) -> Result<()> {
        let output = Command::new(CLANG)
            .current_dir(folder)
            .args(arguments)
            .output()
            .context("starting clang")?;
        if !output.status.success() {
            bail!(
                "{} failed:\n{}",
                self.version.lines().next().unwrap_or(CLANG),
                String::from_utf8_lossy(&output.stderr)
            );
        }
        Ok(())
    }
}

/// Copies QuickJS (patched) and our C files into `folder`, and removes what is no longer among them.
pub(crate) fn collect_sources(guest: &Path, quickjs: &Path, folder: &Path) -> Result<()> {
    let mut files = BTreeMap::new();
    read_c_files(quickjs, &mut files, |name| {
        name.ends_with(".h") || QUICKJS_SOURCES.contains(&name)
    })?;
    patch::apply(&patch::read_folder(&guest.join("patches"))?, &mut files)?;
    read_c_files(guest, &mut files, |name| name.ends_with(".h") || name.ends_with(".c"))?;
    fs::create_dir_all(folder)?;
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let known = path
            .file_name()
            .and_then(OsStr::to_str)
            .is_some_and(|name| files.contains_key(name));
        if !known && !path.ends_with("modules.c") {
            fs::remove_file(&path)?;
        }
    }
    for (name, text) in &files {
        write_if_changed(&folder.join(name), text.as_bytes())?;
    }
    Ok(())
}

fn read_c_files(folder: &Path, files: &mut BTreeMap<String, String>, wanted: impl Fn(&str) -> bool) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))? {
        let path = entry?.path();
        if let Some(name) = path.file_name().and_then(OsStr::to_str).filter(|name| wanted(name)) {
            let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
            ensure!(
                files.insert(name.to_owned(), text).is_none(),
                "{name} exists in QuickJS and in guest/quickjs"
            );
        }
    }
    Ok(())
}

/// Compiles every C file of `sources` and links them to `output`.
pub(crate) fn compile(toolchain: &Toolchain, sources: &Path, objects: &Path, output: &Path) -> Result<()> {
    fs::create_dir_all(objects)?;
    let mut names = Vec::new();
    let mut headers = Sha256::new();
    let mut entries: Vec<PathBuf> = fs::read_dir(sources)?
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<_>>()?;
    entries.sort();
    for path in entries {
        let name = path
            .file_name()
            .and_then(OsStr::to_str)
            .context("a C file with a strange name")?
            .to_owned();
        if name.ends_with(".h") {
            headers.update(name.as_bytes());
            headers.update(fs::read(&path)?);
        } else {
            names.push(name);
        }
    }
    let headers = headers.finalize();

    let mut linked = Vec::new();
    for name in names {
        let mut flags: Vec<&str> = COMMON_FLAGS.to_vec();
        if QUICKJS_SOURCES.contains(&name.as_str()) {
            flags.extend(QUICKJS_FLAGS);
        } else {
            flags.extend(OUR_FLAGS);
        }
        let object = objects.join(format!("{name}.o"));
        let key_file = objects.join(format!("{name}.key"));
        let key = hex(&Sha256::new()
            .chain_update(toolchain.version.as_bytes())
            .chain_update(flags.join(" ").as_bytes())
            .chain_update(headers)
            .chain_update(fs::read(sources.join(&name))?)
            .finalize());
        if !object.exists() || fs::read_to_string(&key_file).ok().as_deref() != Some(key.as_str()) {
            flags.extend(["-c", &name, "-o"]);
            let mut arguments: Vec<&OsStr> = flags.iter().map(OsStr::new).collect();
            arguments.push(object.as_os_str());
            toolchain.run(sources, arguments)?;
            fs::write(key_file, key)?;
        }
        linked.push(object);
    }

    let stack = format!("-Wl,-z,stack-size={LINEAR_STACK}");
    let mut arguments: Vec<&OsStr> = [
        "--target=wasm32-wasi",
        "-mexec-model=reactor",
        "-nodefaultlibs",
        "-L",
        LIBRARIES,
    ]
    .into_iter()
    .chain(["-Wl,--gc-sections", "-Wl,--stack-first", "-Wl,--strip-all", &stack])
    .map(OsStr::new)
    .collect();
    // The start file is the only thing clang would look for below a sysroot.
    arguments.extend(["--sysroot=/usr", "-o"].map(OsStr::new));
    arguments.push(output.as_os_str());
    arguments.extend(linked.iter().map(|object| object.as_os_str()));
    arguments.extend(["-lc", BUILTINS].map(OsStr::new));
    toolchain.run(objects, arguments)
}
