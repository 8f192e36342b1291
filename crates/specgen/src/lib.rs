//! From an OpenAPI document to an allow list, a client preamble and a tool description.
//!
//! Offline and deterministic: one document, in JSON or YAML, is read once, and the same bytes give the same artifacts.
//! Only what decides about routes is read. What a grant cannot express is refused with its reason or, when asked for,
//! left out with its reason; it is never approximated, because every route that is generated will be granted.
//!
//! [`generate`] is the library; [`run`] is the command around it, with its flags and files.

mod command;
mod document;
mod emit;
mod flags;
mod folder;
mod generate;
mod json;
mod mark;
mod name;
mod problem;
mod reference;
mod server;
mod template;
mod text;
mod tree;
mod yaml;

pub use command::{Streams, run};
pub use emit::{Artifact, File};
pub use flags::help;
pub use generate::{Generated, Options, Prefix, Skip, generate};
pub use problem::Refused;
pub use tree::{MAX_DOCUMENT_BYTES, MAX_NESTING};
pub use yaml::MAX_ALIAS_EXPANSION;
