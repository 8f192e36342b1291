//! TLS: the certificate chain and the key that every listener serves with.
//!
//! Read once, at the start, and the same for all listeners: a daemon speaks TLS everywhere or nowhere, so no listener is left
//! in clear by oversight.

use std::fmt;
use std::io::{self, Read as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use plimsoll_core::vars::{Kind, Lookup, SettingError, Var};
use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, InconsistentKeys, RootCertStore, ServerConfig};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::server::TlsStream;
use tokio_rustls::{Accept, TlsAcceptor};
use zeroize::Zeroizing;

use crate::log::rfc3339;

const CERT: Var = Var::new(
    "PLIMSOLL_TLS_CERT",
    Kind::Path,
    "",
    "Certificate chain in PEM, the daemon's own certificate first. With PLIMSOLL_TLS_KEY every listener serves TLS 1.2 and 1.3, \
     with HTTP/2 and HTTP/1.1 by ALPN, and nothing in clear. Read once, at the start.",
);

const KEY: Var = Var::new(
    "PLIMSOLL_TLS_KEY",
    Kind::Path,
    "",
    "Private key of PLIMSOLL_TLS_CERT in PEM (PKCS #8, PKCS #1 or SEC 1), not encrypted. Set both or neither.",
);

/// The variables read here.
pub const VARS: &[Var] = &[CERT, KEY];

/// Largest certificate or key file read, in bytes; a chain has some thousands.
const MAX_BYTES: u64 = 1024 * 1024;

/// Bytes of an answer that a connection keeps encrypted while its peer has no room for them: two records. The clocks of the edge
/// go on for them, and nothing else of an answer is taken until they have left.
const BUFFER_BYTES: usize = 32 * 1024;

/// What is served, in the order of preference.
const ALPN: [&[u8]; 2] = [H2, b"http/1.1"];

/// HTTP/2, as ALPN names it.
const H2: &[u8] = b"h2";

/// The daemon's side of TLS: at least version 1.2, no client certificates. Clones share it.
#[derive(Clone)]
pub struct Tls {
    config: Arc<ServerConfig>,
    chain: Arc<[CertificateDer<'static>]>,
    failed: Arc<AtomicU64>,
}

impl Tls {
    /// Reads the pair; `None` when neither variable is set.
    ///
    /// # Errors
    /// Half a pair, a file that cannot be read as what it must be, a key the TLS library does not take, or one that is not the
    /// certificate's. Names the variable; nothing of a key is in a message.
    pub fn read(lookup: &dyn Lookup) -> Result<Option<Self>, SettingError> {
        let half = |missing: &Var, set: &Var| {
            missing.hidden(
                format!("unset, and {} is set", set.name),
                "set both of them, or neither",
            )
        };
        let (cert, key) = match (CERT.text(lookup)?, KEY.text(lookup)?) {
            (Some(cert), Some(key)) => (cert, key),
            (Some(_), None) => return Err(half(&KEY, &CERT)),
            (None, Some(_)) => return Err(half(&CERT, &KEY)),
            (None, None) => return Ok(None),
        };
        let chain = read_chain(cert)?;
        let config = server_config(chain.clone(), read_key(key)?).map_err(|error| match error {
            rustls::Error::InvalidCertificate(problem) => {
                unusable(&CERT, cert, format!("its first certificate cannot be used: {problem}"))
            }
            rustls::Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => unusable(
                &KEY,
                key,
                "is not the key of the first certificate in PLIMSOLL_TLS_CERT",
            ),
            problem => unusable(&KEY, key, format!("the TLS library rejects the key: {problem}")),
        })?;
        Ok(Some(Self {
            config: Arc::new(config),
            chain: chain.into(),
            failed: Arc::default(),
        }))
    }

    /// The first certificate of the chain that is not valid at this moment, since 1970-01-01 UTC; `None` when there is none. One
    /// behind the daemon's own counts too: whether a client finds a way round it is the client's business. A certificate whose dates cannot be read is passed over: the daemon's own was read already.
    pub fn out_of_date(&self, now: Duration) -> Option<OutOfDate> {
        self.chain
            .iter()
            .enumerate()
            .find_map(|(index, certificate)| date_problem(certificate, now, index + 1))
    }

    /// Handshakes that came to nothing, of all listeners: peers that speak no TLS or an old version, do not trust the certificate,
    /// or take longer than the header of a request may.
    pub fn failed_handshakes(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }

    /// One more of them.
    pub(crate) fn handshake_failed(&self) {
        self.failed.fetch_add(1, Ordering::Relaxed);
    }

