//! YAML into events: version 1.2, core schema, one document.
//!
//! What readers disagree about is refused and never guessed: tags of an application, merge keys, keys that are not
//! scalars, an alias to a node that is still open. Aliases are replayed, with a bound on what they add up to.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;

use granit_parser::{Event as Source, Parser, ScalarStyle, Tag};

use crate::name::one_line;
use crate::tree::{Builder, Event, Fault, MAX_NESTING, Node};

/// What all aliases of a document may expand to, in bytes of text plus one for each node. Real documents stay far below;
/// nine lines of nested aliases ask for a billion nodes.
pub const MAX_ALIAS_EXPANSION: usize = 8 * 1024 * 1024;

/// Reads one YAML document.
///
/// # Errors
/// What is wrong and where, for a person.
pub(crate) fn read(text: &str) -> Result<Node, String> {
    let options = granit_parser::options! {
        emit_comments: false,
        flow_nesting_limit: MAX_NESTING,
        block_nesting_limit: MAX_NESTING,
    };
    let mut reader = Reader::default();
    for next in Parser::new_from_str_with_options(text, options) {
        let (event, span) = next.map_err(|error| format!("invalid YAML: {}", one_line(&error.to_string())))?;
        reader.take(event).map_err(|problem| {
            let (line, column) = (span.start.line(), span.start.col() + 1);
            format!("invalid YAML: {problem} at line {line} column {column}")
        })?;
    }
    reader
        .builder
        .finish()
        .ok_or_else(|| "the document is empty; give an OpenAPI 3 document in JSON or YAML".to_owned())
}

/// Why a YAML document is refused, apart from its syntax.
#[derive(Debug, thiserror::Error)]
enum Problem {
    #[error(transparent)]
    Fault(#[from] Fault),
    #[error("the tag {0:?} is not one of YAML's core schema; remove it")]
    Tag(String),
    #[error("{text:?} is not what its tag !!{tag} says")]
    Mistagged { text: String, tag: String },
    #[error("a key must be a scalar")]
    Key,
    #[error("an alias refers to the node it stands in")]
    Recursive,
    #[error("aliases expand to more than {MAX_ALIAS_EXPANSION} bytes")]
    Expansion,
    #[error("there is more than one document")]
    SecondDocument,
}

/// A node's event with its tag applied, as it is replayed for an alias.
#[derive(Clone, Debug)]
enum Item<'a> {
    Scalar(Scalar<'a>),
    StartList,
    EndList,
    StartMap,
    EndMap,
    Alias(usize),
}

#[derive(Clone, Debug)]
struct Scalar<'a> {
    text: Cow<'a, str>,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Null,
    Bool(bool),
    Number,
    Text,
}

#[derive(Debug)]
struct Reader<'a> {
    builder: Builder<'a>,
    /// Everything inside anchored nodes, in order; an anchor is a range of it.
    log: Vec<Item<'a>>,
    anchors: HashMap<usize, Range<usize>>,
    /// Anchored collections that are not closed: identity, start in the log, depth.
    open: Vec<(usize, usize, usize)>,
    depth: usize,
    expansion: usize,
    documents: usize,
}

impl Default for Reader<'_> {
    fn default() -> Self {
        Self {
            builder: Builder::new(),
            log: Vec::new(),
            anchors: HashMap::new(),
            open: Vec::new(),
            depth: 0,
            expansion: 0,
            documents: 0,
        }
    }
}

impl<'a> Reader<'a> {
    fn take(&mut self, event: Source<'a>) -> Result<(), Problem> {
        match event {
            Source::DocumentStart(..) => {
                self.documents += 1;
                if self.documents > 1 {
                    return Err(Problem::SecondDocument);
                }
                Ok(())
            }
            Source::Scalar(text, style, anchor, tag) => {
                let scalar = scalar(text, style, tag.as_deref())?;
                self.node(Item::Scalar(scalar), anchor)
            }
            Source::SequenceStart(_, anchor, tag) => {
                collection_tag(tag.as_deref(), "seq")?;
                self.node(Item::StartList, anchor)
            }
            Source::MappingStart(_, anchor, tag) => {
                collection_tag(tag.as_deref(), "map")?;
                self.node(Item::StartMap, anchor)
            }
            Source::SequenceEnd => self.node(Item::EndList, 0),
            Source::MappingEnd => self.node(Item::EndMap, 0),
            Source::Alias(anchor) => self.alias(anchor),
            // Comments and unknown aliases are not asked for; the rest carries nothing.
            _ => Ok(()),
        }
    }

    fn node(&mut self, item: Item<'a>, anchor: usize) -> Result<(), Problem> {
        let starts = matches!(item, Item::StartList | Item::StartMap);
        let ends = matches!(item, Item::EndList | Item::EndMap);
        if anchor != 0 && starts {
            self.open.push((anchor, self.log.len(), self.depth));
        }
        if !self.open.is_empty() || anchor != 0 {
            self.log.push(item.clone());
        }
        if anchor != 0 && !starts {
            self.anchors.insert(anchor, self.log.len() - 1..self.log.len());
        }
        if starts {
            self.depth += 1;
        }
        if ends {
            self.depth -= 1;
            if let Some(&(anchor, start, depth)) = self.open.last()
                && depth == self.depth
            {
                self.open.pop();
                self.anchors.insert(anchor, start..self.log.len());
            }
        }
        self.send(item)
    }

