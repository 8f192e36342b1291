//! The client that is placed in a guest: convenience and an early error, never the boundary.
//!
//! Its rules are written once for JavaScript and once for Python; only how a call leaves the guest differs by channel.

use plimsoll_grants::grant::Grant;
use serde::Serialize;

use crate::framing::{GUEST_SOCKET, SOCKET_VARIABLE};

/// The private global function of our engine that carries a call out of the guest.
pub const HOST_CALL_GLOBAL: &str = "__plimsoll_host_call";

/// Rules and members of the JavaScript client. A JSON list, the channel's part and a JSON string take the places of its
/// three markers, in this order; neither list nor string is ever inserted as raw text.
const JAVASCRIPT: &str = include_str!("../js/client.js");
const SEND_BY_ENGINE: &str = include_str!("../js/send_engine.js");
const SEND_BY_SOCKET: &str = include_str!("../js/send_socket.js");

/// The Python client, with two of the markers.
const PYTHON: &str = include_str!("../py/client.py");

const ALLOW_MARKER: &str = "\"@ALLOW@\"";
const SEND_MARKER: &str = "  \"@SEND@\";\n";
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
    javascript(grant, SEND_BY_ENGINE)
}

/// The client of a snippet in Node (22.3 or later, where a script need not be able to import), which calls over the socket
/// at [`GUEST_SOCKET`]. A classic script of its own, to be run before the grant's preamble, which is another one: it sets
/// [`SOCKET_VARIABLE`] in `process.env` and defines the grant's global, and cannot throw.
///
/// It holds no connection open between calls and starts nothing before the first, so it never keeps a program from ending.
pub fn node_client(grant: &Grant) -> String {
    let set = format!(
        "try {{ process.env.{SOCKET_VARIABLE} = {}; }} catch {{}}\n",
        json(&GUEST_SOCKET)
    );
    set + &javascript(grant, SEND_BY_SOCKET)
}

/// Client and preamble of a project's steps: an ES module to be loaded into each `node` with `--import`. The socket is the
/// one that [`SOCKET_VARIABLE`] names when a call is made; without it calls reject.
///
/// The preamble runs as a classic script in Node's own context, as it does before a snippet; if it throws, the step fails.
pub fn node_module(grant: &Grant) -> String {
    let client = javascript(grant, SEND_BY_SOCKET);
    if grant.preamble().is_empty() {
        return client;
    }
    let preamble = json(&grant.preamble());
    format!(
        "import * as vm from \"node:vm\";\n{client}vm.runInThisContext({preamble}, {{\n  filename: \"preamble.js\",\n  \
         importModuleDynamically: vm.constants?.USE_MAIN_CONTEXT_DEFAULT_LOADER,\n}});\n"
    )
}

/// The client as a Python module (3.11 or later, standard library only) for the steps of a project: `from plimsoll_host
/// import host`, or the grant's own global in place of `host`. Calls block; the socket is the one that [`SOCKET_VARIABLE`]
/// names when a call is made.
///
/// To be written as `plimsoll_host.py` into a folder of its own that is in `PYTHONPATH`; in a folder that holds other files
/// those would be importable too. The preamble is JavaScript and has no part in it.
pub fn python_client(grant: &Grant) -> String {
    fill(
        PYTHON,
        // A JSON list of objects of strings is a Python literal of the same value.
        &[(ALLOW_MARKER, &allow(grant)), (GLOBAL_MARKER, &json(&grant.global()))],
    )
}

fn javascript(grant: &Grant, send: &str) -> String {
    fill(
        JAVASCRIPT,
        &[
            (ALLOW_MARKER, &allow(grant)),
            (SEND_MARKER, send),
            (GLOBAL_MARKER, &json(&grant.global())),
        ],
    )
}

fn allow(grant: &Grant) -> String {
    let entries: Vec<Entry<'_>> = grant
        .allow()
        .iter()
        .map(|route| Entry {
            m: route.method().as_str(),
            p: route.path(),
        })
        .collect();
    json(&entries)
}

/// JSON is a subset of JavaScript's expressions (since its 2019 edition), so it needs no further escaping.
fn json<T: Serialize>(value: &T) -> String {
    // Lists and strings always serialise; `null` would leave a client that permits nothing.
    serde_json::to_string(value).unwrap_or_else(|_| "null".to_owned())
}

