//! The client: how it is built, and the calls that are not runs.

use std::fmt;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use plimsoll_core::limits::CLIENT_TIMEOUT;
use plimsoll_core::{PayloadKind, RunRequest, SoftwareRule};
use plimsoll_wire::http::Procedure;
use plimsoll_wire::json::to_json;
use plimsoll_wire::pb;
use rustls::ClientConfig;
use rustls::crypto::CryptoProvider;
use secrecy::SecretString;

use crate::answer;
use crate::cancel::CancelToken;
#[cfg(feature = "connector")]
use crate::connect::Connect;
use crate::error::{Error, ErrorKind, Refusal};
use crate::info::Info;
use crate::results::RunOutput;
use crate::transport::Transport;
use crate::url::BaseUrl;

/// Longest request timeout, in milliseconds: 2^31 - 1, some 24 days, so that the same number fits every language.
const MAX_REQUEST_TIMEOUT_MS: u128 = i32::MAX as u128;

/// A daemon's client. Cheap to clone, shareable between tasks and threads, and without a connection between calls.
#[derive(Clone)]
pub struct Client {
    shared: Arc<Shared>,
}

struct Shared {
    transport: Transport,
    javascript_grant: String,
    project_grant: String,
}

impl Client {
    /// Starts building a client for a daemon's base URL, such as `https://plimsoll.example`.
    pub fn builder(base_url: impl Into<String>) -> ClientBuilder {
        ClientBuilder {
            base_url: base_url.into(),
            token: None,
            insecure_http: false,
            request_timeout: CLIENT_TIMEOUT,
            tls: None,
            javascript_grant: String::new(),
            project_grant: String::new(),
            #[cfg(feature = "connector")]
            connector: None,
        }
    }

    /// The base URL as it is used: scheme in lower case, without a trailing slash.
    pub fn base_url(&self) -> String {
        self.shared.transport.base.to_string()
    }

    /// Asks the daemon what it is. Await the returned value.
    ///
    /// # Errors
    /// [`ErrorKind::ProtocolMismatch`] with the description attached when the daemon serves another protocol number.
    pub fn describe(&self) -> Describe<'_> {
        Describe {
            client: self,
            checked: true,
            cancel: None,
        }
    }

    /// Asks the daemon what it is, whatever protocol number it serves; for tools that look at a daemon they may not be
    /// able to use.
    pub fn describe_unchecked(&self) -> Describe<'_> {
        Describe {
            client: self,
            checked: false,
            cancel: None,
        }
    }

    /// Sends a prepared request unchanged: nothing is validated, defaulted or stamped, not even the protocol number, so the
    /// request is the caller's whole responsibility, its floor included. The answer is checked like that of any run. Await
    /// the returned value.
    pub fn exchange(&self, request: RunRequest) -> Exchange<'_> {
        Exchange {
            client: self,
            request,
            cancel: None,
        }
    }

    /// How calls are made.
    pub(crate) fn transport(&self) -> &Transport {
        &self.shared.transport
    }

    /// The grant profile that calls of a kind name when they name none themselves.
    pub(crate) fn default_grant(&self, kind: PayloadKind) -> &str {
        match kind {
            PayloadKind::JavaScript => &self.shared.javascript_grant,
            PayloadKind::Project => &self.shared.project_grant,
            PayloadKind::Module | PayloadKind::Cell => "",
        }
    }

    /// Sends a run and checks its answer against exactly what was sent.
    pub(crate) async fn run(
        &self,
        request: RunRequest,
        rule: Option<&SoftwareRule>,
        cancel: Option<&CancelToken>,
    ) -> Result<RunOutput, Error> {
        let message = pb::RunRequest::from(request);
        let body = to_json(&message);
        let http = self.shared.transport.post(Procedure::Run, body, cancel).await?;
        let answer = answer::read::<pb::RunResponse>(&http)?;
        answer::check_run(&RunRequest::from(message), rule, answer)
    }

    async fn ask(&self, checked: bool, cancel: Option<&CancelToken>) -> Result<Info, Error> {
        let http = self
            .shared
            .transport
            .post(Procedure::Describe, b"{}".to_vec(), cancel)
            .await?;
        let info = Info::from(answer::read::<pb::DescribeResponse>(&http)?);
        if !checked || info.is_our_protocol() {
            return Ok(info);
        }
        let message = format!(
            "the daemon serves protocol {}, and this client speaks {}; use a client of the daemon's version",
            info.protocol,
            plimsoll_core::limits::PROTOCOL
        );
        Err(Error::new(ErrorKind::ProtocolMismatch, message)
            .marked(Refusal::Protocol)
            .with_status(http.status)
            .with_info(info))
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("base_url", &format_args!("{}", self.shared.transport.base))
            .finish_non_exhaustive()
    }
}

/// Builds a [`Client`]. Nothing is sent while building.
///
/// | Option | Default |
/// |---|---|
/// | [`token`](Self::token) | none |
/// | [`insecure_http`](Self::insecure_http) | `false`: cleartext to loopback hosts only |
/// | [`request_timeout`](Self::request_timeout) | 360 s, above the daemon's longest run |
/// | [`tls`](Self::tls) | TLS 1.2 and 1.3 with Mozilla's root certificates |
/// | [`javascript_grant`](Self::javascript_grant), [`project_grant`](Self::project_grant) | none |
#[derive(Clone)]
#[must_use = "a builder does nothing until build()"]
pub struct ClientBuilder {
    base_url: String,
    token: Option<SecretString>,
    insecure_http: bool,
    request_timeout: Duration,
    tls: Option<Arc<ClientConfig>>,
    javascript_grant: String,
    project_grant: String,
    #[cfg(feature = "connector")]
    connector: Option<Arc<dyn Connect>>,
}

