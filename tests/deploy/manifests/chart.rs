//! The chart, rendered by Go's template language (tests/deploy/render).

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

/// The folder of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A variable that `./test deploy` sets.
#[expect(clippy::disallowed_methods, reason = "the suite hands its tools over by variables")]
pub(crate) fn tool(variable: &str) -> String {
    std::env::var(variable).unwrap_or_else(|_| panic!("{variable} is not set: `./test deploy` runs these tests"))
}

#[expect(clippy::disallowed_methods, reason = "this suite starts the programs it judges")]
pub(crate) fn program(path: &str) -> Command {
    let mut command = Command::new(path);
    command.env_clear();
    command
}

/// The documents of a text.
pub(crate) fn documents(text: &str) -> Vec<Value> {
    serde_saphyr::from_multiple(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// The documents of a file of the repository.
pub(crate) fn file(path: &str) -> Vec<Value> {
    documents(&text(path))
}

/// A file of the repository.
pub(crate) fn text(path: &str) -> String {
    fs_err::read_to_string(root().join(path)).unwrap()
}

/// The values of the chart, with some of them replaced.
pub(crate) fn values(replaced: &Value) -> Value {
    let mut values = file("deploy/helm/plimsoll/values.yaml").remove(0);
    merge(&mut values, replaced);
    values
}

/// As Helm does it: objects are merged, anything else is replaced.
fn merge(onto: &mut Value, from: &Value) {
    match (onto, from) {
        (Value::Object(onto), Value::Object(from)) => {
            for (name, value) in from {
                merge(onto.entry(name.clone()).or_insert(Value::Null), value);
            }
        }
        (onto, from) => *onto = from.clone(),
    }
}

/// The templates of the chart by name.
pub(crate) fn templates() -> BTreeMap<String, String> {
    let folder = root().join("deploy/helm/plimsoll/templates");
    let entries = fs_err::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries
        .map(|path| {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            (name, fs_err::read_to_string(path).unwrap())
        })
        .collect()
}

/// Renders templates under a release name, as `helm template` would.
///
/// # Errors
/// What the renderer objects to.
pub(crate) fn rendered(
    release: &str,
    templates: &BTreeMap<String, String>,
    replaced: &Value,
) -> Result<String, String> {
    let chart = file("deploy/helm/plimsoll/Chart.yaml").remove(0);
    let input = json!({
        "templates": templates,
        "context": {
            "Values": values(replaced),
            "Release": {"Name": release, "Namespace": "plimsoll", "Service": "Helm"},
            "Chart": {
                "Name": chart["name"],
                "Version": chart["version"],
                "AppVersion": chart["appVersion"],
            },
        },
    });
    let mut renderer = program(&tool("PLIMSOLL_CHART_RENDERER"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    renderer
        .stdin
        .take()
        .unwrap()
        .write_all(input.to_string().as_bytes())
        .unwrap();
    let done = renderer.wait_with_output().unwrap();
    if done.status.success() {
        Ok(String::from_utf8(done.stdout).unwrap())
    } else {
        Err(String::from_utf8(done.stderr).unwrap())
    }
}

/// The objects that the chart makes; its notes are read by people and left out.
pub(crate) fn objects(release: &str, replaced: &Value) -> Vec<Value> {
    let mut templates = templates();
    templates.remove("NOTES.txt").unwrap();
    documents(&rendered(release, &templates, replaced).unwrap())
}
