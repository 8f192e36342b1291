//! Which backends can take a call, by what they say about themselves.

use plimsoll_core::{PayloadEnvironment, PayloadKind, SoftwareRule, Tier};

use super::Requirement;
use super::describe::Backend;
use crate::call::{FloorStated, RunCall, RunResultKind};
use crate::error::{Error, ErrorKind, Refusal};
use crate::info::Info;
use crate::session::OpenSession;

/// What is placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Run(PayloadKind),
    Session,
}

/// What a call and its pool ask for together.
pub(super) struct Asked<'a> {
    kind: Kind,
    pub(super) requirement: &'a Requirement,
    /// The stronger of both floors.
    pub(super) floor: Option<Tier>,
    /// What both rules accept.
    pub(super) rule: SoftwareRule,
    /// The profile the call itself names, empty for none in so many words; absent where its client's default counts.
    grant: Option<&'a str>,
}

impl<'a> Asked<'a> {
    /// Of a run.
    pub(super) fn by_run<R: RunResultKind, C>(
        requirement: &'a Requirement,
        call: &'a RunCall<'_, R, FloorStated, C>,
    ) -> Result<Self, Error> {
        Ok(Self {
            kind: Kind::Run(call.kind()),
            requirement,
            floor: Tier::stronger(requirement.floor, call.own_floor()),
            rule: both(&requirement.software, call.own_software())?,
            grant: call.own_grant(),
        })
    }

    /// Of a session. Grants are named by its calls.
    pub(super) fn by_session<C>(
        requirement: &'a Requirement,
        open: &'a OpenSession<'_, FloorStated, C>,
    ) -> Result<Self, Error> {
        Ok(Self {
            kind: Kind::Session,
            requirement,
            floor: Tier::stronger(requirement.floor, open.own_floor()),
            rule: both(&requirement.software, open.own_software())?,
            grant: Some(""),
        })
    }

    /// Why the call cannot go to this backend whatever it says about itself.
    pub(super) fn ruled_out(&self, backend: &Backend) -> Option<String> {
        let named = self.requirement.backend.as_deref()?;
        (named != backend.name()).then(|| format!("backend {named:?} is required"))
    }

    /// Why the call cannot go to this backend by its description.
    pub(super) fn unfit(&self, backend: &Backend, info: &Info) -> Option<String> {
        let requirement = self.requirement;
        if let Some(provider) = &requirement.provider
            && *provider != info.provider
        {
            return Some(format!(
                "its provider is {:?}, and {provider:?} is required",
                info.provider
            ));
        }
        if let Some(missing) = self.unsupported(backend, info) {
            return Some(missing.to_owned());
        }
        if let Some(floor) = self.floor
            && !info.meets(floor)
        {
            return Some(format!("its tier is {}, and the floor is {floor}", info.isolation));
        }
        let stated = self.environment(info);
        if let Some(identity) = &requirement.environment
            && (stated.identity.is_empty() || *identity != stated.identity)
        {
            return Some(format!(
                "its environment is {:?}, and {identity:?} is required",
                stated.identity
            ));
        }
        if !self.rule.allows(&stated.software_identity) {
            let software = &stated.software_identity;
            return Some(format!("its software is {software:?}, which the rule does not list"));
        }
        None
    }

    fn unsupported(&self, backend: &Backend, info: &Info) -> Option<&'static str> {
        let grant = self.needs_grant(backend);
        let (kind, grants) = match self.kind {
            Kind::Run(PayloadKind::JavaScript) => (None, info.supports_javascript_grants),
            Kind::Run(PayloadKind::Project) => (
                (!info.supports_project).then_some("it does not run projects"),
                info.supports_project_grants,
            ),
            Kind::Run(PayloadKind::Module) => (
                (!info.supports_module).then_some("it does not run modules"),
                // No module ever carries one.
                false,
            ),
            Kind::Run(PayloadKind::Cell) => (Some("cells run in sessions only"), false),
            Kind::Session => (
                (!info.supports_sessions).then_some("it keeps no sessions"),
                info.supports_javascript_grants || info.supports_project_grants,
            ),
        };
        kind.or((grant && !grants).then_some("it supports no grant for this kind of call"))
    }

    fn needs_grant(&self, backend: &Backend) -> bool {
        let named = match (self.grant, self.kind) {
            (Some(profile), _) => profile,
            (None, Kind::Run(kind)) => backend.client().default_grant(kind),
            (None, Kind::Session) => "",
        };
        self.requirement.grant || !named.is_empty()
    }

    fn environment<'i>(&self, info: &'i Info) -> &'i PayloadEnvironment {
        match self.kind {
            Kind::Run(PayloadKind::JavaScript) => &info.javascript_environment,
            Kind::Run(PayloadKind::Project) => &info.project_environment,
            Kind::Run(PayloadKind::Module) => &info.module_environment,
            Kind::Run(PayloadKind::Cell) | Kind::Session => &info.session_environment,
        }
    }
}

/// What the rules of requirement and call both accept.
fn both(required: &SoftwareRule, call: &SoftwareRule) -> Result<SoftwareRule, Error> {
    required.merge(call).map_err(|_| {
        let message = "software_rule of the call shares no identity with the one its pool requires, so no software satisfies both";
        Error::new(ErrorKind::InvalidRequest, message).marked(Refusal::Request)
    })
}
