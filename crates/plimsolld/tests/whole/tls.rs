//! TLS through the real binary: which pairs stop the start, and that every listener speaks it with clients that are not ours.

#![expect(clippy::unwrap_used, reason = "a helper that fails fails its test")]

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use plimsoll_client::rustls::crypto::aws_lc_rs;
use plimsoll_client::rustls::pki_types::CertificateDer;
use plimsoll_client::rustls::{ClientConfig, RootCertStore};
use plimsoll_client::{Client, Tier};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustix::process::Signal;

use crate::check::refused;
use crate::daemon::{Daemon, GOOD_TOKEN, command, run};

/// A private authority, a certificate it has signed for this host, and their files.
pub(crate) struct Authority {
    folder: tempfile::TempDir,
    certificate: CertificateDer<'static>,
}

impl Authority {
    /// What it signs is valid until this year.
    pub(crate) fn until(year: i32) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut own = CertificateParams::default();
        own.distinguished_name
            .push(DnType::CommonName, "an authority of our own");
        own.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let authority = own.self_signed(&key).unwrap();
        let issuer = Issuer::new(own, key);
        let mut params = CertificateParams::new(["localhost".to_owned(), "127.0.0.1".to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, "a daemon");
        params.use_authority_key_identifier_extension = true;
        params.not_before = rcgen::date_time_ymd(2020, 1, 1);
        params.not_after = rcgen::date_time_ymd(year, 1, 1);
        let key = KeyPair::generate().unwrap();
        let signed = params.signed_by(&key, &issuer).unwrap();
        for (name, text) in [
            ("ca.pem", authority.pem()),
            ("cert.pem", signed.pem()),
            ("key.pem", key.serialize_pem()),
        ] {
            fs_err::write(folder.path().join(name), text).unwrap();
        }
        let certificate = authority.der().clone();
        Self { folder, certificate }
    }

    pub(crate) fn path(&self, name: &str) -> String {
        let path: PathBuf = self.folder.path().join(name);
        path.to_str().unwrap().to_owned()
    }

    fn client(&self, addr: SocketAddr) -> Client {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.clone()).unwrap();
        let trusting = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        Client::builder(format!("https://{addr}"))
            .token(GOOD_TOKEN)
            .tls(trusting)
            .build()
            .unwrap()
    }

    /// Debian's curl, believing this authority: exit code and what it printed.
    fn curl(&self, arguments: &[&str]) -> (Option<i32>, String) {
        let ca = self.path("ca.pem");
        let always = ["--silent", "--show-error", "--max-time", "20", "--cacert", &ca];
        let done = command(Path::new("curl"), &[&always, arguments].concat())
            .output()
            .unwrap();
        let text = [done.stdout, done.stderr].concat();
        (done.status.code(), String::from_utf8(text).unwrap())
    }
}

fn serving(authority: &Authority) -> Daemon {
    Daemon::start(&[
        ("SANDBOX_PROVIDER", "wasm"),
        ("PLIMSOLL_TOKEN", GOOD_TOKEN),
        ("PLIMSOLL_TLS_CERT", &authority.path("cert.pem")),
        ("PLIMSOLL_TLS_KEY", &authority.path("key.pem")),
    ])
}

const RUN_42: &str = r#"{"protocol":4,"javascript":{"code":"console.log(6*7)"}}"#;

/// Variables, how the refusal begins, and words in it.
type Row<'a> = (&'a [(&'a str, &'a str)], &'a str, &'a str);

#[test]
fn half_a_pair_or_one_that_cannot_be_loaded_stops_the_start_by_name() {
    let (one, other) = (Authority::until(4000), Authority::until(4000));
    let (cert, key, other_key) = (one.path("cert.pem"), one.path("key.pem"), other.path("key.pem"));
    let unreadable = one.path("nonsense.pem");
    fs_err::write(
        &unreadable,
        "-----BEGIN PRIVATE KEY-----\naGVsbG8=\n-----END PRIVATE KEY-----\n",
    )
    .unwrap();
    let absent = one.path("absent.pem");
    let cert_named = |path: &str| format!("PLIMSOLL_TLS_CERT=\"{path}\"");
    let key_named = |path: &str| format!("PLIMSOLL_TLS_KEY=\"{path}\"");
    let rows: [Row<'_>; 8] = [
        (
            &[("PLIMSOLL_TLS_CERT", &cert)],
            "PLIMSOLL_TLS_KEY: unset",
            "set both of them, or neither",
        ),
        (
            &[("PLIMSOLL_TLS_KEY", &key)],
            "PLIMSOLL_TLS_CERT: unset",
            "set both of them, or neither",
        ),
        (
            &[("PLIMSOLL_TLS_CERT", &absent), ("PLIMSOLL_TLS_KEY", &absent)],
            &cert_named(&absent),
            "cannot be read",
        ),
        (
            &[("PLIMSOLL_TLS_CERT", &cert), ("PLIMSOLL_TLS_KEY", &absent)],
            &key_named(&absent),
            "cannot be read",
        ),
        (
            &[("PLIMSOLL_TLS_CERT", &key), ("PLIMSOLL_TLS_KEY", &key)],
            &cert_named(&key),
            "holds no certificate",
        ),
        (
            &[("PLIMSOLL_TLS_CERT", &cert), ("PLIMSOLL_TLS_KEY", &cert)],
            &key_named(&cert),
            "holds no private key",
        ),
        (
            &[("PLIMSOLL_TLS_CERT", &cert), ("PLIMSOLL_TLS_KEY", &unreadable)],
            &key_named(&unreadable),
            "the TLS library rejects the key",
        ),
        (
            &[("PLIMSOLL_TLS_CERT", &cert), ("PLIMSOLL_TLS_KEY", &other_key)],
            &key_named(&other_key),
            "is not the key of the first certificate",
        ),
    ];
    for (values, variable, words) in rows {
        refused(values, &[variable, words]);
    }
}

