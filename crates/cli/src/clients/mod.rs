//! `plimsoll clients`, also called `plimsoll-clients`: the caller registry, edited offline (spec 20 §6).
//!
//! Arguments come in here and texts go out; what is done to the file is `plimsoll-callers`. No message repeats an argument
//! that is no flag's name, because somebody may have typed a token there.

pub(crate) mod args;
mod show;

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::path::Path;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory as _, FromArgMatches as _};
use plimsoll_callers::{Absent, Change, Client, ClientsError, ClientsFile, Saved, Token, edit};
use plimsoll_wire::http::SCOPE_RUN;

use crate::streams::{self, say, write_own};
use args::{
    CallerArgs, Clients, ClientsCommand, CreateArgs, FileArgs, ImportArgs, LimitArgs, ListArgs, NewArgs, RotateArgs,
};

/// What every message begins with, whatever the program was called as.
const PROGRAM: &str = "plimsoll-clients";

/// An allowance below this may be too small for one run: a hosted provider reserves the run's time limit and 33 s more.
const SMALL_ALLOWANCE: u64 = 60;

/// Why it failed, in words.
type Told = String;

/// Runs the command of these arguments, which follow the program's name; `invoked` is what it was called as.
pub(crate) fn run(invoked: &'static str, args: Vec<OsString>) -> ExitCode {
    let asks_for_help = |first: &OsString| ["help", "-h", "-help", "--help"].iter().any(|word| first == word);
    if args.first().is_none_or(asks_for_help) {
        let help = Clients::command().bin_name(invoked).render_help();
        return crate::print(named(&help.to_string(), invoked).as_bytes());
    }
    match parse(invoked, args) {
        Ok(command) => execute(command),
        Err(error) if error.kind() == ErrorKind::DisplayHelp => {
            write_own(&named(&error.render().to_string(), invoked));
            ExitCode::SUCCESS
        }
        Err(error) => failed(&usage(&error)),
    }
}

/// Runs a command that was understood.
pub(crate) fn execute(command: ClientsCommand) -> ExitCode {
    let done = match command {
        ClientsCommand::Create(args) => create(&args),
        ClientsCommand::Import(args) => import(&args),
        ClientsCommand::Limit(args) => limit(&args),
        ClientsCommand::List(args) => list(&args),
        ClientsCommand::Rotate(args) => rotate(&args),
        ClientsCommand::Revoke(args) => revoke(&args),
        ClientsCommand::Verify(args) => verify(&args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(told) => failed(&told),
    }
}

fn failed(told: &str) -> ExitCode {
    note(told);
    ExitCode::FAILURE
}

fn note(text: &str) {
    say(&format!("{PROGRAM}: {text}"));
}

/// The help as this name prints it.
fn named(help: &str, invoked: &str) -> String {
    help.replace("plimsoll clients", invoked)
}

fn parse(invoked: &'static str, args: Vec<OsString>) -> Result<ClientsCommand, clap::Error> {
    let args = std::iter::once(OsString::from(invoked)).chain(doubled(args));
    let matches = Clients::command().bin_name(invoked).try_get_matches_from(args)?;
    Ok(Clients::from_arg_matches(&matches)?.command)
}

/// The arguments with `-flag` spelled `--flag`. The only flag of one letter is `-h`, so a longer word behind one dash is
/// meant as a flag, known or not.
fn doubled(args: Vec<OsString>) -> impl Iterator<Item = OsString> {
    let mut literal = false;
    args.into_iter().map(move |arg| {
        let text = arg.as_encoded_bytes();
        literal |= text == b"--";
        let flag = text.len() > 2 && text[0] == b'-' && text[1].is_ascii_alphabetic();
        if !flag || literal {
            return arg;
        }
        let mut long = OsString::from("-");
        long.push(arg);
        long
    })
}

/// What is wrong with the command line, without anything of it but names of flags.
fn usage(error: &clap::Error) -> Told {
    let flag = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(arg)) if arg.starts_with('-') => arg.split([' ', '=']).next().unwrap_or_default(),
        _ => "",
    };
    match error.kind() {
        ErrorKind::InvalidSubcommand | ErrorKind::MissingSubcommand => {
            let command = Clients::command();
            let known: Vec<&str> = command.get_subcommands().map(clap::Command::get_name).collect();
            format!("there is no such command; the commands are {}", known.join(", "))
        }
        ErrorKind::UnknownArgument if looks_like_a_flag(flag) => {
            format!("there is no flag {flag} here; -h behind a command names its flags")
        }
        ErrorKind::UnknownArgument => "there is no such flag here; -h behind a command names its flags".to_owned(),
        ErrorKind::ValueValidation => format!("{flag} takes a whole number of seconds, from 0 to {}", i64::MAX),
        ErrorKind::ArgumentConflict => format!("{flag} is given twice"),
        ErrorKind::InvalidUtf8 => "an argument is not UTF-8".to_owned(),
        ErrorKind::TooManyValues => format!("{flag} is a switch and takes no value"),
        _ if !flag.is_empty() => format!("{flag} needs a value behind it"),
        _ => "the command line is not understood; -h behind a command names its flags".to_owned(),
    }
}

