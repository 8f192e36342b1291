//! What a client checks before it believes an answer, in that order.

use plimsoll_core::limits::RECORD_VERSION;
use plimsoll_core::{Isolation, RunRequest, RunResult, SoftwareRule, Tier};

use crate::digest::{request_sha256, result_sha256, rule_id};
use crate::record::{RunRecord, is_code};

/// The parts of an answer its record must agree with.
#[derive(Clone, Copy, Debug)]
pub struct LiveAnswer<'a> {
    /// Stated provider.
    pub provider: &'a str,
    /// Stated tier word.
    pub isolation: &'a str,
    /// Stated artifact.
    pub environment: &'a str,
    /// Stated software.
    pub software_identity: &'a str,
    /// Stated sandbox reference.
    pub instance: &'a str,
    /// The result received.
    pub result: Option<&'a RunResult>,
}

/// Why a live answer's record cannot be believed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LiveFault {
    /// The answer carries no record.
    #[error("the answer carries no run record")]
    NoRecord,
    /// The record's version is not the one live answers carry.
    #[error("run record version {found} instead of {RECORD_VERSION}; {}", if *.found > RECORD_VERSION { "upgrade this client" } else { "the daemon is too old" })]
    Version {
        /// The version found.
        found: u32,
    },
    /// A field of the record disagrees with what was sent or received.
    #[error("run record does not match: {0}")]
    Mismatch(&'static str),
    /// The tier is below the floor.
    #[error("the answer states tier {stated}, below the floor {floor}")]
    BelowFloor {
        /// What the answer states.
        stated: String,
        /// What was asked.
        floor: Tier,
    },
}

/// Checks an answered call's record against the request sent and the answer received. Floor and chain come after.
///
/// # Errors
/// The first check that fails.
pub fn verify_live<'a>(
    request: &RunRequest,
    rule: &SoftwareRule,
    answer: &LiveAnswer<'_>,
    record: Option<&'a RunRecord>,
) -> Result<&'a RunRecord, LiveFault> {
    let record = record.ok_or(LiveFault::NoRecord)?;
    if record.version != RECORD_VERSION {
        return Err(LiveFault::Version { found: record.version });
    }
    require(record.unanswered.is_empty(), "unanswered is set on an answered call")?;
    require(record.request_sha256 == request_sha256(request), "request digest")?;
    require(record.result_sha256 == result_sha256(answer.result), "result digest")?;
    require(record.provider == answer.provider, "provider")?;
    require(record.isolation == answer.isolation, "isolation")?;
    require(record.environment == answer.environment, "environment")?;
    require(record.instance == answer.instance, "instance")?;
    require(is_instance(&record.instance), "instance form")?;
    require(
        record.software_identity == answer.software_identity,
        "software identity",
    )?;
    verify_rule(rule, record)?;
    verify_digest(record)?;
    Ok(record)
}

/// Checks the record of a call that ended in an unmarked error.
///
/// # Errors
/// The first check that fails.
pub fn verify_unanswered(request: &RunRequest, rule: &SoftwareRule, record: &RunRecord) -> Result<(), LiveFault> {
    if record.version != RECORD_VERSION {
        return Err(LiveFault::Version { found: record.version });
    }
    require(is_instance(&record.instance), "instance form")?;
    require(
        record.result_sha256.is_empty(),
        "result digest is set on an unanswered call",
    )?;
    require(is_code(&record.unanswered), "unanswered code")?;
    require(record.request_sha256 == request_sha256(request), "request digest")?;
    verify_rule(rule, record)?;
    verify_digest(record)?;
    let floor = request.minimum_isolation.parse::<Tier>().ok();
    match floor {
        Some(floor) if !Isolation::from_wire(&record.isolation).meets(Some(floor)) => Err(LiveFault::BelowFloor {
            stated: record.isolation.clone(),
            floor,
        }),
        _ => Ok(()),
    }
}

fn verify_rule(rule: &SoftwareRule, record: &RunRecord) -> Result<(), LiveFault> {
    require(record.software_rule_id == rule_id(rule), "software rule id")?;
    require(
        rule.allows(&record.software_identity),
        "software identity outside the rule",
    )
}

fn verify_digest(record: &RunRecord) -> Result<(), LiveFault> {
    require(
        record.digest().is_ok_and(|digest| digest == record.record_sha256),
        "record digest",
    )
}

fn require(holds: bool, what: &'static str) -> Result<(), LiveFault> {
    if holds { Ok(()) } else { Err(LiveFault::Mismatch(what)) }
}

/// Whether a text is empty or a typed sandbox reference: `[a-z][a-z0-9-]{0,31}:[A-Za-z0-9._:-]{1,127}`.
pub fn is_instance(text: &str) -> bool {
    let Some((kind, name)) = text.split_once(':') else {
        return text.is_empty();
    };
    let kind_ok = (1..=32).contains(&kind.len())
        && kind.as_bytes()[0].is_ascii_lowercase()
        && kind
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
    let name_ok = (1..=127).contains(&name.len())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b':' | b'-'));
    kind_ok && name_ok
}
