use plimsoll_core::{Code, Reason, Refusal, SessionEnd, SessionEnded};
use plimsoll_record::RunRecord;

use super::*;
use crate::convert::to_binary;
use crate::pb;

fn decode(text: &str) -> Vec<u8> {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD_NO_PAD.decode(text).unwrap()
}

#[test]
fn the_seven_reasons_travel_as_their_published_values() {
    for (reason, value) in Reason::ALL
        .into_iter()
        .zip(["CAE", "CAI", "CAM", "CAQ", "CAU", "CAY", "CAc"])
    {
        let answer = ErrorAnswer::refused(&Refusal::new(Code::Unimplemented, reason, "m"));
        assert_eq!(answer.details()[0].base64(), value);
        let text = format!(
            r#"{{"code":"unimplemented","message":"m","details":[{{"type":"plimsoll.v1.NotDispatched","value":"{value}"}}]}}"#
        );
        assert_eq!(
            serde_json::from_slice::<serde_json::Value>(&answer.to_json()).unwrap(),
            serde_json::from_str::<serde_json::Value>(&text).unwrap()
        );
        assert_eq!(
            RemoteError::parse(501, &answer.to_json()).not_dispatched,
            Some(reason.number())
        );
    }
}

#[test]
fn an_error_is_unmarked_unless_a_refusal_made_it() {
    let answer = ErrorAnswer::unmarked(Code::Internal, "internal error 0011223344556677");
    assert_eq!(
        answer.to_json(),
        br#"{"code":"internal","message":"internal error 0011223344556677"}"#
    );
    let read = RemoteError::parse(
        500,
        &answer
            .with_unanswered(RunRecord {
                version: 4,
                ..Default::default()
            })
            .to_json(),
    );
    assert_eq!(read.not_dispatched, None);
    assert_eq!(read.unanswered.unwrap().version, 4);
    // A marked error ran nothing, so it takes no record.
    let marked = ErrorAnswer::refused(&Refusal::capacity("busy")).with_unanswered(RunRecord::default());
    assert_eq!(marked.details().len(), 1);
}

