//! What the generator makes of documents, and what it refuses.

mod command;
mod hostile;
mod page;
mod properties;
mod refusals;
mod shapes;
mod support;
mod yaml;
