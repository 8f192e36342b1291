//! The members of one object of the file, each of the type it must have.

use super::error::{Place, ProfileError};
use super::json::Json;

/// An object whose members are asked for by name and type; what has another type is named as a problem.
pub(super) struct Fields<'a> {
    place: Place,
    members: &'a [(String, Json)],
    /// Members that had a problem here: later rules stay silent about them.
    bad: Vec<&'static str>,
    problems: Vec<ProfileError>,
}

impl<'a> Fields<'a> {
    /// An object with no members but `known`.
    ///
    /// # Errors
    /// A value that is no object.
    pub(super) fn new(value: &'a Json, place: Place, known: &[&str]) -> Result<Self, ProfileError> {
        let Json::Object(members) = value else {
            return Err(place.problem(format_args!("must be an object, not {}", value.kind())));
        };
        let problems = members
            .iter()
            .filter(|(key, _)| !known.contains(&key.as_str()))
            .map(|(key, _)| {
                place
                    .member(key)
                    .problem(format_args!("is not a field; the fields here are {}", known.join(", ")))
            })
            .collect();
        Ok(Self {
            place,
            members,
            bad: Vec::new(),
            problems,
        })
    }

    pub(super) fn place(&self, name: &str) -> Place {
        self.place.member(name)
    }

    /// A place within the object in the spelling of [`crate::grant::GrantError::field`].
    pub(super) fn place_of(&self, field: &str) -> Place {
        self.place.at(field)
    }

    /// Whether a member had the wrong type.
    pub(super) fn is_bad(&self, name: &str) -> bool {
        self.bad.contains(&name)
    }

    /// What was wrong so far; the later rules go on from here.
    pub(super) fn take_problems(&mut self) -> Vec<ProfileError> {
        std::mem::take(&mut self.problems)
    }

    pub(super) fn get(&self, name: &str) -> Option<&'a Json> {
        self.members.iter().find(|(key, _)| key == name).map(|(_, value)| value)
    }

    /// A string; empty when absent.
    pub(super) fn text(&mut self, name: &'static str) -> &'a str {
        match self.get(name) {
            None => "",
            Some(Json::Text(text)) => text,
            Some(other) => {
                self.mistyped(name, &self.place(name), "a string", other);
                ""
            }
        }
    }

    /// A whole number; 0 when absent.
    pub(super) fn integer(&mut self, name: &'static str) -> i64 {
        let Some(value) = self.get(name) else { return 0 };
        self.as_integer(name, &self.place(name), value).unwrap_or(0)
    }

    /// True or false; false when absent.
    pub(super) fn flag(&mut self, name: &'static str) -> bool {
        match self.get(name) {
            None => false,
            Some(Json::Bool(flag)) => *flag,
            Some(other) => {
                self.mistyped(name, &self.place(name), "true or false", other);
                false
            }
        }
    }

    /// An array of strings; empty when absent or when one of them is none.
    pub(super) fn texts(&mut self, name: &'static str) -> Vec<&'a str> {
        let Some(value) = self.get(name) else {
            return Vec::new();
        };
        self.as_texts(name, &self.place(name), value)
    }

    /// An object from strings to whole numbers; empty when absent or when one of them is none.
    pub(super) fn integers(&mut self, name: &'static str) -> Vec<(&'a str, i64)> {
        let mut numbers = Vec::new();
        for (key, value) in self.object(name) {
            let place = self.place(name).member(key);
            numbers.extend(
                self.as_integer(name, &place, value)
                    .map(|number| (key.as_str(), number)),
            );
        }
        if self.is_bad(name) { Vec::new() } else { numbers }
    }

    /// An object from strings to arrays of strings; empty when absent or when one of them is none.
    pub(super) fn text_lists(&mut self, name: &'static str) -> Vec<(&'a str, Vec<&'a str>)> {
        let mut lists = Vec::new();
        for (key, value) in self.object(name) {
            let place = self.place(name).member(key);
            lists.push((key.as_str(), self.as_texts(name, &place, value)));
        }
        if self.is_bad(name) { Vec::new() } else { lists }
    }

    fn object(&mut self, name: &'static str) -> &'a [(String, Json)] {
        match self.get(name) {
            None => &[],
            Some(Json::Object(members)) => members,
            Some(other) => {
                self.mistyped(name, &self.place(name), "an object", other);
                &[]
            }
        }
    }

    fn as_texts(&mut self, name: &'static str, place: &Place, value: &'a Json) -> Vec<&'a str> {
        let Json::Array(items) = value else {
            self.mistyped(name, place, "an array of strings", value);
            return Vec::new();
        };
        let mut texts = Vec::with_capacity(items.len());
        for (index, item) in items.iter().enumerate() {
            match item {
                Json::Text(text) => texts.push(text.as_str()),
                other => self.mistyped(name, &place.item(index), "a string", other),
            }
        }
        if texts.len() == items.len() { texts } else { Vec::new() }
    }

    fn as_integer(&mut self, name: &'static str, place: &Place, value: &Json) -> Option<i64> {
        match value {
            Json::Integer(number) => Some(*number),
            Json::Number => {
                self.bad.push(name);
                self.problems
                    .push(place.problem("must be a whole number within 64 bits, without fraction or exponent"));
                None
            }
            other => {
                self.mistyped(name, place, "a whole number", other);
                None
            }
        }
    }

    fn mistyped(&mut self, name: &'static str, place: &Place, wanted: &str, found: &Json) {
        self.bad.push(name);
        self.problems
            .push(place.problem(format_args!("must be {wanted}, not {}", found.kind())));
    }
}
