//! The corridor, as types: each step consumes the one before and cannot be skipped.
//!
//! The looked-up grant rides along as a type parameter that this crate never opens, so that rooms above can carry what
//! they like through the same checks.

mod session;

pub use session::{Addressed, AdmittedOpen, AuthorizedOpen, InSession, InTurn, Turn, Turned, Waiting};

use std::any::Any;
use std::fmt;
use std::time::Duration;

use crate::error::{Code, Reason, Refusal};
use crate::evidence::{Availability, Evidence};
use crate::limits::{MAX_TIMEOUT_MS, PROTOCOL};
use crate::request::{Payload, PayloadKind, RunRequest};
use crate::software::SoftwareRule;
use crate::tier::{Isolation, Tier};
use crate::trace::{TraceId, TraceIdRejected};
use crate::validate;

/// The grant step is still to come.
#[derive(Clone, Copy, Debug)]
pub struct Pending(());

/// The grant step is done; holds what the look-up returned.
#[derive(Debug)]
pub struct Granted<G>(G);

/// A request that satisfies every rule a request can break by itself.
#[derive(Debug)]
pub struct Validated<G = Pending> {
    call: Call,
    grant: G,
}

/// A validated request that current evidence satisfies.
#[derive(Debug)]
pub struct Authorized<G> {
    call: Call,
    grant: G,
}

/// An authorized request that holds its capacity: the only thing a provider can be handed.
#[derive(Debug)]
pub struct Admitted<G> {
    call: Call,
    grant: G,
    permit: Permit,
}

/// The checked form of a request, together with the form that was sent (which digests cover).
#[derive(Debug)]
struct Call {
    request: RunRequest,
    kind: PayloadKind,
    floor: Option<Tier>,
    rule: SoftwareRule,
    trace: Option<Result<TraceId, TraceIdRejected>>,
}

impl Validated<Pending> {
    /// The checks that need nothing but the request, in order: protocol, floor, rule, payload kind, payload.
    ///
    /// # Errors
    /// The first rule the request breaks, marked `protocol` or `request`.
    pub fn new(request: RunRequest) -> Result<Self, Refusal> {
        check_protocol(request.protocol)?;
        let floor = validate::floor(&request.minimum_isolation)?;
        let rule = SoftwareRule::parse(request.software_rule.as_ref())?;
        let kind = validate::run_payload(request.payload.as_ref())?;
        let trace = (!request.trace_id.is_empty()).then(|| TraceId::parse(&request.trace_id));
        Ok(Self {
            call: Call {
                request,
                kind,
                floor,
                rule,
                trace,
            },
            grant: Pending(()),
        })
    }

    /// Step 7: the grant. `look_up` is given the profile's name, or nothing when the run names none.
    ///
    /// # Errors
    /// Whatever the look-up refuses.
    pub fn grant<G>(
        self,
        look_up: impl FnOnce(Option<&str>) -> Result<G, Refusal>,
    ) -> Result<Validated<Granted<G>>, Refusal> {
        let profile = self.call.payload().grant_profile();
        let grant = look_up((!profile.is_empty()).then_some(profile))?;
        Ok(Validated {
            call: self.call,
            grant: Granted(grant),
        })
    }
}

impl<G> Validated<Granted<G>> {
    /// Steps 8 and 9: floor, then software rule, then whether the provider runs this kind (and a grant on it) at all.
    ///
    /// # Errors
    /// A refusal marked `isolation`, `environment` or `unsupported`, in that order of checks.
    pub fn authorize(self, evidence: &Evidence) -> Result<Authorized<G>, Refusal> {
        self.call.compare(evidence)?;
        Ok(Authorized {
            call: self.call,
            grant: self.grant.0,
        })
    }
}

impl<G> Validated<G> {
    /// Which kind of payload this is.
    pub const fn kind(&self) -> PayloadKind {
        self.call.kind
    }

    /// The request exactly as it came in, and its rule: for a client, whose corridor ends here.
    pub fn into_request(self) -> (RunRequest, SoftwareRule) {
        (self.call.request, self.call.rule)
    }
}

impl<G> Authorized<G> {
    /// Step 11: the call takes its capacity with it.
    pub fn admit(self, permit: Permit) -> Admitted<G> {
        Admitted {
            call: self.call,
            grant: self.grant,
            permit,
        }
    }

    /// Which kind of payload this is.
    pub const fn kind(&self) -> PayloadKind {
        self.call.kind
    }

    /// What is to run, for a provider that is asked whether it can.
    pub fn payload(&self) -> &Payload {
        self.call.payload()
    }
}

impl<G> Admitted<G> {
    /// The request exactly as it was sent.
    pub const fn request(&self) -> &RunRequest {
        &self.call.request
    }

    /// What to run.
    pub fn payload(&self) -> &Payload {
        self.call.payload()
    }

