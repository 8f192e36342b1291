//! What can be known without starting anything: the configuration, the engine, the runtime and the images.
//!
//! The checks run in a fixed order and the first failure is the answer. Their result is one [`Snapshot`].

use std::sync::Arc;

use tokio::time::Instant;

use crate::cores::Cores;
use crate::endpoint::{Endpoint, EndpointError};
use crate::engine::{Engine, EngineError, EngineFacts, ImageAnswer, KernelLimits, ServerVersion};
use crate::guest_uid::{self, GuestUidError};
use crate::image_ref::{self, ImageRefError};
use crate::platform;
use crate::runtime::RuntimeError;
use crate::seccomp::SeccompError;
use crate::settings::DockerSettings;
use crate::snapshot::{Snapshot, VerifiedImage};

/// Names that the dynamic loader obeys before any program of ours can clear them, beside everything in `LD_`.
const LOADER_NAMES: [&str; 4] = ["GLIBC_TUNABLES", "LOCPATH", "NLSPATH", "GCONV_PATH"];

/// The host, the engine or an image is not fit to serve. The text names what is missing and what helps.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PreflightError {
    /// A reference to an image.
    #[error(transparent)]
    Reference(#[from] ImageRefError),
    /// The user of guests.
    #[error(transparent)]
    GuestUid(#[from] GuestUidError),
    /// The seccomp profile.
    #[error("SANDBOX_DOCKER_SECCOMP: {0}")]
    Seccomp(#[from] SeccompError),
    /// Where the engine is.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    /// The engine does not answer as it must.
    #[error("{endpoint}: {error}; {}", error.remedy())]
    Engine {
        /// Its socket.
        endpoint: String,
        /// What went wrong.
        error: EngineError,
    },
    /// The runtime.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    /// More processors than there are.
    #[error("SANDBOX_CPUS={wanted}: the engine's host has {available}; set it to at most {available}")]
    Cpus {
        /// As configured.
        wanted: String,
        /// What there is.
        available: u32,
    },
    /// More memory than there is.
    #[error(
        "SANDBOX_MEMORY_MB={wanted}: the engine's host has {available} MiB; set it to at most {available}, and leave room for the host"
    )]
    Memory {
        /// As configured, in MiB.
        wanted: u32,
        /// What there is, in MiB.
        available: u64,
    },
    /// The kernel cannot enforce a limit that every container is given.
    #[error("the engine's kernel cannot limit {what}, so it cannot be promised; {fix}")]
    Kernel {
        /// Which limit.
        what: &'static str,
        /// What helps.
        fix: &'static str,
    },
    /// An image is not there; images are never pulled.
    #[error(
        "image {reference}: the engine does not have it and it is never pulled; build it with: plimsoll images build"
    )]
    ImageAbsent {
        /// As configured.
        reference: String,
    },
    /// An image cannot be described.
    #[error("image {reference}: {error}")]
    ImageUnreadable {
        /// As configured.
        reference: String,
        /// What went wrong.
        error: EngineError,
    },
    /// An image may not be used.
    #[error("image {reference}: {problem}")]
    ImageRefused {
        /// As configured.
        reference: String,
        /// Why.
        problem: String,
    },
    /// The platform of the images cannot be verified.
    #[error(
        "the platform of the images cannot be verified: the engine's API {api} does not inspect images for a platform (1.49 does) and {why}; {fix}"
    )]
    Platform {
        /// The API in use.
        api: String,
        /// Why that matters here.
        why: &'static str,
        /// What helps.
        fix: &'static str,
    },
}

/// What an earlier probe has settled for the life of the process.
#[derive(Clone, Debug)]
pub struct Pinned {
    /// The engine's socket.
    pub endpoint: Endpoint,
    /// The processors containers are spread over.
    pub cores: Arc<Cores>,
}

/// Looks at everything once. Starts nothing, pulls nothing, changes nothing.
///
/// # Errors
/// The first thing that is not fit to serve.
pub async fn preflight(settings: &DockerSettings, pinned: Option<&Pinned>) -> Result<Snapshot, PreflightError> {
    // The disk budget and the form of every setting are settled when the settings are read.
    for reference in settings.images() {
        image_ref::check(reference, false)?;
    }
    guest_uid::check_on_host(settings.guest_uid)?;
    for reference in settings.images() {
        image_ref::check(reference, settings.require_pinned)?;
    }
    let confinement = settings.seccomp.load()?;
    let endpoint = match pinned {
        Some(pinned) => pinned.endpoint.clone(),
        None => settings.client.resolve()?,
    };
    let at_engine = |error| PreflightError::Engine {
        endpoint: endpoint.to_string(),
        error,
    };
    let (engine, server) = Engine::connect(endpoint.path()).await.map_err(at_engine)?;
    let facts = engine.info().await.map_err(at_engine)?;
    settings.runtime.verify(&facts)?;
    enforceable(settings, &facts)?;
    let mut images = Vec::new();
    for reference in settings.images() {
        images.push(inspected(&engine, reference).await?);
    }
    let platform = for_platform(settings, &engine, &server, &facts, &mut images).await?;
    let mut images = images.into_iter().map(Arc::new);
    let javascript = images.next().ok_or_else(|| PreflightError::ImageAbsent {
        reference: settings.image.clone(),
    })?;
    let project = images.next().unwrap_or_else(|| Arc::clone(&javascript));
    let cores = match pinned {
        Some(pinned) => Arc::clone(&pinned.cores),
        None => Arc::new(Cores::of_host(facts.cpus)),
    };
    Ok(Snapshot {
        endpoint,
        engine,
        facts,
        runtime: settings.runtime.clone(),
        runtime_verified: true,
        guest_uid: settings.guest_uid,
        limits: settings.limits,
        confinement,
        platform,
        javascript,
        project,
        cores,
        at: Instant::now(),
    })
}

