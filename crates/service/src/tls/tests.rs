//! What is accepted as a pair, and in which words the rest is refused.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use rcgen::{CertificateParams, KeyPair};

use super::*;

/// Seconds of a year, about.
const YEAR: u64 = 365 * 86_400;

/// A folder with files of a test's own.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.path().join(name);
        fs_err::write(&path, text).unwrap();
        path
    }
}

/// A certificate in PEM, valid in these calendar years, and its key.
fn certificate(from: i32, until: i32) -> (String, KeyPair) {
    let mut params = CertificateParams::new(["localhost".to_owned()]).unwrap();
    params.not_before = rcgen::date_time_ymd(from, 1, 1);
    params.not_after = rcgen::date_time_ymd(until, 1, 1);
    let key = KeyPair::generate().unwrap();
    (params.self_signed(&key).unwrap().pem(), key)
}

fn read(cert: &Path, key: &Path) -> Result<Tls, String> {
    let lookup: BTreeMap<OsString, OsString> = BTreeMap::from([
        ("PLIMSOLL_TLS_CERT".into(), cert.into()),
        ("PLIMSOLL_TLS_KEY".into(), key.into()),
    ]);
    Tls::read(&lookup)
        .map(Option::unwrap)
        .map_err(|error| error.to_string())
}

#[test]
fn a_pair_is_read_and_no_pair_is_no_tls() {
    let folder = Folder::new();
    let (cert, key) = certificate(2020, 4000);
    let tls = read(&folder.file("cert", &cert), &folder.file("key", &key.serialize_pem())).unwrap();
    assert_eq!(tls.config.alpn_protocols, [b"h2".to_vec(), b"http/1.1".to_vec()]);
    assert!(Tls::read(&BTreeMap::new()).unwrap().is_none());
    assert!(!format!("{tls:?}").contains("PRIVATE"));
}

#[test]
fn half_a_pair_names_the_missing_half_and_a_blank_one_is_missing() {
    for (set, missing) in [
        ("PLIMSOLL_TLS_CERT", "PLIMSOLL_TLS_KEY"),
        ("PLIMSOLL_TLS_KEY", "PLIMSOLL_TLS_CERT"),
    ] {
        let lookup: BTreeMap<OsString, OsString> =
            BTreeMap::from([(set.into(), "/pair".into()), (missing.into(), "  ".into())]);
        let told = Tls::read(&lookup).unwrap_err().to_string();
        assert!(
            told.starts_with(&format!("{missing}: unset, and {set} is set")),
            "{told}"
        );
    }
}

#[test]
fn what_cannot_be_loaded_is_named_with_its_variable_and_nothing_of_a_key_is_shown() {
    let folder = Folder::new();
    let (good_cert, good_key) = certificate(2020, 4000);
    let (_, other_key) = certificate(2020, 4000);
    let key_text = good_key.serialize_pem();
    let cert = folder.file("cert", &good_cert);
    let key = folder.file("key", &key_text);
    // The same structure on a curve nobody serves with.
    let der = good_key.serialize_der();
    let at = der
        .windows(8)
        .position(|part| part == [0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07]);
    let mut foreign = der.clone();
    foreign[at.unwrap() + 7] = 0x06;
    let in_pem = |label: &str, der: &[u8]| {
        use base64::Engine as _;
        let text = base64::engine::general_purpose::STANDARD.encode(der);
        format!("-----BEGIN {label}-----\n{text}\n-----END {label}-----\n")
    };
    let secret: String = key_text.lines().nth(1).unwrap().to_owned();
    let large = "x".repeat(usize::try_from(MAX_BYTES).unwrap() + 1);

    for (name, text, words) in [
        ("empty", "", "holds no certificate in PEM"),
        ("key-as-cert", key_text.as_str(), "holds no certificate in PEM"),
        (
            "broken-cert",
            &good_cert.replace("END", "EMD"),
            "is not well-formed PEM",
        ),
        ("large", &large, "is larger than 1048576 bytes"),
        (
            "no-der",
            &in_pem("CERTIFICATE", b"hello"),
            "its first certificate cannot be used",
        ),
    ] {
        let path = folder.file(name, text);
        let told = read(&path, &key).unwrap_err();
        assert!(
            told.starts_with(&format!("PLIMSOLL_TLS_CERT={path:?}: ")) && told.contains(words),
            "{told}"
        );
    }
    for (name, text, words) in [
        ("no-key", "", "holds no private key"),
        ("cert-as-key", good_cert.as_str(), "holds no private key"),
        (
            "encrypted",
            &in_pem("ENCRYPTED PRIVATE KEY", &der),
            "that is not encrypted",
        ),
        ("broken-key", &key_text.replace("END", "EMD"), "is not well-formed PEM"),
        (
            "curve",
            &in_pem("PRIVATE KEY", &foreign),
            "the TLS library rejects the key",
        ),
        (
            "no-key-der",
            &in_pem("PRIVATE KEY", b"hello"),
            "the TLS library rejects the key",
        ),
        (
            "other",
            &other_key.serialize_pem(),
            "is not the key of the first certificate in PLIMSOLL_TLS_CERT",
        ),
    ] {
        let path = folder.file(name, text);
        let told = read(&cert, &path).unwrap_err();
        assert!(
            told.starts_with(&format!("PLIMSOLL_TLS_KEY={path:?}: ")) && told.contains(words),
            "{told}"
        );
        assert!(!told.contains(&secret), "{told}");
    }
    let absent = folder.0.path().join("absent");
    assert!(read(&absent, &key).unwrap_err().contains("PLIMSOLL_TLS_CERT=\"/"));
    assert!(read(&cert, &absent).unwrap_err().contains("cannot be read"));
    assert!(
        read(&cert, folder.0.path())
            .unwrap_err()
            .contains("is not a regular file")
    );
    assert!(
        read(&cert, Path::new("/dev/zero"))
            .unwrap_err()
            .contains("is not a regular file")
    );
}

#[test]
fn the_dates_of_the_whole_chain_are_looked_at() {
    let folder = Folder::new();
    let (own, key) = certificate(2020, 2030);
    let (above, _) = certificate(2020, 2025);
    let (later, _) = certificate(2028, 2040);
    let key = folder.file("key", &key.serialize_pem());
    let told = |chain: &str, year: u64| {
        let tls = read(&folder.file("chain", chain), &key).unwrap();
        let problem = tls.out_of_date(Duration::from_secs((year - 1970) * YEAR + YEAR / 2));
        problem.map(|problem| problem.to_string())
    };
    assert_eq!(told(&own, 2026), None);
    assert_eq!(
        told(&own, 2031).unwrap(),
        "certificate 1 of PLIMSOLL_TLS_CERT expired at 2030-01-01T00:00:00Z"
    );
    assert_eq!(
        told(&own, 2018).unwrap(),
        "certificate 1 of PLIMSOLL_TLS_CERT is not valid before 2020-01-01T00:00:00Z"
    );
    assert_eq!(
        told(&format!("{own}{above}"), 2026).unwrap(),
        "certificate 2 of PLIMSOLL_TLS_CERT expired at 2025-01-01T00:00:00Z"
    );
    assert_eq!(
        told(&format!("{own}{later}"), 2026).unwrap(),
        "certificate 2 of PLIMSOLL_TLS_CERT is not valid before 2028-01-01T00:00:00Z"
    );
}
