//! The whole configuration, read once and before anything is bound or started (20 §4.2 steps 2–11).

use std::sync::Arc;

use plimsoll::registry::Choice;
use plimsoll::variables;
use plimsoll_core::Resources;
use plimsoll_core::vars::{Lookup, SettingError};
use plimsoll_sandbox::Sandbox;
use plimsoll_service::auth::Mode;
use plimsoll_service::limiter::{Clamp, Limits};
use plimsoll_service::settings::{Settings, is_loopback};

/// Everything the daemon needs to know to start.
pub(crate) struct Config {
    pub(crate) settings: Settings,
    pub(crate) resources: Resources,
    pub(crate) limits: Limits,
    pub(crate) sandbox: Arc<dyn Sandbox>,
    pub(crate) auth: Mode,
    clamp: Option<Clamp>,
    executes: bool,
    unknown: Vec<String>,
}

impl Config {
    /// Reads and validates every setting; starts and binds nothing.
    ///
    /// # Errors
    /// Every value that is wrong by itself; or else the first that does not go with the others.
    pub(crate) fn read(lookup: &dyn Lookup) -> Result<Self, Vec<SettingError>> {
        let problems = variables::problems(lookup);
        if problems.is_empty() {
            Self::combine(lookup).map_err(|error| vec![error])
        } else {
            Err(problems)
        }
    }

    fn combine(lookup: &dyn Lookup) -> Result<Self, SettingError> {
        let choice = Choice::read(lookup)?;
        let (limits, clamp) = Limits::read(lookup, choice.resources.memory_mb.into(), choice.on_host())?;
        let sandbox = choice.build(limits.max_concurrent)?;
        let settings = Settings::read(lookup)?;
        let auth = Mode::read(lookup, choice.executes())?;
        let (resources, executes) = (choice.resources, choice.executes());
        let unknown = variables::unknown(lookup);
        Ok(Self {
            settings,
            resources,
            limits,
            sandbox,
            auth,
            clamp,
            executes,
            unknown,
        })
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
            requested,
            effective,
        }) = self.clamp
        {
            warnings.push(format!(
                "SANDBOX_TOTAL_MEMORY_MB={total_mb} fits {effective} runs of {per_run_mb} MiB (pools take 0), not the \
                 {requested} of SANDBOX_MAX_CONCURRENT; {effective} is in force"
            ));
        }
        match &self.auth {
            Mode::Registry {
                writable_by_others,
                with_allowance,
                ..
            } => {
                if *writable_by_others {
                    warnings.push("PLIMSOLL_CLIENTS_FILE can be written by group or others".to_owned());
                }
                if *with_allowance > 0 {
                    warnings.push(format!(
                        "paid_seconds_per_day of {with_allowance} callers has no effect: the provider is not metered"
                    ));
                }
            }
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
