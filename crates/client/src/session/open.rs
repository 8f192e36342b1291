//! Opening a session: how one is described, why it cannot be opened without a word about the floor, and what is checked
//! before it is handed out.

use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hmac::{Hmac, KeyInit as _, Mac as _};
use plimsoll_core::limits::PROTOCOL;
use plimsoll_core::{OpenRequest, OpenedSession, SoftwareRule, Tier, validate_language};
use plimsoll_record::{Chain, Fingerprint};
use plimsoll_wire::http::Procedure;
use plimsoll_wire::json::to_json;
use plimsoll_wire::pb;
use secrecy::ExposeSecret as _;
use sha2::{Digest as _, Sha256};
use tokio::sync::{Mutex as Turn, oneshot};
use tokio::time::sleep;

use super::{Kept, Session, State, Stated};
use crate::answer;
use crate::call::{FloorMissing, FloorStated, traced};
use crate::cancel::CancelToken;
use crate::client::Client;
use crate::error::{Error, ErrorKind, Refusal};
use crate::results::meets;
use crate::stream::Sent;

/// A session about to be opened. `F` is whether its floor was stated, `C` the client it is opened through.
#[must_use = "nothing is opened until send()"]
pub struct OpenSession<'c, F = FloorMissing, C = Client> {
    client: &'c C,
    floor: Option<Tier>,
    software: SoftwareRule,
    lifetime_ms: u32,
    idle_timeout_ms: u32,
    languages: Vec<String>,
    owner: Option<String>,
    environment: Option<String>,
    trace_id: Option<String>,
    cancel: Option<CancelToken>,
    state: PhantomData<fn() -> F>,
}

impl Client {
    /// Opens one sandbox to be kept for many calls. State the floor, then send it:
    ///
    /// ```no_run
    /// # async fn example(client: plimsoll_client::Client) -> Result<(), plimsoll_client::Error> {
    /// use plimsoll_client::{CellRequest, Tier};
    ///
    /// let session = client.open_session().floor(Tier::Process).send().await?;
    /// session.run_cell(CellRequest::javascript("let n = 41")).send().await?;
    /// let cell = session.run_cell(CellRequest::javascript("n + 1")).send().await?;
    /// assert_eq!(cell.stdout_text(), "42\n");
    /// let closed = session.close().await?;
    /// assert_eq!(closed.summary().calls, 2);
    /// # Ok(())
    /// # }
    /// ```
    pub fn open_session(&self) -> OpenSession<'_> {
        OpenSession::new(self)
    }
}

impl<'c, C> OpenSession<'c, FloorMissing, C> {
    pub(crate) fn new(client: &'c C) -> Self {
        Self {
            client,
            floor: None,
            software: SoftwareRule::NONE,
            lifetime_ms: 0,
            idle_timeout_ms: 0,
            languages: Vec::new(),
            owner: None,
            environment: None,
            trace_id: None,
            cancel: None,
            state: PhantomData,
        }
    }

    /// Opens it only behind a wall at least this strong, and runs every call under this floor.
    pub fn floor(mut self, floor: Tier) -> OpenSession<'c, FloorStated, C> {
        self.floor = Some(floor);
        self.stated()
    }

    /// Opens it behind whatever wall the daemon has. For code the caller wrote and trusts.
    pub fn any_tier(self) -> OpenSession<'c, FloorStated, C> {
        self.stated()
    }

    fn stated(self) -> OpenSession<'c, FloorStated, C> {
        OpenSession {
            client: self.client,
            floor: self.floor,
            software: self.software,
            lifetime_ms: self.lifetime_ms,
            idle_timeout_ms: self.idle_timeout_ms,
            languages: self.languages,
            owner: self.owner,
            environment: self.environment,
            trace_id: self.trace_id,
            cancel: self.cancel,
            state: PhantomData,
        }
    }
}