    /// The handshake of one connection, which its caller has to bound in time.
    pub(crate) fn accept<S: AsyncRead + AsyncWrite + Unpin>(&self, stream: S) -> Accept<S> {
        TlsAcceptor::from(Arc::clone(&self.config))
            .accept_with(stream, |session| session.set_buffer_limit(Some(BUFFER_BYTES)))
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls")
            .field("certificates", &self.chain.len())
            .finish_non_exhaustive()
    }
}

/// Whether the two sides of a finished handshake agreed on HTTP/2; `None` when the client named no protocol.
pub(crate) fn agreed_on_http2<S>(stream: &TlsStream<S>) -> Option<bool> {
    stream.get_ref().1.alpn_protocol().map(|protocol| protocol == H2)
}

/// A certificate that is not valid at the moment it was looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfDate {
    /// Its place in the file, counted from 1.
    place: usize,
    /// Whether its time is over; otherwise it is yet to come.
    expired: bool,
    /// The end or the beginning of its time, since 1970-01-01 UTC.
    boundary: Duration,
}

impl fmt::Display for OutOfDate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = if self.expired {
            "expired at"
        } else {
            "is not valid before"
        };
        write!(
            f,
            "certificate {} of PLIMSOLL_TLS_CERT {word} {}",
            self.place,
            rfc3339(self.boundary)
        )
    }
}

/// The dates are the first thing the library's verification looks at, so without any trust anchor it ends there or finds no
/// issuer, which is not asked here.
fn date_problem(certificate: &CertificateDer<'_>, now: Duration, place: usize) -> Option<OutOfDate> {
    let parsed = ParsedCertificate::try_from(certificate).ok()?;
    let algorithms = aws_lc_rs::default_provider().signature_verification_algorithms.all;
    let (roots, now) = (RootCertStore::empty(), UnixTime::since_unix_epoch(now));
    let verified = verify_server_cert_signed_by_trust_anchor(&parsed, &roots, &[], now, algorithms);
    let (expired, boundary) = match verified {
        Err(rustls::Error::InvalidCertificate(CertificateError::ExpiredContext { not_after, .. })) => (true, not_after),
        Err(rustls::Error::InvalidCertificate(CertificateError::NotValidYetContext { not_before, .. })) => {
            (false, not_before)
        }
        _ => return None,
    };
    Some(OutOfDate {
        place,
        expired,
        boundary: Duration::from_secs(boundary.as_secs()),
    })
}

fn server_config(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<ServerConfig, rustls::Error> {
    let mut config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    config.alpn_protocols = ALPN.map(<[u8]>::to_vec).to_vec();
    Ok(config)
}

fn read_chain(path: &str) -> Result<Vec<CertificateDer<'static>>, SettingError> {
    let bytes = read_file(&CERT, path)?;
    let chain: Result<Vec<CertificateDer<'static>>, pem::Error> = CertificateDer::pem_slice_iter(&bytes).collect();
    match chain {
        Ok(chain) if !chain.is_empty() => Ok(chain),
        Ok(_) => Err(unusable(&CERT, path, "holds no certificate in PEM")),
        Err(_) => Err(unusable(&CERT, path, "is not well-formed PEM")),
    }
}

fn read_key(path: &str) -> Result<PrivateKeyDer<'static>, SettingError> {
    let bytes = read_file(&KEY, path)?;
    // The library's own words may quote the file.
    PrivateKeyDer::from_pem_slice(&bytes).map_err(|error| {
        let problem = match error {
            pem::Error::NoItemsFound => "holds no private key in PEM that is not encrypted",
            _ => "is not well-formed PEM",
        };
        unusable(&KEY, path, problem)
    })
}

fn read_file(var: &Var, path: &str) -> Result<Zeroizing<Vec<u8>>, SettingError> {
    let unreadable = |error: io::Error| unusable(var, path, format!("cannot be read: {error}"));
    // Looked at before it is opened: opening a pipe would wait for a writer.
    if !fs_err::metadata(path).map_err(unreadable)?.is_file() {
        return Err(unusable(var, path, "is not a regular file"));
    }
    let file = fs_err::File::open(path).map_err(unreadable)?;
    let mut bytes = Zeroizing::new(Vec::new());
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(unusable(var, path, format!("is larger than {MAX_BYTES} bytes")));
    }
    Ok(bytes)
}

fn unusable(var: &Var, path: &str, problem: impl Into<String>) -> SettingError {
    let fix = "set PLIMSOLL_TLS_CERT and PLIMSOLL_TLS_KEY to the two files of one pair, or unset both";
    var.unusable(path, problem, fix)
}

#[cfg(test)]
mod tests;
