//! From a verified image to a container whose PID 1 waits for a plan.
//!
//! ```text
//! broker socket ─► create ─► read back │ attach │ wait for its exit ─► start ─► open ─► Ready
//! ```
//!
//! Whatever stops this half-way, the container's guard removes it.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bollard::models::ContainerCreateBody;
use plimsoll_core::Permit;
use plimsoll_guest_link::messages::limits::SNIPPET_STREAM_CAP;
use plimsoll_guest_link::messages::{GuestMessage, Prepare, Variable};
use plimsoll_guest_link::{OpenSpec, Verdict};
use tokio::time::{Instant, timeout};

use crate::channel::{Channel, Event};
use crate::container::{ContainerName, ContainerSpec, Ownership, ProcessLimit, ReadBackError, SpecError, read_back};
use crate::engine::{Engine, EngineError};
use crate::guard::{Container, Mounted};
use crate::later::Later;
use crate::process::SandboxProcess;
use crate::snapshot::{Snapshot, VerifiedImage};
use crate::teardown::Teardown;

/// How long PID 1 may take to say that it is ready: it starts in milliseconds, and on a loaded host in seconds.
const READY: Duration = Duration::from_secs(10);

/// Begins the names of our containers.
const NAME_PREFIX: &str = "plimsoll";

/// Begins the names of sessions' containers.
const SESSION_NAME_PREFIX: &str = "plimsoll-session";

/// What a container is made for: one image setting and one form of container each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Use {
    /// Snippets: no `/work`.
    Snippet,
    /// Projects.
    Project,
}

impl Use {
    /// Both.
    pub(crate) const ALL: [Self; 2] = [Self::Snippet, Self::Project];

    /// The word in logs.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Snippet => "snippet",
            Self::Project => "project",
        }
    }

    /// The image of this use.
    pub(crate) fn image(self, snapshot: &Snapshot) -> &Arc<VerifiedImage> {
        match self {
            Self::Snippet => &snapshot.javascript,
            Self::Project => &snapshot.project,
        }
    }

    /// What PID 1 makes ready for it.
    pub(crate) const fn prepare(self) -> Prepare {
        match self {
            Self::Snippet => Prepare::Snippet,
            Self::Project => Prepare::Project,
        }
    }
}

/// One container to be made.
#[derive(Debug)]
pub(crate) struct Order {
    /// Its image and form.
    pub(crate) of: Use,
    /// What PID 1 makes ready.
    pub(crate) prepare: Prepare,
    /// How long it is declared to live.
    pub(crate) lives: Duration,
    /// Memory in MiB where it is not that of a run.
    pub(crate) memory_mib: Option<u32>,
    /// What the caller holds for it, if it is made for one: kept until the container is gone, however far its making gets.
    pub(crate) capacity: Option<Permit>,
}

/// A container whose PID 1 waits for a plan.
#[derive(Debug)]
pub(crate) struct Member {
    /// To PID 1. Declared first: dropped first, so that PID 1 ends before anybody asks whether it has.
    pub(crate) channel: Channel,
    /// Removes the container when it goes.
    pub(crate) container: Container,
    /// What it was made of.
    pub(crate) spec: ContainerSpec,
    /// What it was launched under.
    pub(crate) snapshot: Arc<Snapshot>,
    /// When it was ready.
    pub(crate) born: Instant,
}