impl<F, C> OpenSession<'_, F, C> {
    /// Runs only software the rule lists. Every call of the session repeats the rule, or narrows it.
    pub fn software(mut self, rule: SoftwareRule) -> Self {
        self.software = rule;
        self
    }

    /// How long it may live; zero, or more than the daemon allows, is the daemon's own. Whole milliseconds, at most
    /// 2^32 - 1.
    pub fn lifetime(mut self, lifetime: Duration) -> Self {
        self.lifetime_ms = session_ms(lifetime);
        self
    }

    /// After how much idle time it is suspended; as [`OpenSession::lifetime`], and never below one second.
    pub fn idle_timeout(mut self, idle: Duration) -> Self {
        self.idle_timeout_ms = session_ms(idle);
        self
    }

    /// Names a language whose interpreter is worth warming, `javascript` or `python`: a hint. Without one the daemon warms
    /// what it has.
    pub fn language(mut self, language: impl Into<String>) -> Self {
        let language = language.into();
        if !self.languages.contains(&language) {
            self.languages.push(language);
        }
        self
    }

    /// Whom of this caller's users the session belongs to: any text but an empty one. The daemon is sent a keyed digest of
    /// it, never the text. At the owner's cap an open replaces the owner's least recently used idle session.
    pub fn owner(mut self, owner: impl Into<String>) -> Self {
        self.owner = Some(owner.into());
        self
    }

    /// A trace id for the daemon's audit lines: `[A-Za-z0-9._:-]{1,64}`, or empty for none. Wins over
    /// [`crate::with_trace_id`].
    pub fn trace_id(mut self, id: impl Into<String>) -> Self {
        self.trace_id = Some(id.into());
        self
    }

    /// Lets a token cancel the open. One that was sent is never cut: it runs to its answer, and the session nobody waits for
    /// is closed.
    pub fn cancel(mut self, token: &CancelToken) -> Self {
        self.cancel = Some(token.clone());
        self
    }
}

impl OpenSession<'_, FloorStated> {
    /// Validates the request, opens the session, and checks what it states. Dropping the future before anything was sent
    /// sends nothing; afterwards the session is closed as soon as its id is known.
    ///
    /// # Errors
    /// [`Error::not_dispatched`] says whether anything was opened.
    pub async fn send(self) -> Result<Session, Error> {
        self.send_through(|client| client, Canceled::Leaves).await
    }
}

/// What a pool needs of an open it may send more than once.
impl<'c, C> OpenSession<'c, FloorStated, C> {
    pub(crate) const fn target(&self) -> &'c C {
        self.client
    }

    pub(crate) const fn own_floor(&self) -> Option<Tier> {
        self.floor
    }

    pub(crate) const fn own_software(&self) -> &SoftwareRule {
        &self.software
    }

    pub(crate) const fn cancel_token(&self) -> Option<&CancelToken> {
        self.cancel.as_ref()
    }

    /// The same open at one client, under a floor and a rule that include its own. Every call of the session must have run in
    /// `environment`, where one is named.
    pub(crate) fn to<'a>(
        &self,
        client: &'a Client,
        floor: Option<Tier>,
        rule: &SoftwareRule,
        environment: Option<&str>,
    ) -> OpenSession<'a, FloorStated> {
        OpenSession {
            client,
            floor: Tier::stronger(self.floor, floor),
            software: rule.clone(),
            lifetime_ms: self.lifetime_ms,
            idle_timeout_ms: self.idle_timeout_ms,
            languages: self.languages.clone(),
            owner: self.owner.clone(),
            environment: environment.map(str::to_owned),
            trace_id: self.trace_id.clone(),
            cancel: self.cancel.clone(),
            state: PhantomData,
        }
    }
}

impl OpenSession<'_, FloorStated> {
    /// Whether it breaks a rule that every daemon has; nothing is sent.
    pub(crate) fn check(self) -> Result<(), Error> {
        let client = self.client;
        self.request(client).map(drop)
    }
}

/// What a caller does who cancels an open that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Canceled {
    /// Leaves; a task sees to the rest.
    Leaves,
    /// Waits until the session is closed, because there is no task that outlives the call.
    Waits,
}

