//! The whole configuration, read once and before anything is bound or started.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use plimsoll::registry::{Choice, Minimum, Terms};
use plimsoll::variables;
use plimsoll_core::Resources;
use plimsoll_core::vars::{Lookup, SettingError};
use plimsoll_grants::Profiles;
use plimsoll_sandbox::Sandbox;
use plimsoll_service::auth::{Mode, Reload};
use plimsoll_service::limiter::{Clamp, Limits, Pools};
use plimsoll_service::settings::{HARDENED, HARDENED_OPEN_PROFILES, Settings, is_loopback, open_profiles};
use plimsoll_service::tls::Tls;
use plimsoll_service::{grants, sessions};

use crate::hardened::{self, Callers, Facts, Report};

/// What is not as it must be.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Problem {
    /// One setting, by itself or with the others.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// Rules of hardened mode.
    #[error(transparent)]
    Hardened(#[from] Report),
}

impl Problem {
    /// One line a setting, one line a rule.
    pub(crate) fn lines(&self) -> Vec<String> {
        match self {
            Self::Setting(error) => vec![error.to_string()],
            Self::Hardened(report) => report.lines(),
        }
    }
}

/// Everything the daemon needs to know to start.
pub(crate) struct Config {
    pub(crate) settings: Settings,
    pub(crate) resources: Resources,
    pub(crate) limits: Limits,
    pub(crate) sessions: sessions::Settings,
    pub(crate) sandbox: Arc<dyn Sandbox>,
    pub(crate) auth: Mode,
    /// The leave to read the caller registry again.
    pub(crate) reload: Option<Reload>,
    pub(crate) profiles: Profiles,
    pub(crate) minimum: Minimum,
    /// What every listener serves with; `None` = in clear.
    pub(crate) tls: Option<Tls>,
    /// What the rules of hardened mode look at; `None` where it is off.
    pub(crate) hardened: Option<Facts>,
    /// Grant profiles that are meant for every caller, by name.
    open_profiles: Vec<String>,
    clamp: Option<Clamp>,
    default_timeout: Option<Duration>,
    pub(crate) executes: bool,
    unknown: Vec<String>,
}

impl Config {
    /// Reads and validates every setting; starts and binds nothing.
    ///
    /// # Errors
    /// Everything that is wrong: each value by itself, and then whatever does not go with the others as far as those can
    /// be read.
    pub(crate) fn read(lookup: &dyn Lookup) -> Result<Self, Vec<Problem>> {
        let mut problems = Problems(variables::problems(lookup));
        let choice = problems.kept(Choice::read(lookup));
        let sessions = problems.kept(sessions::Settings::read(lookup));
        let limits = choice.and_then(|choice| {
            let pools = Pools {
                runs: choice.pooled(),
                sessions: sessions.map_or(0, |sessions| sessions.pool),
            };
            let memory_mb = choice.resources.memory_mb.into();
            problems.kept(Limits::read(lookup, memory_mb, choice.on_host(), pools))
        });
        if let (Some(choice), Some((limits, _))) = (choice, &limits) {
            problems.kept(choice.pool_within(limits.max_concurrent));
        }
        let settings = problems.kept(Settings::read(lookup));
        let minimum = problems.kept(Minimum::read(lookup));
        // Where the choice cannot be read, nothing is said of a missing authentication: it may not be needed.
        let executes = choice.is_some_and(|choice| choice.executes());
        let auth = problems.kept(Mode::read(lookup, executes));
        let reload = problems.kept(Reload::read(lookup));
        let sandbox = choice.and_then(|choice| {
            if let Some(minimum) = minimum {
                problems.kept(minimum.within_reach_of(choice));
            }
            let unenforceable = choice.unenforceable();
            if unenforceable.is_empty() {
                // One run stands for the limits where those cannot be read: what is wrong with the memory does not
                // depend on them.
                let max_concurrent = limits.as_ref().map_or(1, |(limits, _)| limits.max_concurrent);
                return problems.kept(choice.build(max_concurrent, lookup));
            }
            problems.0.extend(unenforceable);
            None
        });
        if let (Some(sessions), Some(sandbox)) = (&sessions, &sandbox) {
            problems.all_kept(sessions.check(&**sandbox));
        }
        let profiles = problems.all_kept(grants::read(lookup));
        if let (Some(profiles), Some(sandbox)) = (&profiles, &sandbox) {
            problems.kept(grants::check_support(lookup, profiles, &sandbox.evidence()));
            problems.kept(grants::check_trust(lookup, profiles));
        }
        let tls = problems.kept(Tls::read(lookup));
        let open_profiles = problems.kept(open_profiles(lookup));
        let unknown = variables::unknown(lookup);
        let hardened = problems.kept(HARDENED.bool(lookup)).unwrap_or(false).then(|| Facts {
            callers: auth.as_ref().map(Callers::from),
            insecure: is_set("PLIMSOLL_INSECURE", lookup),
            tls: tls.clone(),
            rpc: settings.as_ref().map(|settings| settings.addr.clone()),
            metrics: settings.as_ref().and_then(|settings| settings.metrics_addr.clone()),
            // No provider of this build serves one, and its variable stops the start.
            guard: None,
            provider: Terms::read(lookup),
            limits: limits.as_ref().map(|(limits, _)| *limits),
            sessions,
            unknown: unknown.clone(),
            open_profiles: match (&profiles, &open_profiles) {
                (Some(profiles), Some(acknowledged)) => open_to_all(profiles)
                    .filter(|name| !acknowledged.iter().any(|known| known == name))
                    .map(str::to_owned)
                    .collect(),
                _ => Vec::new(),
            },
        });
        let report = hardened.as_ref().and_then(|facts| hardened::judge(facts, None).err());
        match (
            choice,
            limits,
            sessions,
            settings,
            minimum,
            auth,
            reload,
            sandbox,
            profiles,
            tls,
            open_profiles,
        ) {
            (
                Some(choice),
                Some((limits, clamp)),
                Some(sessions),
                Some(settings),
                Some(minimum),
                Some(auth),
                Some(reload),
                Some(sandbox),
                Some(profiles),
                Some(tls),
                Some(open_profiles),
            ) if problems.0.is_empty() && report.is_none() => Ok(Self {
                settings,
                resources: choice.resources,
                limits,
                sessions,
                sandbox,
                auth,
                reload,
                profiles,
                minimum,
                clamp,
                default_timeout: choice.default_timeout(),
                executes,
                unknown,
                tls,
                hardened,
                open_profiles,
            }),
            _ => {
                let settings = problems.0.into_iter().map(Problem::from);
                Err(settings.chain(report.map(Problem::from)).collect())
            }
        }
    }

