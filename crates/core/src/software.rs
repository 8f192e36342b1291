//! Which software a caller accepts.

use crate::error::Refusal;
use crate::limits::{MAX_IDENTITIES, MAX_IDENTITY_BYTES};

/// A software rule as it was sent, before any check. Digests cover exactly this form.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SoftwareRuleText {
    /// `""`, `exact` or `approved`.
    pub mode: String,
    /// In the order sent.
    pub identities: Vec<String>,
}

/// How many identities a rule lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleMode {
    /// Exactly one.
    Exact,
    /// One to 32.
    Approved,
}

impl RuleMode {
    /// The word on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Approved => "approved",
        }
    }
}

/// A checked rule: absent, or a mode with well-formed, distinct identities.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SoftwareRule(Option<Listed>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Listed {
    mode: RuleMode,
    identities: Vec<String>,
}

impl SoftwareRule {
    /// No rule: any software, also software nobody states.
    pub const NONE: Self = Self(None);

    /// Accepts one identity only.
    pub fn exact(identity: impl Into<String>) -> Result<Self, Refusal> {
        Self::listed(RuleMode::Exact, vec![identity.into()])
    }

    /// Accepts any of 1 to 32 identities.
    pub fn approved<I: Into<String>>(identities: impl IntoIterator<Item = I>) -> Result<Self, Refusal> {
        Self::listed(RuleMode::Approved, identities.into_iter().map(Into::into).collect())
    }

    /// Checks a rule as sent. Unset, and mode `""` without identities, are no rule.
    pub fn parse(text: Option<&SoftwareRuleText>) -> Result<Self, Refusal> {
        let Some(text) = text else { return Ok(Self::NONE) };
        match (text.mode.as_str(), text.identities.is_empty()) {
            ("", true) => Ok(Self::NONE),
            ("", false) => Err(Refusal::request(
                "software_rule.identities are listed without a mode; set software_rule.mode to exact or approved",
            )),
            ("exact", _) => Self::listed(RuleMode::Exact, text.identities.clone()),
            ("approved", _) => Self::listed(RuleMode::Approved, text.identities.clone()),
            _ => Err(Refusal::request("software_rule.mode is not exact or approved")),
        }
    }

    fn listed(mode: RuleMode, identities: Vec<String>) -> Result<Self, Refusal> {
        let count = identities.len();
        match mode {
            RuleMode::Exact if count != 1 => {
                return Err(Refusal::request(format!(
                    "software_rule of mode exact lists {count} identities; list exactly 1"
                )));
            }
            RuleMode::Approved if !(1..=MAX_IDENTITIES).contains(&count) => {
                return Err(Refusal::request(format!(
                    "software_rule of mode approved lists {count} identities; list 1 to {MAX_IDENTITIES}"
                )));
            }
            RuleMode::Exact | RuleMode::Approved => {}
        }
        for (index, identity) in identities.iter().enumerate() {
            if !is_identity(identity) {
                return Err(Refusal::request(format!(
                    "software_rule.identities[{index}] is not 1 to {MAX_IDENTITY_BYTES} bytes of A-Z a-z 0-9 . _ : / @ + -"
                )));
            }
            if identities[..index].contains(identity) {
                return Err(Refusal::request(format!(
                    "software_rule.identities[{index}] repeats an earlier identity; list each once"
                )));
            }
        }
        Ok(Self(Some(Listed { mode, identities })))
    }

    /// Whether there is no rule.
    pub const fn is_none(&self) -> bool {
        self.0.is_none()
    }

    /// The mode, if there is a rule.
    pub fn mode(&self) -> Option<RuleMode> {
        self.0.as_ref().map(|listed| listed.mode)
    }

    /// The identities in the order sent; empty without a rule.
    pub fn identities(&self) -> &[String] {
        self.0.as_ref().map_or(&[], |listed| &listed.identities)
    }

