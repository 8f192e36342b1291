//! What the process does to itself before it reads a secret.

use rustix::process::{DumpableBehavior, Resource, Rlimit, getrlimit, set_dumpable_behavior, setrlimit};
use rustix::thread::set_no_new_privs;

/// A step that did not hold; the daemon does not go on without it.
#[derive(Debug, thiserror::Error)]
#[error("the process cannot be hardened: {step}: {cause}")]
pub(crate) struct HardenError {
    step: &'static str,
    cause: rustix::io::Errno,
}

/// No new privileges, no core file, not readable by other processes of this user; and as many descriptors as the
/// system allows. Called while the process has one thread, because the first is a property of threads.
pub(crate) fn harden() -> Result<(), HardenError> {
    let step = |step| move |cause| HardenError { step, cause };
    plimsoll::before_hardening();
    set_no_new_privs(true).map_err(step("no new privileges"))?;
    setrlimit(
        Resource::Core,
        Rlimit {
            current: Some(0),
            maximum: Some(0),
        },
    )
    .map_err(step("core size 0"))?;
    set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(step("not dumpable"))?;
    let descriptors = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: descriptors.maximum,
        maximum: descriptors.maximum,
    };
    setrlimit(Resource::Nofile, raised).map_err(step("descriptor limit"))
}

/// Connections the RPC listener may have open: half of the descriptors, at least one; `None` when nothing limits them.
pub(crate) fn max_connections() -> Option<usize> {
    share(getrlimit(Resource::Nofile).current)
}

fn share(descriptors: Option<u64>) -> Option<usize> {
    descriptors.map(|limit| usize::try_from(limit / 2).unwrap_or(usize::MAX).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_get_half_of_the_descriptors_and_at_least_one() {
        assert_eq!(share(Some(1024)), Some(512));
        assert_eq!(share(Some(1)), Some(1));
        assert_eq!(share(Some(0)), Some(1));
        assert_eq!(share(None), None);
    }
}
