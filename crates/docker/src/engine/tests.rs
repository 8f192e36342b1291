use std::time::Duration;

use bytes::Bytes;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::*;
use crate::fake::{CONTAINER_ID, FakeEngine, IMAGE_ID, Reply, image, piece, version};

async fn connected(fake: &FakeEngine) -> Engine {
    Engine::connect(fake.socket()).await.unwrap().0
}

/// A JSON answer of about this many bytes.
fn padded(bytes: usize) -> Reply {
    Reply::Raw(
        200,
        json!([{ "Id": "x", "Names": ["/x"], "Padding": "y".repeat(bytes) }])
            .to_string()
            .into(),
    )
}

#[tokio::test]
async fn the_newest_api_both_sides_speak_is_used() {
    for (offered, used) in [("1.41", "1.41"), ("1.49", "1.49"), ("1.53", "1.53"), ("1.60", "1.53")] {
        let fake = FakeEngine::healthy();
        fake.on("GET", "/version", [Reply::Json(200, version(offered))]);
        let engine = connected(&fake).await;
        assert_eq!(engine.api().to_string(), used);
        engine.info().await.unwrap();
        let asked = fake.asked();
        assert_eq!(
            (asked[0].version.as_str(), asked[1].version.as_str()),
            ("", used),
            "{offered}"
        );
    }
}

#[tokio::test]
async fn an_engine_without_a_common_api_is_refused() {
    let fake = FakeEngine::healthy();
    for answer in [
        version("1.40"),
        json!({ "ApiVersion": "1.99", "MinAPIVersion": "1.54", "Os": "linux", "Arch": "amd64" }),
    ] {
        fake.on("GET", "/version", [Reply::Json(200, answer)]);
        let error = Engine::connect(fake.socket()).await.unwrap_err();
        assert!(matches!(error, EngineError::Version { .. }), "{error}");
    }
    fake.on(
        "GET",
        "/version",
        [Reply::Json(200, json!({ "ApiVersion": "one", "Os": "", "Arch": "" }))],
    );
    let error = Engine::connect(fake.socket()).await.unwrap_err();
    assert!(matches!(error, EngineError::Malformed { .. }), "{error}");
}

#[tokio::test]
async fn a_missing_socket_is_named() {
    let error = Engine::connect(Path::new("/nonexistent/engine.sock"))
        .await
        .unwrap_err();
    assert!(matches!(&error, EngineError::Transport { problem } if problem.contains("/nonexistent/engine.sock")));
}

#[tokio::test]
async fn errors_are_told_apart_by_status_and_never_by_words() {
    let fake = FakeEngine::healthy();
    let engine = connected(&fake).await;
    for (status, words) in [
        (404, "is not running"),
        (409, "No such container"),
        (500, "No such container"),
    ] {
        fake.on("POST", "/containers/c/start", [Reply::failure(status, words)]);
        let error = engine.start("c").await.unwrap_err();
        let text = words.to_owned();
        let expected = match status {
            404 => EngineError::NotFound { text },
            409 => EngineError::Conflict { text },
            _ => EngineError::Refused { status, text },
        };
        assert_eq!(error, expected);
    }
}

#[tokio::test]
async fn the_engines_words_are_cut_and_need_not_be_json() {
    let fake = FakeEngine::healthy();
    let engine = connected(&fake).await;
    let flood = Bytes::from("ä".repeat(MAX_ERROR_TEXT_BYTES));
    for body in [
        flood,
        json!({ "message": "x".repeat(2 * MAX_ERROR_TEXT_BYTES) })
            .to_string()
            .into(),
    ] {
        fake.on("POST", "/containers/c/kill", [Reply::Raw(500, body)]);
        let EngineError::Refused { status: 500, text } = engine.kill("c").await.unwrap_err() else {
            panic!("a refusal")
        };
        assert!(
            text.len() <= MAX_ERROR_TEXT_BYTES && text.len() > MAX_ERROR_TEXT_BYTES / 2,
            "{}",
            text.len()
        );
    }
    fake.on(
        "POST",
        "/containers/c/kill",
        [Reply::Raw(502, Bytes::from_static(b"\xffbad gateway\n"))],
    );
    let error = engine.kill("c").await.unwrap_err();
    let text = "\u{fffd}bad gateway".to_owned();
    assert_eq!(error, EngineError::Refused { status: 502, text });
}

