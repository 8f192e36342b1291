//! All that start-up would find unfit, and not only the first: for somebody who is about to mend it.

use crate::engine::{Engine, EngineFacts, ServerVersion};
use crate::guest_uid;
use crate::image_ref;
use crate::preflight::{PreflightError, enforceable, inspected};
use crate::settings::DockerSettings;

/// What stands between these settings and a provider that can be smoke-tested, in the words of its preflight.
#[derive(Clone, Debug, Default)]
pub struct Survey {
    /// The engine's socket, where the configuration names one.
    pub endpoint: Option<String>,
    /// The engine, if it answers.
    pub engine: Option<(ServerVersion, EngineFacts)>,
    /// What start-up would refuse; empty when only a smoke test is left to pass.
    pub unfit: Vec<PreflightError>,
}

/// Looks at everything once, as a preflight does, and goes on after a finding.
pub async fn survey(settings: &DockerSettings) -> Survey {
    let mut survey = Survey::default();
    for reference in settings.images() {
        survey.note(image_ref::check(reference, settings.require_pinned));
    }
    survey.note(guest_uid::check_on_host(settings.guest_uid));
    survey.note(settings.seccomp.load().map(drop));
    let endpoint = match settings.client.resolve() {
        Ok(endpoint) => endpoint,
        Err(error) => {
            survey.unfit.push(error.into());
            return survey;
        }
    };
    survey.endpoint = Some(endpoint.to_string());
    let answered = async {
        let (engine, server) = Engine::connect(endpoint.path()).await?;
        let facts = engine.info().await?;
        Ok((engine, server, facts))
    };
    let (engine, server, facts) = match answered.await {
        Ok(answered) => answered,
        Err(error) => {
            survey.unfit.push(PreflightError::Engine {
                endpoint: endpoint.to_string(),
                error,
            });
            return survey;
        }
    };
    survey.note(settings.runtime.verify(&facts));
    survey.note(enforceable(settings, &facts));
    for reference in settings.images() {
        survey.note(inspected(&engine, reference).await.map(drop));
    }
    survey.engine = Some((server, facts));
    survey
}

impl Survey {
    fn note<E: Into<PreflightError>>(&mut self, result: Result<(), E>) {
        if let Err(error) = result {
            self.unfit.push(error.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{FakeEngine, Reply};
    use crate::runtime::Runtime;

    #[tokio::test]
    async fn everything_unfit_is_found_at_once_and_in_the_words_of_the_preflight() {
        let fake = FakeEngine::healthy();
        let mut settings = fake.settings();
        let fit = survey(&settings).await;
        assert!(fit.unfit.is_empty() && fit.engine.is_some(), "{fit:?}");
        settings.runtime = Runtime::new("kata");
        settings.limits.cpus = 4096.0;
        fake.on("GET", "/images/*", [Reply::failure(404, "no such image")]);
        let unfit = survey(&settings).await.unfit;
        let [runtime, cpus, image] = unfit.as_slice() else {
            panic!("{unfit:?}");
        };
        assert!(matches!(runtime, PreflightError::Runtime(_)) && matches!(cpus, PreflightError::Cpus { .. }));
        assert!(image.to_string().ends_with("plimsoll images build"), "{image}");
    }

    #[tokio::test]
    async fn without_an_engine_that_is_the_finding() {
        let fake = FakeEngine::healthy();
        let mut settings = fake.settings();
        settings.client.host = Some("unix:///nonexistent/engine.sock".to_owned());
        let found = survey(&settings).await;
        assert!(
            found.engine.is_none() && matches!(found.unfit.as_slice(), [PreflightError::Engine { .. }]),
            "{found:?}"
        );
    }
}
