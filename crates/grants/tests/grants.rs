//! Grants: what each field may hold, and that a frozen grant stays as it was checked.

use std::time::Duration;

use plimsoll_grants::{Grant, GrantProblem, GrantSpec, Method, Target};

fn spec() -> GrantSpec {
    let mut spec = GrantSpec::new("https://api.example");
    spec.allow = pairs(&["GET /v1/items/*", "post /r"]);
    spec
}

fn pairs(lines: &[&str]) -> Vec<(String, String)> {
    let pair = |line: &&str| {
        line.split_once(' ')
            .map(|(method, path)| (method.to_owned(), path.to_owned()))
    };
    lines.iter().filter_map(pair).collect()
}

/// The field that the first error names.
fn refused(change: impl FnOnce(&mut GrantSpec)) -> String {
    let mut spec = spec();
    change(&mut spec);
    spec.validate().expect_err("a rule is broken").field().to_owned()
}

fn accepted(change: impl FnOnce(&mut GrantSpec)) -> Grant {
    let mut spec = spec();
    change(&mut spec);
    spec.validate().expect("no rule is broken")
}

#[test]
fn a_grant_of_an_origin_alone_has_the_defaults_and_reaches_nothing() {
    let grant = GrantSpec::new("https://api.example").validate().unwrap();
    assert_eq!((grant.global(), grant.budget()), ("host", 256));
    assert_eq!(grant.call_timeout(), Duration::from_secs(60));
    assert!(grant.allow().is_empty() && grant.minter().is_none() && grant.health_check().is_none());
    assert!(!grant.allow_in_sessions());
    assert!(grant.find(Method::Get, Target::parse(b"/").unwrap()).is_none());
}

#[test]
fn base_url_is_checked() {
    assert_eq!(refused(|spec| spec.base_url.clear()), "base_url");
    assert_eq!(
        refused(|spec| spec.base_url = "https://u:pass@h".to_owned()),
        "base_url"
    );
    let mut secret = spec();
    secret.base_url = "https://u:pass@h".to_owned();
    let error = secret.validate().unwrap_err().to_string();
    assert!(!error.contains("pass@"), "{error}");
}

#[test]
fn scopes_that_could_become_others_or_our_own_are_refused() {
    for scope in ["safe code:run", " a", "", "a\u{a0}b", "a\u{2028}"] {
        assert_eq!(
            refused(|spec| spec.scopes = vec!["ok".to_owned(), scope.to_owned()]),
            "scopes[1]"
        );
    }
    for scope in ["code:run", "*"] {
        assert_eq!(refused(|spec| spec.scopes = vec![scope.to_owned()]), "scopes[0]");
    }
    let grant = accepted(|spec| spec.scopes = vec!["a:b".to_owned(), "a:b".to_owned()]);
    assert_eq!(grant.scopes(), ["a:b", "a:b"]);
}

#[test]
fn allow_entries_are_named_by_their_place_and_never_repeat() {
    assert_eq!(
        refused(|spec| spec.allow = pairs(&["GET /a", "GET /b/../c"])),
        "allow[1]"
    );
    assert_eq!(refused(|spec| spec.allow[0].0 = " GET".to_owned()), "allow[0]");
    let mut twice = spec();
    twice.allow = pairs(&["GET /x", "get /a", "GET /a", "Get /a"]);
    let errors = twice.validate_all().unwrap_err();
    let fields: Vec<_> = errors.iter().map(|error| (error.field(), error.problem())).collect();
    assert_eq!(
        fields,
        [
            ("allow[2]", &GrantProblem::Repeated(1)),
            ("allow[3]", &GrantProblem::Repeated(1))
        ]
    );
    let routes = accepted(|spec| spec.allow = pairs(&["put /b", "GET /b", "GET /a"]));
    let routes: Vec<_> = routes.allow().iter().map(ToString::to_string).collect();
    assert_eq!(
        routes,
        ["PUT /b", "GET /b", "GET /a"],
        "the order is the order of comparison"
    );
}

#[test]
fn the_first_entry_that_matches_is_the_one_that_counts() {
    let grant = accepted(|spec| spec.allow = pairs(&["GET /a/*", "GET /a/b"]));
    let found = grant.find(Method::Get, Target::parse(b"/a/b").unwrap()).unwrap();
    assert_eq!(found.route().to_string(), "GET /a/*");
}

