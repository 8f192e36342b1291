//! What the host's scanner finds in honest, broken, forged and hostile streams.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use plimsoll_guest_messages::limits::{MAX_BODY, MAX_NOISE, PROTOCOL_VERSION};
use plimsoll_guest_messages::{
    ArtifactContent, Captured, Direction, End, FRAME_START, Fault, GuestMessage, HostMessage, Intake, IntakeError, Key,
    LimitFacts, Open, Plan, Prepare, ProjectPlan, Ready, Report, Scanner, Sender, SnippetEnd, SnippetPlan, StepReport,
};
use proptest::prelude::*;

fn key() -> Key {
    Key::new([9; 32])
}

fn report() -> GuestMessage {
    GuestMessage::Report(Report {
        steps: vec![StepReport {
            command: "echo ä".into(),
            stdout: Captured {
                bytes: vec![0xff, 0xfe, 0],
                produced: 3,
            },
            stderr: Captured::default(),
            exit_code: 0,
            timed_out: false,
            duration_ms: 12,
            signal: 0,
            limits: LimitFacts::default(),
        }],
        artifacts: vec![ArtifactContent {
            path: "a".into(),
            content: b"PLIMSOLL1 h 0 1 ".to_vec(),
        }],
        steps_begun: 1,
        ..Report::default()
    })
}

fn frame(sender: &mut Sender, message: &GuestMessage) -> Vec<u8> {
    sender.frame(message.kind(), &message.encode().unwrap()).unwrap()
}

fn honest() -> Vec<u8> {
    frame(&mut Sender::new(key(), Direction::ToHost), &report())
}

fn forged() -> Vec<u8> {
    frame(&mut Sender::new(Key::new([8; 32]), Direction::ToHost), &report())
}

/// What a host makes of a whole stream, and its counters at the end.
fn scan(stream: &[u8]) -> (Vec<GuestMessage>, &'static str) {
    let mut scanner = Scanner::new(key());
    let messages = scanner.feed(stream);
    let verdict = if scanner.undecodable().is_some() {
        "undecodable"
    } else if !messages.is_empty() {
        "found"
    } else if scanner.forged() > 0 {
        "unauthenticated"
    } else {
        "not found"
    };
    (messages, verdict)
}

#[test]
fn an_honest_frame_is_found_wherever_it_stands() {
    let (honest, forged) = (honest(), forged());
    let noise = b"PLIMSOLL PLIMSOLL1 x\nPLIMPLIMSOLL1 r 0 5 \n".to_vec();
    let long = format!("PLIMSOLL1 p 0 16777216 {}\n", "0".repeat(64)).into_bytes();
    let streams = [
        honest.clone(),
        [noise.clone(), honest.clone()].concat(),
        [forged.clone(), honest.clone()].concat(),
        [honest.clone(), forged.clone()].concat(),
        [long, honest.clone()].concat(),
        [b"PLIMSOLL1 ".to_vec(), honest.clone(), noise].concat(),
        [FRAME_START.to_vec(), FRAME_START.to_vec(), honest.clone()].concat(),
        [forged[..forged.len() - 1].to_vec(), honest, b"PLIMSOLL1 ".to_vec()].concat(),
    ];
    for stream in streams {
        assert_eq!(scan(&stream), (vec![report()], "found"));
        let mut scanner = Scanner::new(key());
        let mut found = Vec::new();
        for byte in &stream {
            found.extend(scanner.feed(&[*byte]));
        }
        assert_eq!(found, [report()]);
    }
}

#[test]
fn a_replayed_frame_counts_once() {
    let mut sender = Sender::new(key(), Direction::ToHost);
    let (first, second) = (
        frame(&mut sender, &report()),
        frame(&mut sender, &GuestMessage::Started),
    );
    let stream = [&first[..], &first, &second, &first, &second].concat();
    assert_eq!(scan(&stream).0, [report(), GuestMessage::Started]);
    // Out of order nothing verifies.
    assert_eq!(scan(&second), (vec![], "unauthenticated"));
}

