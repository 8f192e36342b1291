//! The JSON decoder: a request that is read, written and read again is the same request, by its digest.

#![no_main]

use libfuzzer_sys::fuzz_target;
use plimsoll_core::{Payload, RunRequest};
use plimsoll_record::request_sha256;
use plimsoll_wire::{decode_run_json, json, pb};

fuzz_target!(|body: &[u8]| {
    let Ok(request) = decode_run_json(body) else { return };
    if has_negative_zero(&request) {
        return;
    }
    let digest = request_sha256(&request);
    let written = json::to_json(&pb::RunRequest::from(request));
    let again = decode_run_json(&written).expect("our own JSON is readable");
    assert_eq!(request_sha256(&again), digest, "JSON keeps every digested field");
});

/// The generated writer leaves out a field that equals zero, a negative zero too. Both fields it can concern must be above
/// zero, so no such request gets past validation.
fn has_negative_zero(request: &RunRequest) -> bool {
    match &request.payload {
        Some(Payload::Module(run)) => [run.end_time, run.step]
            .iter()
            .any(|value| *value == 0.0 && value.is_sign_negative()),
        _ => false,
    }
}
