//! The corridor of sessions: one way to open one, and one way for a call to run in it.
//!
//! ```text
//! OpenRequest ── authorize(&Evidence) ──► AuthorizedOpen ── admit(Permit) ──► AdmittedOpen
//!
//! RunRequest ── Addressed ── (look-up by the service) ── validate(rule of the open) ──► InSession ── grant ──►
//!     InSession<Granted> ── authorize(&SessionEvidence) ──► Waiting ── take(Turn) ──► Turned ── admit(Permit) ──► InTurn
//! ```
//!
//! A session's sandbox is handed nothing but an [`InTurn`] call, so "one call at a time, and only after the session's own
//! evidence was compared" is a fact of the types. It is no [`Admitted`] call, so it cannot run outside its session either.

use std::any::Any;
use std::fmt;
use std::time::Duration;

use super::{Admitted, Authorized, Call, Granted, Pending, Permit, Validated, check_protocol};
use crate::error::{Code, Reason, Refusal};
use crate::evidence::{Evidence, PayloadEnvironment, SessionEvidence};
use crate::request::{OpenRequest, Payload, PayloadKind, RunRequest};
use crate::software::SoftwareRule;
use crate::tier::Tier;
use crate::trace::{TraceId, TraceIdRejected};
use crate::validate;

/// An open request that current evidence satisfies.
#[derive(Debug)]
pub struct AuthorizedOpen {
    request: OpenRequest,
    floor: Option<Tier>,
    rule: SoftwareRule,
    languages: Vec<String>,
}

/// An open request that holds its capacity: the only thing that opens a session.
#[derive(Debug)]
pub struct AdmittedOpen {
    open: AuthorizedOpen,
    lifetime: Duration,
    permit: Permit,
}

impl AuthorizedOpen {
    /// The checks of an open that need no other session, in order: protocol, whether sessions are kept at all, floor and
    /// rule as text, floor and rule against the evidence, language hint, owner.
    ///
    /// # Errors
    /// The first that fails; nothing was opened.
    pub fn new(request: OpenRequest, evidence: &Evidence) -> Result<Self, Refusal> {
        check_protocol(request.protocol)?;
        let Some(support) = &evidence.sessions else {
            return Err(Refusal::unsupported(format!(
                "provider {} keeps no sessions; use Run, or a daemon whose Describe states sessions",
                evidence.provider
            )));
        };
        let floor = validate::floor(&request.minimum_isolation)?;
        let rule = SoftwareRule::parse(request.software_rule.as_ref())?;
        super::meets_floor(floor, evidence.provider, evidence.isolation)?;
        meets_rule(&rule, evidence.provider, &support.environment)?;
        let languages = hinted(&request.languages, &support.environment.languages)?;
        validate::validate_owner(&request.owner)?;
        Ok(Self {
            request,
            floor,
            rule,
            languages,
        })
    }

    /// The request as it was sent.
    pub const fn request(&self) -> &OpenRequest {
        &self.request
    }

    /// The open takes its capacity with it. `lifetime` is the effective one.
    pub const fn admit(self, lifetime: Duration, permit: Permit) -> AdmittedOpen {
        AdmittedOpen {
            open: self,
            lifetime,
            permit,
        }
    }
}

impl AdmittedOpen {
    /// The request as it was sent.
    pub const fn request(&self) -> &OpenRequest {
        &self.open.request
    }

    /// The floor, if the caller set one.
    pub const fn floor(&self) -> Option<Tier> {
        self.open.floor
    }

    /// The software rule every call of the session must repeat or narrow.
    pub const fn rule(&self) -> &SoftwareRule {
        &self.open.rule
    }

    /// Which interpreters are worth warming: the stated languages the caller named, or all of them.
    pub fn languages(&self) -> &[String] {
        &self.open.languages
    }

    /// The longest the session may live. Whoever drives the session ends it; a provider uses this for its own labels.
    pub const fn lifetime(&self) -> Duration {
        self.lifetime
    }

    /// Compares floor and rule with what the opened session really runs.
    ///
    /// # Errors
    /// Marked `isolation` or `environment`.
    pub fn recheck(&self, opened: &SessionEvidence) -> Result<(), Refusal> {
        super::meets_floor(self.open.floor, opened.provider, opened.isolation)?;
        meets_rule(&self.open.rule, opened.provider, &opened.support.environment)
    }

