//! A grant as written by an operator or an embedder, and the frozen form a run uses (spec 30 §2).

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::address::{Cidr, CidrError};
use crate::mint::Minter;
use crate::origin::{Origin, OriginError};
use crate::route::{Method, Route, RouteError, Target};

/// Calls a run may make when the grant does not say.
pub const DEFAULT_MAX_CALLS: u32 = 256;
/// Most calls a grant can allow a run, and most a route's cap can say.
pub const MAX_CALLS_CEILING: u32 = 100_000;
/// Longest one call of the API may take, and the default, in seconds.
pub const MAX_CALL_TIMEOUT_SEC: u32 = 60;
/// The name of the guest's client when the grant does not say.
pub const DEFAULT_GLOBAL: &str = "host";
/// Scopes no grant may carry: everything plimsoll's own caller authentication understands. A token minted for an API must
/// never open plimsoll itself.
pub const RESERVED_SCOPES: [&str; 2] = ["code:run", "*"];

/// A grant as written. Every field but the origin has a default.
#[derive(Clone, Debug, Default)]
pub struct GrantSpec {
    /// Origin of the API: scheme, host, optional port.
    pub base_url: String,
    /// Method and path pattern of each route the run may call; empty reaches nothing.
    pub allow: Vec<(String, String)>,
    /// Who makes the credential; none sends no `Authorization` header.
    pub minter: Option<Arc<dyn Minter>>,
    /// What a minted token may be used for.
    pub scopes: Vec<String>,
    /// Name of the guest's client; empty is [`DEFAULT_GLOBAL`].
    pub global: String,
    /// JavaScript that runs after the client and before the user's code.
    pub preamble: String,
    /// Method and path of the API's own health route, for the broker's use only.
    pub health_check: Option<(String, String)>,
    /// Calls of one run; 0 is [`DEFAULT_MAX_CALLS`], at most [`MAX_CALLS_CEILING`].
    pub max_calls: i64,
    /// Calls of single routes: an allow entry as `METHOD /path`, and 1 to [`MAX_CALLS_CEILING`].
    pub route_max_calls: Vec<(String, i64)>,
    /// Whether calls of a session may use it.
    pub allow_in_sessions: bool,
    /// Blocks (`10.0.0.0/8`) that the origin's name may resolve into besides global addresses.
    pub allow_private: Vec<String>,
    /// Seconds one call may take; 0 is [`MAX_CALL_TIMEOUT_SEC`], which is also the most.
    pub timeout_sec: i64,
}

impl GrantSpec {
    /// A grant that reaches nothing of `base_url` yet.
    pub fn new(base_url: impl Into<String>) -> Self {
        Self {
            base_url: base_url.into(),
            ..Self::default()
        }
    }

    /// Checks every field and freezes the grant.
    ///
    /// # Errors
    /// The first problem of [`GrantSpec::validate_all`].
    pub fn validate(&self) -> Result<Grant, GrantError> {
        self.validate_all().map_err(|mut problems| problems.swap_remove(0))
    }

    /// Checks every field and freezes the grant; names everything that is wrong with it.
    ///
    /// # Errors
    /// All problems, at least one, in the order in which the fields are checked.
    pub fn validate_all(&self) -> Result<Grant, Vec<GrantError>> {
        let mut problems = Problems::default();
        if self.base_url.trim().is_empty() {
            problems.add("base_url", OriginError::Missing);
        }
        let budget = problems.keep("max_calls", range(self.max_calls, 0, MAX_CALLS_CEILING));
        let timeout = problems.keep("timeout_sec", range(self.timeout_sec, 0, MAX_CALL_TIMEOUT_SEC));
        let origin = match Origin::parse(&self.base_url) {
            Err(OriginError::Missing) => None,
            other => problems.keep("base_url", other.map_err(GrantProblem::from)),
        };
        let mut allow_private = Vec::with_capacity(self.allow_private.len());
        for (index, block) in self.allow_private.iter().enumerate() {
            let block = block.parse::<Cidr>().map_err(GrantProblem::from);
            allow_private.extend(problems.keep(format!("allow_private[{index}]"), block));
        }
        for (index, scope) in self.scopes.iter().enumerate() {
            problems.keep(format!("scopes[{index}]"), check_scope(scope));
        }
        let allow = self.check_allow(&mut problems);
        let route_caps = self.check_route_caps(&allow, &mut problems);
        let health_check = self
            .health_check
            .as_ref()
            .and_then(|(method, path)| problems.keep("health_check", check_health(method, path)));
        let (Some(origin), Some(budget), Some(timeout), true) = (origin, budget, timeout, problems.0.is_empty()) else {
            return Err(problems.0);
        };
        let or = |value: u32, default: u32| if value == 0 { default } else { value };
        Ok(Grant(Arc::new(Frozen {
            origin,
            allow,
            minter: self.minter.clone(),
            scopes: self.scopes.clone(),
            global: if self.global.is_empty() {
                DEFAULT_GLOBAL.to_owned()
            } else {
                self.global.clone()
            },
            preamble: self.preamble.clone(),
            health_check,
            budget: or(budget, DEFAULT_MAX_CALLS),
            route_caps,
            allow_in_sessions: self.allow_in_sessions,
            allow_private,
            call_timeout: Duration::from_secs(or(timeout, MAX_CALL_TIMEOUT_SEC).into()),
        })))
    }

