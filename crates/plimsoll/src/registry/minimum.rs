//! The weakest tier an operator lets anything run behind.

use plimsoll_core::vars::{Kind, Lookup, SettingError, Var};
use plimsoll_core::{Isolation, Tier};

use super::Choice;

pub(super) const MIN_ISOLATION: Var = Var::new(
    "SANDBOX_MIN_ISOLATION",
    Kind::OneOf(&["process", "container", "kernel", "vm"]),
    "",
    "The weakest tier anything may run behind: the daemon does not serve, and a run without a daemon does not begin, when \
     the tier proven at start-up is below this. Does not replace a caller's own floor.",
);

pub(super) const VARS: &[Var] = &[MIN_ISOLATION];

const FIX: &str = "choose a stronger provider, lower the minimum, or unset it";

/// The operator's own floor, below every caller's: none when `SANDBOX_MIN_ISOLATION` is not set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Minimum(Option<Tier>);

impl Minimum {
    /// Reads `SANDBOX_MIN_ISOLATION`.
    ///
    /// # Errors
    /// Another word than a tier that can be proven.
    pub fn read(lookup: &dyn Lookup) -> Result<Self, SettingError> {
        Ok(Self(MIN_ISOLATION.word(lookup)?.and_then(|word| word.parse().ok())))
    }

    /// Whether the chosen provider can ever prove it. What it does prove is seen at the start: [`Minimum::met_by`].
    ///
    /// # Errors
    /// It cannot; names both tiers.
    pub fn within_reach_of(self, choice: Choice) -> Result<(), SettingError> {
        let Some(minimum) = self.0 else {
            return Ok(());
        };
        match choice.strongest() {
            Some(strongest) if strongest >= minimum => Ok(()),
            Some(strongest) => {
                let problem = format!("provider {} proves {strongest} at most", choice.name());
                Err(MIN_ISOLATION.unusable(minimum, problem, FIX))
            }
            None => Err(MIN_ISOLATION.unusable(
                minimum,
                "no provider is chosen, so no tier can be proven",
                "choose a provider, or unset the minimum",
            )),
        }
    }

    /// Whether what a provider has proven is enough.
    ///
    /// # Errors
    /// It is not; names both tiers.
    pub fn met_by(self, provider: &str, proven: Isolation) -> Result<(), SettingError> {
        match self.0 {
            Some(minimum) if !proven.meets(Some(minimum)) => {
                let problem = format!("provider {provider} has proven {proven} only");
                Err(MIN_ISOLATION.unusable(minimum, problem, FIX))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::Environment;

    fn read(value: &str) -> Result<Minimum, String> {
        let environment = Environment::from_pairs([("SANDBOX_MIN_ISOLATION", value)]);
        Minimum::read(&environment).map_err(|error| error.to_string())
    }

    #[test]
    fn it_is_a_tier_that_can_be_proven_in_any_case() {
        assert_eq!(read("VM "), Ok(Minimum(Some(Tier::Vm))));
        assert_eq!(read("  "), Ok(Minimum(None)));
        for word in ["none", "unknown", "strong"] {
            let told = read(word).unwrap_err();
            assert!(told.starts_with(&format!("SANDBOX_MIN_ISOLATION={word:?}")), "{told}");
        }
        let Kind::OneOf(words) = MIN_ISOLATION.kind else {
            panic!("a list of words");
        };
        assert_eq!(words, Tier::ALL.map(Tier::as_str));
    }

    #[test]
    fn what_is_proven_is_compared_and_not_what_could_be() {
        let container = Minimum(Some(Tier::Container));
        let wasm = Choice::named("wasm").unwrap();
        assert_eq!(Minimum(Some(Tier::Process)).within_reach_of(wasm), Ok(()));
        assert_eq!(Minimum::default().met_by("any", Isolation::Unknown), Ok(()));
        assert_eq!(container.met_by("any", Isolation::Proven(Tier::Kernel)), Ok(()));
        for told in [
            container.within_reach_of(wasm).unwrap_err(),
            container.met_by("wasm", Isolation::Proven(Tier::Process)).unwrap_err(),
        ] {
            let told = told.to_string();
            assert!(told.contains("container") && told.contains("process"), "{told}");
        }
        assert!(container.met_by("any", Isolation::Unknown).is_err());
    }
}
