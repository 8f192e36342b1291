//! Whom a daemon's certificate has to come from, where the public authorities are not meant.

use std::path::Path;
use std::sync::Arc;

use plimsoll_client::rustls::crypto::aws_lc_rs;
use plimsoll_client::rustls::pki_types::CertificateDer;
use plimsoll_client::rustls::pki_types::pem::PemObject as _;
use plimsoll_client::rustls::{ClientConfig, RootCertStore};

use crate::failure::Failure;

/// Believes the certificates in this file and those that they have signed, and no other.
///
/// # Errors
/// The file cannot be read, or holds no certificate in PEM.
pub(super) fn only(file: &Path) -> Result<ClientConfig, Failure> {
    let failed = |problem: String| Failure::no_program(format!("--ca {}: {problem}", file.display()));
    let text = fs_err::read(file).map_err(|error| failed(format!("cannot be read: {error}")))?;
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&text) {
        let certificate = certificate.map_err(|_| failed("is not well-formed PEM".to_owned()))?;
        roots
            .add(certificate)
            .map_err(|error| failed(format!("holds a certificate that cannot be used: {error}")))?;
    }
    if roots.is_empty() {
        return Err(failed("holds no certificate in PEM".to_owned()));
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| failed(error.to_string()))?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}