#[test]
fn an_expired_certificate_is_warned_of_and_served() {
    let authority = Authority::until(2021);
    let daemon = serving(&authority);
    let told = daemon.records.iter().find(|record| {
        let message = record["msg"].as_str().unwrap();
        message.starts_with("certificate 1 of PLIMSOLL_TLS_CERT expired at 2021-01-01T00:00:00Z")
    });
    assert_eq!(told.expect("a warning")["level"], "WARN");
    assert_eq!(daemon.records.last().unwrap()["tls"], true);
    let (code, told) = authority.curl(&[&format!("https://{}/healthz", daemon.addr)]);
    assert!(code == Some(60) && told.contains("expired"), "{code:?} {told}");
    let checked = run(
        &["check"],
        &[
            ("PLIMSOLL_TLS_CERT", &authority.path("cert.pem")),
            ("PLIMSOLL_TLS_KEY", &authority.path("key.pem")),
        ],
    );
    assert_eq!(checked.code, Some(0));
    assert!(
        checked
            .stderr
            .contains("warning: certificate 1 of PLIMSOLL_TLS_CERT expired"),
        "{}",
        checked.stderr
    );
}

#[test]
fn curl_is_served_over_both_versions_on_every_listener_and_nobody_in_clear() {
    let authority = Authority::until(4000);
    let daemon = serving(&authority);
    assert_eq!(daemon.records.last().unwrap()["tls"], true);
    let metrics = daemon.metrics_addr.unwrap();
    let bearer = format!("Authorization: Bearer {GOOD_TOKEN}");
    let run_url = format!("https://{}/plimsoll.v1.SandboxService/Run", daemon.addr);
    for (version, status) in [("--http1.1", "HTTP/1.1 200"), ("--http2", "HTTP/2 200")] {
        for tls in ["1.2", "1.3"] {
            let (code, told) = authority.curl(&[
                version,
                "--include",
                "--tls-max",
                tls,
                "--header",
                &bearer,
                "--header",
                "Content-Type: application/json",
                "--data",
                RUN_42,
                &run_url,
            ]);
            assert_eq!(code, Some(0), "{told}");
            assert!(
                told.starts_with(status) && told.contains("NDIK"),
                "{version} {tls}: {told}"
            );
            let (code, page) = authority.curl(&[version, "--include", &format!("https://{metrics}/metrics")]);
            assert_eq!(code, Some(0), "{page}");
            assert!(
                page.starts_with(status) && page.contains("plimsoll_runs_total"),
                "{page}"
            );
        }
    }
    // Another authority's believers are not.
    let failed = || {
        let (_, page) = authority.curl(&[&format!("https://{metrics}/metrics")]);
        let line = page
            .lines()
            .find_map(|line| line.strip_prefix("plimsoll_tls_handshakes_failed_total "));
        line.unwrap_or_else(|| panic!("{page}")).parse::<u64>().unwrap()
    };
    assert_eq!(failed(), 0);
    let (code, told) = Authority::until(4000).curl(&[&format!("https://{}/healthz", daemon.addr)]);
    assert_eq!(code, Some(60), "{told}");
    for addr in [daemon.addr, metrics] {
        let mut stream = TcpStream::connect(addr).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        assert!(!answer.starts_with(b"HTTP"), "{answer:?}");
    }
    // One that trusts another authority, and two that speak no TLS.
    assert_eq!(failed(), 3);
}

#[test]
fn our_client_runs_behind_a_private_authority_and_a_drain_lets_it_finish() {
    let authority = Authority::until(4000);
    let mut daemon = serving(&authority);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    let client = authority.client(daemon.addr);
    let ran = runtime
        .block_on(client.run_javascript("console.log(6 * 7)").floor(Tier::Process).send())
        .unwrap();
    assert_eq!(ran.stdout_text(), "42\n");
    let long = client
        .run_javascript("for (;;);")
        .timeout(Duration::from_millis(1500))
        .any_tier();
    let signal = async {
        tokio::time::sleep(Duration::from_millis(400)).await;
        daemon.signal(Signal::TERM);
    };
    let (ended, ()) = runtime.block_on(async { tokio::join!(long.send(), signal) });
    assert!(ended.unwrap().timed_out);
    daemon.wait_for("draining");
    let (status, records) = daemon.wait();
    assert_eq!(status.code(), Some(0));
    assert_eq!(records.last().unwrap()["msg"], "stopped");
}
