//! Echo, marks, routes, methods and content types.

use std::sync::atomic::Ordering;
use std::time::Duration;

use plimsoll_core::Reason;
use plimsoll_service::edge::Outage;

use crate::support::*;

#[tokio::test]
async fn describe_echoes_its_id_once_and_carries_no_mark() {
    let server = Server::open().await;
    let reply = server.ask(post("Describe", "{}")).await;
    assert_eq!((reply.status, reply.mark()), (200, None));
    assert_eq!(reply.all("plimsoll-request-id"), [ID]);
    assert_eq!(reply.header("content-type"), Some("application/json"));
    let stated = reply.json();
    assert_eq!(
        (&stated["sandbox"], &stated["isolation"], &stated["protocol"]),
        (&"fake".into(), &"process".into(), &4.into())
    );
    assert_eq!(
        stated["javascriptEnvironment"]["languages"],
        serde_json::json!(["javascript"])
    );
}

#[tokio::test]
async fn an_id_that_is_not_exactly_one_of_32_lowercase_hex_digits_is_neither_echoed_nor_refused() {
    let server = Server::open().await;
    let upper = ID.to_uppercase();
    let twice = format!("{ID}\r\nplimsoll-request-id: {ID}");
    for id in [upper.as_str(), &ID[1..], "g123456789abcdef0123456789abcdef", &twice] {
        let request = post("Describe", "{}").replace(
            &format!("plimsoll-request-id: {ID}"),
            &format!("plimsoll-request-id: {id}"),
        );
        let reply = server.ask(request).await;
        assert_eq!((reply.status, reply.all("plimsoll-request-id").len()), (200, 0), "{id}");
    }
    let reply = server
        .ask(post("Describe", "{}").replace(&format!("plimsoll-request-id: {ID}\r\n"), ""))
        .await;
    assert_eq!((reply.status, reply.header("plimsoll-request-id")), (200, None));
}

#[tokio::test]
async fn a_run_is_answered_in_the_requests_codec() {
    let server = Server::open().await;
    let reply = server.ask(post("Run", &snippet("console.log(6*7)"))).await;
    assert_eq!((reply.status, reply.mark()), (200, None));
    assert_eq!(reply.json()["javascript"]["stdout"], "NDIK");
    let message = plimsoll_wire::pb::RunRequest::from(plimsoll_core::RunRequest::javascript("1"));
    let body = plimsoll_wire::to_binary(&message);
    let reply = server
        .ask(post_bytes("Run", &[("content-type", "application/proto")], &body))
        .await;
    assert_eq!(
        (reply.status, reply.header("content-type")),
        (200, Some("application/proto"))
    );
    let answer: plimsoll_wire::pb::RunResponse = plimsoll_wire::from_binary(&reply.body).unwrap();
    assert_eq!(answer.sandbox, "fake");
    assert_eq!(server.runs(), 2);
}

#[tokio::test]
async fn content_types_outside_the_allow_list_are_415_with_accept_post() {
    let server = Server::open().await;
    for kind in [
        "text/plain",
        "application/connect+json",
        "application/json; charset=latin1",
        "application/grpc-web-text",
    ] {
        let reply = server
            .ask(post_with("Run", &[("content-type", kind)], &snippet("1")))
            .await;
        reply.refused_before_handler(415, "unknown", "request");
        assert!(
            reply.header("accept-post").unwrap().contains("application/json"),
            "{kind}"
        );
    }
    let reply = server.ask(post_with("Run", &[], "")).await;
    assert_eq!(reply.status, 415);
    for kind in [
        "application/json",
        "application/json; charset=utf-8",
        "Application/JSON",
    ] {
        assert_eq!(
            server
                .ask(post_with("Describe", &[("content-type", kind)], "{}"))
                .await
                .status,
            200,
            "{kind}"
        );
    }
    assert_eq!(server.runs(), 0);
}

#[tokio::test]
async fn a_procedure_takes_post_and_nothing_else() {
    let server = Server::open().await;
    for method in ["GET", "PUT", "DELETE", "OPTIONS", "PATCH"] {
        let reply = server.ask(post("Describe", "").replacen("POST", method, 1)).await;
        reply.refused_before_handler(405, "unknown", "request");
        assert_eq!(reply.header("allow"), Some("POST"), "{method}");
    }
}

#[tokio::test]
async fn unknown_paths_are_404_and_marked_unsupported() {
    let server = Server::open().await;
    for path in [
        "/plimsoll.v1.SandboxService/Nope",
        "/plimsoll.v1.SandboxService/",
        "/",
        "/metrics",
        "/v1/e2b/guard",
        "/run",
    ] {
        let request = post("Run", "{}").replacen("/plimsoll.v1.SandboxService/Run", path, 1);
        server
            .ask(request)
            .await
            .refused_before_handler(404, "unimplemented", "unsupported");
    }
    let request =
        format!("OPTIONS * HTTP/1.1\r\nhost: a\r\nplimsoll-request-id: {ID}\r\ncontent-length: 100\r\n\r\n{{");
    let mut wire = server.connect().await;
    wire.send(request).await;
    wire.reply()
        .await
        .refused_before_handler(404, "unimplemented", "unsupported");
}

