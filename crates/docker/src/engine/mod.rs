//! The conversation with the engine: its HTTP API over the Unix socket, bounded on every side.
//!
//! Every request has its own connection, and a connection ends once it has carried more than an answer may hold, so an
//! engine that lies costs a few MiB at most. What went wrong is told by status code, never by the engine's wording.

mod answers;
mod attach;
mod error;
mod transport;
mod wait;

use std::path::Path;
use std::pin::Pin;
use std::time::Duration;

use bollard::models::{ContainerCreateBody, ContainerInspectResponse};
use bollard::query_parameters::{
    CreateContainerOptionsBuilder, InspectContainerOptions, KillContainerOptionsBuilder, RemoveContainerOptionsBuilder,
    StartContainerOptions,
};
use bollard::{ClientVersion, Docker};

pub use answers::{
    Descriptor, EngineFacts, ImageAnswer, ImageConfig, KernelLimits, Listed, RegisteredRuntime, ServerVersion,
};
pub use attach::{Attached, AttachedInput, AttachedOutput, Chunk, Source};
pub use error::EngineError;
pub use wait::{Exit, ExitWait};

use answers::VersionAnswer;
use transport::{Transport, path_segment};

/// The largest answer that is parsed.
pub const MAX_ANSWER_BYTES: usize = 4 << 20;

/// How much of the engine's own words about a failure is kept.
pub const MAX_ERROR_TEXT_BYTES: usize = 64 << 10;

/// The oldest API spoken: that of Docker 20.10.
pub const OLDEST_API: ApiVersion = ApiVersion { major: 1, minor: 41 };

/// The newest API spoken: what the pinned client library knows.
pub const NEWEST_API: ApiVersion = ApiVersion { major: 1, minor: 53 };

/// The first API that inspects an image for one platform.
pub const PLATFORM_INSPECT_API: ApiVersion = ApiVersion { major: 1, minor: 49 };

/// How long one exchange may take unless the caller sets another budget.
const DEFAULT_BUDGET: Duration = Duration::from_secs(30);

/// A version of the Engine API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ApiVersion {
    /// Before the dot.
    pub major: usize,
    /// After the dot.
    pub minor: usize,
}

impl ApiVersion {
    /// Reads `1.41`.
    pub fn parse(text: &str) -> Option<Self> {
        let (major, minor) = text.split_once('.')?;
        let digits = |part: &str| {
            part.bytes()
                .all(|byte| byte.is_ascii_digit())
                .then(|| part.parse().ok())
        };
        Some(Self {
            major: digits(major)??,
            minor: digits(minor)??,
        })
    }
}

impl std::fmt::Display for ApiVersion {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}.{}", self.major, self.minor)
    }
}

/// A connection factory to one engine, with the API version settled. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Engine {
    transport: Transport,
    docker: Docker,
    api: ApiVersion,
    budget: Duration,
}

impl Engine {
    /// Asks the engine behind `socket` for its version and settles on the newest API both sides speak.
    ///
    /// # Errors
    /// Unreachable, an unreadable answer, or no common API version of at least [`OLDEST_API`].
    pub async fn connect(socket: &Path) -> Result<(Self, ServerVersion), EngineError> {
        let transport = Transport::new(socket);
        let answer: VersionAnswer = within(DEFAULT_BUDGET, transport.get("/version")).await?;
        let server = answer.checked()?;
        let api = server.api.min(NEWEST_API);
        if api < OLDEST_API || api < server.oldest_api {
            return Err(EngineError::Version {
                offered: server.api,
                oldest_offered: server.oldest_api,
            });
        }
        let version = ClientVersion {
            major_version: api.major,
            minor_version: api.minor,
        };
        let transport = transport.speaking(api);
        let own = transport.clone();
        let docker = Docker::connect_with_custom_transport(
            move |request| {
                let own = own.clone();
                async move { own.send(request).await.map_err(EngineError::carried) }
            },
            Some("http://engine"),
            // Budgets are ours (`within`); the library's own covers the head of an answer only.
            u64::from(u32::MAX),
            &version,
        )
        .map_err(EngineError::from)?;
        let engine = Self {
            transport,
            docker,
            api,
            budget: DEFAULT_BUDGET,
        };
        Ok((engine, server))
    }

