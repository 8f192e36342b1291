//! Faults that other sandboxes shipped, as inputs against the real daemon on the process tier. The number before each
//! test is that of `docs/field-cases.md`, which also says where the other cases are proven or why they cannot occur.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::{Duration, Instant};

use crate::daemon::{Daemon, GOOD_TOKEN, exchange};
use plimsoll_client::{CancelToken, Client, Error, ErrorKind, JavaScriptResult};
use plimsoll_core::{Limit, Reason, RunRequest, Tier};

/// What is kept of one stream of a snippet.
const CAP: usize = 64 * 1024;

struct House {
    daemon: Daemon,
    client: Client,
}

impl House {
    fn new() -> Self {
        Self::with(&[])
    }

    fn with(values: &[(&str, &str)]) -> Self {
        let mut all = vec![
            ("SANDBOX_PROVIDER", "wasm"),
            ("PLIMSOLL_TOKEN", GOOD_TOKEN),
            ("SANDBOX_RATE_PER_MIN", "0"),
            ("SANDBOX_PER_KEY_CONCURRENT", "0"),
        ];
        all.extend_from_slice(values);
        let daemon = Daemon::start(&all);
        let client = Client::builder(format!("http://{}", daemon.addr))
            .token(GOOD_TOKEN)
            .build()
            .unwrap();
        Self { daemon, client }
    }

    async fn run(&self, code: impl Into<String>) -> JavaScriptResult {
        self.client
            .run_javascript(code)
            .floor(Tier::Process)
            .timeout(Duration::from_secs(20))
            .send()
            .await
            .unwrap()
    }

    fn metric(&self, sample: &str) -> u64 {
        let addr = self.daemon.metrics_addr.unwrap();
        let (_, _, page) = exchange(addr, "GET /metrics HTTP/1.1", "");
        let line = page
            .lines()
            .find_map(|line| line.strip_prefix(sample))
            .unwrap_or_else(|| panic!("no {sample}"));
        line.trim().parse().unwrap()
    }
}

fn limit(result: &JavaScriptResult) -> Option<Limit> {
    result.evidence.diagnostics.unwrap().limit_hit
}

#[tokio::test]
async fn case_4_and_47_a_run_deadline_is_typed_as_the_runs_own() {
    let house = House::new();
    let began = Instant::now();
    let result = house
        .client
        .run_javascript("console.log('before'); while (true) {}")
        .floor(Tier::Process)
        .timeout(Duration::from_secs(1))
        .send()
        .await
        .unwrap();
    assert!(
        (1.0..3.0).contains(&began.elapsed().as_secs_f64()),
        "{:?}",
        began.elapsed()
    );
    assert!(result.timed_out);
    assert_eq!(
        (result.exit_code, result.stdout.as_slice()),
        (124, b"before\n".as_slice())
    );
    let own = house.run("process.exit(124)").await;
    assert_eq!(
        (own.exit_code, own.timed_out),
        (124, false),
        "a guest's own 124 is not a deadline"
    );
}

#[tokio::test]
async fn case_13_as_process_1_the_daemon_serves_and_stops_on_a_signal() {
    let house = House::new();
    // The daemon starts no processes, so as process 1 of a container it has none to reap: it never has a child.
    let children = format!("/proc/{0}/task/{0}/children", house.daemon.pid());
    house.run("console.log(1)").await;
    assert_eq!(fs_err::read_to_string(children).unwrap(), "");
    house.daemon.signal(rustix::process::Signal::TERM);
    let (status, _) = house.daemon.wait();
    assert_eq!(status.code(), Some(0));
}

#[tokio::test]
async fn case_26_and_28_the_cap_is_exact_and_leaves_no_trace_in_the_stream() {
    let house = House::new();
    for (bytes, truncated) in [
        (CAP - 1, false),
        (CAP, false),
        (CAP + 1, true),
        (CAP * 8 / 5, true),
        (150_000, true),
    ] {
        let result = house.run(format!("process.stdout.write('x'.repeat({bytes}))")).await;
        assert_eq!(result.stdout_truncated, truncated, "{bytes} bytes");
        assert_eq!(result.stdout.len(), bytes.min(CAP), "{bytes} bytes");
        assert!(
            result.stdout.iter().all(|byte| *byte == b'x'),
            "a marker inside the stream"
        );
        assert_eq!(result.exit_code, 0);
        assert_eq!(result.evidence.diagnostics.unwrap().stdout_bytes, bytes as u64);
        assert!(!result.stderr_truncated);
    }
}

