//! The `token` object of a profile: which minter, and from which variable its secret comes (spec 30 §4).

use std::sync::Arc;
use std::time::Duration;

use zeroize::Zeroizing;

use super::error::{Place, ProfileError};
use super::fields::Fields;
use super::json::Json;
use crate::mint::{
    Credential, JwtMinter, JwtSettings, MAX_TTL, MIN_SECRET_BYTES, MintError, MintFuture, MintScope, Minter,
    StaticMinter,
};

/// Shortest credential that is looked for in an API's answers; a shorter one would be found by chance.
pub const MIN_SEARCHED_BYTES: usize = 8;

const FIELDS: [&str; 7] = ["type", "env", "secret_env", "ttl_sec", "issuer", "audience", "key_id"];

/// Where secrets come from.
#[derive(Clone, Copy)]
pub(super) enum Secrets<'a> {
    /// The variables of the process.
    Variables(&'a dyn Fn(&str) -> Option<String>),
    /// Nowhere: the profiles are only looked at.
    Withheld,
}

/// What a `token` object gives; by default, no credential.
#[derive(Default)]
pub(super) struct Token {
    pub(super) minter: Option<Arc<dyn Minter>>,
    /// Lifetime of a jwt.
    pub(super) ttl: Option<Duration>,
    /// Whether its credential is too short to be looked for in answers.
    pub(super) short: bool,
}

/// Whether a `token` object asks for a jwt, whatever else is wrong with it.
pub(super) fn is_jwt(value: &Json) -> bool {
    let Json::Object(members) = value else { return false };
    members
        .iter()
        .any(|(key, value)| key == "type" && matches!(value, Json::Text(kind) if kind == "jwt"))
}

/// Reads a `token` object.
pub(super) fn read(
    value: &Json,
    place: Place,
    secrets: Secrets<'_>,
    problems: &mut Vec<ProfileError>,
) -> Option<Token> {
    let mut fields = match Fields::new(value, place, &FIELDS) {
        Ok(fields) => fields,
        Err(problem) => {
            problems.push(problem);
            return None;
        }
    };
    let kind = fields.text("type");
    let (env, secret_env) = (fields.text("env"), fields.text("secret_env"));
    let ttl_sec = fields.integer("ttl_sec");
    let (issuer, audience, key_id) = (fields.text("issuer"), fields.text("audience"), fields.text("key_id"));
    let mut found = fields.take_problems();
    let token = match kind {
        _ if fields.is_bad("type") => None,
        "" | "static" => {
            for (name, set) in [
                ("secret_env", !secret_env.is_empty()),
                ("ttl_sec", ttl_sec != 0),
                ("issuer", !issuer.is_empty()),
                ("audience", !audience.is_empty()),
                ("key_id", !key_id.is_empty()),
            ] {
                if set {
                    found.push(
                        fields
                            .place(name)
                            .problem("has no effect on a static token; remove it or use type jwt"),
                    );
                }
            }
            read_secret(&mut found, &fields, "env", env, secrets, |secret| {
                let short = secret.len() < MIN_SEARCHED_BYTES;
                let minter = StaticMinter::new(secret).map_err(|_| {
                    "whose value is empty or holds a character outside the visible ASCII ones; check \
                     for a line end"
                })?;
                Ok(Token {
                    minter: Some(Arc::new(minter)),
                    ttl: None,
                    short,
                })
            })
        }
        "jwt" => {
            if !env.is_empty() {
                found.push(
                    fields
                        .place("env")
                        .problem("has no effect on a jwt; name the secret in secret_env"),
                );
            }
            if audience.trim().is_empty() && !fields.is_bad("audience") {
                found.push(
                    fields
                        .place("audience")
                        .problem("is required for a jwt and must not be blank"),
                );
            }
            let ttl = match u64::try_from(ttl_sec) {
                Ok(seconds) if seconds <= MAX_TTL.as_secs() => Duration::from_secs(seconds),
                _ => {
                    found.push(
                        fields
                            .place("ttl_sec")
                            .problem(format_args!("must be from 0 to {}; 0 is 60", MAX_TTL.as_secs())),
                    );
                    Duration::ZERO
                }
            };
            let settings = |secret| JwtSettings {
                secret,
                // A stand-in where the audience is wrong: that has been named, and the secret is still worth a look.
                audience: if audience.trim().is_empty() { "none" } else { audience }.to_owned(),
                issuer: issuer.to_owned(),
                key_id: key_id.to_owned(),
                ttl,
            };
            read_secret(&mut found, &fields, "secret_env", secret_env, secrets, |mut secret| {
                let bytes = Zeroizing::new(std::mem::take(&mut *secret).into_bytes());
                let minter = JwtMinter::new(settings(bytes)).map_err(|_| SHORT_SECRET)?;
                Ok(Token {
                    ttl: Some(minter.ttl()),
                    minter: Some(Arc::new(minter)),
                    short: false,
                })
            })
        }
        _ => {
            found.push(fields.place("type").problem("must be static or jwt"));
            None
        }
    };
    let good = found.is_empty();
    problems.append(&mut found);
    token.filter(|_| good)
}

