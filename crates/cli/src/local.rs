//! A sandbox in this process.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use plimsoll::registry::{Choice, PROVIDERS};
use plimsoll::{BuildError, Refusal, Sandbox, variables};
use plimsoll_core::vars::{Lookup, Var};
use plimsoll_docker::settings::DockerSettings;

use crate::failure::Failure;

/// The environment with a few names answered differently.
pub(crate) struct Overlay<'a> {
    below: &'a dyn Lookup,
    above: Vec<(&'static str, OsString)>,
}

impl Lookup for Overlay<'_> {
    fn get(&self, name: &str) -> Option<&OsStr> {
        let above = self
            .above
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, value)| value.as_os_str());
        above.or_else(|| self.below.get(name))
    }

    fn entries(&self) -> Vec<(&OsStr, &OsStr)> {
        let below = self.below.entries();
        let kept = below
            .into_iter()
            .filter(|(name, _)| !self.above.iter().any(|(known, _)| *name == OsStr::new(known)));
        kept.chain(
            self.above
                .iter()
                .map(|(name, value)| (OsStr::new(*name), value.as_os_str())),
        )
        .collect()
    }
}

/// The provider of a command: the named one, else the environment's, else wasm. Typing the command is the opt-in; that an
/// unset `SANDBOX_PROVIDER` runs nothing is the daemon's rule.
pub(crate) fn with_provider<'a>(named: Option<&str>, below: &'a dyn Lookup) -> Overlay<'a> {
    let chosen = below
        .get("SANDBOX_PROVIDER")
        .is_some_and(|value| !value.to_string_lossy().trim().is_empty());
    let above = match named {
        Some(name) => vec![("SANDBOX_PROVIDER", name.into())],
        None if chosen => Vec::new(),
        None => vec![("SANDBOX_PROVIDER", "wasm".into())],
    };
    Overlay { below, above }
}

/// As [`with_provider`], for a command that looks at this host and runs nobody's program: the operator's minimum is about
/// programs.
pub(crate) fn for_a_look<'a>(named: &str, below: &'a dyn Lookup) -> Overlay<'a> {
    let mut overlay = with_provider(Some(named), below);
    overlay.above.push(("SANDBOX_MIN_ISOLATION", "".into()));
    overlay
}

/// As [`for_a_look`], at the embedded engine. Where another provider is chosen, what only that one reads is not meant for this
/// one, and is no finding about it.
pub(crate) fn for_a_look_at_wasm(below: &dyn Lookup) -> Overlay<'_> {
    let mut overlay = for_a_look("wasm", below);
    let chosen = below.get("SANDBOX_PROVIDER").unwrap_or_default().to_string_lossy();
    let chosen = chosen.trim().to_lowercase();
    let reads = |var: &&Var, name: &str| {
        var.provider
            .is_some_and(|readers| readers.split(", ").any(|reader| reader == name))
    };
    let others = variables::all().filter(|var| reads(var, &chosen) && !reads(var, "wasm"));
    overlay.above.extend(others.map(|var| (var.name, OsString::new())));
    overlay
}

/// As [`for_a_look`], at the docker provider with this runtime. Nothing is kept ready for runs that never come: whether the
/// pool that is asked for could be kept is what [`Sandbox::check`] of `for_docker` says.
pub(crate) fn for_a_look_at_docker<'a>(runtime: &OsStr, below: &'a dyn Lookup) -> Overlay<'a> {
    let mut overlay = for_docker(runtime, below);
    overlay.above.push(("SANDBOX_READY_POOL", "".into()));
    overlay
}

/// As [`for_a_look`], for the docker provider with this runtime as the daemon would start it.
pub(crate) fn for_docker<'a>(runtime: &OsStr, below: &'a dyn Lookup) -> Overlay<'a> {
    let mut overlay = for_a_look("docker", below);
    overlay.above.push(("SANDBOX_DOCKER_RUNTIME", runtime.to_owned()));
    overlay
}