#[tokio::test]
async fn case_29_and_31_a_flood_is_an_output_limit_whose_head_is_kept() {
    let house = House::new();
    let result = house
        .run("for (let i = 0; i < 16260; i++) console.log('Hello world')")
        .await;
    assert_eq!((result.exit_code, limit(&result)), (0, Some(Limit::Output)));
    assert!(result.stdout.starts_with(b"Hello world\nHello world\n"));
    assert_eq!(result.evidence.diagnostics.unwrap().signal, 0);
    let quiet = house.run("console.log('Hello world')").await;
    assert_eq!(limit(&quiet), None);
}

#[tokio::test]
async fn case_32_34_35_37_bytes_leave_as_they_were_written() {
    let house = House::new();
    let split = house.run("process.stdout.write(Buffer.from([0x63,0x61,0x66,0xc3])); setTimeout(() => process.stdout.write(Buffer.from([0xa9,0xe2,0x98,0x95])), 20)").await;
    assert_eq!(split.stdout, "café☕".as_bytes());
    assert_eq!(split.stdout_text(), "café☕");
    let euros = house.run("process.stdout.write('€'.repeat(100000))").await;
    assert_eq!(
        (euros.stdout.len(), euros.stdout_truncated),
        (CAP, true),
        "the limit is bytes"
    );
    let blanks = house.run(r"process.stdout.write('a\n\n\nb\n')").await;
    assert_eq!(blanks.stdout, b"a\n\n\nb\n");
    let nuls = house
        .run(r"process.stdout.write('A=1\0B=2\0'); console.log('x\0y')")
        .await;
    assert_eq!(nuls.stdout, b"A=1\0B=2\0x\0y\n");
    let raw = house.run("process.stdout.write(Uint8Array.of(0xff, 0xfe, 0x00))").await;
    assert_eq!(raw.stdout, [0xff, 0xfe, 0x00]);
}

#[tokio::test]
async fn case_40_a_caller_who_hangs_up_ends_the_run_and_costs_no_memory() {
    let house = House::new();
    let before = house.daemon.resident_kib();
    for _ in 0..20 {
        let token = CancelToken::new();
        let client = house.client.clone();
        let handle = token.clone();
        let call = tokio::spawn(async move {
            client
                .run_javascript("while (true) console.log('x'.repeat(1000))")
                .any_tier()
                .cancel(&handle)
                .send()
                .await
        });
        tokio::time::sleep(Duration::from_millis(60)).await;
        token.cancel();
        let error = call.await.unwrap().unwrap_err();
        assert_eq!(
            (error.kind(), error.not_dispatched()),
            (ErrorKind::RequestCanceled, None),
            "it may have run"
        );
    }
    let patience = Instant::now() + Duration::from_secs(5);
    while house.metric("plimsoll_inflight") > 0 {
        assert!(Instant::now() < patience, "a run outlived its caller");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let grown = house.daemon.resident_kib().saturating_sub(before);
    assert!(grown < 30 * 1024, "grew by {grown} KiB");
}

#[tokio::test]
async fn case_43_and_44_memory_is_told_apart_from_any_other_end() {
    let house = House::with(&[("SANDBOX_MEMORY_MB", "64")]);
    let greedy =
        "const all = []; for (let i = 0; i < 96; i++) all.push(new Uint8Array(1 << 20).fill(i)); console.log('done')";
    let result = house.run(greedy).await;
    assert_eq!(limit(&result), Some(Limit::Memory), "{}", result.stderr_text());
    assert_ne!(result.exit_code, 0);
    assert!(result.stdout.is_empty(), "never prints completion");
    let plain = house.run("process.exit(137)").await;
    assert_eq!((plain.exit_code, limit(&plain)), (137, None));
}

#[tokio::test]
async fn case_50_52_70_71_and_112_no_request_field_offers_what_nobody_honours() {
    // Program input, arguments, environment and a weaker wall are not request fields, so none can be dropped silently.
    let schema = fs_err::read_to_string(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../proto/plimsoll/v1/plimsoll.proto"
    ))
    .unwrap();
    let fields = |message: &str| -> Vec<String> {
        let body = schema
            .split_once(&format!("message {message} {{"))
            .unwrap()
            .1
            .split_once("\n}")
            .unwrap()
            .0;
        let name = |line: &str| Some(line.split_once(" = ")?.0.split_whitespace().last()?.to_owned());
        body.lines()
            .map(str::trim)
            .filter(|line| !line.starts_with("//"))
            .filter_map(name)
            .collect()
    };
    assert_eq!(fields("JavaScriptRun"), ["code", "grant_profile"]);
    assert_eq!(
        fields("RunRequest"),
        [
            "protocol",
            "minimum_isolation",
            "trace_id",
            "timeout_ms",
            "software_rule",
            "javascript",
            "project",
            "module",
            "cell"
        ]
    );
}

