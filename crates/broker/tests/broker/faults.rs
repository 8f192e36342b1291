//! What an upstream can do wrong.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::support::{Run, Script, Step, answer, ok};

pub(crate) fn gzip(plain: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(plain).unwrap();
    encoder.finish().unwrap()
}

/// Plays one answer, closing after it when asked to, and returns status, body and row status.
async fn play(bytes: Vec<u8>, close: bool) -> (u16, Vec<u8>, u16) {
    let upstream = Script::start(move |_| {
        let mut steps = vec![Step::Send(bytes.clone())];
        if close {
            steps.push(Step::Close);
        }
        steps
    })
    .await;
    let run = Run::new(&upstream.origin(), &["GET /a"]);
    let answer = run.get("/a").await;
    let trace = run.0.end().await.unwrap();
    assert_eq!(trace.rows.len(), 1, "a call that was sent has one row");
    let row = &trace.rows[0];
    assert_eq!(row.delivered, answer.status != 502);
    assert_eq!(row.resp_bytes, if row.delivered { answer.body.len() as u64 } else { 0 });
    upstream.all_closed().await;
    (answer.status, answer.body.to_vec(), row.status)
}

#[tokio::test]
async fn an_answer_that_is_not_whole_and_unambiguous_is_502() {
    let long = "x".repeat(70_000);
    let many = "A: b\r\n".repeat(101);
    let table: &[(&str, String, u16)] = &[
        ("nothing", String::new(), 0),
        ("half a status line", "HTTP/1.1 20".into(), 0),
        ("half a head", "HTTP/1.1 200 OK\r\nContent-Le".into(), 0),
        ("not HTTP", "SSH-2.0-OpenSSH_9.2\r\n\r\n".into(), 0),
        ("HTTP/0.9", "<html>hello</html>\r\n\r\n".into(), 0),
        ("HTTP/2 in the clear", "HTTP/2 200\r\n\r\n".into(), 0),
        (
            "a status of two digits",
            "HTTP/1.1 20 OK\r\nContent-Length: 0\r\n\r\n".into(),
            0,
        ),
        (
            "a status below 100",
            "HTTP/1.1 099 OK\r\nContent-Length: 0\r\n\r\n".into(),
            0,
        ),
        (
            "a status of 600",
            "HTTP/1.1 600 OK\r\nContent-Length: 0\r\n\r\n".into(),
            600,
        ),
        (
            "a status of 999",
            "HTTP/1.1 999 OK\r\nContent-Length: 0\r\n\r\n".into(),
            999,
        ),
        (
            "a switch of protocols",
            "HTTP/1.1 101 X\r\nUpgrade: h2c\r\nConnection: upgrade\r\n\r\n".into(),
            101,
        ),
        (
            "NUL in a head",
            "HTTP/1.1 200 OK\r\nA: b\0c\r\nContent-Length: 0\r\n\r\n".into(),
            0,
        ),
        (
            "a control byte in the type",
            "HTTP/1.1 200 OK\r\nContent-Type: a\x01b\r\nContent-Length: 0\r\n\r\n".into(),
            0,
        ),
        (
            "a bare CR in a head",
            "HTTP/1.1 200 OK\r\nA: b\rC: d\r\nContent-Length: 0\r\n\r\n".into(),
            0,
        ),
        (
            "a space before a colon",
            "HTTP/1.1 200 OK\r\nContent-Length : 0\r\n\r\n".into(),
            0,
        ),
        (
            "a folded line",
            "HTTP/1.1 200 OK\r\nA: b\r\n c\r\nContent-Length: 0\r\n\r\n".into(),
            0,
        ),
        (
            "a head of 70 KB",
            format!("HTTP/1.1 200 OK\r\nA: {long}\r\nContent-Length: 0\r\n\r\n"),
            0,
        ),
        (
            "101 header lines",
            format!("HTTP/1.1 200 OK\r\n{many}Content-Length: 0\r\n\r\n"),
            0,
        ),
        (
            "two lengths",
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab".into(),
            0,
        ),
        (
            "a length below zero",
            "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\nab".into(),
            0,
        ),
        (
            "a length with a sign",
            "HTTP/1.1 200 OK\r\nContent-Length: +1\r\n\r\na".into(),
            0,
        ),
        (
            "a body ending early",
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc".into(),
            200,
        ),
        (
            "length and chunks",
            "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n".into(),
            200,
        ),
        (
            "a transfer coding we do not know",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n".into(),
            200,
        ),
        (
            "a transfer coding twice",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n".into(),
            200,
        ),
        (
            "chunks over HTTP/1.0",
            "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n".into(),
            0,
        ),
        (
            "chunks ending early",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n".into(),
            200,
        ),
        (
            "a chunk size that is none",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n0\r\n\r\n".into(),
            200,
        ),
        (
            "a chunk size past 64 bits",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n11111111111111111\r\na\r\n0\r\n\r\n".into(),
            200,
        ),
    ];
    for (what, bytes, row_status) in table {
        let (status, body, row) = play(bytes.clone().into_bytes(), true).await;
        assert_eq!(
            (status, row),
            (502, *row_status),
            "{what}: {}",
            String::from_utf8_lossy(&body)
        );
        let known = body.starts_with(b"no answer: ") || body.starts_with(b"answer refused: ");
        assert!(known, "{what}: {}", String::from_utf8_lossy(&body));
    }
}

