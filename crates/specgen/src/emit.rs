//! The artifacts, byte for byte (spec 30 §12.4).

use std::collections::BTreeMap;
use std::fmt::Write as _;

use plimsoll_grants::{Method, Route};
use serde::Serialize;

use crate::generate::{Call, Generated};
use crate::mark::Health;
use crate::name;
use crate::template::Piece;
use crate::text::{indented, literal};

/// An artifact that can be printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Artifact {
    /// Every one, in sections.
    #[default]
    All,
    /// The allow list, a JSON array.
    Allow,
    /// The catalog; today the same as the allow list.
    Catalog,
    /// The JavaScript that adds one method for each operation.
    Preamble,
    /// What a model is told about the API.
    Description,
    /// The health probe, one line, or nothing.
    Health,
    /// Batch relations, a JSON object, or nothing.
    Batch,
    /// Everything as one JSON object.
    Json,
}

impl Artifact {
    /// The words of `-emit`.
    pub const WORDS: [(&'static str, Self); 8] = [
        ("all", Self::All),
        ("allow", Self::Allow),
        ("catalog", Self::Catalog),
        ("preamble", Self::Preamble),
        ("description", Self::Description),
        ("health", Self::Health),
        ("batch", Self::Batch),
        ("json", Self::Json),
    ];

    /// The artifact of a word.
    pub fn of_word(word: &str) -> Option<Self> {
        Self::WORDS
            .iter()
            .find(|(name, _)| *name == word)
            .map(|(_, artifact)| *artifact)
    }
}

/// A file of a folder of artifacts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Its name in the folder.
    pub name: &'static str,
    /// What it holds; none when there must be no such file.
    pub content: Option<String>,
}

#[derive(Serialize)]
struct Everything<'a> {
    title: &'a str,
    version: &'a str,
    global: &'a str,
    allow: Vec<String>,
    preamble: String,
    description: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    skipped: Vec<String>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    warnings: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    health_check: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    health_note: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    batch_of: Option<BTreeMap<String, Vec<String>>>,
}

#[derive(Serialize)]
struct Profiles<'a> {
    profiles: BTreeMap<&'a str, Skeleton>,
}

#[derive(Serialize)]
struct Skeleton {
    base_url: &'static str,
    allow: Vec<String>,
    catalog: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    health_check: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    batch_of: Option<BTreeMap<String, Vec<String>>>,
    allowed_callers: [&'static str; 0],
}

impl Generated {
    /// The bytes to print for one artifact.
    pub fn emit(&self, artifact: Artifact) -> String {
        match artifact {
            Artifact::All => self.sections(),
            Artifact::Allow | Artifact::Catalog => self.allow_json(),
            Artifact::Preamble => self.preamble(),
            Artifact::Description => self.description(),
            Artifact::Health => self.health_line().unwrap_or_default(),
            Artifact::Batch => self.batch_json().unwrap_or_default(),
            Artifact::Json => self.json(),
        }
    }

    /// A grants file with one profile, to which `base_url` and `allowed_callers` have to be added.
    pub fn profile(&self, name: &str) -> String {
        let skeleton = Skeleton {
            base_url: "",
            allow: self.allow_lines(),
            catalog: self.allow_lines(),
            health_check: self.health_check().map(Route::to_string),
            batch_of: self.batch_lines(),
            allowed_callers: [],
        };
        line(indented(&Profiles {
            profiles: BTreeMap::from([(name, skeleton)]),
        }))
    }

    /// The files of a folder of artifacts, the ones that must not be there included.
    pub fn files(&self) -> Vec<File> {
        let file = |name, content| File { name, content };
        vec![
            file("allow.json", Some(self.allow_json())),
            file("preamble.js", Some(self.preamble())),
            file("description.txt", Some(self.description())),
            file("health_check.txt", self.health_line()),
            file("batch_of.json", self.batch_json()),
        ]
    }

    /// Why there is no health probe; none when there is one.
    pub fn health_note(&self) -> Option<&str> {
        match &self.health {
            Health::Probe(_) => None,
            Health::Unset(why) => Some(why),
        }
    }

