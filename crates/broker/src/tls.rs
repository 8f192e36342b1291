//! TLS as the broker speaks it: verified, with the host's trust anchors.

use std::sync::{Arc, OnceLock};

use rustls::crypto::aws_lc_rs;
use rustls::{ClientConfig, RootCertStore};
use thiserror::Error;

/// Why there is no TLS.
#[derive(Debug, Error)]
pub enum TlsError {
    /// Without an anchor no certificate can be verified.
    #[error(
        "the host's certificate store is empty or unreadable, so no https API can be verified: install ca-certificates, or set SSL_CERT_FILE to a bundle ({0})"
    )]
    NoAnchors(String),
    /// The TLS library refuses its own defaults.
    #[error("TLS cannot be set up: {0}")]
    Setup(#[from] rustls::Error),
}

/// The configuration every broker shares that is not given one: the host's trust anchors, TLS 1.2 and 1.3, HTTP/2 or
/// HTTP/1.1. The store is read on the first call of the process; a failure is not kept, so a later call reads again.
///
/// # Errors
/// When the store holds no usable anchor.
pub fn system_tls() -> Result<Arc<ClientConfig>, TlsError> {
    static SHARED: OnceLock<Arc<ClientConfig>> = OnceLock::new();
    if let Some(config) = SHARED.get() {
        return Ok(Arc::clone(config));
    }
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    // Stores hold odd old certificates; one that cannot be read anchors nothing.
    let (usable, _) = roots.add_parsable_certificates(found.certs);
    if usable == 0 {
        let why = found
            .errors
            .first()
            .map_or_else(|| "no certificate found".to_owned(), ToString::to_string);
        return Err(TlsError::NoAnchors(why));
    }
    let mut config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::clone(SHARED.get_or_init(|| Arc::new(config))))
}
