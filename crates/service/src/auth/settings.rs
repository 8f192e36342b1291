//! Which mode the daemon authenticates in.

use std::path::Path;

use plimsoll_core::vars::{Kind, Lookup, SettingError, Var};

use super::{Auth, MIN_TOKEN_BYTES, Registry};

pub(super) const CLIENTS_FILE: Var = Var::new(
    "PLIMSOLL_CLIENTS_FILE",
    Kind::Path,
    "",
    "The caller registry: a JSON file of ids, token fingerprints and scopes. Wins over PLIMSOLL_TOKEN. Read at the \
     start, and again where PLIMSOLL_CLIENTS_RELOAD says so. `plimsoll clients` writes it.",
);

pub(super) const CLIENTS_RELOAD: Var = Var::new(
    "PLIMSOLL_CLIENTS_RELOAD",
    Kind::Bool,
    "false",
    "SIGHUP reads the clients file again. The callers of before stay where the new file cannot be used; while this is off, \
     SIGHUP is logged and ignored.",
);

const TOKEN: Var = Var::new(
    "PLIMSOLL_TOKEN",
    Kind::Secret,
    "",
    "One bearer token for one caller named static: at least 32 bytes, each a visible ASCII character. Not trimmed.",
);

const INSECURE: Var = Var::new(
    "PLIMSOLL_INSECURE",
    Kind::Exactly("1"),
    "",
    "Exactly 1 lets a provider that runs code serve without authentication, for development only. No other value does.",
);

/// The variables read here.
pub const VARS: &[Var] = &[CLIENTS_FILE, CLIENTS_RELOAD, TOKEN, INSECURE];

/// How callers are told apart, with what start-up says about it.
#[derive(Debug)]
pub enum Mode {
    /// A registry with at least one caller.
    Registry(Registry),
    /// One shared token.
    Token(Auth),
    /// No authentication: an operator is warned.
    Open(Auth),
}

impl Mode {
    /// Reads the mode. `executes` says whether the provider can run anything at all.
    ///
    /// # Errors
    /// A clients file that cannot be used, a token that could be guessed or never be sent, or no authentication where
    /// code can run and nobody said that is intended.
    pub fn read(lookup: &dyn Lookup, executes: bool) -> Result<Self, SettingError> {
        // Judged before the file wins over it: who takes the file away must not find a weak token in its place.
        let token = shared_token(lookup)?;
        if let Some(path) = CLIENTS_FILE.text(lookup)? {
            return Self::read_registry(path);
        }
        if let Some(token) = token {
            return Ok(Self::Token(Auth::token(token)));
        }
        if executes && !INSECURE.exactly(lookup)? {
            return Err(CLIENTS_FILE.hidden(
                "no authentication is configured, and the provider runs code for whoever can connect",
                "set PLIMSOLL_CLIENTS_FILE or PLIMSOLL_TOKEN, or PLIMSOLL_INSECURE=1 for development",
            ));
        }
        Ok(Self::Open(Auth::open()))
    }

    /// The callers.
    pub fn into_auth(self) -> Auth {
        match self {
            Self::Registry(Registry { auth, .. }) | Self::Token(auth) | Self::Open(auth) => auth,
        }
    }

    pub(crate) const fn auth(&self) -> &Auth {
        match self {
            Self::Registry(Registry { auth, .. }) | Self::Token(auth) | Self::Open(auth) => auth,
        }
    }

    fn read_registry(path: &str) -> Result<Self, SettingError> {
        let registry = Registry::load(Path::new(path)).map_err(|error| {
            CLIENTS_FILE.unusable(
                path,
                error.to_string(),
                "correct the file, or unset the variable to use another mode",
            )
        })?;
        Ok(Self::Registry(registry))
    }
}

