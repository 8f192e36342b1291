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
    match host_call::check_length(bytes.len()).and_then(|()| host_call::parse(bytes)) {
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

    // The same bytes as an answer: two for the status, two for the buffer, the rest is the body.
    if let [a, b, c, d, body @ ..] = bytes {
        let (status, capacity) = (u16::from_le_bytes([*a, *b]), usize::from(u16::from_le_bytes([*c, *d])));
        let answer = HostResponse {
            status,
            body: body.to_vec().into(),
        };
        let (packed, written) = host_call::shape(answer, capacity);
        let packed = u64::try_from(packed).expect("the number is not negative");
        let (seen, length) = (packed >> 32, packed & 0xffff_ffff);
        assert_eq!(length, written.len() as u64);
        assert!(written.len() <= capacity);
        if (100..=599).contains(&status) && body.len() <= capacity {
            assert_eq!((seen, &*written), (u64::from(status), body));
        } else {
            assert_eq!((seen, length), (500, 0));
        }
    }
});
