//! What this host can prove, tier by tier, what is missing, and what would help.

use std::ffi::OsStr;
use std::path::Path;

use plimsoll::registry::Choice;
use plimsoll::{BuildError, Sandbox};
use plimsoll_core::Tier;
use plimsoll_core::vars::{Lookup, SettingError};
use plimsoll_docker::preflight::PreflightError;
use plimsoll_docker::settings::DockerSettings;
use plimsoll_docker::survey::{Survey, survey};
use serde_json::json;

/// The runtime that can prove the kernel tier, and no other name can.
const GVISOR: &str = "runsc";

/// One tier on this host.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Report {
    tier: Tier,
    /// Whether this build has a provider that could prove it.
    built: bool,
    /// Who proved it and on what.
    proof: Option<Proof>,
    missing: Vec<Missing>,
    /// What the host has of what the tier needs: facts, without advice.
    host: Vec<String>,
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
    kernel: String,
    cgroups: bool,
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
    let host = Host::look();
    let reports = [
        process(lookup).await,
        docker(Tier::Container, lookup, &host).await,
        docker(Tier::Kernel, lookup, &host).await,
        vm(&host),
    ];
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
    match Sandbox::from_lookup(&crate::local::for_a_look_at_wasm(lookup)).await {
        Ok(sandbox) => report.proof = Some(proof(&sandbox)),
        Err(error) => report.missing.push(Missing {
            what: format!("the embedded engine: {error}"),
            fix: "change the SANDBOX_ variable it names; if it names none, raise this process's limits (`ulimit -a`)",
        }),
    }
    report
}

/// What a sandbox that passed its smoke test states.
fn proof(sandbox: &Sandbox) -> Proof {
    let evidence = sandbox.evidence();
    let environment = evidence.environments.javascript.as_ref();
    Proof {
        provider: evidence.provider.to_owned(),
        environment: environment.map(|one| one.identity.clone()).unwrap_or_default(),
    }
}

/// What the docker provider proves under the tier's runtime: by doing it, once nothing stands in the way any more.
async fn docker(tier: Tier, lookup: &dyn Lookup, host: &Host) -> Report {
    let mut report = Report {
        tier,
        built: true,
        proof: None,
        missing: Vec::new(),
        host: vec![host.kernel.clone()],
    };
    let runtime = runtime_of(tier, lookup.get("SANDBOX_DOCKER_RUNTIME").unwrap_or_default());
    // The pool is asked about and not filled.
    let whole = Sandbox::check(&crate::local::for_docker(runtime, lookup));
    let lookup = crate::local::for_a_look_at_docker(runtime, lookup);
    let settings = settings(&lookup).map_err(BuildError::from);
    let survey = match whole.and(settings) {
        Ok(settings) => {
            let warnings = settings.warnings();
            report.host.extend(warnings.into_iter().map(str::to_owned));
            survey(&settings).await
        }
        Err(error) => {
            report.missing.push(Missing {
                what: error.to_string(),
                fix: "change the variable it names",
            });
            return report;
        }
    };
    report.host.extend(facts(&survey, host));
    report.missing.extend(survey.unfit.iter().map(|unfit| Missing {
        what: unfit.to_string(),
        fix: remedy(unfit, tier),
    }));
    if report.missing.is_empty() {
        let proven = Sandbox::from_lookup(&lookup).await;
        if let Ok(sandbox) = &proven {
            // The containers of the proof go before this process does; what could not be removed is found by the next look.
            let _: Result<(), _> = sandbox.drain().await;
        }
        match proven {
            Ok(sandbox) if sandbox.evidence().isolation.tier() == Some(tier) => report.proof = Some(proof(&sandbox)),
            Ok(sandbox) => report.missing.push(Missing {
                what: format!(
                    "the provider proves tier {} here",
                    sandbox.evidence().isolation.as_str()
                ),
                fix: "set SANDBOX_DOCKER_RUNTIME to the runtime of this tier",
            }),
            Err(error) => report.missing.push(Missing {
                what: error.to_string(),
                fix: "change what it names",
            }),
        }
    }
    report
}

