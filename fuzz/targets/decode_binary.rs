//! The binary decoder: a request that is read, written and read again is the same request, by its digest; and so it is
//! after a way through JSON.

#![no_main]

use libfuzzer_sys::fuzz_target;
use plimsoll_core::{Payload, RunRequest};
use plimsoll_record::request_sha256;
use plimsoll_wire::{decode_run_binary, decode_run_json, json, pb, to_binary};

fuzz_target!(|body: &[u8]| {
    let Ok(request) = decode_run_binary(body) else { return };
    let digest = request_sha256(&request);
    let survives_json = json_can_say(&request);
    let message = pb::RunRequest::from(request);
    let again = decode_run_binary(&to_binary(&message)).expect("our own encoding is readable");
    assert_eq!(
        request_sha256(&again),
        digest,
        "the encoding keeps every digested field"
    );
    if survives_json {
        let through_json = decode_run_json(&json::to_json(&message)).expect("our own JSON is readable");
        assert_eq!(
            request_sha256(&through_json),
            digest,
            "JSON and binary state the same request"
        );
    }
});

/// JSON writes every NaN as "NaN", without sign and payload, and the generated writer leaves out a field that is a negative
/// zero. Validation refuses both.
fn json_can_say(request: &RunRequest) -> bool {
    match &request.payload {
        Some(Payload::Module(run)) => {
            let fields = [run.end_time, run.step];
            let nan = run.rows.iter().flatten().chain(&fields).any(|value| value.is_nan());
            !nan && !fields.iter().any(|value| *value == 0.0 && value.is_sign_negative())
        }
        _ => true,
    }
}
