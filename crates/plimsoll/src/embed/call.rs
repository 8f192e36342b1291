//! A run on its way to a sandbox. It cannot be sent before its floor is stated.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use plimsoll_core::{Payload, Refusal, RunError, RunRequest, SoftwareRule, Tier};
use plimsoll_grants::{Profile, SelectedGrant};

use super::Sandbox;
use super::run::{RunKind, TakesGrant};

/// The floor is still to be stated.
#[derive(Clone, Copy, Debug)]
pub struct FloorMissing(());

/// The floor is stated, or waived in so many words.
#[derive(Clone, Copy, Debug)]
pub struct FloorStated(());

/// What a run must be before it can be sent. Sealed: only [`FloorStated`] is.
#[diagnostic::on_unimplemented(
    message = "this run has no floor",
    label = "call `.floor(Tier::…)` or `.any_tier()` before `.send()`",
    note = "the floor is the weakest tier you accept; leaving it out by accident must not compile"
)]
pub trait Stated: sealed::Sealed {}

impl Stated for FloorStated {}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::FloorStated {}
}

/// A program or a project, and the conditions it may run under. `R` is what it comes to ([`Run`](super::Run) or
/// [`ProjectRun`](super::ProjectRun)), `F` whether its floor is stated.
#[must_use = "nothing runs until it is sent"]
pub struct RunCall<'a, R, F = FloorMissing> {
    sandbox: &'a Sandbox,
    request: RunRequest,
    grant: Option<SelectedGrant>,
    state: PhantomData<fn() -> (R, F)>,
}

impl<'a, R> RunCall<'a, R, FloorMissing> {
    pub(super) fn new(sandbox: &'a Sandbox, payload: Payload) -> Self {
        Self {
            sandbox,
            request: RunRequest::new(payload),
            grant: None,
            state: PhantomData,
        }
    }

    /// Refuses to run behind anything weaker.
    pub fn floor(self, floor: Tier) -> RunCall<'a, R, FloorStated> {
        self.stated(floor.as_str())
    }

    /// Accepts whatever wall the provider has.
    pub fn any_tier(self) -> RunCall<'a, R, FloorStated> {
        self.stated("")
    }

    fn stated(mut self, floor: &str) -> RunCall<'a, R, FloorStated> {
        floor.clone_into(&mut self.request.minimum_isolation);
        RunCall {
            sandbox: self.sandbox,
            request: self.request,
            grant: self.grant,
            state: PhantomData,
        }
    }
}

impl<R, F> RunCall<'_, R, F> {
    /// How long it may run, a project all its steps together, in whole milliseconds: below one becomes one, zero asks for
    /// the provider's default, and what is above the provider's ceiling is lowered to it.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.request.timeout_ms = whole_milliseconds(timeout);
        self
    }

    /// Accepts only this software. A provider that states no software identity refuses every rule.
    pub fn software(mut self, rule: &SoftwareRule) -> Self {
        self.request.software_rule = rule.to_text();
        self
    }
}

impl<R: TakesGrant, F> RunCall<'_, R, F> {
    /// Lets the code call the grant's routes, through the global the grant names; in a project, that of every Node process.
    /// The credential is minted for this run and never reaches the code. `profile` names the grant in the record, 128 bytes
    /// at most; `subject` is whom a minted token names.
    ///
    /// # Errors
    /// The grant's token names somebody, and `subject` is empty.
    pub fn grant(mut self, profile: Profile, subject: impl Into<String>) -> Result<Self, Refusal> {
        let name = profile.name().to_owned();
        self.grant = Some(SelectedGrant::new(Arc::new(profile), Some(subject.into()))?);
        Ok(self.grant_profile(name))
    }

    /// Lets the code use the profile of this name, if [`Sandbox::with_grants`] has one for its caller.
    pub fn grant_profile(mut self, name: impl Into<String>) -> Self {
        if let Some(payload) = &mut self.request.payload {
            payload.set_grant_profile(name);
        }
        self
    }
}

impl<R: RunKind, F: Stated> RunCall<'_, R, F> {
    /// Runs it in a fresh sandbox. Dropping the future cancels the run.
    ///
    /// # Errors
    /// [`RunError::NotDispatched`] when nothing ran, with the reason; [`RunError::MayHaveRun`] otherwise. Code that fails,
    /// or that its timeout ends, is a result, not an error.
    pub async fn send(self) -> Result<R, RunError> {
        let (answer, calls) = self.sandbox.settle(self.request, self.grant).await?;
        R::read(answer, calls)
    }
}

impl<R, F> Clone for RunCall<'_, R, F> {
    fn clone(&self) -> Self {
        Self {
            sandbox: self.sandbox,
            request: self.request.clone(),
            grant: self.grant.clone(),
            state: PhantomData,
        }
    }
}

impl<R, F> fmt::Debug for RunCall<'_, R, F> {
    /// Without the code: a call is easily logged by accident.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("RunCall")
            .field("floor", &self.request.minimum_isolation)
            .field("timeout_ms", &self.request.timeout_ms)
            .finish_non_exhaustive()
    }
}

pub(super) fn whole_milliseconds(timeout: Duration) -> i32 {
    match i32::try_from(timeout.as_millis()) {
        Ok(0) if !timeout.is_zero() => 1,
        Ok(ms) => ms,
        Err(_) => i32::MAX,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeout_travels_in_whole_milliseconds() {
        for (timeout, ms) in [
            (Duration::ZERO, 0),
            (Duration::from_micros(100), 1),
            (Duration::from_millis(4350), 4350),
            (Duration::from_micros(1999), 1),
            (Duration::MAX, i32::MAX),
        ] {
            assert_eq!(whole_milliseconds(timeout), ms, "{timeout:?}");
        }
    }
}