    /// The same engine, each exchange of which may take `budget`.
    #[must_use]
    pub fn with_budget(&self, budget: Duration) -> Self {
        Self { budget, ..self.clone() }
    }

    /// The API version in use.
    pub const fn api(&self) -> ApiVersion {
        self.api
    }

    /// Whether an image can be inspected for one platform.
    pub fn inspects_platforms(&self) -> bool {
        self.api >= PLATFORM_INSPECT_API
    }

    /// What the engine says about itself and its host.
    ///
    /// # Errors
    /// As every call: [`EngineError`].
    pub async fn info(&self) -> Result<EngineFacts, EngineError> {
        let info = self.bounded(self.docker.info()).await?;
        Ok(EngineFacts::from(info))
    }

    /// What is known of an image, by reference or content ID; never pulls. `platform` needs
    /// [`Engine::inspects_platforms`].
    ///
    /// # Errors
    /// [`EngineError::NotFound`] when the image is absent; an answer that is not an image description fails.
    pub async fn inspect_image(&self, image: &str, platform: Option<&str>) -> Result<ImageAnswer, EngineError> {
        let mut path = format!("/images/{}/json", path_segment(image));
        if let Some(platform) = platform {
            path.push_str(&query(&[("platform", &platform_object(platform))]));
        }
        within(self.budget, self.transport.get(&path)).await
    }

    /// Creates a container and returns its ID; nothing starts.
    ///
    /// # Errors
    /// [`EngineError::NotFound`] when the image is absent, [`EngineError::Conflict`] when the name is taken.
    pub async fn create_container(
        &self,
        name: &str,
        platform: Option<&str>,
        body: Box<ContainerCreateBody>,
    ) -> Result<String, EngineError> {
        let mut options = CreateContainerOptionsBuilder::default().name(name);
        if let Some(platform) = platform {
            options = options.platform(platform);
        }
        let exchange = async { self.docker.create_container(Some(options.build()), *body).await };
        let created = self.bounded(exchange).await?;
        if is_container_id(&created.id) {
            Ok(created.id)
        } else {
            Err(EngineError::Malformed {
                problem: "the ID of the created container is not 64 hex digits".to_owned(),
            })
        }
    }

    /// What the engine knows of a container now.
    ///
    /// # Errors
    /// [`EngineError::NotFound`] when it is gone.
    pub async fn inspect_container(&self, name: &str) -> Result<Box<ContainerInspectResponse>, EngineError> {
        let exchange = async {
            let answer = self
                .docker
                .inspect_container(name, None::<InspectContainerOptions>)
                .await;
            answer.map(Box::new)
        };
        self.bounded(exchange).await
    }

    /// Attaches to the container's stdin, stdout and stderr; before its start. The attachment has no budget and no bound
    /// of its own: whoever holds it keeps a deadline and looks after the container.
    ///
    /// # Errors
    /// As every call; the budget covers the engine's consent.
    pub async fn attach(&self, name: &str) -> Result<Attached, EngineError> {
        let path = format!(
            "/containers/{}/attach?stream=1&stdin=1&stdout=1&stderr=1",
            path_segment(name)
        );
        within(self.budget, attach::attach(&self.transport, &path)).await
    }

    /// Asks for the container's next exit; before its start. Returns once the engine has taken the request, so an exit
    /// right after the start is not missed.
    ///
    /// # Errors
    /// As every call; the budget covers the engine's consent, not the wait.
    pub async fn wait_next_exit(&self, name: &str) -> Result<ExitWait, EngineError> {
        let path = format!("/containers/{}/wait?condition=next-exit", path_segment(name));
        within(self.budget, wait::open(&self.transport, &path)).await
    }

    /// Starts a created container.
    ///
    /// # Errors
    /// As every call.
    pub async fn start(&self, name: &str) -> Result<(), EngineError> {
        self.bounded(self.docker.start_container(name, None::<StartContainerOptions>))
            .await
    }

