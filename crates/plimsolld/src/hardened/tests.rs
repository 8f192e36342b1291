//! The table of hardened mode: a base in which every rule holds, and what each change to it breaks.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use plimsoll_core::vars::parse_host_port;

use super::*;
use crate::config::{Config, Problem};

const KERNEL: Option<Isolation> = Some(Isolation::Proven(Tier::Kernel));

/// What an entry of the registry states that is paid by the second; nothing else of it is wrong.
const METERED: Terms = Terms {
    violations: Vec::new(),
    never: None,
    metered: true,
};

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// Variables that a configuration has otherwise than the base.
type Changes<'a> = &'a [(&'a str, &'a str)];

/// Files that a configuration names.
struct Files {
    folder: tempfile::TempDir,
}

impl Files {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let files = Self { folder };
        let digest = "ab".repeat(32);
        files.write(
            "clients.json",
            &format!(r#"{{"clients": [{{"id": "mcp-b", "token_sha256": "{digest}", "scopes": ["code:run"]}}]}}"#),
        );
        files.pair("", 4000);
        files.pair("expired-", 2021);
        files.write(
            "grants.json",
            r#"{"profiles": {
                "all": {"base_url": "http://127.0.0.1:1", "allowed_callers": ["*"]},
                "one": {"base_url": "http://127.0.0.1:1", "allowed_callers": ["mcp-b"]}}}"#,
        );
        files
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        fs_err::write(&path, text).unwrap();
        fs_err::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        path
    }

    /// A certificate that is valid until this year, and its key.
    fn pair(&self, prefix: &str, until: i32) {
        let mut params = rcgen::CertificateParams::new(["localhost".to_owned()]).unwrap();
        params.not_before = rcgen::date_time_ymd(2020, 1, 1);
        params.not_after = rcgen::date_time_ymd(until, 1, 1);
        let key = rcgen::KeyPair::generate().unwrap();
        self.write(&format!("{prefix}cert.pem"), &params.self_signed(&key).unwrap().pem());
        self.write(&format!("{prefix}key.pem"), &key.serialize_pem());
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }

    /// The base of the table, with these changes; a value of `-` takes a variable away.
    fn lookup(&self, changes: &[(&str, &str)]) -> BTreeMap<OsString, OsString> {
        let image = format!("sha256:{}", "0a".repeat(32));
        let mut values: BTreeMap<String, String> = [
            ("PLIMSOLL_HARDENED", "true"),
            ("SANDBOX_PROVIDER", "docker"),
            ("SANDBOX_DOCKER_RUNTIME", "runsc"),
            ("SANDBOX_DOCKER_IMAGE", &image),
            ("SANDBOX_DOCKER_PROJECT_IMAGE", &image),
            ("SANDBOX_REQUIRE_PINNED_IMAGES", "true"),
            // Named, so that nothing of the host's own docker client counts.
            ("DOCKER_HOST", "unix:///nonexistent/docker.sock"),
            ("SANDBOX_MEMORY_MB", "256"),
            ("SANDBOX_CPUS", "1"),
            ("SANDBOX_DISK_MB", "1024"),
            ("SANDBOX_PIDS", "128"),
            ("SANDBOX_TOTAL_MEMORY_MB", "4096"),
            ("SANDBOX_MAX_CONCURRENT", "8"),
            ("SANDBOX_PER_KEY_CONCURRENT", "4"),
            ("SANDBOX_RATE_PER_MIN", "30"),
            ("SANDBOX_RATE_BURST", "30"),
            ("PLIMSOLL_ADDR", ":8746"),
            ("PLIMSOLL_CLIENTS_FILE", &self.path("clients.json")),
            ("PLIMSOLL_TLS_CERT", &self.path("cert.pem")),
            ("PLIMSOLL_TLS_KEY", &self.path("key.pem")),
        ]
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
        for (name, value) in changes {
            match *value {
                "-" => values.remove(*name),
                value => values.insert((*name).to_owned(), value.to_owned()),
            };
        }
        values
            .into_iter()
            .map(|(name, value)| (name.into(), value.into()))
            .collect()
    }

    /// The report of the first pass; none when the configuration is accepted.
    fn report(&self, changes: &[(&str, &str)]) -> Option<Report> {
        let problems = match Config::read(&self.lookup(changes)) {
            Ok(config) => {
                let facts = config.hardened.expect("hardened mode is on");
                assert_eq!(judge(&facts, KERNEL), Ok(()), "{changes:?}");
                return None;
            }
            Err(problems) => problems,
        };
        let mut reports = problems.into_iter().filter_map(|problem| match problem {
            Problem::Hardened(report) => Some(report),
            Problem::Setting(_) => None,
        });
        let report = reports.next().expect("a report");
        assert!(reports.next().is_none(), "one report");
        Some(report)
    }

    fn rules(&self, changes: &[(&str, &str)]) -> Vec<u8> {
        let report = self.report(changes);
        report.map_or_else(Vec::new, |report| {
            report.violations.iter().map(|violation| violation.rule).collect()
        })
    }

    /// The base's facts.
    fn facts(&self) -> Facts {
        let Ok(config) = Config::read(&self.lookup(&[])) else {
            panic!("the base is accepted");
        };
        config.hardened.unwrap()
    }
}

