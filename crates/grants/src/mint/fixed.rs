//! One credential for every run.

use std::fmt;

use zeroize::Zeroizing;

use super::{Credential, MintError, MintFuture, MintScope, Minter, is_header_value};

/// Gives every run the same value.
pub struct StaticMinter {
    value: Zeroizing<String>,
}

impl StaticMinter {
    /// A minter of this value.
    ///
    /// # Errors
    /// When the value is empty or holds anything but visible ASCII characters.
    pub fn new(value: Zeroizing<String>) -> Result<Self, MintError> {
        if is_header_value(&value) {
            Ok(Self { value })
        } else {
            Err(MintError::Value)
        }
    }
}

impl Minter for StaticMinter {
    fn mint(&self, _scope: MintScope) -> MintFuture<'_> {
        Box::pin(async { Ok(Credential::new(self.value.as_str())) })
    }
}

impl fmt::Debug for StaticMinter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StaticMinter")
    }
}