    /// Another holder of this open's capacity, for a sandbox that is still being removed when the answer is out.
    pub fn hold(&self) -> Permit {
        self.permit.clone()
    }

    /// The caller's trace id: none sent, kept, or rejected whole.
    pub fn trace(&self) -> Option<Result<TraceId, TraceIdRejected>> {
        let text = &self.open.request.trace_id;
        (!text.is_empty()).then(|| TraceId::parse(text))
    }
}

/// A known language that is not stated is dropped: a hint, not a demand.
fn hinted(asked: &[String], stated: &[String]) -> Result<Vec<String>, Refusal> {
    for language in asked {
        validate::validate_language("languages", language)?;
    }
    let mut kept: Vec<String> = Vec::new();
    let order = if stated.is_empty() { asked } else { stated };
    for language in order {
        let wanted = asked.is_empty() || asked.contains(language);
        if wanted && !kept.contains(language) {
            kept.push(language.clone());
        }
    }
    Ok(kept)
}

/// A session call whose protocol, floor and rule are well formed: all that is checked before its session is looked up.
#[derive(Debug)]
pub struct Addressed {
    request: RunRequest,
    floor: Option<Tier>,
    rule: SoftwareRule,
    trace: Option<Result<TraceId, TraceIdRejected>>,
}

/// A session call that satisfies every rule a request can break by itself, and the rule its session was opened with.
#[derive(Debug)]
pub struct InSession<G = Pending>(Validated<G>);

/// A session call that the session's evidence satisfies and that may wait for the session's turn.
#[derive(Debug)]
pub struct Waiting<G>(Authorized<G>);

/// A session call that has its session's turn.
#[derive(Debug)]
pub struct Turned<G> {
    call: Authorized<G>,
    turn: Turn,
}

/// A session call that has its turn and holds its capacity: the only thing a session can be handed.
#[derive(Debug)]
pub struct InTurn<G> {
    call: Admitted<G>,
    turn: Turn,
}

impl Addressed {
    /// Protocol, then floor and rule as text.
    ///
    /// # Errors
    /// The first that fails, marked `protocol` or `request`.
    pub fn new(request: RunRequest) -> Result<Self, Refusal> {
        check_protocol(request.protocol)?;
        let floor = validate::floor(&request.minimum_isolation)?;
        let rule = SoftwareRule::parse(request.software_rule.as_ref())?;
        let trace = (!request.trace_id.is_empty()).then(|| TraceId::parse(&request.trace_id));
        Ok(Self {
            request,
            floor,
            rule,
            trace,
        })
    }

    /// The payload's kind, the rule against the session's, then the payload itself.
    ///
    /// # Errors
    /// The first that fails, marked `request`.
    pub fn validate(self, opened_with: &SoftwareRule) -> Result<InSession, Refusal> {
        let kind = validate::session_kind(self.request.payload.as_ref())?;
        repeats(opened_with, &self.rule)?;
        validate::session_payload(self.request.payload.as_ref())?;
        Ok(InSession(Validated {
            call: Call {
                request: self.request,
                kind,
                floor: self.floor,
                rule: self.rule,
                trace: self.trace,
            },
            grant: Pending(()),
        }))
    }
}

/// A call must repeat its session's rule or narrow it, so that its record states a rule that held.
fn repeats(opened_with: &SoftwareRule, call: &SoftwareRule) -> Result<(), Refusal> {
    let sorted = |rule: &SoftwareRule| {
        let mut identities = rule.identities().to_vec();
        identities.sort_unstable();
        identities
    };
    let merged = opened_with.merge(call)?;
    if sorted(&merged) == sorted(call) {
        return Ok(());
    }
    Err(Refusal::request(
        "software_rule is not the one the session was opened with, nor a narrower one; send that rule with every call",
    ))
}

impl InSession<Pending> {
    /// The request and its rule, for a client that only checks and sends.
    pub fn into_request(self) -> (RunRequest, SoftwareRule) {
        self.0.into_request()
    }

    /// The grant, as [`Validated::grant`]; the look-up also decides whether sessions may use it.
    ///
    /// # Errors
    /// Whatever the look-up refuses.
    pub fn grant<G>(
        self,
        look_up: impl FnOnce(Option<&str>) -> Result<G, Refusal>,
    ) -> Result<InSession<Granted<G>>, Refusal> {
        self.0.grant(look_up).map(InSession)
    }
}