/// Puts each value in the place of its marker; the markers stand in this order, and no value is searched for one.
fn fill(template: &str, values: &[(&str, &str)]) -> String {
    let mut text = String::with_capacity(template.len() + values.iter().map(|(_, value)| value.len()).sum::<usize>());
    let mut rest = template;
    for (marker, value) in values {
        let (before, after) = rest.split_once(marker).unwrap_or((rest, ""));
        text.push_str(before);
        text.push_str(value);
        rest = after;
    }
    text.push_str(rest);
    text
}

#[cfg(test)]
mod tests {
    use plimsoll_grants::grant::{Grant, GrantSpec};

    use super::*;

    fn grant(global: &str) -> Grant {
        let mut spec = GrantSpec::new("https://api.example");
        spec.allow = vec![
            ("get".to_owned(), "/berths/*".to_owned()),
            ("PUT".to_owned(), "/a/$x&y=1,2@z+w~".to_owned()),
        ];
        spec.global = global.to_owned();
        spec.validate().unwrap()
    }

    fn clients(global: &str) -> [String; 4] {
        let grant = grant(global);
        [
            snippet_client(&grant),
            node_client(&grant),
            node_module(&grant),
            python_client(&grant),
        ]
    }

    #[test]
    fn the_templates_hold_each_marker_once_and_name_what_they_stand_on() {
        let places = |template: &str, markers: &[&str]| {
            let place = |marker: &&str| {
                assert_eq!(template.matches(marker).count(), 1, "{marker}");
                template.find(marker).unwrap()
            };
            let places: Vec<_> = markers.iter().map(place).collect();
            assert!(places.is_sorted());
        };
        places(JAVASCRIPT, &[ALLOW_MARKER, SEND_MARKER, GLOBAL_MARKER]);
        places(PYTHON, &[ALLOW_MARKER, GLOBAL_MARKER]);
        assert!(SEND_BY_ENGINE.contains(&format!("globalThis.{HOST_CALL_GLOBAL};")));
        assert!(SEND_BY_SOCKET.contains(&format!("process.env.{SOCKET_VARIABLE};")));
        assert!(PYTHON.contains(&format!("os.environ.get(\"{SOCKET_VARIABLE}\")")));
    }

    #[test]
    fn the_allow_list_and_the_global_are_inserted_as_json() {
        let allow = r#"[{"m":"GET","p":"/berths/*"},{"m":"PUT","p":"/a/$x&y=1,2@z+w~"}]"#;
        for text in clients("port") {
            assert!(text.contains(allow));
            assert!(text.contains("globalThis, \"port\", {") || text.contains("setdefault(\"port\", host)"));
        }
        for text in clients("") {
            assert!(text.contains("globalThis, \"host\", {") || text.contains("setdefault(\"host\", host)"));
        }
    }

    #[test]
    fn a_global_cannot_leave_its_string() {
        let plain = clients("y");
        for (text, plain) in clients("x\"];evil()//\n\\").iter().zip(&plain) {
            assert!(text.contains(r#""x\"];evil()//\n\\""#));
            assert_eq!(text.lines().count(), plain.lines().count());
        }
        for text in clients("\"@ALLOW@\" \"@SEND@\" \"@GLOBAL@\"") {
            assert!(text.contains(r#""\"@ALLOW@\" \"@SEND@\" \"@GLOBAL@\"""#));
        }
    }

    #[test]
    fn only_a_snippet_in_node_sets_the_socket() {
        let [engine, snippet, module, python] = clients("host");
        assert!(
            snippet.starts_with("try { process.env.HOST_API_SOCKET = \"/run/host-api.sock\"; } catch {}\n(function")
        );
        for text in [engine, module, python] {
            assert!(!text.contains(GUEST_SOCKET));
        }
    }

    #[test]
    fn a_preamble_is_a_string_of_the_module() {
        let mut spec = GrantSpec::new("https://api.example");
        spec.preamble = "var a = \"`${1}\";\n</script>\u{2028}".to_owned();
        let text = node_module(&spec.validate().unwrap());
        assert!(text.contains("vm.runInThisContext(\"var a = \\\"`${1}\\\";\\n</script>\u{2028}\", {"));
    }
}
