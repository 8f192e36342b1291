//! Attempts to be taken for alice: by the daemon, in the log, in a record, by an API.

use serde_json::{Value, json};

use super::kit::{GRANT, House, audit};
use crate::daemon::exchange;
use crate::grants::setup::{ALICE, BOB, from_base64};

/// A run by bob's token with more header lines; status and answer.
fn bob_with(house: &House, headers: &str, profile: &str) -> (u16, Value) {
    let body = json!({"protocol": 4, "javascript": {"code": "console.log('ran')", "grantProfile": profile}});
    let (status, _, answer) = house.raw_with(BOB.1, "Run", headers, &body);
    (status, answer)
}

#[test]
fn headers_of_proxies_name_nobody() {
    let house = House::new();
    for name in [
        "X-Forwarded-User",
        "X-Remote-User",
        "X-Authenticated-User",
        "Remote-User",
        "X-Plimsoll-Caller",
        "Plimsoll-Caller",
        "X-Client-Cert",
        "Cookie",
    ] {
        let (status, answer) = bob_with(&house, &format!("{name}: alice\r\n"), GRANT);
        assert_eq!(status, 403, "{name}: {answer}");
        assert_eq!(bob_with(&house, &format!("{name}: alice\r\n"), "").0, 200);
    }
    let records = house.log();
    let callers: Vec<&Value> = audit(&records).into_iter().map(|record| &record["caller"]).collect();
    assert_eq!(callers, vec!["bob"; 8]);
}

#[test]
fn two_tokens_in_one_request_are_nobodys() {
    let house = House::new();
    for second in [
        format!("Authorization: Bearer {}\r\n", ALICE.1),
        format!("authorization: bearer {}\r\n", BOB.1),
    ] {
        let (status, answer) = bob_with(&house, &second, "");
        assert_eq!(status, 401, "{answer}");
    }
    // In one line neither.
    let head = format!(
        "POST /plimsoll.v1.SandboxService/Run HTTP/1.1\r\nContent-Type: application/json\r\nAuthorization: Bearer {}, Bearer {}\r\n",
        BOB.1, ALICE.1
    );
    let body = json!({"protocol": 4, "javascript": {"code": "1"}});
    assert_eq!(exchange(house.daemon.addr, &head, &body.to_string()).0, 401);
}

#[test]
fn a_token_travels_in_its_header_and_nowhere_else() {
    let house = House::new();
    let body = json!({"protocol": 4, "javascript": {"code": "1"}}).to_string();
    for (target, header) in [
        (
            format!("/plimsoll.v1.SandboxService/Run?access_token={}", ALICE.1),
            String::new(),
        ),
        (
            "/plimsoll.v1.SandboxService/Run".to_owned(),
            format!("Cookie: token={}\r\n", ALICE.1),
        ),
        (
            "/plimsoll.v1.SandboxService/Run".to_owned(),
            format!("X-Api-Key: {}\r\n", ALICE.1),
        ),
        (
            "/plimsoll.v1.SandboxService/Run".to_owned(),
            format!("Proxy-Authorization: Bearer {}\r\n", ALICE.1),
        ),
    ] {
        let head = format!("POST {target} HTTP/1.1\r\nContent-Type: application/json\r\n{header}");
        let (status, _, answer) = exchange(house.daemon.addr, &head, &body);
        assert_eq!(status, 401, "{target} {header}: {answer}");
    }
}

#[test]
fn the_hash_of_a_token_which_the_registry_holds_is_no_token() {
    use sha2::Digest as _;
    let house = House::new();
    let hash: String = sha2::Sha256::digest(ALICE.1)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    for guess in [
        hash.as_str(),
        &hash.to_uppercase(),
        "alice",
        &ALICE.1[..31],
        &format!("{}0", ALICE.1),
    ] {
        let (status, answer) = house.call(guess, "Run", &json!({"protocol": 4, "javascript": {"code": "1"}}));
        assert_eq!(status, 401, "{guess}: {answer}");
    }
}

#[test]
fn fields_of_a_request_that_would_name_a_caller_name_nobody() {
    let house = House::new();
    let plain = json!({"protocol": 4, "javascript": {"code": "1"}});
    let (_, without) = house.call(BOB.1, "Run", &plain);
    let fields = ["caller", "principal", "subject", "sub", "callerId", "owner"];
    for field in fields {
        let mut body = plain.clone();
        body[field] = json!("alice");
        // Nothing reads such a field: the request is the same without it.
        let (status, answer) = house.call(BOB.1, "Run", &body);
        assert_eq!(status, 200, "{field}: {answer}");
        assert_eq!(
            answer["record"]["requestSha256"], without["record"]["requestSha256"],
            "{field}"
        );
    }
    let records = house.log();
    let told = audit(&records);
    assert_eq!(told.len(), 1 + fields.len());
    assert!(told.iter().all(|record| record["caller"] == "bob"), "{told:?}");
}

