//! What this host can prove, tier by tier, what is missing, and what would help.

use std::path::Path;

use plimsoll::Sandbox;
use plimsoll_core::Tier;
use plimsoll_core::vars::Lookup;
use serde_json::json;

/// One tier on this host.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Report {
    tier: Tier,
    /// Whether this build has a provider that could prove it.
    built: bool,
    /// Who proved it and on what.
    proof: Option<Proof>,
    missing: Vec<Missing>,
    /// What the host has of what the tier will need: facts, because no change of the host helps before a provider is built.
    host: Vec<&'static str>,
}

/// A provider that passed its preflight and its smoke test just now.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Proof {
    provider: String,
    environment: String,
}

/// What stands between this host and a tier, and what would help.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Missing {
    what: String,
    fix: &'static str,
}

/// Facts about the host that decide what it could ever prove.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Host {
    cgroups: bool,
    engine_socket: bool,
    runsc: bool,
    kvm: Kvm,
}

/// The virtualisation device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kvm {
    Usable,
    Forbidden,
    Absent,
}

/// The report as text or JSON, and whether at least one tier is proven.
pub(crate) async fn report(lookup: &dyn Lookup, json: bool) -> (String, bool) {
    let host = Host::look(lookup);
    let mut reports = vec![process(lookup).await];
    reports.extend([Tier::Container, Tier::Kernel, Tier::Vm].map(|tier| unbuilt(tier, &host)));
    let proven = reports.iter().any(|report| report.proof.is_some());
    (if json { as_json(&reports) } else { as_text(&reports) }, proven)
}

/// Proven by doing it: the embedded engine is built and passes its smoke test.
async fn process(lookup: &dyn Lookup) -> Report {
    let mut report = Report {
        tier: Tier::Process,
        built: true,
        proof: None,
        missing: Vec::new(),
        host: Vec::new(),
    };
    match Sandbox::from_lookup(&crate::local::with_provider(Some("wasm"), lookup)).await {
        Ok(sandbox) => {
            let evidence = sandbox.evidence();
            let environment = evidence
                .environments
                .javascript
                .as_ref()
                .map(|one| one.identity.clone());
            report.proof = Some(Proof {
                provider: evidence.provider.to_owned(),
                environment: environment.unwrap_or_default(),
            });
        }
        Err(error) => report.missing.push(Missing {
            what: format!("the embedded engine: {error}"),
            fix: "change the SANDBOX_ variable it names; if it names none, raise this process's limits (`ulimit -a`)",
        }),
    }
    report
}

/// A tier no provider of this build can prove, whatever the host has.
fn unbuilt(tier: Tier, host: &Host) -> Report {
    let mut facts = Vec::new();
    if tier != Tier::Vm {
        facts.push(if host.cgroups {
            "control groups are mounted"
        } else {
            "no control groups on /sys/fs/cgroup"
        });
        facts.push(if host.engine_socket {
            "a container engine answers on /var/run/docker.sock"
        } else {
            "no container engine answers on /var/run/docker.sock"
        });
    }
    if tier == Tier::Kernel {
        facts.push(if host.runsc {
            "gVisor is on PATH (runsc)"
        } else {
            "no gVisor on PATH (runsc)"
        });
    }
    if tier == Tier::Vm {
        facts.push(match host.kvm {
            Kvm::Usable => "/dev/kvm can be opened",
            Kvm::Forbidden => "/dev/kvm is there, and this user may not open it",
            Kvm::Absent => "no /dev/kvm",
        });
    }
    Report {
        tier,
        built: false,
        proof: None,
        missing: Vec::new(),
        host: facts,
    }
}

impl Host {
    fn look(lookup: &dyn Lookup) -> Self {
        let path = lookup.get("PATH").map(std::ffi::OsStr::to_owned).unwrap_or_default();
        Self {
            // Version 2, or the memory controller of version 1: a container engine can bound memory with either.
            cgroups: ["cgroup.controllers", "memory"]
                .iter()
                .any(|name| Path::new("/sys/fs/cgroup").join(name).exists()),
            engine_socket: std::os::unix::net::UnixStream::connect("/var/run/docker.sock").is_ok(),
            runsc: std::env::split_paths(&path).any(|folder| folder.join("runsc").is_file()),
            kvm: match fs_err::OpenOptions::new().read(true).write(true).open("/dev/kvm") {
                Ok(_) => Kvm::Usable,
                Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => Kvm::Forbidden,
                Err(_) => Kvm::Absent,
            },
        }
    }
}

