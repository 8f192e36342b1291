//! What is refused, and that the reason names the place and the remedy.

use plimsoll_specgen::{Options, Prefix, generate};

use crate::support::{get, paths, prefixed, problems, refused};

#[test]
fn what_is_no_openapi_document_is_refused() {
    refused("{", &["invalid JSON", "line 1"]);
    refused("{} x", &["invalid JSON"]);
    refused("[]", &["must be an object, not an array"]);
    refused("", &["empty"]);
    refused("just text", &["must be an object, not a string"]);
    refused(
        r#"{"openapi": "2.0", "paths": {}}"#,
        &["must start with \"3.\"", "\"2.0\""],
    );
    refused(r#"{"swagger": "2.0", "paths": {}}"#, &["swagger", "converters"]);
    refused(r#"{"openapi": ["3.0"]}"#, &["openapi must be a string, not an array"]);
    for document in [
        r#"{"openapi": "3.0.0"}"#,
        r#"{"openapi": "3.0.0", "paths": {}}"#,
        r#"{"openapi": "3.0.0", "paths": {"x-note": {}}}"#,
    ] {
        refused(document, &["no paths"]);
    }
}

#[test]
fn an_empty_operation_id_is_none() {
    refused(
        &paths(r#""/a": {"get": {"operationId": ""}}"#),
        &["GET /a", "operationId is missing"],
    );
}

#[test]
fn a_route_is_served_once() {
    let served = |list: &str| {
        paths(&format!(
            r#""/l": {{"get": {{"operationId": "all", "x-plimsoll-batch-of": {list}}}}},
               "/l/{{x}}": {{"get": {{"operationId": "one"}}}},
               "/l/{{y}}": {{"get": {{"operationId": "other"}}}}"#
        ))
    };
    for twice in [r#"["one", "one"]"#, r#"["one", "other"]"#] {
        refused(&served(twice), &["GET /l", "x-plimsoll-batch-of", "already serves"]);
    }
    generate(served(r#"["one"]"#).as_bytes(), &Options::default()).expect("served once");
}

#[test]
fn a_type_that_is_wrong_is_named_with_its_place() {
    for (document, fragments) in [
        (r#"{"openapi": "3.0.0", "paths": []}"#.to_owned(), ["paths", "an array"]),
        (
            r#"{"openapi": "3.0.0", "info": "x", "paths": {}}"#.to_owned(),
            ["info", "a string"],
        ),
        (
            r#"{"openapi": "3.0.0", "info": {"title": true}, "paths": {}}"#.to_owned(),
            ["info.title", "a boolean"],
        ),
        (paths(r#""/a": 1"#), ["/a: a path item", "a number"]),
        (paths(r#""/a": {"get": []}"#), ["GET /a: an operation", "an array"]),
        (
            paths(r#""/a": {"get": {"operationId": 7}}"#),
            ["GET /a: operationId", "a number"],
        ),
        (get("/a", r#", "summary": {}"#), ["GET /a: summary", "something else"]),
        (get("/a", r#", "parameters": {}"#), ["GET /a: parameters", "an object"]),
        (get("/a", r#", "parameters": [1]"#), ["GET /a: a parameter", "a number"]),
        (
            get("/a", r#", "parameters": [{"in": "query"}]"#),
            ["GET /a: a parameter", "no name"],
        ),
        (
            get("/a", r#", "parameters": [{"name": "q"}]"#),
            ["GET /a: a parameter", "no in"],
        ),
        (
            get(
                "/a",
                r#", "parameters": [{"in": "query", "name": "q", "required": "yes"}]"#,
            ),
            ["GET /a: the parameter \"q\"", "required"],
        ),
        (
            get("/a", r#", "x-plimsoll-health-check": "yes""#),
            ["GET /a: x-plimsoll-health-check", "true or false"],
        ),
        (
            get("/a", r#", "x-plimsoll-batch-of": "b""#),
            ["GET /a: x-plimsoll-batch-of", "a string"],
        ),
        (
            get("/a", r#", "x-plimsoll-batch-of": [1]"#),
            ["GET /a: x-plimsoll-batch-of", "a number"],
        ),
    ] {
        refused(&document, &fragments);
    }
}

#[test]
fn a_path_that_no_grant_can_express_is_refused() {
    for (path, fragment) in [
        ("/files/{name}.json", "whole segment"),
        ("/x/{}", "whole segment"),
        ("/x/{a}{b}", "whole segment"),
        ("/x/{{a}}", "whole segment"),
        ("/x/}a{", "whole segment"),
        ("/x/{a/b}", "whole segment"),
        ("/a/../b", "dots"),
        ("/a/..;/b", ";"),
        ("/x/", "/ at the end"),
        ("//x", "empty segment"),
        ("/a%20b", "%"),
        ("/a b", "letters"),
        ("/caf\u{e9}", "letters"),
        ("/a?b=c", "query"),
        ("/a#b", "fragment"),
        ("/a/*", "wildcard"),
        ("/a/b*", "whole segment"),
        ("relative", "start with /"),
        ("", "start with /"),
    ] {
        refused(
            &get(path, ""),
            &[&format!("GET {path}: "), fragment, "-skip-unsupported"],
        );
    }
    for path in ["/{a\nb}", "/a\u{7f}", "/a\u{2028}b", "/\u{85}"] {
        refused(&get(path, ""), &["control character or a line separator"]);
        let options = Options {
            skip_unsupported: true,
            ..Options::default()
        };
        assert!(
            generate(get(path, "").as_bytes(), &options).is_err(),
            "never a skip: {path:?}"
        );
    }
}

#[test]
fn a_name_the_client_cannot_have_is_refused() {
    refused(&paths(r#""/a": {"get": {}}"#), &["GET /a: operationId is missing"]);
    refused(
        &paths(r#""/a": {"get": {"operationId": "do-it"}}, "/b": {"get": {"operationId": "do.it"}}"#),
        &["GET /b", "collides", "GET /a", "do_it"],
    );
    for id in ["get", "del", "put", "post", "patch", "call"] {
        let document = paths(&format!(r#""/a": {{"get": {{"operationId": "{id}"}}}}"#));
        refused(&document, &["GET /a", id, "client's own methods"]);
    }
    for id in ["__proto__", "constructor", "hasOwnProperty", "toString", "valueOf"] {
        let document = paths(&format!(r#""/a": {{"get": {{"operationId": "{id}"}}}}"#));
        refused(&document, &["GET /a", id, "every JavaScript object"]);
    }
}

#[test]
fn a_document_with_nothing_to_grant_is_refused_and_says_what_was_left_out() {
    let document = paths(
        r#""/a": {"head": {}, "options": {"operationId": "o"}, "trace": {}, "query": {}},
           "/b": {"get": {"operationId": "b", "parameters": [{"in": "query", "name": "q", "required": true}]}}"#,
    );
    let refused = generate(document.as_bytes(), &Options::default()).unwrap_err();
    assert_eq!(refused.problems().len(), 1);
    assert!(refused.problems()[0].contains("no supported operations"), "{refused}");
    let skipped: Vec<&str> = refused.skipped().iter().map(|skip| skip.operation.as_str()).collect();
    assert_eq!(skipped, ["HEAD /a", "OPTIONS /a", "TRACE /a", "QUERY /a", "GET /b"]);
}

#[test]
fn a_reference_that_cannot_be_followed_is_named_with_its_operation() {
    for (reference, fragment) in [
        ("other.yaml#/components/parameters/Q", "not local"),
        ("https://example.com/q.json", "not local"),
        ("#", "not local"),
        ("#/components/parameters/Nothing", "resolves to nothing"),
        ("#/paths/~1nowhere/parameters/0", "resolves to nothing"),
        ("#/paths/~1a/get/parameters/9", "resolves to nothing"),
        ("#/paths/%7", "resolves to nothing"),
        ("#/components/schemas/Q", "leads outside"),
        ("#/info/title", "leads outside"),
        ("#/paths", "leads outside"),
        ("#/components/parameters/Loop", "cyclic"),
        ("#/paths/~1a/get/operationId", "leads to a string"),
    ] {
        let document = format!(
            r##"{{"openapi": "3.0.0", "paths": {{"/a": {{"get": {{"operationId": "a", "parameters": [{{"$ref": "{reference}"}}]}}}}}},
               "components": {{"parameters": {{"Loop": {{"$ref": "#/components/parameters/Back"}},
                                              "Back": {{"$ref": "#/components/parameters/Loop"}}}}}}}}"##
        );
        refused(&document, &["GET /a: ", fragment]);
    }
    refused(
        &get("/a", r#", "parameters": [{"$ref": 1}]"#),
        &["GET /a: $ref", "a number"],
    );
    refused(
        &paths(r#""/a": {"$ref": "items.yaml"}"#),
        &["/a: ", "\"items.yaml\"", "not local", "bundle"],
    );
    refused(&paths(r##""/a": {"$ref": "#/paths/~1a"}"##), &["/a: ", "cyclic"]);
    refused(
        &paths(r##""/a": {"$ref": "#/components/pathItems/X"}"##),
        &["/a: ", "resolves to nothing"],
    );
    refused(
        &paths(r##""/a": {"$ref": "#/paths/~1b", "get": {}}, "/b": {"get": {"operationId": "b"}}"##),
        &["/a: ", "two ways"],
    );
    let chain: Vec<String> = (0..40)
        .map(|step| format!(r##""P{step}": {{"$ref": "#/components/parameters/P{}"}}"##, step + 1))
        .collect();
    let document = format!(
        r##"{{"openapi": "3.0.0", "paths": {{"/a": {{"get": {{"operationId": "a", "parameters": [{{"$ref": "#/components/parameters/P0"}}]}}}}}},
           "components": {{"parameters": {{{}}}}}}}"##,
        chain.join(",")
    );
    refused(&document, &["GET /a: ", "in a row"]);
}

#[test]
fn a_parameter_somewhere_else_is_refused() {
    refused(
        &get("/a", r#", "parameters": [{"in": "body", "name": "b"}]"#),
        &["GET /a: ", "location", "\"body\""],
    );
}

#[test]
fn a_title_or_version_that_breaks_its_line_is_refused() {
    for text in ["a\\nb", "a\\u2028b", "a\\u0000", "a\\u009f"] {
        for key in ["title", "version"] {
            let document = format!(
                r#"{{"openapi": "3.0.0", "info": {{"{key}": "{text}"}}, "paths": {{"/a": {{"get": {{"operationId": "a"}}}}}}}}"#
            );
            refused(&document, &[&format!("info.{key}"), "control character"]);
        }
    }
}

#[test]
fn a_health_mark_in_the_wrong_place_is_refused() {
    let mark = r#""x-plimsoll-health-check": true"#;
    for verb in ["post", "head", "trace"] {
        let document = paths(&format!(
            r#""/a": {{"{verb}": {{"operationId": "a", {mark}}}}}, "/b": {{"get": {{"operationId": "b"}}}}"#
        ));
        refused(
            &document,
            &["x-plimsoll-health-check", "must be GET", &verb.to_uppercase()],
        );
    }
    refused(&get("/a/{b}", &format!(", {mark}")), &["GET /a/{b}", "concrete"]);
    let required = r#", "parameters": [{"in": "query", "name": "q", "required": true}]"#;
    let document = paths(&format!(
        r#""/a": {{"get": {{"operationId": "a", {mark}{required}}}}}, "/b": {{"get": {{"operationId": "b"}}}}"#
    ));
    refused(&document, &["GET /a", "skipped"]);
    let document = paths(&format!(
        r#""/a": {{"get": {{"operationId": "a", {mark}}}}}, "/b": {{"get": {{"operationId": "b", {mark}}}}}"#
    ));
    refused(&document, &["marks 2 operations", "GET /a", "GET /b"]);
}

#[test]
fn a_batch_mark_that_relates_nothing_is_refused() {
    let document = |batch: &str, rest: &str| {
        paths(&format!(
            r#""/items": {{{batch}}}, "/items/{{id}}": {{"get": {{"operationId": "item"}}, "put": {{"operationId": "putItem"}}}},
               "/head": {{"head": {{"operationId": "headed"}}}}, "/plain": {{"get": {{"operationId": "plain"}}}}{rest}"#
        ))
    };
    let marked =
        |verb: &str, id: &str| format!(r#""{verb}": {{"operationId": "all", "x-plimsoll-batch-of": ["{id}"]}}"#);
    for (id, fragment) in [
        ("nobody", "no operationId"),
        ("headed", "skipped"),
        ("putItem", "not GET"),
        ("plain", "no path parameter"),
        ("all", "same route"),
    ] {
        refused(
            &document(&marked("get", id), ""),
            &["GET /items: x-plimsoll-batch-of", id, fragment],
        );
    }
    refused(
        &document(&marked("post", "item"), ""),
        &["POST /items: x-plimsoll-batch-of", "must be GET"],
    );
    refused(
        &document(
            &marked("get", "item"),
            r#", "/other": {"get": {"operationId": "more", "x-plimsoll-batch-of": ["item"]}}"#,
        ),
        &["GET /other", "GET /items already serves"],
    );
    refused(
        &document(
            &marked("get", "twice"),
            r#", "/t/{a}": {"get": {"operationId": "twice"}, "head": {"operationId": "twice"}}"#,
        ),
        &["GET /items", "2 operations"],
    );
    refused(
        &document(
            r#""get": {"operationId": "all", "x-plimsoll-batch-of": ["item"],
                       "parameters": [{"in": "query", "name": "q", "required": true}]}"#,
            "",
        ),
        &["GET /items", "it is skipped"],
    );
    let empty = document(r#""get": {"operationId": "all", "x-plimsoll-batch-of": []}"#, "");
    assert!(
        generate(empty.as_bytes(), &Options::default())
            .unwrap()
            .batch_of()
            .is_empty()
    );
}

#[test]
fn every_problem_is_named_at_once_and_once() {
    let document = r#"{"openapi": "3.0.0", "info": {"title": "a\nb", "version": "\u2028"}, "paths": {
        "/a/": {"get": {"operationId": "a"}}, "/b": {"get": {}, "put": {"operationId": "put"}},
        "/c/": {"parameters": [{"in": "body", "name": "x"}], "get": {"operationId": "c"}},
        "/d": {"get": {"operationId": "d", "x-plimsoll-batch-of": ["nobody", "nobody"]}}, "/e/": {"get": {}}, "/f": 1}}"#;
    let problems = problems(document);
    let places = [
        "info.title",
        "/f: ",
        "GET /a/",
        "GET /b",
        "PUT /b",
        "GET /c/: the parameter",
        "GET /c/: the path",
        "GET /e/: the path must have no empty segment and no / at the end; operationId is missing",
        "GET /d",
    ];
    assert_eq!(problems.len(), places.len(), "{problems:#?}");
    for (problem, place) in problems.iter().zip(places) {
        assert!(problem.starts_with(place), "{problem}");
    }
}

#[test]
fn servers_that_have_no_common_path_need_a_decision() {
    let with = |servers: &str| {
        format!(r#"{{"openapi": "3.0.0", "servers": {servers}, "paths": {{"/a": {{"get": {{"operationId": "a"}}}}}}}}"#)
    };
    for (servers, fragment) in [
        (
            r#"[{"url": "https://h/v1"}, {"url": "https://h/v2"}]"#,
            "different paths",
        ),
        (r#"[{"url": "https://h/v1"}, {"url": "https://h"}]"#, "different paths"),
        (r#"[{"url": "https://h/{release}"}]"#, "without a default"),
        (r#"[{"url": "v1"}]"#, "relative"),
        (r#"[{}]"#, "no url"),
        (r#"[{"url": "https://h/a b"}]"#, "cannot stand before a route"),
        (r#"{"url": "https://h"}"#, "an array"),
    ] {
        let refused = generate(with(servers).as_bytes(), &prefixed(Prefix::Auto)).unwrap_err();
        assert!(refused.to_string().contains(fragment), "{servers}: {refused}");
        assert!(
            generate(with(servers).as_bytes(), &Options::default()).is_ok(),
            "{servers}"
        );
    }
    for path in ["/v1/", "/v1/*", "/../x", "/a b"] {
        let refused = generate(with("[]").as_bytes(), &prefixed(Prefix::Path(path.to_owned()))).unwrap_err();
        assert!(
            refused.to_string().contains("cannot stand before a route"),
            "{path}: {refused}"
        );
    }
}
