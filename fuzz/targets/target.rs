//! The request target: what is approved is byte for byte what came in, has no second spelling, and matches a route only by
//! the segment rules, written here a second time. The input is a pattern, a line end, and a target.

#![no_main]

use libfuzzer_sys::fuzz_target;
use plimsoll_grants::{Method, Route, Target};

fuzz_target!(|input: &[u8]| {
    let (pattern, raw) = match input.iter().position(|byte| *byte == b'\n') {
        Some(end) => (&input[..end], &input[end + 1..]),
        None => (&b"/*"[..], input),
    };
    let Ok(target) = Target::parse(raw) else { return };
    let text = target.as_str();
    assert_eq!(text.as_bytes(), raw, "approved is what came in");
    assert!(text.len() <= 8_192 && text.starts_with('/'));
    assert!(
        !text
            .bytes()
            .any(|byte| !byte.is_ascii_graphic() || b"%?#;\\*!'()[]{}|^\"<>`".contains(&byte))
    );
    if text != "/" {
        let dots = |segment: &str| segment.bytes().all(|byte| byte == b'.');
        assert!(
            !text.split('/').skip(1).any(dots),
            "no segment is empty or made of dots"
        );
    }
    let Some(route) = std::str::from_utf8(pattern)
        .ok()
        .and_then(|path| Route::new("GET", path).ok())
    else {
        return;
    };
    let (patterns, segments): (Vec<&str>, Vec<&str>) = (route.path().split('/').collect(), text.split('/').collect());
    let covered = |(pattern, segment): (&&str, &&str)| match *pattern {
        "*" => !segment.is_empty() && !segment.contains(':'),
        literal => literal == *segment,
    };
    let expected = patterns.len() == segments.len() && patterns.iter().zip(&segments).all(covered);
    assert_eq!(route.matches(Method::Get, target), expected);
    assert!(!route.matches(Method::Put, target));
});