    /// The floor, if the caller set one.
    pub const fn floor(&self) -> Option<Tier> {
        self.call.floor
    }

    /// The software rule.
    pub const fn rule(&self) -> &SoftwareRule {
        &self.call.rule
    }

    /// The caller's trace id: none sent, kept, or rejected whole.
    pub const fn trace(&self) -> Option<&Result<TraceId, TraceIdRejected>> {
        self.call.trace.as_ref()
    }

    /// The looked-up grant.
    pub const fn grant(&self) -> &G {
        &self.grant
    }

    /// The run's time limit: the provider's default when the caller asked for none, and never above the provider's
    /// ceiling nor [`crate::limits::MAX_TIMEOUT`].
    pub fn timeout(&self, default: Duration, ceiling: Duration) -> Duration {
        let asked = self.call.request.timeout_ms.min(MAX_TIMEOUT_MS);
        match u64::try_from(asked) {
            Ok(ms) if ms > 0 => Duration::from_millis(ms).min(ceiling),
            _ => default.min(ceiling),
        }
    }

    /// Compares floor, rule and support once more, with the very state the provider is about to launch.
    ///
    /// # Errors
    /// As [`Validated::authorize`].
    pub fn recheck(&self, launching: &Evidence) -> Result<(), Refusal> {
        self.call.compare(launching)
    }

    /// Another holder of this call's capacity, for a provider whose sandbox outlives the answer.
    pub fn hold(&self) -> Permit {
        self.permit.clone()
    }
}

impl Call {
    #[expect(
        clippy::expect_used,
        reason = "validation refuses a request without a payload; nothing removes it later"
    )]
    fn payload(&self) -> &Payload {
        self.request
            .payload
            .as_ref()
            .expect("a validated request has a payload")
    }

    /// The order floor, rule, unsupported is the same on every provider and for every kind.
    fn compare(&self, evidence: &Evidence) -> Result<(), Refusal> {
        meets_floor(self.floor, evidence.provider, evidence.isolation)?;
        let environment = evidence.environments.of(self.kind);
        let identity = environment.map_or("", |environment| environment.software_identity.as_str());
        if !self.rule.allows(identity) {
            return Err(Refusal::environment(if identity.is_empty() {
                format!(
                    "software_rule cannot be met: provider {} states no software identity for {} runs; remove the rule or use a provider that states one",
                    evidence.provider,
                    self.kind.as_str()
                )
            } else {
                format!(
                    "software_rule does not list {identity}, which provider {} runs",
                    evidence.provider
                )
            }));
        }
        if evidence.availability == Availability::Disabled {
            return Err(Refusal::new(
                Code::FailedPrecondition,
                Reason::Unsupported,
                "execution is disabled on this daemon; the operator enables it with SANDBOX_PROVIDER",
            ));
        }
        if environment.is_none() {
            return Err(Refusal::unsupported(format!(
                "provider {} does not run {} payloads",
                evidence.provider,
                self.kind.as_str()
            )));
        }
        if !self.payload().grant_profile().is_empty() && !evidence.grants.of(self.kind) {
            return Err(Refusal::unsupported(format!(
                "provider {} does not support grants on {} payloads",
                evidence.provider,
                self.kind.as_str()
            )));
        }
        Ok(())
    }
}

fn meets_floor(floor: Option<Tier>, provider: &str, isolation: Isolation) -> Result<(), Refusal> {
    match floor {
        Some(floor) if !isolation.meets(Some(floor)) => Err(Refusal::isolation(format!(
            "minimum_isolation is {floor}, but provider {provider} gives {isolation}; nothing ran. Lower the floor or use a stronger provider"
        ))),
        _ => Ok(()),
    }
}

/// Capacity held for a call: given back when the last clone is dropped.
///
/// What is held is the admitter's business; this crate only keeps it alive exactly as long as the call.
#[derive(Clone)]
pub struct Permit {
    _guard: std::sync::Arc<dyn Any + Send + Sync>,
}

impl Permit {
    /// Wraps a guard whose drop gives the capacity back.
    pub fn new(guard: impl Any + Send + Sync) -> Self {
        Self {
            _guard: std::sync::Arc::new(guard),
        }
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Permit")
    }
}

/// Step 1 of every procedure but Describe: the one protocol number, before any other field is looked at.
///
/// # Errors
/// Marked `protocol`: `invalid_argument` for 0, `unimplemented` for any other number.
pub fn check_protocol(protocol: u32) -> Result<(), Refusal> {
    match protocol {
        PROTOCOL => Ok(()),
        0 => Err(Refusal::new(
            Code::InvalidArgument,
            Reason::Protocol,
            format!("protocol is missing; set it to {PROTOCOL}"),
        )),
        other => Err(Refusal::new(
            Code::Unimplemented,
            Reason::Protocol,
            format!("protocol is {other}, but this daemon serves {PROTOCOL} only"),
        )),
    }
}