fn as_text(reports: &[Report]) -> String {
    let mut lines = Vec::new();
    for report in reports {
        let tier = report.tier.as_str();
        match &report.proof {
            Some(proof) => lines.push(format!(
                "{tier:<10} proven: provider {}, smoke test passed, environment {}",
                proof.provider, proof.environment
            )),
            None if report.built => lines.push(format!("{tier:<10} not proven")),
            None => lines.push(format!(
                "{tier:<10} not built yet: no provider of this build can prove it, whatever the host has"
            )),
        }
        if !report.host.is_empty() {
            lines.push(format!("{:10} this host: {}", "", report.host.join("; ")));
        }
        for missing in &report.missing {
            lines.push(format!("{:10} missing: {}", "", missing.what));
            lines.push(format!("{:10}     fix: {}", "", missing.fix));
        }
    }
    lines.push("A tier is configuration plus the provider's evidence plus tests, never attestation.".to_owned());
    lines.join("\n") + "\n"
}

fn as_json(reports: &[Report]) -> String {
    let tiers: Vec<_> = reports
        .iter()
        .map(|report| {
            json!({
                "tier": report.tier.as_str(),
                "built": report.built,
                "proven": report.proof.is_some(),
                "provider": report.proof.as_ref().map(|proof| &proof.provider),
                "environment": report.proof.as_ref().map(|proof| &proof.environment),
                "missing": report.missing.iter().map(|one| json!({"what": one.what, "fix": one.fix})).collect::<Vec<_>>(),
                "host": report.host,
            })
        })
        .collect();
    format!("{}\n", json!({ "tiers": tiers }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BARE: Host = Host {
        cgroups: false,
        engine_socket: false,
        runsc: false,
        kvm: Kvm::Absent,
    };

    fn reports(host: &Host) -> Vec<Report> {
        let proof = Proof {
            provider: "wasm".to_owned(),
            environment: "quickjs-wasm:sha256:00".to_owned(),
        };
        let mut reports = vec![Report {
            tier: Tier::Process,
            built: true,
            proof: Some(proof),
            missing: Vec::new(),
            host: Vec::new(),
        }];
        reports.extend([Tier::Container, Tier::Kernel, Tier::Vm].map(|tier| unbuilt(tier, host)));
        reports
    }

    #[test]
    fn what_is_not_built_is_said_to_be_so_with_no_advice_that_cannot_help() {
        insta::assert_snapshot!(as_text(&reports(&BARE)));
        insta::assert_snapshot!(as_json(&reports(&BARE)));
    }

    #[test]
    fn a_well_equipped_host_is_described_as_one() {
        let host = Host {
            cgroups: true,
            engine_socket: true,
            runsc: true,
            kvm: Kvm::Usable,
        };
        insta::assert_snapshot!(as_text(&reports(&host)));
        let forbidden = Host {
            kvm: Kvm::Forbidden,
            ..host
        };
        assert_eq!(
            unbuilt(Tier::Vm, &forbidden).host,
            ["/dev/kvm is there, and this user may not open it"]
        );
    }

    #[test]
    fn a_setting_that_stops_the_engine_is_what_is_missing() {
        let lookup = plimsoll::env::Environment::from_pairs([("SANDBOX_PIDS", "5")]);
        let (text, proven) = crate::runtime(false).unwrap().block_on(report(&lookup, false));
        assert!(!proven);
        let lines: Vec<_> = text.lines().take(3).collect();
        assert_eq!(lines[0], "process    not proven");
        assert!(
            lines[1].contains("missing: the embedded engine: SANDBOX_PIDS=\"5\"") && lines[2].contains("fix: "),
            "{text}"
        );
    }
}