    fn sections(&self) -> String {
        let mut text = format!(
            "=== allow ===\n{}=== preamble ===\n{}=== description ===\n{}",
            self.allow_json(),
            self.preamble(),
            self.description()
        );
        for (name, section) in [("health_check", self.health_line()), ("batch_of", self.batch_json())] {
            if let Some(section) = section {
                // Writing to a String cannot fail.
                let _ = write!(text, "=== {name} ===\n{section}");
            }
        }
        text
    }

    fn json(&self) -> String {
        line(indented(&Everything {
            title: &self.title,
            version: &self.version,
            global: &self.global,
            allow: self.allow_lines(),
            preamble: self.preamble(),
            description: self.description(),
            skipped: self
                .skipped
                .iter()
                .map(|skip| format!("{}: {}", skip.operation, skip.reason))
                .collect(),
            warnings: &self.warnings,
            health_check: self.health_check().map(Route::to_string),
            health_note: self.health_note(),
            batch_of: self.batch_lines(),
        }))
    }

    fn allow_lines(&self) -> Vec<String> {
        self.allow.iter().map(Route::to_string).collect()
    }

    fn allow_json(&self) -> String {
        line(indented(&self.allow_lines()))
    }

    fn health_line(&self) -> Option<String> {
        self.health_check().map(|route| format!("{route}\n"))
    }

    fn batch_json(&self) -> Option<String> {
        self.batch_lines().map(|batches| line(indented(&batches)))
    }

    fn batch_lines(&self) -> Option<BTreeMap<String, Vec<String>>> {
        let lines: BTreeMap<String, Vec<String>> = self
            .batch_of
            .iter()
            .map(|(route, served)| (route.to_string(), served.iter().map(Route::to_string).collect()))
            .collect();
        (!lines.is_empty()).then_some(lines)
    }

    /// One line for each operation and five around them.
    fn preamble(&self) -> String {
        let mut script = format!(
            "// plimsoll-specgen output for {}, version {}; regenerate instead of editing\n;(function () {{\n  const h = \
             globalThis[{}];\n  if (!h) return;\n",
            literal(&self.title),
            literal(&self.version),
            literal(&self.global)
        );
        for call in &self.calls {
            call.write_method(&mut script);
        }
        script.push_str("})();\n");
        script
    }

    fn description(&self) -> String {
        let title = match self.title.as_str() {
            "" => "host API",
            title => title,
        };
        let version = match self.version.as_str() {
            "" => String::new(),
            version => format!(" (v{version})"),
        };
        let global = self.global_expression();
        let mut text = format!(
            "{title}{version}.\nCode reaches this API through {global}.*. Only the operations listed here are permitted; every \
             other request is refused. Credentials are attached outside the code, which never sees them.\n\n"
        );
        for call in &self.calls {
            let (name, arguments) = (&call.name, call.arguments.join(", "));
            let (method, path) = (call.method, &call.path);
            // Writing to a String cannot fail.
            let _ = writeln!(text, "  {global}.{name}({arguments})  ->  {method} {path}");
            if !call.summary.is_empty() {
                let _ = writeln!(text, "      {}", call.summary);
            }
        }
        text
    }

    /// How code names the global: its name, or a quoted form when that is no identifier.
    fn global_expression(&self) -> String {
        if name::identifier(&self.global) == self.global {
            self.global.clone()
        } else {
            format!("globalThis[{}]", literal(&self.global))
        }
    }
}

impl Call {
    fn write_method(&self, script: &mut String) {
        let verb = match self.method {
            Method::Get => "get",
            Method::Put => "put",
            Method::Post => "post",
            Method::Delete => "del",
            Method::Patch => "patch",
        };
        let path: Vec<String> = self
            .pieces
            .iter()
            .map(|piece| match piece {
                Piece::Literal(text) => literal(text),
                Piece::Argument(index) => self.arguments[*index].clone(),
            })
            .collect();
        let body = if self.has_body { ", body" } else { "" };
        // Writing to a String cannot fail.
        let _ = writeln!(
            script,
            "  h[{}] = ({}) => h.{verb}({}{body});",
            literal(&self.name),
            self.arguments.join(", "),
            path.join(" + ")
        );
    }
}

fn line(mut text: String) -> String {
    text.push('\n');
    text
}
