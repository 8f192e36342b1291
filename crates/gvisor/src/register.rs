//! The entry in the engine's configuration file.
//!
//! The file is the operator's. What is changed is one member of one object; every other key keeps its place, its value and
//! the very text of its value. What cannot be changed without a guess is refused.

use std::fmt;
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use fs_err as fs;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use thiserror::Error;

/// The name of the runtime. The provider takes no other for gVisor.
pub const RUNTIME: &str = "runsc";
/// Lets a guest connect to a host socket that is mounted into its sandbox, and to nothing more. Without it every grant
/// fails while everything else works.
pub(crate) const HOST_UDS: &str = "--host-uds=open";

/// Why the engine's configuration was left as it was.
#[derive(Debug, Error)]
pub enum RegisterError {
    /// It cannot be read or replaced.
    #[error("the engine's configuration cannot be changed: {0}")]
    File(#[from] io::Error),
    /// It is not what an engine would take.
    #[error(
        "the engine's configuration is not a JSON object that can be changed: {0}. Correct it first; nothing was changed"
    )]
    Json(#[from] serde_json::Error),
    /// The entry is of the other kind.
    #[error(
        "the engine's configuration has a runtime {RUNTIME:?} with {0:?}, which cannot stand beside a path. Take that entry out first; nothing was changed"
    )]
    OtherKind(String),
    /// A path that JSON cannot hold.
    #[error("the path {} is not UTF-8, so the engine's configuration cannot name it", .0.display())]
    Path(PathBuf),
}

/// Registers the executable in a configuration file, and whether that changed it. The file is replaced in one step, with
/// its mode and owner kept; a link to it stays a link.
///
/// # Errors
/// When the file is not understood or cannot be replaced. It is then as it was.
pub(crate) fn register(config: &Path, runsc: &Path) -> Result<bool, RegisterError> {
    let (path, before) = match fs::canonicalize(config) {
        Ok(path) => (path.clone(), Some((fs::read_to_string(&path)?, fs::metadata(&path)?))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => (config.to_owned(), None),
        Err(error) => return Err(error.into()),
    };
    let text = before.as_ref().map_or("", |(text, _)| text.as_str());
    let Some(after) = merged(text, runsc)? else {
        return Ok(false);
    };
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(after.as_bytes())?;
    let (mode, owner) = match &before {
        Some((_, metadata)) => (metadata.mode() & 0o7777, Some((metadata.uid(), metadata.gid()))),
        None => (0o644, None),
    };
    if let Some((user, group)) = owner {
        std::os::unix::fs::fchown(file.as_file(), Some(user), Some(group))?;
    }
    file.as_file().set_permissions(std::fs::Permissions::from_mode(mode))?;
    file.as_file().sync_all()?;
    file.persist(&path).map_err(|error| error.error)?;
    fs::File::open(folder)?.sync_all()?;
    Ok(true)
}

/// The configuration `text` with the runtime `runsc` registered at this path, or `None` when it already is. Arguments that
/// the operator gave the runtime stay; of `--host-uds` only `open` does.
///
/// # Errors
/// When `text` is not a JSON object, holds a key twice, or has an entry that cannot be changed without a guess.
pub fn merged(text: &str, runsc: &Path) -> Result<Option<String>, RegisterError> {
    let text = if text.trim().is_empty() { "{}" } else { text };
    let path = runsc.to_str().ok_or_else(|| RegisterError::Path(runsc.to_owned()))?;
    let mut whole: Members<'_> = serde_json::from_str(text)?;
    let mut runtimes: Members<'_> = whole.member("runtimes")?;
    let mut entry: Members<'_> = runtimes.member(RUNTIME)?;
    if let Some(kind) = entry
        .0
        .iter()
        .map(|(name, _)| name)
        .find(|name| matches!(name.as_str(), "runtimeType" | "options"))
    {
        return Err(RegisterError::OtherKind(kind.clone()));
    }
    let old_path: Option<String> = entry.value("path")?;
    let old_args: Option<Vec<String>> = entry.value("runtimeArgs")?;
    let args = arguments(old_args.as_deref().unwrap_or_default());
    if old_path.as_deref() == Some(path) && old_args.as_ref() == Some(&args) {
        return Ok(None);
    }
    let indent = indent_of(text);
    entry.set("path", &serde_json::to_string(path)?)?;
    entry.set("runtimeArgs", &serde_json::to_string(&args)?)?;
    runtimes.set(RUNTIME, &entry.text(&indent, 2)?)?;
    whole.set("runtimes", &runtimes.text(&indent, 1)?)?;
    Ok(Some(whole.text(&indent, 0)? + "\n"))
}

/// The operator's arguments with our one in the place of every other word about host sockets.
fn arguments(old: &[String]) -> Vec<String> {
    let mut kept = Vec::new();
    let mut words = old.iter();
    while let Some(word) = words.next() {
        let flag = word
            .strip_prefix("--")
            .or_else(|| word.strip_prefix('-'))
            .unwrap_or_default();
        match flag.strip_prefix("host-uds") {
            // The value is the next word.
            Some("") => {
                words.next();
            }
            Some(value) if value.starts_with('=') => {}
            _ => kept.push(word.clone()),
        }
    }
    kept.push(HOST_UDS.to_owned());
    kept
}

/// The members of an object in their order, each value as the text it is written in.
#[derive(Debug, Default)]
struct Members<'a>(Vec<(String, Value<'a>)>);

