//! The host side of the guest's one way out: what a guest writes is read as one JSON object of exactly three members or
//! refused with a status, and what goes back always fits the guest's buffer.

#![no_main]

use std::collections::HashMap;

use libfuzzer_sys::fuzz_target;
use serde_json::value::RawValue;

use host_call::{HostResponse, MAX_REQUEST, Refused};

// The file itself and not its crate: reading a host call needs no engine, and so fuzzing it need not build one.
#[allow(dead_code, reason = "the rest of the file serves the engine")]
#[path = "../../crates/wasm/src/host_call.rs"]
mod host_call;

fuzz_target!(|bytes: &[u8]| {
    envelope(bytes);
    // The same bytes as a guest's memory, with the four numbers of a call before it and the answer's status.
    if let Some((numbers, memory)) = bytes.split_first_chunk::<18>() {
        let number = |at: usize| u32::from_le_bytes([numbers[at], numbers[at + 1], numbers[at + 2], numbers[at + 3]]);
        request(memory, number(0), number(4));
        let status = u16::from_le_bytes([numbers[16], numbers[17]]);
        // A body that says where it is from, so that one byte too many or too few shows.
        let body: Vec<u8> = (0..numbers[15]).collect();
        answer(
            memory,
            number(8),
            number(12) & 0xff_ffff,
            HostResponse {
                status,
                body: body.into(),
            },
        );
    }
});

/// A request is what the two numbers name, or refused by its status.
fn request(memory: &[u8], at: u32, length: u32) {
    let (start, end) = (u64::from(at), u64::from(at) + u64::from(length));
    let sized = (1..=MAX_REQUEST as u64).contains(&u64::from(length));
    match host_call::copy_request(memory, at, length) {
        Ok(copied) => {
            assert!(sized && end <= memory.len() as u64);
            assert_eq!(copied, memory[start as usize..end as usize]);
        }
        Err(Refused(413)) => assert!(!sized),
        Err(Refused(status)) => assert!(status == 400 && sized && end > memory.len() as u64),
    }
}

/// An answer is written whole where it fits, or not at all, and nothing beside it changes.
fn answer(memory: &[u8], at: u32, capacity: u32, response: HostResponse) {
    let (status, body) = (response.status, response.body.clone());
    let mut after = memory.to_vec();
    let packed = u64::try_from(host_call::deliver(&mut after, at, capacity, response)).expect("not negative");
    let (seen, length) = (packed >> 32, packed & 0xffff_ffff);
    let end = u64::from(at) + body.len() as u64;
    let fits = (100..=599).contains(&status) && body.len() as u64 <= u64::from(capacity);
    if fits && end <= memory.len() as u64 {
        assert_eq!((seen, length), (u64::from(status), body.len() as u64));
        let (start, end) = (at as usize, end as usize);
        assert_eq!(after[start..end], body);
        assert_eq!((&after[..start], &after[end..]), (&memory[..start], &memory[end..]));
    } else {
        assert_eq!((seen, length), (500, 0));
        assert_eq!(after, memory);
    }
}

/// What a request's bytes say is read as it is written, or refused by its status.
fn envelope(bytes: &[u8]) {
    let whole = u32::try_from(bytes.len()).expect("an input is short");
    let copied = host_call::copy_request(bytes, 0, whole);
    match copied.as_deref().map_err(|refused| *refused).and_then(host_call::parse) {
        Ok(request) => {
            assert!((1..=MAX_REQUEST).contains(&bytes.len()));
            let members: HashMap<String, &RawValue> =
                serde_json::from_slice(bytes).expect("an accepted request is a JSON object");
            assert!(
                members
                    .keys()
                    .all(|name| ["method", "path", "body"].contains(&name.as_str()))
            );
            for (name, read) in [("method", &request.method), ("path", &request.path)] {
                let text: String = serde_json::from_str(members[name].get()).expect("a string");
                assert_eq!(text, read.as_ref());
            }
            assert_eq!(
                members.contains_key("body"),
                request.body.is_some(),
                "null and absent are two things"
            );
            if let Some(body) = request.body {
                let text = body.get().as_bytes();
                assert!(
                    bytes.windows(text.len()).any(|window| window == text),
                    "the body crosses byte for byte"
                );
            }
        }
        Err(Refused(status)) => {
            let bad_length = bytes.is_empty() || bytes.len() > MAX_REQUEST;
            assert_eq!(status, if bad_length { 413 } else { 400 });
        }
    }
}