    fn check_allow(&self, problems: &mut Problems) -> Vec<Route> {
        let mut first = BTreeMap::new();
        let mut allow = Vec::with_capacity(self.allow.len());
        for (index, (method, path)) in self.allow.iter().enumerate() {
            let field = format!("allow[{index}]");
            let route = Route::new(method, path).map_err(GrantProblem::from);
            let Some(route) = problems.keep(&field, route) else {
                continue;
            };
            if let Some(earlier) = first.insert(route.clone(), index) {
                problems.add(field, GrantProblem::Repeated(earlier));
                first.insert(route, earlier);
            } else {
                allow.push(route);
            }
        }
        allow
    }

    fn check_route_caps(&self, allow: &[Route], problems: &mut Problems) -> Vec<(Route, u32)> {
        let mut caps: BTreeMap<&Route, u32> = BTreeMap::new();
        let entries: BTreeMap<String, &Route> = allow.iter().map(|route| (route.to_string(), route)).collect();
        // An entry that is no route has its own message; a second one about its cap would not help.
        let all_read = allow.len() == self.allow.len();
        for (key, cap) in &self.route_max_calls {
            let field = format!("route_max_calls[{}]", Clipped(key));
            let cap = problems.keep(&field, range(*cap, 1, MAX_CALLS_CEILING));
            match entries.get(key) {
                None if all_read => problems.add(field, GrantProblem::NotAllowed),
                None => {}
                Some(route) => {
                    if let Some(cap) = cap
                        && caps.insert(route, cap).is_some()
                    {
                        problems.add(field, GrantProblem::RepeatedKey);
                    }
                }
            }
        }
        caps.into_iter().map(|(route, cap)| (route.clone(), cap)).collect()
    }
}

/// What one field of a grant breaks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct GrantError {
    field: String,
    problem: GrantProblem,
}

impl GrantError {
    /// The field, with its place in a list: `allow[2]`.
    pub fn field(&self) -> &str {
        &self.field
    }

    /// The rule it breaks.
    pub const fn problem(&self) -> &GrantProblem {
        &self.problem
    }
}

