//! A daemon with callers and profiles, and calls that name a profile.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::daemon::{Daemon, exchange, get, write_clients};

/// The credential of every static profile here.
pub(crate) const STATIC: &str = "api-credential-5f1d2c3b4a";

/// The secret of every JWT profile here.
pub(crate) const SECRET: &str = "jwt-signing-secret-0123456789abcdef";

/// A caller with the scope to run.
pub(crate) const ALICE: (&str, &str) = ("alice", "alice-token-0123456789abcdef0123456789abcdef");
pub(crate) const BOB: (&str, &str) = ("bob", "bob-token-0123456789abcdef0123456789abcdef01");

/// A folder with a clients file and a grants file.
pub(crate) struct Files {
    folder: tempfile::TempDir,
}

impl Files {
    /// `profiles` is the object of the grants file.
    pub(crate) fn new(profiles: &Value) -> Self {
        let folder = tempfile::tempdir().unwrap();
        write_clients(&folder.path().join("clients.json"), &[ALICE, BOB]);
        fs_err::write(
            folder.path().join("grants.json"),
            json!({ "profiles": profiles }).to_string(),
        )
        .unwrap();
        Self { folder }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Starts a daemon with both files, the secrets of the profiles and more variables.
    pub(crate) fn start(&self, more: &[(&str, &str)]) -> Daemon {
        let clients = self.path("clients.json");
        let mut values = vec![("PLIMSOLL_CLIENTS_FILE", text(&clients))];
        values.extend_from_slice(more);
        self.start_with(&values)
    }

    /// The same without callers of its own.
    pub(crate) fn start_with(&self, values: &[(&str, &str)]) -> Daemon {
        let grants = self.path("grants.json");
        let mut all = vec![
            ("SANDBOX_PROVIDER", "wasm"),
            ("SANDBOX_RATE_PER_MIN", "0"),
            ("PLIMSOLL_GRANTS_FILE", text(&grants)),
            ("API_TOKEN", STATIC),
            ("API_SECRET", SECRET),
        ];
        all.extend_from_slice(values);
        Daemon::start(&all)
    }
}

pub(crate) fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// A profile of `origin` that alice may use, with the static credential; `more` adds fields or replaces them.
pub(crate) fn profile(origin: &str, allow: &[&str], more: &Value) -> Value {
    let mut profile = json!({
        "base_url": origin,
        "allow": allow,
        "allowed_callers": ["alice"],
        "token": {"env": "API_TOKEN"},
    });
    for (key, value) in more.as_object().unwrap() {
        profile[key] = value.clone();
    }
    profile
}

/// A run through `Run` as Connect JSON.
pub(crate) struct Call<'a> {
    pub(crate) token: Option<&'a str>,
    pub(crate) profile: &'a str,
    pub(crate) code: &'a str,
    pub(crate) timeout_ms: u32,
    pub(crate) trace_id: &'a str,
}

impl<'a> Call<'a> {
    /// As alice, with the provider's default timeout.
    pub(crate) fn of(profile: &'a str, code: &'a str) -> Self {
        Self {
            token: Some(ALICE.1),
            profile,
            code,
            timeout_ms: 0,
            trace_id: "",
        }
    }

    pub(crate) fn head(&self) -> String {
        let mut head = "POST /plimsoll.v1.SandboxService/Run HTTP/1.1\r\nContent-Type: application/json\r\n".to_owned();
        if let Some(token) = self.token {
            write!(head, "Authorization: Bearer {token}\r\n").unwrap();
        }
        head
    }

    pub(crate) fn body(&self) -> String {
        json!({
            "protocol": 4,
            "timeoutMs": self.timeout_ms,
            "traceId": self.trace_id,
            "javascript": {"code": self.code, "grantProfile": self.profile},
        })
        .to_string()
    }

    /// Status and answer; the answer's raw text, head included, stands beside it.
    pub(crate) fn send(&self, addr: SocketAddr) -> (u16, Value, String) {
        let (status, head, body) = exchange(addr, &self.head(), &self.body());
        (status, serde_json::from_str(&body).unwrap(), format!("{head}\n{body}"))
    }

    /// The answer of a run that must have been answered with exit code 0, and what it printed.
    pub(crate) fn ran(&self, addr: SocketAddr) -> (Value, String) {
        let (status, answer, raw) = self.send(addr);
        assert_eq!(status, 200, "{raw}");
        let stderr = stream(&answer, "stderr");
        assert_eq!(answer["javascript"]["exitCode"].as_i64().unwrap_or(0), 0, "{stderr}");
        let stdout = stream(&answer, "stdout");
        (answer, stdout)
    }
}

/// What a run wrote to one of its streams.
pub(crate) fn stream(answer: &Value, name: &str) -> String {
    let encoded = answer["javascript"][name].as_str().unwrap_or_default();
    String::from_utf8(from_base64(encoded)).unwrap()
}

/// Decodes either alphabet, with or without padding.
pub(crate) fn from_base64(text: &str) -> Vec<u8> {
    let (mut bytes, mut bits, mut held) = (Vec::new(), 0_u32, 0);
    for byte in text.bytes().filter(|byte| *byte != b'=') {
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            _ => panic!("{text:?} is not base64"),
        };
        bits = bits << 6 | u32::from(value);
        held += 6;
        if held >= 8 {
            held -= 8;
            bytes.push((bits >> held & 0xff) as u8);
        }
    }
    bytes
}

/// The metrics page.
pub(crate) fn metrics(daemon: &Daemon) -> String {
    let (status, _, page) = get(daemon.metrics_addr.unwrap(), "/metrics");
    assert_eq!(status, 200);
    page
}

/// The lines of the page that start with `name`, help and type lines not included.
pub(crate) fn series<'a>(page: &'a str, name: &str) -> Vec<&'a str> {
    page.lines().filter(|line| line.starts_with(name)).collect()
}
