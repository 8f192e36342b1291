//! The raw primitive below the client: what is no request is answered before the broker, and counts for nothing.

use crate::api::{Api, ok};
use crate::setup::{run, spec};

async fn statuses(api: &Api, envelopes: &str) -> (String, Option<plimsoll::grants::CallTrace>) {
    let code = format!("console.log([{envelopes}].map((text) => __plimsoll_host_call(text).status).join())");
    let run = run(spec(api, &["POST /b/*", "GET /b/*"]).validate().unwrap(), &code).await;
    assert_eq!(run.exit_code, 0, "{}", run.stderr_text());
    (run.stdout_text().trim_end().to_owned(), run.calls)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_envelope_is_400_and_not_counted() {
    let api = Api::start(|_| ok("1"));
    let bad = [
        r#"'{"method":"GET","path":"/b/1","extra":1}'"#,
        r#"'{"method":"GET","path":"/b/1"}{}'"#,
        r#"'{"method":"GET","path":"/b/1"} x'"#,
        r#"'[]'"#,
        r#"'["GET","/b/1"]'"#,
        r#"'{}'"#,
        r#"'{"method":"GET"}'"#,
        r#"'{"path":"/b/1"}'"#,
        r#"'{"method":null,"path":"/b/1"}'"#,
        r#"'{"method":"GET","path":["/b/1"]}'"#,
        r#"'{"method":"GET","path":"/b/1","path":"/b/2"}'"#,
        r#"'{"method":"GET","path":"/b/1","body":}'"#,
        r#"'{"method":"GET","path":"/b/1","body":1,"body":2}'"#,
        r#"'{"method":"GET","path":"\\ud800"}'"#,
        r#"'{"method":"GET","path":"/b/1","body":' + '['.repeat(200) + ']'.repeat(200) + '}'"#,
        r#"'null'"#,
        r#"' '"#,
    ];
    let (seen, calls) = statuses(&api, &bad.join(",")).await;
    assert_eq!(seen, ["400"; 17].join(","));
    assert_eq!((calls, api.asked().len()), (None, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_envelope_of_no_length_or_too_much_is_413_and_not_counted() {
    let api = Api::start(|_| ok("1"));
    // 1 MiB and 64 KiB is the most an envelope may be.
    let padded = |length: usize| format!(r#"'{{"method":"GET","path":"/b/1"}}' + ' '.repeat({} - 30)"#, length);
    let envelopes = format!(
        "'', {}, {}",
        padded((1 << 20) + (64 << 10)),
        padded((1 << 20) + (64 << 10) + 1)
    );
    let (seen, calls) = statuses(&api, &envelopes).await;
    assert_eq!(seen, "413,200,413");
    assert_eq!(calls.unwrap().rows.len(), 1, "the one that was a request");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_is_forwarded_byte_for_byte_up_to_one_mebibyte() {
    let api = Api::start(|_| ok("1"));
    let with = |body: &str| format!(r#"'{{"method":"POST","path":"/b/1","body":{body}}}'"#);
    let long =
        |length: usize| format!(r#"'{{"method":"POST","path":"/b/1","body":"' + 'x'.repeat({length} - 2) + '"}}'"#);
    let envelopes = [
        with("null"),
        with(r#" {"b" : 1.0e+1, "b":[ ]} "#),
        long(1 << 20),
        long((1 << 20) + 1),
    ];
    let (seen, calls) = statuses(&api, &envelopes.join(",")).await;
    assert_eq!(seen, "200,200,200,413");
    let bodies: Vec<String> = api.asked().into_iter().map(|asked| asked.body).collect();
    assert_eq!(bodies[..2], ["null", r#"{"b" : 1.0e+1, "b":[ ]}"#]);
    assert_eq!((bodies.len(), bodies[2].len()), (3, 1 << 20));
    let calls = calls.unwrap();
    assert_eq!(
        (calls.rows.len(), calls.denied),
        (3, 1),
        "a body that is too large reached the broker and is counted"
    );
}