#[tokio::test]
async fn odd_answers_that_are_whole_are_delivered_as_they_are() {
    let table: &[(&str, Vec<u8>, u16, &[u8])] = &[
        (
            "invalid UTF-8",
            answer(200, "", b"\xff\xfe\x00a"),
            200,
            b"\xff\xfe\x00a",
        ),
        ("a status nobody knows", answer(299, "", "x"), 299, b"x"),
        ("a status of 599", answer(599, "", "x"), 599, b"x"),
        ("no body", b"HTTP/1.1 204 No Content\r\n\r\n".to_vec(), 204, b""),
        (
            "a length without a body",
            b"HTTP/1.1 304 Not Modified\r\nContent-Length: 99999999\r\n\r\n".to_vec(),
            304,
            b"",
        ),
        (
            "a body that ends with its connection",
            b"HTTP/1.0 200 OK\r\n\r\nabc".to_vec(),
            200,
            b"abc",
        ),
        (
            "an answer before the answer",
            [
                &b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"[..],
                &answer(200, "", "late"),
            ]
            .concat(),
            200,
            b"late",
        ),
        (
            "chunks with a trailer",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n1\r\na\r\n2;x=y\r\nbc\r\n0\r\nT: v\r\n\r\n".to_vec(),
            200,
            b"abc",
        ),
        (
            "gzip",
            answer(200, "Content-Encoding: GZip\r\n", gzip(b"plain")),
            200,
            b"plain",
        ),
        (
            "gzip of nothing",
            answer(200, "Content-Encoding: gzip\r\n", ""),
            200,
            b"",
        ),
        (
            "a coding we did not offer",
            answer(200, "Content-Encoding: br\r\n", b"\x0b\x00"),
            200,
            b"\x0b\x00",
        ),
        (
            "two codings",
            answer(200, "Content-Encoding: gzip\r\nContent-Encoding: br\r\n", "zz"),
            200,
            b"zz",
        ),
    ];
    for (what, bytes, expected, text) in table {
        let (status, body, row) = play(bytes.clone(), true).await;
        assert_eq!((status, row), (*expected, *expected), "{what}");
        assert_eq!(body, *text, "{what}");
    }
}

#[tokio::test]
async fn bodies_that_grow_past_the_cap_or_are_damaged_are_refused() {
    let bomb = gzip(&vec![0; 64 << 20]);
    assert!(bomb.len() < 100_000);
    let mut flipped = gzip(b"some text long enough");
    let last = flipped.len() - 5;
    flipped[last] ^= 0xff;
    for (what, bytes, text) in [
        (
            "5 MiB",
            answer(200, "", vec![b'x'; 5 << 20]),
            &b"answer refused: an answer may hold at most"[..],
        ),
        (
            "a bomb",
            answer(200, "Content-Encoding: gzip\r\n", &bomb),
            b"answer refused: an answer may hold at most",
        ),
        (
            "one byte past the cap",
            answer(200, "Content-Encoding: gzip\r\n", gzip(&vec![1; (4 << 20) + 1])),
            b"answer refused: an answer may hold at most",
        ),
        (
            "not gzip",
            answer(200, "Content-Encoding: gzip\r\n", "plain"),
            b"answer refused: it was not valid",
        ),
        (
            "half of a gzip",
            answer(200, "Content-Encoding: gzip\r\n", &bomb[..20]),
            b"answer refused: it was not valid",
        ),
        (
            "a wrong checksum",
            answer(200, "Content-Encoding: gzip\r\n", flipped.clone()),
            b"answer refused: it was not valid",
        ),
    ] {
        let (status, body, row) = play(bytes, false).await;
        assert_eq!((status, row), (502, 200), "{what}");
        assert!(body.starts_with(text), "{what}: {}", String::from_utf8_lossy(&body));
    }
    let exact = answer(200, "Content-Encoding: gzip\r\n", gzip(&vec![1; 4 << 20]));
    assert_eq!(play(exact, false).await.1.len(), 4 << 20);
}

#[tokio::test]
async fn bytes_after_an_answer_are_never_the_answer_to_another_call() {
    // The second answer is smuggled behind the first, at once or a moment later.
    for pause in [0, 5] {
        let upstream = Script::start(move |seen| {
            if seen.nth > 0 || seen.line().contains("/b") {
                return vec![Step::Send(answer(200, "", "honest"))];
            }
            let mut steps = vec![Step::Send(answer(200, "", "first"))];
            if pause > 0 {
                steps.push(Step::Sleep(std::time::Duration::from_millis(pause)));
            } else {
                steps.clear();
                steps.push(Step::Send(
                    [answer(200, "", "first"), answer(200, "", "smuggled")].concat(),
                ));
            }
            if pause > 0 {
                steps.push(Step::Send(answer(200, "", "smuggled")));
            }
            steps
        })
        .await;
        let run = Run::new(&upstream.origin(), &["GET /a", "GET /b"]);
        assert_eq!(run.get("/a").await.body, "first");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        for _ in 0..3 {
            assert_eq!(run.get("/b").await.body, "honest");
        }
        assert_eq!(upstream.connections(), 2, "the spoiled connection is not used again");
    }
}

#[tokio::test]
async fn a_fault_does_not_spoil_the_next_call() {
    let upstream = Script::start(|seen| {
        if seen.line().contains("/bad") {
            vec![
                Step::Send(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab".to_vec()),
                Step::Close,
            ]
        } else {
            vec![Step::Send(ok())]
        }
    })
    .await;
    let run = Run::new(&upstream.origin(), &["GET /*"]);
    for _ in 0..5 {
        assert_eq!(run.status("/bad").await, 502);
        assert_eq!(run.status("/good").await, 200);
    }
    assert_eq!(run.counts(), (10, 0, 0));
}
