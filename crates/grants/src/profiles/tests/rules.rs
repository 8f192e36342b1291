//! The rules of single members.

use super::*;

#[test]
fn names_are_short_and_of_a_plain_alphabet() {
    for (name, good) in [
        (" bad ", false),
        ("bad/name", false),
        ("", false),
        ("caf\u{e9}", false),
        (&"a".repeat(129), false),
        (&"a".repeat(128), true),
        ("A.b_c-9", true),
    ] {
        let text = one("").replace("\"p\":", &format!("\"{name}\":"));
        match read(&text) {
            Ok(profiles) => assert!(good && profiles.get(name).is_some(), "{name}"),
            Err(problems) => {
                assert!(!good && problems.len() == 1, "{name} {problems:?}");
                assert!(problems[0].problem().starts_with("the name must be 1 to 128 bytes"));
            }
        }
    }
}

#[test]
fn callers_must_be_listed() {
    for (callers, start) in [
        ("[]", "profile \"p\", allowed_callers: must list at least one caller"),
        ("[\" \"]", "profile \"p\", allowed_callers[0]: must not be blank"),
        ("[\"a\", \" a \"]", "profile \"p\", allowed_callers[1]: is listed twice"),
    ] {
        let found = problems(&one("").replace("[\"a\"]", callers));
        assert!(found.len() == 1 && found[0].starts_with(start), "{found:?}");
    }
    let found = problems(r#"{"profiles": {"p": {"base_url": "https://h"}}}"#);
    assert!(
        found[0].starts_with("profile \"p\", allowed_callers: must list"),
        "{found:?}"
    );
}

#[test]
fn a_token_has_a_known_type_and_a_secret_that_is_there() {
    for (token, start) in [
        (r#""type": "magic""#, "profile \"p\", token.type: must be static or jwt"),
        (r#""type": " jwt""#, "profile \"p\", token.type: must be static or jwt"),
        ("", "profile \"p\", token.env: is required"),
        (r#""env": " ""#, "profile \"p\", token.env: is required"),
        (
            r#""env": "NO_TOKEN""#,
            "profile \"p\", token.env: names NO_TOKEN, a variable that is not set, empty, or not UTF-8 text",
        ),
        (
            r#""type": "static", "env": "EMPTY_TOKEN""#,
            "profile \"p\", token.env: names EMPTY_TOKEN, a variable that is not set, empty, or not UTF-8 text",
        ),
        (
            r#""env": "TOKEN_LINE""#,
            "profile \"p\", token.env: names TOKEN_LINE, a variable whose value is empty or holds a character",
        ),
        (
            r#""env": "KEY", "ttl_sec": 5"#,
            "profile \"p\", token.ttl_sec: has no effect on a static token",
        ),
        (
            r#""env": "KEY", "audience": "x""#,
            "profile \"p\", token.audience: has no effect on a static token",
        ),
        (
            r#""type": "jwt", "audience": "x""#,
            "profile \"p\", token.secret_env: is required",
        ),
        (
            r#""type": "jwt", "secret_env": "NO_TOKEN", "audience": "x""#,
            "profile \"p\", token.secret_env: names NO_TOKEN, a variable that is",
        ),
        (
            r#""type": "jwt", "secret_env": "EMPTY_TOKEN", "audience": "x""#,
            "profile \"p\", token.secret_env: names EMPTY_TOKEN, a variable that is",
        ),
        (
            r#""type": "jwt", "secret_env": "SECRET_31", "audience": "x""#,
            "profile \"p\", token.secret_env: names SECRET_31, a variable whose value is shorter than 32 bytes",
        ),
        (
            r#""type": "jwt", "secret_env": "SECRET""#,
            "profile \"p\", token.audience: is required for a jwt",
        ),
        (
            r#""type": "jwt", "secret_env": "SECRET", "audience": "  ""#,
            "profile \"p\", token.audience: is required for a jwt",
        ),
        (
            r#""type": "jwt", "secret_env": "SECRET", "audience": "x", "ttl_sec": -1"#,
            "profile \"p\", token.ttl_sec: must be from",
        ),
        (
            r#""type": "jwt", "secret_env": "SECRET", "audience": "x", "ttl_sec": 86401"#,
            "profile \"p\", token.ttl_sec: must be",
        ),
        (
            r#""type": "jwt", "secret_env": "SECRET", "audience": "x", "env": "KEY""#,
            "profile \"p\", token.env: has no effect on a",
        ),
    ] {
        refused(&format!(", \"token\": {{{token}}}"), start);
    }
    let both = problems(&one(
        r#", "token": {"type": "jwt", "secret_env": "SECRET_31", "audience": ""}"#,
    ));
    assert_eq!(both.len(), 2, "{both:?}");
    let fixed = accepted(r#", "token": {"env": "KEY"}"#);
    assert!(!fixed.grant().minter().unwrap().requires_subject());
    assert_eq!(fixed.token_ttl(), None);
    let jwt = accepted(r#", "token": {"type": "jwt", "secret_env": "SECRET", "audience": "x"}"#);
    assert_eq!(jwt.token_ttl(), Some(Duration::from_secs(60)));
}

#[test]
fn no_problem_repeats_a_secret_or_a_url() {
    let text = one(r#", "token": {"type": "jwt", "secret_env": "SECRET_31", "audience": ""}, "preamble": 1"#)
        .replace("https://api.example", "https://user:s3cret@h");
    let found = problems(&text).join("\n");
    assert!(!found.contains("0123456789") && !found.contains("s3cret"), "{found}");
    // Written in the place of the variable's name by somebody who misread the page.
    for secret in [
        "sk-live-f00d",
        "deadbeef00",
        "GHP_16C7E42F292C6912E7710C838347AE178B4A",
        "A1B2C3D4E5F6",
        "JBSWY3DPEHPK3PXP",
        "CORRECTHORSE",
    ] {
        let found = problems(&one(&format!(r#", "token": {{"env": "{secret}"}}"#))).join("\n");
        assert!(
            found.contains("names a variable that is not set") && !found.contains(secret),
            "{found}"
        );
    }
}

#[test]
fn scopes_need_a_token_that_carries_them() {
    refused(
        r#", "scopes": ["a"]"#,
        "profile \"p\", scopes: has no effect without a jwt token",
    );
    refused(
        r#", "scopes": ["a"], "token": {"env": "KEY"}"#,
        "profile \"p\", scopes: has no effect without a jwt token",
    );
    let jwt = r#", "token": {"type": "jwt", "secret_env": "SECRET", "audience": "x"}"#;
    refused(
        &format!(r#", "scopes": ["safe code:run"]{jwt}"#),
        "profile \"p\", scopes[0]: must not be empty and must hold",
    );
    assert_eq!(
        accepted(&format!(r#", "scopes": ["a", "a"]{jwt}"#)).grant().scopes(),
        ["a", "a"]
    );
    accepted(r#", "scopes": []"#);
}

#[test]
fn a_catalog_holds_routes_and_grants_nothing() {
    for line in ["GET /v1/../a", "GET /v1/..;/a", "HEAD /x", "GET /light*", "GET", ""] {
        let found = problems(&one(&format!(r#", "catalog": ["GET /a", "{line}"]"#)));
        assert!(found.len() == 1 && found[0].contains("catalog[1]"), "{found:?}");
    }
    let profile = accepted(r#", "catalog": ["get /a", "GET /a"]"#);
    assert_eq!(lines(profile.catalog()), ["GET /a", "GET /a"]);
    assert!(profile.grant().allow().is_empty());
}

#[test]
fn a_batch_relation_is_between_reads_and_has_one_owner() {
    for relation in [
        r#""PUT /l": ["GET /l/*"]"#,
        r#""GET /l": ["PUT /l/*"]"#,
        r#""GET /l": ["GET /l"]"#,
        r#""GET /l/*": ["GET /l/*"]"#,
        r#""GET /l": ["GET /l/x"]"#,
        r#""GET /l": []"#,
        r#""GET /l": ["GET /i/*"], "GET /m": ["GET /i/*"]"#,
        r#""GET /l": ["GET /i/*", "get /i/*"]"#,
        r#""GET /v1/../a": ["GET /i/*"]"#,
        r#""GET /l": ["/x/*"]"#,
        r#""GET /l": ["GET /i/*"], "GET  /l": ["GET /j/*"]"#,
    ] {
        let found = problems(&one(&format!(", \"batch_of\": {{{relation}}}")));
        assert!(
            found.len() == 1 && found[0].contains("batch_of["),
            "{relation} {found:?}"
        );
    }
    let profile = accepted(r#", "allow": ["GET /l/*"], "batch_of": {"get /l": ["GET /l/*", "GET /r/*/l/*"]}"#);
    let relations: Vec<_> = profile
        .batch_of()
        .iter()
        .map(|(served, batch)| format!("{served} < {batch}"))
        .collect();
    assert_eq!(relations, ["GET /l/* < GET /l", "GET /r/*/l/* < GET /l"]);
    assert_eq!(lines(profile.grant().allow()), ["GET /l/*"]);
}

#[test]
fn words_of_advice_are_known_ones() {
    refused(
        r#", "advice": "loud""#,
        "profile \"p\", advice: must be one of off, operator, caller",
    );
    refused(
        r#", "advice_retention": "forever""#,
        "profile \"p\", advice_retention: must be one of none, aggregate, detailed",
    );
    for (advice, retention, expected) in [
        ("", "", (Audience::Off, Retention::None)),
        (" off ", " none ", (Audience::Off, Retention::None)),
        (" operator", "aggregate", (Audience::Operator, Retention::Aggregate)),
        ("caller", "detailed", (Audience::Caller, Retention::Detailed)),
    ] {
        let profile = accepted(&format!(r#", "advice": "{advice}", "advice_retention": "{retention}""#));
        assert_eq!((profile.advice(), profile.retention()), expected);
    }
}

#[test]
fn a_health_check_is_one_get_or_blank() {
    for line in ["POST /h", "GET /h/*", "GET h", "GET /../s", "GET"] {
        refused(
            &format!(r#", "health_check": "{line}""#),
            "profile \"p\", health_check: ",
        );
    }
    assert_eq!(
        accepted(r#", "health_check": "get /h""#)
            .grant()
            .health_check()
            .unwrap()
            .to_string(),
        "GET /h"
    );
    assert!(accepted(r#", "health_check": "  ""#).grant().health_check().is_none());
}

#[test]
fn caps_name_allow_entries_in_any_case_of_their_verb() {
    let allow = r#", "allow": ["post /r"]"#;
    for caps in [
        r#""GET /r": 1"#,
        r#""POST /r": 0"#,
        r#""POST /r": 100001"#,
        r#""/r": 1"#,
        r#""POST /R": 1"#,
    ] {
        refused(
            &format!(r#"{allow}, "route_max_calls": {{{caps}}}"#),
            "profile \"p\", route_max_calls[",
        );
    }
    refused(
        &format!(r#"{allow}, "route_max_calls": {{"POST /r": 1, "POST  /r": 2}}"#),
        "profile \"p\", route_max_calls[\"POST  /r\"]: is the same route as another key",
    );
    for key in ["POST /r", "post /r"] {
        let profile = accepted(&format!(r#"{allow}, "route_max_calls": {{"{key}": 4}}"#));
        assert_eq!(profile.grant().route_caps()[0].1, 4);
    }
}

#[test]
fn a_verb_may_be_written_in_any_case_and_is_kept_in_upper_case() {
    let profile = accepted(
        r#", "allow": ["get /a", "Put /a", "DELETE /a"], "catalog": ["patch /a"], "health_check": "get /h",
             "batch_of": {"get /l": ["Get /l/*"]}"#,
    );
    let allow: Vec<String> = profile.grant().allow().iter().map(ToString::to_string).collect();
    assert_eq!(allow, ["GET /a", "PUT /a", "DELETE /a"]);
    assert_eq!(profile.catalog()[0].to_string(), "PATCH /a");
    assert_eq!(profile.grant().health_check().unwrap().to_string(), "GET /h");
    let (served, batch) = profile.batch_of().first_key_value().unwrap();
    assert_eq!(
        (served.to_string(), batch.to_string()),
        ("GET /l/*".to_owned(), "GET /l".to_owned())
    );
}

#[test]
fn routes_are_named_by_their_place_and_never_repeat() {
    refused(
        r#", "allow": ["GET /a", "GET /b/"]"#,
        "profile \"p\", allow[1]: the path must have no empty segment",
    );
    refused(
        r#", "allow": ["GET /a", "get /a"]"#,
        "profile \"p\", allow[1]: repeats allow[0]",
    );
    refused(
        r#", "allow": ["GET /has space"]"#,
        "profile \"p\", allow[0]: must be written as \"METHOD /path\"",
    );
    refused(
        r#", "allow": ["TRACE /x"]"#,
        "profile \"p\", allow[0]: the method must be GET, PUT, POST, DELETE or PATCH",
    );
}

#[test]
fn blocks_and_numbers_are_named_with_profile_and_field() {
    refused(
        r#", "allow_private": ["10.0.0.1/8"]"#,
        "profile \"p\", allow_private[0]: must have no bit set",
    );
    refused(
        r#", "allow_private": ["x"]"#,
        "profile \"p\", allow_private[0]: must be a block such as",
    );
    refused(
        r#", "timeout_sec": -1"#,
        "profile \"p\", timeout_sec: must be from 0 to 60",
    );
    refused(
        r#", "timeout_sec": 61"#,
        "profile \"p\", timeout_sec: must be from 0 to 60",
    );
    refused(
        r#", "max_calls": 100001"#,
        "profile \"p\", max_calls: must be from 0 to 100000",
    );
}
