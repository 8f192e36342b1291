//! The command as a user meets it: started, fed, and read from outside.

mod clients;
mod grants;
mod help;
mod project;
mod prompt;
mod remote;
mod run;
mod session;
mod support;
mod texts;