impl ClientBuilder {
    /// The bearer token: visible ASCII. An empty token is none. It is wiped from memory when the last clone goes, and
    /// appears in no error and no `Debug` output.
    pub fn token(mut self, token: impl Into<String>) -> Self {
        let token = token.into();
        self.token = (!token.is_empty()).then(|| SecretString::from(token));
        self
    }

    /// Allows `http` to hosts other than `localhost`, 127.0.0.0/8 and `::1`: token, code and output travel in clear.
    pub const fn insecure_http(mut self, allowed: bool) -> Self {
        self.insecure_http = allowed;
        self
    }

    /// How long one whole exchange may take, from name look-up to the last byte of the answer. More than 0, at most
    /// 2^31 - 1 ms. This is not the run's own time limit.
    pub const fn request_timeout(mut self, timeout: Duration) -> Self {
        self.request_timeout = timeout;
        self
    }

    /// A TLS configuration of your own, for a private certificate authority or a client certificate. Its ALPN list is
    /// replaced: this client speaks HTTP/1.1.
    pub fn tls(mut self, config: impl Into<Arc<ClientConfig>>) -> Self {
        self.tls = Some(config.into());
        self
    }

    /// The grant profile for snippets that name none.
    pub fn javascript_grant(mut self, profile: impl Into<String>) -> Self {
        self.javascript_grant = profile.into();
        self
    }

    /// The grant profile for projects that name none.
    pub fn project_grant(mut self, profile: impl Into<String>) -> Self {
        self.project_grant = profile.into();
        self
    }

    /// Makes connections with this instead of the system's sockets and name look-up (feature `connector`). TLS, where the
    /// scheme asks for it, is spoken over what it gives; `http` still needs a loopback host or consent.
    #[cfg(feature = "connector")]
    pub fn connector(mut self, connector: impl Connect) -> Self {
        self.connector = Some(Arc::new(connector));
        self
    }

    /// Checks every option.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidBaseUrl`], [`ErrorKind::InsecureHttp`] or [`ErrorKind::InvalidOption`]. No message repeats the
    /// URL or the token.
    pub fn build(self) -> Result<Client, Error> {
        let invalid = |message: String| Error::local(ErrorKind::InvalidOption, message);
        let base = BaseUrl::parse(&self.base_url, self.insecure_http)?;
        if let Some(token) = &self.token {
            use secrecy::ExposeSecret as _;
            if !token.expose_secret().bytes().all(|byte| byte.is_ascii_graphic()) {
                return Err(invalid(
                    "token contains a character that is not visible ASCII; check for a line end".into(),
                ));
            }
        }
        if self.request_timeout.is_zero() || self.request_timeout.as_millis() > MAX_REQUEST_TIMEOUT_MS {
            return Err(invalid(format!(
                "request_timeout is not above 0 and at most {MAX_REQUEST_TIMEOUT_MS} ms"
            )));
        }
        let crypto = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let tls = match (base.tls, self.tls) {
            (false, _) => None,
            (true, Some(config)) => Some(ClientConfig::clone(&config)),
            (true, None) => Some(default_tls(&crypto)?),
        };
        let tls = tls.map(|mut config| {
            config.alpn_protocols = vec![b"http/1.1".to_vec()];
            Arc::new(config)
        });
        let transport = Transport {
            base,
            token: self.token,
            timeout: self.request_timeout,
            tls,
            crypto,
            #[cfg(feature = "connector")]
            connector: self.connector,
        };
        let shared = Shared {
            transport,
            javascript_grant: self.javascript_grant,
            project_grant: self.project_grant,
        };
        Ok(Client {
            shared: Arc::new(shared),
        })
    }
}

impl fmt::Debug for ClientBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The base URL was not checked yet, so it may still hold a password.
        f.debug_struct("ClientBuilder").finish_non_exhaustive()
    }
}

/// The provider is named and not taken from the process, where a second one in the same program would make this panic.
fn default_tls(crypto: &Arc<CryptoProvider>) -> Result<ClientConfig, Error> {
    let roots = rustls::RootCertStore {
        roots: webpki_roots::TLS_SERVER_ROOTS.to_vec(),
    };
    let builder = ClientConfig::builder_with_provider(Arc::clone(crypto)).with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| {
        Error::local(ErrorKind::InvalidOption, "the TLS library offers no protocol version").with_source(error)
    })?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

/// A description about to be asked for; await it.
#[derive(Debug)]
#[must_use = "nothing is asked until it is awaited"]
pub struct Describe<'c> {
    client: &'c Client,
    checked: bool,
    cancel: Option<CancelToken>,
}

impl Describe<'_> {
    /// Lets a token cancel this call.
    pub fn cancel(mut self, token: &CancelToken) -> Self {
        self.cancel = Some(token.clone());
        self
    }
}

impl<'c> IntoFuture for Describe<'c> {
    type Output = Result<Info, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'c>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move { self.client.ask(self.checked, self.cancel.as_ref()).await })
    }
}

/// A prepared request about to be sent; await it.
#[derive(Debug)]
#[must_use = "nothing is sent until it is awaited"]
pub struct Exchange<'c> {
    client: &'c Client,
    request: RunRequest,
    cancel: Option<CancelToken>,
}

impl Exchange<'_> {
    /// Lets a token cancel this call.
    pub fn cancel(mut self, token: &CancelToken) -> Self {
        self.cancel = Some(token.clone());
        self
    }
}

impl<'c> IntoFuture for Exchange<'c> {
    type Output = Result<RunOutput, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'c>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let rule = SoftwareRule::parse(self.request.software_rule.as_ref()).ok();
            self.client.run(self.request, rule.as_ref(), self.cancel.as_ref()).await
        })
    }
}
