//! Names of methods and arguments (spec 30 §12.3).

use std::collections::HashSet;

/// Methods the injected client has itself.
const CLIENT_METHODS: [&str; 6] = ["call", "del", "get", "patch", "post", "put"];

/// What every JavaScript object inherits. Assigning one of these names would change more than the client.
const INHERITED: [&str; 12] = [
    "__defineGetter__",
    "__defineSetter__",
    "__lookupGetter__",
    "__lookupSetter__",
    "__proto__",
    "constructor",
    "hasOwnProperty",
    "isPrototypeOf",
    "propertyIsEnumerable",
    "toLocaleString",
    "toString",
    "valueOf",
];

/// Names no argument can have.
const RESERVED: [&str; 49] = [
    "arguments",
    "await",
    "break",
    "case",
    "catch",
    "class",
    "const",
    "continue",
    "debugger",
    "default",
    "delete",
    "do",
    "else",
    "enum",
    "eval",
    "export",
    "extends",
    "false",
    "finally",
    "for",
    "function",
    "if",
    "implements",
    "import",
    "in",
    "instanceof",
    "interface",
    "let",
    "new",
    "null",
    "package",
    "private",
    "protected",
    "public",
    "return",
    "static",
    "super",
    "switch",
    "this",
    "throw",
    "true",
    "try",
    "typeof",
    "var",
    "void",
    "while",
    "with",
    "yield",
    // The binding of the client in the preamble.
    "h",
];

/// Longest operationId, in bytes. It stands in the script, in the description and in messages; real ones have up to 100.
const MAX_ID_BYTES: usize = 256;

/// The nearest identifier: what cannot stand in one becomes `_`.
pub(crate) fn identifier(text: &str) -> String {
    let mut name: String = text
        .chars()
        .map(|character| match character {
            'A'..='Z' | 'a'..='z' | '0'..='9' | '_' | '$' => character,
            _ => '_',
        })
        .collect();
    if name.is_empty() || name.starts_with(|first: char| first.is_ascii_digit()) {
        name.insert(0, '_');
    }
    name
}

/// The method name of an operationId.
///
/// # Errors
/// Why the client cannot have a method of that name.
pub(crate) fn method(id: &str) -> Result<String, String> {
    if id.len() > MAX_ID_BYTES {
        return Err(format!("operationId is longer than {MAX_ID_BYTES} bytes; shorten it"));
    }
    let name = identifier(id);
    if CLIENT_METHODS.contains(&name.as_str()) {
        return Err(format!(
            "operationId {id:?} is one of the client's own methods; rename it"
        ));
    }
    if INHERITED.contains(&name.as_str()) {
        return Err(format!(
            "operationId {id:?} is a name every JavaScript object has; rename it"
        ));
    }
    Ok(name)
}

/// The argument names of path parameters in order, then `body` where there is one.
pub(crate) fn arguments(parameters: &[&str], has_body: bool) -> Vec<String> {
    let mut taken = HashSet::new();
    let mut names = Vec::with_capacity(parameters.len() + 1);
    for parameter in parameters {
        let mut name = identifier(parameter);
        while RESERVED.contains(&name.as_str()) || (has_body && name == "body") || taken.contains(&name) {
            name.push('_');
        }
        taken.insert(name.clone());
        names.push(name);
    }
    if has_body {
        names.push("body".to_owned());
    }
    names
}

/// A text on one line: runs of white space and control characters become one space.
pub(crate) fn one_line(text: &str) -> String {
    let blank = |character: char| character.is_whitespace() || character.is_control();
    text.split(blank)
        .filter(|word| !word.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
}

#[cfg(test)]
mod tests {
    use super::{arguments, identifier, method, one_line};

    #[test]
    fn any_text_becomes_an_identifier() {
        for (text, name) in [
            ("assign-berth", "assign_berth"),
            ("1st", "_1st"),
            ("", "_"),
            ("grün", "gr_n"),
            ("a$b", "a$b"),
            ("repos/get", "repos_get"),
        ] {
            assert_eq!(identifier(text), name);
        }
    }

    #[test]
    fn an_argument_avoids_words_bindings_and_its_neighbours() {
        assert_eq!(arguments(&["h"], false), ["h_"]);
        assert_eq!(arguments(&["item-id"], false), ["item_id"]);
        assert_eq!(arguments(&["default"], false), ["default_"]);
        assert_eq!(arguments(&["a-b", "a.b"], false), ["a_b", "a_b_"]);
        assert_eq!(arguments(&["a-b", "a_b_", "a.b"], false), ["a_b", "a_b_", "a_b__"]);
        assert_eq!(arguments(&["body"], true), ["body_", "body"]);
        assert_eq!(arguments(&["body"], false), ["body"]);
    }

    #[test]
    fn methods_of_the_client_and_of_every_object_are_refused() {
        for id in ["get", "del", "call", "__proto__", "constructor", "valueOf", "toString"] {
            assert!(method(id).is_err(), "{id}");
        }
        assert_eq!(method("delete").as_deref(), Ok("delete"));
    }

    #[test]
    fn a_summary_cannot_leave_its_line() {
        assert_eq!(one_line(" One\n  berth.\u{2028}\t\u{0}x "), "One berth. x");
    }
}
