//! Which targets are sent, and that what is sent is what was approved.

use crate::support::{Run, Script, ok};

#[tokio::test]
async fn a_target_that_is_not_in_its_one_spelling_is_refused_and_never_sent() {
    let upstream = Script::always(ok()).await;
    let run = Run::new(&upstream.origin(), &["GET /v1/items/*"]);
    let refused = [
        "/v1/items/x?a=1",
        "/v1/items/x?",
        "/v1/items/x#f",
        "/v1/items/%78",
        "/v1/items/%2e%2e",
        "/v1/items/%2F",
        "/v1/items/../a",
        "/v1/../admin",
        "/v1/%2e%2e/admin",
        "/v1/;x/admin",
        "/v1/items/.",
        "/v1/items/x/..",
        "/v1/items//x",
        "//",
        "/v1/items/x/",
        "/v1/items/a\\b",
        "/v1/items/has space",
        "/v1/items/café",
        "/v1/items/[x]",
        "/v1/items/*",
        "/v1/items/a:b",
        "/v1/items/..;",
        "/v1/items/a;b",
        "/v1/items/...",
        "http://h/v1/items/x",
        "//v1/items/x",
        "v1/items/x",
        "/V1/items/x",
        "/v1/items/a'b",
        "",
        "*",
        "/v1/items/a\r\nX: y",
        "/v1/items/a\0b",
    ];
    for target in refused {
        let answer = run.get(target).await;
        assert_eq!(answer.status, 403, "{target:?}");
        assert!(answer.body.starts_with(b"route not permitted: "));
    }
    for method in [
        "POST",
        "CONNECT",
        "TRACE",
        "GET ",
        " GET",
        "",
        "HEAD",
        "OPTIONS",
        "GET /x HTTP/1.1\r\n",
    ] {
        assert_eq!(run.call(method, "/v1/items/x", "").await.status, 403, "{method:?}");
    }
    assert_eq!(run.get(&format!("/v1/items/{}", "x".repeat(8_192))).await.status, 403);
    assert_eq!(
        run.0
            .call(b"GET", b"/v1/items/\xff", http_body_util::Empty::new())
            .await
            .status,
        403
    );
    let denied = u64::try_from(refused.len()).unwrap() + 9 + 2;
    assert_eq!(run.counts(), (0, denied, 0));
    assert_eq!(upstream.connections(), 0);
}

#[tokio::test]
async fn the_request_line_is_the_approved_target_byte_for_byte() {
    let upstream = Script::always(ok()).await;
    let run = Run::new(
        &upstream.origin(),
        &["GET /v1/items/*", "GET /", "POST /items:batchGet"],
    );
    for (method, target, line) in [
        ("GET", "/v1/items/a@b", "GET /v1/items/a@b HTTP/1.1"),
        ("get", "/v1/items/a=b,c", "GET /v1/items/a=b,c HTTP/1.1"),
        ("GeT", "/v1/items/-_.~$&+,=@", "GET /v1/items/-_.~$&+,=@ HTTP/1.1"),
        ("GET", "/v1/items/..a", "GET /v1/items/..a HTTP/1.1"),
        ("GET", "/", "GET / HTTP/1.1"),
        ("POST", "/items:batchGet", "POST /items:batchGet HTTP/1.1"),
    ] {
        assert_eq!(run.call(method, target, "").await.status, 200, "{target}");
        assert_eq!(upstream.lines().last().unwrap(), line);
    }
}

#[tokio::test]
async fn a_star_is_one_segment_that_is_there() {
    let upstream = Script::always(ok()).await;
    let run = Run::new(&upstream.origin(), &["PUT /l/*/on"]);
    for target in ["/l/on", "/l//on", "/l/a/b/on", "/l/x%2f..%2fadmin/on", "/l/a:b/on"] {
        assert_eq!(run.call("PUT", target, "").await.status, 403, "{target}");
    }
    assert_eq!(run.call("PUT", "/l/a/on", "").await.status, 200);
    assert_eq!(upstream.lines(), ["PUT /l/a/on HTTP/1.1"]);
}
