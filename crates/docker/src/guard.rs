//! A container as long as somebody holds it. When the guard goes, the container goes: off the path of any answer.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use plimsoll_broker::{Broker, BrokerSocket};
use plimsoll_core::Permit;
use tokio::task::JoinHandle;

use crate::container::ContainerName;
use crate::cores::CoreLease;
use crate::engine::{Engine, Exit};
use crate::later::Later;
use crate::orphans::NotRemoved;
use crate::process::SandboxProcess;
use crate::teardown::Teardown;

/// Begins the names of the folders that hold a run's broker socket.
pub(crate) const RUN_FOLDER_PREFIX: &str = "plimsoll-run-";

/// The one thing of the host inside a container: a socket.
#[derive(Debug)]
pub(crate) enum Mounted {
    /// The broker's.
    Broker(BrokerSocket),
    /// One that a test of the mount looks after.
    Other(PathBuf),
}

impl Mounted {
    /// A broker's socket in a fresh folder. Until a broker is lent, it answers that there is no grant.
    ///
    /// # Errors
    /// The folder or the socket cannot be made.
    pub(crate) async fn broker(temp: &Path) -> io::Result<Self> {
        BrokerSocket::open(temp, RUN_FOLDER_PREFIX).await.map(Self::Broker)
    }

    /// The socket.
    pub(crate) fn path(&self) -> &Path {
        match self {
            Self::Broker(socket) => socket.path(),
            Self::Other(path) => path,
        }
    }
}

/// One container. Dropping it removes the container in the background.
#[derive(Debug)]
pub(crate) struct Container {
    /// `None` once handed to the teardown.
    parts: Option<Parts>,
    teardown: Arc<Teardown>,
}

/// What a container holds on to until it is gone.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) engine: Engine,
    pub(crate) name: ContainerName,
    /// What the engine calls it, once it has said so. A name may be taken from it and given to another.
    pub(crate) id: Option<String>,
    pub(crate) mounted: Mounted,
    /// Its processors.
    pub(crate) lease: CoreLease,
    /// What is seen of it, once it was started.
    pub(crate) seen: Option<Seen>,
    /// The capacity of the call it ran.
    pub(crate) held: Option<Permit>,
    /// Whether it may still be running although nobody speaks to it any more.
    pub(crate) force: bool,
}

impl Parts {
    /// What to ask the engine for.
    pub(crate) fn reference(&self) -> &str {
        self.id.as_deref().unwrap_or(self.name.as_str())
    }
}

/// What the host sees of a container that was started.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    /// Its process, once the engine has told of it and it could be taken hold of.
    process: Later<Arc<SandboxProcess>>,
    /// How many processes the out-of-memory killer had taken when its process was gone.
    last_oom_kills: Later<u64>,
    /// Its exit, once the engine tells.
    exit: Later<Exit>,
}

impl Seen {
    fn new(process: Later<Arc<SandboxProcess>>, exit: Later<Exit>) -> Self {
        let mut watched = process.clone();
        let last_oom_kills = Later::spawn(async move {
            let process = watched.get().await?;
            process.gone().await.ok()?;
            // Now, because the engine takes the control groups away soon after.
            Some(process.oom_kills().await)
        });
        Self {
            process,
            last_oom_kills,
            exit,
        }
    }

    /// Waits until it has ended: by the handle on its process, which is quickest, else by the engine's word. False where
    /// neither can tell.
    pub(crate) async fn ended(&mut self) -> bool {
        if let Some(process) = self.process.get().await
            && process.gone().await.is_ok()
        {
            return true;
        }
        self.exit.get().await.is_some()
    }
}

impl Container {
    /// Takes charge of whatever exists under this name.
    pub(crate) fn new(
        engine: Engine,
        name: ContainerName,
        mounted: Mounted,
        lease: CoreLease,
        teardown: Arc<Teardown>,
    ) -> Self {
        teardown.hold(name.as_str());
        Self {
            parts: Some(Parts {
                engine,
                name,
                id: None,
                mounted,
                lease,
                seen: None,
                held: None,
                // Until it runs under our eyes, nothing but a forced removal is sure.
                force: true,
            }),
            teardown,
        }
    }

