//! Packages into the tree of a layer. Nothing of a package is run, and nothing of it touches a file of the host.

use std::io::Read;

use crate::error::ImagesError;
use crate::tree::BadEntry;

pub(crate) mod deb;
pub(crate) mod npm;
pub(crate) mod wheel;

/// The most that one package may unpack to: several times the largest there is, and far from filling a host.
const MAX_UNPACKED: u64 = 1 << 30;

/// What a package says about itself, for the list of contents.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Stated {
    /// Its licence, as it spells it.
    pub(crate) licence: Option<String>,
}

/// Bounds what a decompressor gives.
fn bounded(reader: impl Read) -> impl Read {
    reader.take(MAX_UNPACKED)
}

fn refused(id: &str) -> impl Fn(BadEntry) -> ImagesError + '_ {
    move |entry| ImagesError::package(id, entry)
}

fn damaged(id: &str) -> impl Fn(std::io::Error) -> ImagesError + '_ {
    move |error| ImagesError::package(id, format!("the archive is damaged: {error}"))
}
