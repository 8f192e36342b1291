//! Who may name a profile, and that a refusal tells nothing about the profiles there are.

use serde_json::json;

use super::api::Api;
use super::setup::{ALICE, BOB, Call, Files, metrics, profile, series};
use crate::daemon::{GOOD_TOKEN, exchange};

/// The detail `NotDispatched` with reason `request` and `permission`, as the wire carries it.
const REQUEST: &str = "CAE";
const PERMISSION: &str = "CAI";

#[test]
fn an_unknown_profile_and_one_of_somebody_else_are_refused_alike_and_nothing_runs() {
    let api = Api::echoing_paths();
    let files = Files::new(&json!({ "berths": profile(&api.origin(), &["GET /berths/*"], &json!({})) }));
    let daemon = files.start(&[]);
    let code = "await host.get('/berths/7')";

    let as_bob = |profile| {
        let call = Call {
            token: Some(BOB.1),
            ..Call::of(profile, code)
        };
        call.send(daemon.addr)
    };
    let longest = "b".repeat(128);
    let (status, forbidden, _) = as_bob("berths");
    assert_eq!(status, 403);
    assert_eq!(forbidden["code"], "permission_denied");
    assert_eq!(forbidden["details"][0]["value"], PERMISSION);
    for unknown in ["nothing", "Berths", "berths ", "berths.", "../berths", longest.as_str()] {
        let (status, answer, _) = as_bob(unknown);
        assert_eq!((status, &answer), (403, &forbidden), "{unknown:?}");
    }
    assert!(!forbidden.to_string().contains("berths"), "{forbidden}");

    // Whose it is, it works for.
    let (_, printed) = Call::of("berths", "console.log((await host.get('/berths/7')).path)").ran(daemon.addr);
    assert_eq!(printed, "/berths/7\n");
    assert_eq!(api.lines(), ["GET /berths/7"], "refused runs called nothing");
    let page = metrics(&daemon);
    assert_eq!(series(&page, "plimsoll_runs_total"), ["plimsoll_runs_total 1"]);
}

#[test]
fn a_profile_name_of_129_bytes_is_a_malformed_request() {
    let api = Api::echoing_paths();
    let files = Files::new(&json!({ "berths": profile(&api.origin(), &["GET /berths/*"], &json!({})) }));
    let daemon = files.start(&[]);
    let (status, answer, _) = Call::of(&"b".repeat(129), "1").send(daemon.addr);
    assert_eq!((status, &answer["code"]), (400, &"invalid_argument".into()));
    assert_eq!(answer["details"][0]["value"], REQUEST);
    assert!(
        answer["message"].as_str().unwrap().contains("grant_profile"),
        "{answer}"
    );
}

#[test]
fn in_open_mode_not_even_a_profile_for_everyone_can_be_named() {
    let api = Api::echoing_paths();
    let everyone = profile(&api.origin(), &["GET /berths/*"], &json!({"allowed_callers": ["*"]}));
    let files = Files::new(&json!({ "berths": everyone }));
    let daemon = files.start_with(&[("PLIMSOLL_INSECURE", "1")]);
    let anonymous = |profile| {
        let call = Call {
            token: None,
            ..Call::of(profile, "await host.get('/berths/7')")
        };
        call.send(daemon.addr)
    };
    let (status, refused, _) = anonymous("berths");
    assert_eq!((status, &refused["code"]), (403, &"permission_denied".into()));
    assert_eq!(refused["details"][0]["value"], PERMISSION);
    assert_eq!(anonymous("nothing").1, refused);
    assert!(api.asked().is_empty());
}

#[test]
fn a_profile_for_everyone_is_for_every_authenticated_caller_and_is_warned_about() {
    let api = Api::echoing_paths();
    let everyone = profile(&api.origin(), &["GET /berths/*"], &json!({"allowed_callers": ["*"]}));
    let files = Files::new(&json!({ "zeta": everyone, "berths": everyone }));
    let daemon = files.start(&[]);
    for (_, token) in [ALICE, BOB] {
        let call = Call {
            token: Some(token),
            ..Call::of("berths", "await host.get('/berths/7')")
        };
        call.ran(daemon.addr);
    }
    let warned: Vec<&str> = daemon
        .records
        .iter()
        .filter(|record| record["level"] == "WARN")
        .filter_map(|record| record["msg"].as_str())
        .filter(|text| text.contains("open to every"))
        .collect();
    assert_eq!(warned.len(), 2, "{warned:?}");
    assert!(warned[0].contains("berths") && warned[1].contains("zeta"), "{warned:?}");
}

#[test]
fn the_caller_of_a_shared_token_is_named_static() {
    let api = Api::echoing_paths();
    let of = |callers| {
        profile(
            &api.origin(),
            &["GET /berths/*"],
            &json!({ "allowed_callers": callers }),
        )
    };
    let files = Files::new(&json!({ "shared": of(["static"]), "others": of(["alice"]) }));
    let daemon = files.start_with(&[("PLIMSOLL_TOKEN", GOOD_TOKEN)]);
    let call = |profile| {
        let call = Call {
            token: Some(GOOD_TOKEN),
            ..Call::of(profile, "await host.get('/berths/7')")
        };
        call.send(daemon.addr).0
    };
    assert_eq!((call("shared"), call("others")), (200, 403));
}

#[test]
fn describe_reports_that_snippets_may_have_grants_and_projects_may_not() {
    let files = Files::new(&json!({}));
    let daemon = files.start(&[]);
    let head = format!(
        "POST /plimsoll.v1.SandboxService/Describe HTTP/1.1\r\nContent-Type: application/json\r\nAuthorization: Bearer {}\r\n",
        ALICE.1
    );
    let (status, _, body) = exchange(daemon.addr, &head, "{}");
    let answer: serde_json::Value = serde_json::from_str(&body).unwrap();
    assert_eq!(status, 200, "{answer}");
    assert_eq!(answer["supportsJavascriptGrants"], true, "{answer}");
    assert!(!answer["supportsProjectGrants"].as_bool().unwrap_or(false), "{answer}");
}

#[test]
fn a_token_that_ends_before_a_usual_run_is_warned_about() {
    let of = |ttl_sec: u32| {
        let token = json!({"type": "jwt", "secret_env": "API_SECRET", "audience": "a", "ttl_sec": ttl_sec});
        profile("http://127.0.0.1:9", &[], &json!({ "token": token }))
    };
    let daemon = Files::new(&json!({ "brief": of(4), "lasting": of(5) })).start(&[]);
    let warned: Vec<&str> = daemon
        .records
        .iter()
        .filter(|record| record["level"] == "WARN")
        .filter_map(|record| record["msg"].as_str())
        .filter(|text| text.contains("ttl_sec"))
        .collect();
    assert!(warned.len() == 1 && warned[0].contains("brief"), "{warned:?}");
}
