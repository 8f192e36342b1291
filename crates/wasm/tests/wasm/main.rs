//! The engine and the provider, in one program: what is measured of a whole process, or changes one, has its own.

mod cells;
mod digest;
mod engine;
mod files;
mod host;
mod image;
mod intl;
mod intrinsics;
mod projects;
mod recursion;
mod sessions;
mod sizes;
mod snippets;
mod top_level_await;
