//! What holds for every document.

use plimsoll_grants::Route;
use plimsoll_specgen::{Artifact, Options, generate};
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use serde_json::{Map, Value, json};

/// A path: mostly one a grant can express.
fn path() -> impl Strategy<Value = String> {
    let segment = prop_oneof![
        6 => "[a-z]{1,6}",
        4 => "\\{[a-zA-Z.-]{1,8}\\}",
        1 => "[ -~]{0,6}",
        1 => "[a-z]\\{b\\}",
        1 => Just("*".to_owned()),
    ];
    prop::collection::vec(segment, 1..5).prop_map(|segments| format!("/{}", segments.join("/")))
}

fn parameter() -> impl Strategy<Value = Value> {
    (
        prop_oneof![4 => Just("path"), 2 => Just("query"), 1 => Just("header")],
        "[a-z]{1,5}",
        any::<bool>(),
    )
        .prop_map(|(location, name, required)| json!({"in": location, "name": name, "required": required}))
}

fn operation() -> impl Strategy<Value = Value> {
    let id = prop_oneof![8 => "[a-zA-Z]{3,9}", 1 => "[ -~]{0,9}", 1 => any::<String>()];
    (
        id,
        any::<String>(),
        prop::collection::vec(parameter(), 0..3),
        any::<bool>(),
    )
        .prop_map(|(id, summary, parameters, body)| {
            let mut operation = json!({"operationId": id, "summary": summary, "parameters": parameters});
            if body {
                operation["requestBody"] = json!({});
            }
            operation
        })
}

fn document() -> impl Strategy<Value = Value> {
    let verb = prop::sample::select(vec!["get", "put", "post", "delete", "patch", "head", "trace"]);
    let item = prop::collection::btree_map(verb, operation(), 0..4);
    let paths = prop::collection::btree_map(path(), item, 1..6);
    ("[ -~]{0,12}", paths).prop_map(|(title, paths)| {
        let paths: Map<String, Value> = paths.into_iter().map(|(path, item)| (path, json!(item))).collect();
        json!({"openapi": "3.1.0", "info": {"title": title, "version": "1"}, "paths": paths})
    })
}

fn options() -> impl Strategy<Value = Options> {
    (any::<bool>(), any::<String>()).prop_map(|(skip_unsupported, global)| Options {
        skip_unsupported,
        global,
        ..Options::default()
    })
}

/// Whether text is one literal of a preamble line with nothing unescaped in it.
fn one_line_each(text: &str) -> bool {
    !text.contains(['\u{2028}', '\u{2029}', '\r'])
}

#[test]
fn the_documents_of_these_properties_are_neither_all_refused_nor_all_plain() {
    let mut runner = TestRunner::deterministic();
    let (mut yielding, mut skipping, mut refused) = (0, 0, 0);
    for _ in 0..300 {
        let tree = (document(), options()).new_tree(&mut runner).unwrap();
        let (document, options) = tree.current();
        match generate(document.to_string().as_bytes(), &options) {
            Ok(generated) if generated.skipped().is_empty() => yielding += 1,
            Ok(_) => skipping += 1,
            Err(_) => refused += 1,
        }
    }
    let counts = [yielding, skipping, refused];
    assert!(counts.iter().all(|count| *count >= 20), "{counts:?}");
}

proptest! {
    #[test]
    fn the_same_document_gives_the_same_bytes_and_every_route_can_be_granted(
        document in document(),
        options in options(),
    ) {
        let bytes = serde_json::to_vec(&document).unwrap();
        let once = generate(&bytes, &options);
        // White space and the order of members decide nothing.
        let again = generate(&serde_json::to_vec_pretty(&document).unwrap(), &options);
        prop_assert_eq!(&once, &again);
        let Ok(generated) = once else { return Ok(()) };
        prop_assert!(!generated.allow().is_empty());
        for route in generated.allow() {
            prop_assert_eq!(&Route::new(route.method().as_str(), route.path()).unwrap(), route);
        }
        prop_assert!(generated.allow().is_sorted_by_key(|route| (route.path().to_owned(), route.method().as_str())));
        let listed: Vec<String> = serde_json::from_str(&generated.emit(Artifact::Allow)).unwrap();
        let routes: Vec<Route> = listed.iter().map(|line| Route::parse_line(line).unwrap()).collect();
        prop_assert_eq!(routes, generated.allow());

        let preamble = generated.emit(Artifact::Preamble);
        prop_assert!(one_line_each(&preamble));
        let calls = preamble.lines().filter(|line| line.starts_with("  h[\"")).count();
        prop_assert_eq!(preamble.lines().count(), calls + 5);
        prop_assert_eq!(calls + generated.skipped().len(), generated.operations());
        let description = generated.emit(Artifact::Description);
        prop_assert!(one_line_each(&description));
        let operations = description.lines().filter(|line| line.starts_with("  ") && !line.starts_with("      ")).count();
        prop_assert_eq!(operations, calls);
    }

    #[test]
    fn any_text_is_generated_from_or_refused_with_a_reason(text in any::<String>()) {
        for document in [text.clone(), format!("openapi: 3.0.0\npaths:\n  {text}"), format!("{{\"openapi\":\"3.0.0\",\"paths\":{text}}}")] {
            if let Err(refused) = generate(document.as_bytes(), &Options::default()) {
                prop_assert!(!refused.problems().is_empty());
            }
        }
    }

    #[test]
    fn yaml_reads_what_json_reads(document in document()) {
        // A comment before it makes the same text YAML.
        let json = serde_json::to_string_pretty(&document).unwrap();
        let options = Options { skip_unsupported: true, ..Options::default() };
        let (from_json, from_yaml) = (generate(json.as_bytes(), &options), generate(format!("# YAML\n{json}").as_bytes(), &options));
        prop_assert_eq!(from_json, from_yaml);
    }
}