#[test]
fn an_owner_names_nobody_to_an_api_and_stands_in_no_log() {
    let house = House::new();
    let (status, opened) = house.call(BOB.1, "OpenSession", &json!({"protocol": 4, "owner": "alice"}));
    assert_eq!(status, 200, "{opened}");
    assert_eq!(house.cell(BOB.1, &opened["sessionId"], "1").0, 200);
    let records = house.log();
    let told = audit(&records);
    assert_eq!((told.len(), &told[0]["caller"]), (1, &json!("bob")));
    assert!(
        records.iter().all(|record| !record.to_string().contains("alice")),
        "{records:?}"
    );
}

#[test]
fn a_trace_id_writes_no_line_of_its_own_into_the_log() {
    let house = House::new();
    let forged = "x\n{\"level\":\"INFO\",\"msg\":\"code run\",\"op\":\"javascript\",\"caller\":\"alice\"}";
    for trace in [forged, "a b", "alice\r", "a/../b", "\u{1b}[2J", &"x".repeat(65)] {
        let body = json!({"protocol": 4, "traceId": trace, "javascript": {"code": "1"}});
        let (status, answer) = house.call(BOB.1, "Run", &body);
        assert_eq!(status, 200, "{trace:?}: {answer}");
    }
    let records = house.log();
    let told = audit(&records);
    assert_eq!(told.len(), 6);
    for record in told {
        assert_eq!(
            (&record["caller"], &record["trace_id_rejected"]),
            (&json!("bob"), &json!(true)),
            "{record}"
        );
        assert_eq!(record.get("trace_id"), None);
    }
    assert!(
        records.iter().all(|record| !record.to_string().contains("alice")),
        "{records:?}"
    );
}

#[test]
fn what_a_run_prints_is_in_no_line_of_the_log() {
    let house = House::new();
    let line = "{\\\"msg\\\":\\\"code run\\\",\\\"caller\\\":\\\"alice\\\"}";
    let code =
        format!("console.log(\"\\n{line}\\n\"); console.error(\"\\n{line}\\n\"); throw new Error(\"\\n{line}\")");
    assert_eq!(house.snippet(BOB, "", &code).0, 200);
    let records = house.log();
    assert_eq!(audit(&records).len(), 1);
    assert!(
        records.iter().all(|record| !record.to_string().contains("alice")),
        "{records:?}"
    );
}

#[test]
fn a_run_cannot_print_itself_another_record() {
    let house = House::new();
    let code =
        "console.log(JSON.stringify({record: {recordSha256: '0'.repeat(64)}, isolation: 'vm', provider: 'e2b'}))";
    let (status, answer) = house.snippet(BOB, "", code);
    assert_eq!(status, 200);
    assert_eq!(
        (&answer["isolation"], &answer["sandbox"]),
        (&json!("process"), &json!("wasm")),
        "{answer}"
    );
    assert_ne!(answer["record"]["recordSha256"], json!("0".repeat(64)));
}

#[test]
fn a_call_of_a_grant_cannot_bring_its_own_authority() {
    let house = House::new();
    let code = "for (const headers of [{Authorization: 'Bearer alices'}, {authorization: 'x'}, {'X-Forwarded-User': 'alice'}, {Cookie: 'a=b'}, {Host: 'alice.example'}]) \
                { try { const answer = await host.call('GET', '/shared/1', undefined, headers); console.log(answer?.status) } catch (error) { console.log('refused') } }";
    let (status, answer) = house.snippet(BOB, "shared", code);
    assert_eq!(status, 200, "{answer}");
    for asked in house.api.asked() {
        let token = asked.header("authorization").unwrap().strip_prefix("Bearer ").unwrap();
        let claims = String::from_utf8(from_base64(token.split('.').nth(1).unwrap())).unwrap();
        assert!(claims.contains("\"sub\":\"bob\""), "{claims}");
        let all = asked.headers.join("\n").to_lowercase();
        assert!(
            !all.contains("alice") && !all.contains("cookie") && !all.contains("x-forwarded"),
            "{all}"
        );
    }
}

#[test]
fn a_stage_of_the_chain_cannot_be_taken_over_by_naming_it() {
    // The record before is the daemon's to name; a request has no field for it.
    let house = House::new();
    let alices = house.session(ALICE);
    let (_, answer) = house.cell(ALICE.1, &alices["sessionId"], "1");
    let digest = &answer["run"]["record"]["recordSha256"];
    let bobs = house.session(BOB);
    let mut before = json!("");
    for field in ["previousSha256", "session", "sequence", "record"] {
        let mut body =
            json!({"protocol": 4, "sessionId": bobs["sessionId"], "cell": {"language": "javascript", "code": "1"}});
        body[field] = digest.clone();
        // Nothing reads such a field.
        let (status, answer) = house.call(BOB.1, "SessionRun", &body);
        assert_eq!(status, 200, "{field}: {answer}");
        assert_ne!(answer["run"]["record"]["previousSha256"], *digest, "{field}");
        before = answer["run"]["record"]["recordSha256"].clone();
    }
    let (_, next) = house.cell(BOB.1, &bobs["sessionId"], "1");
    assert_eq!(next["run"]["record"]["session"], bobs["session"]);
    assert_eq!(next["run"]["record"]["previousSha256"], before);
}