/// As [`with_provider`], with room for one run and no more: the less is reserved, the sooner it starts. Nothing is kept ready
/// for runs that never come. What the environment says instead has no effect, and must be readable all the same: see
/// [`check_unused`].
pub(crate) fn for_one_run<'a>(named: Option<&str>, below: &'a dyn Lookup) -> Overlay<'a> {
    let mut overlay = with_provider(named, below);
    overlay.above.push(("SANDBOX_MAX_CONCURRENT", "1".into()));
    overlay.above.push(("SANDBOX_READY_POOL", "".into()));
    overlay
}

/// Whether the chosen provider speaks to nobody outside this process. A choice that cannot be read is told by [`sandbox`].
pub(crate) fn in_process(named: Option<&str>, lookup: &dyn Lookup) -> bool {
    Choice::read(&for_one_run(named, lookup)).map_or(true, |choice| choice.in_process())
}

/// What the chosen settings weaken, for whoever starts a run with them. Settings that cannot be read are told by [`sandbox`].
pub(crate) fn warnings(named: Option<&str>, lookup: &dyn Lookup) -> Vec<&'static str> {
    let chosen = for_one_run(named, lookup);
    match Choice::read(&chosen) {
        Ok(choice) if choice.name() == "docker" => {
            DockerSettings::read(&chosen, choice.resources).map_or_else(|_| Vec::new(), |settings| settings.warnings())
        }
        _ => Vec::new(),
    }
}

/// A sandbox for one run, in this process.
pub(crate) async fn sandbox(named: Option<&str>, lookup: &dyn Lookup) -> Result<Sandbox, Failure> {
    let chosen = for_one_run(named, lookup);
    check_provider(&chosen)?;
    check_unused(&chosen)?;
    Sandbox::from_lookup_in(&chosen, cache(lookup).as_deref())
        .await
        .map_err(|error| match error {
            BuildError::BelowMinimum(cause) => Refusal::isolation(cause.to_string()).into(),
            other => Failure::not_ready(&other),
        })
}

/// The daemon's words for a provider that is not there speak of running nothing when none is chosen; here wasm would run.
fn check_provider(chosen: &dyn Lookup) -> Result<(), Failure> {
    let value = chosen.get("SANDBOX_PROVIDER").unwrap_or_default().to_string_lossy();
    let name = value.trim();
    if PROVIDERS.iter().any(|entry| entry.name == name.to_lowercase()) {
        return Ok(());
    }
    let built: Vec<_> = PROVIDERS.iter().map(|entry| entry.name).collect();
    Err(Failure::not_ready(&format!(
        "SANDBOX_PROVIDER={name:?}: this build has no such provider; unset it, or use --provider {}",
        built.join(" or ")
    )))
}

/// Refuses what cannot be read of the environment's values that a command answers itself: the daemon would not start with
/// them.
fn check_unused(chosen: &Overlay<'_>) -> Result<(), Failure> {
    let hidden = variables::all().filter(|var| chosen.above.iter().any(|(name, _)| *name == var.name));
    for var in hidden.filter(|var| var.name != "SANDBOX_PROVIDER") {
        var.check(chosen.below).map_err(|error| Failure::not_ready(&error))?;
    }
    Ok(())
}

/// Where this user's programs keep what they can make again: `$XDG_CACHE_HOME`, else `~/.cache`, if the environment says.
pub(crate) fn cache(lookup: &dyn Lookup) -> Option<PathBuf> {
    users_folder(lookup, "XDG_CACHE_HOME", ".cache")
}