fn shared_token(lookup: &dyn Lookup) -> Result<Option<&str>, SettingError> {
    let Some(token) = TOKEN.raw(lookup)? else {
        return Ok(None);
    };
    if token.len() < MIN_TOKEN_BYTES {
        return Err(TOKEN.hidden(
            format!("has {} bytes, and {MIN_TOKEN_BYTES} is the minimum", token.len()),
            "set a longer token, such as 64 random hex digits",
        ));
    }
    if !token.bytes().all(|byte| (0x21..=0x7e).contains(&byte)) {
        return Err(TOKEN.hidden(
            "holds a byte outside 0x21 to 0x7E, which no request could match",
            "set a token of visible ASCII characters, such as 64 random hex digits",
        ));
    }
    Ok(Some(token))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::ffi::OsString;

    use super::*;

    fn read(values: &[(&str, &str)], executes: bool) -> Result<Mode, String> {
        let lookup: BTreeMap<OsString, OsString> =
            values.iter().map(|(name, value)| (name.into(), value.into())).collect();
        Mode::read(&lookup, executes).map_err(|error| error.to_string())
    }

    const GOOD: &str = "0123456789abcdef0123456789abcdef";

    #[test]
    fn code_is_not_run_for_strangers_unless_that_is_said_exactly() {
        let refused = read(&[], true).unwrap_err();
        assert!(
            refused.contains("PLIMSOLL_TOKEN") && refused.contains("PLIMSOLL_INSECURE=1"),
            "{refused}"
        );
        for value in ["true", " 1", "1 ", "0", "yes", ""] {
            assert!(read(&[("PLIMSOLL_INSECURE", value)], true).is_err(), "{value:?}");
        }
        assert!(matches!(read(&[("PLIMSOLL_INSECURE", "1")], true), Ok(Mode::Open(_))));
        // Nothing can run, so nothing is at stake.
        assert!(matches!(read(&[], false), Ok(Mode::Open(_))));
    }

    #[test]
    fn a_shared_token_has_32_visible_bytes_and_is_never_shown() {
        assert!(matches!(read(&[("PLIMSOLL_TOKEN", GOOD)], true), Ok(Mode::Token(_))));
        for token in [
            &GOOD[1..],
            &format!("{} ", &GOOD[1..]),
            &GOOD.replace('a', "é"),
            &GOOD.replace('a', "\u{7f}"),
        ] {
            let error = read(&[("PLIMSOLL_TOKEN", token)], true).unwrap_err();
            assert!(
                error.starts_with("PLIMSOLL_TOKEN: ") && !error.contains(&GOOD[1..9]),
                "{error}"
            );
        }
        assert!(matches!(
            read(&[("PLIMSOLL_CLIENTS_FILE", "  "), ("PLIMSOLL_TOKEN", GOOD)], true),
            Ok(Mode::Token(_))
        ));
    }

    #[test]
    fn a_clients_file_wins_over_the_token_and_must_name_a_caller() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("clients.json");
        let values = [
            ("PLIMSOLL_CLIENTS_FILE", path.to_str().unwrap()),
            ("PLIMSOLL_TOKEN", GOOD),
        ];
        assert!(read(&values, true).unwrap_err().contains("PLIMSOLL_CLIENTS_FILE"));
        for text in ["{\"clients\":[]}", "{}", "null"] {
            fs_err::write(&path, text).unwrap();
            let error = read(&values, true).unwrap_err();
            assert!(
                error.contains("PLIMSOLL_CLIENTS_FILE") && error.contains("clients.json"),
                "{error}"
            );
        }
        let fingerprint = "aa".repeat(32);
        let text = format!("{{\"clients\":[{{\"id\":\"ci\",\"token_sha256\":\"{fingerprint}\"}}]}}");
        fs_err::write(&path, text).unwrap();
        let weak = [values[0], ("PLIMSOLL_TOKEN", "short")];
        let error = read(&weak, true).unwrap_err();
        assert!(error.starts_with("PLIMSOLL_TOKEN: has 5 bytes"), "{error}");
        let mode = read(&values, true).unwrap();
        assert!(matches!(&mode, Mode::Registry(Registry { callers: 1, .. })));
        let shared = format!("Bearer {GOOD}");
        assert!(
            mode.into_auth().authenticate([shared.as_bytes()]).is_err(),
            "the shared token is refused"
        );
    }
}