#[tokio::test]
async fn with_authentication_an_unknown_procedure_is_401_without_and_403_with_a_token() {
    let server = Setup::with_tokens().start().await;
    let reply = server.ask(post("Nope", "{}")).await;
    assert_eq!(
        reply.outcome(),
        (
            401,
            "unauthenticated".into(),
            Some("permission"),
            Some(Reason::Permission)
        )
    );
    let reply = server.ask(post_with("Nope", &[JSON, ALICE], "{}")).await;
    assert_eq!(
        reply.outcome(),
        (
            403,
            "permission_denied".into(),
            Some("permission"),
            Some(Reason::Permission)
        )
    );
    // Outside the service nobody is asked who they are.
    assert_eq!(
        server
            .ask(post("Run", "{}").replacen("/plimsoll.v1.SandboxService/Run", "/x", 1))
            .await
            .status,
        404
    );
}

#[tokio::test]
async fn authorization_is_one_bearer_token_and_nothing_else() {
    let server = Setup::with_tokens().start().await;
    for value in [
        "Bearer alice-token",
        "bearer alice-token",
        "BEARER alice-token",
        "Bearer  bob-token",
    ] {
        let reply = server
            .ask(post_with("Describe", &[JSON, ("authorization", value)], "{}"))
            .await;
        assert_eq!(reply.status, 200, "{value}");
    }
    let mut refused = vec![
        post("Describe", "{}"),
        post_with("Describe", &[JSON, ALICE, ALICE], "{}"),
    ];
    for value in [
        "alice-token",
        "Basic alice-token",
        "Bearer",
        "Bearer alice-token b",
        "Bearer wrong",
        "",
    ] {
        refused.push(post_with("Describe", &[JSON, ("authorization", value)], "{}"));
    }
    let count = refused.len();
    for request in refused {
        let reply = server.ask(&request).await;
        let expected = (
            401,
            "unauthenticated".into(),
            Some("permission"),
            Some(Reason::Permission),
        );
        assert_eq!(reply.outcome(), expected, "{request}");
        assert_eq!(reply.all("plimsoll-request-id"), [ID]);
        assert!(reply.header("www-authenticate").is_some());
    }
    let page = server.metrics.render(&plimsoll_service::metrics::Readings {
        in_flight: 0,
        proven: plimsoll_core::Isolation::None,
        current: plimsoll_core::Isolation::None,
        log_write_errors: 0,
        failed_handshakes: None,
        sessions: None,
    });
    assert!(page.contains(&format!("plimsoll_auth_refused_total {count}")), "{page}");
    let reply = server
        .ask(post_with(
            "Describe",
            &[JSON, ("authorization", "Bearer carol-token")],
            "{}",
        ))
        .await;
    assert_eq!(
        reply.outcome(),
        (
            403,
            "permission_denied".into(),
            Some("permission"),
            Some(Reason::Permission)
        )
    );
}

#[tokio::test]
async fn a_verifier_outage_is_marked_capacity_in_the_header_alone() {
    for (outage, status, code) in [
        (Outage::Unavailable, 503, "unavailable"),
        (Outage::DeadlineExceeded, 504, "deadline_exceeded"),
        (Outage::Canceled, 499, "canceled"),
    ] {
        let server = Setup {
            authenticator: std::sync::Arc::new(Down(outage)),
            ..Setup::default()
        }
        .start()
        .await;
        server
            .ask(post("Describe", "{}"))
            .await
            .refused_before_handler(status, code, "capacity");
    }
}

#[tokio::test]
async fn probes_answer_any_method_with_fixed_texts_and_ask_for_no_token() {
    let server = Setup::with_tokens().start().await;
    for method in ["GET", "POST", "PUT"] {
        let probe = |path: &str| format!("{method} {path} HTTP/1.1\r\nhost: a\r\nplimsoll-request-id: {ID}\r\n\r\n");
        let reply = server.ask(probe("/healthz")).await;
        assert_eq!((reply.status, &reply.body[..], reply.mark()), (200, &b"ok\n"[..], None));
        assert_eq!(reply.all("plimsoll-request-id"), [ID]);
        let reply = server.ask(probe("/readyz")).await;
        assert_eq!((reply.status, &reply.body[..]), (200, &b"ready\n"[..]));
        server.ready.store(0, Ordering::SeqCst);
        let reply = server.ask(probe("/readyz")).await;
        assert_eq!((reply.status, &reply.body[..]), (503, &b"not ready\n"[..]));
        server.ready.store(1, Ordering::SeqCst);
    }
}

