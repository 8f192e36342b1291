//! What a caller may be called.

/// The rules an identity obeys, wherever it comes from.
///
/// # Errors
/// The rule that is broken, as "must …".
pub fn check_identity(identity: &str) -> Result<(), &'static str> {
    if identity.is_empty() {
        return Err("must not be empty");
    }
    if identity == "*" {
        return Err("must not be `*`, which stands for every caller");
    }
    if identity.trim() != identity {
        return Err("must have no white space at its ends");
    }
    if identity.chars().any(char::is_control) {
        return Err("must hold no control character");
    }
    Ok(())
}
