//! How strong a wall is: five words, and nothing in between.

use std::fmt;
use std::str::FromStr;

/// A wall a caller can ask for and a provider can prove, weakest first.
///
/// The order is the promise: `Process < Container < Kernel < Vm`. A floor is one of these or absent; a provider that
/// proves nothing reports [`Isolation::None`] or [`Isolation::Unknown`] instead, and those meet no floor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tier {
    /// Library code inside the daemon's own process.
    Process,
    /// Namespaces on a shared kernel.
    Container,
    /// A second kernel between the guest and the host's.
    Kernel,
    /// A virtual machine.
    Vm,
}

impl Tier {
    /// All tiers, weakest first.
    pub const ALL: [Self; 4] = [Self::Process, Self::Container, Self::Kernel, Self::Vm];

    /// The word on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Process => "process",
            Self::Container => "container",
            Self::Kernel => "kernel",
            Self::Vm => "vm",
        }
    }

    /// The stronger of two optional floors; absent is the weakest.
    pub fn stronger(left: Option<Self>, right: Option<Self>) -> Option<Self> {
        left.max(right)
    }
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The text is not one of the four tier words, exactly as written on the wire (`none` and `Kernel` included).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("is not one of process, container, kernel, vm")]
pub struct UnknownTier;

impl FromStr for Tier {
    type Err = UnknownTier;

    /// Exact case.
    fn from_str(text: &str) -> Result<Self, UnknownTier> {
        Self::ALL
            .into_iter()
            .find(|tier| tier.as_str() == text)
            .ok_or(UnknownTier)
    }
}

/// The wall a provider states: a proven tier, none at all, or not known just now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Isolation {
    /// Nothing can run, so there is no wall to speak of.
    None,
    /// Proven by start-up evidence.
    Proven(Tier),
    /// Evidence is missing at the moment; meets no floor.
    Unknown,
}

impl Isolation {
    /// The word on the wire and in records.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Proven(tier) => tier.as_str(),
            Self::Unknown => "unknown",
        }
    }

    /// Reads the word of an answer; any word we do not know is [`Isolation::Unknown`], which meets nothing.
    pub fn from_wire(text: &str) -> Self {
        match text {
            "none" => Self::None,
            other => other.parse().map_or(Self::Unknown, Self::Proven),
        }
    }

    /// The proven tier, if there is one.
    pub const fn tier(self) -> Option<Tier> {
        match self {
            Self::Proven(tier) => Some(tier),
            Self::None | Self::Unknown => None,
        }
    }

    /// Whether this wall is at least the floor. No floor is met by everything; `none` and `unknown` meet no floor.
    pub fn meets(self, floor: Option<Tier>) -> bool {
        floor.is_none_or(|floor| self.tier().is_some_and(|tier| tier >= floor))
    }
}

impl fmt::Display for Isolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_floor_is_met_by_itself_and_stronger_walls_only() {
        for (index, floor) in Tier::ALL.into_iter().enumerate() {
            for (other, tier) in Tier::ALL.into_iter().enumerate() {
                assert_eq!(
                    Isolation::Proven(tier).meets(Some(floor)),
                    other >= index,
                    "{tier} against {floor}"
                );
            }
            assert!(!Isolation::None.meets(Some(floor)));
            assert!(!Isolation::Unknown.meets(Some(floor)));
        }
        assert!(Isolation::None.meets(None) && Isolation::Unknown.meets(None));
    }

    #[test]
    fn words_are_exact() {
        for tier in Tier::ALL {
            assert_eq!(tier.as_str().parse(), Ok(tier));
            assert_eq!(Isolation::from_wire(tier.as_str()), Isolation::Proven(tier));
        }
        for wrong in ["", "none", "Kernel", "KERNEL", " vm", "fortress", "unknown"] {
            assert_eq!(wrong.parse::<Tier>(), Err(UnknownTier), "{wrong:?}");
        }
        assert_eq!(Isolation::from_wire(""), Isolation::Unknown);
        assert_eq!(Isolation::from_wire("none"), Isolation::None);
    }
}