impl<C> OpenSession<'_, FloorStated, C> {
    pub(crate) async fn send_through(
        self,
        client: impl FnOnce(&C) -> &Client,
        canceled: Canceled,
    ) -> Result<Session, Error> {
        let client = client(self.client).clone();
        let cancel = self.cancel.clone().unwrap_or_default();
        let (floor, rule, environment) = (self.floor, self.software.clone(), self.environment.clone());
        let request = self.request(&client)?;
        if cancel.is_canceled() {
            return Err(Error::canceled(false));
        }
        let sent = Sent::default();
        let given_up = CancelToken::new();
        let opening = Opening {
            client,
            body: to_json(&pb::OpenSessionRequest::from(request)),
            floor,
            rule,
            environment,
            sent: sent.clone(),
            given_up: given_up.clone(),
        };
        let _given_up_when_dropped = CancelOnDrop(given_up.clone());
        let (tell, mut told) = oneshot::channel();
        tokio::spawn(async move {
            // Whoever no longer waits drops the session, which closes it.
            drop(tell.send(opening.run().await));
        });
        let lost = || Error::new(ErrorKind::Transport, "opening the session came to no end");
        tokio::select! {
            biased;
            opened = &mut told => return opened.unwrap_or_else(|_| Err(lost())),
            () = cancel.canceled() => given_up.cancel(),
        }
        let opened = loop {
            if sent.get() && canceled == Canceled::Leaves {
                return Err(Error::canceled(true));
            }
            // The first byte may leave in the very moment of the cancel.
            tokio::select! {
                biased;
                opened = &mut told => break opened.unwrap_or_else(|_| Err(lost())),
                () = sleep(LOOK_AGAIN) => {}
            }
        };
        match opened {
            Ok(session) if canceled == Canceled::Waits => {
                // The token won, so nobody is handed the session.
                let canceled = Error::canceled(true);
                Err(match session.close().await {
                    Ok(_) => canceled,
                    Err(unclosed) => canceled.with_source(unclosed),
                })
            }
            other => other,
        }
    }
}

impl<C> OpenSession<'_, FloorStated, C> {
    /// The request as it is sent to this client's daemon.
    fn request(self, client: &Client) -> Result<OpenRequest, Error> {
        for language in &self.languages {
            validate_language("languages", language)?;
        }
        let owner = self.owner.map(|owner| owner_digest(client, &owner)).transpose()?;
        Ok(OpenRequest {
            protocol: PROTOCOL,
            minimum_isolation: self.floor.map_or("", Tier::as_str).to_owned(),
            trace_id: traced(self.trace_id)?,
            lifetime_ms: self.lifetime_ms,
            idle_timeout_ms: self.idle_timeout_ms,
            software_rule: self.software.to_text(),
            languages: self.languages,
            owner: owner.unwrap_or_default(),
        })
    }
}

/// How often a cancelled open looks whether it was sent all the same.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

impl<F, C> fmt::Debug for OpenSession<'_, F, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the owner, who is somebody.
        f.debug_struct("OpenSession")
            .field("floor", &self.floor)
            .field("languages", &self.languages)
            .finish_non_exhaustive()
    }
}

/// Tells the task that its caller has gone.
struct CancelOnDrop(CancelToken);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// An open under way, in a task of its own.
struct Opening {
    client: Client,
    body: Vec<u8>,
    floor: Option<Tier>,
    rule: SoftwareRule,
    environment: Option<String>,
    sent: Sent,
    given_up: CancelToken,
}

impl Opening {
    async fn run(self) -> Result<Session, Error> {
        let transport = self.client.transport();
        let given_up_unsent = async {
            self.given_up.canceled().await;
            if self.sent.get() {
                std::future::pending::<()>().await;
            }
        };
        let http = tokio::select! {
            biased;
            () = given_up_unsent => return Err(Error::canceled(false)),
            http = transport.post_watched(Procedure::OpenSession, self.body, None, &self.sent) => http?,
        };
        let opened = OpenedSession::from(answer::read::<pb::OpenSessionResponse>(&http)?);
        let fingerprint = Fingerprint::of(opened.session_id.reveal());
        let fault = disbelief(&opened, &fingerprint, self.floor, &self.rule);
        let kept = Arc::new(Kept {
            client: self.client,
            id: opened.session_id,
            stated: Stated {
                fingerprint: fingerprint.as_str().to_owned(),
                provider: opened.sandbox,
                isolation: opened.isolation,
                software_identity: opened.software_identity,
                expires_unix_ms: opened.expires_unix_ms,
                idle_timeout_ms: opened.idle_timeout_ms,
            },
            floor: self.floor,
            rule: self.rule,
            environment: self.environment,
            turn: Turn::new(()),
            state: Mutex::new(State {
                chain: Chain::new(fingerprint),
                ledger: Vec::new(),
                ended: None,
                stopped: None,
                close_lost: false,
            }),
        });
        match fault {
            None => Ok(Session { kept, open: true }),
            Some((kind, message)) => {
                // Whatever becomes of the close, the fault is what the caller must hear.
                let closed = kept.send_close().await;
                let fault = |end: &str| Error::new(kind, format!("{message}; {end}")).with_status(200);
                Err(match closed {
                    Ok(_) => fault("the session was closed"),
                    Err(error) => fault("whether the session was closed is not known").with_source(error),
                })
            }
        }
    }
}

