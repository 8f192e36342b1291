//! The grants file: named grants, who may use them, and the look-up of one by name (spec 30 §3 and §5.1).
//!
//! It is read once, at start. Whatever is wrong with it is named with profile and field, all of it at once, and nothing
//! starts. Environment variables are read here through a function and kept only inside the minters.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use plimsoll_core::Refusal;

mod batch;
mod error;
mod fields;
mod files;
mod json;
mod profile;
mod token;

pub use error::ProfileError;
pub use files::{MAX_FILE_BYTES, MAX_PREAMBLE_BYTES};
pub use profile::{Audience, MAX_NAME_BYTES, Profile, Retention};
pub use token::MIN_SEARCHED_BYTES;

use error::Place;
use json::Json;
use token::Secrets;

/// Every profile of a daemon; empty where there is no grants file.
#[derive(Clone, Debug, Default)]
pub struct Profiles {
    by_name: BTreeMap<String, Arc<Profile>>,
    warnings: Vec<String>,
}

impl Profiles {
    /// Reads and checks the grants file at `path`. `env` answers for the variables that hold secrets.
    ///
    /// # Errors
    /// Everything that is wrong with it, at least one problem: those of JSON and the file first, then each profile's in
    /// the order of their names.
    pub fn load(path: &Path, env: &dyn Fn(&str) -> Option<String>) -> Result<Self, Vec<ProfileError>> {
        load(path, Secrets::Variables(env))
    }

    /// Reads and checks the grants file at `path` for a tool that only looks at its routes: no variable is read, and no
    /// minter of it gives a credential.
    ///
    /// # Errors
    /// As [`Profiles::load`], but for the rules about secrets.
    pub fn load_without_secrets(path: &Path) -> Result<Self, Vec<ProfileError>> {
        load(path, Secrets::Withheld)
    }

    /// Checks the text of a grants file; `folder` is where its preamble files lie.
    ///
    /// # Errors
    /// As [`Profiles::load`].
    pub fn read(text: &[u8], folder: &Path, env: &dyn Fn(&str) -> Option<String>) -> Result<Self, Vec<ProfileError>> {
        read(text, folder, Secrets::Variables(env))
    }

    /// What an operator should know about the file, one line each: who may write it, which profiles are open to every
    /// caller, which credentials are too short to be looked for in answers.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// One line for each profile whose tokens may end before a run does that has the provider's default time limit.
    pub fn lifetime_warnings(&self, default_timeout: Duration) -> Vec<String> {
        let short = |profile: &&Arc<Profile>| profile.token_ttl().is_some_and(|ttl| ttl < default_timeout);
        let all = self.by_name.values().filter(short);
        all.map(|profile| {
            format!(
                "profile {:?}: token.ttl_sec is below the default time limit of a run ({} s); the API will refuse late calls",
                profile.name(),
                default_timeout.as_secs()
            )
        })
        .collect()
    }

    /// Every name, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.by_name.keys().map(String::as_str)
    }

    /// Every profile, in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Profile>> {
        self.by_name.values()
    }

    /// A profile by name, for a tool that asks as the operator. Callers go through [`Profiles::look_up`].
    pub fn get(&self, name: &str) -> Option<&Arc<Profile>> {
        self.by_name.get(name)
    }

    /// Whether there is no profile at all: grants are off.
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// The profile a caller names. `caller` is its authenticated identity; without one no profile can be used.
    ///
    /// # Errors
    /// A name that is too long is a malformed request. A name that is unknown and one that this caller may not use are
    /// refused in the same words, so that names cannot be probed.
    pub fn look_up(&self, name: &str, caller: Option<&str>) -> Result<Arc<Profile>, Refusal> {
        if name.len() > MAX_NAME_BYTES {
            return Err(Refusal::request(format!(
                "grant_profile is {} bytes; at most {MAX_NAME_BYTES} are allowed",
                name.len()
            )));
        }
        match (self.by_name.get(name), caller) {
            (Some(profile), Some(caller)) if profile.admits(caller) => Ok(Arc::clone(profile)),
            _ => Err(Refusal::permission(
                "grant_profile is not available to this caller; ask the operator for a profile, or leave it empty",
            )),
        }
    }
}

fn load(path: &Path, secrets: Secrets<'_>) -> Result<Profiles, Vec<ProfileError>> {
    let content = files::read(path, MAX_FILE_BYTES).map_err(|problem| vec![Place::default().problem(problem)])?;
    let folder = path.parent().unwrap_or(Path::new("."));
    let mut profiles = read(&content.bytes, folder, secrets)?;
    if content.writable_by_others {
        let line =
            "the grants file can be written by its group or by others; whoever writes it decides what runs may call";
        profiles.warnings.insert(0, line.to_owned());
    }
    Ok(profiles)
}

fn read(text: &[u8], folder: &Path, secrets: Secrets<'_>) -> Result<Profiles, Vec<ProfileError>> {
    let file = Place::default();
    if text.len() > MAX_FILE_BYTES {
        return Err(vec![
            file.problem(format_args!("is larger than {MAX_FILE_BYTES} bytes")),
        ]);
    }
    let root = json::read(text).map_err(|problem| vec![problem])?;
    let mut problems = Vec::new();
    json::repeated_keys(&root, &mut problems);
    let mut members: Vec<&(String, Json)> = Vec::new();
    match fields::Fields::new(&root, file, &["profiles"]) {
        Err(problem) => problems.push(problem),
        Ok(mut fields) => {
            problems.append(&mut fields.take_problems());
            match fields.get("profiles") {
                None | Some(Json::Null) => {}
                Some(Json::Object(profiles)) => members.extend(profiles),
                Some(other) => problems.push(fields.place("profiles").problem(format_args!(
                    "must be an object of profiles by name, not {}",
                    other.kind()
                ))),
            }
        }
    }
    members.sort_by(|(a, _), (b, _)| a.cmp(b));
    let mut profiles = Profiles::default();
    for (name, value) in members {
        if let Some(profile) = profile::read(name, value, folder, secrets, &mut problems) {
            profiles.by_name.insert(name.clone(), Arc::new(profile));
        }
    }
    if !problems.is_empty() {
        return Err(problems);
    }
    profiles.warnings = profiles
        .by_name
        .values()
        .flat_map(|profile| warnings(profile))
        .collect();
    Ok(profiles)
}

fn warnings(profile: &Profile) -> Vec<String> {
    let name = profile.name();
    let mut lines = Vec::new();
    if profile.open_to_all() {
        lines.push(format!(
            "profile {name:?} is open to every authenticated caller: allowed_callers holds \"*\""
        ));
    }
    if profile.short_credential() {
        lines.push(format!(
            "profile {name:?}: the credential is shorter than {MIN_SEARCHED_BYTES} bytes, so answers of the API that repeat \
             it are not held back"
        ));
    }
    lines
}

#[cfg(test)]
mod tests;