/// Whether it can be shown: a token that ran into its dash has other characters, or more of them.
fn looks_like_a_flag(text: &str) -> bool {
    text.len() <= 32 && text.bytes().all(|byte| byte == b'-' || byte.is_ascii_lowercase())
}

fn create(args: &CreateArgs) -> Result<(), Told> {
    let (path, id) = caller(&args.new.caller)?;
    if !args.token_stdout {
        return Err("create needs -token-stdout: the token is printed once, on standard output".to_owned());
    }
    let paid = allowance(args.new.paid_seconds_per_day)?;
    let token = Token::generate().map_err(|error| error.to_string())?;
    let added = Change::Add(client(&args.new, &id, &token, paid));
    let saved = edit(path, Absent::Create, added).map_err(|error| undelivered_too(&error, &id))?;
    deliver(&token, &id)?;
    tell_saved(&format!("caller {id:?} was added to"), path, &saved);
    Ok(())
}

fn import(args: &ImportArgs) -> Result<(), Told> {
    let (path, id) = caller(&args.new.caller)?;
    let paid = allowance(args.new.paid_seconds_per_day)?;
    let token = Token::read(&mut io::stdin().lock()).map_err(|error| error.to_string())?;
    let added = Change::Add(client(&args.new, &id, &token, paid));
    let saved = edit(path, Absent::Create, added).map_err(|error| error.to_string())?;
    tell_saved(&format!("caller {id:?} was added to"), path, &saved);
    Ok(())
}

fn limit(args: &LimitArgs) -> Result<(), Told> {
    let (path, id) = caller(&args.caller)?;
    if args.paid_seconds_per_day.is_none() {
        return Err("limit needs -paid-seconds-per-day: whole seconds, or 0 to take the allowance away".to_owned());
    }
    let paid_seconds_per_day = allowance(args.paid_seconds_per_day)?;
    note("a restart gives every caller a fresh day, unless PLIMSOLL_STATE_DIR keeps the counters");
    let changed = Change::Limit {
        id: id.clone(),
        paid_seconds_per_day,
    };
    let saved = edit(path, Absent::Refuse, changed).map_err(|error| error.to_string())?;
    tell_saved(&format!("the allowance of caller {id:?} was set in"), path, &saved);
    Ok(())
}

fn rotate(args: &RotateArgs) -> Result<(), Told> {
    let (path, id) = caller(&args.caller)?;
    let token = match (args.token_stdout, args.token_stdin) {
        (true, false) => Token::generate(),
        (false, true) => Token::read(&mut io::stdin().lock()),
        _ => {
            return Err(
                "rotate needs exactly one of -token-stdout, which makes a token and prints it, and -token-stdin, which reads one"
                    .to_owned(),
            );
        }
    };
    let token = token.map_err(|error| error.to_string())?;
    let changed = Change::Rotate {
        id: id.clone(),
        token_sha256: token.fingerprint(),
    };
    let saved = edit(path, Absent::Refuse, changed).map_err(|error| {
        if args.token_stdout {
            undelivered_too(&error, &id)
        } else {
            error.to_string()
        }
    })?;
    if args.token_stdout {
        deliver(&token, &id)?;
    }
    tell_saved(&format!("caller {id:?} has another token in"), path, &saved);
    Ok(())
}

fn revoke(args: &CallerArgs) -> Result<(), Told> {
    let (path, id) = caller(args)?;
    let saved = edit(path, Absent::Refuse, Change::Revoke { id: id.clone() }).map_err(|error| error.to_string())?;
    tell_saved(&format!("caller {id:?} was removed from"), path, &saved);
    Ok(())
}

fn list(args: &ListArgs) -> Result<(), Told> {
    let path = file(&args.file)?;
    let clients = ClientsFile::load_itself(path)
        .map_err(|error| error.to_string())?
        .clients;
    let text = if args.json {
        show::json(clients).map_err(|error| format!("the callers cannot be shown as JSON: {error}"))?
    } else {
        show::table(clients)
    };
    print(&text)?;
    note("this is the file; no daemon was inspected, and one that runs may have read another version of it");
    Ok(())
}

