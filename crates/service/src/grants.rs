//! The grant profiles of the daemon, read once at the start.

use std::path::Path;

use plimsoll_broker::system_tls;
use plimsoll_core::Evidence;
use plimsoll_core::vars::{Kind, Lookup, SettingError, Var};
use plimsoll_grants::Profiles;

const GRANTS_FILE: Var = Var::new(
    "PLIMSOLL_GRANTS_FILE",
    Kind::Path,
    "",
    "The grant profiles: a JSON file of the routes each profile permits, its callers and where its credential comes \
     from. Read once, at the start, with the variables it names.",
);

/// The variables read here.
pub const VARS: &[Var] = &[GRANTS_FILE];

/// Reads the profiles; none when the variable is not set.
///
/// # Errors
/// Everything that is wrong with the file, each problem naming profile, field and rule.
pub fn read(lookup: &dyn Lookup) -> Result<Profiles, Vec<SettingError>> {
    let Some(path) = GRANTS_FILE.text(lookup).map_err(|error| vec![error])? else {
        return Ok(Profiles::default());
    };
    let secret = |name: &str| Some(lookup.get(name)?.to_str()?.to_owned());
    Profiles::load(Path::new(path), &secret).map_err(|problems| {
        let unusable = |problem: &plimsoll_grants::ProfileError| {
            GRANTS_FILE.unusable(path, problem.to_string(), "correct the file, or unset the variable")
        };
        problems.iter().map(unusable).collect()
    })
}

/// Whether the APIs of the profiles can be verified: a host without trust anchors fails at the start, not once a run.
///
/// # Errors
/// There is a profile on `https`, and no certificate store this process can read.
pub fn check_trust(lookup: &dyn Lookup, profiles: &Profiles) -> Result<(), SettingError> {
    if !profiles.iter().any(|profile| profile.grant().origin().is_https()) {
        return Ok(());
    }
    let path = GRANTS_FILE.text(lookup)?.unwrap_or_default();
    match system_tls() {
        Ok(_) => Ok(()),
        Err(error) => Err(GRANTS_FILE.unusable(path, error.to_string(), "or unset the variable")),
    }
}

/// Whether the provider can run anything with a grant.
///
/// # Errors
/// There are profiles, and it cannot: a profile must not look as if it could be used.
pub fn check_support(lookup: &dyn Lookup, profiles: &Profiles, evidence: &Evidence) -> Result<(), SettingError> {
    let supported = evidence.grants.javascript || evidence.grants.project;
    if profiles.is_empty() || supported {
        return Ok(());
    }
    let problem = format!(
        "holds profiles, and provider {} runs nothing with a grant",
        evidence.provider
    );
    let path = GRANTS_FILE.text(lookup)?.unwrap_or_default();
    Err(GRANTS_FILE.unusable(path, problem, "choose a provider that does, or unset the variable"))
}
