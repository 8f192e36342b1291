//! The caller registry in the daemon: read at the start, and again where an operator allows that.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use plimsoll_callers::{ClientsError, ClientsFile};
use plimsoll_core::vars::{Lookup, SettingError};

use super::settings::{CLIENTS_FILE, CLIENTS_RELOAD};
use super::{Auth, Callers, UnusableIdentity};

/// At least one caller, as a clients file names them, with what an operator or a rule of hardened mode asks of the file.
#[derive(Debug)]
pub struct Registry {
    pub(super) auth: Auth,
    /// How many callers there are.
    pub callers: usize,
    /// The ids of callers without a paid allowance of their own, in file order.
    pub without_allowance: Vec<String>,
    /// Whether group or others may write the file.
    pub writable_by_others: bool,
}

/// Why a file is no registry a daemon can serve with.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    /// It cannot be read, or breaks a rule.
    #[error(transparent)]
    File(#[from] ClientsError),
    /// It is a registry without anybody in it.
    #[error("the file names no caller, so nobody could call")]
    Empty,
    /// The parser lets no such identity through.
    #[error(transparent)]
    Identity(#[from] UnusableIdentity),
}

impl Registry {
    /// Reads and validates the file at `path`; a symbolic link is followed.
    ///
    /// # Errors
    /// The file cannot be used, or names nobody.
    pub fn load(path: &Path) -> Result<Self, RegistryError> {
        let file = ClientsFile::load(path)?;
        if file.clients.is_empty() {
            return Err(RegistryError::Empty);
        }
        let callers = file.clients.len();
        let without = file.clients.iter().filter(|client| client.paid_seconds_per_day == 0);
        let without_allowance = without.map(|client| client.id.clone()).collect();
        Ok(Self {
            auth: Auth::registry(file.clients)?,
            callers,
            without_allowance,
            writable_by_others: file.writable_by_others,
        })
    }

    /// What an operator should know of the file although it stops nothing, in plain sentences.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if self.writable_by_others {
            warnings.push("PLIMSOLL_CLIENTS_FILE can be written by group or others".to_owned());
        }
        let with_allowance = self.callers - self.without_allowance.len();
        if with_allowance > 0 {
            warnings.push(format!(
                "paid_seconds_per_day of {with_allowance} callers has no effect: the provider is not metered"
            ));
        }
        warnings
    }
}

/// The leave to read the registry again, and where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reload {
    path: PathBuf,
}

/// What a reload came to.
#[derive(Debug)]
pub struct Reloaded {
    /// The ids of everybody who may call from now on.
    pub known: HashSet<Arc<str>>,
    /// The ids of those who could before and cannot any more.
    pub revoked: Vec<Arc<str>>,
    /// What an operator should know of the new file.
    pub warnings: Vec<String>,
}

impl Reload {
    /// Reads the leave; none is given unless the variable says so.
    ///
    /// # Errors
    /// The value cannot be read, or there is no clients file it could be about.
    pub fn read(lookup: &dyn Lookup) -> Result<Option<Self>, SettingError> {
        if !CLIENTS_RELOAD.bool(lookup)? {
            return Ok(None);
        }
        match CLIENTS_FILE.text(lookup)? {
            Some(path) => Ok(Some(Self { path: path.into() })),
            None => Err(CLIENTS_RELOAD.unusable(
                true,
                "there is no clients file that could be read again",
                "set PLIMSOLL_CLIENTS_FILE, or unset this variable",
            )),
        }
    }

    /// Reads and validates the file as it is now, and asks `objections` (of rules that read a registry). Nobody's callers change.
    ///
    /// # Errors
    /// Everything that is wrong, in plain sentences.
    pub fn next(&self, objections: &dyn Fn(&Registry) -> Vec<String>) -> Result<Next, Vec<String>> {
        let registry = Registry::load(&self.path).map_err(|error| {
            let fix = "correct the file and send SIGHUP again";
            vec![
                CLIENTS_FILE
                    .unusable(self.path.display(), error.to_string(), fix)
                    .to_string(),
            ]
        })?;
        let objections = objections(&registry);
        if !objections.is_empty() {
            return Err(objections);
        }
        Ok(Next { registry })
    }
}

