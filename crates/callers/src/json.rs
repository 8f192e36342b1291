//! JSON as the registry is read: every member in its order, and none twice.

use std::collections::HashSet;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

use crate::file::ClientsError;

/// What a repeated member is reported as from inside the JSON reader.
const REPEATED: &str = "repeated member";

/// Reads one value and nothing after it.
pub(crate) fn read(bytes: &[u8]) -> Result<Json, ClientsError> {
    if bytes.starts_with(b"\xef\xbb\xbf") {
        return Err(ClientsError::Syntax {
            line: 1,
            column: 1,
            problem: "starts with a byte-order mark",
        });
    }
    // The library's own message may quote the input, so only its place and kind are used.
    serde_json::from_slice(bytes).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        match error.classify() {
            serde_json::error::Category::Eof => ClientsError::Syntax {
                line,
                column,
                problem: "ends too early",
            },
            serde_json::error::Category::Data if error.to_string().starts_with(REPEATED) => {
                ClientsError::Repeated { line, column }
            }
            _ => ClientsError::Syntax {
                line,
                column,
                problem: "unexpected text",
            },
        }
    })
}

/// A JSON value with its members in order and none repeated. Numbers that are no count are kept as just that.
pub(crate) enum Json {
    Null,
    Bool,
    Count(u64),
    OtherNumber,
    Text(String),
    Array(Vec<Json>),
    Object(Vec<(String, Json)>),
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(JsonVisitor)
    }
}

struct JsonVisitor;

impl<'de> Visitor<'de> for JsonVisitor {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Json, E> {
        Ok(Json::Bool)
    }

    fn visit_u64<E>(self, value: u64) -> Result<Json, E> {
        Ok(Json::Count(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Json, E> {
        Ok(u64::try_from(value).map_or(Json::OtherNumber, Json::Count))
    }

    fn visit_f64<E>(self, _: f64) -> Result<Json, E> {
        Ok(Json::OtherNumber)
    }

    fn visit_str<E>(self, value: &str) -> Result<Json, E> {
        Ok(Json::Text(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Json, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = list.next_element()? {
            values.push(value);
        }
        Ok(Json::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Json, A::Error> {
        let mut members: Vec<(String, Json)> = Vec::new();
        let mut names = HashSet::new();
        while let Some(name) = object.next_key::<String>()? {
            if !names.insert(name.clone()) {
                return Err(serde::de::Error::custom(REPEATED));
            }
            members.push((name, object.next_value()?));
        }
        Ok(Json::Object(members))
    }
}
