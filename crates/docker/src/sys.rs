//! The one thing here that the compiler cannot check.

#![expect(unsafe_code, reason = "the runtime takes a descriptor only on the word of its owner")]

use std::io;
use std::os::fd::OwnedFd;

use tokio::io::unix::AsyncFd;

/// Waits for a descriptor in this runtime.
///
/// # Errors
/// The descriptor is of a kind that cannot be waited for.
pub(crate) fn watched(fd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an OwnedFd names the same open descriptor for as long as it lives, which is what is asked for.
    unsafe { AsyncFd::register(fd) }.map_err(io::Error::other)
}