/// The checks of an opened session, in their order: what is wrong with it.
fn disbelief(
    opened: &OpenedSession,
    fingerprint: &Fingerprint,
    floor: Option<Tier>,
    rule: &SoftwareRule,
) -> Option<(ErrorKind, String)> {
    if opened.session != fingerprint.as_str() {
        return Some((
            ErrorKind::Chain,
            "the stated fingerprint is not that of the session's id".to_owned(),
        ));
    }
    let floor = floor.map_or("", Tier::as_str);
    if !meets(&opened.isolation, floor) {
        return Some((
            ErrorKind::IsolationEvidenceMismatch,
            format!(
                "the floor sent was {floor}, and the session states tier {:?}",
                opened.isolation
            ),
        ));
    }
    if !rule.allows(&opened.software_identity) {
        return Some((
            ErrorKind::SoftwareEvidenceMismatch,
            format!(
                "the session states software {:?}, which the rule sent does not list",
                opened.software_identity
            ),
        ));
    }
    None
}

/// What an owner is sent as: keyed with the caller's token, so that the same name at two callers is two owners and nobody
/// can tell a name from its digest without the token.
fn owner_digest(client: &Client, owner: &str) -> Result<String, Error> {
    if owner.is_empty() {
        let message = "owner is empty; name one, or leave it out for a session without an owner";
        return Err(Error::new(ErrorKind::InvalidRequest, message).marked(Refusal::Request));
    }
    let token = client
        .transport()
        .token
        .as_ref()
        .map_or("", |token| token.expose_secret());
    let key = Sha256::new()
        .chain_update("plimsoll session owner key v2\n")
        .chain_update(token)
        .finalize();
    let mut mac = Hmac::<Sha256>::new_from_slice(&key).map_err(|error| {
        Error::new(ErrorKind::InvalidRequest, "owner cannot be digested")
            .marked(Refusal::Request)
            .with_source(error)
    })?;
    mac.update(b"plimsoll session owner v2\n");
    mac.update(owner.as_bytes());
    Ok(mac
        .finalize()
        .into_bytes()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect())
}

/// Whole milliseconds as they travel: rounded at the microsecond, then down; a positive value becomes at least 1, and the
/// largest is 2^32 - 1.
fn session_ms(duration: Duration) -> u32 {
    let micros = (duration.as_nanos() + 500) / 1000;
    let ms = u32::try_from(micros / 1000).unwrap_or(u32::MAX);
    if duration.is_zero() { 0 } else { ms.max(1) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(token: &str, owner: &str) -> String {
        let client = Client::builder("http://127.0.0.1:1").token(token).build().unwrap();
        owner_digest(&client, owner).unwrap()
    }

    #[test]
    fn an_owner_travels_as_a_digest_keyed_with_the_token() {
        let owner = "alice@example.com";
        for (token, expected) in [
            (
                "golden-token-0123456789abcdefghijklmnop",
                "a7305a43c4fad079f2784707cb25f3deee16b1c4d7da700ee664f5657084f80b",
            ),
            ("", "b261355cb5012097b8b4ca487cfe786bf9a7fcbc616c9c2fc38469a1c3e5bc8e"),
            (
                &"x".repeat(96),
                "8ba693de695d11b0bc31a1f6d91c883f07cceca84910df18d7fbb918ee799c8f",
            ),
        ] {
            assert_eq!(digest(token, owner), expected);
        }
        let client = Client::builder("http://127.0.0.1:1").build().unwrap();
        let refused = owner_digest(&client, "").unwrap_err();
        assert_eq!(refused.not_dispatched(), Some(Refusal::Request));
    }

    #[test]
    fn times_of_a_session_travel_in_whole_milliseconds_within_32_bits() {
        for (time, ms) in [
            (Duration::ZERO, 0),
            (Duration::from_nanos(1), 1),
            (Duration::from_millis(4_350), 4_350),
            (Duration::MAX, u32::MAX),
        ] {
            assert_eq!(session_ms(time), ms, "{time:?}");
        }
    }
}