#[test]
fn what_does_not_verify_is_unauthenticated_and_nothing_is_not_found() {
    let honest = honest();
    let mut altered = honest.clone();
    let middle = honest.len() - 10;
    altered[middle] ^= 1;
    let loose = String::from_utf8_lossy(&honest).replacen(" 0 ", " 00 ", 1).into_bytes();
    let back = Sender::new(key(), Direction::ToGuest)
        .frame(b'p', &report().encode().unwrap())
        .unwrap();
    for stream in [
        &forged()[..],
        &honest[..honest.len() - 1],
        &altered,
        &loose,
        &back,
        FRAME_START,
        b"x PLIMSOLL1 y",
    ] {
        assert_eq!(scan(stream), (vec![], "unauthenticated"));
    }
    for stream in [
        &b""[..],
        b"PLIMSOLL1",
        b"plimsoll1 ",
        b"no such thing\n",
        b"PPPPPLIMSOLL",
    ] {
        assert_eq!(scan(stream), (vec![], "not found"));
    }
}

#[test]
fn a_kind_or_a_number_changed_in_the_header_does_not_verify() {
    let honest = honest();
    let text = String::from_utf8_lossy(&honest[..30]).into_owned();
    assert!(text.starts_with("PLIMSOLL1 p 0 "));
    for (place, byte) in [(10, b'e'), (12, b'1'), (14, b'9')] {
        let mut changed = honest.clone();
        changed[place] = byte;
        assert_eq!(scan(&changed).1, "unauthenticated", "{place}");
    }
}

#[test]
fn a_signed_body_of_another_version_is_undecodable_and_ends_the_reading() {
    let old = {
        // A report with a field that this version does not know.
        #[derive(serde::Serialize)]
        struct Old {
            steps: Vec<u8>,
            stdout: String,
        }
        rmp_serde::to_vec_named(&Old {
            steps: vec![],
            stdout: String::new(),
        })
        .unwrap()
    };
    let trailing = [report().encode().unwrap(), vec![0]].concat();
    let mut missing = report().encode().unwrap();
    missing.truncate(missing.len() - 1);
    let report_kind = report().kind();
    for (kind, body) in [
        (report_kind, b"{".to_vec()),
        (report_kind, vec![]),
        (report_kind, old),
        (report_kind, trailing),
        (report_kind, missing),
        (b'z', report().encode().unwrap()),
        (GuestMessage::Started.kind(), vec![]),
    ] {
        let mut sender = Sender::new(key(), Direction::ToHost);
        let mut stream = sender.frame(kind, &body).unwrap();
        stream.extend(frame(&mut sender, &report()));
        assert_eq!(scan(&stream), (vec![], "undecodable"), "{kind} {body:?}");
    }
}

#[test]
fn noise_beyond_the_limit_is_refused_and_an_end_forgives_it() {
    let noise = vec![b'x'; MAX_NOISE / 2 + 1];
    let mut sender = Sender::new(key(), Direction::ToHost);
    let mut scanner = Scanner::new(key());
    assert!(scanner.feed(&noise).is_empty());
    assert_eq!(scanner.feed(&frame(&mut sender, &report())).len(), 1);
    assert!(scanner.feed(&noise).is_empty() && !scanner.overflowed());
    assert_eq!(scanner.feed(&frame(&mut sender, &GuestMessage::Heartbeat)).len(), 1);
    assert!(scanner.feed(&noise).is_empty() && scanner.overflowed());
    assert!(scanner.feed(&frame(&mut sender, &report())).is_empty());
}

#[test]
fn a_flood_of_frame_starts_is_read_in_linear_time() {
    let header = format!("PLIMSOLL1 p 0 16000000 {}\n", "a".repeat(64)).into_bytes();
    let mut flood: Vec<u8> = header.iter().copied().cycle().take(12 << 20).collect();
    flood.extend(honest());
    let began = std::time::Instant::now();
    assert_eq!(scan(&flood).0, [report()]);
    assert!(began.elapsed().as_secs() < 5, "{:?}", began.elapsed());
}

#[test]
fn the_longest_body_is_read() {
    let message = GuestMessage::SnippetEnd(SnippetEnd {
        end: End::Signaled(9),
        timed_out: true,
        stdout: Captured {
            bytes: vec![b'P'; MAX_BODY - 1_000],
            produced: u64::MAX,
        },
        stderr: Captured::default(),
        duration_ms: 1,
        limits: LimitFacts::default(),
    });
    let stream = frame(&mut Sender::new(key(), Direction::ToHost), &message);
    let mut scanner = Scanner::new(key());
    let found: Vec<_> = stream.chunks(70_000).flat_map(|chunk| scanner.feed(chunk)).collect();
    assert!(found == [message], "the longest body did not arrive as it was");
}

fn open() -> HostMessage {
    HostMessage::Open(Open {
        version: PROTOCOL_VERSION,
        key: key(),
        prepare: Prepare::Project,
        env: vec![],
        output_cap: 1,
    })
}