    /// The engine has made it, and calls it this.
    pub(crate) fn made(&mut self, id: String) {
        self.teardown.hold(&id);
        self.parts_mut().id = Some(id);
    }

    /// It runs.
    pub(crate) fn started(&mut self, process: Later<Arc<SandboxProcess>>, exit: Later<Exit>) {
        self.parts_mut().seen = Some(Seen::new(process, exit));
    }

    /// Its name.
    pub(crate) fn name(&self) -> &ContainerName {
        &self.parts().name
    }

    /// What to ask the engine for: its ID, or its name while the engine has not told one.
    pub(crate) fn reference(&self) -> &str {
        self.parts().reference()
    }

    /// Keeps the call's capacity until the container's process is gone.
    pub(crate) fn keep(&mut self, capacity: Permit) {
        self.parts_mut().held = Some(capacity);
    }

    /// The call's end was told, so PID 1 ends by itself.
    pub(crate) fn ended_well(&mut self) {
        self.parts_mut().force = false;
    }

    /// Lets the container's code call through this broker.
    pub(crate) fn lend(&self, broker: Arc<Broker>) {
        if let Mounted::Broker(socket) = &self.parts().mounted {
            socket.lend(broker);
        }
    }

    /// Nothing of the container calls anybody any more.
    pub(crate) fn take_back(&self) {
        if let Mounted::Broker(socket) = &self.parts().mounted {
            socket.take_back();
        }
    }

    /// Removes it now, and tells when it is seen to be gone. The removal goes on when nobody waits for that.
    pub(crate) fn remove(mut self) -> JoinHandle<Result<(), NotRemoved>> {
        self.parts_mut().force = true;
        let teardown = Arc::clone(&self.teardown);
        #[expect(
            clippy::expect_used,
            reason = "only the drop takes the parts away, and it has not run"
        )]
        let parts = self.parts.take().expect("a container in use has its parts");
        teardown.begin(parts)
    }

    /// Ready once it has ended; never where nobody can tell.
    pub(crate) fn gone(&self) -> impl Future<Output = ()> + use<> {
        let seen = self.parts().seen.clone();
        async move {
            let ended = match seen {
                Some(mut seen) => seen.ended().await,
                None => false,
            };
            if !ended {
                std::future::pending::<()>().await;
            }
        }
    }

    /// What tells of its exit.
    pub(crate) fn exits(&self) -> Option<Later<Exit>> {
        self.parts().seen.as_ref().map(|seen| seen.exit.clone())
    }

    /// Its process, if there is one that can be seen from here.
    pub(crate) async fn process(&mut self) -> Option<Arc<SandboxProcess>> {
        self.parts_mut().seen.as_mut()?.process.get().await
    }

    /// Whether something in it was taken for want of memory, for a container whose output has ended: the kernel's count, read
    /// the moment its process was gone. The engine's word is no use: it says no of most such ends (measured, 20.10).
    pub(crate) async fn out_of_memory(&mut self) -> bool {
        match &mut self.parts_mut().seen {
            Some(seen) => seen.last_oom_kills.get().await.is_some_and(|count| count > 0),
            None => false,
        }
    }

    /// Its exit, as the engine tells it; waits without a bound.
    pub(crate) async fn exit(&mut self) -> Option<Exit> {
        self.parts_mut().seen.as_mut()?.exit.get().await
    }

    #[expect(clippy::expect_used, reason = "only the drop takes the parts away")]
    fn parts(&self) -> &Parts {
        self.parts.as_ref().expect("a container in use has its parts")
    }

    #[expect(clippy::expect_used, reason = "only the drop takes the parts away")]
    fn parts_mut(&mut self) -> &mut Parts {
        self.parts.as_mut().expect("a container in use has its parts")
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        if let Some(parts) = self.parts.take() {
            // It is followed by the teardown, not by us.
            drop(Arc::clone(&self.teardown).begin(parts));
        }
    }
}
