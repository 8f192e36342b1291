//! The grant profiles of a run in this process: a file on this host instead of a daemon's.

use plimsoll::grants::Profiles;
use plimsoll_core::vars::Lookup;

use crate::args::GrantArgs;
use crate::failure::Failure;
use crate::streams;

/// The profiles and who uses them; `None` when the run names no profile. What an operator should know of the file is told
/// unless `quiet`.
///
/// # Errors
/// A profile without a file, or a file that cannot be used; every problem of it is told.
pub(crate) fn profiles(
    args: &GrantArgs,
    quiet: bool,
    lookup: &dyn Lookup,
) -> Result<Option<(Profiles, String)>, Failure> {
    if args.profile.is_none() {
        return Ok(None);
    }
    let (Some(file), Some(caller)) = (&args.file, &args.caller) else {
        return Err(Failure::usage(
            "--grant names a profile of a daemon or of a file: add --daemon URL, or --grants FILE --caller ID",
        ));
    };
    let secret = |name: &str| Some(lookup.get(name)?.to_str()?.to_owned());
    let profiles = Profiles::load(file, &secret).map_err(|problems| {
        let all: Vec<String> = problems.iter().map(ToString::to_string).collect();
        Failure::no_program(format!("{} cannot be used: {}", file.display(), all.join("; ")))
    })?;
    for warning in profiles.warnings().iter().filter(|_| !quiet) {
        streams::say(&format!("plimsoll: {warning}"));
    }
    Ok(Some((profiles, caller.clone())))
}
