//! A snippet on its way to a sandbox. It cannot be sent before its floor is stated.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use plimsoll_core::{Payload, Refusal, RunError, RunRequest, SoftwareRule, Tier};
use plimsoll_grants::{Profile, SelectedGrant};

use super::Sandbox;
use super::run::Run;

/// The floor is still to be stated.
#[derive(Clone, Copy, Debug)]
pub struct FloorMissing(());

/// The floor is stated, or waived in so many words.
#[derive(Clone, Copy, Debug)]
pub struct FloorStated(());

/// What a snippet must be before it can be sent. Sealed: only [`FloorStated`] is.
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

/// One JavaScript program and the conditions it may run under.
#[must_use = "a snippet does nothing until it is sent"]
#[derive(Clone)]
pub struct Snippet<'a, F> {
    sandbox: &'a Sandbox,
    request: RunRequest,
    grant: Option<SelectedGrant>,
    floor: PhantomData<F>,
}

impl<'a> Snippet<'a, FloorMissing> {
    pub(super) fn new(sandbox: &'a Sandbox, code: String) -> Self {
        Self {
            sandbox,
            request: RunRequest::javascript(code),
            grant: None,
            floor: PhantomData,
        }
    }

    /// Refuses to run behind anything weaker.
    pub fn floor(self, floor: Tier) -> Snippet<'a, FloorStated> {
        self.stated(floor.as_str())
    }

    /// Accepts whatever wall the provider has.
    pub fn any_tier(self) -> Snippet<'a, FloorStated> {
        self.stated("")
    }

    fn stated(mut self, floor: &str) -> Snippet<'a, FloorStated> {
        floor.clone_into(&mut self.request.minimum_isolation);
        Snippet {
            sandbox: self.sandbox,
            request: self.request,
            grant: self.grant,
            floor: PhantomData,
        }
    }
}

impl<F> Snippet<'_, F> {
    /// How long the program may run, in whole milliseconds: below one becomes one, zero asks for the provider's default,
    /// and what is above the provider's ceiling is lowered to it.
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

impl<F> Snippet<'_, F> {
    /// Lets the program call the grant's routes, through the global the grant names. The credential is minted for this run
    /// and never reaches the program. `profile` names the grant in the record, 128 bytes at most; `subject` is whom a
    /// minted token names.
    ///
    /// # Errors
    /// The grant's token names somebody, and `subject` is empty.
    pub fn grant(mut self, profile: Profile, subject: impl Into<String>) -> Result<Self, Refusal> {
        let name = profile.name().to_owned();
        self.grant = Some(SelectedGrant::new(Arc::new(profile), Some(subject.into()))?);
        Ok(self.grant_profile(name))
    }

    /// Lets the program use the profile of this name, if [`Sandbox::with_grants`] has one for its caller.
    pub fn grant_profile(mut self, name: impl Into<String>) -> Self {
        if let Some(Payload::JavaScript(run)) = &mut self.request.payload {
            run.grant_profile = name.into();
        }
        self
    }
}

impl<F: Stated> Snippet<'_, F> {
    /// Runs the program in a fresh sandbox. Dropping the future cancels the run.
    ///
    /// # Errors
    /// [`RunError::NotDispatched`] when nothing ran, with the reason; [`RunError::MayHaveRun`] otherwise. A program
    /// that fails, or that its timeout ends, is a [`Run`], not an error.
    pub async fn send(self) -> Result<Run, RunError> {
        let (answer, calls) = self.sandbox.settle(self.request, self.grant).await?;
        Run::new(answer, calls)
    }
}

impl<F> fmt::Debug for Snippet<'_, F> {
    /// Without the program: a snippet is easily logged by accident.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Snippet")
            .field("floor", &self.request.minimum_isolation)
            .field("timeout_ms", &self.request.timeout_ms)
            .finish_non_exhaustive()
    }
}

fn whole_milliseconds(timeout: Duration) -> i32 {
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
