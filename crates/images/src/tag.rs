//! Names of images.

/// A name and a tag, e.g. `plimsoll/sandbox:latest`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tag(String);

impl Tag {
    /// Reads a name with or without a tag; without one it is `latest`.
    ///
    /// # Errors
    ///
    /// A sentence that says what a name may be, when engines would not take this one.
    pub fn parse(text: &str) -> Result<Self, String> {
        const MAX_NAME: usize = 200;
        const MAX_TAG: usize = 128;
        let (name, tag) = text.split_once(':').unwrap_or((text, "latest"));
        let part = |part: &str| {
            let plain = |one: char| one.is_ascii_lowercase() || one.is_ascii_digit();
            part.starts_with(plain)
                && part.ends_with(plain)
                && part.chars().all(|one| plain(one) || "._-".contains(one))
        };
        let name_fits = name.len() <= MAX_NAME && name.split('/').all(part);
        let tag_fits = !tag.is_empty()
            && tag.len() <= MAX_TAG
            && tag.starts_with(|one: char| one.is_ascii_alphanumeric() || one == '_')
            && tag
                .chars()
                .all(|one| one.is_ascii_alphanumeric() || "._-".contains(one));
        if name_fits && tag_fits {
            return Ok(Self(format!("{name}:{tag}")));
        }
        Err("is no image name: write lower-case letters, digits and . _ - between slashes, then a tag after a colon if it \
             is not latest, e.g. acme/sandbox:zod"
            .to_owned())
    }

    /// Name and tag.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_that_engines_take() {
        for (text, expected) in [
            ("a", "a:latest"),
            ("plimsoll/sandbox", "plimsoll/sandbox:latest"),
            ("acme/deep/sand-box_2:V1.0", "acme/deep/sand-box_2:V1.0"),
        ] {
            assert_eq!(Tag::parse(text).unwrap().as_str(), expected);
        }
        for text in [
            "",
            "A",
            "a:",
            "a/",
            "/a",
            "a//b",
            "a:b:c",
            "-a",
            "a b",
            "a@sha256:0",
            "../x",
            "a+b",
            "a=b",
            ":t",
        ] {
            Tag::parse(text).expect_err(text);
        }
    }
}