#[tokio::test]
async fn case_65_runs_leave_nothing_on_disk_and_122_polling_leaves_nothing_behind() {
    let house = House::new();
    let pid = house.daemon.pid();
    let open = || fs_err::read_dir(format!("/proc/{pid}/fd")).unwrap().count();
    let threads = || fs_err::read_dir(format!("/proc/{pid}/task")).unwrap().count();
    for _ in 0..20 {
        house.run("console.log(1)").await;
        house.client.describe().await.unwrap();
    }
    let (descriptors, tasks) = (open(), threads());
    for _ in 0..1000 {
        house.run("console.log(1)").await;
    }
    for _ in 0..1000 {
        house.client.describe().await.unwrap();
        let (status, _, _) = exchange(house.daemon.addr, "GET /readyz HTTP/1.1", "");
        assert_eq!(status, 200);
    }
    tokio::time::sleep(Duration::from_millis(700)).await;
    assert!(open() <= descriptors + 2, "{descriptors} descriptors became {}", open());
    assert!(threads() <= tasks + 1, "{tasks} threads became {}", threads());
    let maps = fs_err::read_dir(format!("/proc/{pid}/fd")).unwrap();
    for entry in maps {
        let target = fs_err::read_link(entry.unwrap().path()).unwrap_or_default();
        let target = target.to_string_lossy().into_owned();
        let on_disk = target.starts_with('/') && !target.starts_with("/dev/") && !target.starts_with("/memfd:");
        assert!(!on_disk || target.starts_with("/proc/"), "a file is open: {target}");
    }
}

#[tokio::test]
async fn case_82_and_119_a_hundred_at_once_answer_or_are_refused_by_type() {
    let house = House::with(&[("SANDBOX_MAX_CONCURRENT", "8")]);
    let runs = (0..100).map(|n| {
        let client = house.client.clone();
        tokio::spawn(async move {
            client
                .run_javascript(format!("console.log({n})"))
                .any_tier()
                .send()
                .await
        })
    });
    let mut answered = 0;
    for (n, run) in runs.collect::<Vec<_>>().into_iter().enumerate() {
        match run.await.unwrap() {
            Ok(result) => {
                assert_eq!(result.stdout_text(), format!("{n}\n"));
                answered += 1;
            }
            Err(error) => assert_eq!(error.kind(), ErrorKind::AtCapacity, "{error}"),
        }
    }
    assert!(answered >= 8, "{answered} answered");
    assert_eq!(house.metric("plimsoll_inflight"), 0);
    house.run("console.log('still serving')").await;
}

