//! The grant of one run, as it travels along the corridor (spec 30 §5).

use std::sync::Arc;

use plimsoll_core::Refusal;

use crate::profiles::Profile;

/// A profile that was looked up for a caller, and who that is.
#[derive(Clone, Debug)]
pub struct SelectedGrant {
    profile: Arc<Profile>,
    subject: Option<String>,
}

impl SelectedGrant {
    /// A profile for a caller; `subject` is its authenticated identity.
    ///
    /// # Errors
    /// `permission_denied` when the grant's token names the caller and there is none.
    pub fn new(profile: Arc<Profile>, subject: Option<String>) -> Result<Self, Refusal> {
        let names_caller = profile.grant().minter().is_some_and(|minter| minter.requires_subject());
        if names_caller && subject.as_deref().is_none_or(str::is_empty) {
            return Err(Refusal::permission(
                "grant_profile needs an authenticated caller, because its token names one",
            ));
        }
        Ok(Self { profile, subject })
    }

    /// Whether a call of a session may use it.
    ///
    /// # Errors
    /// `permission_denied` unless the profile says so: what an earlier call left running could use it.
    pub fn check_session(&self) -> Result<(), Refusal> {
        if self.profile.grant().allow_in_sessions() {
            Ok(())
        } else {
            Err(Refusal::permission(
                "grant_profile may not be used in a session; run it outside one, or ask the operator for allow_in_sessions",
            ))
        }
    }

    /// The profile.
    pub const fn profile(&self) -> &Arc<Profile> {
        &self.profile
    }

    /// The authenticated caller, whom a minted token names.
    pub fn subject(&self) -> Option<&str> {
        self.subject.as_deref()
    }
}
