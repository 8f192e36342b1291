use std::collections::HashMap;

use plimsoll_core::{Code, Reason};

use super::*;

mod files;
mod rules;

/// A file with one profile `p`: what a good one needs, and `more` members.
fn one(more: &str) -> String {
    format!(r#"{{"profiles": {{"p": {{"base_url": "https://api.example", "allowed_callers": ["a"]{more}}}}}}}"#)
}

fn variables(name: &str) -> Option<String> {
    let known = HashMap::from([
        ("KEY", "a-static-credential".to_owned()),
        ("SHORT", "1234567".to_owned()),
        ("TOKEN_LINE", "a-static-credential\n".to_owned()),
        ("SECRET", "0123456789abcdef0123456789abcdef".to_owned()),
        ("SECRET_31", "0123456789abcdef0123456789abcde".to_owned()),
        ("EMPTY_TOKEN", String::new()),
    ]);
    known.get(name).cloned()
}

fn read(text: &str) -> Result<Profiles, Vec<ProfileError>> {
    Profiles::read(text.as_bytes(), Path::new("."), &variables)
}

/// The texts of all problems.
fn problems(text: &str) -> Vec<String> {
    let problems = read(text).expect_err(text);
    assert!(!problems.is_empty());
    problems.iter().map(ToString::to_string).collect()
}

/// Asserts that a member beside the good ones is refused, with exactly one problem, whose text starts so.
fn refused(more: &str, start: &str) {
    let found = problems(&one(more));
    assert!(found.len() == 1 && found[0].starts_with(start), "{more}\n{found:#?}");
}

fn accepted(more: &str) -> Arc<Profile> {
    let profiles = read(&one(more)).unwrap_or_else(|problems| panic!("{more}: {problems:?}"));
    Arc::clone(profiles.get("p").unwrap())
}

fn lines(routes: &[crate::route::Route]) -> Vec<String> {
    routes.iter().map(ToString::to_string).collect()
}

#[test]
fn no_file_and_a_file_without_profiles_mean_no_grants() {
    assert!(Profiles::default().is_empty());
    for text in ["{}", r#"{"profiles": null}"#, r#" {"profiles": {}} "#] {
        let profiles = read(text).unwrap();
        assert!(profiles.is_empty() && profiles.names().count() == 0 && profiles.warnings().is_empty());
    }
}

#[test]
fn the_example_of_the_format_loads_whole() {
    let folder = tempfile::tempdir().unwrap();
    fs_err::write(folder.path().join("preamble.js"), "port.hello = 1;").unwrap();
    let text = r#"{"profiles": {"berths": {
        "base_url": "https://port.example.com",
        "allow": ["GET /berths/*", "put /berths/*"],
        "catalog": ["GET /berths", "GET /berths/*", "PUT /berths/*", "GET /ready"],
        "batch_of": {"GET /berths": ["GET /berths/*"]},
        "route_max_calls": {"PUT /berths/*": 3},
        "allowed_callers": ["gateway-a"],
        "scopes": ["berths:write"],
        "token": {"type": "jwt", "secret_env": "SECRET", "audience": "berth-api", "ttl_sec": 90, "key_id": "k1"},
        "health_check": "GET /ready",
        "global": "port", "preamble_file": "preamble.js",
        "max_calls": 6000, "allow_in_sessions": true, "allow_private": ["10.0.0.0/8"], "timeout_sec": 5,
        "advice": "caller", "advice_retention": "detailed"}}}"#;
    let profiles = Profiles::read(text.as_bytes(), folder.path(), &variables).unwrap();
    assert_eq!(profiles.names().collect::<Vec<_>>(), ["berths"]);
    assert!(profiles.warnings().is_empty());
    let profile = profiles.look_up("berths", Some("gateway-a")).unwrap();
    assert_eq!((profile.name(), profile.open_to_all()), ("berths", false));
    assert_eq!(profile.catalog().len(), 4);
    assert_eq!(profile.batch_of().len(), 1);
    assert_eq!(
        (profile.advice(), profile.retention()),
        (Audience::Caller, Retention::Detailed)
    );
    assert_eq!(profile.token_ttl(), Some(Duration::from_secs(90)));
    let grant = profile.grant();
    assert_eq!(lines(grant.allow()), ["GET /berths/*", "PUT /berths/*"]);
    assert_eq!(grant.origin().as_str(), "https://port.example.com");
    assert_eq!((grant.global(), grant.preamble()), ("port", "port.hello = 1;"));
    assert_eq!(grant.scopes(), ["berths:write"]);
    assert_eq!(grant.health_check().unwrap().to_string(), "GET /ready");
    assert_eq!((grant.budget(), grant.call_timeout()), (6_000, Duration::from_secs(5)));
    assert_eq!(grant.route_caps()[0].1, 3);
    assert!(grant.allow_in_sessions() && grant.allow_private().len() == 1);
    assert!(grant.minter().unwrap().requires_subject());
}