#[tokio::test]
async fn an_answer_over_the_bound_is_an_error_and_never_a_part_of_it() {
    let fake = FakeEngine::healthy();
    let engine = connected(&fake).await;
    fake.on("GET", "/containers/json", [padded(MAX_ANSWER_BYTES - 1024)]);
    assert_eq!(engine.list_labelled("l").await.unwrap().len(), 1);
    for bytes in [MAX_ANSWER_BYTES, 6 << 20] {
        fake.on("GET", "/containers/json", [padded(bytes)]);
        assert_eq!(engine.list_labelled("l").await, Err(EngineError::TooLarge), "{bytes}");
        fake.on(
            "GET",
            "/info",
            [Reply::Json(200, json!({ "Name": "n".repeat(bytes + (1 << 20)) }))],
        );
        assert_eq!(engine.info().await, Err(EngineError::TooLarge), "{bytes}");
    }
}

#[tokio::test]
async fn a_malformed_answer_fails_closed() {
    let fake = FakeEngine::healthy();
    let engine = connected(&fake).await;
    for body in [
        "null",
        "",
        "{",
        "[]",
        "{\"Os\":\"linux\"}",
        "{\"Id\":null}",
        "{\"Id\":7}",
    ] {
        fake.on("GET", "/images/*", [Reply::Raw(200, body.into())]);
        let error = engine.inspect_image("x", None).await.unwrap_err();
        assert!(matches!(error, EngineError::Malformed { .. }), "{body:?}: {error}");
    }
    fake.on(
        "POST",
        "/containers/create",
        [Reply::Json(201, json!({ "Id": "short", "Warnings": [] }))],
    );
    let error = engine.create_container("c", None, Box::default()).await.unwrap_err();
    assert!(matches!(error, EngineError::Malformed { .. }), "{error}");
}

#[tokio::test]
async fn an_engine_that_hangs_or_hangs_up_is_an_error_in_time() {
    let fake = FakeEngine::healthy();
    let engine = connected(&fake).await;
    let budget = Duration::from_millis(50);
    fake.on("GET", "/info", [Reply::Silence]);
    assert_eq!(
        engine.with_budget(budget).info().await,
        Err(EngineError::Timeout { budget })
    );
    fake.on("GET", "/info", [Reply::Hangup]);
    assert!(matches!(engine.info().await, Err(EngineError::Transport { .. })));
    let (body, later) = Reply::later();
    body.send(Bytes::from_static(b"{\"NCPU\":")).unwrap();
    fake.on("GET", "/info", [later]);
    assert_eq!(
        engine.with_budget(budget).info().await,
        Err(EngineError::Timeout { budget })
    );
}

#[tokio::test]
async fn an_image_is_asked_for_by_its_reference_and_platform() {
    let fake = FakeEngine::healthy();
    fake.on("GET", "/version", [Reply::Json(200, version("1.49"))]);
    let engine = connected(&fake).await;
    assert!(engine.inspects_platforms());
    assert_eq!(
        engine.inspect_image("reg.io:5/a/b:c d?x", None).await.unwrap().id,
        IMAGE_ID
    );
    engine.inspect_image(IMAGE_ID, Some("linux/arm/v7")).await.unwrap();
    let asked = fake.asked();
    assert_eq!(asked[1].path, "/images/reg.io:5/a/b:c%20d%3Fx/json");
    assert!(asked[1].query.is_empty());
    assert_eq!(
        serde_json::from_str::<serde_json::Value>(&asked[2].query["platform"]).unwrap(),
        json!({ "os": "linux", "architecture": "arm", "variant": "v7" })
    );
    fake.on("GET", "/images/*", [Reply::failure(404, "no")]);
    let absent = engine.inspect_image("x", None).await.unwrap_err();
    assert!(matches!(absent, EngineError::NotFound { .. }));
    assert_eq!(image(IMAGE_ID)["Id"], IMAGE_ID);
}