    /// What an operator should know although it stops nothing, in plain sentences.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let mut warnings: Vec<String> = self
            .unknown
            .iter()
            .map(|name| format!("{name} is set, and nothing reads a variable of that name"))
            .collect();
        if let Some(Clamp {
            total_mb,
            per_run_mb,
            pooled,
            requested,
            effective,
        }) = self.clamp
        {
            warnings.push(format!(
                "SANDBOX_TOTAL_MEMORY_MB={total_mb} fits {effective} runs of {per_run_mb} MiB (pools take {pooled}), not the \
                 {requested} of SANDBOX_MAX_CONCURRENT; {effective} is in force"
            ));
        }
        warnings.extend(self.sessions.warning(&*self.sandbox, self.limits.max_concurrent));
        match &self.auth {
            Mode::Registry(registry) => warnings.extend(registry.warnings()),
            Mode::Token(_) => {}
            Mode::Open(_) if self.executes => {
                warnings.push("open development mode: whoever can connect runs code without authentication".to_owned());
            }
            Mode::Open(_) => {
                warnings.push(
                    "open development mode: no authentication; no provider is chosen, so nothing can run".to_owned(),
                );
            }
        }
        let of_file = |warning: &String| format!("PLIMSOLL_GRANTS_FILE: {warning}");
        warnings.extend(self.profiles.warnings().iter().map(of_file));
        warnings.extend(
            grants::unusable_warnings(&self.profiles, &self.auth)
                .iter()
                .map(of_file),
        );
        if let Some(default_timeout) = self.default_timeout {
            warnings.extend(self.profiles.lifetime_warnings(default_timeout).iter().map(of_file));
        }
        for name in &self.open_profiles {
            if !open_to_all(&self.profiles).any(|open| open == name) {
                warnings.push(format!(
                    "{} names {name:?}, and no grant profile of that name is open to every caller",
                    HARDENED_OPEN_PROFILES.name
                ));
            }
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        if let Some(problem) = self.tls.as_ref().and_then(|tls| tls.out_of_date(now)) {
            warnings.push(format!("{problem}: clients may refuse it"));
        }
        if let Some(addr) = &self.settings.metrics_addr
            && !is_loopback(addr)
        {
            warnings.push(format!(
                "PLIMSOLL_METRICS_ADDR={addr} shows metrics beyond this host without authentication"
            ));
        }
        warnings
    }
}

/// The names of the profiles that every authenticated caller may use.
fn open_to_all(profiles: &Profiles) -> impl Iterator<Item = &str> {
    profiles
        .iter()
        .filter(|profile| profile.open_to_all())
        .map(|profile| profile.name())
}

/// Whether a variable holds anything but white space.
fn is_set(name: &str, lookup: &dyn Lookup) -> bool {
    let value = lookup.get(name);
    value.is_some_and(|value| value.to_str().is_none_or(|text| !text.trim().is_empty()))
}

/// What is wrong so far; each thing once, although several readers may come upon it.
struct Problems(Vec<SettingError>);

impl Problems {
    fn all_kept<T>(&mut self, read: Result<T, Vec<SettingError>>) -> Option<T> {
        let found = match read {
            Ok(value) => return Some(value),
            Err(found) => found,
        };
        for problem in found {
            self.kept::<T>(Err(problem));
        }
        None
    }

    fn kept<T>(&mut self, read: Result<T, SettingError>) -> Option<T> {
        match read {
            Ok(value) => Some(value),
            Err(problem) => {
                if !self.0.contains(&problem) {
                    self.0.push(problem);
                }
                None
            }
        }
    }
}