#[tokio::test]
async fn case_94_95_and_97_no_secret_and_no_code_in_arguments_logs_or_metrics() {
    let house = House::new();
    house
        .run("console.log('marker-in-code'); console.error('marker-on-stderr')")
        .await;
    let refused = house
        .client
        .run_javascript("marker-in-code")
        .floor(Tier::Vm)
        .send()
        .await
        .unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InsufficientIsolation);
    let wrong = "wrong-token-wrong-token-wrong-token-wrong";
    let stranger = Client::builder(format!("http://{}", house.daemon.addr))
        .token(wrong)
        .build()
        .unwrap();
    assert_eq!(
        stranger.describe().await.unwrap_err().not_dispatched(),
        Some(plimsoll_client::Refusal::Permission)
    );
    let arguments = fs_err::read(format!("/proc/{}/cmdline", house.daemon.pid())).unwrap();
    let (_, _, metrics) = exchange(house.daemon.metrics_addr.unwrap(), "GET /metrics HTTP/1.1", "");
    house.daemon.signal(rustix::process::Signal::TERM);
    let (_, records) = house.daemon.wait();
    let log = format!("{records:?}");
    assert!(log.contains("code run"), "{log}");
    for (place, text) in [
        ("arguments", String::from_utf8_lossy(&arguments).into_owned()),
        ("metrics", metrics),
        ("log", log),
    ] {
        for secret in [GOOD_TOKEN, wrong, "marker-in-code", "marker-on-stderr"] {
            assert!(!text.contains(secret), "{secret:?} is in the {place}");
        }
    }
}

#[tokio::test]
async fn case_100_refusals_have_one_shape() {
    let house = House::new();
    let ask = |change: fn(&mut RunRequest)| {
        let mut request = RunRequest::javascript("1");
        change(&mut request);
        house.client.exchange(request)
    };
    let shaped = |error: Error| {
        let reason = error.not_dispatched().expect("marked");
        assert!(!error.message().is_empty());
        reason
    };
    use plimsoll_client::Refusal;
    assert_eq!(
        shaped(ask(|r| r.minimum_isolation = "kernel".into()).await.unwrap_err()),
        Refusal::Isolation
    );
    assert_eq!(shaped(ask(|r| r.protocol = 3).await.unwrap_err()), Refusal::Protocol);
    assert_eq!(shaped(ask(|r| r.payload = None).await.unwrap_err()), Refusal::Request);
    let profile = |r: &mut RunRequest| {
        if let Some(plimsoll_core::Payload::JavaScript(run)) = &mut r.payload {
            run.grant_profile = "crm".into();
        }
    };
    assert_eq!(shaped(ask(profile).await.unwrap_err()), Refusal::Permission);
    assert_eq!(Reason::ALL.len(), 7);
}

#[tokio::test]
async fn case_101_nesting_ends_in_an_error_and_never_in_the_daemon() {
    let house = House::new();
    let deep = 100_000;
    let source = format!("{}1{}", "(".repeat(deep), ")".repeat(deep));
    let value = format!("let v = []; for (let i = 0; i < {deep}; i++) v = [v]; console.log(JSON.stringify(v).length)");
    let json = format!("JSON.parse('['.repeat({deep}) + ']'.repeat({deep}))");
    let regex = format!("new RegExp('('.repeat({deep}) + ')'.repeat({deep}))");
    let recursion = "(function f() { return 1 + f() })()".to_owned();
    for code in [source, value, json, regex, recursion] {
        let shown = code.chars().take(40).collect::<String>();
        let result = house.run(code).await;
        assert_eq!(result.exit_code, 1, "{shown}: {}", result.stderr_text());
        assert_eq!(result.evidence.diagnostics.unwrap().trap, None, "{shown}");
        assert!(
            result.stderr_text().contains("Error"),
            "{shown}: {}",
            result.stderr_text()
        );
    }
    let caught = house.run("let n = 0; try { (function f() { n++; f() })() } catch (e) { console.log(e instanceof RangeError, n > 100) }").await;
    assert_eq!(caught.stdout, b"true true\n");
}

