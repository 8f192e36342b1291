//! A daemon with alice, whom the attempts are aimed at, and bob, who makes them.

use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::daemon::{Daemon, exchange};
use crate::grants::api::Api;
use crate::grants::setup::{ALICE, BOB, Call, Files, metrics, profile, series, stream};

/// How long anything may take that is waited for, on a machine that does other things too.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Alice's grant, whose profile only she may name.
pub(crate) const GRANT: &str = "berths";

pub(crate) struct House {
    pub(crate) daemon: Daemon,
    /// The API of alice's grant.
    pub(crate) api: Api,
    _files: Files,
}

impl House {
    pub(crate) fn new() -> Self {
        Self::with(&[])
    }

    /// With these variables beside sessions for everybody.
    pub(crate) fn with(more: &[(&str, &str)]) -> Self {
        let api = Api::echoing_paths();
        let token = json!({"type": "jwt", "secret_env": "API_SECRET", "audience": "port"});
        let own = profile(&api.origin(), &["GET /berths/*"], &json!({ "token": token }));
        let shared = json!({ "token": token, "allowed_callers": ["alice", "bob"] });
        let shared = profile(&api.origin(), &["GET /shared/*"], &shared);
        let files = Files::new(&json!({ GRANT: own, "shared": shared }));
        let mut values = vec![("SANDBOX_MAX_SESSIONS", "8")];
        values.extend_from_slice(more);
        let daemon = files.start(&values);
        Self {
            daemon,
            api,
            _files: files,
        }
    }

    /// One procedure by the caller of this token: status, head and body.
    pub(crate) fn raw(&self, token: &str, procedure: &str, body: &Value) -> (u16, String, Value) {
        self.raw_with(token, procedure, "", body)
    }

    /// The same with more header lines, each ended by CR LF.
    pub(crate) fn raw_with(&self, token: &str, procedure: &str, headers: &str, body: &Value) -> (u16, String, Value) {
        let head = format!(
            "POST /plimsoll.v1.SandboxService/{procedure} HTTP/1.1\r\nContent-Type: application/json\r\n\
             Authorization: Bearer {token}\r\n{headers}"
        );
        let (status, head, body) = exchange(self.daemon.addr, &head, &body.to_string());
        (status, head, serde_json::from_str(&body).unwrap())
    }

    /// Status and answer.
    pub(crate) fn call(&self, token: &str, procedure: &str, body: &Value) -> (u16, Value) {
        let (status, _, answer) = self.raw(token, procedure, body);
        (status, answer)
    }

    /// A session of this caller, with one variable set: `const kept = "alices-canary"` and the like.
    pub(crate) fn session(&self, caller: (&str, &str)) -> Value {
        let (status, opened) = self.call(caller.1, "OpenSession", &json!({"protocol": 4}));
        assert_eq!(status, 200, "{opened}");
        let (status, set) = self.cell(
            caller.1,
            &opened["sessionId"],
            &format!("globalThis.kept = '{}s-canary'", caller.0),
        );
        assert_eq!(status, 200, "{set}");
        opened
    }

    pub(crate) fn cell(&self, token: &str, id: &Value, code: &str) -> (u16, Value) {
        let body = json!({"protocol": 4, "sessionId": id, "cell": {"language": "javascript", "code": code}});
        self.call(token, "SessionRun", &body)
    }

    /// What alice's session still holds.
    pub(crate) fn still_alices(&self, opened: &Value) {
        let (status, answer) = self.cell(ALICE.1, &opened["sessionId"], "console.log(kept)");
        assert_eq!(status, 200, "{answer}");
        assert_eq!(answer["run"]["cell"]["stdout"], "YWxpY2VzLWNhbmFyeQo=", "{answer}");
    }

    /// A snippet of this caller, without a grant where the profile is empty.
    pub(crate) fn snippet(&self, caller: (&str, &str), profile: &str, code: &str) -> (u16, Value) {
        let call = Call {
            token: Some(caller.1),
            ..Call::of(profile, code)
        };
        let (status, answer, _) = call.send(self.daemon.addr);
        (status, answer)
    }

    /// What bob's snippet prints.
    pub(crate) fn bob_prints(&self, code: &str) -> String {
        let (status, answer) = self.snippet(BOB, "", code);
        assert_eq!(status, 200, "{answer}");
        stream(&answer, "stdout")
    }

    /// A value of the metrics page.
    pub(crate) fn metric(&self, name: &str) -> u64 {
        let page = metrics(&self.daemon);
        let lines = series(&page, name);
        assert_eq!(lines.len(), 1, "{name}: {lines:?}");
        lines[0].rsplit(' ').next().unwrap().parse().unwrap()
    }

    /// Waits until so many slots are held.
    pub(crate) fn in_flight(&self, runs: u64) {
        let began = Instant::now();
        while self.metric("plimsoll_inflight ") != runs {
            assert!(began.elapsed() < PATIENCE, "never {runs} in flight");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Bob's run that goes on until its time limit or until the connection is dropped.
    pub(crate) fn bob_spins(&self) -> TcpStream {
        crate::daemon::begin_snippet(self.daemon.addr, BOB.1, 60_000, "for (;;);")
    }

    /// Stops the daemon and gives its log, a record a line, as it was written.
    pub(crate) fn log(self) -> Vec<Value> {
        self.daemon.signal(rustix::process::Signal::TERM);
        let (status, records) = self.daemon.wait();
        assert_eq!(status.code(), Some(0));
        records
    }
}

/// The audit lines among the records.
pub(crate) fn audit(records: &[Value]) -> Vec<&Value> {
    let ended = |record: &&Value| record["msg"].as_str().is_some_and(|msg| msg.starts_with("code run"));
    records.iter().filter(ended).collect()
}