    /// Freezes every process of the container.
    ///
    /// # Errors
    /// As every call; [`EngineError::Conflict`] when it does not run or is frozen already.
    pub async fn pause(&self, name: &str) -> Result<(), EngineError> {
        self.bounded(self.docker.pause_container(name)).await
    }

    /// Undoes [`Engine::pause`].
    ///
    /// # Errors
    /// As every call.
    pub async fn unpause(&self, name: &str) -> Result<(), EngineError> {
        self.bounded(self.docker.unpause_container(name)).await
    }

    /// Kills the container's main process, and with it the container.
    ///
    /// # Errors
    /// [`EngineError::Conflict`] when it does not run, [`EngineError::NotFound`] when it is gone.
    pub async fn kill(&self, name: &str) -> Result<(), EngineError> {
        let options = KillContainerOptionsBuilder::default().signal("SIGKILL").build();
        self.bounded(self.docker.kill_container(name, Some(options))).await
    }

    /// Removes the container with its anonymous volumes; `force` kills it first.
    ///
    /// # Errors
    /// As every call. Whether it is gone is decided by [`Engine::exists`], never by this answer.
    pub async fn remove(&self, name: &str, force: bool) -> Result<(), EngineError> {
        let options = RemoveContainerOptionsBuilder::default().force(force).v(true).build();
        self.bounded(self.docker.remove_container(name, Some(options))).await
    }

    /// Every container, running or not, that carries the label.
    ///
    /// # Errors
    /// As every call; a listing over the bound is [`EngineError::TooLarge`], never a part of it.
    pub async fn list_labelled(&self, label: &str) -> Result<Vec<Listed>, EngineError> {
        self.list(&serde_json::json!({ "label": [label] })).await
    }

    /// Whether the container of this ID, or of exactly this name, exists, running or not.
    ///
    /// # Errors
    /// As every call.
    pub async fn exists(&self, container: &str) -> Result<bool, EngineError> {
        if is_container_id(container) {
            let listed = self.list(&serde_json::json!({ "id": [container] })).await?;
            return Ok(listed.iter().any(|one| one.id == container));
        }
        let named = format!("^/?{container}$");
        let listed = self.list(&serde_json::json!({ "name": [named] })).await?;
        Ok(listed.iter().any(|one| one.is_named(container)))
    }

    async fn list(&self, filters: &serde_json::Value) -> Result<Vec<Listed>, EngineError> {
        let filters = filters.to_string();
        let path = format!("/containers/json{}", query(&[("all", "true"), ("filters", &filters)]));
        within(self.budget, self.transport.get(&path)).await
    }

    /// Boxed: what the client library holds in its futures is large, and callers nest them.
    fn bounded<'a, T: 'a>(
        &'a self,
        exchange: impl Future<Output = Result<T, bollard::errors::Error>> + Send + 'a,
    ) -> Pin<Box<dyn Future<Output = Result<T, EngineError>> + Send + 'a>> {
        Box::pin(within(self.budget, async { exchange.await.map_err(EngineError::from) }))
    }
}

async fn within<T>(budget: Duration, exchange: impl Future<Output = Result<T, EngineError>>) -> Result<T, EngineError> {
    tokio::time::timeout(budget, exchange)
        .await
        .unwrap_or(Err(EngineError::Timeout { budget }))
}

/// The platform as image inspection wants it: the JSON object of an OCI platform.
fn platform_object(platform: &str) -> String {
    let mut parts = platform.splitn(3, '/');
    let mut object = serde_json::Map::new();
    for name in ["os", "architecture", "variant"] {
        if let Some(part) = parts.next() {
            object.insert(name.to_owned(), part.into());
        }
    }
    serde_json::Value::Object(object).to_string()
}

fn query(pairs: &[(&str, &str)]) -> String {
    let mut query = url::form_urlencoded::Serializer::new("?".to_owned());
    query.extend_pairs(pairs);
    query.finish()
}

/// Whether `text` is what the engine calls a container: 64 lower-case hex digits.
pub fn is_container_id(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests;
