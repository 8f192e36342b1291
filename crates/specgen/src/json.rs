//! JSON into events. Strict: one value, no duplicate keys, and the source text of a number where it counts.

use std::borrow::Cow;
use std::fmt;

use serde::de::{self, DeserializeSeed, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::tree::{Builder, Event, Node};

/// Reads one JSON text.
///
/// # Errors
/// What is wrong and where, for a person.
pub(crate) fn read(text: &str) -> Result<Node, String> {
    let mut builder = Builder::new();
    let mut source = serde_json::Deserializer::from_str(text);
    // The builder bounds nesting.
    source.disable_recursion_limit();
    Walk(&mut builder)
        .deserialize(&mut source)
        .and_then(|()| source.end())
        .map_err(|error| format!("invalid JSON: {error}"))?;
    Ok(builder.finish().unwrap_or(Node::Null))
}

/// Walks one value and tells the builder about it.
struct Walk<'b, 'a>(&'b mut Builder<'a>);

impl<'a> Walk<'_, 'a> {
    fn push<E: de::Error>(&mut self, event: Event<'a>) -> Result<(), E> {
        self.0.push(event).map_err(E::custom)
    }

    /// Takes a value whose source text counts, as that text.
    fn source(&mut self, raw: &'a RawValue) -> Result<(), serde_json::Error> {
        let text = raw.get();
        match text.as_bytes().first() {
            Some(b'-' | b'0'..=b'9') => self.push(Event::Number(Cow::Borrowed(text))),
            _ => {
                let mut source = serde_json::Deserializer::from_str(text);
                source.disable_recursion_limit();
                Walk(self.0).deserialize(&mut source)
            }
        }
    }
}

impl<'a> DeserializeSeed<'a> for Walk<'_, 'a> {
    type Value = ();

    fn deserialize<D: de::Deserializer<'a>>(self, source: D) -> Result<(), D::Error> {
        source.deserialize_any(self)
    }
}

impl<'a> Visitor<'a> for Walk<'_, 'a> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: de::Error>(mut self) -> Result<(), E> {
        self.push(Event::Null)
    }

    fn visit_bool<E: de::Error>(mut self, value: bool) -> Result<(), E> {
        self.push(Event::Bool(value))
    }

    fn visit_u64<E: de::Error>(mut self, value: u64) -> Result<(), E> {
        self.push(Event::Number(value.to_string().into()))
    }

    fn visit_i64<E: de::Error>(mut self, value: i64) -> Result<(), E> {
        self.push(Event::Number(value.to_string().into()))
    }

    fn visit_f64<E: de::Error>(mut self, value: f64) -> Result<(), E> {
        self.push(Event::Number(value.to_string().into()))
    }

    fn visit_borrowed_str<E: de::Error>(mut self, text: &'a str) -> Result<(), E> {
        self.push(Event::Text(text.into()))
    }

    fn visit_str<E: de::Error>(mut self, text: &str) -> Result<(), E> {
        self.push(Event::Text(text.to_owned().into()))
    }

    fn visit_seq<A: SeqAccess<'a>>(mut self, mut elements: A) -> Result<(), A::Error> {
        self.push(Event::StartList)?;
        while elements.next_element_seed(Walk(self.0))?.is_some() {}
        self.push(Event::EndList)
    }

    fn visit_map<A: MapAccess<'a>>(mut self, mut members: A) -> Result<(), A::Error> {
        self.push(Event::StartMap)?;
        while let Some(key) = members.next_key_seed(Key)? {
            self.push(Event::Key(key))?;
            if self.0.wants_source_text() {
                let raw: &'a RawValue = members.next_value()?;
                self.source(raw).map_err(de::Error::custom)?;
            } else {
                members.next_value_seed(Walk(self.0))?;
            }
        }
        self.push(Event::EndMap)
    }
}

/// A key, borrowed from the text where it has no escapes.
struct Key;

impl<'a> DeserializeSeed<'a> for Key {
    type Value = Cow<'a, str>;

    fn deserialize<D: de::Deserializer<'a>>(self, source: D) -> Result<Cow<'a, str>, D::Error> {
        source.deserialize_str(self)
    }
}

impl<'a> Visitor<'a> for Key {
    type Value = Cow<'a, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_borrowed_str<E: de::Error>(self, text: &'a str) -> Result<Cow<'a, str>, E> {
        Ok(text.into())
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Cow<'a, str>, E> {
        Ok(text.to_owned().into())
    }
}
