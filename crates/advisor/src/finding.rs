//! What a finding is. Its words are all ours: a label, a number, or a route template of the operator's allow list.

use std::fmt;
use std::time::Duration;

use plimsoll_grants::Route;
use serde::{Serialize, Serializer};

/// The shape of calls that was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Pattern {
    /// Many calls of one route with a `*`.
    FanOut,
    /// The same read again and again.
    RepeatedRead,
}

impl Pattern {
    /// The label of wire, audit line and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::FanOut => "fan_out",
            Self::RepeatedRead => "repeated_read",
        }
    }

    /// What would help.
    pub const fn remedy(self) -> Remedy {
        match self {
            Self::FanOut => Remedy::Batch,
            Self::RepeatedRead => Remedy::Cache,
        }
    }
}

/// What would help against a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Remedy {
    /// One call for many items.
    Batch,
    /// Reuse of an answer.
    Cache,
}

impl Remedy {
    /// The label of wire, audit line and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Batch => "batch",
            Self::Cache => "cache",
        }
    }

    /// The remedy of a label; labels of older logs have none here.
    pub fn of_label(label: &str) -> Option<Self> {
        [Self::Batch, Self::Cache]
            .into_iter()
            .find(|remedy| remedy.as_str() == label)
    }
}

/// How much it matters, least first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Worth knowing.
    #[default]
    Info,
    /// From the threshold of its pattern on.
    Low,
    /// From 25 calls on.
    Medium,
    /// From 100 calls on.
    High,
}

impl Severity {
    /// The label of wire, audit line and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }

    /// The severity of a label; a label nobody knows is [`Severity::Info`].
    pub fn of_label(label: &str) -> Self {
        [Self::Low, Self::Medium, Self::High]
            .into_iter()
            .find(|severity| severity.as_str() == label)
            .unwrap_or_default()
    }
}

impl Serialize for Severity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// Who can act on a finding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// The agent: a declared and granted route serves the same reads.
    AgentFixable,
    /// The operator: the declared route is not granted.
    GrantRoute,
    /// The operator: a route looks like a replacement by its path, and nobody has declared it.
    Candidate,
    /// The owner of the API: no route is known.
    #[default]
    NoKnownRoute,
}

impl Class {
    /// The label of the report.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::AgentFixable => "agent-fixable",
            Self::GrantRoute => "grant-route",
            Self::Candidate => "candidate",
            Self::NoKnownRoute => "no-known-route",
        }
    }
}

impl Serialize for Class {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// The route that may replace the calls of a finding, and how it is known. A finding has at most one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Replacement {
    /// Declared in `batch_of` and granted.
    Suggested(Route),
    /// Declared in `batch_of` and not granted.
    GrantRoute(Route),
    /// The parent of the route's last `*`, granted or catalogued, declared by nobody.
    Candidate(Route),
    /// None is known.
    #[default]
    None,
}

impl Replacement {
    /// Who can act.
    pub const fn class(&self) -> Class {
        match self {
            Self::Suggested(_) => Class::AgentFixable,
            Self::GrantRoute(_) => Class::GrantRoute,
            Self::Candidate(_) => Class::Candidate,
            Self::None => Class::NoKnownRoute,
        }
    }
}

/// What the calls of a finding cost beyond one call. Modelled from the trace, never measured against the alternative.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Cost {
    /// Successful calls less one.
    pub extra_calls: u64,
    /// Time in host calls that one call would not have taken.
    pub added_latency: Duration,
    /// Request and response bytes of the counted calls.
    pub bytes_moved: u64,
}

impl Cost {
    /// Both together; a sum past the largest number stays there.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            extra_calls: self.extra_calls.saturating_add(other.extra_calls),
            added_latency: self.added_latency.saturating_add(other.added_latency),
            bytes_moved: self.bytes_moved.saturating_add(other.bytes_moved),
        }
    }

    /// Whole milliseconds of [`Cost::added_latency`], cut.
    pub fn added_latency_ms(&self) -> u64 {
        u64::try_from(self.added_latency.as_millis()).unwrap_or(u64::MAX)
    }
}

/// One thing worth knowing about the host calls of a run.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Finding {
    pub(crate) pattern: Pattern,
    pub(crate) severity: Severity,
    pub(crate) route: Route,
    pub(crate) replacement: Replacement,
    pub(crate) cost: Cost,
    pub(crate) detail: String,
}

impl Finding {
    /// What was seen.
    pub const fn pattern(&self) -> Pattern {
        self.pattern
    }

    /// How much it matters.
    pub const fn severity(&self) -> Severity {
        self.severity
    }

    /// What would help.
    pub const fn remedy(&self) -> Remedy {
        self.pattern.remedy()
    }

    /// The route of the calls: a template of the allow list.
    pub const fn route(&self) -> &Route {
        &self.route
    }

    /// The route that may replace them.
    pub const fn replacement(&self) -> &Replacement {
        &self.replacement
    }

    /// Who can act.
    pub const fn class(&self) -> Class {
        self.replacement.class()
    }

    /// What it cost.
    pub const fn cost(&self) -> Cost {
        self.cost
    }

    /// One paragraph for people: what was counted, what is not known, and when the remedy helps.
    pub fn detail(&self) -> &str {
        &self.detail
    }
}

macro_rules! displays_its_label {
    ($($label:ty),*) => {$(
        impl fmt::Display for $label {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }
    )*};
}
displays_its_label!(Pattern, Remedy, Severity, Class);