    /// Whether the rule accepts a stated identity. An empty identity states nothing and satisfies no rule.
    pub fn allows(&self, identity: &str) -> bool {
        self.0
            .as_ref()
            .is_none_or(|listed| !identity.is_empty() && listed.identities.iter().any(|one| one == identity))
    }

    /// The session's rule with the call's: the intersection in this rule's order.
    ///
    /// # Errors
    /// When both list identities and share none.
    pub fn merge(&self, call: &Self) -> Result<Self, Refusal> {
        let (Some(open), Some(_)) = (&self.0, &call.0) else {
            return Ok(if self.is_none() { call.clone() } else { self.clone() });
        };
        let shared: Vec<String> = open.identities.iter().filter(|one| call.allows(one)).cloned().collect();
        match shared.len() {
            0 => Err(Refusal::request(
                "software_rule shares no identity with the rule the session was opened with; repeat or narrow that rule",
            )),
            1 => Self::listed(RuleMode::Exact, shared),
            _ => Self::listed(RuleMode::Approved, shared),
        }
    }

    /// The form that travels: unset without a rule.
    pub fn to_text(&self) -> Option<SoftwareRuleText> {
        self.0.as_ref().map(|listed| SoftwareRuleText {
            mode: listed.mode.as_str().to_owned(),
            identities: listed.identities.clone(),
        })
    }
}

fn is_identity(text: &str) -> bool {
    (1..=MAX_IDENTITY_BYTES).contains(&text.len())
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b':' | b'/' | b'@' | b'+' | b'-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(mode: &str, identities: &[&str]) -> Result<SoftwareRule, Refusal> {
        SoftwareRule::parse(Some(&SoftwareRuleText {
            mode: mode.to_owned(),
            identities: identities.iter().map(|&one| one.to_owned()).collect(),
        }))
    }

    #[test]
    fn malformed_rules_are_refused_with_reason_request() {
        let long = "x".repeat(MAX_IDENTITY_BYTES + 1);
        let many: Vec<String> = (0..=MAX_IDENTITIES).map(|n| format!("id{n}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let cases: [(&str, &[&str]); 9] = [
            ("exact", &["a", "b"]),
            ("exact", &[]),
            ("approved", &[]),
            ("approved", &many),
            ("approved", &["a", "a"]),
            ("approved", &["has space"]),
            ("exact", &[&long]),
            ("pinned", &["a"]),
            ("", &["a"]),
        ];
        for (mode, identities) in cases {
            let refusal = rule(mode, identities).unwrap_err();
            assert_eq!(refusal.reason(), crate::Reason::Request, "{mode} {identities:?}");
            assert!(refusal.message().starts_with("software_rule"), "{}", refusal.message());
        }
        assert!(rule("", &[]).unwrap().is_none());
        assert!(rule("approved", &many[..MAX_IDENTITIES]).is_ok());
        assert!(rule("exact", &[&long[..MAX_IDENTITY_BYTES]]).is_ok());
    }

    #[test]
    fn an_unstated_identity_satisfies_no_rule() {
        assert!(SoftwareRule::NONE.allows(""));
        assert!(!SoftwareRule::exact("a").unwrap().allows(""));
        assert!(SoftwareRule::approved(["a", "b"]).unwrap().allows("b"));
    }

    #[test]
    fn merging_narrows_and_never_widens() {
        let ab = SoftwareRule::approved(["a", "b"]).unwrap();
        let b = SoftwareRule::approved(["b"]).unwrap();
        assert_eq!(ab.merge(&b).unwrap(), SoftwareRule::exact("b").unwrap());
        assert_eq!(ab.merge(&SoftwareRule::NONE).unwrap(), ab);
        assert_eq!(SoftwareRule::NONE.merge(&b).unwrap(), b);
        assert!(
            SoftwareRule::exact("a")
                .unwrap()
                .merge(&SoftwareRule::exact("b").unwrap())
                .is_err()
        );
    }
}
