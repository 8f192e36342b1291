//! One profile of the grants file: a grant, who may use it, and what its traces are used for.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use super::batch;
use super::error::{Place, ProfileError};
use super::fields::Fields;
use super::files::{MAX_PREAMBLE_BYTES, read_preamble};
use super::json::Json;
use super::token::{self, Secrets, Token};
use crate::grant::{Grant, GrantProblem, GrantSpec};
use crate::mint::is_subject;
use crate::route::{Route, split_line};

/// Most bytes of a profile's name; a request that names more is malformed.
pub const MAX_NAME_BYTES: usize = plimsoll_core::limits::MAX_GRANT_PROFILE_BYTES;

/// An entry of `allowed_callers` that stands for every authenticated caller.
const EVERYONE: &str = "*";

const FIELDS: [&str; 18] = [
    "base_url",
    "allow",
    "catalog",
    "batch_of",
    "scopes",
    "allowed_callers",
    "global",
    "preamble",
    "preamble_file",
    "token",
    "health_check",
    "max_calls",
    "route_max_calls",
    "allow_in_sessions",
    "allow_private",
    "timeout_sec",
    "advice",
    "advice_retention",
];

/// Who is told what a run could have done better.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Audience {
    /// Nobody; nothing is computed.
    #[default]
    Off,
    /// The operator, through log and metrics.
    Operator,
    /// The caller too, as far as it can act on it.
    Caller,
}

impl Audience {
    /// Its word in the grants file and in the log.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Operator => "operator",
            Self::Caller => "caller",
        }
    }
}

/// What of a finding goes to the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Retention {
    /// Nothing.
    #[default]
    None,
    /// Totals.
    Aggregate,
    /// Every finding.
    Detailed,
}

impl Retention {
    /// Its word in the grants file and in the log.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Aggregate => "aggregate",
            Self::Detailed => "detailed",
        }
    }
}

/// A named grant with everything the daemon knows about it.
#[derive(Clone, Debug)]
pub struct Profile {
    name: String,
    grant: Grant,
    catalog: Vec<Route>,
    batch_of: BTreeMap<Route, Route>,
    callers: BTreeSet<String>,
    advice: Audience,
    retention: Retention,
    token_ttl: Option<Duration>,
    short_credential: bool,
}

impl Profile {
    /// A profile around a grant an embedder hands in: nobody can look it up, and it gives no advice.
    pub fn direct(name: impl Into<String>, grant: Grant) -> Self {
        Self {
            name: name.into(),
            grant,
            catalog: Vec::new(),
            batch_of: BTreeMap::new(),
            callers: BTreeSet::new(),
            advice: Audience::Off,
            retention: Retention::None,
            token_ttl: None,
            short_credential: false,
        }
    }