#[test]
fn what_is_not_one_object_of_known_members_is_refused() {
    for (text, start) in [
        ("", "the file is not one JSON value"),
        (r#"{"profiles":{}} x"#, "the file is not one JSON value"),
        (r#"{"profiles":{}}{}"#, "the file is not one JSON value"),
        (r#"{"profiles":{},}"#, "the file is not one JSON value"),
        ("\u{feff}{}", "the file starts with a byte-order mark"),
        ("[]", "the file must be an object, not an array"),
        ("null", "the file must be an object, not null"),
        (r#"{"Profiles": {}}"#, "Profiles: is not a field"),
        (
            r#"{"profiles": []}"#,
            "profiles: must be an object of profiles by name, not an array",
        ),
        (
            r#"{"profiles": {"p": null}}"#,
            "profile \"p\": must be an object, not null",
        ),
    ] {
        let found = problems(text);
        assert!(found.len() == 1 && found[0].starts_with(start), "{text}\n{found:#?}");
    }
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    assert!(problems(&deep)[0].contains("recursion limit"));
    let broken = Profiles::read(b"{\"profiles\": {\"\xff\": {}}}", Path::new("."), &variables).unwrap_err();
    assert_eq!(broken[0].to_string(), "the file holds invalid UTF-8 at byte 15");
}

#[test]
fn a_key_stands_once_whatever_its_case() {
    for (text, problem) in [
        (
            r#"{"profiles": {}, "profiles": {}}"#.to_owned(),
            "the file repeats the key \"profiles\"; remove one",
        ),
        (
            one("").replace(
                r#""p":"#,
                r#""P": {"base_url": "https://h", "allowed_callers": ["a"]}, "p":"#,
            ),
            "profiles: has the keys \"P\" and \"p\", which differ only in case; remove or rename one",
        ),
        (
            one(r#", "global": "x", "global": "y""#),
            "profile \"p\": repeats the key \"global\"; remove one",
        ),
        (
            one(r#", "allow": ["POST /r"], "route_max_calls": {"POST /r": 1, "post /r": 1}"#),
            "profile \"p\", route_max_calls: has the keys \"POST /r\" and \"post /r\", which differ only in case; remove or rename one",
        ),
        (
            one(r#", "token": {"env": "KEY", "env": "KEY"}"#),
            "profile \"p\", token: repeats the key \"env\"; remove one",
        ),
    ] {
        let found = problems(&text);
        assert!(found.iter().any(|text| text == problem), "{text}\n{found:#?}");
    }
    let found = problems(&one(r#", "Global": "x", "global": "y""#));
    assert!(
        found[0].contains("\"Global\" and \"global\", which differ only in case"),
        "{found:#?}"
    );
    assert!(found[1].contains("profile \"p\", Global: is not a field"), "{found:#?}");
}

#[test]
fn a_member_of_the_wrong_type_is_named_with_profile_and_path() {
    for (more, text) in [
        (
            r#", "global": 1"#,
            "profile \"p\", global: must be a string, not a number",
        ),
        (
            r#", "preamble": null"#,
            "profile \"p\", preamble: must be a string, not null",
        ),
        (
            r#", "allow": "GET /""#,
            "profile \"p\", allow: must be an array of strings, not a string",
        ),
        (
            r#", "allow": ["GET /", 7]"#,
            "profile \"p\", allow[1]: must be a string, not a number",
        ),
        (
            r#", "allow_in_sessions": "yes""#,
            "profile \"p\", allow_in_sessions: must be true or false, not a string",
        ),
        (
            r#", "max_calls": "7""#,
            "profile \"p\", max_calls: must be a whole number, not a string",
        ),
        (
            r#", "max_calls": 7.0"#,
            "profile \"p\", max_calls: must be a whole number within 64 bits",
        ),
        (
            r#", "max_calls": 99999999999999999999"#,
            "profile \"p\", max_calls: must be a whole number within 64 bits",
        ),
        (
            r#", "route_max_calls": []"#,
            "profile \"p\", route_max_calls: must be an object, not an array",
        ),
        (
            r#", "allow": ["GET /a"], "route_max_calls": {"GET /a": true}"#,
            "profile \"p\", route_max_calls[\"GET /a\"]: must be a whole number, not true or false",
        ),
        (
            r#", "batch_of": {"GET /a": "GET /a/*"}"#,
            "profile \"p\", batch_of[\"GET /a\"]: must be an array of strings",
        ),
        (
            r#", "batch_of": {"GET /a": [{}]}"#,
            "profile \"p\", batch_of[\"GET /a\"][0]: must be a string, not an object",
        ),
        (
            r#", "token": "KEY""#,
            "profile \"p\", token: must be an object, not a string",
        ),
        (
            r#", "token": {"env": 1}"#,
            "profile \"p\", token.env: must be a string, not a number",
        ),
        (
            r#", "token": {"type": 1}"#,
            "profile \"p\", token.type: must be a string, not a number",
        ),
        (
            r#", "token": {"env": "KEY", "oops": 1}"#,
            "profile \"p\", token.oops: is not a field; the fields here are type,",
        ),
        (
            r#", "oops": 1"#,
            "profile \"p\", oops: is not a field; the fields here are base_url, allow,",
        ),
    ] {
        refused(more, text);
    }
    let mistyped = r#"{"profiles": {"p": {"base_url": 1, "allowed_callers": [1]}}}"#;
    assert_eq!(
        problems(mistyped),
        [
            "profile \"p\", base_url: must be a string, not a number",
            "profile \"p\", allowed_callers[0]: must be a string, not a number"
        ],
        "a member that is there is not reported as missing"
    );
}

#[test]
fn every_problem_of_every_profile_is_named_in_the_order_of_names() {
    let text = r#"{"profiles": {
        "b": {"base_url": "https://h/", "allow": ["GET", "GET //"], "allowed_callers": [], "advice": "loud"},
        "a": {"oops": 1, "base_url": "", "allowed_callers": ["x"], "max_calls": -1, "timeout_sec": 61}}}"#;
    let found = read(text).unwrap_err();
    let places: Vec<_> = found
        .iter()
        .map(|problem| (problem.profile().unwrap(), problem.field()))
        .collect();
    assert_eq!(
        places,
        [
            ("a", "oops"),
            ("a", "base_url"),
            ("a", "max_calls"),
            ("a", "timeout_sec"),
            ("b", "allow[0]"),
            ("b", "allowed_callers"),
            ("b", "advice"),
            ("b", "base_url"),
            ("b", "allow[1]"),
        ]
    );
}

#[test]
fn a_cap_is_not_blamed_for_an_allow_entry_that_is_wrong() {
    let found = problems(&one(r#", "allow": ["GET /a b"], "route_max_calls": {"GET /a": 1}"#));
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("profile \"p\", allow[0]:"));
}

#[test]
fn profiles_open_to_everyone_and_short_credentials_are_warned_about() {
    let text = r#"{"profiles": {
        "z": {"base_url": "https://h", "allowed_callers": ["*"]},
        "m": {"base_url": "https://h", "allowed_callers": ["a"], "token": {"env": "SHORT"}},
        "a": {"base_url": "https://h", "allowed_callers": ["a", " * "], "token": {"type": "jwt", "secret_env": "SECRET", "audience": "x"}}}}"#;
    let profiles = read(text).unwrap();
    assert_eq!(
        profiles.warnings(),
        [
            "profile \"a\" is open to every authenticated caller: allowed_callers holds \"*\"",
            "profile \"m\": the credential is shorter than 8 bytes, so answers of the API that repeat it are not held back",
            "profile \"z\" is open to every authenticated caller: allowed_callers holds \"*\"",
        ]
    );
    assert!(profiles.lifetime_warnings(Duration::from_secs(60)).is_empty());
    let late = profiles.lifetime_warnings(Duration::from_secs(61));
    assert!(
        late.len() == 1 && late[0].starts_with("profile \"a\": token.ttl_sec is below"),
        "{late:?}"
    );
}

#[test]
fn a_profile_is_found_by_those_on_its_list_only_and_refusals_do_not_tell_why() {
    let text = r#"{"profiles": {
        "open": {"base_url": "https://h", "allowed_callers": ["*"]},
        "closed": {"base_url": "https://h", "allowed_callers": ["alice", "static"]}}}"#;
    let profiles = read(text).unwrap();
    for (name, caller) in [
        ("open", "bob"),
        ("open", "alice"),
        ("closed", "alice"),
        ("closed", "static"),
    ] {
        assert_eq!(profiles.look_up(name, Some(caller)).unwrap().name(), name);
    }
    // The words of a daemon without any profile.
    let without = Profiles::default().look_up("closed", Some("alice")).unwrap_err();
    assert_eq!(
        (without.code(), without.reason()),
        (Code::PermissionDenied, Reason::Permission)
    );
    for (name, caller) in [
        ("unknown", Some("alice")),
        ("unknown", None),
        ("", Some("alice")),
        ("Open", Some("alice")),
        ("closed", Some("bob")),
        ("closed", Some("Alice")),
        ("closed", Some("alice ")),
        ("closed", Some("")),
        ("closed", None),
        ("open", None),
        ("open", Some("")),
        ("open", Some("*")),
    ] {
        assert_eq!(
            profiles.look_up(name, caller).unwrap_err(),
            without,
            "{name} {caller:?}"
        );
    }
    let long = profiles.look_up(&"a".repeat(129), Some("alice")).unwrap_err();
    assert_eq!((long.code(), long.reason()), (Code::InvalidArgument, Reason::Request));
    assert_eq!(profiles.look_up(&"a".repeat(128), Some("alice")).unwrap_err(), without);
}

#[test]
fn what_was_handed_out_cannot_change_what_is_handed_out_next() {
    let profiles = read(&one(r#", "allow": ["GET /a"]"#)).unwrap();
    let handed: Profile = (*profiles.look_up("p", Some("a")).unwrap()).clone();
    let changed = handed.with_advice(Vec::new(), BTreeMap::new(), Audience::Caller);
    assert_eq!(changed.advice(), Audience::Caller);
    let next = profiles.look_up("p", Some("a")).unwrap();
    assert_eq!(
        (next.advice(), lines(next.grant().allow())),
        (Audience::Off, vec!["GET /a".to_owned()])
    );
}

#[test]
fn a_selected_grant_has_the_subject_its_token_names() {
    use crate::selected::SelectedGrant;

    let jwt =
        accepted(r#", "token": {"type": "jwt", "secret_env": "SECRET", "audience": "x"}, "allow_in_sessions": true"#);
    for subject in [None, Some(String::new())] {
        let refused = SelectedGrant::new(Arc::clone(&jwt), subject).unwrap_err();
        assert_eq!(
            (refused.code(), refused.reason()),
            (Code::PermissionDenied, Reason::Permission)
        );
    }
    let selected = SelectedGrant::new(jwt, Some("alice".to_owned())).unwrap();
    assert_eq!((selected.subject(), selected.check_session()), (Some("alice"), Ok(())));
    let plain = SelectedGrant::new(accepted(""), None).unwrap();
    let refused = plain.check_session().unwrap_err();
    assert_eq!(
        (refused.code(), refused.reason()),
        (Code::PermissionDenied, Reason::Permission)
    );
}
