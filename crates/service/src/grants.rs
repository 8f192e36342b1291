//! The grant profiles of the daemon, read once at the start.

use std::path::Path;

use plimsoll_broker::system_tls;
use plimsoll_core::Evidence;
use plimsoll_core::vars::{Kind, Lookup, SettingError, Var};
use plimsoll_grants::Profiles;

use crate::auth::Mode;

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

/// One line for each profile that no caller of this daemon can use: it looks like a permission and is none.
pub fn unusable_warnings(profiles: &Profiles, mode: &Mode) -> Vec<String> {
    let why = match mode {
        Mode::Registry { .. } => "allowed_callers names no caller of PLIMSOLL_CLIENTS_FILE that has the scope code:run",
        Mode::Token(_) => "with PLIMSOLL_TOKEN the only caller is named static, and allowed_callers does not name it",
        Mode::Open(_) => "without authentication no caller has a name",
    };
    let all = profiles.iter();
    let unusable = all.filter(|profile| !mode.auth().any_runner(|caller| profile.admits(caller)));
    unusable
        .map(|profile| format!("profile {:?} can be used by nobody: {why}", profile.name()))
        .collect()
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::ffi::OsString;

    use super::*;

    const PROFILES: &str = r#"{"profiles": {
        "all": {"base_url": "https://h", "allowed_callers": ["*"]},
        "named": {"base_url": "https://h", "allowed_callers": ["gone", "ci"]},
        "reader": {"base_url": "https://h", "allowed_callers": ["reader"]},
        "shared": {"base_url": "https://h", "allowed_callers": ["static"]}}}"#;

    fn unusable(values: &[(&str, &str)]) -> Vec<String> {
        let lookup: BTreeMap<OsString, OsString> =
            values.iter().map(|(name, value)| (name.into(), value.into())).collect();
        let profiles = Profiles::read(PROFILES.as_bytes(), Path::new("."), &|_| None).unwrap();
        unusable_warnings(&profiles, &Mode::read(&lookup, true).unwrap())
    }

    fn names(values: &[(&str, &str)]) -> Vec<String> {
        let name = |line: String| line.split('"').nth(1).unwrap().to_owned();
        unusable(values).into_iter().map(name).collect()
    }

    #[test]
    fn a_profile_nobody_can_use_is_named_with_the_reason() {
        let folder = tempfile::tempdir().unwrap();
        let clients = folder.path().join("clients.json");
        let (a, b) = ("aa".repeat(32), "bb".repeat(32));
        let text = format!(
            r#"{{"clients": [{{"id": "ci", "token_sha256": "{a}", "scopes": ["code:run"]}},
                {{"id": "reader", "token_sha256": "{b}", "scopes": []}}]}}"#
        );
        fs_err::write(&clients, text).unwrap();
        let registry = [("PLIMSOLL_CLIENTS_FILE", clients.to_str().unwrap())];
        assert_eq!(names(&registry), ["reader", "shared"]);
        let token = [("PLIMSOLL_TOKEN", "0123456789abcdef0123456789abcdef")];
        assert_eq!(names(&token), ["named", "reader"]);
        let open = [("PLIMSOLL_INSECURE", "1")];
        assert_eq!(names(&open), ["all", "named", "reader", "shared"]);
        for (values, why) in [
            (&registry[..], "PLIMSOLL_CLIENTS_FILE that has the scope code:run"),
            (&token, "static"),
            (&open, "without authentication"),
        ] {
            assert!(unusable(values).iter().all(|line| line.contains(why)), "{values:?}");
        }
    }
}
