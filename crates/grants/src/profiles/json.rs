//! JSON as a tree that forgets nothing: repeated keys stay, so that whoever reads it can refuse them by name.

use std::collections::HashMap;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

use super::error::{Place, ProfileError};
use crate::grant::Clipped;

/// One value.
#[derive(Debug)]
pub(super) enum Json {
    Null,
    Bool(bool),
    Integer(i64),
    /// A fraction, an exponent, or an integer beyond 64 bits.
    Number,
    Text(String),
    Array(Vec<Json>),
    Object(Vec<(String, Json)>),
}

impl Json {
    /// Its type, as the end of "… , not".
    pub(super) const fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "true or false",
            Self::Integer(_) | Self::Number => "a number",
            Self::Text(_) => "a string",
            Self::Array(_) => "an array",
            Self::Object(_) => "an object",
        }
    }
}

/// Reads exactly one value.
///
/// # Errors
/// Text that is not UTF-8, not JSON, nested deeper than 128, or followed by something.
pub(super) fn read(bytes: &[u8]) -> Result<Json, ProfileError> {
    let file = Place::default();
    let text = std::str::from_utf8(bytes)
        .map_err(|error| file.problem(format!("holds invalid UTF-8 at byte {}", error.valid_up_to())))?;
    if text.starts_with('\u{feff}') {
        return Err(file.problem("starts with a byte-order mark; save it without one"));
    }
    serde_json::from_str(text).map_err(|error| file.problem(format!("is not one JSON value: {error}")))
}

/// Names every key that repeats another of its object, exactly or but for case.
pub(super) fn repeated_keys(root: &Json, problems: &mut Vec<ProfileError>) {
    walk(root, &Place::default(), 0, problems);
}

fn walk(value: &Json, place: &Place, depth: usize, problems: &mut Vec<ProfileError>) {
    match value {
        Json::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                walk(item, &place.item(index), depth + 1, problems);
            }
        }
        Json::Object(members) => {
            let mut seen: HashMap<String, &str> = HashMap::with_capacity(members.len());
            for (key, member) in members {
                match seen.insert(key.to_lowercase(), key) {
                    Some(earlier) if earlier == key => {
                        problems.push(place.problem(format!("repeats the key {}; remove one", Clipped(key))));
                    }
                    Some(earlier) => problems.push(place.problem(format!(
                        "has the keys {} and {}, which differ only in case; remove or rename one",
                        Clipped(earlier),
                        Clipped(key)
                    ))),
                    None => {}
                }
                let inner = if depth == 1 {
                    Place::profile(key)
                } else {
                    place.member(key)
                };
                walk(member, &inner, depth + 1, problems);
            }
        }
        _ => {}
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Tree)
    }
}

struct Tree;

impl<'de> Visitor<'de> for Tree {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Json, E> {
        Ok(Json::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Json, E> {
        Ok(Json::Integer(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Json, E> {
        Ok(i64::try_from(value).map_or(Json::Number, Json::Integer))
    }

    fn visit_f64<E>(self, _: f64) -> Result<Json, E> {
        Ok(Json::Number)
    }

    fn visit_str<E>(self, value: &str) -> Result<Json, E> {
        Ok(Json::Text(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Json, E> {
        Ok(Json::Text(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Json, A::Error> {
        let mut array = Vec::new();
        while let Some(item) = items.next_element()? {
            array.push(item);
        }
        Ok(Json::Array(array))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Json, A::Error> {
        let mut object = Vec::new();
        while let Some(member) = members.next_entry()? {
            object.push(member);
        }
        Ok(Json::Object(object))
    }
}