const SHORT_SECRET: &str = "whose value is shorter than 32 bytes; use at least 32 random bytes";
const _: () = assert!(MIN_SECRET_BYTES == 32, "the text above says so");

/// Reads the variable that `name` names and makes a token of it; a stand-in where secrets are withheld.
fn read_secret(
    found: &mut Vec<ProfileError>,
    fields: &Fields<'_>,
    name: &'static str,
    variable: &str,
    secrets: Secrets<'_>,
    make: impl FnOnce(Zeroizing<String>) -> Result<Token, &'static str>,
) -> Option<Token> {
    if variable.trim().is_empty() {
        if !fields.is_bad(name) {
            found.push(
                fields
                    .place(name)
                    .problem("is required: the name of the variable that holds the secret"),
            );
        }
        return None;
    }
    let lookup = match secrets {
        Secrets::Variables(lookup) => lookup,
        Secrets::Withheld => {
            return Some(Token {
                minter: Some(Arc::new(Withheld {
                    names_caller: name == "secret_env",
                })),
                ttl: None,
                short: false,
            });
        }
    };
    let name_of_it = if is_plainly_a_name(variable) {
        format!("{variable}, ")
    } else {
        String::new()
    };
    let made = match lookup(variable).map(Zeroizing::new).filter(|value| !value.is_empty()) {
        Some(secret) => make(secret),
        None => Err("that is not set, empty, or not UTF-8 text"),
    };
    match made {
        Ok(token) => Some(token),
        Err(problem) => {
            let problem = format_args!("names {name_of_it}a variable {problem}");
            found.push(fields.place(name).problem(problem));
            None
        }
    }
}

/// Whether the text can only be meant as a variable's name: capitals of several words, and few digits. Somebody who writes
/// the secret itself in its place must not find it in a log, and one word may be a password or a key in base32.
fn is_plainly_a_name(text: &str) -> bool {
    const LONGEST: usize = 40;
    text.len() <= LONGEST
        && text.starts_with(|c: char| c.is_ascii_uppercase())
        && text.contains('_')
        && text
            .bytes()
            .all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_')
        && text.bytes().filter(u8::is_ascii_digit).count() <= text.len() / 4
}

/// Stands where a minter would be in profiles that were loaded without secrets.
#[derive(Debug)]
struct Withheld {
    names_caller: bool,
}

impl Minter for Withheld {
    fn mint(&self, _scope: MintScope) -> MintFuture<'_> {
        Box::pin(async { Err::<Credential, _>(MintError::Failed("the profiles were loaded without their secrets")) })
    }

    fn requires_subject(&self) -> bool {
        self.names_caller
    }
}