#[tokio::test]
async fn a_request_that_reached_its_handler_is_marked_in_its_details_alone() {
    let server = Server::open().await;
    let reply = server.ask(post("Run", r#"{"javascript":{"code":"1"}}"#)).await;
    assert_eq!(
        reply.outcome(),
        (400, "invalid_argument".into(), None, Some(Reason::Protocol))
    );
    assert_eq!(reply.all("plimsoll-request-id"), [ID]);
    let reply = server
        .ask(post(
            "Run",
            r#"{"protocol":4,"minimumIsolation":"vm","javascript":{"code":"1"}}"#,
        ))
        .await;
    assert_eq!(
        reply.outcome(),
        (400, "failed_precondition".into(), None, Some(Reason::Isolation))
    );
    assert_eq!(server.runs(), 0);
}

#[tokio::test]
async fn session_procedures_are_unsupported_after_the_protocol_check() {
    let server = Server::open().await;
    for procedure in ["OpenSession", "SessionRun", "CloseSession"] {
        for (protocol, status, code, reason) in [
            (0, 400, "invalid_argument", Reason::Protocol),
            (3, 501, "unimplemented", Reason::Protocol),
            (5, 501, "unimplemented", Reason::Protocol),
            (4, 501, "unimplemented", Reason::Unsupported),
        ] {
            let reply = server
                .ask(post(procedure, &format!("{{\"protocol\":{protocol}}}")))
                .await;
            assert_eq!(
                reply.outcome(),
                (status, code.into(), None, Some(reason)),
                "{procedure} {protocol}"
            );
        }
    }
    assert_eq!(server.fake.refusals.load(Ordering::SeqCst), 12);
}

#[tokio::test]
async fn the_text_of_a_fault_goes_to_the_log_and_its_id_to_the_caller() {
    let server = Server::open().await;
    let reply = server.ask(post("Run", &snippet("fault"))).await;
    assert_eq!(reply.outcome(), (500, "internal".into(), None, None));
    assert!(
        reply.json()["message"]
            .as_str()
            .unwrap()
            .starts_with("internal error 0123456789abcdef;")
    );
    let reply = server.ask(post("Run", &snippet("not ready"))).await;
    assert_eq!(
        reply.outcome(),
        (500, "internal".into(), None, Some(Reason::Environment))
    );
    assert!(!String::from_utf8_lossy(&reply.body).contains("engine.sock"));
    let reply = server.ask(post("Run", &snippet("unmarked"))).await;
    assert_eq!(reply.outcome(), (400, "invalid_argument".into(), None, None));
    assert_eq!(
        *server.fake.faults.lock(),
        ["/var/lib/secret: no such file", "/run/engine.sock is gone"]
    );
}

#[tokio::test]
async fn a_panic_is_one_calls_unmarked_error_and_the_connection_goes_on() {
    let server = Server::open().await;
    let mut wire = server.connect().await;
    wire.send(post("Run", &snippet("panic"))).await;
    assert_eq!(wire.reply().await.outcome(), (500, "internal".into(), None, None));
    wire.send(post("Describe", "{}")).await;
    assert_eq!(wire.reply().await.status, 200);
}

#[tokio::test]
async fn a_caller_who_hangs_up_cancels_its_run() {
    let server = Server::open().await;
    let mut wire = server.connect().await;
    wire.send(post("Run", &snippet("wait"))).await;
    server.running(1).await;
    drop(wire);
    eventually("the run is cancelled", || {
        server.fake.cancelled.load(Ordering::SeqCst) == 1
    })
    .await;
}

#[tokio::test]
async fn an_upgrade_to_http2_is_not_honoured() {
    let server = Server::open().await;
    let upgrade = [
        JSON,
        ("connection", "Upgrade, HTTP2-Settings"),
        ("upgrade", "h2c"),
        ("http2-settings", "AAMAAABkAAQAAP__"),
    ];
    let reply = server.ask(post_with("Describe", &upgrade, "{}")).await;
    assert_eq!((reply.status, reply.header("upgrade")), (200, None));
}

#[tokio::test]
async fn two_requests_on_one_connection_are_both_answered_and_it_stays_open() {
    let server = Server::open().await;
    let mut wire = server.connect().await;
    for _ in 0..2 {
        wire.send(post("Describe", "{}")).await;
        let reply = wire.reply().await;
        assert_eq!((reply.status, reply.header("connection")), (200, None));
    }
    // Also back to back, before the first answer.
    wire.send(post("Describe", "{}").repeat(2)).await;
    assert_eq!((wire.reply().await.status, wire.reply().await.status), (200, 200));
    assert!(
        tokio::time::timeout(Duration::from_millis(700), wire.try_reply())
            .await
            .is_err(),
        "still open"
    );
}