/// Our folder among this user's: below the one `variable` names, else below `usual` in the home folder.
pub(crate) fn users_folder(lookup: &dyn Lookup, variable: &str, usual: &str) -> Option<PathBuf> {
    let folder = |name| lookup.get(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let parent = folder(variable).or_else(|| folder("HOME").map(|home| home.join(usual)))?;
    Some(parent.join("plimsoll"))
}

#[cfg(test)]
mod tests {
    use plimsoll::env::Environment;

    use super::*;

    fn provider(named: Option<&str>, values: &[(&str, &str)]) -> String {
        let environment = Environment::from_pairs(values.iter().copied());
        let overlay = with_provider(named, &environment);
        let entries = overlay.entries();
        assert_eq!(
            entries.iter().filter(|(name, _)| *name == "SANDBOX_PROVIDER").count(),
            1,
            "{entries:?}"
        );
        overlay.get("SANDBOX_PROVIDER").unwrap().to_str().unwrap().to_owned()
    }

    #[test]
    fn the_option_wins_then_the_environment_then_wasm() {
        assert_eq!(provider(None, &[]), "wasm");
        assert_eq!(provider(None, &[("SANDBOX_PROVIDER", " ")]), "wasm");
        assert_eq!(provider(None, &[("SANDBOX_PROVIDER", "docker")]), "docker");
        assert_eq!(provider(Some("wasm"), &[("SANDBOX_PROVIDER", "docker")]), "wasm");
    }

    #[test]
    fn a_providers_name_may_be_written_as_the_daemon_reads_it() {
        let checked = |name| check_provider(&Environment::from_pairs([("SANDBOX_PROVIDER", name)]));
        for name in ["wasm", " WASM ", "Docker"] {
            assert_eq!(checked(name), Ok(()), "{name:?}");
        }
        let told = checked(" Dokcer ").unwrap_err().line();
        assert!(told.contains("SANDBOX_PROVIDER=\"Dokcer\""), "{told}");
    }

    #[test]
    fn the_cache_is_the_users_or_nowhere() {
        let at = |values: &[(&str, &str)]| cache(&Environment::from_pairs(values.iter().copied()));
        assert_eq!(at(&[]), None);
        assert_eq!(at(&[("HOME", "")]), None);
        assert_eq!(
            at(&[("HOME", "/h"), ("XDG_CACHE_HOME", "x")]),
            Some("/h/.cache/plimsoll".into())
        );
        assert_eq!(
            at(&[("HOME", "/h"), ("XDG_CACHE_HOME", "/x")]),
            Some("/x/plimsoll".into())
        );
    }

    #[test]
    fn only_a_provider_of_this_process_needs_no_network() {
        let environment = Environment::from_pairs([("SANDBOX_READY_POOL", "4"), ("SANDBOX_MEMORY_MB", "64")]);
        assert!(in_process(None, &environment));
        assert!(in_process(Some("wasm"), &environment));
        assert!(!in_process(Some("docker"), &environment));
    }

    #[test]
    fn a_wall_that_was_taken_down_is_told_of_the_provider_that_has_it() {
        let environment = Environment::from_pairs([("SANDBOX_DOCKER_SECCOMP", "unconfined")]);
        let [warning] = warnings(Some("docker"), &environment)[..] else {
            panic!("one warning");
        };
        assert!(
            warning.starts_with("SANDBOX_DOCKER_SECCOMP is unconfined: "),
            "{warning}"
        );
        assert!(warnings(None, &environment).is_empty());
        assert!(warnings(Some("docker"), &Environment::from_pairs([("HOME", "/h")])).is_empty());
    }

    #[test]
    fn what_one_run_does_not_use_must_be_readable_all_the_same() {
        for (name, value) in [("SANDBOX_READY_POOL", "-1"), ("SANDBOX_MAX_CONCURRENT", "many")] {
            let environment = Environment::from_pairs([(name, value)]);
            let told = check_unused(&for_one_run(Some("docker"), &environment)).unwrap_err();
            assert!(told.line().contains(&format!("{name}=\"{value}\"")), "{}", told.line());
        }
        // A pool that one run has no use for is no mistake.
        let environment = Environment::from_pairs([("SANDBOX_READY_POOL", "40")]);
        assert_eq!(check_unused(&for_one_run(Some("docker"), &environment)), Ok(()));
    }

    #[test]
    fn everything_else_is_the_environments() {
        let environment = Environment::from_pairs([("SANDBOX_MEMORY_MB", "64"), ("SANDBOX_MAX_CONCURRENT", "9")]);
        let overlay = for_one_run(None, &environment);
        assert_eq!(overlay.get("SANDBOX_MEMORY_MB"), Some(OsStr::new("64")));
        assert_eq!(overlay.get("SANDBOX_MAX_CONCURRENT"), Some(OsStr::new("1")));
        assert_eq!(overlay.get("HOME"), None);
    }
}
