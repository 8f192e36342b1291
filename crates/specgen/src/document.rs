//! The document as the generator sees it: a checked head and a list of operations.

use std::collections::BTreeMap;

use plimsoll_grants::Method;

use crate::problem::{Problems, Refused, quoted};
use crate::reference;
use crate::tree::{MAX_DOCUMENT_BYTES, Map, Node};
use crate::{json, yaml};

/// Parameters and batch entries looked at in one document, shared ones counted for each operation. The largest real
/// document has some 10,000; without a bound a small hostile one can ask for billions.
const MAX_LOOKED_AT: usize = 1_000_000;

/// How many parameters and batch entries were looked at.
#[derive(Debug, Default)]
pub(crate) struct LookedAt(usize);

impl LookedAt {
    fn add(&mut self, more: usize) -> Result<(), Refused> {
        self.0 += more;
        if self.0 > MAX_LOOKED_AT {
            return Err(Refused::one(format!(
                "the operations have more than {MAX_LOOKED_AT} parameters and batch entries in all; choose some with -only"
            )));
        }
        Ok(())
    }
}

/// A document that was read and whose head is well-formed.
#[derive(Debug)]
pub(crate) struct Document {
    root: Map,
    pub(crate) title: String,
    pub(crate) version: String,
}

/// A key of a path item that holds an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Verb {
    Granted(Method),
    /// A verb no grant can hold.
    Other(&'static str),
}

impl Verb {
    /// In the order operations are listed, with their keys.
    const ALL: [(&'static str, Self); 9] = [
        ("get", Self::Granted(Method::Get)),
        ("put", Self::Granted(Method::Put)),
        ("post", Self::Granted(Method::Post)),
        ("delete", Self::Granted(Method::Delete)),
        ("patch", Self::Granted(Method::Patch)),
        ("head", Self::Other("HEAD")),
        ("options", Self::Other("OPTIONS")),
        ("trace", Self::Other("TRACE")),
        ("query", Self::Other("QUERY")),
    ];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Granted(method) => method.as_str(),
            Self::Other(verb) => verb,
        }
    }
}

/// One operation, not yet checked beyond being an object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operation<'d> {
    pub(crate) path: &'d str,
    pub(crate) verb: Verb,
    item: &'d Map,
    node: &'d Map,
}

/// Where a parameter travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Location {
    Cookie,
    Header,
    Path,
    Query,
}

impl Location {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Cookie => "cookie",
            Self::Header => "header",
            Self::Path => "path",
            Self::Query => "query",
        }
    }
}

/// The parameters of an operation by location and name, and whether each is required.
pub(crate) type Parameters<'d> = BTreeMap<(Location, &'d str), bool>;

impl Document {
    /// Reads JSON when the first byte that is not blank opens an object or an array, YAML otherwise. A title or version
    /// that would break a line becomes a problem.
    ///
    /// # Errors
    /// Too large, not UTF-8, not well-formed, or not OpenAPI 3: nothing more can be said about it.
    pub(crate) fn read(bytes: &[u8], problems: &mut Problems) -> Result<Self, Refused> {
        let root = parse(bytes).map_err(Refused::one)?;
        let Node::Map(root) = root else {
            return Err(Refused::one(format!(
                "the document must be an object, not {}",
                root.kind()
            )));
        };
        check_openapi(&root).map_err(Refused::one)?;
        let info = object(&root, "info", "the document", problems);
        let mut line = |key: &str| {
            info.and_then(|info| source_text(info, key, "info", problems))
                .map(|text| text.trim().to_owned())
                .inspect(|text| {
                    if text.contains(breaks_a_line) {
                        problems.push(format!(
                            "info.{key} holds a control character or a line separator; write it on one line"
                        ));
                    }
                })
                .unwrap_or_default()
        };
        let (title, version) = (line("title"), line("version"));
        Ok(Self { root, title, version })
    }