#[test]
fn not_dispatched_reads_as_the_table_says() {
    for (bytes, reason) in [
        (&b""[..], Some(0)),
        (b"\x08\x05", Some(5)),
        (b"\x08\x03\x12\x02hi", Some(3)),
        (b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", Some(-1)),
        (b"\x08\x63", Some(99)),
        // Unknown fields of wire types 0, 1, 2 and 5.
        (b"\x18\x01\x21abcdefgh\x2a\x01x\x35abcd\x08\x02", Some(2)),
        (b"\x08\x80", None),
        (b"\x12\x05hi", None),
        (b"\x0a\x01x", None),
        (b"\x0dabcd", None),
        (b"\x1b\x1c", None),
        (b"\x00\x01", None),
        (b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", None),
        (b"\x08\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01", None),
    ] {
        assert_eq!(decode_not_dispatched(bytes), reason, "{bytes:x?}");
    }
    assert_eq!(decode_not_dispatched(&decode("CAMSC292ZXIgYnVkZ2V0")), Some(3));
}

#[test]
fn session_ended_reads_as_the_table_says() {
    assert_eq!(
        decode_session_ended(&decode("CAMSC292ZXIgYnVkZ2V0")),
        Some((3, "over budget".into()))
    );
    let (end, text) = decode_session_ended(&decode("CAkSH25vIHN1Y2ggc2Vzc2lvbiBmb3IgdGhpcyBjYWxsZXI")).unwrap();
    assert_eq!(
        (SessionEnd::from_number(end), text.as_str()),
        (SessionEnd::NotFound, "no such session for this caller")
    );
    for bytes in [&b"\x10\x01"[..], b"\x12\x01\xff", b"\x12\x02h"] {
        assert_eq!(decode_session_ended(bytes), None, "{bytes:x?}");
    }
}

#[test]
fn an_unanswered_call_reads_back_and_a_broken_one_states_nothing() {
    let record = RunRecord {
        version: 4,
        request_sha256: "a".into(),
        unanswered: "internal".into(),
        provider: "p".into(),
        isolation: "kernel".into(),
        environment: "e".into(),
        policy: "y".into(),
        software_identity: "s".into(),
        software_rule_id: "r".into(),
        instance: "i:1".into(),
        started_unix_ms: -1,
        ended_unix_ms: i64::MAX,
        session: "f".into(),
        sequence: u64::MAX,
        previous_sha256: "b".into(),
        record_sha256: "c".into(),
        result_sha256: String::new(),
    };
    let call = pb::UnansweredCall {
        record: Some(pb::RunRecord::from(record.clone())).into(),
        ..Default::default()
    };
    let bytes = to_binary(&call);
    assert_eq!(decode_unanswered(&bytes), Some(record));
    assert_eq!(decode_unanswered(&bytes[..bytes.len() - 1]), None);
    assert_eq!(decode_unanswered(b""), None);
    assert_eq!(
        decode_unanswered(b"\x0a\x02\x0a\x00"),
        None,
        "version with another wire type"
    );
}

/// A known record: the second call of a session's chain.
#[test]
fn the_unanswered_call_of_the_golden_session_encodes_to_its_published_bytes() {
    use sha2::{Digest as _, Sha256};
    let record = RunRecord {
        version: 4,
        request_sha256: "87e22a50d9e2b60a5c0a1f80ad7bb3d1d4bcd29e25ecc84d735c201221db065f".into(),
        unanswered: "internal".into(),
        provider: "docker".into(),
        isolation: "kernel".into(),
        environment: format!("docker-image:sha256:{}", "c".repeat(64)),
        software_identity: format!("oci-manifest:linux/amd64@sha256:{}", "a".repeat(64)),
        started_unix_ms: 1_790_000_001_000,
        ended_unix_ms: 1_790_000_001_020,
        session: "5947d7c33d783f94b3b4c1a96ebc8991ed28f1b069b71e03376cba8caa98a720".into(),
        sequence: 2,
        previous_sha256: "d7abeb1d3259787c70624e3e0488f835b7fc2b3d1624cb65d2937cfe1b01b786".into(),
        record_sha256: "2114e92ec9fd55c4ec580578de7396ea32b7e8136a226687b0c6babf5743f0b6".into(),
        ..RunRecord::default()
    };
    let answer = ErrorAnswer::unmarked(Code::Internal, "m").with_unanswered(record);
    let bytes = &answer.details()[0].value;
    let digest: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(bytes.len(), 496);
    assert_eq!(
        digest,
        "0f5d21540e45a0315d078195abbdbc4be5dd82a9ec596afa8580bff6ebf4f528"
    );
}

#[test]
fn error_bodies_are_read_as_spec_70_says() {
    let parse = |status, body: &str| RemoteError::parse(status, body.as_bytes());
    for (status, code) in [
        (400, Code::Internal),
        (401, Code::Unauthenticated),
        (403, Code::PermissionDenied),
        (404, Code::Unimplemented),
        (429, Code::Unavailable),
        (502, Code::Unavailable),
        (503, Code::Unavailable),
        (504, Code::Unavailable),
        (307, Code::Unknown),
        (405, Code::Unknown),
        (500, Code::Unknown),
    ] {
        for body in ["", "[]", "<html>", r#"{"code":"teapot"}"#, r#"{"code":7}"#] {
            let error = parse(status, body);
            assert_eq!(
                (error.code, error.message.as_str()),
                (code, format!("HTTP {status}").as_str()),
                "{body}"
            );
        }
    }
    let mark = |kind: &str, value: &str| {
        let body = format!(
            r#"{{"code":"internal","message":"m","details":[{{"type":"{kind}","value":"{value}","debug":{{}}}}]}}"#
        );
        parse(500, &body).not_dispatched
    };
    assert_eq!(mark("plimsoll.v1.NotDispatched", "CAM"), Some(3));
    assert_eq!(mark("type.googleapis.com/plimsoll.v1.NotDispatched", "CAM="), Some(3));
    assert_eq!(
        mark("plimsoll.v1.NotDispatched", "GgP7_w"),
        None,
        "URL-safe, but field 3 overruns"
    );
    assert_eq!(
        mark("plimsoll.v1.NotDispatched", "GgL7_wgC"),
        Some(2),
        "URL-safe base64"
    );
    assert_eq!(
        mark("plimsoll.v1.NotDispatched", "GgL7/wgC"),
        Some(2),
        "standard base64"
    );
    assert_eq!(mark("plimsoll.v1.NotDispatched", "!"), None);
    assert_eq!(mark("plimsoll.v2.NotDispatched", "CAM"), None);
    let body = r#"{"code":"internal","details":[1,{"type":"plimsoll.v1.NotDispatched"},
        {"type":"plimsoll.v1.NotDispatched","value":"Cg"},{"type":"plimsoll.v1.NotDispatched","value":"CAQ"},
        {"type":"plimsoll.v1.NotDispatched","value":"CAM"},{"type":"plimsoll.v1.SessionEnded","value":"CGM"}]}"#;
    let error = parse(400, body);
    assert_eq!(error.not_dispatched, Some(4), "the first that decodes wins");
    assert_eq!(
        error.session_ended,
        Some(SessionEnded {
            end: SessionEnd::Unknown,
            detail: String::new()
        })
    );
}
