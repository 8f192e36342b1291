use proptest::prelude::*;

use super::*;
use crate::pb;

fn problem(body: &str) -> Problem {
    match from_json::<pb::RunRequest>(body.as_bytes()) {
        Err(JsonError::Scan(error)) => error.problem,
        other => panic!("{body}: {other:?}"),
    }
}

fn run(body: &str) -> pb::RunRequest {
    from_json(body.as_bytes()).unwrap_or_else(|error| panic!("{body}: {error}"))
}

fn module(rows: &str) -> Vec<f64> {
    match run(&format!(r#"{{"module":{{"rows":[{{"values":{rows}}}]}}}}"#)).payload {
        Some(pb::__buffa::oneof::run_request::Payload::Module(mut module)) => module.rows.remove(0).values,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_shapes_of_a_body() {
    assert_eq!(problem(""), Problem::Empty);
    assert_eq!(problem("\u{feff}{}"), Problem::ByteOrderMark);
    for body in ["[]", "1", "null", "\"a\"", "  ", "NaN"] {
        assert_eq!(problem(body), Problem::NotAnObject, "{body}");
    }
    for body in ["{}{}", "{} x", "{},"] {
        assert_eq!(problem(body), Problem::TrailingData, "{body}");
    }
    for body in [
        "{",
        "{\"a",
        "{\"a\"",
        "{\"a\":",
        "{\"a\":1",
        "{\"a\":[1",
        "{\"a\":\"\\u12",
    ] {
        assert_eq!(problem(body), Problem::Unfinished, "{body}");
    }
    for body in [
        "{a:1}",
        "{\"a\":NaN}",
        "{\"a\":Infinity}",
        "{\"a\":-Infinity}",
        "{\"a\":1,}",
        "{\"a\":[1,]}",
        "{\"a\":01}",
    ] {
        assert_eq!(problem(body), Problem::Syntax, "{body}");
    }
    assert_eq!(problem("{\"a\":\"\n\"}"), Problem::ControlCharacter);
    assert_eq!(problem(r#"{"a":"\x"}"#), Problem::Escape);
    let error = from_json::<pb::RunRequest>(b"{\"traceId\":\"\xff\"}").unwrap_err();
    assert!(
        matches!(
            error,
            JsonError::Scan(ScanError {
                at: 12,
                problem: Problem::NotUtf8,
                ..
            })
        ),
        "{error}"
    );
    run(" \r\n\t{ \"traceId\" : \"a\" , \"protocol\" : 4 } \n");
}

#[test]
fn nesting_counts_from_the_root_and_stops_after_64() {
    let nested = |levels: usize| format!("{{\"x\":{}{}}}", "[".repeat(levels - 1), "]".repeat(levels - 1));
    run(&nested(64));
    assert_eq!(problem(&nested(65)), Problem::TooDeep);
    assert_eq!(problem(&nested(200_000)), Problem::TooDeep);
}

#[test]
fn a_name_stands_once_whatever_its_spelling_and_depth() {
    for body in [
        r#"{"traceId":"a","traceId":"a"}"#,
        r#"{"traceId":"a","trace_id":"b"}"#,
        r#"{"traceId":null,"trace_id":"b"}"#,
        r#"{"javascript":null,"javascript":{}}"#,
        r#"{"javascript":{"code":"a","code":"b"}}"#,
        r#"{"javascript":{"grantProfile":"a","grant_profile":"b"}}"#,
        r#"{"javascript":{"c\u006fde":"a","code":"b"}}"#,
        r#"{"x":{"a":1,"b":2,"a":3}}"#,
        r#"{"x":[[{"a":1,"\u0061":3}]]}"#,
        r#"{"x":1,"y":2,"x":{}}"#,
        r#"{"\ud83d\ude00":1,"😀":2}"#,
        r#"{"project":{"files":[{"path":"a","path":"b"}]}}"#,
    ] {
        assert_eq!(problem(body), Problem::DuplicateName, "{body}");
    }
    // In an unknown object the two spellings are two names, and names of different objects never meet.
    run(r#"{"x":{"traceId":1,"trace_id":2},"y":{"traceId":1},"z":[{"a":1},{"a":1}],"a":{"b":{"a":1}}}"#);
    let error = from_json::<pb::RunRequest>(br#"{"javascript":{"code":"a","code":"b"}}"#).unwrap_err();
    assert!(
        error.to_string().contains("javascript.code: the same name twice"),
        "{error}"
    );
}

#[test]
fn an_unknown_name_that_stands_twice_is_told_with_its_place_and_not_as_the_field_read_last() {
    let long = format!(r#"{{"{0}":1,"{0}":2}}"#, "n".repeat(65));
    for (body, field, second) in [
        (
            r#"{"protocol":4,"zz":4,"zz":5,"javascript":{"code":"1"}}"#,
            "zz",
            "zz\":5",
        ),
        (
            r#"{"javascript":{"code":"1","b":1,"a":1,"a":2,"b":3}}"#,
            "javascript.a",
            "a\":2",
        ),
        (
            r#"{"javascript":{"zz":{"a":1,"a":2}},"protocol":4}"#,
            "javascript",
            "a\":2",
        ),
        (r#"{"traceId":"t","x":{"a":1,"\u0061":2}}"#, "", r#"\u0061"#),
        (r#"{"protocol":4,"\u007az":4,"zz":5}"#, "zz", "zz\":5"),
        (r#"{"a b":1,"a b":2}"#, "", "a b\":2"),
        (long.as_str(), "", &long[72..]),
    ] {
        let Err(JsonError::Scan(error)) = from_json::<pb::RunRequest>(body.as_bytes()) else {
            panic!("{body}");
        };
        assert_eq!(
            (error.problem, error.field.as_str()),
            (Problem::DuplicateName, field),
            "{body}"
        );
        assert!(body[error.at..].starts_with(second), "{body}: {}", error.at);
    }
}

#[test]
fn many_unknown_names_are_checked_without_taking_long() {
    let names: String = (0..300_000).map(|n| format!("\"n{n}\":0,")).collect();
    let start = std::time::Instant::now();
    run(&format!("{{{names}\"last\":0}}"));
    assert_eq!(problem(&format!("{{{names}\"n7\":0}}")), Problem::DuplicateName);
    assert!(start.elapsed().as_secs() < 10, "{:?}", start.elapsed());
}

#[test]
fn half_a_surrogate_pair_is_refused_anywhere() {
    for body in [
        r#"{"x":"\ud800"}"#,
        r#"{"x":["\udc00"]}"#,
        r#"{"\ud800":1}"#,
        r#"{"traceId":"\ud800\u0041"}"#,
        r#"{"traceId":"\ud800\ud800"}"#,
        r#"{"traceId":"\ud800x"}"#,
    ] {
        assert_eq!(problem(body), Problem::LoneSurrogate, "{body}");
    }
    assert_eq!(run(r#"{"traceId":"\ud83d\ude00\u00e9\/\b"}"#).trace_id, "😀é/\u{8}");
}

#[test]
fn names_read_in_both_spellings_and_unknown_fields_are_ignored() {
    let sent = run(r#"{"trace_id":"t","minimumIsolation":"vm","timeout_ms":5,"new":{"field":[1,{"a":null}]}}"#);
    assert_eq!(
        (sent.trace_id.as_str(), sent.minimum_isolation.as_str(), sent.timeout_ms),
        ("t", "vm", 5)
    );
    assert_eq!(
        to_json(&sent),
        br#"{"minimumIsolation":"vm","traceId":"t","timeoutMs":5}"#
    );
}

#[test]
fn null_reads_as_absent_and_unsets_a_oneof_member() {
    let sent = run(
        r#"{"protocol":null,"traceId":null,"softwareRule":null,"javascript":null,"project":{"files":null,"steps":["a"]}}"#,
    );
    assert_eq!(sent.protocol, 0);
    assert!(!sent.software_rule.is_set());
    assert!(matches!(
        sent.payload,
        Some(pb::__buffa::oneof::run_request::Payload::Project(_))
    ));
    assert_eq!(run(r#"{"javascript":null}"#).payload, None);
    for body in [
        r#"{"project":{"steps":[null]}}"#,
        r#"{"project":{"files":[null]}}"#,
        r#"{"module":{"rows":[{"values":[null]}]}}"#,
    ] {
        assert_eq!(problem(body), Problem::NullElement, "{body}");
    }
}

#[test]
fn two_members_of_one_oneof_are_an_error() {
    assert_eq!(problem(r#"{"javascript":{},"project":{}}"#), Problem::TwoAlternatives);
    assert_eq!(
        problem(r#"{"cell":{"code":"1"},"protocol":4,"javascript":{}}"#),
        Problem::TwoAlternatives
    );
}

#[test]
fn whole_numbers_of_32_bits() {
    for (text, value) in [
        ("5", 5),
        ("-5", -5),
        ("\"5\"", 5),
        ("\"-5\"", -5),
        ("1.0", 1),
        ("1e3", 1000),
        ("15e-1", 0),
        ("1500e-2", 15),
        ("-0", 0),
        ("-0.0", 0),
        ("2147483647", i32::MAX),
        ("-2147483648", i32::MIN),
        ("2147483647.0", i32::MAX),
    ] {
        let body = format!(r#"{{"timeoutMs":{text}}}"#);
        if text == "15e-1" {
            assert!(matches!(problem(&body), Problem::WrongType(_)), "{text}");
        } else {
            assert_eq!(run(&body).timeout_ms, value, "{text}");
        }
    }
    for text in [
        "2147483648",
        "-2147483649",
        "1.5",
        "\"\"",
        "\"1.0\"",
        "\"1e3\"",
        "\" 5\"",
        "\"0x5\"",
        "true",
        "[5]",
        "{}",
        "\"+5\"",
        "1e400",
    ] {
        assert!(
            matches!(problem(&format!(r#"{{"timeoutMs":{text}}}"#)), Problem::WrongType(_)),
            "{text}"
        );
    }
    assert_eq!(run(r#"{"protocol":4294967295}"#).protocol, u32::MAX);
    for text in ["-1", "4294967296", "\"two\""] {
        assert!(
            matches!(problem(&format!(r#"{{"protocol":{text}}}"#)), Problem::WrongType(_)),
            "{text}"
        );
    }
}

#[test]
fn whole_numbers_of_64_bits_travel_as_strings() {
    let record = pb::RunRecord {
        started_unix_ms: i64::MIN,
        sequence: u64::MAX,
        ..Default::default()
    };
    let text = to_json(&record);
    assert_eq!(
        text,
        br#"{"startedUnixMs":"-9223372036854775808","sequence":"18446744073709551615"}"#
    );
    assert_eq!(from_json::<pb::RunRecord>(&text).unwrap(), record);
    let read = |text: &str| from_json::<pb::RunRecord>(text.as_bytes());
    assert_eq!(
        read(r#"{"sequence":18446744073709551615,"startedUnixMs":-9223372036854775808}"#).unwrap(),
        record
    );
    assert_eq!(read(r#"{"sequence":1e3,"startedUnixMs":2.0}"#).unwrap().sequence, 1000);
    for text in [
        r#"{"sequence":18446744073709551616}"#,
        r#"{"sequence":"-1"}"#,
        r#"{"startedUnixMs":1.5}"#,
    ] {
        assert!(read(text).is_err(), "{text}");
    }
}

#[test]
fn booleans_and_strings_are_nothing_else() {
    let read = |text: &str| from_json::<pb::DescribeResponse>(text.as_bytes());
    assert!(
        read(r#"{"supportsProject":true,"supports_module":false}"#)
            .unwrap()
            .supports_project
    );
    for text in [
        r#"{"supportsProject":"true"}"#,
        r#"{"supportsProject":1}"#,
        r#"{"sandbox":1}"#,
        r#"{"sandbox":true}"#,
    ] {
        assert!(
            matches!(
                read(text),
                Err(JsonError::Scan(ScanError {
                    problem: Problem::WrongType(_),
                    ..
                }))
            ),
            "{text}"
        );
    }
    let error = read(r#"{"javascriptEnvironment":{"languages":["a",5]}}"#)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("javascript_environment.languages: expected a string"),
        "{error}"
    );
}

#[test]
fn doubles_keep_their_sign_and_their_specials() {
    let bits = |rows: &str| module(rows).into_iter().map(f64::to_bits).collect::<Vec<_>>();
    let zero = (-0.0_f64).to_bits();
    assert_eq!(bits("[-0,-0.0,-0e5,-0.0E-3,\"-0\"]"), [zero; 5]);
    assert_eq!(
        bits("[1e+300,1,\"2.5\",0]"),
        [1e300_f64, 1.0, 2.5, 0.0].map(f64::to_bits)
    );
    // Read one unit in the last place off without serde_json's `float_roundtrip`.
    assert_eq!(
        bits("[-2.2171908685224137e-248]"),
        [(-2.2171908685224137e-248_f64).to_bits()]
    );
    let specials = module(r#"["NaN","Infinity","-Infinity"]"#);
    assert!(specials[0].is_nan() && specials[1] == f64::INFINITY && specials[2] == f64::NEG_INFINITY);
    for rows in ["[\"nan\"]", "[\"inf\"]", "[\"\"]", "[\" 1\"]", "[true]", "[\"0x1\"]"] {
        let body = format!(r#"{{"module":{{"rows":[{{"values":{rows}}}]}}}}"#);
        assert!(matches!(problem(&body), Problem::WrongType(_)), "{rows}");
    }
    // Beyond a double's range: refused by the layer below, and still refused.
    assert!(from_json::<pb::RunRequest>(br#"{"module":{"endTime":1e400}}"#).is_err());
    let written = pb::ModuleRow {
        values: vec![f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, 0.1, 1e300],
        ..Default::default()
    };
    assert_eq!(
        to_json(&written),
        br#"{"values":["NaN","Infinity","-Infinity",-0,0.1,1e+300]}"#
    );
}

#[test]
fn bytes_read_in_every_base64_form_and_are_written_in_the_standard_one() {
    let read =
        |text: &str| from_json::<pb::RunResponse>(format!(r#"{{"javascript":{{"stdout":"{text}"}}}}"#).as_bytes());
    for text in ["+/8=", "-_8=", "+/8", "-_8", "\\u002b/8="] {
        match read(text).unwrap().result {
            Some(pb::__buffa::oneof::run_response::Result::Javascript(result)) => {
                assert_eq!(result.stdout, [0xfb, 0xff]);
            }
            other => panic!("{text}: {other:?}"),
        }
    }
    for text in ["+/8==", "a", "**", "+ /8"] {
        assert!(read(text).is_err(), "{text}");
    }
    let result = pb::JavaScriptResult {
        stdout: vec![0xfb, 0xff],
        ..Default::default()
    };
    assert_eq!(to_json(&result), br#"{"stdout":"+/8="}"#);
}

#[test]
fn enums_read_by_name_or_number_and_are_written_by_name() {
    let read = |text: &str| from_json::<pb::RunResponse>(format!(r#"{{"project":{{"outcome":{text}}}}}"#).as_bytes());
    let outcome = |text: &str| match read(text).unwrap().result {
        Some(pb::__buffa::oneof::run_response::Result::Project(result)) => result.outcome.to_i32(),
        other => panic!("{text}: {other:?}"),
    };
    assert_eq!(outcome("\"PROJECT_OUTCOME_TIMED_OUT\""), 3);
    assert_eq!(outcome("3"), 3);
    assert_eq!(outcome("77"), 77);
    assert_eq!(outcome("null"), 0);
    for text in ["\"PROJECT_OUTCOME_NEW\"", "\"3\"", "1.5", "3.0", "2147483648", "true"] {
        assert!(read(text).is_err(), "{text}");
    }
    let result = pb::ProjectResult {
        outcome: pb::ProjectOutcome::PROJECT_OUTCOME_COMPLETED.into(),
        ..Default::default()
    };
    assert_eq!(to_json(&result), br#"{"outcome":"PROJECT_OUTCOME_COMPLETED"}"#);
}

#[test]
fn the_number_of_list_elements_is_bounded_before_anything_is_allocated_for_them() {
    let rows = |count: usize| format!(r#"{{"module":{{"rows":[{}{{}}]}}}}"#, "{},".repeat(count - 1));
    run(&rows(MAX_ELEMENTS));
    assert_eq!(problem(&rows(MAX_ELEMENTS + 1)), Problem::TooManyElements);
}

/// The rows of the table in `json`'s documentation, as measured: should one of these fail, the generated decoder has
/// changed and the scanner may have less to do.
#[test]
fn the_generated_decoder_alone_would_let_these_through() {
    for body in [
        r#"{"traceId":"a","traceId":"b"}"#,
        r#"{"traceId":"a","trace_id":"b"}"#,
        r#"{"unknown":{"a":1,"a":2}}"#,
        r#"{"unknown":"\ud800"}"#,
        r#"{"timeoutMs":"1.0"}"#,
        r#"{"timeoutMs":"1e3"}"#,
        r#"{"module":{"rows":[{"values":["nan"]}]}}"#,
    ] {
        assert!(
            serde_json::from_str::<pb::RunRequest>(body).is_ok(),
            "{body}: refused without the scanner"
        );
        assert!(from_json::<pb::RunRequest>(body.as_bytes()).is_err(), "{body}");
    }
    let error = serde_json::from_str::<pb::RunRequest>(r#"{"javascript":{"code":5}}"#)
        .unwrap_err()
        .to_string();
    assert!(!error.contains("code"), "{error}");
}

/// JSON text that breaks no rule, with escapes in its names and strings.
fn well_formed() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        (-1e9..1e9_f64).prop_map(Into::into),
        any::<String>().prop_map(Into::into),
    ];
    leaf.prop_recursive(5, 64, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Into::into),
            prop::collection::btree_map("[a-z\\\\\"\u{e9}\n]{0,4}", inner, 0..6)
                .prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn whatever_serde_json_writes_inside_an_unknown_field_passes(value in well_formed()) {
        let body = serde_json::json!({ "unknown": value }).to_string();
        prop_assert!(scan(body.as_bytes(), RUN_REQUEST).is_ok(), "{}", body);
    }

    #[test]
    fn what_passes_is_what_serde_json_reads(body in "[{}\\[\\]\",:0-9a-e\\\\u .+-]{0,24}") {
        let body = format!("{{\"x\":{body}}}");
        let read = serde_json::from_str::<serde_json::Value>(&body);
        match scan(body.as_bytes(), RUN_REQUEST) {
            Ok(_) => prop_assert!(read.is_ok() || read.is_err_and(|e| e.to_string().contains("out of range")), "{}", body),
            // serde_json keeps the last of two equal names, and we do not.
            Err(error) => prop_assert!(read.is_err() || error.problem == Problem::DuplicateName, "{}: {}", body, error),
        }
    }

    #[test]
    fn no_bytes_panic(body in prop::collection::vec(any::<u8>(), 0..256)) {
        let _ = from_json::<pb::RunRequest>(&body);
    }

    #[test]
    fn a_request_reads_back_as_written(code in any::<String>(), trace in any::<String>(), timeout in any::<i32>(),
                                       values in prop::collection::vec(any::<f64>(), 0..4), snippet in any::<bool>()) {
        let payload = if snippet {
            pb::JavaScriptRun { code, ..Default::default() }.into()
        } else {
            let rows = vec![pb::ModuleRow { values, ..Default::default() }];
            pb::ModuleRun { rows, ..Default::default() }.into()
        };
        let sent = pb::RunRequest { protocol: 4, trace_id: trace, timeout_ms: timeout, payload, ..Default::default() };
        let text = to_json(&sent);
        let read = from_json::<pb::RunRequest>(&text).unwrap();
        prop_assert_eq!(to_json(&read), text);
    }
}

#[test]
fn an_end_without_a_name_here_is_an_end_and_nothing_else_becomes_lenient() {
    let closed = |body: &str| from_json_with_end::<pb::CloseSessionResponse>(body.as_bytes());
    let known = closed(r#"{"ended":"SESSION_END_EXPIRED","calls":"3"}"#).unwrap();
    assert_eq!((known.ended.to_i32(), known.calls), (2, 3));
    let newer = closed(r#"{"calls":"3","ended":"SESSION_END_HOST_LOST"}"#).unwrap();
    assert_eq!((newer.ended.to_i32(), newer.calls), (i32::MAX, 3));
    for body in [
        r#"{"ended":"SESSION_END_HOST_LOST","ended":1}"#,
        r#"{"ended":true}"#,
        r#"{"ended":"SESSION_END_HOST_LOST","calls":"x"}"#,
        "[]",
    ] {
        assert!(closed(body).is_err(), "{body}");
    }
    let outcome = r#"{"run":{"project":{"outcome":"PROJECT_OUTCOME_NEWER"}},"ended":"SESSION_END_CLOSED"}"#;
    assert!(from_json_with_end::<pb::SessionRunResponse>(outcome.as_bytes()).is_err());
}