/// A registry that may be served with and is not in force yet.
#[derive(Debug)]
pub struct Next {
    registry: Registry,
}

impl Next {
    /// The ids of everybody who may call once it is in force.
    pub fn ids(&self) -> HashSet<Arc<str>> {
        self.registry.auth.ids()
    }

    /// Puts its callers in the place of those in force.
    pub fn put_in_force(self, callers: &Callers) -> Reloaded {
        Reloaded {
            known: self.ids(),
            warnings: self.registry.warnings(),
            revoked: callers.replace(self.registry.auth),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::ffi::OsString;
    use std::os::unix::fs::PermissionsExt as _;

    use http::{HeaderMap, HeaderValue};
    use sha2::{Digest as _, Sha256};

    use super::*;
    use crate::edge::Authenticator as _;

    const ALICE: &str = "alice-0123456789abcdef0123456789";
    const BOB: &str = "bob-0123456789abcdef0123456789ab";

    fn write(path: &Path, callers: &[(&str, &str, u64)]) {
        let entries: Vec<String> = callers
            .iter()
            .map(|(id, token, paid)| {
                let digest: String = Sha256::digest(token).iter().map(|byte| format!("{byte:02x}")).collect();
                format!(r#"{{"id":"{id}","token_sha256":"{digest}","paid_seconds_per_day":{paid}}}"#)
            })
            .collect();
        fs_err::write(path, format!("{{\"clients\":[{}]}}", entries.join(","))).unwrap();
    }

    /// Who this token is, if anybody.
    fn who(callers: &Callers, token: &str) -> Option<String> {
        let mut headers = HeaderMap::new();
        headers.insert(
            "authorization",
            HeaderValue::from_str(&format!("Bearer {token}")).unwrap(),
        );
        let mut found = callers.authenticate(&headers);
        let waker = std::task::Waker::noop();
        match found.as_mut().poll(&mut std::task::Context::from_waker(waker)) {
            std::task::Poll::Ready(found) => found.ok().map(|caller| caller.key().to_string()),
            std::task::Poll::Pending => panic!("answers at once"),
        }
    }

    struct House {
        folder: tempfile::TempDir,
        reload: Reload,
        callers: Callers,
    }

    impl House {
        fn of(callers: &[(&str, &str, u64)]) -> Self {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("clients.json");
            write(&path, callers);
            let lookup: BTreeMap<OsString, OsString> = BTreeMap::from([
                ("PLIMSOLL_CLIENTS_FILE".into(), path.clone().into()),
                ("PLIMSOLL_CLIENTS_RELOAD".into(), "true".into()),
            ]);
            Self {
                folder,
                reload: Reload::read(&lookup).unwrap().unwrap(),
                callers: Callers::new(Registry::load(&path).unwrap().auth),
            }
        }

        fn path(&self) -> PathBuf {
            self.folder.path().join("clients.json")
        }

        fn reload(&self) -> Result<Reloaded, Vec<String>> {
            let next = self.reload.next(&|_| Vec::new())?;
            Ok(next.put_in_force(&self.callers))
        }
    }

    #[test]
    fn leave_is_given_by_a_word_that_means_yes_and_only_where_there_is_a_file() {
        let read = |values: &[(&str, &str)]| {
            let lookup: BTreeMap<OsString, OsString> =
                values.iter().map(|(name, value)| (name.into(), value.into())).collect();
            Reload::read(&lookup).map_err(|error| error.to_string())
        };
        let file = ("PLIMSOLL_CLIENTS_FILE", "/clients.json");
        for no in ["", " ", "0", "false"] {
            assert_eq!(read(&[file, ("PLIMSOLL_CLIENTS_RELOAD", no)]), Ok(None), "{no:?}");
        }
        let yes = Some(Reload {
            path: "/clients.json".into(),
        });
        for word in ["1", "TRUE"] {
            assert_eq!(
                read(&[file, ("PLIMSOLL_CLIENTS_RELOAD", word)]),
                Ok(yes.clone()),
                "{word:?}"
            );
        }
        assert!(read(&[file, ("PLIMSOLL_CLIENTS_RELOAD", "yes")]).is_err());
        let nothing = read(&[("PLIMSOLL_CLIENTS_RELOAD", "1")]).unwrap_err();
        assert!(nothing.starts_with("PLIMSOLL_CLIENTS_RELOAD=\"true\": "), "{nothing}");
    }

    #[test]
    fn a_good_file_is_in_force_at_once_and_says_who_is_gone() {
        let house = House::of(&[("alice", ALICE, 60), ("bob", BOB, 0)]);
        // Rotated, revoked, added: alice keeps her id with bob's token.
        write(&house.path(), &[("alice", BOB, 0), ("carol", ALICE, 0)]);
        assert_eq!(
            who(&house.callers, BOB).as_deref(),
            Some("bob"),
            "nothing changes by itself"
        );
        let reloaded = house.reload().unwrap();
        assert_eq!(who(&house.callers, BOB).as_deref(), Some("alice"));
        assert_eq!(who(&house.callers, ALICE).as_deref(), Some("carol"));
        assert_eq!(reloaded.revoked, [Arc::from("bob")]);
        assert_eq!(reloaded.known, HashSet::from([Arc::from("alice"), Arc::from("carol")]));
        assert_eq!(reloaded.known, house.callers.ids());
    }

    #[test]
    fn a_bad_file_or_a_rule_that_objects_changes_nothing() {
        let house = House::of(&[("alice", ALICE, 0)]);
        for (text, told) in [
            ("{\"clients\":[]}", "names no caller"),
            ("{\"clients\":[", "ends too early"),
            ("{\"clients\":[{\"id\":\"a\"}]}", "has no `token_sha256`"),
        ] {
            fs_err::write(house.path(), text).unwrap();
            let problems = house.reload().unwrap_err();
            assert!(
                matches!(problems.as_slice(), [one] if one.starts_with("PLIMSOLL_CLIENTS_FILE=") && one.contains(told)),
                "{problems:?}"
            );
            assert_eq!(who(&house.callers, ALICE).as_deref(), Some("alice"));
        }
        fs_err::remove_file(house.path()).unwrap();
        assert!(house.reload().unwrap_err()[0].contains("does not exist"));
        write(&house.path(), &[("bob", BOB, 0)]);
        let objections = |registry: &Registry| registry.without_allowance.clone();
        let refused = house.reload.next(&objections).unwrap_err();
        assert_eq!(refused, ["bob"]);
        assert_eq!(
            (who(&house.callers, ALICE).as_deref(), who(&house.callers, BOB)),
            (Some("alice"), None)
        );
    }

    #[test]
    fn what_rules_and_operators_ask_of_a_file_is_told() {
        let house = House::of(&[("alice", ALICE, 60), ("bob", BOB, 0)]);
        let registry = Registry::load(&house.path()).unwrap();
        assert_eq!(
            (registry.callers, registry.without_allowance.as_slice()),
            (2, &["bob".to_owned()][..])
        );
        assert_eq!(
            registry.warnings(),
            ["paid_seconds_per_day of 1 callers has no effect: the provider is not metered"]
        );
        write(&house.path(), &[("bob", BOB, 0)]);
        assert!(house.reload().unwrap().warnings.is_empty());
        fs_err::set_permissions(house.path(), std::fs::Permissions::from_mode(0o620)).unwrap();
        assert_eq!(
            house.reload().unwrap().warnings,
            ["PLIMSOLL_CLIENTS_FILE can be written by group or others"]
        );
    }
}
