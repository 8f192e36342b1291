//! Routes and targets: what is refused, what matches, and that what was approved is what was sent.

use plimsoll_grants::{Method, PathProblem, Route, RouteError, Target};
use proptest::prelude::*;

fn matches(route: &str, method: &str, target: &str) -> bool {
    let route = Route::parse_line(route).expect("a route");
    let method = Method::from_bytes(method.as_bytes());
    let target = Target::parse(target.as_bytes());
    matches!((method, target), (Some(method), Ok(target)) if route.matches(method, target))
}

#[test]
fn routes_with_more_than_one_spelling_are_refused() {
    use PathProblem::*;

    for (path, problem) in [
        ("", NotAbsolute),
        ("relative", NotAbsolute),
        ("*", NotAbsolute),
        ("/v1//x", EmptySegment),
        ("//x", EmptySegment),
        ("/v1/", EmptySegment),
        ("/v1/../a", Dots),
        ("/v1/./a", Dots),
        ("/..", Dots),
        ("/v1/.../x", Dots),
        ("/v1/....", Dots),
        ("/v1/a*b", Star),
        ("/v1/**", Star),
        ("/v1/a*", Star),
        ("/v1/%61", Escape),
        ("/v1/%", Escape),
        ("/v1/x?a", Forbidden),
        ("/v1/x#a", Forbidden),
        ("/v1\\a", Forbidden),
        ("/v1/a\nb", Forbidden),
        ("/v1/a\u{7f}", Forbidden),
        ("/v1/x;j=1", Semicolon),
        ("/v1/..;/x", Semicolon),
        ("/v1/a\u{85}", Byte),
        ("/v1/has space", Byte),
        ("/v1/caf\u{e9}", Byte),
        ("/v1/[x]", Byte),
    ] {
        assert_eq!(Route::new("GET", path), Err(RouteError::Path(problem)), "{path:?}");
    }
    for byte in "!'()[]{}|^\"<>`".chars() {
        let path = format!("/a{byte}b");
        assert_eq!(Route::new("GET", &path), Err(RouteError::Path(Byte)), "{path:?}");
    }
    let longest = format!("/{}", "a".repeat(8_191));
    assert!(Route::new("GET", &longest).is_ok());
    assert_eq!(
        Route::new("GET", &format!("{longest}a")),
        Err(RouteError::Path(TooLong))
    );
}

#[test]
fn only_the_five_verbs_in_any_case_and_without_white_space_are_methods() {
    for method in [
        "TRACE",
        "HEAD",
        "OPTIONS",
        "",
        " GET",
        "GET ",
        "GE",
        "GETS",
        "\u{ff27}ET",
    ] {
        assert_eq!(Route::new(method, "/v1/x"), Err(RouteError::Method), "{method:?}");
    }
    for method in Method::ALL {
        for written in [method.as_str().to_owned(), method.as_str().to_lowercase()] {
            assert_eq!(Route::new(&written, "/").unwrap().method(), method);
        }
    }
}

#[test]
fn good_routes_keep_their_path_and_get_an_upper_case_verb() {
    for path in [
        "/",
        "/*",
        "/v1/things/*",
        "/items:batchGet",
        "/a/$x&y=1,2@z+w~",
        "/a/..b/c..",
    ] {
        let route = Route::new("get", path).unwrap();
        assert_eq!((route.path(), route.to_string()), (path, format!("GET {path}")));
    }
    assert!(Route::new("GET", "/a/*/b").unwrap().is_wildcard());
    assert!(!Route::new("GET", "/a/b").unwrap().is_wildcard());
}

#[test]
fn a_line_is_two_words() {
    assert_eq!(
        Route::parse_line(" get \t/a "),
        Ok(Route::new("GET", "/a").unwrap()),
        "white space separates and does not count"
    );
    for line in ["", "GET", "/a", "GET /a b", "GET /has space"] {
        assert_eq!(Route::parse_line(line), Err(RouteError::Line), "{line:?}");
    }
    assert_eq!(
        Route::parse_line("GET a"),
        Err(RouteError::Path(PathProblem::NotAbsolute))
    );
}

#[test]
fn routes_order_by_path_and_then_by_verb() {
    let mut routes = [
        "PATCH /a",
        "GET /b",
        "GET /a/b",
        "DELETE /a",
        "PUT /a",
        "GET /a",
        "POST /a",
        "GET /B",
    ]
    .map(|line| Route::parse_line(line).unwrap());
    routes.sort();
    assert_eq!(
        routes.map(|route| route.to_string()),
        [
            "GET /B",
            "GET /a",
            "PUT /a",
            "POST /a",
            "DELETE /a",
            "PATCH /a",
            "GET /a/b",
            "GET /b"
        ]
    );
}

