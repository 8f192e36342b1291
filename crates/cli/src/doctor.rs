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
    /// Who proved it and on what.
    proof: Option<Proof>,
    missing: Vec<Missing>,
}

/// A provider that passed its preflight and its smoke test just now.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Proof {
    provider: String,
    environment: String,
}

/// What stands between this host and a tier.
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
        proof: None,
        missing: Vec::new(),
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
            fix: "correct the SANDBOX_ variable it names, or raise the process's limits (`ulimit -a`)",
        }),
    }
    report
}

/// A tier no provider of this build can prove. The host's own gaps are named as well, so that they can be closed first.
fn unbuilt(tier: Tier, host: &Host) -> Report {
    let mut missing = vec![Missing {
        what: format!("a provider of tier {tier} in this build"),
        fix: "run on a daemon that has one: plimsoll run --daemon URL",
    }];
    if tier != Tier::Vm {
        if !host.cgroups {
            missing.push(Missing {
                what: "control groups (neither version is mounted on /sys/fs/cgroup)".to_owned(),
                fix: "mount them, as every init system does",
            });
        }
        if !host.engine_socket {
            missing.push(Missing {
                what: "a container engine (nothing answers on /var/run/docker.sock)".to_owned(),
                fix: "install and start a Docker engine, and let this user reach its socket",
            });
        }
    }
    if tier == Tier::Kernel && !host.runsc {
        missing.push(Missing {
            what: "gVisor (no runsc on PATH)".to_owned(),
            fix: "install runsc and register it with the engine",
        });
    }
    if tier == Tier::Vm {
        missing.extend(match host.kvm {
            Kvm::Usable => None,
            Kvm::Forbidden => Some(Missing {
                what: "KVM (no permission to open /dev/kvm)".to_owned(),
                fix: "add this user to the group that owns /dev/kvm",
            }),
            Kvm::Absent => Some(Missing {
                what: "KVM (no /dev/kvm)".to_owned(),
                fix: "enable virtualisation in the firmware, or nested virtualisation on the host of this machine",
            }),
        });
    }
    Report {
        tier,
        proof: None,
        missing,
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
        match &report.proof {
            Some(proof) => lines.push(format!(
                "{:<10} proven: provider {}, smoke test passed, environment {}",
                report.tier.as_str(),
                proof.provider,
                proof.environment
            )),
            None => lines.push(format!("{:<10} not proven", report.tier.as_str())),
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
                "proven": report.proof.is_some(),
                "provider": report.proof.as_ref().map(|proof| &proof.provider),
                "environment": report.proof.as_ref().map(|proof| &proof.environment),
                "missing": report.missing.iter().map(|one| json!({"what": one.what, "fix": one.fix})).collect::<Vec<_>>(),
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

    #[test]
    fn every_gap_of_a_bare_host_is_named_with_its_fix() {
        let proof = Proof {
            provider: "wasm".to_owned(),
            environment: "quickjs-wasm:sha256:00".to_owned(),
        };
        let mut reports = vec![Report {
            tier: Tier::Process,
            proof: Some(proof),
            missing: Vec::new(),
        }];
        reports.extend([Tier::Container, Tier::Kernel, Tier::Vm].map(|tier| unbuilt(tier, &BARE)));
        insta::assert_snapshot!(as_text(&reports));
        insta::assert_snapshot!(as_json(&reports));
    }

    #[test]
    fn a_well_equipped_host_lacks_only_the_provider() {
        let host = Host {
            cgroups: true,
            engine_socket: true,
            runsc: true,
            kvm: Kvm::Usable,
        };
        for tier in [Tier::Container, Tier::Kernel, Tier::Vm] {
            assert_eq!(unbuilt(tier, &host).missing.len(), 1, "{tier}");
        }
        let forbidden = unbuilt(
            Tier::Vm,
            &Host {
                kvm: Kvm::Forbidden,
                ..host
            },
        );
        assert!(forbidden.missing[1].what.contains("permission"), "{forbidden:?}");
    }
}