const NO_TLS: [(&str, &str); 2] = [("PLIMSOLL_TLS_CERT", "-"), ("PLIMSOLL_TLS_KEY", "-")];

/// Without TLS, and more.
fn in_clear<'a>(more: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    NO_TLS.iter().chain(more).copied().collect()
}

#[test]
fn the_base_and_what_is_as_safe_is_accepted() {
    let files = Files::new();
    for changes in [
        &[][..],
        &in_clear(&[("PLIMSOLL_ADDR", "127.0.0.1:8746")]),
        &in_clear(&[
            ("PLIMSOLL_ADDR", "[::1]:8746"),
            ("PLIMSOLL_METRICS_ADDR", "LOCALHOST:1"),
        ]),
        &[("PLIMSOLL_METRICS_ADDR", ":9464")],
        &[("PLIMSOLL_METRICS_ADDR", "off")],
        &in_clear(&[("PLIMSOLL_ADDR", "127.0.0.1:8746"), ("PLIMSOLL_METRICS_ADDR", "off")]),
        &[("SANDBOX_RATE_BURST", "-")],
        &[("SANDBOX_MAX_SESSIONS", "4"), ("SANDBOX_MAX_SESSIONS_PER_CALLER", "2")],
        &[("PLIMSOLL_INSECURE", "  ")],
    ] {
        assert_eq!(files.rules(changes), [] as [u8; 0], "{changes:?}");
    }
    assert!(
        Config::read(&files.lookup(&[("PLIMSOLL_HARDENED", "false"), ("PLIMSOLL_INSECURE", "0")]))
            .ok()
            .unwrap()
            .hardened
            .is_none()
    );
}

