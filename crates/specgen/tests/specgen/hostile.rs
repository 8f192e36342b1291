//! Documents that want to exhaust or confuse the reader.

use std::time::{Duration, Instant};

use plimsoll_specgen::{MAX_NESTING, Options, generate};

use crate::support::{generated, get, lines, paths, refused};

/// Far above what any of these takes, far below what an unbounded reader would.
const PATIENCE: Duration = Duration::from_secs(20);

#[test]
fn nesting_is_bounded_in_both_formats_and_the_bound_is_exact() {
    let nested = |levels: usize| format!(r#", "x": {}1{}"#, "[".repeat(levels), "]".repeat(levels));
    // Four objects stand around the value.
    let fits = MAX_NESTING - 4;
    assert_eq!(lines(&generated(&get("/a", &nested(fits)))).len(), 1);
    refused(&get("/a", &nested(fits + 1)), &["nest deeper than 256"]);
    refused(&get("/a", &nested(1_000_000)), &["nest deeper than 256"]);

    let yaml = |levels: usize| {
        format!(
            "openapi: 3.0.0\npaths: {{/a: {{get: {{operationId: a}}}}}}\nx: {}1{}\n",
            "[".repeat(levels),
            "]".repeat(levels)
        )
    };
    assert_eq!(lines(&generated(&yaml(MAX_NESTING - 1))).len(), 1);
    refused(&yaml(MAX_NESTING), &["nest deeper than 256"]);
    refused(&yaml(1_000_000), &["invalid YAML"]);
    let block = format!("openapi: 3.0.0\nx:\n{}1\n", "- ".repeat(1_000));
    refused(&block, &["invalid YAML"]);
    // An alias inside an anchor deepens what it stands in.
    let mut chain = "openapi: 3.0.0\na0: &a0 [1]\n".to_owned();
    for level in 1..300 {
        chain.push_str(&format!("a{level}: &a{level} [*a{}]\n", level - 1));
    }
    refused(&chain, &["nest deeper than 256"]);
}

#[test]
fn duplicate_keys_are_refused_wherever_they_stand() {
    for document in [
        r#"{"openapi": "3.0.0", "openapi": "3.1.0", "paths": {}}"#.to_owned(),
        paths(r#""/a": {"get": {"operationId": "a"}}, "/a": {"get": {"operationId": "b"}}"#),
        get("/a", r#", "operationId": "two""#),
        get("/a", r#", "x": [{"deep": {"k": 1, "\u006b": 2}}]"#),
        get(
            "/a",
            &format!(
                r#", "x": {{{}, "k3": 0}}"#,
                (0..100)
                    .map(|key| format!("\"k{key}\": 1"))
                    .collect::<Vec<_>>()
                    .join(",")
            ),
        ),
    ] {
        refused(&document, &["invalid JSON", "stands twice", "line 1"]);
    }
}

#[test]
fn bytes_that_are_not_text_are_refused() {
    for bytes in [
        &b"\xff"[..],
        b"openapi: \xc3\x28",
        b"{\"openapi\": \"3.0.0\xed\xa0\x80\"}",
    ] {
        let refused = generate(bytes, &Options::default()).unwrap_err();
        assert!(refused.to_string().contains("not UTF-8 from byte"), "{refused}");
    }
    refused(&get("/a", r#", "x": "\ud800""#), &["invalid JSON"]);
    refused(&get("/a", r#", "summary": "\ud800""#), &["invalid JSON"]);
    refused("openapi: 3.0.0\n\u{0}: 1\n", &["invalid YAML"]);
}

#[test]
fn a_shared_item_cannot_be_multiplied_without_bound() {
    let shared = |item: &str, paths: usize| {
        let paths: Vec<String> = (0..paths)
            .map(|path| format!(r##""/p{path}": {{"$ref": "#/components/pathItems/X"}}"##))
            .collect();
        format!(
            r#"{{"openapi": "3.0.0", "paths": {{{}}}, "components": {{"pathItems": {{"X": {item}}}}}}}"#,
            paths.join(",")
        )
    };
    let parameters: Vec<String> = (0..2_000)
        .map(|name| format!(r#"{{"in": "query", "name": "q{name}"}}"#))
        .collect();
    let many = format!(
        r#"{{"get": {{"operationId": "x"}}, "parameters": [{}]}}"#,
        parameters.join(",")
    );
    let batch = format!(
        r#"{{"get": {{"operationId": "x", "x-plimsoll-batch-of": [{}"x"]}}}}"#,
        "\"x\",".repeat(2_000)
    );
    let started = Instant::now();
    for item in [many, batch] {
        refused(
            &shared(&item, 3_000),
            &["more than 1000000 parameters and batch entries"],
        );
    }
    // What is said about each operation does not repeat long parts that they share.
    let long = "n".repeat(1024 * 1024);
    for item in [
        format!(r#"{{"get": {{"operationId": "{long}"}}}}"#),
        format!(r#"{{"get": {{"operationId": "x", "summary": "{long}"}}}}"#),
        format!(
            r#"{{"get": {{"operationId": "x"}}, "parameters": [{{"in": "query", "name": "{long}", "required": true}}]}}"#
        ),
        format!(r#"{{"get": {{"operationId": "x"}}, "parameters": [{{"in": "{long}", "name": "q"}}]}}"#),
        format!(r#"{{"get": {{"operationId": "x"}}, "parameters": [{{"$ref": "{long}"}}]}}"#),
    ] {
        let Err(refused) = generate(shared(&item, 1_000).as_bytes(), &Options::default()) else {
            panic!("generated")
        };
        let said: usize = refused.problems().iter().map(String::len).sum();
        let skipped: usize = refused.skipped().iter().map(|skip| skip.reason.len()).sum();
        assert!(said + skipped < 1024 * 1024, "{said} and {skipped}");
    }
    assert!(started.elapsed() < PATIENCE, "{:?}", started.elapsed());
}

#[test]
fn the_parameters_of_a_path_are_bounded() {
    let template = |count: usize| "/{a-b}/{a.b}".repeat(count / 2);
    let generated = generated(&get(&template(64), ""));
    assert_eq!(generated.allow()[0].path(), "/*".repeat(64));
    refused(&get(&template(66), ""), &["more than 64 parameters"]);
}

#[test]
fn a_document_of_ten_megabytes_is_read_in_little_time() {
    let blob = format!(
        r#", "x": [{}1]"#,
        r#"{"type": "string", "minimum": 1.5, "text": "some words here"}, "#.repeat(160_000)
    );
    let document = get("/a", &blob);
    let started = Instant::now();
    assert_eq!(lines(&generated(&document)), ["GET /a"]);
    assert!(started.elapsed() < PATIENCE, "{:?}", started.elapsed());
}