/// The runtime that could prove the tier: the operator's, unless that is gVisor's and the tier is not.
fn runtime_of(tier: Tier, chosen: &OsStr) -> &OsStr {
    match tier {
        Tier::Kernel => OsStr::new(GVISOR),
        _ if chosen == GVISOR => OsStr::new(""),
        _ => chosen,
    }
}

fn settings(lookup: &dyn Lookup) -> Result<DockerSettings, SettingError> {
    DockerSettings::read(lookup, Choice::read(lookup)?.resources)
}

/// The engine in its own words; without one, what it would find.
fn facts(survey: &Survey, host: &Host) -> Vec<String> {
    let Some((server, engine)) = &survey.engine else {
        let cgroups = if host.cgroups {
            "control groups are mounted"
        } else {
            "no control groups on /sys/fs/cgroup"
        };
        return vec![cgroups.to_owned()];
    };
    let at = survey.endpoint.as_deref().unwrap_or_default();
    let runtimes: Vec<&str> = engine.runtimes.keys().map(String::as_str).collect();
    vec![
        format!("engine {}, API {}, at {at}", server.release, server.api),
        format!("control groups version {}", engine.cgroup_version),
        format!(
            "runtimes {}, {} by default",
            runtimes.join(", "),
            engine.default_runtime
        ),
    ]
}

/// What helps, where the finding alone does not say which command does it.
fn remedy(unfit: &PreflightError, tier: Tier) -> &'static str {
    match unfit {
        PreflightError::Engine { .. } => {
            "install a container engine and start it (on Debian: apt-get install docker.io), or let this user open its socket"
        }
        PreflightError::Runtime(_) if tier == Tier::Kernel => "plimsoll gvisor install",
        PreflightError::ImageAbsent { .. } => "plimsoll images build",
        _ => "change what it names",
    }
}

/// A tier no provider of this build can prove, whatever the host has.
fn vm(host: &Host) -> Report {
    let kvm = match host.kvm {
        Kvm::Usable => "/dev/kvm can be opened",
        Kvm::Forbidden => "/dev/kvm is there, and this user may not open it",
        Kvm::Absent => "no /dev/kvm",
    };
    Report {
        tier: Tier::Vm,
        built: false,
        proof: None,
        missing: Vec::new(),
        host: vec![kvm.to_owned()],
    }
}

