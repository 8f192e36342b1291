//! References to images, as the operator writes them.

/// A reference cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImageRefError {
    /// Blank, padded, or what a command would take for an option.
    #[error("{reference:?}: not a reference to an image; write a name such as plimsoll/sandbox:latest or a content ID")]
    Malformed {
        /// As written.
        reference: String,
    },
    /// Content could change under it.
    #[error(
        "{reference:?}: SANDBOX_REQUIRE_PINNED_IMAGES is on and this is not pinned; write name@sha256:<64 hex digits> or sha256:<64 hex digits>"
    )]
    NotPinned {
        /// As written.
        reference: String,
    },
}

/// Checks the form of a reference, and that it is pinned where that is required.
///
/// # Errors
/// [`ImageRefError`].
pub fn check(reference: &str, must_be_pinned: bool) -> Result<(), ImageRefError> {
    let owned = || reference.to_owned();
    if reference.is_empty() || reference.trim() != reference || reference.starts_with('-') {
        return Err(ImageRefError::Malformed { reference: owned() });
    }
    if must_be_pinned && !is_pinned(reference) {
        return Err(ImageRefError::NotPinned { reference: owned() });
    }
    Ok(())
}

/// Whether the reference can only ever mean one content: a content ID, or a name with a digest at its end.
pub fn is_pinned(reference: &str) -> bool {
    if let Some(digits) = reference.strip_prefix("sha256:") {
        return is_sha256(digits);
    }
    match reference.rsplit_once("@sha256:") {
        Some((name, digits)) => !name.is_empty() && is_sha256(digits),
        None => false,
    }
}

/// Whether the text is a content ID: `sha256:` and 64 hex digits.
pub fn is_content_id(text: &str) -> bool {
    text.strip_prefix("sha256:").is_some_and(is_sha256)
}

fn is_sha256(digits: &str) -> bool {
    digits.len() == 64 && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_digest_or_a_content_id_is_pinned() {
        let hex = "0123456789abcdef".repeat(4);
        for pinned in [
            format!("node@sha256:{hex}"),
            format!("sha256:{hex}"),
            format!("a:5/n:22@sha256:{hex}"),
        ] {
            assert!(is_pinned(&pinned), "{pinned}");
            assert_eq!(check(&pinned, true), Ok(()));
        }
        for loose in [
            "node:22-alpine".to_owned(),
            "node@sha256:short".to_owned(),
            format!("@sha256:{hex}"),
            format!("node@sha256:{}", "z".repeat(64)),
            format!("sha256:{}", "z".repeat(64)),
            format!("node@sha256:{hex}x"),
            format!("node@sha256:{hex}:latest"),
            format!("sha256:{hex}@sha256:short"),
            hex,
        ] {
            assert!(!is_pinned(&loose), "{loose}");
            assert!(
                matches!(check(&loose, true), Err(ImageRefError::NotPinned { .. })),
                "{loose}"
            );
        }
    }

    #[test]
    fn a_reference_is_neither_blank_nor_padded_nor_an_option() {
        for reference in ["", " ", " node", "node ", "\tnode", "-node", "--help"] {
            let malformed = check(reference, false);
            assert!(
                matches!(malformed, Err(ImageRefError::Malformed { .. })),
                "{reference:?}"
            );
        }
        assert_eq!(check("plimsoll/sandbox:latest", false), Ok(()));
    }
}