impl<G> InSession<Granted<G>> {
    /// Floor, rule and support, against what was measured when the session was opened.
    ///
    /// # Errors
    /// Marked `isolation`, `environment` or `unsupported`, in that order of checks.
    pub fn authorize(self, opened: &SessionEvidence) -> Result<Waiting<G>, Refusal> {
        self.0.call.compare_in_session(opened)?;
        Ok(Waiting(Authorized {
            call: self.0.call,
            grant: self.0.grant.0,
        }))
    }
}

impl<G> Waiting<G> {
    /// Which kind of payload this is.
    pub const fn kind(&self) -> PayloadKind {
        self.0.kind()
    }

    /// What is to run, as [`Authorized::payload`].
    pub fn payload(&self) -> &Payload {
        self.0.payload()
    }

    /// The call has its session's turn.
    pub fn take(self, turn: Turn) -> Turned<G> {
        Turned { call: self.0, turn }
    }
}

impl<G> Turned<G> {
    /// The call takes its capacity with it.
    pub fn admit(self, permit: Permit) -> InTurn<G> {
        InTurn {
            call: self.call.admit(permit),
            turn: self.turn,
        }
    }
}

impl<G> InTurn<G> {
    /// The call: what to run, under which floor, rule, grant and time limit.
    pub const fn call(&self) -> &Admitted<G> {
        &self.call
    }

    /// Compares floor, rule and support once more, with the session as it is now.
    ///
    /// # Errors
    /// As [`InSession::authorize`].
    pub fn recheck(&self, now: &SessionEvidence) -> Result<(), Refusal> {
        self.call.call.compare_in_session(now)
    }

    /// The call for its books, and the turn, which is given back when it is dropped.
    pub fn into_parts(self) -> (Admitted<G>, Turn) {
        (self.call, self.turn)
    }
}

impl Call {
    /// The order floor, rule, unsupported is that of single runs.
    fn compare_in_session(&self, session: &SessionEvidence) -> Result<(), Refusal> {
        let (provider, support) = (session.provider, &session.support);
        super::meets_floor(self.floor, provider, session.isolation)?;
        meets_rule(&self.rule, provider, &support.environment)?;
        let supported = match self.kind {
            PayloadKind::JavaScript => support.snippets,
            PayloadKind::Project => support.projects,
            PayloadKind::Cell => !support.environment.languages.is_empty(),
            PayloadKind::Module => false,
        };
        if !supported {
            return Err(Refusal::unsupported(format!(
                "provider {provider} does not run {} payloads in sessions",
                self.kind.as_str()
            )));
        }
        if let Payload::Cell(cell) = self.payload()
            && !support.environment.languages.contains(&cell.language)
        {
            return Err(Refusal::new(
                Code::Unimplemented,
                Reason::Environment,
                format!(
                    "cell.language is {}, but this session runs {} only",
                    cell.language,
                    support.environment.languages.join(", ")
                ),
            ));
        }
        if !self.payload().grant_profile().is_empty() && !support.grants.of(self.kind) {
            return Err(Refusal::unsupported(format!(
                "provider {provider} does not support grants on {} payloads in sessions",
                self.kind.as_str()
            )));
        }
        Ok(())
    }
}

fn meets_rule(rule: &SoftwareRule, provider: &str, environment: &PayloadEnvironment) -> Result<(), Refusal> {
    let identity = &environment.software_identity;
    if rule.allows(identity) {
        return Ok(());
    }
    Err(Refusal::environment(if identity.is_empty() {
        format!(
            "software_rule cannot be met: provider {provider} states no software identity for sessions; remove the rule or use a provider that states one"
        )
    } else {
        format!("software_rule does not list {identity}, which sessions of provider {provider} run")
    }))
}

/// The right to run in a session: there is one per session, and it is given back when this is dropped.
///
/// What is held is the business of whoever keeps the session; this crate only ties it to the call.
pub struct Turn {
    _guard: Box<dyn Any + Send + Sync>,
}

impl Turn {
    /// Wraps a guard whose drop gives the turn back.
    pub fn new(guard: impl Any + Send + Sync) -> Self {
        Self {
            _guard: Box::new(guard),
        }
    }
}

impl fmt::Debug for Turn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Turn")
    }
}
