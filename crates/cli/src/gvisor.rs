//! `plimsoll gvisor install`: what is done is said on standard error, what was done on standard output.

use std::process::ExitCode;

use plimsoll_core::vars::Lookup;
use plimsoll_gvisor::{Installed, Options, Reload, Source};

use crate::args::GvisorInstallArgs;
use crate::streams;

/// Installs, and says what came of it.
pub(crate) fn install(args: GvisorInstallArgs, lookup: &dyn Lookup) -> ExitCode {
    let source = match args.archive {
        Some(file) => Source::Archive(file),
        None if args.from_module => Source::Module,
        None => Source::Release,
    };
    let options = Options {
        source,
        verify_only: args.verify_only,
        into: args.into,
        config: args.config,
        socket: args.engine,
    };
    let mut say = |line: &str| streams::say(&format!("plimsoll gvisor: {line}"));
    match plimsoll_gvisor::install(&options, lookup, &mut say) {
        Ok(installed) => crate::print(told(&installed).as_bytes()),
        Err(error) => {
            streams::say(&format!("plimsoll gvisor: {error}"));
            ExitCode::FAILURE
        }
    }
}

/// What was done, in one line.
fn told(installed: &Installed) -> String {
    let label = &installed.label;
    let Some(placed) = &installed.placed else {
        return format!("runsc {label} can be had; nothing was installed\n");
    };
    let there = if placed.was_there {
        "was there already"
    } else {
        "is installed"
    };
    let registered = if placed.registered_now {
        "registered in"
    } else {
        "registered already in"
    };
    let engine = match placed.reload {
        Reload::NotNeeded => "the engine has it already",
        Reload::Signalled => "the engine has read its configuration again and has it",
        Reload::Restarted => "the engine was restarted and has it",
        Reload::NoEngine => "no engine answers; the next one that starts has it",
    };
    format!(
        "runsc {label} {there} at {}, {registered} {}; {engine}\n",
        placed.runsc.display(),
        placed.config.display()
    )
}

#[cfg(test)]
mod tests {
    use plimsoll_gvisor::Placed;

    use super::*;

    #[test]
    fn one_line_says_what_was_done_and_what_was_there() {
        let placed = Placed {
            runsc: "/usr/local/bin/runsc".into(),
            config: "/etc/docker/daemon.json".into(),
            was_there: false,
            registered_now: true,
            reload: Reload::Signalled,
        };
        let told = |placed: Option<Placed>| {
            told(&Installed {
                label: "release-20260907.0".to_owned(),
                placed,
            })
        };
        assert_eq!(
            told(Some(placed.clone())),
            "runsc release-20260907.0 is installed at /usr/local/bin/runsc, registered in /etc/docker/daemon.json; the \
             engine has read its configuration again and has it\n"
        );
        assert_eq!(
            told(Some(Placed {
                was_there: true,
                registered_now: false,
                reload: Reload::NoEngine,
                ..placed
            })),
            "runsc release-20260907.0 was there already at /usr/local/bin/runsc, registered already in \
             /etc/docker/daemon.json; no engine answers; the next one that starts has it\n"
        );
        assert_eq!(
            told(None),
            "runsc release-20260907.0 can be had; nothing was installed\n"
        );
    }
}