#[test]
fn a_health_check_is_one_get() {
    for (method, path) in [
        ("POST", "/h"),
        ("GET", "/h/*"),
        ("GET", "h"),
        ("GET", "/../s"),
        ("GET", ""),
        (" GET", "/h"),
    ] {
        let health = Some((method.to_owned(), path.to_owned()));
        assert_eq!(
            refused(|spec| spec.health_check = health),
            "health_check",
            "{method} {path}"
        );
    }
    let grant = accepted(|spec| spec.health_check = Some(("get".to_owned(), "/h".to_owned())));
    assert_eq!(grant.health_check().unwrap().to_string(), "GET /h");
}

#[test]
fn numbers_stay_within_their_bounds() {
    for calls in [-1, 100_001, i64::MIN, i64::MAX] {
        assert_eq!(refused(|spec| spec.max_calls = calls), "max_calls");
    }
    for (written, budget) in [(0, 256), (1, 1), (6_000, 6_000), (100_000, 100_000)] {
        assert_eq!(accepted(|spec| spec.max_calls = written).budget(), budget);
    }
    for seconds in [-1, 61, i64::MAX] {
        assert_eq!(refused(|spec| spec.timeout_sec = seconds), "timeout_sec");
    }
    for (written, seconds) in [(0, 60), (1, 1), (60, 60)] {
        let timeout = accepted(|spec| spec.timeout_sec = written).call_timeout();
        assert_eq!(timeout, Duration::from_secs(seconds));
    }
}

#[test]
fn a_cap_belongs_to_an_allow_entry() {
    for (key, cap) in [
        ("GET /other", 1),
        ("/r", 1),
        ("post /r", 1),
        ("POST /R", 1),
        ("POST  /r", 1),
        ("POST /r", 0),
        ("POST /r", -1),
        ("POST /r", 100_001),
    ] {
        let field = refused(|spec| spec.route_max_calls = vec![(key.to_owned(), cap)]);
        assert_eq!(field, format!("route_max_calls[{key:?}]"), "{cap}");
    }
    let grant = accepted(|spec| spec.route_max_calls = vec![("POST /r".to_owned(), 3)]);
    let caps: Vec<_> = grant
        .route_caps()
        .iter()
        .map(|(route, cap)| (route.to_string(), *cap))
        .collect();
    assert_eq!(caps, [("POST /r".to_owned(), 3)]);
    let twice = vec![("POST /r".to_owned(), 3), ("POST /r".to_owned(), 4)];
    assert_eq!(
        refused(|spec| spec.route_max_calls = twice),
        "route_max_calls[\"POST /r\"]"
    );
}

#[test]
fn blocks_are_checked_in_their_place() {
    let blocks = ["10.0.0.0/8", "10.0.0.1/8"].map(str::to_owned).to_vec();
    assert_eq!(refused(|spec| spec.allow_private = blocks), "allow_private[1]");
    assert_eq!(
        refused(|spec| spec.allow_private = vec!["x".to_owned()]),
        "allow_private[0]"
    );
}

#[test]
fn everything_that_is_wrong_is_named_at_once_and_in_the_order_of_checks() {
    let mut bad = GrantSpec::new("https://h/");
    bad.max_calls = -1;
    bad.timeout_sec = 61;
    bad.allow_private = vec!["x".to_owned()];
    bad.scopes = vec![String::new()];
    bad.allow = pairs(&["TRACE /x"]);
    bad.route_max_calls = vec![("GET /a".to_owned(), 0)];
    bad.health_check = Some(("POST".to_owned(), "/h".to_owned()));
    let errors = bad.validate_all().unwrap_err();
    let fields: Vec<_> = errors.iter().map(plimsoll_grants::GrantError::field).collect();
    assert_eq!(
        fields,
        [
            "max_calls",
            "timeout_sec",
            "base_url",
            "allow_private[0]",
            "scopes[0]",
            "allow[0]",
            "route_max_calls[\"GET /a\"]",
            "health_check"
        ]
    );
    assert_eq!(&bad.validate().unwrap_err(), &errors[0]);
}

#[test]
fn changing_what_a_grant_was_made_of_does_not_change_the_grant() {
    let mut spec = spec();
    let grant = spec.validate().unwrap();
    spec.allow.push(("DELETE".to_owned(), "/*".to_owned()));
    spec.base_url = "https://other.example".to_owned();
    spec.scopes.push("more".to_owned());
    assert_eq!(grant.allow().len(), 2);
    assert_eq!(grant.origin().as_str(), "https://api.example");
    assert!(grant.scopes().is_empty());
}
