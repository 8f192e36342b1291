//! The one place where a failure becomes an RPC error.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use plimsoll_core::{Code, Reason, Refusal};
use plimsoll_record::RunRecord;

use super::detail::DetailKind;
use crate::convert::to_binary;
use crate::pb;

/// One typed detail of an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Detail {
    /// Which message it is.
    pub kind: DetailKind,
    /// The binary message.
    pub value: Vec<u8>,
}

impl Detail {
    /// The form of Connect's JSON: unpadded standard base64.
    pub fn base64(&self) -> String {
        STANDARD_NO_PAD.encode(&self.value)
    }
}

/// An error as it is answered. Without a `NotDispatched` detail it reads "may have run", so that is what an error is
/// unless a [`Refusal`] made it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorAnswer {
    code: Code,
    message: String,
    details: Vec<Detail>,
    reason: Option<Reason>,
}

impl ErrorAnswer {
    /// A proof that nothing ran, with its mark.
    pub fn refused(refusal: &Refusal) -> Self {
        let reason = pb::NotDispatched {
            reason: refusal.reason().number().into(),
            ..Default::default()
        };
        let mut details = vec![Detail {
            kind: DetailKind::NotDispatched,
            value: to_binary(&reason),
        }];
        if let Some(ended) = refusal.session_end() {
            let ended = pb::SessionEnded {
                reason: ended.end.number().into(),
                detail: ended.detail.clone(),
                ..Default::default()
            };
            details.push(Detail {
                kind: DetailKind::SessionEnded,
                value: to_binary(&ended),
            });
        }
        Self {
            code: refusal.code(),
            message: refusal.message().to_owned(),
            details,
            reason: Some(refusal.reason()),
        }
    }

    /// An error without a mark: the call may have run, or the mark stands in a header.
    pub fn unmarked(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            details: Vec::new(),
            reason: None,
        }
    }

    /// Adds the record of a session call that ended without an answer. A marked error ran nothing and takes none.
    #[must_use]
    pub fn with_unanswered(mut self, record: RunRecord) -> Self {
        if self.reason.is_none() {
            let call = pb::UnansweredCall {
                record: Some(pb::RunRecord::from(record)).into(),
                ..Default::default()
            };
            self.details.push(Detail {
                kind: DetailKind::UnansweredCall,
                value: to_binary(&call),
            });
        }
        self
    }

    /// The Connect code.
    pub const fn code(&self) -> Code {
        self.code
    }

    /// The words for the caller.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The typed details.
    pub fn details(&self) -> &[Detail] {
        &self.details
    }

    /// Why nothing ran; `None` when the error carries no mark.
    pub const fn reason(&self) -> Option<Reason> {
        self.reason
    }

    /// The body of a Connect error.
    pub fn to_json(&self) -> Vec<u8> {
        let mut object = serde_json::Map::new();
        object.insert("code".into(), self.code.as_str().into());
        object.insert("message".into(), self.message.as_str().into());
        if !self.details.is_empty() {
            let details = self
                .details
                .iter()
                .map(|detail| serde_json::json!({ "type": detail.kind.type_name(), "value": detail.base64() }));
            object.insert("details".into(), details.collect());
        }
        serde_json::Value::Object(object).to_string().into_bytes()
    }
}
