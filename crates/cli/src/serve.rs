//! `plimsoll serve` and `plimsoll check`: the daemon, which reads its configuration from the environment only.

use std::process::ExitCode;

use plimsoll::env::Environment;

use crate::args::ServeArgs;

/// Serves until a signal, or lists the variables. The environment is read by the daemon, after it has hardened itself.
pub(crate) fn serve(args: &ServeArgs, environment: impl FnOnce() -> Environment) -> ExitCode {
    if args.variables {
        crate::print(plimsolld::variables_help().as_bytes())
    } else {
        plimsolld::serve("plimsoll serve", environment)
    }
}

/// Whether the daemon would start with this environment.
pub(crate) fn check(environment: impl FnOnce() -> Environment) -> ExitCode {
    plimsolld::check("plimsoll check", environment)
}
