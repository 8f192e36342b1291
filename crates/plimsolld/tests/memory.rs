//! What strangers can make the daemon hold, and that it gives it back.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod daemon;

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use daemon::{Daemon, GOOD_TOKEN, get};

const CONNECTIONS: u64 = 100;

/// What one connection whose caller is not known may make the daemon hold (docs/operations.md): in its first moment, when
/// all its requests are looked at together, and from then on.
const AT_FIRST_KIB: u64 = 1024;
const LASTING_KIB: u64 = 256;

/// What may stay of it.
const KEPT_KIB: u64 = 8 * 1024;

/// A connection with 128 refused requests, of which it reads nothing but the connection's own frames.
fn unread_refusals(addr: SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(addr).unwrap();
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    // SETTINGS: an initial window of 0, so that no byte of an answer's body can be sent.
    bytes.extend(*b"\0\0\x06\x04\0\0\0\0\0\0\x04\0\0\0\0");
    // POST, http, a path and an authority; four kinds of header field, none of them remembered.
    let path = "/plimsoll.v1.SandboxService/Describe";
    let mut block = vec![0x83, 0x86, 0x04, u8::try_from(path.len()).unwrap()];
    block.extend(path.as_bytes());
    block.extend(b"\x01\x01a");
    for index in 0..128_u32 {
        let id = 2 * index + 1;
        bytes.extend([0, 0, u8::try_from(block.len()).unwrap(), 1, 0x5]);
        bytes.extend(id.to_be_bytes());
        bytes.extend(&block);
    }
    stream.write_all(&bytes).unwrap();
    let mut first = [0; 9];
    stream.read_exact(&mut first).unwrap();
    stream
}

/// Resident memory in KiB once it is no more than this, or after 15 s.
fn settles(daemon: &Daemon, most: u64) -> u64 {
    let deadline = Instant::now() + Duration::from_secs(15);
    loop {
        let now = daemon.resident_kib();
        if now <= most || Instant::now() >= deadline {
            return now;
        }
        std::thread::sleep(Duration::from_millis(200));
    }
}

#[test]
fn what_strangers_leave_unread_is_bounded_and_given_back_after_them() {
    let daemon = Daemon::start(&[("SANDBOX_PROVIDER", "wasm"), ("PLIMSOLL_TOKEN", GOOD_TOKEN)]);
    assert_eq!(get(daemon.addr, "/readyz").0, 200);
    let before = daemon.resident_kib();
    let held: Vec<TcpStream> = (0..CONNECTIONS).map(|_| unread_refusals(daemon.addr)).collect();
    let at_first = daemon.resident_kib();
    assert!(
        at_first < before + CONNECTIONS * AT_FIRST_KIB,
        "{CONNECTIONS} connections take {} KiB",
        at_first - before
    );
    let lasting = before + CONNECTIONS * LASTING_KIB;
    let during = settles(&daemon, lasting);
    assert!(during <= lasting, "from {before} to {at_first}, and then {during} KiB");
    drop(held);
    let after = settles(&daemon, before + KEPT_KIB);
    assert!(
        after <= before + KEPT_KIB,
        "from {before} to {during} and back to {after} KiB only"
    );
    assert_eq!(get(daemon.addr, "/readyz").0, 200);
}

/// A handshake that lacks its last byte: one message as long as the TLS library takes.
fn unfinished_hello(addr: SocketAddr) -> TcpStream {
    const MESSAGE: usize = 0xffff;
    let mut message = vec![0x01, 0x00, 0xff, 0xfb];
    message.resize(MESSAGE - 1, 0);
    let mut stream = TcpStream::connect(addr).unwrap();
    for part in message.chunks(16 * 1024) {
        let mut record = vec![0x16, 0x03, 0x01];
        record.extend(u16::try_from(part.len()).unwrap().to_be_bytes());
        record.extend(part);
        // The daemon may give up on it at any moment; what it holds by then is what is asked here.
        let _ = stream.write_all(&record);
    }
    stream
}

#[test]
fn handshakes_that_are_not_finished_hold_no_more_than_requests_of_strangers() {
    let folder = tempfile::tempdir().unwrap();
    let signed = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let (cert, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
    fs_err::write(&cert, signed.cert.pem()).unwrap();
    fs_err::write(&key, signed.signing_key.serialize_pem()).unwrap();
    let daemon = Daemon::start(&[
        ("SANDBOX_PROVIDER", "wasm"),
        ("PLIMSOLL_TOKEN", GOOD_TOKEN),
        ("PLIMSOLL_TLS_CERT", cert.to_str().unwrap()),
        ("PLIMSOLL_TLS_KEY", key.to_str().unwrap()),
    ]);
    let before = daemon.resident_kib();
    let held: Vec<TcpStream> = (0..CONNECTIONS).map(|_| unfinished_hello(daemon.addr)).collect();
    std::thread::sleep(Duration::from_millis(500));
    let during = daemon.resident_kib();
    assert!(
        during < before + CONNECTIONS * LASTING_KIB,
        "{CONNECTIONS} handshakes take {} KiB",
        during.saturating_sub(before)
    );
    drop(held);
    let after = settles(&daemon, before + KEPT_KIB);
    assert!(
        after <= before + KEPT_KIB,
        "from {before} to {during} and back to {after} KiB only"
    );
}
