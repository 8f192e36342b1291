//! The one door to the host: the broker's socket, without a grant behind it.

use std::time::{Duration, Instant};

use crate::kit::{answer, attempts, output, request, still_serves, told};
use crate::support::{gvisor, project_of, run};

#[test]
fn without_a_grant_every_request_is_answered_503() {
    run(async {
        let result = told(&["#py
def ask(text):
    s = socket.socket(socket.AF_UNIX); s.settimeout(5); s.connect('/run/host-api.sock')
    s.sendall(text)
    data = s.recv(65536)
    return data.split(b'\\r\\n')[0].decode()
for line in (b'GET / HTTP/1.1', b'POST /admin HTTP/1.1', b'CONNECT 127.0.0.1:22 HTTP/1.1', b'GET http://169.254.169.254/ HTTP/1.1', b'OPTIONS * HTTP/1.1', b'DELETE /../../x HTTP/1.1'):
    print(ask(line + b'\\r\\nHost: x\\r\\n\\r\\n'))
"])
        .await;
        let text = output(&result);
        for line in text.lines() {
            assert!(
                line.starts_with("HTTP/1.1 5") || line.starts_with("HTTP/1.1 4"),
                "{text}"
            );
            assert!(!line.starts_with("HTTP/1.1 500"), "{text}");
        }
        assert_eq!(text.lines().count(), 6);
        assert!(text.starts_with("HTTP/1.1 503"), "{text}");
    });
}

#[test]
fn garbage_and_huge_heads_are_answered_or_cut_and_hold_nobody() {
    run(async {
        let began = Instant::now();
        let result = told(&["#py
def throw(data, more=0):
    s = socket.socket(socket.AF_UNIX); s.settimeout(8); s.connect('/run/host-api.sock')
    sent = 0
    try:
        s.sendall(data)
        while sent < more: sent += s.send(b'x' * 65536)
    except OSError: pass
    try: answer = s.recv(4096)
    except OSError as error: answer = b'gone'
    return (answer.split(b' ') + [b'cut'])[1].decode(), sent < 4 << 20
print(throw(os.urandom(70000)))
print(throw(b'GET / HTTP/1.1\\r\\n' + b'A: ' + b'x' * 100000 + b'\\r\\n\\r\\n'))
print(throw(b'GET /' + b'a' * 50000000 + b' HTTP/1.1\\r\\n\\r\\n'))
print(throw(b'\\0' * 100000)); print(throw(b'\\r\\n' * 100000)); print(throw(b'\\n' * 100000))
print(throw(b'POST / HTTP/1.1\\r\\nContent-Length: 99999999999999999999\\r\\n\\r\\n'))
print(throw(b'POST / HTTP/1.1\\r\\nContent-Length: 9223372036854775807\\r\\n\\r\\n', 100 << 20))
print(throw(b'POST / HTTP/1.1\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\nffffffffffffffff\\r\\n', 100 << 20))
print(throw(b'POST / HTTP/1.1\\r\\nContent-Length: 4\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n0\\r\\n\\r\\nGET / HTTP/1.1\\r\\n\\r\\n'))
print(throw(b'PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\n'))
print(throw(b'GET / HTTP/1.1\\r\\n' + b''.join(b'H%d: x\\r\\n' % i for i in range(2000)) + b'\\r\\n'))
"])
        .await;
        let text = output(&result);
        assert_eq!(text.lines().count(), 12, "{text} {:?}", result.steps[0]);
        assert!(!text.contains("('2") && !text.contains("('500'"), "{text}");
        assert!(began.elapsed() < Duration::from_secs(20));
        still_serves().await;
    });
}

#[test]
fn a_thirty_third_connection_waits_and_is_served_when_one_ends() {
    run(async {
        let result = told(&["#py
def dial():
    s = socket.socket(socket.AF_UNIX); s.settimeout(3); s.connect('/run/host-api.sock'); return s
held = [dial() for _ in range(32)]
time.sleep(0.3)
late = dial()
late.sendall(b'GET / HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n')
late.settimeout(1)
try: print('served early', late.recv(10))
except (TimeoutError, socket.timeout): print('waits')
held.pop().close()
late.settimeout(3)
print(late.recv(12).decode())
"])
        .await;
        assert_eq!(output(&result), "waits\nHTTP/1.1 503\n", "{result:?}");
    });
}

#[test]
fn thousands_of_connections_and_a_flood_of_requests_leave_the_daemon_quick() {
    run(async {
        let flood = "#py
held = []
end = time.time() + 8
try:
    while len(held) < 3000:
        s = socket.socket(socket.AF_UNIX); s.setblocking(False)
        s.connect('/run/host-api.sock'); held.append(s)
except OSError: pass
held = held[:40]
for turn in range(8):
    if os.fork() == 0:
        while time.time() < end:
            try:
                s = socket.socket(socket.AF_UNIX); s.settimeout(1); s.connect('/run/host-api.sock')
                for _ in range(100): s.sendall(b'GET /x HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n' * 20); s.recv(65536)
            except OSError: pass
        os._exit(0)
held = None
time.sleep(8)
print('over', flush=True)
";
        let beside = async {
            tokio::time::sleep(Duration::from_secs(2)).await;
            let began = Instant::now();
            for _ in 0..3 {
                still_serves().await;
            }
            began.elapsed()
        };
        let (flooded, took) = tokio::join!(answer(request(&[flood], &[], 20_000)), beside);
        assert!(took < Duration::from_secs(6), "{took:?}");
        assert_eq!(output(&project_of(&flooded)), "over\n");
    });
}

#[test]
fn a_pipe_sent_over_the_socket_does_not_hold_the_run() {
    run(async {
        let began = Instant::now();
        let program = "#py
import array
sent = 0
for number in range(60):
    s = socket.socket(socket.AF_UNIX); s.settimeout(1)
    try:
        s.connect('/run/host-api.sock')
        s.sendmsg([b'P'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [1, 2]))]); sent += 1
        globals()['held%d' % number] = s
    except OSError: break
a, b = socket.socketpair()
try: a.sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [1, 2, a.fileno(), b.fileno()]))])
except OSError: pass
print(sent > 0, flush=True)
";
        let result = told(&[program, "echo next"]).await;
        assert_eq!(output(&result), if gvisor() { "False\n" } else { "True\n" });
        assert!(began.elapsed() < Duration::from_secs(6), "{:?}", began.elapsed());
        still_serves().await;
    });
}

#[test]
fn a_connection_left_open_in_the_middle_of_a_request_does_not_hold_the_run() {
    run(async {
        let began = Instant::now();
        let found = attempts(
            "
for number in range(20):
    s = socket.socket(socket.AF_UNIX); s.connect('/run/host-api.sock'); s.sendall(b'POST / HTTP/1.1\\r\\nContent-Length: 1000\\r\\n\\r\\nabc'); globals()['h%d' % number] = s
if os.fork() == 0:
    os.setsid(); time.sleep(100)
attempt('left open', lambda: None)
",
        )
        .await;
        assert_eq!(found["left open"], "done");
        assert!(began.elapsed() < Duration::from_secs(6), "{:?}", began.elapsed());
    });
}