fn host_frames(messages: &[HostMessage]) -> Vec<u8> {
    let mut sender = Sender::new(key(), Direction::ToGuest);
    messages
        .iter()
        .flat_map(|one| sender.frame(one.kind(), &one.encode().unwrap()).unwrap())
        .collect()
}

fn take_in(bytes: &[u8]) -> Result<Vec<HostMessage>, IntakeError> {
    let mut intake = Intake::new();
    intake.feed(bytes);
    let mut messages = Vec::new();
    while let Some(message) = intake.next_message()? {
        messages.push(message);
    }
    Ok(messages)
}

#[test]
fn a_minimal_plan_arrives() {
    let plan = Plan::Project(ProjectPlan {
        steps: vec!["true".into()],
        step_timeout_ms: 1,
        ..ProjectPlan::default()
    });
    let messages = take_in(&host_frames(&[open(), HostMessage::Run(plan.clone())])).unwrap();
    let [HostMessage::Open(opened), HostMessage::Run(arrived)] = &messages[..] else {
        panic!("{messages:?}")
    };
    assert_eq!((opened.prepare, arrived), (Prepare::Project, &plan));
}

#[test]
fn an_opening_without_a_whole_key_is_refused() {
    #[derive(serde::Serialize)]
    struct Keyless {
        version: u32,
        #[serde(with = "serde_bytes", skip_serializing_if = "Vec::is_empty")]
        key: Vec<u8>,
        prepare: &'static str,
        env: Vec<u8>,
        output_cap: u64,
    }
    for length in [0, 8, 31, 33] {
        let body = rmp_serde::to_vec_named(&Keyless {
            version: PROTOCOL_VERSION,
            key: vec![9; length],
            prepare: "project",
            env: vec![],
            output_cap: 1,
        });
        let frame = Sender::new(key(), Direction::ToGuest)
            .frame(b'o', &body.unwrap())
            .unwrap();
        assert!(matches!(take_in(&frame), Err(IntakeError::Body(_))), "{length}");
    }
}

#[test]
fn a_host_of_another_version_is_named() {
    #[derive(serde::Serialize)]
    struct Later {
        version: u32,
        anything: &'static str,
    }
    let body = rmp_serde::to_vec_named(&Later {
        version: PROTOCOL_VERSION + 1,
        anything: "new",
    });
    let frame = Sender::new(key(), Direction::ToGuest)
        .frame(b'o', &body.unwrap())
        .unwrap();
    let error = take_in(&frame).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "host speaks version {}; this guest binary speaks {PROTOCOL_VERSION}; rebuild the image",
            PROTOCOL_VERSION + 1
        )
    );
}

#[test]
fn pid_1_refuses_whatever_is_not_the_next_frame() {
    let plan = HostMessage::Run(Plan::Snippet(SnippetPlan {
        program: "1".into(),
        prelude: String::new(),
        timeout_ms: 1,
    }));
    let both = host_frames(&[open(), plan]);
    let opening = host_frames(&[open()]);
    let cases: Vec<(Vec<u8>, &str)> = vec![
        (b"x".repeat(96), "input is not a frame"),
        ([b" ", &opening[..]].concat(), "input is not a frame"),
        (both[opening.len()..].to_vec(), "frame kind 'r' does not belong here"),
        ([&opening[..], &opening].concat(), "frame does not verify"),
        (host_frames(&[open(), open()]), "frame kind 'o' does not belong here"),
        ([&both[..], &both[opening.len()..]].concat(), "frame does not verify"),
        (
            Sender::new(key(), Direction::ToGuest).frame(b'q', b"").unwrap(),
            "frame kind 'q' is not one of this version's",
        ),
        (
            Sender::new(key(), Direction::ToHost)
                .frame(b'o', &open().encode().unwrap())
                .unwrap(),
            "frame does not verify",
        ),
    ];
    for (bytes, expected) in cases {
        assert_eq!(take_in(&bytes).unwrap_err().to_string(), expected);
    }
    // A forged header is refused before its body comes.
    let forged = format!("PLIMSOLL1 r 1 16777216 {}\n", "0".repeat(64));
    assert_eq!(
        take_in(&[&opening[..], forged.as_bytes()].concat())
            .unwrap_err()
            .to_string(),
        "frame does not verify"
    );
}