#[tokio::test]
async fn a_container_is_created_by_name_and_platform() {
    let fake = FakeEngine::healthy();
    let engine = connected(&fake).await;
    let body = Box::new(ContainerCreateBody {
        image: Some(IMAGE_ID.to_owned()),
        ..ContainerCreateBody::default()
    });
    let id = engine.create_container("p-1", Some("linux/amd64"), body).await.unwrap();
    assert_eq!(id, CONTAINER_ID);
    let asked = fake.asked().pop().unwrap();
    assert_eq!(
        (asked.query["name"].as_str(), asked.query["platform"].as_str()),
        ("p-1", "linux/amd64")
    );
    assert_eq!(asked.body["Image"], IMAGE_ID);
}

#[tokio::test]
async fn only_the_exact_name_counts_as_existing() {
    let fake = FakeEngine::healthy();
    let engine = connected(&fake).await;
    assert_eq!(engine.exists("run-1").await, Ok(false));
    for (names, exists) in [
        (json!(["/run-11"]), false),
        (json!(["/x", "/run-1"]), true),
        (json!(null), false),
    ] {
        fake.on(
            "GET",
            "/containers/json",
            [Reply::Json(200, json!([{ "Id": "a", "Names": names }]))],
        );
        assert_eq!(engine.exists("run-1").await, Ok(exists), "{names}");
    }
    let asked = fake.asked().pop().unwrap();
    assert_eq!(asked.query["all"], "true");
    assert_eq!(asked.query["filters"], r#"{"name":["^/?run-1$"]}"#);
}

#[tokio::test]
async fn a_container_asked_for_by_its_id_exists_whatever_its_name() {
    let fake = FakeEngine::healthy();
    let engine = connected(&fake).await;
    let (own, other) = ("a".repeat(64), "b".repeat(64));
    for (listed, exists) in [(&other, false), (&own, true)] {
        let listing = json!([{ "Id": listed, "Names": ["/another"] }]);
        fake.on("GET", "/containers/json", [Reply::Json(200, listing)]);
        assert_eq!(engine.exists(&own).await, Ok(exists));
    }
    let asked = fake.asked().pop().unwrap();
    assert_eq!(asked.query["filters"], format!(r#"{{"id":["{own}"]}}"#));
}

#[tokio::test]
async fn removal_kills_and_takes_the_volumes_along() {
    let fake = FakeEngine::healthy();
    let engine = connected(&fake).await;
    engine.remove("c", true).await.unwrap();
    let asked = fake.asked().pop().unwrap();
    assert_eq!(
        (asked.method.as_str(), asked.path.as_str()),
        ("DELETE", "/containers/c")
    );
    assert_eq!(
        (asked.query["force"].as_str(), asked.query["v"].as_str()),
        ("true", "true")
    );
}

#[tokio::test]
async fn an_exit_is_awaited_from_before_the_start() {
    let fake = FakeEngine::healthy();
    let engine = connected(&fake).await;
    let (body, later) = Reply::later();
    fake.on("POST", "/containers/c/wait", [later]);
    let wait = engine.wait_next_exit("c").await.unwrap();
    let asked = fake.asked().pop().unwrap();
    assert_eq!(asked.query["condition"], "next-exit");
    body.send(Bytes::from_static(b"{\"StatusCode\":137,\"Error\":null}"))
        .unwrap();
    drop(body);
    assert_eq!(wait.exit().await, Ok(Exit { code: 137, error: None }));
}

#[tokio::test]
async fn a_wait_that_breaks_off_tells_of_no_exit() {
    let fake = FakeEngine::healthy();
    let engine = connected(&fake).await;
    let (body, later) = Reply::later();
    fake.on("POST", "/containers/c/wait", [later]);
    let wait = engine.wait_next_exit("c").await.unwrap();
    drop(body);
    assert!(matches!(wait.exit().await, Err(EngineError::Malformed { .. })));
    fake.on("POST", "/containers/c/wait", [Reply::failure(404, "gone")]);
    assert!(matches!(
        engine.wait_next_exit("c").await,
        Err(EngineError::NotFound { .. })
    ));
}

#[tokio::test]
async fn an_attachment_carries_stdin_and_tells_stdout_from_stderr() {
    let fake = FakeEngine::healthy();
    let engine = connected(&fake).await;
    let guest = Reply::attach(|mut stdio| async move {
        let mut line = [0; 3];
        stdio.read_exact(&mut line).await.unwrap();
        let mut written = [piece(1, &line), piece(2, b"err"), piece(1, b""), piece(0, b"zero")].concat();
        let last = written.split_off(written.len() - 2);
        stdio.write_all(&written).await.unwrap();
        stdio.flush().await.unwrap();
        tokio::time::sleep(Duration::from_millis(20)).await;
        stdio.write_all(&last).await.unwrap();
        let mut rest = Vec::new();
        stdio.read_to_end(&mut rest).await.unwrap();
        stdio.write_all(&piece(1, &rest)).await.unwrap();
        stdio.shutdown().await.unwrap();
    });
    fake.on("POST", "/containers/c/attach", [guest]);
    let Attached { mut input, mut output } = engine.attach("c").await.unwrap();
    input.write_all(b"abcdone").await.unwrap();
    input.shutdown().await.unwrap();
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    while let Some(chunk) = output.next().await.unwrap() {
        assert!(!chunk.bytes.is_empty());
        match chunk.source {
            Source::Stdout => stdout.extend_from_slice(&chunk.bytes),
            Source::Stderr => stderr.extend_from_slice(&chunk.bytes),
        }
    }
    assert_eq!(
        (stdout.as_slice(), stderr.as_slice()),
        (&b"abczerodone"[..], &b"err"[..])
    );
    let asked = fake.asked().pop().unwrap();
    let wanted = ["stream", "stdin", "stdout", "stderr"].map(|name| asked.query[name].as_str());
    assert_eq!(wanted, ["1"; 4]);
}

#[tokio::test]
async fn an_attachment_has_no_bound_and_an_announced_length_reserves_nothing() {
    let fake = FakeEngine::healthy();
    let engine = connected(&fake).await;
    let guest = Reply::attach(|mut stdio| async move {
        let flood = piece(1, &vec![b'x'; 6 << 20]);
        stdio.write_all(&flood).await.unwrap();
        // Announces 4 GiB and sends three bytes of them.
        stdio
            .write_all(&[2, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, b'a', b'b', b'c'])
            .await
            .unwrap();
        stdio.shutdown().await.unwrap();
    });
    fake.on("POST", "/containers/c/attach", [guest]);
    let mut attached = engine.attach("c").await.unwrap();
    let mut flood = 0;
    let last = loop {
        let chunk = attached.output.next().await.unwrap().unwrap();
        match chunk.source {
            Source::Stdout => flood += chunk.bytes.len(),
            Source::Stderr => break chunk.bytes,
        }
    };
    assert_eq!(flood, 6 << 20);
    assert!(!last.is_empty() && b"abc".starts_with(&last));
    let end = loop {
        match attached.output.next().await {
            Ok(Some(_)) => {}
            other => break other,
        }
    };
    assert!(matches!(end, Err(EngineError::Transport { .. })), "{end:?}");
}

#[tokio::test]
async fn an_attachment_that_names_no_known_stream_or_is_refused_is_an_error() {
    let fake = FakeEngine::healthy();
    let engine = connected(&fake).await;
    for first in [4, 0xff] {
        let guest = Reply::attach(move |mut stdio| async move {
            stdio.write_all(&piece(first, b"x")).await.unwrap();
        });
        fake.on("POST", "/containers/c/attach", [guest]);
        let mut attached = engine.attach("c").await.unwrap();
        assert!(
            matches!(attached.output.next().await, Err(EngineError::Malformed { .. })),
            "{first}"
        );
    }
    fake.on("POST", "/containers/c/attach", [Reply::Json(200, json!({}))]);
    assert!(matches!(engine.attach("c").await, Err(EngineError::Malformed { .. })));
    fake.on("POST", "/containers/c/attach", [Reply::failure(409, "paused")]);
    assert!(matches!(engine.attach("c").await, Err(EngineError::Conflict { .. })));
}

#[test]
fn versions_are_compared_by_number() {
    let parse = |text| ApiVersion::parse(text);
    assert!(parse("1.9") < parse("1.41"));
    for text in ["", "1", "1.", ".1", "1.4.1", "1.x", "+1.4", "-1.4"] {
        assert_eq!(parse(text), None, "{text}");
    }
}
