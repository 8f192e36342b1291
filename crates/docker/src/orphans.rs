//! What a daemon leaves behind, and who clears it away.
//!
//! Every daemon has a private folder with a socket that answers for as long as the process lives, and every container
//! names that folder. So a later process can tell a dead owner's container from a live one's, without asking anybody.

use std::collections::HashMap;
use std::fs::Permissions;
use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tempfile::TempDir;
use tokio::net::{UnixListener, UnixStream};
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};

use crate::container::{EXPIRES_LABEL, OWNER_LABEL};
use crate::engine::{Engine, EngineError, Listed};
use crate::guard::RUN_FOLDER_PREFIX;

/// Begins the names of daemons' private folders.
pub const PRIVATE_FOLDER_PREFIX: &str = "plimsoll-daemon-";

/// The socket that shows its daemon alive.
const ALIVE_SOCKET: &str = "alive.sock";

/// Tries to remove a container, the time each may take, and the pauses between them.
const REMOVE_BUDGET: Duration = Duration::from_secs(10);
const REMOVE_PAUSES: [Option<Duration>; 3] = [Some(Duration::from_secs(1)), Some(Duration::from_secs(2)), None];

/// How often a container that is being removed is looked for.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// How far in the past an end must lie before somebody else's container is removed for it.
const GRACE: Duration = Duration::from_secs(5 * 60);

/// How old a folder must be before it can be a leftover: a younger one may be about to get its socket.
const FOLDER_AGE: Duration = Duration::from_secs(60);

/// How long a socket has to take a connection or refuse it.
const DIAL_BUDGET: Duration = Duration::from_secs(1);

/// How deep a leftover folder is looked through; ours have one level.
const MAX_DEPTH: u32 = 4;

/// This process's private folder; it goes with the value.
#[derive(Debug)]
pub struct PrivateFolder {
    _folder: TempDir,
    /// Without links: labels and mounts name it this way.
    path: PathBuf,
    temp: PathBuf,
    answering: AbortHandle,
}

impl PrivateFolder {
    /// Makes the folder in the system's folder for temporary files and answers its socket.
    ///
    /// # Errors
    /// The folder or the socket cannot be made.
    #[expect(clippy::unused_async, reason = "it needs a runtime, and says so by its type")]
    pub async fn open() -> io::Result<Self> {
        Self::open_in(&std::env::temp_dir())
    }

    fn open_in(temp: &Path) -> io::Result<Self> {
        let temp = fs_err::canonicalize(temp)?;
        let private = Permissions::from_mode(0o700);
        let folder = tempfile::Builder::new()
            .permissions(private)
            .prefix(PRIVATE_FOLDER_PREFIX)
            .tempdir_in(&temp)?;
        let path = folder.path().to_owned();
        let listener = UnixListener::bind(path.join(ALIVE_SOCKET))?;
        let answering = tokio::spawn(async move {
            loop {
                if listener.accept().await.is_err() {
                    // Out of descriptors: the backlog answers meanwhile.
                    sleep(LOOK_EVERY).await;
                }
            }
        });
        Ok(Self {
            _folder: folder,
            path,
            temp,
            answering: answering.abort_handle(),
        })
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The folder for temporary files it lies in.
    pub fn temp(&self) -> &Path {
        &self.temp
    }
}

impl Drop for PrivateFolder {
    fn drop(&mut self) {
        self.answering.abort();
    }
}

/// A container could not be seen gone.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("container {name} is not gone after {} attempts: {last}", REMOVE_PAUSES.len())]
pub struct NotRemoved {
    /// Its ID, or its name where the engine never told one.
    pub name: String,
    /// What the last attempt came to.
    pub last: String,
}

/// Removes a container, by ID or name, killing it first, and sees it gone: a listing by its exact ID or name comes back empty.
/// At most three attempts of ten seconds with pauses of one and two seconds.
///
/// # Errors
/// It is still there, or the engine could not say that it is not.
pub async fn force_remove(engine: &Engine, name: &str) -> Result<(), NotRemoved> {
    let mut last = String::new();
    for pause in REMOVE_PAUSES {
        match timeout(REMOVE_BUDGET, removed_and_gone(engine, name)).await {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(error)) => last = error.to_string(),
            Err(_) => last = format!("not gone within {} s", REMOVE_BUDGET.as_secs()),
        }
        if let Some(pause) = pause {
            sleep(pause).await;
        }
    }
    Err(NotRemoved {
        name: name.to_owned(),
        last,
    })
}

async fn removed_and_gone(engine: &Engine, name: &str) -> Result<(), EngineError> {
    let answer = engine.remove(name, true).await;
    loop {
        if !engine.exists(name).await? {
            return Ok(());
        }
        match &answer {
            // On its way, by us or by somebody else; the attempt's time bounds the looking.
            Ok(()) | Err(EngineError::Conflict { .. }) => sleep(LOOK_EVERY).await,
            Err(error) => return Err(error.clone()),
        }
    }
}

