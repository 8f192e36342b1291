//! What is wrong with a grants file, and where.

use std::fmt;

use crate::grant::Clipped;

/// One problem of a grants file. Names profile, field and rule; never repeats a field's value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}{problem}")]
pub struct ProfileError {
    place: Place,
    problem: String,
}

impl ProfileError {
    /// The profile; none for a problem of the whole file.
    pub fn profile(&self) -> Option<&str> {
        self.place.profile.as_deref()
    }

    /// The field within the profile, such as `allow[2]`; empty for a problem of the whole profile or file.
    pub fn field(&self) -> &str {
        &self.place.field
    }

    /// The rule, and what helps.
    pub fn problem(&self) -> &str {
        &self.problem
    }
}

/// Where in the file something is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Place {
    profile: Option<String>,
    field: String,
}

impl Place {
    pub(super) fn profile(name: &str) -> Self {
        Self {
            profile: Some(name.to_owned()),
            field: String::new(),
        }
    }

    pub(super) fn member(&self, key: &str) -> Self {
        let plain = !key.is_empty() && key.len() <= 64 && key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        let field = match (self.field.as_str(), plain) {
            ("", true) => key.to_owned(),
            (field, true) => format!("{field}.{key}"),
            (field, false) => format!("{field}[{}]", Clipped(key)),
        };
        Self {
            profile: self.profile.clone(),
            field,
        }
    }

    /// A field that is spelled out already.
    pub(super) fn at(&self, field: &str) -> Self {
        Self {
            profile: self.profile.clone(),
            field: field.to_owned(),
        }
    }

    pub(super) fn item(&self, index: usize) -> Self {
        Self {
            profile: self.profile.clone(),
            field: format!("{}[{index}]", self.field),
        }
    }

    pub(super) fn problem(&self, problem: impl fmt::Display) -> ProfileError {
        ProfileError {
            place: self.clone(),
            problem: problem.to_string(),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.profile, self.field.as_str()) {
            (None, "") => f.write_str("the file "),
            (None, field) => write!(f, "{field}: "),
            (Some(profile), "") => write!(f, "profile {}: ", Clipped(profile)),
            (Some(profile), field) => write!(f, "profile {}, {field}: ", Clipped(profile)),
        }
    }
}