/// Why there is no container. For the log and the operator; a caller is told that nothing ran.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LaunchError {
    /// The engine would not.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The container that was made is not the one that was asked for.
    #[error(transparent)]
    ReadBack(#[from] ReadBackError),
    /// It cannot be asked for.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// The broker's socket, its name or its key could not be made.
    #[error("the container's surroundings cannot be made: {0}")]
    Surroundings(#[from] io::Error),
    /// PID 1 ended, or said something else.
    #[error("PID 1 did not become ready: {0}")]
    NotReady(String),
}

/// Makes containers for one daemon.
#[derive(Debug)]
pub(crate) struct Launcher {
    /// Where the broker sockets' folders are made.
    temp: PathBuf,
    /// The daemon's private folder, by which its containers are known.
    owner: PathBuf,
    teardown: Arc<Teardown>,
}

impl Launcher {
    pub(crate) const fn new(temp: PathBuf, owner: PathBuf, teardown: Arc<Teardown>) -> Self {
        Self { temp, owner, teardown }
    }

    /// Makes a container and waits until its PID 1 is ready.
    ///
    /// # Errors
    /// [`LaunchError`]; what was made is removed.
    pub(crate) async fn launch(&self, snapshot: &Arc<Snapshot>, order: Order) -> Result<Member, LaunchError> {
        let mounted = self.mounted().await?;
        self.launch_with(snapshot, order, mounted).await
    }

    /// A broker's socket for a container that is made next.
    ///
    /// # Errors
    /// The folder or the socket cannot be made.
    pub(crate) async fn mounted(&self) -> io::Result<Mounted> {
        Mounted::broker(&self.temp).await
    }

    /// As [`Launcher::launch`], with another socket where the broker's would be.
    ///
    /// # Errors
    /// As [`Launcher::launch`].
    pub(crate) async fn launch_with(
        &self,
        snapshot: &Arc<Snapshot>,
        order: Order,
        mounted: Mounted,
    ) -> Result<Member, LaunchError> {
        let session = order.prepare == Prepare::Session;
        let prefix = if session { SESSION_NAME_PREFIX } else { NAME_PREFIX };
        let name = ContainerName::fresh(prefix).map_err(io::Error::other)?;
        let lease = snapshot.cores.take(snapshot.limits.cpus);
        let spec = self.spec(snapshot, &order, &mounted, lease.cpuset());
        let request = spec.request()?;
        let engine = &snapshot.engine;
        // From here on something may exist under this name.
        let mut container = Container::new(engine.clone(), name, mounted, lease, Arc::clone(&self.teardown));
        if let Some(capacity) = order.capacity {
            container.keep(capacity);
        }
        let name = container.name().clone();
        let mut container = self
            .created(engine.clone(), container, spec.platform.clone(), request.clone())
            .await?;
        let id = container.reference().to_owned();
        let inspected = async {
            let made = engine.inspect_container(&id).await?;
            read_back(&request, &made).map_err(LaunchError::from)
        };
        let (attached, exit, ()) = tokio::try_join!(
            async { engine.attach(&id).await.map_err(LaunchError::from) },
            async { engine.wait_next_exit(&id).await.map_err(LaunchError::from) },
            inspected,
        )?;
        engine.start(&id).await?;
        let told = async move { exit.exit().await.ok() };
        let process = {
            let engine = engine.clone();
            async move {
                let running = engine.inspect_container(&id).await.ok()?;
                let pid = running.state?.pid?;
                let found = SandboxProcess::of(pid, &id);
                found
                    .inspect_err(|cause| tracing::debug!(%cause, container = %name, "no handle on a container"))
                    .ok()
                    .map(Arc::new)
            }
        };
        container.started(Later::spawn(process), Later::spawn(told));
        let open = OpenSpec {
            prepare: order.prepare,
            env: variables(order.of.image(snapshot)),
            output_cap: SNIPPET_STREAM_CAP,
        };
        let mut channel = Channel::open(attached, open).await?;
        ready(&mut channel).await?;
        Ok(Member {
            channel,
            container,
            spec,
            snapshot: Arc::clone(snapshot),
            born: Instant::now(),
        })
    }

    /// Has the engine create the container, to the end also when nobody waits for it any more: an engine goes on with a
    /// request whose sender has gone, and what does not exist yet cannot be removed.
    async fn created(
        &self,
        engine: Engine,
        mut container: Container,
        platform: Option<String>,
        request: Box<ContainerCreateBody>,
    ) -> Result<Container, LaunchError> {
        let creation = self.teardown.follow(async move {
            let name = container.name().clone();
            let id = engine
                .create_container(name.as_str(), platform.as_deref(), request)
                .await?;
            container.made(id);
            Ok::<_, EngineError>(container)
        });
        Ok(creation.await.map_err(io::Error::other)??)
    }

    fn spec(&self, snapshot: &Snapshot, order: &Order, mounted: &Mounted, cpuset: String) -> ContainerSpec {
        let limits = snapshot.limits;
        ContainerSpec {
            image_id: order.of.image(snapshot).content_id.clone(),
            platform: snapshot.platform.clone(),
            arguments: Vec::new(),
            work: order.of == Use::Project,
            // How a session's container ended must still be there to be read.
            auto_remove: order.prepare != Prepare::Session,
            runtime: snapshot.runtime.clone(),
            memory_mib: order.memory_mib.unwrap_or(limits.memory_mib),
            processes: ProcessLimit::new(limits.processes, snapshot.runtime.is_gvisor()),
            cpus: limits.cpus,
            cpuset,
            storage: limits.storage,
            guest_uid: snapshot.guest_uid,
            confinement: snapshot.confinement.clone(),
            ownership: Ownership {
                expires: expiry(order.lives),
                owner: self.owner.clone(),
                session: order.prepare == Prepare::Session,
            },
            broker_socket: mounted.path().to_owned(),
        }
    }
}

/// The image's variables as PID 1 takes them.
fn variables(image: &VerifiedImage) -> Vec<Variable> {
    let pairs = image.environment.iter();
    pairs.map(|(name, value)| Variable::new(name, value)).collect()
}

/// Unix seconds at the end of a life that begins now, rounded up.
fn expiry(lives: Duration) -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let end = now + lives;
    end.as_secs() + u64::from(end.subsec_nanos() > 0)
}

async fn ready(channel: &mut Channel) -> Result<(), LaunchError> {
    let event = timeout(READY, channel.next()).await;
    let cause = match event {
        Ok(Event::Message(GuestMessage::Ready(_))) => return Ok(()),
        Ok(Event::Message(GuestMessage::Fault(fault))) => fault.text,
        Ok(Event::Message(_)) => "it spoke before it was asked".to_owned(),
        // A guest binary of another version cannot sign what it would say, so it says nothing.
        Ok(Event::Closed) if channel.verdict() == Verdict::NotFound => {
            "it ended without a word, as that of another version of plimsoll does; build the image anew with: plimsoll \
             images build"
                .to_owned()
        }
        Ok(Event::Closed) => format!("it ended ({:?})", channel.verdict()),
        Ok(Event::Lost(cause)) => cause,
        Err(_) => format!("no answer within {} s", READY.as_secs()),
    };
    let beside = match channel.beside() {
        nothing if nothing.is_empty() => nothing,
        said => format!(": {said}"),
    };
    Err(LaunchError::NotReady(cause + &beside))
}
