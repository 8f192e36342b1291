//! The run record: its fields, its digest in four versions, and how one is stamped.

use plimsoll_core::limits::RECORD_VERSION;
use plimsoll_core::{Code, Outcome, RunRequest, SessionEvidence, SoftwareRule};

use crate::chain::Chain;
use crate::digest::{request_sha256, result_sha256, rule_id};
use crate::encode::Fields;

/// What one run was, in fields anyone can recompute.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunRecord {
    /// 1 to 4; live answers carry 4.
    pub version: u32,
    /// Digest of the request.
    pub request_sha256: String,
    /// Digest of the result; empty when unanswered.
    pub result_sha256: String,
    /// Connect code of the error that ended an unanswered call; empty when answered.
    pub unanswered: String,
    /// Provider id.
    pub provider: String,
    /// Tier word.
    pub isolation: String,
    /// Artifact that ran.
    pub environment: String,
    /// Verified sandbox policy.
    pub policy: String,
    /// Software that ran.
    pub software_identity: String,
    /// Id of the request's rule.
    pub software_rule_id: String,
    /// Typed reference of the one sandbox.
    pub instance: String,
    /// Wall clock when the handler received the request, in Unix milliseconds.
    pub started_unix_ms: i64,
    /// Start plus monotonic elapsed; never before the start.
    pub ended_unix_ms: i64,
    /// Session fingerprint; empty for a single run.
    pub session: String,
    /// 1-based place in the session's chain; 0 for a single run.
    pub sequence: u64,
    /// Digest of the previous call's record.
    pub previous_sha256: String,
    /// Digest of all the fields of this record's version.
    pub record_sha256: String,
}

/// Why a stored record does not stand.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordFault {
    /// The version is not one this build knows.
    #[error("record version {0} is not 1 to 4")]
    Version(u32),
    /// A field is set that the version's digest does not cover, so anyone could have changed it.
    #[error("record field {field} is set but not covered by record version {version}")]
    Uncovered {
        /// The field.
        field: &'static str,
        /// The record's version.
        version: u32,
    },
    /// The digest is not that of the fields.
    #[error("record_sha256 is not the digest of the record's fields")]
    Digest,
}

impl RunRecord {
    /// The digest over the fields of this record's version. `record_sha256` itself is not part of it.
    ///
    /// # Errors
    /// For a version this build does not know.
    pub fn digest(&self) -> Result<String, RecordFault> {
        let version = self.version;
        if !(1..=4).contains(&version) {
            return Err(RecordFault::Version(version));
        }
        let mut fields = Fields::new(&format!("plimsoll.run-record.v{version}"));
        fields
            .text("request_sha256", &self.request_sha256)
            .text("result_sha256", &self.result_sha256);
        if version >= 3 {
            fields.text("unanswered", &self.unanswered);
        }
        fields
            .text("provider", &self.provider)
            .text("isolation", &self.isolation)
            .text("environment", &self.environment)
            .text("policy", &self.policy);
        if version >= 2 {
            fields
                .text("software_identity", &self.software_identity)
                .text("software_rule_id", &self.software_rule_id);
        }
        if version >= 4 {
            fields.text("instance", &self.instance);
        }
        fields
            .number("started_unix_ms", self.started_unix_ms)
            .number("ended_unix_ms", self.ended_unix_ms)
            .text("session", &self.session)
            .number("sequence", self.sequence)
            .text("previous_sha256", &self.previous_sha256);
        Ok(fields.finish())
    }

    /// Checks a stored record by itself: known version, no field its version does not cover, digest.
    ///
    /// # Errors
    /// The first of these that fails.
    pub fn verify(&self) -> Result<(), RecordFault> {
        let version = self.version;
        let digest = self.digest()?;
        let uncovered = [
            ("software_identity", 2, &self.software_identity),
            ("software_rule_id", 2, &self.software_rule_id),
            ("unanswered", 3, &self.unanswered),
            ("instance", 4, &self.instance),
        ];
        for (field, since, value) in uncovered {
            if version < since && !value.is_empty() {
                return Err(RecordFault::Uncovered { field, version });
            }
        }
        if digest == self.record_sha256 {
            Ok(())
        } else {
            Err(RecordFault::Digest)
        }
    }
}

/// Everything besides request and outcome that goes into a record.
#[derive(Clone, Copy, Debug)]
pub struct Stamp<'a> {
    /// Provider id.
    pub provider: &'a str,
    /// Policy the provider states now.
    pub policy: &'a str,
    /// Wall clock at reception, Unix milliseconds.
    pub started_unix_ms: i64,
    /// Start plus monotonic elapsed.
    pub ended_unix_ms: i64,
}

impl Stamp<'_> {
    /// The record of an answered single run.
    pub fn answered(&self, request: &RunRequest, rule: &SoftwareRule, outcome: &Outcome) -> RunRecord {
        self.seal(RunRecord {
            request_sha256: request_sha256(request),
            result_sha256: result_sha256(Some(&outcome.result)),
            isolation: outcome.isolation.as_str().to_owned(),
            environment: outcome.environment.clone(),
            software_identity: outcome.software_identity.clone(),
            software_rule_id: rule_id(rule),
            instance: outcome.instance.clone(),
            ..RunRecord::default()
        })
    }

    /// The record of an answered session call: the next of its chain, which moves on by [`Chain::follow`].
    pub fn answered_in(
        &self,
        chain: &Chain,
        request: &RunRequest,
        rule: &SoftwareRule,
        outcome: &Outcome,
    ) -> RunRecord {
        let single = self.answered(request, rule, outcome);
        self.seal(next_of(chain, single))
    }

    /// The record of a session call that may have run and has no result: `code` ended it, and the evidence is what the
    /// session stated when it was opened.
    pub fn unanswered_in(
        &self,
        chain: &Chain,
        request: &RunRequest,
        rule: &SoftwareRule,
        stated: &SessionEvidence,
        code: Code,
    ) -> RunRecord {
        let record = RunRecord {
            request_sha256: request_sha256(request),
            unanswered: code.as_str().to_owned(),
            isolation: stated.isolation.as_str().to_owned(),
            environment: stated.support.environment.identity.clone(),
            software_identity: stated.support.environment.software_identity.clone(),
            software_rule_id: rule_id(rule),
            instance: stated.instance.clone(),
            ..RunRecord::default()
        };
        self.seal(next_of(chain, record))
    }

    /// Fills in what the stamp holds, and the digest.
    fn seal(&self, mut record: RunRecord) -> RunRecord {
        record.version = RECORD_VERSION;
        record.provider = self.provider.to_owned();
        record.policy = self.policy.to_owned();
        record.started_unix_ms = self.started_unix_ms;
        record.ended_unix_ms = self.ended_unix_ms.max(self.started_unix_ms);
        record.record_sha256 = record.digest().unwrap_or_default();
        record
    }
}

/// The record as the next one of a chain.
fn next_of(chain: &Chain, record: RunRecord) -> RunRecord {
    RunRecord {
        session: chain.fingerprint().as_str().to_owned(),
        sequence: chain.calls() + 1,
        previous_sha256: chain.last_sha256().to_owned(),
        ..record
    }
}

/// Whether a text is one of the 16 Connect codes an unanswered record can state.
pub(crate) fn is_code(text: &str) -> bool {
    Code::from_wire(text).is_some()
}