#[derive(Debug)]
enum Value<'a> {
    Kept(&'a RawValue),
    New(Box<RawValue>),
}

impl Value<'_> {
    fn text(&self) -> &str {
        match self {
            Self::Kept(raw) => raw.get(),
            Self::New(raw) => raw.get(),
        }
    }
}

impl<'a> Members<'a> {
    fn raw(&self, name: &str) -> Option<&'a RawValue> {
        self.0.iter().find_map(|(key, value)| match value {
            Value::Kept(raw) if key == name => Some(*raw),
            _ => None,
        })
    }

    /// The object under a name; no object when there is none.
    fn member(&self, name: &str) -> Result<Members<'a>, serde_json::Error> {
        self.raw(name)
            .map_or_else(|| Ok(Members::default()), |raw| serde_json::from_str(raw.get()))
    }

    fn value<T: Deserialize<'a>>(&self, name: &str) -> Result<Option<T>, serde_json::Error> {
        self.raw(name).map(|raw| serde_json::from_str(raw.get())).transpose()
    }

    fn set(&mut self, name: &str, json: &str) -> Result<(), serde_json::Error> {
        let new = Value::New(RawValue::from_string(json.to_owned())?);
        match self.0.iter_mut().find(|(key, _)| key == name) {
            Some((_, value)) => *value = new,
            None => self.0.push((name.to_owned(), new)),
        }
        Ok(())
    }

    /// One member a line, `depth` levels in.
    fn text(&self, indent: &str, depth: usize) -> Result<String, serde_json::Error> {
        let lines: Vec<String> = self
            .0
            .iter()
            .map(|(name, value)| {
                let name = serde_json::to_string(name)?;
                Ok(format!("{}{name}: {}", indent.repeat(depth + 1), value.text()))
            })
            .collect::<Result<_, serde_json::Error>>()?;
        Ok(format!("{{\n{}\n{}}}", lines.join(",\n"), indent.repeat(depth)))
    }
}

impl<'a> Deserialize<'a> for Members<'a> {
    fn deserialize<D: Deserializer<'a>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;

        impl<'a> Visitor<'a> for InOrder {
            type Value = Members<'a>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members: Vec<(String, Value<'a>)> = Vec::new();
                while let Some((name, raw)) = map.next_entry::<String, &'a RawValue>()? {
                    // Readers disagree about which of two counts.
                    if members.iter().any(|(known, _)| *known == name) {
                        return Err(serde::de::Error::custom(format_args!("the key {name:?} stands twice")));
                    }
                    members.push((name, Value::Kept(raw)));
                }
                Ok(Members(members))
            }
        }

        deserializer.deserialize_map(InOrder)
    }
}

/// What the first member of the file is indented with; two blanks when that says nothing.
fn indent_of(text: &str) -> String {
    let inside = text.trim_start().strip_prefix('{').unwrap_or_default();
    let gap: String = inside.chars().take_while(|c| c.is_ascii_whitespace()).collect();
    match gap.rsplit_once('\n') {
        Some((_, indent)) if !indent.is_empty() && inside.len() > gap.len() => indent.to_owned(),
        _ => "  ".to_owned(),
    }
}

#[cfg(test)]
mod tests;