fn verify(args: &FileArgs) -> Result<(), Told> {
    let path = file(args)?;
    let file = ClientsFile::load_itself(path);
    let (report, problems) = show::report(path, &file);
    print(&report)?;
    match (file, problems) {
        (Err(ClientsError::Unreadable(_)), _) => {
            Err("this user cannot read the file, so nothing is known of it".to_owned())
        }
        (Err(ClientsError::NotRegular), _) => {
            Err("no command takes anything but a regular file; where it is a link, verify what it leads to".to_owned())
        }
        (_, 0) => Ok(()),
        (_, 1) => Err("no daemon can use the file: 1 problem".to_owned()),
        (_, problems) => Err(format!("no daemon can use the file: {problems} problems")),
    }
}

/// The file, once it is clear that there is nothing but flags.
fn file(args: &FileArgs) -> Result<&Path, Told> {
    if !args.others.is_empty() {
        return Err(
            "there is an argument that is no flag, and no command takes one; a token comes on standard input"
                .to_owned(),
        );
    }
    match args.file.as_deref() {
        Some(path) if !path.as_os_str().is_empty() => Ok(path),
        _ => Err("-file is needed: the path of the clients file".to_owned()),
    }
}

/// The file and the trimmed id.
fn caller(args: &CallerArgs) -> Result<(&Path, String), Told> {
    let path = file(&args.file)?;
    match args.id.as_deref().map(str::trim) {
        Some(id) if !id.is_empty() => Ok((path, id.to_owned())),
        _ => Err("-id is needed: the id of the caller".to_owned()),
    }
}

/// The allowance; a small one is warned of.
fn allowance(seconds: Option<i64>) -> Result<u64, Told> {
    let seconds = u64::try_from(seconds.unwrap_or_default()).map_err(|_| {
        "-paid-seconds-per-day is negative: give whole seconds, or 0 for no allowance of the caller's own".to_owned()
    })?;
    if (1..SMALL_ALLOWANCE).contains(&seconds) {
        note(&format!(
            "warning: {seconds} paid seconds per day may be too few for one run: on the hosted providers a run reserves its time \
             limit and 33 s more"
        ));
    }
    Ok(seconds)
}

fn client(args: &NewArgs, id: &str, token: &Token, paid_seconds_per_day: u64) -> Client {
    let scopes = if args.scopes.is_empty() {
        vec![SCOPE_RUN.to_owned()]
    } else {
        args.scopes.clone()
    };
    Client {
        id: id.to_owned(),
        token_sha256: token.fingerprint(),
        scopes,
        paid_seconds_per_day,
    }
}

/// The error, and what follows from it for a token that was made and not printed.
fn undelivered_too(error: &plimsoll_callers::EditError, id: &str) -> Told {
    if error.replaced() {
        format!("{error}, and rotate caller {id:?}: its token was not printed")
    } else {
        error.to_string()
    }
}

/// The one place that shows a token.
fn deliver(token: &Token, id: &str) -> Result<(), Told> {
    let written = if was_closed() {
        Err(io::Error::other("it is closed"))
    } else {
        let mut out = io::stdout().lock();
        out.write_all(token.reveal())
            .and_then(|()| out.write_all(b"\n"))
            .and_then(|()| out.flush())
    };
    written.map_err(|error| {
        format!(
            "the registry was updated, and the token could not be written to standard output ({error}): rotate caller {id:?}"
        )
    })
}

/// Whether standard output was closed when the process began. The language's runtime has opened `/dev/null` in its place
/// then, for reading and writing, and what is written there has reached nobody.
fn was_closed() -> bool {
    use rustix::fs::{FileType, OFlags, fcntl_getfl, fstat, makedev};

    let out = io::stdout();
    let is_null = fstat(&out).is_ok_and(|stat| {
        FileType::from_raw_mode(stat.st_mode) == FileType::CharacterDevice && stat.st_rdev == makedev(1, 3)
    });
    is_null && fcntl_getfl(&out).is_ok_and(|flags| flags & OFlags::RWMODE == OFlags::RDWR)
}

/// What an operator has to do for the change to be in force.
fn tell_saved(what: &str, path: &Path, saved: &Saved) {
    note(&format!(
        "{what} {}",
        crate::words::visible(&path.display().to_string())
    ));
    if !saved.owner_kept {
        note("warning: the file's owner or group could not be kept; look whether the daemon can read it");
    }
    if saved.callers == 0 {
        note(
            "no caller is left: daemons refuse to start on this file and to reload it, so those that run must be stopped; calls that \
             are admitted go on to their end",
        );
    } else {
        note(
            "every daemon that uses this file must be restarted, or sent SIGHUP where PLIMSOLL_CLIENTS_RELOAD is on; calls that are \
             admitted go on to their end",
        );
    }
}

fn print(text: &str) -> Result<(), Told> {
    match streams::stdout(text.as_bytes()) {
        Ok(_) => Ok(()),
        Err(error) => Err(format!("the output could not be written: {error}")),
    }
}
