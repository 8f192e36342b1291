//! Requests.

use plimsoll_core::{
    CellRun, JavaScriptRun, ModuleRun, Payload, ProjectFile, ProjectRun, RunRequest, SoftwareRuleText,
};

use crate::pb;
use crate::pb::__buffa::oneof::run_request::Payload as Wire;

impl From<pb::RunRequest> for RunRequest {
    fn from(sent: pb::RunRequest) -> Self {
        Self {
            protocol: sent.protocol,
            minimum_isolation: sent.minimum_isolation,
            trace_id: sent.trace_id,
            timeout_ms: sent.timeout_ms,
            software_rule: sent.software_rule.into_option().map(Into::into),
            payload: sent.payload.map(|payload| match payload {
                Wire::Javascript(run) => Payload::JavaScript((*run).into()),
                Wire::Project(run) => Payload::Project((*run).into()),
                Wire::Module(run) => Payload::Module((*run).into()),
                Wire::Cell(run) => Payload::Cell((*run).into()),
            }),
        }
    }
}

impl From<RunRequest> for pb::RunRequest {
    fn from(request: RunRequest) -> Self {
        Self {
            protocol: request.protocol,
            minimum_isolation: request.minimum_isolation,
            trace_id: request.trace_id,
            timeout_ms: request.timeout_ms,
            software_rule: request.software_rule.map(pb::SoftwareRule::from).into(),
            payload: request.payload.map(|payload| match payload {
                Payload::JavaScript(run) => Wire::from(pb::JavaScriptRun::from(run)),
                Payload::Project(run) => Wire::from(pb::ProjectRun::from(run)),
                Payload::Module(run) => Wire::from(pb::ModuleRun::from(run)),
                Payload::Cell(run) => Wire::from(pb::CellRun::from(run)),
            }),
            ..Self::default()
        }
    }
}

/// Both directions of a message whose fields carry the same names and types on both sides.
macro_rules! same_fields {
    ($($ours:ident = $wire:ident { $($field:ident),* $(; $($list:ident),*)? })*) => { $(
        impl From<pb::$wire> for $ours {
            fn from(sent: pb::$wire) -> Self {
                Self {
                    $($field: sent.$field,)*
                    $($($list: sent.$list.into_iter().map(Into::into).collect(),)*)?
                }
            }
        }

        impl From<$ours> for pb::$wire {
            fn from(own: $ours) -> Self {
                Self {
                    $($field: own.$field,)*
                    $($($list: own.$list.into_iter().map(Into::into).collect(),)*)?
                    ..Self::default()
                }
            }
        }
    )* };
}
pub(super) use same_fields;

same_fields! {
    SoftwareRuleText = SoftwareRule { mode, identities }
    JavaScriptRun = JavaScriptRun { code, grant_profile }
    ProjectFile = ProjectFile { path, content }
    ProjectRun = ProjectRun { steps, artifacts, grant_profile; files }
    CellRun = CellRun { language, code; files }
}

impl From<pb::ModuleRun> for ModuleRun {
    fn from(sent: pb::ModuleRun) -> Self {
        Self {
            model: sent.model,
            rows: sent.rows.into_iter().map(|row| row.values).collect(),
            end_time: sent.end_time,
            step: sent.step,
        }
    }
}

impl From<ModuleRun> for pb::ModuleRun {
    fn from(own: ModuleRun) -> Self {
        let rows = own
            .rows
            .into_iter()
            .map(|values| pb::ModuleRow {
                values,
                ..Default::default()
            })
            .collect();
        Self {
            model: own.model,
            rows,
            end_time: own.end_time,
            step: own.step,
            ..Self::default()
        }
    }
}
