//! The JavaScript of the image: reads the manifest, patches third-party modules and writes the C table that the shim loads
//! modules from while the image is built (format: `guest/quickjs/README.md`).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};

use crate::patch;

const THIRD_PARTY: &str = "wasm-rquickjs:";

/// One module of the image.
#[derive(Debug)]
pub(crate) struct Module {
    name: String,
    source: String,
}

/// Reads the modules the manifest names, in its order; the first is the entry.
pub(crate) fn load(guest: &Path, node_modules: &Path) -> Result<Vec<Module>> {
    let manifest_path = guest.join("js/manifest.txt");
    let manifest =
        fs::read_to_string(&manifest_path).with_context(|| format!("reading {}", manifest_path.display()))?;
    let mut entries: Vec<(&str, &str)> = Vec::new();
    let mut names = BTreeSet::new();
    for line in manifest
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
    {
        let (name, source) = line
            .split_once(char::is_whitespace)
            .with_context(|| format!("manifest line without a source: {line}"))?;
        ensure!(names.insert(name), "the manifest names module {name} twice");
        entries.push((name, source.trim()));
    }
    ensure!(!entries.is_empty(), "the manifest names no module");

    let mut third_party = BTreeMap::new();
    for path in entries
        .iter()
        .filter_map(|(_, source)| source.strip_prefix(THIRD_PARTY))
    {
        third_party.insert(path.to_owned(), read(&node_modules.join(path))?);
    }
    patch::apply(&patch::read_folder(&guest.join("js/patches"))?, &mut third_party)?;

    entries
        .into_iter()
        .map(|(name, source)| {
            let source = match source.strip_prefix(THIRD_PARTY) {
                Some(path) => third_party[path].clone(),
                None => read(&guest.join(source))?,
            };
            ensure!(!source.contains('\0'), "module {name} contains a NUL");
            Ok(Module {
                name: name.to_owned(),
                source,
            })
        })
        .collect()
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))
}

/// The table as C. The texts are writable, because the shim wipes them before the snapshot.
pub(crate) fn c_table(modules: &[Module]) -> String {
    let mut text = String::from("#include \"shim.h\"\n\n");
    for (index, module) in modules.iter().enumerate() {
        let _ = write!(text, "static char source_{index}[] =");
        for line in module.source.split_inclusive('\n') {
            text.push_str("\n\"");
            for &byte in line.as_bytes() {
                match byte {
                    b'"' | b'\\' => {
                        text.push('\\');
                        text.push(char::from(byte));
                    }
                    // A trigraph would change the text.
                    b'?' => text.push_str("\\?"),
                    b' '..=b'~' => text.push(char::from(byte)),
                    _ => {
                        let _ = write!(text, "\\{byte:03o}");
                    }
                }
            }
            text.push('"');
        }
        text.push_str("\"\";\n\n");
    }
    text.push_str("PlimsollModule plimsoll_modules[] = {\n");
    for (index, module) in modules.iter().enumerate() {
        let _ = writeln!(
            text,
            "    {{ \"{}\", source_{index}, sizeof source_{index} - 1, NULL }},",
            module.name
        );
    }
    text.push_str("};\n\nconst size_t plimsoll_module_count = sizeof plimsoll_modules / sizeof plimsoll_modules[0];\n");
    text
}
