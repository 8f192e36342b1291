//! Builds the container images that runs use, and loads them into an engine, without a container registry.
//!
//! An image is made from Debian packages, npm packages and Python wheels that the host's own package managers fetch,
//! with the host's mirrors, proxies and credentials. Nothing of a package is run while an image is made, and nothing is unpacked onto the host: the
//! entries go through a checked map of paths ([`Tree`]) into layer archives that this crate writes, so two builds of the
//! same packages give the same digest on every host, and no privilege is needed.
//!
//! What is in an image stands in `guest/images`: a recipe and a lock file per image, and one file with the versions of the
//! toolchain. All of them are compiled into the program.

mod build;
mod built;
mod compile;
mod derive;
mod digest;
mod engine;
mod error;
mod fetch;
mod guest;
mod layer;
mod lock;
mod recipe;
mod sbom;
mod store;
mod tag;
mod tree;
mod unpack;
mod verify;

pub use build::{BuildOptions, Outcome, TAG, build, relock, superseded};
pub use built::{Built, Layer};
pub use derive::{DeriveOptions, derive};
pub use digest::Hash;
pub use engine::Engine;
pub use error::{ImagesError, Progress};
pub use guest::{GUEST_BINARY, guest_binary_near};
pub use lock::{Kind, Lock, Locked};
pub use recipe::{LayerRecipe, Python, Recipe, SHIPPED, Shipped, TOOLCHAIN, Toolchain};
pub use store::Store;
pub use tag::Tag;
pub use tree::{BadEntry, Node, Tree};
pub use verify::verify;