    fn alias(&mut self, anchor: usize) -> Result<(), Problem> {
        if !self.anchors.contains_key(&anchor) {
            return Err(Problem::Recursive);
        }
        if !self.open.is_empty() {
            self.log.push(Item::Alias(anchor));
        }
        self.replay(anchor)
    }

    /// Sends an anchored node again. An alias inside it stands at least one collection deeper, and the builder bounds
    /// nesting, so this recursion is bounded too.
    fn replay(&mut self, anchor: usize) -> Result<(), Problem> {
        let Some(range) = self.anchors.get(&anchor).cloned() else {
            return Err(Problem::Recursive);
        };
        for index in range {
            let item = self.log[index].clone();
            self.expansion += match &item {
                Item::Scalar(scalar) => 1 + scalar.text.len(),
                _ => 1,
            };
            if self.expansion > MAX_ALIAS_EXPANSION {
                return Err(Problem::Expansion);
            }
            match item {
                Item::Alias(inner) => self.replay(inner)?,
                item => self.send(item)?,
            }
        }
        Ok(())
    }

    fn send(&mut self, item: Item<'a>) -> Result<(), Problem> {
        let is_key = self.builder.expects_key();
        let event = match item {
            Item::Scalar(scalar) if is_key => Event::Key(scalar.text),
            Item::StartList | Item::StartMap if is_key => return Err(Problem::Key),
            Item::Scalar(Scalar { text, kind }) => match kind {
                Kind::Null => Event::Null,
                Kind::Bool(value) => Event::Bool(value),
                Kind::Number => Event::Number(text),
                Kind::Text => Event::Text(text),
            },
            Item::StartList => Event::StartList,
            Item::StartMap => Event::StartMap,
            Item::EndList => Event::EndList,
            Item::EndMap => Event::EndMap,
            // Replayed, never sent.
            Item::Alias(_) => return Ok(()),
        };
        Ok(self.builder.push(event)?)
    }
}

fn collection_tag(tag: Option<&Tag>, expected: &str) -> Result<(), Problem> {
    match tag {
        Some(tag) if tag.core_suffix() != Some(expected) => Err(Problem::Tag(tag.original())),
        _ => Ok(()),
    }
}

fn scalar<'a>(text: Cow<'a, str>, style: ScalarStyle, tag: Option<&Tag>) -> Result<Scalar<'a>, Problem> {
    let plain = if style == ScalarStyle::Plain {
        core_schema(&text)
    } else {
        Kind::Text
    };
    let Some(tag) = tag else {
        return Ok(Scalar { text, kind: plain });
    };
    let name = tag.core_suffix().ok_or_else(|| Problem::Tag(tag.original()))?;
    // A tag decides even where quotes would have made it text.
    let kind = match (name, core_schema(&text)) {
        ("str", _) => Kind::Text,
        ("null", kind @ Kind::Null) | ("bool", kind @ Kind::Bool(_)) | ("int" | "float", kind @ Kind::Number) => kind,
        ("null" | "bool" | "int" | "float", _) => {
            return Err(Problem::Mistagged {
                text: text.into_owned(),
                tag: name.to_owned(),
            });
        }
        _ => return Err(Problem::Tag(tag.original())),
    };
    Ok(Scalar { text, kind })
}

/// What an unquoted scalar is, by the core schema: `yes`, `on` and `2020-01-01` are text.
fn core_schema(text: &str) -> Kind {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Kind::Null,
        "true" | "True" | "TRUE" => Kind::Bool(true),
        "false" | "False" | "FALSE" => Kind::Bool(false),
        ".nan" | ".NaN" | ".NAN" => Kind::Number,
        _ if is_number(text) => Kind::Number,
        _ => Kind::Text,
    }
}

fn is_number(text: &str) -> bool {
    let all = |digits: &str, wanted: fn(&u8) -> bool| !digits.is_empty() && digits.bytes().all(|digit| wanted(&digit));
    if let Some(digits) = text.strip_prefix("0o") {
        return all(digits, |digit| matches!(digit, b'0'..=b'7'));
    }
    if let Some(digits) = text.strip_prefix("0x") {
        return all(digits, u8::is_ascii_hexdigit);
    }
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    if matches!(unsigned, ".inf" | ".Inf" | ".INF") {
        return true;
    }
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent.strip_prefix(['-', '+']).unwrap_or(exponent))),
        None => (unsigned, None),
    };
    let decimal = |digits: &str| all(digits, u8::is_ascii_digit);
    let mantissa_fits = match mantissa.split_once('.') {
        None => decimal(mantissa),
        Some(("", fraction)) => decimal(fraction),
        Some((whole, fraction)) => decimal(whole) && (fraction.is_empty() || decimal(fraction)),
    };
    mantissa_fits && exponent.is_none_or(decimal)
}
