//! Local references. Only what the generator reads can be referred to, and nothing is ever fetched.

use std::collections::HashSet;

use crate::problem::quoted;
use crate::tree::{Map, Node};

/// References followed one after the other before the document is refused. Real documents need one.
const MAX_HOPS: usize = 8;

/// Longest reference, in bytes; it is split into steps each time it is followed.
const MAX_REFERENCE_BYTES: usize = 4096;

/// Follows `$ref` until an object without one.
///
/// # Errors
/// What is wrong with the reference, naming it.
pub(crate) fn resolve<'d>(root: &'d Map, start: &'d Map) -> Result<&'d Map, String> {
    let mut object = start;
    let mut followed = HashSet::new();
    loop {
        let reference = match object.get("$ref") {
            None => return Ok(object),
            Some(Node::Text(reference)) => reference.as_str(),
            Some(other) => return Err(format!("$ref must be a string, not {}", other.kind())),
        };
        if reference.len() > MAX_REFERENCE_BYTES {
            return Err(format!(
                "the reference {} is longer than {MAX_REFERENCE_BYTES} bytes; shorten the name it leads to",
                quoted(reference)
            ));
        }
        if !followed.insert(reference) {
            return Err(format!(
                "the reference {} is cyclic; break the cycle",
                quoted(reference)
            ));
        }
        if followed.len() > MAX_HOPS {
            return Err(format!(
                "the reference {} is the {}th in a row, {MAX_HOPS} are followed; refer to the object itself",
                quoted(reference),
                MAX_HOPS + 1
            ));
        }
        object = match find(root, reference)? {
            Node::Map(object) => object,
            other => {
                return Err(format!(
                    "the reference {} leads to {}, an object is needed",
                    quoted(reference),
                    other.kind()
                ));
            }
        };
    }
}

/// The node a reference names.
fn find<'d>(root: &'d Map, reference: &str) -> Result<&'d Node, String> {
    let Some(pointer) = reference.strip_prefix("#/") else {
        return Err(format!(
            "the reference {} is not local; bundle the document into one file first",
            quoted(reference)
        ));
    };
    let nothing = || {
        format!(
            "the reference {} resolves to nothing; correct it or add what it names",
            quoted(reference)
        )
    };
    let steps: Vec<String> = pointer
        .split('/')
        .map(decoded)
        .collect::<Option<_>>()
        .ok_or_else(nothing)?;
    let readable = matches!(
        steps.iter().map(String::as_str).collect::<Vec<_>>().as_slice(),
        ["paths", _, ..] | ["components", "parameters" | "pathItems", _, ..]
    );
    if !readable {
        return Err(format!(
            "the reference {} leads outside #/paths, #/components/parameters and #/components/pathItems; move what it \
             names there",
            quoted(reference)
        ));
    }
    let mut node = root.get(&steps[0]).ok_or_else(nothing)?;
    for step in &steps[1..] {
        node = match node {
            Node::Map(map) => map.get(step),
            Node::List(list) => step.parse::<usize>().ok().and_then(|index| list.get(index)),
            _ => None,
        }
        .ok_or_else(nothing)?;
    }
    Ok(node)
}

/// One step of a pointer: percent escapes of the fragment first, then `~1` and `~0` of the pointer.
fn decoded(step: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(step.len());
    let mut rest = step.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let digits = [rest.next()?, rest.next()?];
            if !digits.iter().all(u8::is_ascii_hexdigit) {
                return None;
            }
            bytes.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?);
        } else {
            bytes.push(byte);
        }
    }
    let text = String::from_utf8(bytes).ok()?;
    Some(text.replace("~1", "/").replace("~0", "~"))
}

#[cfg(test)]
mod tests {
    use super::decoded;

    #[test]
    fn a_pointer_step_is_decoded_once_and_in_the_right_order() {
        assert_eq!(decoded("~1a~1%7Bid%7D").as_deref(), Some("/a/{id}"));
        assert_eq!(decoded("~01").as_deref(), Some("~1"));
        assert_eq!(decoded("%257B").as_deref(), Some("%7B"));
        assert_eq!(decoded("%4"), None);
        assert_eq!(decoded("%+1"), None);
        assert_eq!(decoded("%ff"), None);
    }
}