#[tokio::test]
async fn case_104_and_106_nothing_host_side_is_reachable() {
    let house = House::new();
    let reach = r#"
        const found = console.log.constructor.constructor("return this")();
        console.log(found === globalThis, typeof found.Deno, typeof found.std, typeof found.os, typeof found.WebAssembly);
        console.log(Object.keys(process.env).length, process.cwd());
        for (const name of ["node:fs", "node:child_process", "qjs:std", "qjs:os", "/etc/passwd", "data:text/javascript,1"])
            await import(name).then(() => console.log("IMPORTED", name), (e) => console.log(e.name.length > 0));
        for (const name of ["fs", "net", "http", "child_process", "worker_threads", "vm"])
            try { require(name); console.log("REQUIRED", name) } catch (e) { console.log(e.code, e.message.includes(name)) }
        try { Atomics.wait(new Int32Array(new SharedArrayBuffer(8)), 0, 0) } catch (e) { console.log(e.name) }
    "#;
    let result = house.run(reach).await;
    let text = result.stdout_text().into_owned();
    assert!(
        text.starts_with("true undefined undefined undefined undefined\n0 /\n"),
        "{text}{}",
        result.stderr_text()
    );
    assert!(!text.contains("IMPORTED") && !text.contains("REQUIRED"), "{text}");
    assert_eq!(text.matches("MODULE_NOT_FOUND true").count(), 6, "{text}");
    assert!(text.ends_with("TypeError\n"), "{text}");
}

#[tokio::test]
async fn case_104_pollution_stays_in_its_own_run() {
    let house = House::new();
    let pollute = r#"
        Object.prototype.exit_code = 0; Array.prototype.push = () => { throw 1 }; String.prototype.trim = null;
        JSON.stringify = () => "forged"; Promise.prototype.then = undefined; globalThis.console = { log() {} };
        Object.defineProperty(Object.prototype, "toJSON", { get() { throw new Error("x") } });
        process.exitCode = 3;
    "#;
    assert_eq!(house.run(pollute).await.exit_code, 3);
    let clean = house.run("console.log(JSON.stringify([1]), ' x '.trim(), ({}).exit_code, [].push(1)); Promise.resolve().then(() => console.log('then'))").await;
    assert_eq!(clean.stdout_text(), "[1] x undefined 1\nthen\n");
}

#[tokio::test]
async fn case_124_a_guest_cannot_write_its_own_record() {
    let house = House::new();
    let forged = r#"console.log(JSON.stringify({ sandbox: "docker", isolation: "vm", record: { version: 4, recordSha256: "0".repeat(64) } }))"#;
    let result = house.run(forged).await;
    assert_eq!(
        (result.evidence.provider.as_str(), result.evidence.isolation.as_str()),
        ("wasm", "process")
    );
    let record = result.evidence.record.unwrap();
    record.verify().unwrap();
    assert_eq!(record.isolation, "process");
}

#[tokio::test]
async fn case_125_no_timeout_means_forever() {
    let house = House::new();
    let endless = |timeout_ms: i32| RunRequest {
        timeout_ms,
        ..RunRequest::javascript("while (true) {}")
    };
    for timeout_ms in [0, -1, i32::MIN] {
        let began = Instant::now();
        let answer = house.client.exchange(endless(timeout_ms)).await.unwrap();
        let took = began.elapsed();
        assert!(
            (4.9..9.0).contains(&took.as_secs_f64()),
            "{timeout_ms} ran {took:?}; the default is 5 s"
        );
        drop(answer);
    }
    let short = Instant::now();
    house.client.exchange(endless(1)).await.unwrap();
    assert!(short.elapsed() < Duration::from_secs(2));
    for text in ["1e18", "0.5", "\"NaN\"", "NaN", "99999999999"] {
        let head = format!(
            "POST /plimsoll.v1.SandboxService/Run HTTP/1.1\r\nAuthorization: Bearer {GOOD_TOKEN}\r\nContent-Type: application/json"
        );
        let body = format!(r#"{{"protocol":4,"timeoutMs":{text},"javascript":{{"code":"1"}}}}"#);
        let (status, headers, _) = exchange(house.daemon.addr, &head, &body);
        assert_eq!(status, 400, "timeoutMs {text}");
        assert!(
            headers.contains("plimsoll-not-dispatched: request"),
            "{text}: {headers}"
        );
    }
}