#[test]
fn a_key_is_never_printed() {
    let shown = format!("{:?} {:?} {:?}", key(), open(), Scanner::new(key()));
    assert!(!shown.contains('9') && shown.contains("Key(…)"), "{shown}");
}

#[test]
fn truncation_follows_from_the_counts() {
    let exact = Captured {
        bytes: vec![1; 3],
        produced: 3,
    };
    assert!(!exact.truncated());
    let more = Captured { produced: 4, ..exact };
    assert_eq!((more.truncated(), more.dropped()), (true, 1));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    /// Any input that is not honest yields nothing, and "not found" means exactly that no frame starts in it.
    #[test]
    fn a_dishonest_stream_yields_nothing(pieces in prop::collection::vec(piece(), 0..12)) {
        let stream = pieces.concat();
        let (messages, verdict) = scan(&stream);
        prop_assert!(messages.is_empty());
        let has_start = stream.windows(FRAME_START.len()).any(|window| window == FRAME_START);
        prop_assert_eq!(verdict == "not found", !has_start);
    }

    /// Honest frames are found in order whatever stands between them, however the stream is cut.
    #[test]
    fn honest_frames_survive_any_noise(
        noise in prop::collection::vec(prop::collection::vec(piece(), 0..4), 5),
        cuts in prop::collection::vec(1_usize..300, 1..40),
    ) {
        let sent = [GuestMessage::Ready(Ready { version: 1 }), GuestMessage::Started, GuestMessage::Heartbeat, report()];
        let mut sender = Sender::new(key(), Direction::ToHost);
        let mut stream = noise[0].concat();
        for (message, noise) in sent.iter().zip(&noise[1..]) {
            stream.extend(frame(&mut sender, message));
            stream.extend(noise.concat());
        }
        let mut scanner = Scanner::new(key());
        let mut found = Vec::new();
        let mut rest = &stream[..];
        for cut in cuts.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let (chunk, later) = rest.split_at((*cut).min(rest.len()));
            found.extend(scanner.feed(chunk));
            rest = later;
        }
        prop_assert_eq!(found, sent.to_vec());
    }

    /// One flipped bit anywhere in a frame and it is no frame.
    #[test]
    fn a_flipped_bit_never_verifies(place in any::<prop::sample::Index>(), bit in 0_u8..8) {
        let mut frame = honest();
        let place = place.index(frame.len());
        frame[place] ^= 1 << bit;
        prop_assert!(scan(&frame).0.is_empty());
    }

    /// What PID 1 reads is what was written, or an error; never another message, and never a panic.
    #[test]
    fn intake_takes_whole_honest_streams_only(cut in any::<prop::sample::Index>(), bit in 0_u8..8, flip in any::<bool>()) {
        let plan = Plan::Snippet(SnippetPlan { program: "é".into(), prelude: "p".into(), timeout_ms: 5 });
        let mut bytes = host_frames(&[open(), HostMessage::Run(plan)]);
        let place = cut.index(bytes.len());
        if flip {
            bytes[place] ^= 1 << bit;
        } else {
            bytes.truncate(place);
        }
        let taken = take_in(&bytes);
        prop_assert!(taken.map_or(0, |messages| messages.len()) < 2);
    }

    /// Any bytes as a body of any kind are a message or an error.
    #[test]
    fn decoding_never_panics(kind in any::<u8>(), body in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = GuestMessage::decode(kind, &body);
        let _ = HostMessage::decode(kind, &body);
    }
}

/// Noise, frame starts, forged frames, and honest frames that were damaged or come from the other side.
fn piece() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        prop::collection::vec(any::<u8>(), 0..120),
        Just(FRAME_START.to_vec()),
        Just(b"PLIMSOLL".to_vec()),
        Just(forged()),
        (0_usize..200).prop_map(|at| forged()[..at.min(forged().len())].to_vec()),
        Just(format!("PLIMSOLL1 p 0 16777216 {}\n", "0".repeat(64)).into_bytes()),
        Just(Sender::new(key(), Direction::ToGuest).frame(b'p', b"").unwrap()),
        // Signed, but out of order.
        Just({
            let mut sender = Sender::new(key(), Direction::ToHost);
            for _ in 0..20 {
                sender.frame(b'h', b"").unwrap();
            }
            sender.frame(b'h', &GuestMessage::Heartbeat.encode().unwrap()).unwrap()
        }),
        Just(
            GuestMessage::Fault(Fault {
                text: "PLIMSOLL1 f 0 0".into()
            })
            .encode()
            .unwrap()
        ),
    ]
}