/// A rule of grants, as the end of a sentence that starts with the field.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GrantProblem {
    /// The base URL.
    #[error(transparent)]
    Origin(#[from] OriginError),
    /// A route.
    #[error(transparent)]
    Route(#[from] RouteError),
    /// A block of addresses.
    #[error(transparent)]
    Cidr(#[from] CidrError),
    /// A number outside its bounds.
    #[error("must be from {min} to {max}")]
    Range {
        /// Smallest value.
        min: u32,
        /// Largest value.
        max: u32,
    },
    /// The same route twice.
    #[error("repeats allow[{0}]; remove one")]
    Repeated(usize),
    /// The same key twice.
    #[error("is given twice; remove one")]
    RepeatedKey,
    /// A cap for no entry.
    #[error("must name an entry of allow exactly, as \"METHOD /path\" with the method in upper case")]
    NotAllowed,
    /// An empty scope or one with white space.
    #[error("must not be empty and must hold no white space; one entry is one scope")]
    Scope,
    /// A scope of our own.
    #[error("must not be one of plimsoll's own scopes (code:run, *)")]
    ReservedScope,
    /// A probe that writes.
    #[error("must be a GET route")]
    HealthMethod,
    /// A probe without one address.
    #[error("must name one path, without *")]
    HealthWildcard,
}

/// An allow entry a call fell under. Only a grant hands these out.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AllowedRoute(Route);

impl AllowedRoute {
    /// The entry.
    pub const fn route(&self) -> &Route {
        &self.0
    }
}

/// A checked grant that nothing can change any more. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Grant(Arc<Frozen>);

#[derive(Debug)]
struct Frozen {
    origin: Origin,
    allow: Vec<Route>,
    minter: Option<Arc<dyn Minter>>,
    scopes: Vec<String>,
    global: String,
    preamble: String,
    health_check: Option<Route>,
    budget: u32,
    route_caps: Vec<(Route, u32)>,
    allow_in_sessions: bool,
    allow_private: Vec<Cidr>,
    call_timeout: Duration,
}

impl Grant {
    /// Where the API is.
    pub fn origin(&self) -> &Origin {
        &self.0.origin
    }

    /// What may be called, in the order in which it is compared.
    pub fn allow(&self) -> &[Route] {
        &self.0.allow
    }

    /// The first allow entry a call falls under; none when the call is not allowed.
    pub fn find(&self, method: Method, target: Target<'_>) -> Option<AllowedRoute> {
        let entry = self.0.allow.iter().find(|route| route.matches(method, target))?;
        Some(AllowedRoute(entry.clone()))
    }

    /// Every allow entry, in order, as what a trace can hold.
    pub fn allowed(&self) -> impl Iterator<Item = AllowedRoute> + '_ {
        self.0.allow.iter().cloned().map(AllowedRoute)
    }

    /// Who makes the credential.
    pub fn minter(&self) -> Option<&Arc<dyn Minter>> {
        self.0.minter.as_ref()
    }

    /// What a minted token may be used for.
    pub fn scopes(&self) -> &[String] {
        &self.0.scopes
    }

    /// Name of the guest's client; never empty, otherwise any text.
    pub fn global(&self) -> &str {
        &self.0.global
    }

    /// JavaScript that runs after the client; empty is none.
    pub fn preamble(&self) -> &str {
        &self.0.preamble
    }

    /// The API's health route: always `GET`, never with `*`.
    pub fn health_check(&self) -> Option<&Route> {
        self.0.health_check.as_ref()
    }

    /// Calls one run may make, refused ones included.
    pub fn budget(&self) -> u32 {
        self.0.budget
    }

    /// Allow entries with a cap of their own, in route order.
    pub fn route_caps(&self) -> &[(Route, u32)] {
        &self.0.route_caps
    }

    /// Whether calls of a session may use it.
    pub fn allow_in_sessions(&self) -> bool {
        self.0.allow_in_sessions
    }

    /// Blocks the origin's name may resolve into besides global addresses.
    pub fn allow_private(&self) -> &[Cidr] {
        &self.0.allow_private
    }

    /// Longest one call may take, from connecting to the end of its answer.
    pub fn call_timeout(&self) -> Duration {
        self.0.call_timeout
    }
}

/// Operator text inside an error: quoted, and short whatever was written.
pub(crate) struct Clipped<'a>(pub(crate) &'a str);

impl fmt::Display for Clipped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MOST: usize = 64;
        match self.0.char_indices().nth(MOST) {
            None => write!(f, "{:?}", self.0),
            Some((end, _)) => write!(f, "{:?}…", &self.0[..end]),
        }
    }
}

#[derive(Default)]
struct Problems(Vec<GrantError>);

impl Problems {
    fn add(&mut self, field: impl Into<String>, problem: impl Into<GrantProblem>) {
        self.0.push(GrantError {
            field: field.into(),
            problem: problem.into(),
        });
    }

    fn keep<T>(&mut self, field: impl Into<String>, result: Result<T, GrantProblem>) -> Option<T> {
        result.map_err(|problem| self.add(field, problem)).ok()
    }
}

fn range(value: i64, min: u32, max: u32) -> Result<u32, GrantProblem> {
    match u32::try_from(value) {
        Ok(value) if (min..=max).contains(&value) => Ok(value),
        _ => Err(GrantProblem::Range { min, max }),
    }
}

fn check_scope(scope: &str) -> Result<(), GrantProblem> {
    if scope.is_empty() || scope.contains(char::is_whitespace) {
        Err(GrantProblem::Scope)
    } else if RESERVED_SCOPES.contains(&scope) {
        Err(GrantProblem::ReservedScope)
    } else {
        Ok(())
    }
}

fn check_health(method: &str, path: &str) -> Result<Route, GrantProblem> {
    let route = Route::new(method, path)?;
    if route.method() != Method::Get {
        Err(GrantProblem::HealthMethod)
    } else if route.is_wildcard() {
        Err(GrantProblem::HealthWildcard)
    } else {
        Ok(route)
    }
}
