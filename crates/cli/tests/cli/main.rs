//! The command as a user meets it: started, fed, and read from outside.

mod help;
mod remote;
mod run;
mod support;
mod texts;
