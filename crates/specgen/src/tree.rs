//! What is kept of a document: a tree of the few members that decide about routes.
//!
//! Both readers, JSON and YAML, send the same [`Event`]s here. Everything is checked (nesting, duplicate keys), and only
//! what the generator reads is kept: real documents are mostly schemas and examples, and those cost no memory.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};

use crate::problem::quoted;

/// Largest document, in bytes. The largest real one measured has 78 MB.
pub const MAX_DOCUMENT_BYTES: usize = 128 * 1024 * 1024;

/// Deepest nesting of objects and arrays. Dereferenced real documents reach about 60; readers recurse this deep.
pub const MAX_NESTING: usize = 256;

/// A kept value. Members of objects are sorted by bytes, which is the order everything is generated in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Node {
    Null,
    Bool(bool),
    /// The source text of the number: `1.10` stays `1.10`.
    Number(String),
    Text(String),
    List(Vec<Node>),
    Map(Map),
    /// Something other than null stood here, and nothing in it is read.
    Unread,
}

pub(crate) type Map = BTreeMap<String, Node>;

impl Node {
    /// What it is called in an error.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "a boolean",
            Self::Number(_) => "a number",
            Self::Text(_) => "a string",
            Self::List(_) => "an array",
            Self::Map(_) => "an object",
            Self::Unread => "something else",
        }
    }
}

/// One step of a document.
#[derive(Clone, Debug)]
pub(crate) enum Event<'a> {
    Key(Cow<'a, str>),
    Null,
    Bool(bool),
    /// Source text.
    Number(Cow<'a, str>),
    Text(Cow<'a, str>),
    StartList,
    EndList,
    StartMap,
    EndMap,
}

/// Why a document cannot be read, whatever is in it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Fault {
    #[error("objects and arrays nest deeper than {MAX_NESTING}")]
    Nesting,
    #[error("the key {} stands twice in one object", quoted(.0))]
    Duplicate(String),
    /// A merge key would be ignored by a YAML 1.2 reader, and with it the operations it brings.
    #[error("`<<` merges objects in YAML 1.1 only; write the members out")]
    Merge,
}

/// Where in an OpenAPI document a value stands, as far as that decides what is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    Root,
    Info,
    Servers,
    Server,
    Variables,
    Variable,
    Paths,
    PathItem,
    Operation,
    Parameters,
    Parameter,
    Components,
    NamedParameters,
    NamedPathItems,
    /// A scalar, or a list of scalars.
    Value,
    /// Only whether it is there.
    Presence,
    Skipped,
}

impl Shape {
    /// The shape of a member of an object in this place.
    fn member(self, key: &str) -> Self {
        match (self, key) {
            (Self::Root, "openapi" | "swagger") | (Self::Info, "title" | "version") => Self::Value,
            (Self::Root, "info") => Self::Info,
            (Self::Root | Self::PathItem | Self::Operation, "servers") => Self::Servers,
            (Self::Root, "paths") => Self::Paths,
            (Self::Root, "components") => Self::Components,
            (Self::Server, "variables") => Self::Variables,
            (Self::Server, "url") | (Self::Variable, "default") => Self::Value,
            (Self::Variables, _) => Self::Variable,
            (Self::Paths | Self::NamedPathItems, _) => Self::PathItem,
            (Self::PathItem | Self::Operation, "parameters") => Self::Parameters,
            (Self::PathItem, "get" | "put" | "post" | "delete" | "patch" | "head" | "options" | "trace" | "query") => {
                Self::Operation
            }
            (Self::PathItem | Self::Parameter, "$ref") => Self::Value,
            (Self::Operation, "operationId" | "summary" | "x-plimsoll-health-check" | "x-plimsoll-batch-of") => {
                Self::Value
            }
            (Self::Operation, "requestBody") => Self::Presence,
            (Self::Parameter, "name" | "in" | "required") => Self::Value,
            (Self::Components, "parameters") => Self::NamedParameters,
            (Self::Components, "pathItems") => Self::NamedPathItems,
            (Self::NamedParameters, _) => Self::Parameter,
            _ => Self::Skipped,
        }
    }

    /// The shape of an element of an array in this place.
    fn element(self) -> Self {
        match self {
            Self::Servers => Self::Server,
            Self::Parameters => Self::Parameter,
            Self::Value => Self::Value,
            _ => Self::Skipped,
        }
    }

    /// Whether an object here is kept.
    fn keeps_objects(self) -> bool {
        !matches!(self, Self::Skipped | Self::Presence | Self::Value)
    }

    /// Whether an array here is kept. One in the wrong place is kept empty, so that its kind can be named.
    fn keeps_arrays(self) -> bool {
        !matches!(self, Self::Skipped | Self::Presence)
    }
}

/// Builds the kept tree from events. The events must nest properly; both readers see to that.
#[derive(Debug)]
pub(crate) struct Builder<'a> {
    open: Vec<Open<'a>>,
    root: Option<Node>,
}