#[test]
fn targets_outside_their_one_spelling_or_outside_the_route_do_not_match() {
    for target in [
        "/v1/items/x?a=1",
        "/v1/items/x?",
        "/v1/items/x#f",
        "/v1/items/%78",
        "/v1/items/%2e%2e",
        "/v1/items/../a",
        "/v1/items//x",
        "/v1/items/x/",
        "/v1/items/a\\b",
        "/v1/items/has space",
        "/v1/items/caf\u{e9}",
        "/v1/items/[x]",
        "/v1/items/*",
        "/v1/items/a:b",
        "/v1/items/..;",
        "/v1/items/a;b",
        "/v1/items/...",
        "http://h/v1/items/x",
        "//v1/items/x",
        "v1/items/x",
        "/V1/items/x",
        "/v1/items/a'b",
        "",
        "*",
        "/",
        "/v1/items",
        "/v1/items/x/y",
    ] {
        assert!(!matches("GET /v1/items/*", "GET", target), "{target:?}");
    }
    assert!(!matches("GET /v1/items/*", "POST", "/v1/items/x"));
    for target in ["/v1/items/a@b", "/v1/items/a=b,c", "/v1/items/a..b"] {
        assert!(matches("GET /v1/items/*", "get", target), "{target:?}");
    }
}

#[test]
fn a_star_stands_for_exactly_one_segment() {
    for target in ["/l/on", "/l//on", "/l/a/b/on", "/l/x%2f..%2fadmin/on"] {
        assert!(!matches("PUT /l/*/on", "PUT", target), "{target:?}");
    }
    assert!(matches("PUT /l/*/on", "PUT", "/l/a/on"));
    assert!(!matches("GET /*", "GET", "/"));
    assert!(matches("GET /", "GET", "/"));
}

#[test]
fn a_colon_is_literal_in_a_pattern_and_never_under_a_star() {
    assert!(matches("GET /items:batchGet", "GET", "/items:batchGet"));
    assert!(matches("POST /items/a:close", "POST", "/items/a:close"));
    assert!(!matches("POST /items/*", "POST", "/items/a:close"));
}

#[test]
fn a_target_has_at_most_8192_bytes() {
    let longest = format!("/{}", "a".repeat(8_191));
    assert!(Target::parse(longest.as_bytes()).is_ok());
    assert!(Target::parse(format!("{longest}a").as_bytes()).is_err());
}

/// Texts near the border: mostly of bytes that matter to paths.
fn path_like() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![
        6 => prop::sample::select(b"/./ab:*~$&+,=@".to_vec()),
        1 => prop::sample::select(b"%?#;\\ '\x00\x7f\xc3".to_vec()),
        1 => any::<u8>(),
    ];
    prop::collection::vec(byte, 0..24).prop_map(|mut bytes| {
        if bytes.len() > 1 {
            bytes[0] = b'/';
        }
        bytes
    })
}

proptest! {
    #[test]
    fn what_is_approved_is_what_came_in_and_has_no_second_spelling(raw in path_like()) {
        let Ok(target) = Target::parse(&raw) else { return Ok(()) };
        prop_assert_eq!(target.as_str().as_bytes(), raw.as_slice());
        let text = target.as_str();
        prop_assert!(text.starts_with('/') && !text.contains("//"));
        prop_assert!(text == "/" || !text.ends_with('/'));
        let bent = |byte: u8| !byte.is_ascii_graphic() || b"%?#;\\*!'()[]{}|^\"<>`".contains(&byte);
        prop_assert!(!text.bytes().any(bent));
        prop_assert!(text == "/" || text.split('/').skip(1).all(|segment| !segment.trim_matches('.').is_empty()));
    }

    #[test]
    fn a_pattern_without_a_star_matches_itself_and_nothing_else(raw in path_like(), other in path_like()) {
        let Ok(target) = Target::parse(&raw) else { return Ok(()) };
        let route = Route::new("GET", target.as_str()).unwrap();
        prop_assert!(route.matches(Method::Get, target));
        prop_assert!(!route.matches(Method::Put, target));
        if let Ok(other) = Target::parse(&other) {
            prop_assert_eq!(route.matches(Method::Get, other), other == target);
        }
    }

    #[test]
    fn a_star_in_place_of_any_segment_matches_unless_that_segment_has_a_colon(raw in path_like(), pick in any::<prop::sample::Index>()) {
        let Ok(target) = Target::parse(&raw) else { return Ok(()) };
        let mut segments: Vec<&str> = target.as_str().split('/').skip(1).collect();
        let replaced = std::mem::replace(&mut segments[pick.index(target.as_str().matches('/').count())], "*");
        let route = Route::new("GET", &format!("/{}", segments.join("/"))).unwrap();
        prop_assert_eq!(route.matches(Method::Get, target), !replaced.is_empty() && !replaced.contains(':'));
    }

    #[test]
    fn a_route_reads_back_from_its_own_line(raw in path_like(), verb in prop::sample::select(Method::ALL.to_vec())) {
        let Ok(path) = std::str::from_utf8(&raw) else { return Ok(()) };
        let Ok(route) = Route::new(verb.as_str(), path) else { return Ok(()) };
        prop_assert_eq!(route.path(), path);
        prop_assert_eq!(Route::parse_line(&route.to_string()).unwrap(), route);
    }
}