/// Whether the host has what every container is promised.
pub(crate) fn enforceable(settings: &DockerSettings, facts: &EngineFacts) -> Result<(), PreflightError> {
    if facts.cpus > 0 && settings.limits.cpus > f64::from(facts.cpus) {
        return Err(PreflightError::Cpus {
            wanted: settings.limits.cpus.to_string(),
            available: facts.cpus,
        });
    }
    let available = facts.memory >> 20;
    if available > 0 && u64::from(settings.limits.memory_mib) > available {
        return Err(PreflightError::Memory {
            wanted: settings.limits.memory_mib,
            available,
        });
    }
    let KernelLimits {
        memory,
        swap,
        cpu_quota,
        cpu_set,
        pids,
    } = facts.limits;
    let controller = "enable the cgroup controller on the engine's host";
    for (enforced, what, fix) in [
        (memory, "memory", controller),
        (
            swap,
            "memory together with swap",
            "boot the engine's host with swapaccount=1, or with cgroup v2",
        ),
        (cpu_quota, "processor time", controller),
        (cpu_set, "which processors are used", controller),
        (pids, "the number of processes", controller),
    ] {
        if !enforced {
            return Err(PreflightError::Kernel { what, fix });
        }
    }
    Ok(())
}

/// One look at an image, so that its ID and its configuration describe the same content.
pub(crate) async fn inspected(engine: &Engine, reference: &str) -> Result<VerifiedImage, PreflightError> {
    let answer = described(engine, reference, reference, None).await?;
    let environment = accepted(reference, &answer)?;
    if !image_ref::is_content_id(&answer.id) {
        return Err(PreflightError::ImageRefused {
            reference: reference.to_owned(),
            problem: format!("its ID {:?} is not sha256: and 64 hex digits", shortened(&answer.id)),
        });
    }
    Ok(VerifiedImage {
        reference: reference.to_owned(),
        content_id: answer.id,
        environment,
        manifest: String::new(),
    })
}

async fn described(
    engine: &Engine,
    reference: &str,
    id: &str,
    platform: Option<&str>,
) -> Result<ImageAnswer, PreflightError> {
    let reference = reference.to_owned();
    match engine.inspect_image(id, platform).await {
        Ok(answer) => Ok(answer),
        Err(EngineError::NotFound { .. }) => Err(match platform {
            None => PreflightError::ImageAbsent { reference },
            Some(platform) => PreflightError::ImageRefused {
                reference,
                problem: format!("the engine does not have it for platform {platform}; build or load it for that one"),
            },
        }),
        Err(error) => Err(PreflightError::ImageUnreadable { reference, error }),
    }
}

/// Chooses the platform and verifies every image for it, where the engine can.
async fn for_platform(
    settings: &DockerSettings,
    engine: &Engine,
    server: &ServerVersion,
    facts: &EngineFacts,
    images: &mut [VerifiedImage],
) -> Result<Option<String>, PreflightError> {
    if !engine.inspects_platforms() {
        let refused = |why, fix| PreflightError::Platform {
            api: engine.api().to_string(),
            why,
            fix,
        };
        if facts.uses_containerd_store() {
            return Err(refused(
                "images are kept in containerd's store",
                "upgrade the engine, or use its classic store",
            ));
        }
        if settings.platform.is_some() {
            return Err(refused(
                "DOCKER_DEFAULT_PLATFORM is set",
                "upgrade the engine, or unset it",
            ));
        }
        return Ok(None);
    }
    let own = || format!("{}/{}", server.os, server.arch);
    let platform = platform::normalize(&settings.platform.clone().unwrap_or_else(own));
    for image in images {
        let answer = described(engine, &image.reference, &image.content_id, Some(&platform)).await?;
        image.environment = accepted(&image.reference, &answer)?;
        image.manifest = platform::manifest_identity(&platform, &answer);
    }
    Ok(Some(platform))
}

/// The environment an image declares, if nothing it declares stands in the way.
fn accepted(reference: &str, answer: &ImageAnswer) -> Result<Vec<(String, String)>, PreflightError> {
    let refused = |problem: String| PreflightError::ImageRefused {
        reference: reference.to_owned(),
        problem,
    };
    let Some(config) = &answer.config else {
        return Err(refused("the engine does not state its configuration".to_owned()));
    };
    let volumes: Vec<&str> = config.volumes.iter().flatten().map(|(path, _)| path.as_str()).collect();
    if !volumes.is_empty() {
        let listed = shortened(&volumes.join(", "));
        return Err(refused(format!(
            "declares VOLUME {listed}, for which the engine would make an unbounded writable folder on the host; build it without"
        )));
    }
    let mut environment = Vec::new();
    for entry in config.env.iter().flatten() {
        let Some((name, value)) = entry.split_once('=').filter(|(name, _)| !name.is_empty()) else {
            return Err(refused(format!(
                "its ENV entry {:?} is not NAME=value; build it without",
                shortened(entry)
            )));
        };
        if name.starts_with("LD_") || LOADER_NAMES.contains(&name) {
            return Err(refused(format!(
                "sets {}, which the loader obeys before any program can clear it; build it without",
                shortened(name)
            )));
        }
        environment.push((name.to_owned(), value.to_owned()));
    }
    Ok(environment)
}

/// Text of an image, cut to what belongs in a message.
fn shortened(text: &str) -> String {
    const MOST: usize = 200;
    if text.chars().count() <= MOST {
        return text.to_owned();
    }
    let kept: String = text.chars().take(MOST).collect();
    format!("{kept}…")
}

#[cfg(test)]
mod tests;