#[derive(Debug)]
struct Open<'a> {
    shape: Shape,
    kept: Kept,
    /// Every key so far, kept or not; none in an array.
    keys: Keys<'a>,
    /// The key whose value comes next, and the shape of that value.
    key: Option<(String, Shape)>,
    is_map: bool,
}

#[derive(Debug)]
enum Kept {
    Map(Map),
    List(Vec<Node>),
    Nothing,
}

impl<'a> Builder<'a> {
    pub(crate) fn new() -> Self {
        Self {
            open: Vec::new(),
            root: None,
        }
    }

    /// Whether the next scalar is a key of an object.
    pub(crate) fn expects_key(&self) -> bool {
        self.open.last().is_some_and(|open| open.is_map && open.key.is_none())
    }

    /// Whether the next value is one whose source text counts.
    pub(crate) fn wants_source_text(&self) -> bool {
        self.next_shape() == Shape::Value
    }

    /// The tree, once everything that was opened is closed. None when there was no value at all.
    pub(crate) fn finish(self) -> Option<Node> {
        debug_assert!(self.open.is_empty(), "the readers close what they open");
        self.root
    }

    /// Takes one event.
    pub(crate) fn push(&mut self, event: Event<'a>) -> Result<(), Fault> {
        match event {
            Event::Key(key) => return self.key(key),
            Event::Null => self.value(|_| Node::Null),
            Event::Bool(value) => self.value(|_| Node::Bool(value)),
            Event::Number(text) => self.value(|kept| {
                if kept {
                    Node::Number(text.into_owned())
                } else {
                    Node::Unread
                }
            }),
            Event::Text(text) => self.value(|kept| {
                if kept {
                    Node::Text(text.into_owned())
                } else {
                    Node::Unread
                }
            }),
            Event::StartMap => {
                let shape = self.next_shape();
                let kept = if shape.keeps_objects() {
                    Kept::Map(Map::new())
                } else {
                    Kept::Nothing
                };
                self.open(shape, kept, true)?;
            }
            Event::StartList => {
                let shape = self.next_shape();
                let kept = if shape.keeps_arrays() {
                    Kept::List(Vec::new())
                } else {
                    Kept::Nothing
                };
                self.open(shape, kept, false)?;
            }
            Event::EndMap | Event::EndList => {
                if let Some(closed) = self.open.pop() {
                    let node = match closed.kept {
                        Kept::Map(map) => Node::Map(map),
                        Kept::List(list) => Node::List(list),
                        Kept::Nothing => Node::Unread,
                    };
                    self.place(node);
                }
            }
        }
        Ok(())
    }

    fn key(&mut self, key: Cow<'a, str>) -> Result<(), Fault> {
        let Some(open) = self.open.last_mut() else {
            return Ok(());
        };
        let shape = open.shape.member(&key);
        if key == "<<" && open.shape.keeps_objects() {
            return Err(Fault::Merge);
        }
        let owned = if shape == Shape::Skipped {
            String::new()
        } else {
            key.clone().into_owned()
        };
        open.key = Some((owned, shape));
        open.keys.insert(key)
    }

    fn next_shape(&self) -> Shape {
        match self.open.last() {
            None => Shape::Root,
            Some(Open {
                key: Some((_, shape)), ..
            }) => *shape,
            Some(open) => open.shape.element(),
        }
    }

    fn open(&mut self, shape: Shape, kept: Kept, is_map: bool) -> Result<(), Fault> {
        if self.open.len() == MAX_NESTING {
            return Err(Fault::Nesting);
        }
        self.open.push(Open {
            shape,
            kept,
            keys: Keys::default(),
            key: None,
            is_map,
        });
        Ok(())
    }

    fn value(&mut self, node: impl FnOnce(bool) -> Node) {
        let kept = !matches!(self.next_shape(), Shape::Skipped | Shape::Presence);
        self.place(node(kept));
    }

    /// Puts a finished value where it belongs.
    fn place(&mut self, node: Node) {
        let Some(open) = self.open.last_mut() else {
            self.root = Some(node);
            return;
        };
        match (&mut open.kept, open.key.take()) {
            (Kept::Map(map), Some((key, shape))) if shape != Shape::Skipped => {
                map.insert(key, node);
            }
            (Kept::List(list), None) if open.shape.element() != Shape::Skipped => list.push(node),
            _ => {}
        }
    }
}

/// The keys of one object. Nearly all objects have few, and a scan of those is faster than hashing them.
#[derive(Debug, Default)]
struct Keys<'a> {
    few: Vec<Cow<'a, str>>,
    many: HashSet<Cow<'a, str>>,
}

impl<'a> Keys<'a> {
    const FEW: usize = 16;

    fn insert(&mut self, key: Cow<'a, str>) -> Result<(), Fault> {
        if self.few.contains(&key) || self.many.contains(&key) {
            return Err(Fault::Duplicate(key.into_owned()));
        }
        if self.few.len() < Self::FEW {
            self.few.push(key);
        } else {
            self.many.insert(key);
        }
        Ok(())
    }
}
