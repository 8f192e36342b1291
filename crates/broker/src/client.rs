//! The client that is placed in a guest: convenience and an early error, never the boundary.

use plimsoll_grants::grant::Grant;
use serde::Serialize;

/// The private global function of our engine that carries a call out of the guest.
pub const HOST_CALL_GLOBAL: &str = "__plimsoll_host_call";

/// Reads, between its two markers, a JSON list and a JSON string; neither is ever inserted as raw text.
const SNIPPET: &str = include_str!("../js/snippet_client.js");
const ALLOW_MARKER: &str = "\"@ALLOW@\"";
const GLOBAL_MARKER: &str = "\"@GLOBAL@\"";

/// One entry of the allow list as the client reads it.
#[derive(Serialize)]
struct Entry<'a> {
    m: &'static str,
    p: &'a str,
}

/// The client of a snippet in our engine, where a call is one synchronous function call. A script of its own; running it
/// defines the grant's global and nothing else, and cannot throw.
pub fn snippet_client(grant: &Grant) -> String {
    let allow: Vec<Entry<'_>> = grant
        .allow()
        .iter()
        .map(|route| Entry {
            m: route.method().as_str(),
            p: route.path(),
        })
        .collect();
    let (before, rest) = split(SNIPPET, ALLOW_MARKER);
    let (between, after) = split(rest, GLOBAL_MARKER);
    let allow = json(&allow);
    let global = json(&grant.global());
    [before, &allow, between, &global, after].concat()
}

/// JSON is a subset of JavaScript's expressions (since its 2019 edition), so it needs no further escaping.
fn json<T: Serialize>(value: &T) -> String {
    // Lists and strings always serialise; `null` would leave a client that permits nothing.
    serde_json::to_string(value).unwrap_or_else(|_| "null".to_owned())
}

fn split<'a>(text: &'a str, marker: &str) -> (&'a str, &'a str) {
    text.split_once(marker).unwrap_or((text, ""))
}

#[cfg(test)]
mod tests {
    use plimsoll_grants::grant::GrantSpec;

    use super::{ALLOW_MARKER, GLOBAL_MARKER, HOST_CALL_GLOBAL, SNIPPET, snippet_client};

    fn client(global: &str) -> String {
        let mut spec = GrantSpec::new("https://api.example");
        spec.allow = vec![
            ("get".to_owned(), "/berths/*".to_owned()),
            ("PUT".to_owned(), "/a/$x&y=1,2@z+w~".to_owned()),
        ];
        spec.global = global.to_owned();
        snippet_client(&spec.validate().unwrap())
    }

    #[test]
    fn the_template_holds_each_marker_once_and_names_our_primitive() {
        for marker in [ALLOW_MARKER, GLOBAL_MARKER] {
            assert_eq!(SNIPPET.matches(marker).count(), 1, "{marker}");
        }
        assert!(SNIPPET.find(ALLOW_MARKER) < SNIPPET.find(GLOBAL_MARKER));
        assert!(SNIPPET.contains(&format!("globalThis.{HOST_CALL_GLOBAL};")));
    }

    #[test]
    fn the_allow_list_and_the_global_are_inserted_as_json() {
        let text = client("port");
        assert!(
            text.contains(r#"const allow = [{"m":"GET","p":"/berths/*"},{"m":"PUT","p":"/a/$x&y=1,2@z+w~"}] || [];"#)
        );
        assert!(text.contains(r#"Object.defineProperty(globalThis, "port", {"#));
        assert!(
            client("").contains(r#"Object.defineProperty(globalThis, "host", {"#),
            "the default"
        );
    }

    #[test]
    fn a_global_cannot_leave_its_string() {
        let text = client("x\"];evil()//\n\\");
        assert!(text.contains(r#"Object.defineProperty(globalThis, "x\"];evil()//\n\\", {"#));
        assert_eq!(text.lines().count(), client("y").lines().count());
        let text = client("\"@ALLOW@\" \"@GLOBAL@\"");
        assert!(text.contains(r#"globalThis, "\"@ALLOW@\" \"@GLOBAL@\"", {"#));
    }
}