    /// Every operation, sorted by the bytes of its path, then by verb. What is malformed becomes a problem, and so does a
    /// document without any path.
    pub(crate) fn operations(&self, problems: &mut Problems) -> Vec<Operation<'_>> {
        let paths = match self.root.get("paths") {
            None | Some(Node::Null) => None,
            Some(Node::Map(paths)) => Some(paths),
            Some(other) => {
                problems.push(format!("paths of the document must be an object, not {}", other.kind()));
                return Vec::new();
            }
        };
        let mut operations = Vec::new();
        let mut any = false;
        // Keys with x- are extensions, also in this object.
        for (path, item) in paths.into_iter().flatten().filter(|(path, _)| !path.starts_with("x-")) {
            any = true;
            if path.contains(breaks_a_line) {
                problems.push(format!(
                    "the path {path:?} holds a control character or a line separator; remove it"
                ));
                continue;
            }
            match item {
                Node::Null => {}
                Node::Map(item) => self.operations_of(path, item, &mut operations, problems),
                other => problems.push(format!("{path}: a path item must be an object, not {}", other.kind())),
            }
        }
        if !any {
            problems.push("the document has no paths; a grant needs at least one operation");
        }
        operations
    }

    fn operations_of<'d>(
        &'d self,
        path: &'d str,
        item: &'d Map,
        operations: &mut Vec<Operation<'d>>,
        problems: &mut Problems,
    ) {
        let verbs = Verb::ALL.iter().map(|(key, _)| *key);
        if item.contains_key("$ref")
            && let Some(key) = verbs.chain(["parameters"]).find(|key| item.contains_key(*key))
        {
            problems.push(format!(
                "{path}: a path item with $ref and {key} can be read in two ways; keep one of them"
            ));
            return;
        }
        let item = match reference::resolve(&self.root, item) {
            Ok(item) => item,
            Err(problem) => {
                problems.push(format!("{path}: {problem}"));
                return;
            }
        };
        for (key, verb) in Verb::ALL {
            match item.get(key) {
                None | Some(Node::Null) => {}
                Some(Node::Map(node)) => operations.push(Operation { path, verb, item, node }),
                Some(other) => problems.push(format!(
                    "{} {path}: an operation must be an object, not {}",
                    verb.as_str(),
                    other.kind()
                )),
            }
        }
    }

    /// The URLs of `servers` at the top, with their variables.
    pub(crate) fn servers(&self) -> Option<&Node> {
        self.root.get("servers")
    }

    /// The parameters of an operation: those of its path, then its own; the later one of a location and name wins.
    ///
    /// # Errors
    /// More parameters than are looked at in one document.
    pub(crate) fn parameters<'d>(
        &'d self,
        operation: &Operation<'d>,
        looked_at: &mut LookedAt,
        problems: &mut Problems,
    ) -> Result<Parameters<'d>, Refused> {
        let place = operation.place();
        let mut parameters = Parameters::new();
        for owner in [operation.item, operation.node] {
            let list = match owner.get("parameters") {
                None | Some(Node::Null) => continue,
                Some(Node::List(list)) => list,
                Some(other) => {
                    problems.push(format!("{place}: parameters must be an array, not {}", other.kind()));
                    continue;
                }
            };
            looked_at.add(list.len())?;
            for node in list {
                match self.parameter(node) {
                    Ok((location, name, required)) => {
                        parameters.insert((location, name), required);
                    }
                    Err(problem) => problems.push(format!("{place}: {problem}")),
                }
            }
        }
        Ok(parameters)
    }

    fn parameter<'d>(&'d self, node: &'d Node) -> Result<(Location, &'d str, bool), String> {
        let Node::Map(node) = node else {
            return Err(format!("a parameter must be an object, not {}", node.kind()));
        };
        let node = reference::resolve(&self.root, node)?;
        let text = |key: &str| match node.get(key) {
            Some(Node::Text(text)) => Ok(text.as_str()),
            Some(Node::Null) | None => Err(format!("a parameter has no {key}; add it")),
            Some(other) => Err(format!("a parameter's {key} must be a string, not {}", other.kind())),
        };
        let (location, name) = (text("in")?, text("name")?);
        let location = match location.trim().to_ascii_lowercase().as_str() {
            "path" => Location::Path,
            "query" => Location::Query,
            "header" => Location::Header,
            "cookie" => Location::Cookie,
            _ => {
                return Err(format!(
                    "the parameter {} has the location (in) {}; it must be path, query, header or cookie",
                    quoted(name),
                    quoted(location)
                ));
            }
        };
        let required = match node.get("required") {
            None | Some(Node::Null) => false,
            Some(Node::Bool(required)) => *required,
            Some(other) => {
                return Err(format!(
                    "the parameter {} has a required that is {}; it must be true or false",
                    quoted(name),
                    other.kind()
                ));
            }
        };
        Ok((location, name, required))
    }
}

impl<'d> Operation<'d> {
    /// How it is named in every message: `GET /path`.
    pub(crate) fn place(&self) -> String {
        format!("{} {}", self.verb.as_str(), self.path)
    }

