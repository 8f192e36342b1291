//! `plimsoll describe`: what a provider states about itself, here or behind a daemon.

use std::fmt::Write as _;

use plimsoll_core::vars::Lookup;
use plimsoll_wire::{describe_response, json, pb};

use crate::args::DescribeArgs;
use crate::failure::Failure;
use crate::{local, remote, runtime};

/// The description as text or JSON.
pub(crate) fn describe(args: &DescribeArgs, lookup: &dyn Lookup) -> Result<Vec<u8>, Failure> {
    let stated = match &args.target.daemon {
        Some(url) => runtime(true)?.block_on(remote::describe(url, &args.target, lookup))?,
        None => {
            let network = !local::in_process(args.target.provider.as_deref(), lookup);
            runtime(network)?.block_on(here(args, lookup))?
        }
    };
    Ok(if args.json {
        let mut text = json::to_json(&stated);
        text.push(b'\n');
        text
    } else {
        as_text(&stated).into_bytes()
    })
}

async fn here(args: &DescribeArgs, lookup: &dyn Lookup) -> Result<pb::DescribeResponse, Failure> {
    let sandbox = local::sandbox(args.target.provider.as_deref(), lookup).await?;
    let stated = describe_response(&sandbox.evidence());
    sandbox.drain().await.map_err(|fault| Failure::not_ready(&fault))?;
    Ok(stated)
}

fn as_text(stated: &pb::DescribeResponse) -> String {
    let mut text = String::new();
    let mut row = |name: &str, value: &str| {
        if !value.is_empty() {
            let _infallible = writeln!(text, "{name:<12} {value}");
        }
    };
    row("provider", &stated.sandbox);
    row("tier", &stated.isolation);
    row("protocol", &stated.protocol.to_string());
    for (kind, environment) in [
        ("javascript", stated.javascript_environment.as_option()),
        ("project", stated.project_environment.as_option()),
        ("module", stated.module_environment.as_option()),
        ("session", stated.session_environment.as_option()),
    ] {
        row(kind, &environment.map(environment_text).unwrap_or_default());
    }
    row("grants", &grants_text(stated));
    row("policy", &stated.policy);
    row(
        "limits",
        &stated.resources.as_option().map(limits_text).unwrap_or_default(),
    );
    text
}

fn environment_text(environment: &pb::PayloadEnvironment) -> String {
    let mut parts = Vec::new();
    if !environment.languages.is_empty() {
        parts.push(environment.languages.join(", "));
    }
    if environment.max_timeout_ms > 0 {
        parts.push(format!("at most {} s", f64::from(environment.max_timeout_ms) / 1000.0));
    }
    parts.extend(
        [&environment.identity, &environment.software_identity]
            .into_iter()
            .filter(|one| !one.is_empty())
            .cloned(),
    );
    parts.join("; ")
}

fn grants_text(stated: &pb::DescribeResponse) -> String {
    let kinds = [
        ("javascript", stated.supports_javascript_grants),
        ("project", stated.supports_project_grants),
    ];
    kinds
        .into_iter()
        .filter(|(_, supported)| *supported)
        .map(|(kind, _)| kind)
        .collect::<Vec<_>>()
        .join(", ")
}

fn limits_text(limits: &pb::RunResources) -> String {
    let mut parts = Vec::new();
    for (value, unit) in [
        (limits.memory_mb, "MiB of memory"),
        (limits.pids, "processes"),
        (limits.disk_mb, "MiB of disk"),
    ] {
        if value > 0 {
            parts.push(format!("{value} {unit}"));
        }
    }
    if limits.cpus > 0.0 {
        parts.push(format!("{} processors", limits.cpus));
    }
    if parts.is_empty() {
        "the provider's defaults".to_owned()
    } else {
        parts.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_core::{Evidence, PayloadEnvironment, Resources};

    use super::*;

    #[test]
    fn a_description_shows_what_is_stated_and_leaves_out_what_is_not() {
        let mut evidence = Evidence::disabled();
        let nothing = as_text(&describe_response(&evidence));
        evidence.provider = "wasm";
        evidence.isolation = plimsoll_core::Isolation::Proven(plimsoll_core::Tier::Process);
        evidence.environments.javascript = Some(PayloadEnvironment {
            identity: format!("quickjs-wasm:sha256:{}", "0d".repeat(32)),
            max_timeout_ms: 30_000,
            software_identity: String::new(),
            languages: vec!["javascript".to_owned()],
        });
        evidence.resources = Resources {
            memory_mb: 64,
            ..Resources::default()
        };
        let wasm = as_text(&describe_response(&evidence));
        insta::assert_snapshot!(format!("{nothing}\n{wasm}"));
    }
}