impl Host {
    fn look() -> Self {
        let release = fs_err::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        Self {
            kernel: format!("kernel {}", release.trim_end()),
            // Version 2, or the memory controller of version 1: a container engine can bound memory with either.
            cgroups: ["cgroup.controllers", "memory"]
                .iter()
                .any(|name| Path::new("/sys/fs/cgroup").join(name).exists()),
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

    fn host(kvm: Kvm) -> Host {
        Host {
            kernel: "kernel 6.1.0".to_owned(),
            cgroups: true,
            kvm,
        }
    }

    fn report_of(tier: Tier, proof: Option<&str>, missing: Vec<Missing>) -> Report {
        Report {
            tier,
            built: true,
            proof: proof.map(|environment| Proof {
                provider: if tier == Tier::Process { "wasm" } else { "docker" }.to_owned(),
                environment: environment.to_owned(),
            }),
            missing,
            host: match tier {
                Tier::Process => Vec::new(),
                _ => vec!["kernel 6.1.0".to_owned(), "control groups version 2".to_owned()],
            },
        }
    }

    #[test]
    fn what_is_proven_missing_and_not_built_is_told_apart() {
        let missing = vec![
            Missing {
                what: "image plimsoll/sandbox:latest: the engine does not have it".to_owned(),
                fix: "plimsoll images build",
            },
            Missing {
                what: "the engine has no runtime runsc".to_owned(),
                fix: "plimsoll gvisor install",
            },
        ];
        let reports = [
            report_of(Tier::Process, Some("quickjs-wasm:sha256:00"), Vec::new()),
            report_of(Tier::Container, Some("docker-image:sha256:11"), Vec::new()),
            report_of(Tier::Kernel, None, missing),
            vm(&host(Kvm::Absent)),
        ];
        insta::assert_snapshot!(as_text(&reports));
        insta::assert_snapshot!(as_json(&reports));
    }

    #[test]
    fn the_device_is_usable_forbidden_or_absent() {
        let said = |kvm| vm(&host(kvm)).host.concat();
        assert_eq!(said(Kvm::Usable), "/dev/kvm can be opened");
        assert_eq!(said(Kvm::Forbidden), "/dev/kvm is there, and this user may not open it");
        assert_eq!(said(Kvm::Absent), "no /dev/kvm");
    }

    #[test]
    fn without_an_engine_start_ups_own_words_say_what_is_missing() {
        let lookup = plimsoll::env::Environment::from_pairs([("DOCKER_HOST", "unix:///nonexistent/engine.sock")]);
        let runtime = crate::runtime(true).unwrap();
        for tier in [Tier::Container, Tier::Kernel] {
            let report = runtime.block_on(docker(tier, &lookup, &host(Kvm::Absent)));
            assert_eq!(report.host, ["kernel 6.1.0", "control groups are mounted"]);
            let [missing] = report.missing.as_slice() else {
                panic!("{report:?}");
            };
            assert!(
                missing.what.contains("/nonexistent/engine.sock") && missing.fix.contains("docker.io"),
                "{missing:?}"
            );
        }
    }

    #[test]
    fn the_runtime_of_the_environment_is_the_container_tiers_unless_it_is_gvisors() {
        for (chosen, container) in [("", ""), ("crun", "crun"), ("runsc", "")] {
            assert_eq!(runtime_of(Tier::Container, OsStr::new(chosen)), OsStr::new(container));
            assert_eq!(runtime_of(Tier::Kernel, OsStr::new(chosen)), OsStr::new("runsc"));
        }
        let environment = plimsoll::env::Environment::from_pairs([("SANDBOX_DOCKER_RUNTIME", "crun")]);
        let overlay = crate::local::for_a_look_at_docker(OsStr::new("runsc"), &environment);
        assert_eq!(settings(&overlay).unwrap().runtime.name(), Some("runsc"));
    }

    #[test]
    fn a_pool_that_start_up_would_refuse_is_missing_from_the_tier_that_would_have_it() {
        let doctor = |provider: &str, pool: &str| {
            let lookup = plimsoll::env::Environment::from_pairs([
                ("SANDBOX_PROVIDER", provider),
                ("SANDBOX_READY_POOL", pool),
                ("DOCKER_HOST", "unix:///nonexistent/engine.sock"),
            ]);
            let runtime = crate::runtime(true).unwrap();
            let (text, proven) = runtime.block_on(report(&lookup, true));
            let told: serde_json::Value = serde_json::from_str(&text).unwrap();
            let what = |nth: usize| {
                told["tiers"][nth]["missing"][0]["what"]
                    .as_str()
                    .unwrap_or_default()
                    .to_owned()
            };
            (proven, what(0), what(1), what(2))
        };
        for (pool, why) in [("40", "above 8"), ("-1", "SANDBOX_READY_POOL=\"-1\"")] {
            let (proven, process, container, kernel) = doctor("docker", pool);
            assert!(proven && process.is_empty(), "{process}");
            for told in [container, kernel] {
                assert!(told.contains("SANDBOX_READY_POOL") && told.contains(why), "{told}");
            }
        }
        let (_, process, container, _) = doctor("docker", "8");
        assert!(
            process.is_empty() && container.contains("/nonexistent/engine.sock"),
            "{container}"
        );
        // Where the embedded engine is the one that is chosen, start-up refuses the pool there.
        for (provider, pool) in [("wasm", "4"), ("wasm", "-1"), ("", "-1")] {
            let (proven, process, ..) = doctor(provider, pool);
            assert!(!proven && process.contains("SANDBOX_READY_POOL"), "{process}");
        }
    }

    #[test]
    fn a_setting_that_stops_the_engine_is_what_is_missing() {
        let lookup = plimsoll::env::Environment::from_pairs([
            ("SANDBOX_PIDS", "5"),
            ("DOCKER_HOST", "unix:///nonexistent/engine.sock"),
        ]);
        let (text, proven) = crate::runtime(true).unwrap().block_on(report(&lookup, false));
        assert!(!proven);
        let lines: Vec<_> = text.lines().take(3).collect();
        assert_eq!(lines[0], "process    not proven");
        assert!(
            lines[1].contains("missing: the embedded engine: SANDBOX_PIDS=\"5\"") && lines[2].contains("fix: "),
            "{text}"
        );
    }
}