    /// A member that is a string or absent. Anything else becomes a problem.
    pub(crate) fn text(&self, key: &str, problems: &mut Problems) -> Option<&'d str> {
        match self.node.get(key) {
            None | Some(Node::Null) => None,
            Some(Node::Text(text)) => Some(text),
            Some(other) => {
                problems.push(format!(
                    "{}: {key} must be a string, not {}",
                    self.place(),
                    other.kind()
                ));
                None
            }
        }
    }

    /// The `operationId`, when it is a string.
    pub(crate) fn id(&self) -> Option<&'d str> {
        match self.node.get("operationId") {
            Some(Node::Text(id)) => Some(id),
            _ => None,
        }
    }

    /// Whether it declares a request body; what is in it does not matter.
    pub(crate) fn declares_body(&self) -> bool {
        !matches!(self.node.get("requestBody"), None | Some(Node::Null))
    }

    /// Whether its path or itself names servers that are not those of the document.
    pub(crate) fn has_own_servers(&self, document: &Document) -> bool {
        let own = self.node.get("servers").or_else(|| self.item.get("servers"));
        !matches!(own, None | Some(Node::Null)) && own != document.servers()
    }

    /// Whether it is marked as the health probe.
    pub(crate) fn is_health_probe(&self, problems: &mut Problems) -> bool {
        match self.node.get("x-plimsoll-health-check") {
            None | Some(Node::Null) => false,
            Some(Node::Bool(marked)) => *marked,
            Some(other) => {
                problems.push(format!(
                    "{}: x-plimsoll-health-check must be true or false, not {}",
                    self.place(),
                    other.kind()
                ));
                false
            }
        }
    }

    /// The operationIds it is marked to be the batch of; empty without a mark.
    ///
    /// # Errors
    /// More entries than are looked at in one document.
    pub(crate) fn batch_of(&self, looked_at: &mut LookedAt, problems: &mut Problems) -> Result<Vec<&'d str>, Refused> {
        let list = match self.node.get("x-plimsoll-batch-of") {
            None | Some(Node::Null) => return Ok(Vec::new()),
            Some(Node::List(list)) => list,
            Some(other) => {
                problems.push(format!(
                    "{}: x-plimsoll-batch-of must be an array of operationIds, not {}",
                    self.place(),
                    other.kind()
                ));
                return Ok(Vec::new());
            }
        };
        looked_at.add(list.len())?;
        let mut ids = Vec::new();
        for entry in list {
            match entry {
                Node::Text(id) => ids.push(id.as_str()),
                other => problems.push(format!(
                    "{}: x-plimsoll-batch-of must hold operationIds, not {}",
                    self.place(),
                    other.kind()
                )),
            }
        }
        Ok(ids)
    }
}

/// Whether a character would end the line it stands in, in text or in JavaScript.
pub(crate) fn breaks_a_line(character: char) -> bool {
    character.is_control() || matches!(character, '\u{2028}' | '\u{2029}')
}

fn parse(bytes: &[u8]) -> Result<Node, String> {
    if bytes.len() > MAX_DOCUMENT_BYTES {
        return Err(format!(
            "the document has more than {MAX_DOCUMENT_BYTES} bytes; take out what is not paths, or split it"
        ));
    }
    let text = std::str::from_utf8(bytes).map_err(|error| {
        format!(
            "the document is not UTF-8 from byte {} on; convert it",
            error.valid_up_to()
        )
    })?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.trim_start().starts_with(['{', '[']) {
        json::read(text)
    } else {
        yaml::read(text)
    }
}

fn check_openapi(root: &Map) -> Result<(), String> {
    let remedy = "give an OpenAPI 3 document; converters exist for Swagger 2.0";
    match root.get("openapi") {
        Some(Node::Text(version) | Node::Number(version)) if version.starts_with("3.") => Ok(()),
        Some(Node::Text(version) | Node::Number(version)) => {
            Err(format!("openapi must start with \"3.\", not be {version:?}; {remedy}"))
        }
        Some(Node::Null) | None if root.contains_key("swagger") => {
            Err(format!("openapi is missing and swagger is there; {remedy}"))
        }
        Some(Node::Null) | None => Err(format!("openapi is missing; {remedy}")),
        Some(other) => Err(format!("openapi must be a string, not {}; {remedy}", other.kind())),
    }
}

/// A member that is an object or absent.
fn object<'d>(map: &'d Map, key: &str, place: &str, problems: &mut Problems) -> Option<&'d Map> {
    match map.get(key) {
        None | Some(Node::Null) => None,
        Some(Node::Map(object)) => Some(object),
        Some(other) => {
            problems.push(format!("{key} of {place} must be an object, not {}", other.kind()));
            None
        }
    }
}

/// A member that is a string, or a number as it was written.
fn source_text<'d>(map: &'d Map, key: &str, place: &str, problems: &mut Problems) -> Option<&'d str> {
    match map.get(key) {
        None | Some(Node::Null) => None,
        Some(Node::Text(text) | Node::Number(text)) => Some(text),
        Some(other) => {
            problems.push(format!("{place}.{key} must be a string, not {}", other.kind()));
            None
        }
    }
}
