//! The grant profiles of a run in this process: a file on this host instead of a daemon's.
//!
//! A daemon answers an unknown profile and a forbidden one in the same words, and tells nobody why an API did not answer.
//! Here the file and the network are the user's own, so this is where both are told.

use std::sync::{Mutex, PoisonError};

use plimsoll::Refusal;
use plimsoll::grants::{CauseObserver, Profiles};
use plimsoll_core::limits::MAX_GRANT_PROFILE_BYTES;
use plimsoll_core::vars::Lookup;

use crate::args::GrantArgs;
use crate::failure::Failure;
use crate::streams;

/// The profiles and who uses them; `None` when the run names no profile. What an operator should know of the file is told
/// unless `quiet`.
///
/// # Errors
/// A profile without a file, a file that cannot be used (every problem of it is told), a name that is not in it, or a caller
/// who may not use it.
pub(crate) fn profiles(
    args: &GrantArgs,
    quiet: bool,
    lookup: &dyn Lookup,
) -> Result<Option<(Profiles, String)>, Failure> {
    let Some(name) = &args.profile else {
        return Ok(None);
    };
    let (Some(file), Some(caller)) = (&args.file, &args.caller) else {
        return Err(Failure::usage(
            "--grant names a profile of a daemon or of a file: add --daemon URL, or --grants FILE --caller ID",
        ));
    };
    let secret = |name: &str| Some(lookup.get(name)?.to_str()?.to_owned());
    let profiles = Profiles::load(file, &secret).map_err(|problems| {
        let all: Vec<String> = problems.iter().map(ToString::to_string).collect();
        Failure::no_program(format!(
            "--grants {} cannot be used: {}",
            file.display(),
            all.join("; ")
        ))
    })?;
    for warning in profiles.warnings().iter().filter(|_| !quiet) {
        streams::say(&format!("plimsoll: {warning}"));
    }
    selectable(&profiles, name, caller).map_err(|why| Refusal::permission(format!("{why} ({})", file.display())))?;
    Ok(Some((profiles, caller.clone())))
}

/// Whether the file lets this caller name this profile, and if not, which of the two is wrong.
fn selectable(profiles: &Profiles, name: &str, caller: &str) -> Result<(), String> {
    // The request itself is malformed, and is refused as such.
    if name.len() > MAX_GRANT_PROFILE_BYTES {
        return Ok(());
    }
    let Some(profile) = profiles.get(name) else {
        return Err(if profiles.is_empty() {
            format!("--grant {name:?} names no profile: the grants file holds none")
        } else {
            let names = listed(profiles.names());
            format!("--grant {name:?} names no profile of the grants file; it holds {names}")
        });
    };
    if profile.admits(caller) {
        Ok(())
    } else if profile.open_to_all() {
        Err(format!(
            "--caller {caller:?} can be nobody's name: give one that is not empty, not * and has no white space at its ends"
        ))
    } else {
        let callers = listed(profile.callers());
        Err(format!(
            "--caller {caller:?} may not use profile {name:?} of the grants file; its allowed_callers are {callers}"
        ))
    }
}

/// Names as a list people can read: long files have more than help.
fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    const SHOWN: usize = 12;
    let all: Vec<String> = names.map(|name| format!("{name:?}")).collect();
    let shown = all.iter().take(SHOWN).cloned().collect::<Vec<_>>().join(", ");
    match all.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// Why calls of a run brought back no answer, each cause once and in the order they came up: nobody answered, or what the API
/// answered was withheld.
#[derive(Debug, Default)]
pub(crate) struct Causes(Mutex<Vec<(String, u64)>>);

/// Different causes that are kept: a run has one API, and it fails in few ways.
const MAX_CAUSES: usize = 8;

impl CauseObserver for Causes {
    fn unanswered(&self, cause: &str) {
        let mut causes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, times)) = causes.iter_mut().find(|(known, _)| known == cause) {
            *times += 1;
        } else if causes.len() < MAX_CAUSES {
            causes.push((cause.to_owned(), 1));
        }
    }
}

impl Causes {
    /// One line for each.
    pub(crate) fn lines(&self) -> Vec<String> {
        let causes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let line = |(cause, times): &(String, u64)| match times {
            1 => format!("plimsoll: a call brought back no answer: {cause}"),
            times => format!("plimsoll: {times} calls brought back no answer: {cause}"),
        };
        causes.iter().map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn read(text: &str) -> Profiles {
        Profiles::read(text.as_bytes(), Path::new("."), &|_| None).unwrap()
    }

    #[test]
    fn the_owner_of_the_file_is_told_which_name_is_wrong() {
        let profiles = read(
            r#"{"profiles": {
                "berths": {"base_url": "https://h", "allowed_callers": ["me", "ci"]},
                "open": {"base_url": "https://h", "allowed_callers": ["*"]}}}"#,
        );
        let told = |name, caller| selectable(&profiles, name, caller).unwrap_err();
        insta::assert_snapshot!(
            [told("brths", "me"), told("berths", "mee"), told("open", "")].join("\n"),
            @r#"
        --grant "brths" names no profile of the grants file; it holds "berths", "open"
        --caller "mee" may not use profile "berths" of the grants file; its allowed_callers are "ci", "me"
        --caller "" can be nobody's name: give one that is not empty, not * and has no white space at its ends
        "#
        );
        assert_eq!(selectable(&profiles, "berths", "ci"), Ok(()));
        assert_eq!(selectable(&profiles, "open", "anyone"), Ok(()));
        let none = selectable(&read("{}"), "berths", "me").unwrap_err();
        assert!(none.ends_with("the grants file holds none"), "{none}");
    }

    #[test]
    fn a_long_list_of_names_is_cut_with_its_number() {
        let names: Vec<String> = (0..15).map(|number| number.to_string()).collect();
        let list = listed(names.iter().map(String::as_str));
        assert!(
            list.starts_with("\"0\", \"1\"") && list.ends_with("\"11\" and 3 more"),
            "{list}"
        );
    }

    #[test]
    fn a_cause_is_told_once_with_its_number_and_in_the_order_they_came() {
        let causes = Causes::default();
        assert!(causes.lines().is_empty());
        for cause in ["no trust", "no name", "no name"] {
            causes.unanswered(cause);
        }
        assert_eq!(
            causes.lines(),
            [
                "plimsoll: a call brought back no answer: no trust",
                "plimsoll: 2 calls brought back no answer: no name"
            ]
        );
        for number in 0..20 {
            causes.unanswered(&number.to_string());
        }
        assert_eq!(causes.lines().len(), MAX_CAUSES);
    }
}
