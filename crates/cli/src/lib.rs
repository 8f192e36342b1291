//! The `plimsoll` command, as a library so that other binaries of the workspace can answer for it.
//!
//! Each command is a module that turns arguments and an environment into text and an exit code; this file only chooses
//! between them. Nothing here starts threads or loads an engine before a command needs it, because the time of a whole
//! `plimsoll run` is a promise.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser as _};
use plimsoll::env::Environment;
use plimsoll_core::vars::Lookup;

mod advice;
pub mod args;
mod artifacts;
mod bench;
mod clients;
mod describe;
mod doctor;
mod failure;
mod folder;
mod grants;
mod gvisor;
mod hint;
mod images;
mod line;
mod local;
mod pages;
mod progress;
mod remote;
mod request;
mod run;
mod serve;
mod session;
mod streams;
mod tools;
mod words;

use args::{Cli, Command};
use failure::Failure;
use tools::Tool;

/// Runs the command these arguments name (the first is the program's own name) and returns the exit code of the process.
///
/// `environment` is read when a command needs it; the daemon hardens its process first.
pub fn main(args: impl IntoIterator<Item = OsString>, environment: impl FnOnce() -> Environment) -> ExitCode {
    let args: Vec<OsString> = args.into_iter().collect();
    if let Some(tool) = tools::invoked(&args) {
        return tool.run(args);
    }
    let of_session = args.get(1).is_some_and(|command| command == "session");
    let cli = match Cli::try_parse_from(args::normalised(args)) {
        Ok(cli) => cli,
        Err(error) => {
            let error = if of_session {
                args::with_input_named(error)
            } else {
                error
            };
            // Help goes to standard output, errors to standard error; a reader who has gone needs neither.
            let _reader_gone = error.print();
            return u8::try_from(error.exit_code()).map_or(ExitCode::FAILURE, ExitCode::from);
        }
    };
    match cli.command {
        Command::Run(args) => ExitCode::from(run::run(&args, &environment())),
        Command::Session(args) => ExitCode::from(session::session(&args, &environment())),
        Command::Describe(args) => {
            print_or_explain(describe::describe(&args, &environment()), args.json, "description")
        }
        Command::Serve(args) => serve::serve(&args, environment),
        Command::Check => serve::check(environment),
        Command::Doctor(args) => doctor(args.json, &environment()),
        Command::Bench(args) => print_or_explain(
            bench::report(&environment(), args.json).map(String::into_bytes),
            args.json,
            "figures",
        ),
        Command::Clients { command } => clients::execute(command),
        Command::Specgen { args } => Tool::Specgen.run("plimsoll specgen", args),
        Command::Report { args } => Tool::Report.run("plimsoll report", args),
        Command::Gvisor {
            command: args::GvisorCommand::Install(args),
        } => gvisor::install(args, &environment()),
        Command::Images { command } => images::images(&command, &environment()),
        Command::Notices => print(plimsoll::ENGINE_NOTICES.as_bytes()),
        Command::Completions { shell } => print(&pages::completions(shell)),
        Command::Man { command } => print_or_explain(pages::manual(command.as_deref()), false, "page"),
    }
}

/// The whole tree of commands, for manual pages and completions.
fn tree() -> clap::Command {
    Cli::command()
}

fn doctor(json: bool, lookup: &dyn Lookup) -> ExitCode {
    match runtime(true) {
        Ok(runtime) => {
            let (text, proven) = runtime.block_on(doctor::report(lookup, json));
            let printed = print(text.as_bytes());
            if proven { printed } else { ExitCode::FAILURE }
        }
        Err(failure) => explain(&failure, json, "report"),
    }
}

/// `what` is what there is none of when it failed.
fn print_or_explain(text: Result<Vec<u8>, Failure>, json: bool, what: &str) -> ExitCode {
    match text {
        Ok(text) => print(&text),
        Err(failure) => explain(&failure, json, what),
    }
}

fn print(text: &[u8]) -> ExitCode {
    match streams::stdout(text) {
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => {
            streams::say(&format!("plimsoll: the output could not be written: {error}"));
            ExitCode::FAILURE
        }
    }
}

fn explain(failure: &Failure, json: bool, what: &str) -> ExitCode {
    if json {
        let mut text = failure.to_json();
        text.push(b'\n');
        let _explained_below = streams::stdout(&text);
    }
    streams::say(&failure.line_without(what));
    ExitCode::from(failure.exit_code_without_a_run())
}

/// One thread is enough for one call, and starts fastest. `network` adds what sockets need.
fn runtime(network: bool) -> Result<tokio::runtime::Runtime, Failure> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_time();
    if network {
        builder.enable_io();
    }
    builder.build().map_err(|error| Failure::not_ready(&error))
}

/// Whether the user asked for no colours: `NO_COLOR` set to anything but nothing.
fn no_color(lookup: &dyn Lookup) -> bool {
    lookup.get("NO_COLOR").is_some_and(|value| !value.is_empty())
}
