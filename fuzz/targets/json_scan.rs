//! The strict JSON scanner: whatever it lets through is JSON to an independent parser too, and is not changed.

#![no_main]

use libfuzzer_sys::fuzz_target;
use plimsoll_wire::json;
use serde::de::IgnoredAny;

fuzz_target!(|body: &[u8]| {
    for root in [json::RUN_REQUEST, json::RUN_RESPONSE, json::OPEN_SESSION_REQUEST] {
        match json::scan(body, root) {
            Ok(text) => {
                assert_eq!(text.as_bytes(), body, "the scanner answers the text it was given");
                let _: IgnoredAny = serde_json::from_str(text).expect("accepted text is JSON");
                assert!(text.trim_start().starts_with('{'), "a message is an object");
                assert!(depth(text) <= json::MAX_DEPTH, "accepted nesting is bounded");
            }
            Err(error) => assert!(!error.to_string().is_empty(), "a refusal says why"),
        }
    }
});

/// How deep the brackets of well-formed JSON text nest.
fn depth(text: &str) -> usize {
    let (mut depth, mut deepest, mut in_string, mut escaped) = (0_usize, 0, false, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'{' | b'[' if !in_string => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b'}' | b']' if !in_string => depth -= 1,
            _ => {}
        }
    }
    deepest
}
