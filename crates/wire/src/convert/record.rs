//! Run records.

use plimsoll_record::RunRecord;

use super::request::same_fields;
use crate::pb;

same_fields! {
    RunRecord = RunRecord {
        version, request_sha256, result_sha256, unanswered, provider, isolation, environment, policy, software_identity,
        software_rule_id, instance, started_unix_ms, ended_unix_ms, session, sequence, previous_sha256, record_sha256
    }
}
