//! Downloads the release archive: over HTTPS only, redirects too, and no longer than it is told to.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::header::{HOST, LOCATION, USER_AGENT};
use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, Empty};
use hyper::body::{Bytes, Incoming};
use hyper_util::rt::TokioIo;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use thiserror::Error;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use url::Url;

/// How long a connection may take to stand, TLS included.
const CONNECT_WITHIN: Duration = Duration::from_secs(15);
/// How long the whole download may take, redirects included.
const WHOLE_WITHIN: Duration = Duration::from_secs(300);
/// Release archives are one redirect away; more than a few is a circle.
const MAX_REDIRECTS: usize = 5;
/// Several times the size of a release.
const MAX_BYTES: u64 = 1024 * 1024 * 1024;

const AGENT: &str = concat!("plimsoll/", env!("CARGO_PKG_VERSION"));

/// Why there is no archive.
#[derive(Debug, Error)]
pub enum FetchError {
    /// A redirect elsewhere than to HTTPS, or something that is no address.
    #[error("{0} is not an https address, so nothing is downloaded from it")]
    NotHttps(String),
    /// No trust anchors, or no TLS.
    #[error("TLS cannot be set up: {0}. Install ca-certificates, or set SSL_CERT_FILE to a bundle")]
    Tls(String),
    /// The connection or the exchange failed.
    #[error("{host}: {error}")]
    Exchange {
        /// Whom it was with.
        host: String,
        /// What failed.
        error: io::Error,
    },
    /// Neither an archive nor a redirect.
    #[error("{host} answers {status}")]
    Status {
        /// Who answers.
        host: String,
        /// With what.
        status: StatusCode,
    },
    /// A circle.
    #[error("more than {MAX_REDIRECTS} redirects")]
    Redirects,
    /// An answer without end.
    #[error("the download is larger than 1 GiB")]
    TooLarge,
    /// Too slow.
    #[error("the download did not end within {} s", .0.as_secs())]
    Late(Duration),
    /// The disk.
    #[error("the download cannot be kept: {0}")]
    Keep(io::Error),
}

/// How downloads are made.
#[derive(Clone, Debug)]
pub(crate) struct Fetcher {
    tls: Arc<ClientConfig>,
    whole_within: Duration,
    /// Every connection goes here, whatever the host: for tests.
    connect_to: Option<SocketAddr>,
}

impl Fetcher {
    /// With the trust anchors of this host.
    ///
    /// # Errors
    /// When the host has none that can be used.
    pub(crate) fn of_host() -> Result<Self, FetchError> {
        let found = rustls_native_certs::load_native_certs();
        let mut roots = RootCertStore::empty();
        let (usable, _) = roots.add_parsable_certificates(found.certs);
        if usable == 0 {
            let why = found
                .errors
                .first()
                .map_or_else(|| "no certificate found".to_owned(), ToString::to_string);
            return Err(FetchError::Tls(why));
        }
        Self::with_roots(roots)
    }

    fn with_roots(roots: RootCertStore) -> Result<Self, FetchError> {
        let tls = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| FetchError::Tls(error.to_string()))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self {
            tls: Arc::new(tls),
            whole_within: WHOLE_WITHIN,
            connect_to: None,
        })
    }

    /// Hands the body behind this address to `keep`, piece by piece.
    ///
    /// # Errors
    /// When it cannot be had, or `keep` fails.
    pub(crate) fn fetch(&self, url: &str, keep: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> Result<(), FetchError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(FetchError::Keep)?;
        runtime.block_on(async {
            timeout(self.whole_within, self.follow(url, keep))
                .await
                .unwrap_or(Err(FetchError::Late(self.whole_within)))
        })
    }

    async fn follow(&self, url: &str, keep: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> Result<(), FetchError> {
        let mut url = https(Url::parse(url).map_err(|_| FetchError::NotHttps(url.to_owned()))?)?;
        for _ in 0..=MAX_REDIRECTS {
            let host = url.host_str().unwrap_or_default().to_owned();
            let answer = self.get(&url, &host).await?;
            let status = answer.status();
            if status == StatusCode::OK {
                return copy(answer.into_body(), &host, keep).await;
            }
            let location = answer.headers().get(LOCATION).and_then(|value| value.to_str().ok());
            let Some(location) = location.filter(|_| status.is_redirection()) else {
                return Err(FetchError::Status { host, status });
            };
            url = https(
                url.join(location)
                    .map_err(|_| FetchError::NotHttps(location.to_owned()))?,
            )?;
        }
        Err(FetchError::Redirects)
    }

    async fn get(&self, url: &Url, host: &str) -> Result<http::Response<Incoming>, FetchError> {
        let failed = |error: io::Error| FetchError::Exchange {
            host: host.to_owned(),
            error,
        };
        let connect = async {
            let tcp = match self.connect_to {
                Some(address) => TcpStream::connect(address).await?,
                None => TcpStream::connect((host, url.port_or_known_default().unwrap_or(443))).await?,
            };
            let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
            TlsConnector::from(Arc::clone(&self.tls)).connect(name, tcp).await
        };
        let late = io::Error::new(io::ErrorKind::TimedOut, "no connection within 15 s");
        let tls = timeout(CONNECT_WITHIN, connect)
            .await
            .unwrap_or(Err(late))
            .map_err(failed)?;
        let other = |error: hyper::Error| failed(io::Error::other(error));
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(tls))
            .await
            .map_err(other)?;
        // Ends with the exchange; what goes wrong shows there.
        tokio::spawn(async move {
            let _shown_there = connection.await;
        });
        let target = &url[url::Position::BeforePath..url::Position::AfterQuery];
        let authority = &url[url::Position::BeforeHost..url::Position::AfterPort];
        let request = Request::get(target)
            .header(HOST, authority)
            .header(USER_AGENT, AGENT)
            .body(Empty::<Bytes>::new())
            .map_err(|error| failed(io::Error::other(error)))?;
        sender.send_request(request).await.map_err(other)
    }
}

fn https(url: Url) -> Result<Url, FetchError> {
    if url.scheme() == "https" && url.host_str().is_some() {
        Ok(url)
    } else {
        Err(FetchError::NotHttps(url.to_string()))
    }
}

async fn copy(mut body: Incoming, host: &str, keep: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> Result<(), FetchError> {
    let mut bytes: u64 = 0;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| FetchError::Exchange {
            host: host.to_owned(),
            error: io::Error::other(error),
        })?;
        if let Ok(data) = frame.into_data() {
            bytes = bytes.saturating_add(data.len() as u64);
            if bytes > MAX_BYTES {
                return Err(FetchError::TooLarge);
            }
            keep(&data).map_err(FetchError::Keep)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
