//! Whether a session's container still is the one that was opened.

use bollard::models::{ContainerInspectResponse, HostConfig, MountPoint};

/// What must not change for as long as a session lives.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Standing {
    image: Option<String>,
    user: Option<String>,
    host_config: Option<HostConfig>,
    mounts: Vec<MountPoint>,
    /// Sorted.
    networks: Vec<String>,
    name: Option<String>,
}

/// What the engine says of a container now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Running {
    /// It runs.
    Yes,
    /// Somebody froze it.
    Paused,
    /// Its main process has ended.
    No,
}

impl Standing {
    /// What an inspection shows.
    pub(crate) fn of(seen: &ContainerInspectResponse) -> Self {
        let mut networks: Vec<String> = seen
            .network_settings
            .iter()
            .flat_map(|settings| settings.networks.iter().flat_map(|networks| networks.keys().cloned()))
            .collect();
        networks.sort();
        let mut mounts = seen.mounts.clone().unwrap_or_default();
        mounts.sort_by(|one, other| one.destination.cmp(&other.destination));
        Self {
            image: seen.image.clone(),
            user: seen.config.as_ref().and_then(|config| config.user.clone()),
            host_config: seen.host_config.clone(),
            mounts,
            networks,
            name: seen.name.clone(),
        }
    }

    /// What is no longer as it was `before`, in words for the caller; `None` where nothing is.
    pub(crate) fn changed_since(&self, before: &Self) -> Option<&'static str> {
        if self.name != before.name {
            Some("somebody renamed its sandbox")
        } else {
            (self != before).then_some("somebody changed a setting of its sandbox")
        }
    }

    /// Whether it has no network but `none`.
    pub(crate) fn is_alone(&self) -> bool {
        self.networks.iter().all(|network| network == "none")
    }
}

impl Running {
    /// What an inspection shows.
    pub(crate) fn of(seen: &ContainerInspectResponse) -> Self {
        let state = seen.state.as_ref();
        let flag = |of: fn(&bollard::models::ContainerState) -> Option<bool>| state.and_then(of).unwrap_or_default();
        if flag(|state| state.paused) {
            Self::Paused
        } else if flag(|state| state.running) {
            Self::Yes
        } else {
            Self::No
        }
    }
}