/// Removes what dead daemons and ended lives left, and what this one could not remove before: containers, then folders. `holds`
/// knows this process's own containers by name or ID, from before they are made until they are gone; those are never touched. Returns how many containers were removed.
///
/// # Errors
/// The engine's listing cannot be had whole; then nothing is removed.
pub async fn reconcile(
    engine: &Engine,
    folder: &PrivateFolder,
    holds: impl Fn(&str) -> bool,
) -> Result<usize, EngineError> {
    let listed = engine.list_labelled(EXPIRES_LABEL).await?;
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs();
    let mut owners = Owners {
        temp: folder.temp(),
        own: folder.path(),
        judged: HashMap::new(),
    };
    let mut removed = 0;
    for container in &listed {
        if container.names().chain([container.id.as_str()]).any(&holds) || !owners.orphaned(container, now).await {
            continue;
        }
        if owners.is_own(container) && !engine.exists(&container.id).await? {
            // Held when it was listed, and removed since.
            continue;
        }
        match force_remove(engine, &container.id).await {
            Ok(()) => removed += 1,
            Err(error) => tracing::warn!(%error, "an orphan could not be removed"),
        }
    }
    clear_folders(folder).await;
    Ok(removed)
}

/// The owners of containers, each judged once.
struct Owners<'a> {
    temp: &'a Path,
    own: &'a Path,
    judged: HashMap<String, Owner>,
}

/// What is known of a container's owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    /// Certainly dead.
    Dead,
    /// Another process that answers: what runs is its own business, whatever the clock says of a label. A clock that was set
    /// ahead makes every label past.
    Alive,
    /// This daemon, which knows what it holds: what it does not hold any more it has tried to remove, in vain.
    Own,
    /// One that cannot be seen from here.
    Untold,
}

impl Owners<'_> {
    async fn orphaned(&mut self, container: &Listed, now: u64) -> bool {
        let owner = match container.label(OWNER_LABEL) {
            Some(owner) => self.judge(owner).await,
            None => Owner::Untold,
        };
        let expires = container.label(EXPIRES_LABEL).and_then(|text| text.parse::<u64>().ok());
        let past = expires.is_some_and(|expires| now > expires.saturating_add(GRACE.as_secs()));
        match owner {
            Owner::Dead | Owner::Own => true,
            // One that is over has no code to lose, and an embedder that lost it does not look again.
            Owner::Alive => past && container.is_over(),
            Owner::Untold => past,
        }
    }

    fn is_own(&self, container: &Listed) -> bool {
        container
            .label(OWNER_LABEL)
            .is_some_and(|owner| Path::new(owner) == self.own)
    }

    async fn judge(&mut self, owner: &str) -> Owner {
        if Path::new(owner) == self.own {
            return Owner::Own;
        }
        if let Some(known) = self.judged.get(owner) {
            return *known;
        }
        let judged = judge(Path::new(owner), self.temp).await;
        self.judged.insert(owner.to_owned(), judged);
        judged
    }
}

/// What the private folder of another daemon tells of it.
async fn judge(owner: &Path, temp: &Path) -> Owner {
    if !owner.is_absolute() {
        return Owner::Untold;
    }
    match fs_err::symlink_metadata(owner) {
        Ok(_) => match dial(&owner.join(ALIVE_SOCKET)).await {
            Dialled::Refused => Owner::Dead,
            Dialled::Taken => Owner::Alive,
            Dialled::Unclear => Owner::Untold,
        },
        // A daemon in another mount namespace looks gone too, so this counts only where our own folders would lie.
        Err(error) if error.kind() == io::ErrorKind::NotFound && owner.parent() == Some(temp) => Owner::Dead,
        Err(_) => Owner::Untold,
    }
}

/// What became of a connection.
enum Dialled {
    Taken,
    Refused,
    Unclear,
}

async fn dial(socket: &Path) -> Dialled {
    match timeout(DIAL_BUDGET, UnixStream::connect(socket)).await {
        Ok(Ok(_)) => Dialled::Taken,
        Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused => Dialled::Refused,
        Ok(Err(_)) | Err(_) => Dialled::Unclear,
    }
}

/// Removes the folders of dead daemons and their runs.
async fn clear_folders(own: &PrivateFolder) {
    let Ok(entries) = fs_err::read_dir(own.temp()) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let ours = [PRIVATE_FOLDER_PREFIX, RUN_FOLDER_PREFIX];
        let path = entry.path();
        if !ours.iter().any(|prefix| name.starts_with(prefix)) || path == own.path() || !is_leftover(&path) {
            continue;
        }
        if all_refuse(&path).await
            && let Err(error) = fs_err::remove_dir_all(&path)
        {
            tracing::warn!(%error, "a leftover folder could not be removed");
        }
    }
}

/// Whether it is a real folder of our own user, old enough to be a leftover.
fn is_leftover(path: &Path) -> bool {
    let Ok(metadata) = fs_err::symlink_metadata(path) else {
        return false;
    };
    let old = metadata
        .modified()
        .ok()
        .and_then(|at| at.elapsed().ok())
        .is_some_and(|age| age > FOLDER_AGE);
    metadata.is_dir() && metadata.uid() == rustix::process::geteuid().as_raw() && old
}

/// Whether every socket in the folder refuses connections, and all of the folder can be read.
async fn all_refuse(folder: &Path) -> bool {
    let mut folders = vec![(folder.to_owned(), 0)];
    while let Some((folder, depth)) = folders.pop() {
        let Ok(entries) = fs_err::read_dir(&folder) else {
            return false;
        };
        for entry in entries {
            let Ok(entry) = entry else { return false };
            let Ok(kind) = entry.file_type() else { return false };
            if kind.is_socket() && !matches!(dial(&entry.path()).await, Dialled::Refused) {
                return false;
            }
            if kind.is_dir() {
                if depth == MAX_DEPTH {
                    return false;
                }
                folders.push((entry.path(), depth + 1));
            }
        }
    }
    true
}

#[cfg(test)]
mod tests;
