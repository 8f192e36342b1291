//! What a daemon states about itself.

use plimsoll_core::limits::{MAX_TIMEOUT_MS, PROTOCOL};
use plimsoll_core::{Evidence, PayloadEnvironment, Resources, SessionTerms};

use crate::pb;

/// The answer to Describe where no sessions are kept: current evidence, one number served, nothing remembered.
pub fn describe_response(evidence: &Evidence) -> pb::DescribeResponse {
    describe_with_sessions(evidence, None)
}

/// The same where sessions are kept on these terms, as far as the provider can keep any.
pub fn describe_with_sessions(evidence: &Evidence, terms: Option<&SessionTerms>) -> pb::DescribeResponse {
    let environments = &evidence.environments;
    let sessions = evidence.sessions.as_ref().zip(terms);
    pb::DescribeResponse {
        sandbox: evidence.provider.to_owned(),
        isolation: evidence.isolation.as_str().to_owned(),
        supports_project: environments.project.is_some(),
        supports_javascript_grants: evidence.grants.javascript,
        supports_project_grants: evidence.grants.project,
        supports_module: environments.module.is_some(),
        protocol: PROTOCOL,
        // A kind that is not run is all zero, and an all-zero message is the same as an absent one to every reader.
        javascript_environment: environments.javascript.as_ref().map(environment).into(),
        project_environment: environments.project.as_ref().map(environment).into(),
        module_environment: environments.module.as_ref().map(environment).into(),
        resources: Some(resources(evidence.resources)).into(),
        policy: evidence.policy.clone(),
        supports_sessions: sessions.is_some(),
        session_lifetime_ms: sessions.map_or(0, |(_, terms)| terms.lifetime_ms),
        session_idle_timeout_ms: sessions.map_or(0, |(_, terms)| terms.idle_timeout_ms),
        session_environment: sessions.map(|(kept, _)| environment(&kept.environment)).into(),
        max_sessions_per_caller: sessions.map_or(0, |(_, terms)| terms.max_per_caller),
        max_sessions_per_owner: sessions.map_or(0, |(_, terms)| terms.max_per_owner),
        ..pb::DescribeResponse::default()
    }
}

fn environment(stated: &PayloadEnvironment) -> pb::PayloadEnvironment {
    pb::PayloadEnvironment {
        identity: stated.identity.clone(),
        max_timeout_ms: stated.max_timeout_ms.min(MAX_TIMEOUT_MS.unsigned_abs()),
        software_identity: stated.software_identity.clone(),
        languages: stated.languages.clone(),
        ..pb::PayloadEnvironment::default()
    }
}

fn resources(stated: Resources) -> pb::RunResources {
    pb::RunResources {
        memory_mb: stated.memory_mb,
        cpus: stated.cpus.max(0.0),
        pids: stated.pids,
        disk_mb: stated.disk_mb,
        ..pb::RunResources::default()
    }
}