    /// Replaces what the advisor knows and tells: every route the API has, which batch route (second) serves which route
    /// (first), and who is told.
    #[must_use]
    pub fn with_advice(mut self, catalog: Vec<Route>, batch_of: BTreeMap<Route, Route>, advice: Audience) -> Self {
        self.catalog = catalog;
        self.batch_of = batch_of;
        self.advice = advice;
        self
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it permits.
    pub const fn grant(&self) -> &Grant {
        &self.grant
    }

    /// Every route the API has, as far as the operator says; grants nothing.
    pub fn catalog(&self) -> &[Route] {
        &self.catalog
    }

    /// From a route to the one that answers for many of it; grants nothing.
    pub const fn batch_of(&self) -> &BTreeMap<Route, Route> {
        &self.batch_of
    }

    /// Who is told what a run could have done better.
    pub const fn advice(&self) -> Audience {
        self.advice
    }

    /// What of it goes to the log.
    pub const fn retention(&self) -> Retention {
        self.retention
    }

    /// Whether every authenticated caller may use it.
    pub fn open_to_all(&self) -> bool {
        self.callers.contains(EVERYONE)
    }

    /// The longest a minted token lives; none for a static token, without one, and where secrets are withheld.
    pub const fn token_ttl(&self) -> Option<Duration> {
        self.token_ttl
    }

    /// Whether its credential is too short to be looked for in an API's answers.
    pub(super) const fn short_credential(&self) -> bool {
        self.short_credential
    }

    /// Who may use it, in order; `*` is every authenticated caller. For whoever owns the file, never for a caller.
    pub fn callers(&self) -> impl Iterator<Item = &str> {
        self.callers.iter().map(String::as_str)
    }

    /// Whether an authenticated caller may use it. What could not be an identity is nobody's.
    pub fn admits(&self, caller: &str) -> bool {
        is_subject(caller) && (self.open_to_all() || self.callers.contains(caller))
    }
}

/// Reads one member of `profiles`, in the order of spec 30 §3; names everything that is wrong with it.
pub(super) fn read(
    name: &str,
    value: &Json,
    folder: &Path,
    secrets: Secrets<'_>,
    problems: &mut Vec<ProfileError>,
) -> Option<Profile> {
    let before = problems.len();
    let place = Place::profile(name);
    let mut fields = match Fields::new(value, place.clone(), &FIELDS) {
        Ok(fields) => fields,
        Err(problem) => {
            check_name(name, &place, problems);
            problems.push(problem);
            return None;
        }
    };
    let written = Written::read(&mut fields);
    problems.append(&mut fields.take_problems());

    check_name(name, &place, problems);
    let mut spec = GrantSpec::new(written.base_url);
    let allow = read_pairs(&written.allow, &fields.place("allow"), problems);
    let catalog = read_routes(&written.catalog, &fields.place("catalog"), problems);
    let batch_of = batch::read(written.batch_of, &fields.place("batch_of"), problems);
    let callers = read_callers(&written.callers, &fields, problems);
    let advice = read_word(
        written.advice,
        &[Audience::Off, Audience::Operator, Audience::Caller].map(|word| (word.as_str(), word)),
        &fields.place("advice"),
        problems,
    );
    let retention = read_word(
        written.retention,
        &[Retention::None, Retention::Aggregate, Retention::Detailed].map(|word| (word.as_str(), word)),
        &fields.place("advice_retention"),
        problems,
    );
    spec.preamble = choose_preamble(written.preamble, written.preamble_file, folder, &fields, problems);
    let token = written
        .token
        .and_then(|value| token::read(value, fields.place("token"), secrets, problems));
    let names_scopes = written.token.is_some_and(token::is_jwt);
    if !written.scopes.is_empty() && !names_scopes {
        problems.push(fields.place("scopes").problem(
            "has no effect without a jwt token, which alone carries scopes; remove it or set token.type to jwt",
        ));
    }
    if !written.health_check.trim().is_empty() {
        spec.health_check = read_pair(written.health_check, &fields.place("health_check"), problems);
    }
    spec.route_max_calls = read_caps(&written.route_max_calls, &fields.place("route_max_calls"), problems);
    spec.scopes = written.scopes.into_iter().map(str::to_owned).collect();
    spec.global = written.global.to_owned();
    spec.max_calls = written.max_calls;
    spec.allow_in_sessions = written.allow_in_sessions;
    spec.allow_private = written.allow_private.into_iter().map(str::to_owned).collect();
    spec.timeout_sec = written.timeout_sec;
    let Token {
        minter,
        ttl: token_ttl,
        short: short_credential,
    } = token.unwrap_or_default();
    spec.minter = minter;
    let grant = validate(spec, &allow, &fields, problems);
    if problems.len() > before {
        return None;
    }
    Some(Profile {
        name: name.to_owned(),
        grant: grant?,
        catalog,
        batch_of,
        callers,
        advice: advice?,
        retention: retention?,
        token_ttl,
        short_credential,
    })
}

/// The members of a profile, each of its type.
struct Written<'a> {
    base_url: &'a str,
    allow: Vec<&'a str>,
    catalog: Vec<&'a str>,
    batch_of: Vec<(&'a str, Vec<&'a str>)>,
    scopes: Vec<&'a str>,
    callers: Vec<&'a str>,
    global: &'a str,
    preamble: &'a str,
    preamble_file: &'a str,
    token: Option<&'a Json>,
    health_check: &'a str,
    max_calls: i64,
    route_max_calls: Vec<(&'a str, i64)>,
    allow_in_sessions: bool,
    allow_private: Vec<&'a str>,
    timeout_sec: i64,
    advice: &'a str,
    retention: &'a str,
}

impl<'a> Written<'a> {
    fn read(fields: &mut Fields<'a>) -> Self {
        Self {
            base_url: fields.text("base_url"),
            allow: fields.texts("allow"),
            catalog: fields.texts("catalog"),
            batch_of: fields.text_lists("batch_of"),
            scopes: fields.texts("scopes"),
            callers: fields.texts("allowed_callers"),
            global: fields.text("global"),
            preamble: fields.text("preamble"),
            preamble_file: fields.text("preamble_file"),
            token: fields.get("token"),
            health_check: fields.text("health_check"),
            max_calls: fields.integer("max_calls"),
            route_max_calls: fields.integers("route_max_calls"),
            allow_in_sessions: fields.flag("allow_in_sessions"),
            allow_private: fields.texts("allow_private"),
            timeout_sec: fields.integer("timeout_sec"),
            advice: fields.text("advice"),
            retention: fields.text("advice_retention"),
        }
    }
}

fn check_name(name: &str, place: &Place, problems: &mut Vec<ProfileError>) {
    let good = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    if !(1..=MAX_NAME_BYTES).contains(&name.len()) || !name.bytes().all(good) {
        problems.push(place.problem(format_args!(
            "the name must be 1 to {MAX_NAME_BYTES} bytes of letters, digits, . _ and -"
        )));
    }
}

fn read_pair(line: &str, place: &Place, problems: &mut Vec<ProfileError>) -> Option<(String, String)> {
    match split_line(line) {
        Ok((method, path)) => Some((method.to_ascii_uppercase(), path.to_owned())),
        Err(error) => {
            problems.push(place.problem(error));
            None
        }
    }
}

/// Lines as method and path; the rules of routes come later, with the rest of the grant.
fn read_pairs(lines: &[&str], field: &Place, problems: &mut Vec<ProfileError>) -> Vec<Option<(String, String)>> {
    let pairs = lines.iter().enumerate();
    pairs
        .map(|(index, line)| read_pair(line, &field.item(index), problems))
        .collect()
}

fn read_routes(lines: &[&str], field: &Place, problems: &mut Vec<ProfileError>) -> Vec<Route> {
    let mut routes = Vec::with_capacity(lines.len());
    for (index, line) in lines.iter().enumerate() {
        match Route::parse_line(line) {
            Ok(route) => routes.push(route),
            Err(error) => problems.push(field.item(index).problem(error)),
        }
    }
    routes
}

fn read_callers(written: &[&str], fields: &Fields<'_>, problems: &mut Vec<ProfileError>) -> BTreeSet<String> {
    let field = fields.place("allowed_callers");
    if written.is_empty() && !fields.is_bad("allowed_callers") {
        problems.push(field.problem("must list at least one caller; \"*\" is every authenticated caller"));
    }
    let mut callers = BTreeSet::new();
    for (index, caller) in written.iter().enumerate() {
        let caller = caller.trim();
        if caller.is_empty() {
            problems.push(field.item(index).problem("must not be blank"));
        } else if !callers.insert(caller.to_owned()) {
            problems.push(
                field
                    .item(index)
                    .problem("is listed twice; callers are compared without the white space around them"),
            );
        }
    }
    callers
}

/// One of a few words; the first is also the one that stands for nothing written.
fn read_word<T: Copy>(
    written: &str,
    words: &[(&str, T)],
    field: &Place,
    problems: &mut Vec<ProfileError>,
) -> Option<T> {
    let written = match written.trim() {
        "" => words.first()?.0,
        word => word,
    };
    let found = words.iter().find(|(word, _)| *word == written);
    if found.is_none() {
        let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        problems.push(field.problem(format_args!("must be one of {}", known.join(", "))));
    }
    found.map(|(_, value)| *value)
}

fn choose_preamble(
    text: &str,
    file: &str,
    folder: &Path,
    fields: &Fields<'_>,
    problems: &mut Vec<ProfileError>,
) -> String {
    let read = match (text, file) {
        (text, "") if text.len() > MAX_PREAMBLE_BYTES => {
            Err(("preamble", format!("must be at most {MAX_PREAMBLE_BYTES} bytes")))
        }
        (text, "") => Ok(text.to_owned()),
        ("", file) => read_preamble(folder, file).map_err(|problem| ("preamble_file", problem)),
        _ => Err((
            "preamble_file",
            "must not be set beside preamble; use one of the two".to_owned(),
        )),
    };
    read.unwrap_or_else(|(name, problem)| {
        problems.push(fields.place(name).problem(problem));
        String::new()
    })
}

/// Caps with their keys in the spelling of allow entries.
fn read_caps(written: &[(&str, i64)], field: &Place, problems: &mut Vec<ProfileError>) -> Vec<(String, i64)> {
    let mut seen = BTreeSet::new();
    let mut caps = Vec::with_capacity(written.len());
    for (key, cap) in written {
        let place = field.member(key);
        let Some((method, path)) = read_pair(key, &place, problems) else {
            continue;
        };
        let key = format!("{method} {path}");
        if seen.insert(key.clone()) {
            caps.push((key, *cap));
        } else {
            problems.push(place.problem("is the same route as another key; remove one"));
        }
    }
    caps
}

/// The rules of the whole grant. Fields that have been named already are not named again.
fn validate(
    mut spec: GrantSpec,
    allow: &[Option<(String, String)>],
    fields: &Fields<'_>,
    problems: &mut Vec<ProfileError>,
) -> Option<Grant> {
    let all_read = !fields.is_bad("allow") && allow.iter().all(Option::is_some);
    // An entry that is no line keeps its place, so that the others are named by their own.
    spec.allow = allow.iter().cloned().map(Option::unwrap_or_default).collect();
    let found = match spec.validate_all() {
        Ok(grant) => return Some(grant),
        Err(found) => found,
    };
    for error in found {
        let (name, rest) = error.field().split_once('[').unwrap_or((error.field(), ""));
        let index = rest.strip_suffix(']').and_then(|index| index.parse::<usize>().ok());
        let named_already = fields.is_bad(name)
            || (name == "allow" && index.is_some_and(|index| allow.get(index).is_some_and(Option::is_none)))
            || (*error.problem() == GrantProblem::NotAllowed && !all_read);
        if !named_already {
            problems.push(fields.place_of(error.field()).problem(error.problem()));
        }
    }
    None
}
