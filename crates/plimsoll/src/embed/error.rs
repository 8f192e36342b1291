//! Why a sandbox could not be built.

use plimsoll_core::vars::SettingError;
use plimsoll_sandbox::ProviderFault;

use super::capacity::CapacityError;

/// Nothing can run in a sandbox that was never built, so every one of these means that nothing ran.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// A setting is wrong; the text names it, its value and the fix.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// What the provider proves, or could, is below the operator's minimum; the text names both tiers.
    #[error(transparent)]
    BelowMinimum(SettingError),
    /// The provider could not prove itself.
    #[error("the sandbox is not ready: {0}")]
    NotReady(#[from] ProviderFault),
    /// The bounds fit no run.
    #[error(transparent)]
    Capacity(#[from] CapacityError),
}