#[test]
fn each_change_breaks_its_rule() {
    let files = Files::new();
    let expired = [
        ("PLIMSOLL_TLS_CERT", files.path("expired-cert.pem")),
        ("PLIMSOLL_TLS_KEY", files.path("expired-key.pem")),
    ];
    let grants = files.path("grants.json");
    let rows: &[(Changes<'_>, &[u8])] = &[
        (&[("PLIMSOLL_CLIENTS_FILE", "-"), ("PLIMSOLL_TOKEN", TOKEN)], &[2]),
        (&[("PLIMSOLL_CLIENTS_FILE", "-"), ("PLIMSOLL_INSECURE", "1")], &[2, 3]),
        (&[("PLIMSOLL_INSECURE", "0")], &[3]),
        (&in_clear(&[]), &[4]),
        (&in_clear(&[("PLIMSOLL_ADDR", "10.0.0.5:8746")]), &[4]),
        (
            &in_clear(&[("PLIMSOLL_ADDR", "localhost:1"), ("PLIMSOLL_METRICS_ADDR", ":9464")]),
            &[5],
        ),
        (&[("SANDBOX_REQUIRE_PINNED_IMAGES", "yes")], &[7]),
        (&[("SANDBOX_REQUIRE_PINNED_IMAGES", "-")], &[7]),
        (&[("SANDBOX_DOCKER_SECCOMP", "unconfined")], &[7]),
        (&[("SANDBOX_MEMORY_MB", "-")], &[11]),
        (&[("SANDBOX_MEMORY_MB", "0")], &[11]),
        (&[("SANDBOX_CPUS", "0")], &[11]),
        (&[("SANDBOX_CPUS", "lots")], &[11]),
        (&[("SANDBOX_TOTAL_MEMORY_MB", "-")], &[11]),
        (&[("SANDBOX_RATE_PER_MIN", "0")], &[12]),
        (&[("SANDBOX_RATE_BURST", "31")], &[13]),
        (&[("SANDBOX_PER_KEY_CONCURRENT", "0")], &[14]),
        (&[("SANDBOX_PER_KEY_CONCURRENT", "8")], &[15]),
        (
            &[("SANDBOX_MAX_CONCURRENT", "1"), ("SANDBOX_PER_KEY_CONCURRENT", "-")],
            &[15],
        ),
        // What the memory lowers the runs to is what counts.
        (&[("SANDBOX_TOTAL_MEMORY_MB", "1024")], &[15]),
        (&[("SANDBOX_MAX_SESSIONS", "4")], &[16]),
        (&[("SANDBOX_MAX_CONCURENT", "4")], &[18]),
        (&[("PLIMSOLL_GRANTS_FILE", &grants)], &[19]),
        (
            &[
                ("PLIMSOLL_GRANTS_FILE", &grants),
                ("PLIMSOLL_HARDENED_OPEN_PROFILES", "one"),
            ],
            &[19],
        ),
        (
            &[
                ("PLIMSOLL_GRANTS_FILE", &grants),
                ("PLIMSOLL_HARDENED_OPEN_PROFILES", " all "),
            ],
            &[],
        ),
        (&[(expired[0].0, &expired[0].1), (expired[1].0, &expired[1].1)], &[21]),
    ];
    for (changes, expected) in rows {
        assert_eq!(files.rules(changes), *expected, "{changes:?}");
    }
    let clients = files.folder.path().join("clients.json");
    for (mode, expected) in [(0o620, &[20][..]), (0o602, &[20]), (0o644, &[])] {
        fs_err::set_permissions(&clients, std::fs::Permissions::from_mode(mode)).unwrap();
        assert_eq!(files.rules(&[]), expected, "{mode:o}");
    }
}

#[test]
fn what_is_wrong_is_named_with_what_to_do() {
    let files = Files::new();
    for (changes, words) in [
        (
            &[("SANDBOX_REQUIRE_PINNED_IMAGES", "yes")][..],
            "rule 7: SANDBOX_REQUIRE_PINNED_IMAGES cannot be read; set it to true",
        ),
        (&[("SANDBOX_MEMORY_MB", "-")], "not set: SANDBOX_MEMORY_MB; set each"),
        (&[("SANDBOX_CPUS", "lots")], "not above 0: SANDBOX_CPUS; set each"),
        (
            &in_clear(&[]),
            "rule 4: PLIMSOLL_ADDR=:8746 is reached from other hosts in clear",
        ),
        (
            &[("SANDBOX_MAX_CONCURENT", "4711")],
            "rule 18: nothing reads a variable of this name: SANDBOX_MAX_CONCURENT;",
        ),
    ] {
        let told = files.report(changes).unwrap().to_string();
        assert!(
            told.starts_with("hardened mode (PLIMSOLL_HARDENED) refuses to serve: 1 rule does not hold; rule "),
            "{told}"
        );
        assert!(told.contains(words) && !told.contains("4711"), "{told}");
    }
}

#[test]
fn everything_that_is_wrong_is_in_one_report() {
    let files = Files::new();
    let expired = (files.path("expired-cert.pem"), files.path("expired-key.pem"));
    let grants = files.path("grants.json");
    let envelope = [
        "SANDBOX_MEMORY_MB",
        "SANDBOX_CPUS",
        "SANDBOX_DISK_MB",
        "SANDBOX_PIDS",
        "SANDBOX_TOTAL_MEMORY_MB",
    ];
    let mut changes = in_clear(&[
        ("PLIMSOLL_CLIENTS_FILE", "-"),
        ("PLIMSOLL_TOKEN", TOKEN),
        ("PLIMSOLL_INSECURE", "0"),
        ("PLIMSOLL_METRICS_ADDR", ":9464"),
        ("SANDBOX_REQUIRE_PINNED_IMAGES", "-"),
        ("SANDBOX_DOCKER_SECCOMP", "unconfined"),
        ("SANDBOX_RATE_PER_MIN", "0"),
        ("SANDBOX_PER_KEY_CONCURRENT", "0"),
        ("SANDBOX_MAX_SESSIONS", "4"),
        ("SANDBOX_MAX_CONCURENT", "4"),
        ("PLIMSOLL_GRANTS_FILE", &grants),
    ]);
    changes.extend(envelope.map(|name| (name, "-")));
    let first = files.rules(&changes);
    assert_eq!(first, [2, 3, 4, 5, 7, 7, 11, 12, 14, 16, 18, 19]);

    // What cannot be wrong beside those.
    let clients = files.folder.path().join("clients.json");
    fs_err::set_permissions(&clients, std::fs::Permissions::from_mode(0o622)).unwrap();
    let second = files.rules(&[
        ("PLIMSOLL_TLS_CERT", &expired.0),
        ("PLIMSOLL_TLS_KEY", &expired.1),
        ("SANDBOX_RATE_BURST", "31"),
        ("SANDBOX_PER_KEY_CONCURRENT", "8"),
    ]);
    assert_eq!(second, [13, 15, 20, 21]);

    // And what no provider of this build can have wrong: its entry in the registry states it, or that it is metered.
    let facts = Facts {
        tls: Some(None),
        rpc: None,
        guard: parse_host_port(":8443"),
        provider: Some(Terms {
            violations: [8, 9, 10]
                .map(|rule| Violation::new(rule, "as its entry says"))
                .to_vec(),
            ..METERED
        }),
        ..files_with_private_clients(&files)
    };
    let third: Vec<u8> = violations(&facts, None, Duration::ZERO)
        .iter()
        .map(|violation| violation.rule)
        .collect();
    assert_eq!(third, [6, 8, 9, 10, 17]);
    let all: BTreeSet<u8> = first.into_iter().chain(second).chain(third).collect();
    assert_eq!(all, (2..=21).collect());
}

fn files_with_private_clients(files: &Files) -> Facts {
    let clients = files.folder.path().join("clients.json");
    fs_err::set_permissions(&clients, std::fs::Permissions::from_mode(0o600)).unwrap();
    files.facts()
}

#[test]
fn the_second_pass_asks_for_the_tier_that_was_proven_and_for_everything_else_again() {
    let facts = Files::new().facts();
    let rules = |facts: &Facts, proven| -> Vec<u8> {
        let found = violations(facts, Some(proven), Duration::from_secs(1_800_000_000));
        found.iter().map(|violation| violation.rule).collect()
    };
    for (proven, expected) in [
        (Isolation::Proven(Tier::Vm), &[][..]),
        (Isolation::Proven(Tier::Kernel), &[]),
        (Isolation::Proven(Tier::Container), &[1]),
        (Isolation::Proven(Tier::Process), &[1]),
        (Isolation::None, &[1]),
        (Isolation::Unknown, &[1]),
    ] {
        assert_eq!(rules(&facts, proven), expected, "{proven}");
    }
    // A certificate may end while the provider is proven.
    let late = Duration::from_secs(4100 * 365 * 86_400);
    let found = violations(&facts, KERNEL, late);
    assert_eq!((found.len(), found[0].rule), (1, 21));
    let open = Facts {
        insecure: true,
        ..facts
    };
    assert_eq!(rules(&open, Isolation::Proven(Tier::Container)), [1, 3]);
}

#[test]
fn a_guard_and_a_metered_provider_have_rules_of_their_own() {
    let base = Files::new().facts();
    let rules = |facts: &Facts| -> Vec<String> {
        let found = violations(facts, KERNEL, Duration::from_secs(1_800_000_000));
        found.iter().map(ToString::to_string).collect()
    };
    let guarded = |addr: &str, tls: bool| Facts {
        guard: parse_host_port(addr),
        rpc: parse_host_port("127.0.0.1:1"),
        tls: base.tls.clone().map(|pair| pair.filter(|_| tls)),
        ..base.clone()
    };
    assert_eq!(rules(&guarded(":8443", true)), [] as [&str; 0]);
    assert_eq!(rules(&guarded("[::1]:8443", false)), [] as [&str; 0]);
    let told = rules(&guarded(":8443", false));
    assert!(
        told.len() == 1 && told[0].starts_with("rule 6: PLIMSOLL_GUARD_ADDR=:8443 "),
        "{told:?}"
    );

    let metered = Facts {
        provider: Some(METERED),
        ..base.clone()
    };
    let told = rules(&metered);
    assert!(
        told.len() == 1 && told[0].starts_with("rule 17: ") && told[0].contains("mcp-b;"),
        "{told:?}"
    );
    let paid = Facts {
        callers: Some(Callers::Registry {
            writable_by_others: false,
            without_allowance: Vec::new(),
        }),
        ..metered
    };
    assert_eq!(rules(&paid), [] as [&str; 0]);
}

#[test]
fn a_registry_that_is_read_again_is_asked_the_rules_that_read_one() {
    let files = Files::new();
    let facts = files.facts();
    let clients = files.folder.path().join("clients.json");
    let rules = |facts: &Facts| -> Vec<u8> {
        let registry = Registry::load(&clients).unwrap();
        facts
            .objections(&registry)
            .iter()
            .map(|violation| violation.rule)
            .collect()
    };
    assert_eq!(rules(&facts), [] as [u8; 0]);
    fs_err::set_permissions(&clients, std::fs::Permissions::from_mode(0o620)).unwrap();
    assert_eq!(rules(&facts), [20]);
    let metered = Facts {
        provider: Some(METERED),
        ..facts
    };
    assert_eq!(rules(&metered), [17, 20]);
}

#[test]
fn on_wasm_and_without_a_provider_it_says_that_it_can_never_hold() {
    let files = Files::new();
    for (provider, words) in [
        (
            "wasm",
            "hardened mode can never hold on provider wasm: it proves process at most (rule 1)",
        ),
        ("-", "hardened mode can never hold without a provider"),
    ] {
        let docker = ["RUNTIME", "IMAGE", "PROJECT_IMAGE"].map(|name| format!("SANDBOX_DOCKER_{name}"));
        let mut changes = vec![
            ("SANDBOX_PROVIDER", provider),
            ("SANDBOX_CPUS", "-"),
            ("SANDBOX_DISK_MB", "-"),
        ];
        changes.extend(docker.iter().map(|name| (name.as_str(), "-")));
        changes.push(("SANDBOX_PIDS", "-"));
        let told = files.report(&changes).unwrap();
        assert_eq!(
            told.violations
                .iter()
                .map(|violation| violation.rule)
                .collect::<Vec<_>>(),
            [11]
        );
        assert!(told.lines().last().unwrap().starts_with(words), "{told}");
    }
}
