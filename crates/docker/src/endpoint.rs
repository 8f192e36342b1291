//! Where the engine is: found once, local or refused.
//!
//! The docker client's configuration is read for this and nothing else; what else it sets must never reach a container.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use plimsoll_core::vars::{Kind, Lookup, SettingError, Var};
use serde::Deserialize;
use sha2::{Digest as _, Sha256};

/// The engine's socket where nothing else is said.
const DEFAULT_SOCKET: &str = "/var/run/docker.sock";

/// The largest client file that is read.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// The context that means the default socket.
const DEFAULT_CONTEXT: &str = "default";

const HOST: Var = Var::new(
    "DOCKER_HOST",
    Kind::Text,
    "",
    "The engine's socket, as unix:///path or /path; a remote engine is refused. Unset, the docker client's context, then /var/run/docker.sock.",
)
.read_by("docker");

const CONTEXT: Var = Var::new(
    "DOCKER_CONTEXT",
    Kind::Text,
    "",
    "The docker client's context whose engine is used; unset, its saved current one.",
)
.read_by("docker");

const CONFIG: Var = Var::new(
    "DOCKER_CONFIG",
    Kind::Path,
    "",
    "Folder of the docker client's configuration, read for the engine's socket only; unset, .docker in HOME.",
)
.read_by("docker");

const HOME: Var = Var::new(
    "HOME",
    Kind::Path,
    "",
    "Where the docker client's configuration is looked for when DOCKER_CONFIG is unset.",
)
.read_by("docker");

const RUNTIME_DIR: Var = Var::new(
    "XDG_RUNTIME_DIR",
    Kind::Path,
    "",
    "Where a rootless engine's docker.sock is looked for when nothing names a socket and /var/run/docker.sock is absent.",
)
.read_by("docker");

/// The variables of the docker client that are read here.
pub const VARS: &[Var] = &[HOST, CONTEXT, CONFIG, HOME, RUNTIME_DIR];

/// What says where the engine is, as it stood at start-up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientConfig {
    /// `DOCKER_HOST`.
    pub host: Option<String>,
    /// `DOCKER_CONTEXT`.
    pub context: Option<String>,
    /// The folder of the client's configuration.
    pub folder: Option<PathBuf>,
    /// Folder of the user's runtime files.
    pub runtime_dir: Option<PathBuf>,
}

/// A local engine's socket.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Endpoint(PathBuf);

/// The engine cannot be found, or is not local.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    /// Brokers and teardown need the engine on this host.
    #[error(
        "the engine is at {address:?} ({source_name}), which is not a local Unix socket; set DOCKER_HOST=unix:///path/to/docker.sock"
    )]
    Remote {
        /// The address.
        address: String,
        /// Who says so.
        source_name: String,
    },
    /// The context that is asked for does not exist.
    #[error(
        "the docker context {name:?} does not exist; set DOCKER_CONTEXT to one that does, or DOCKER_HOST to the engine's socket"
    )]
    NoContext {
        /// Its name.
        name: String,
    },
    /// A file of the client's configuration cannot be used.
    #[error("{}: {problem}; repair it, or set DOCKER_HOST to the engine's socket", path.display())]
    Client {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
}

impl ClientConfig {
    /// Reads the variables; no file yet.
    ///
    /// # Errors
    /// A value that is not UTF-8, or a `DOCKER_HOST` that is no socket of this host.
    pub fn read(lookup: &dyn Lookup) -> Result<Self, SettingError> {
        let own = |var: &Var| Ok::<_, SettingError>(var.text(lookup)?.map(str::to_owned));
        let folder = match own(&CONFIG)? {
            Some(folder) => Some(PathBuf::from(folder)),
            None => own(&HOME)?.map(|home| Path::new(&home).join(".docker")),
        };
        let settings = Self {
            host: own(&HOST)?,
            context: own(&CONTEXT)?,
            folder,
            runtime_dir: own(&RUNTIME_DIR)?.map(PathBuf::from),
        };
        if settings.host.is_some() {
            settings.check()?;
        }
        Ok(settings)
    }

    /// Whether a socket of this host is named at all, as far as variables and files tell; nothing is pinned, and nobody is
    /// asked whether anything answers there.
    ///
    /// # Errors
    /// As [`ClientConfig::resolve`], with the variable that has to change.
    pub fn check(&self) -> Result<(), SettingError> {
        let Err(error) = self.resolve() else { return Ok(()) };
        let socket = "set DOCKER_HOST to the engine's socket, as unix:///path";
        Err(match (error, &self.context) {
            (EndpointError::Remote { address, .. }, _) if self.host.is_some() => HOST.unusable(
                address,
                "names no Unix socket of this host, and a remote engine cannot prove its limits here",
                "set it to unix:///path or /path, or unset it",
            ),
            (EndpointError::Remote { address, .. }, Some(context)) => CONTEXT.unusable(
                context,
                format!("its engine is at {address:?}, which is no Unix socket of this host"),
                format!("set it to a context of this host, or {socket}"),
            ),
            (EndpointError::Remote { address, source_name }, None) => HOST.hidden(
                format!("unset, and {source_name} has its engine at {address:?}, which is no Unix socket of this host"),
                socket,
            ),
            (EndpointError::NoContext { .. }, Some(context)) => CONTEXT.unusable(
                context,
                "there is no docker context of this name",
                format!("set it to one that there is, or {socket}"),
            ),
            (EndpointError::NoContext { name }, None) => HOST.hidden(
                format!("unset, and the docker client's current context {name:?} does not exist"),
                socket,
            ),
            (EndpointError::Client { path, problem }, _) => HOST.hidden(
                format!("unset, and {} cannot be used: {problem}", path.display()),
                format!("repair the file, or {socket}"),
            ),
        })
    }

    /// Finds the engine's socket: `DOCKER_HOST`, else the context of `DOCKER_CONTEXT`, else the saved current context,
    /// else the default socket.
    ///
    /// # Errors
    /// A remote engine, a context that does not exist, or a client file that cannot be read.
    pub fn resolve(&self) -> Result<Endpoint, EndpointError> {
        if let Some(host) = &self.host {
            return self.local(host, "DOCKER_HOST");
        }
        let saved = match &self.context {
            Some(_) => None,
            None => self.current_context()?,
        };
        match self.context.as_ref().or(saved.as_ref()) {
            Some(name) if name != DEFAULT_CONTEXT => {
                self.local(&self.context_host(name)?, &format!("docker context {name:?}"))
            }
            _ => Ok(self.default_socket()),
        }
    }

    fn local(&self, address: &str, source_name: &str) -> Result<Endpoint, EndpointError> {
        let address = address.trim();
        if address.is_empty() {
            return Ok(self.default_socket());
        }
        let path = address.strip_prefix("unix://").unwrap_or(address);
        if Path::new(path).is_absolute() {
            Ok(Endpoint(PathBuf::from(path)))
        } else {
            Err(EndpointError::Remote {
                address: without_secrets(address),
                source_name: source_name.to_owned(),
            })
        }
    }

    fn default_socket(&self) -> Endpoint {
        let rootless = self.runtime_dir.as_ref().map(|folder| folder.join("docker.sock"));
        match rootless {
            Some(rootless) if !Path::new(DEFAULT_SOCKET).exists() && rootless.exists() => Endpoint(rootless),
            _ => Endpoint(PathBuf::from(DEFAULT_SOCKET)),
        }
    }

    fn current_context(&self) -> Result<Option<String>, EndpointError> {
        #[derive(Deserialize)]
        struct Config {
            #[serde(rename = "currentContext", default)]
            current_context: String,
        }
        let Some(folder) = &self.folder else { return Ok(None) };
        let config: Option<Config> = parse(&folder.join("config.json"))?;
        Ok(config
            .map(|config| config.current_context)
            .filter(|name| !name.is_empty()))
    }

    fn context_host(&self, name: &str) -> Result<String, EndpointError> {
        #[derive(Deserialize)]
        struct Meta {
            #[serde(rename = "Endpoints", default)]
            endpoints: std::collections::BTreeMap<String, MetaEndpoint>,
        }
        #[derive(Deserialize)]
        struct MetaEndpoint {
            #[serde(rename = "Host", default)]
            host: String,
        }
        let missing = || EndpointError::NoContext { name: name.to_owned() };
        let folder = self.folder.as_ref().ok_or_else(missing)?;
        let mut digest = String::with_capacity(64);
        for byte in Sha256::digest(name.as_bytes()) {
            let _ = write!(digest, "{byte:02x}");
        }
        let meta: Option<Meta> = parse(&folder.join("contexts/meta").join(digest).join("meta.json"))?;
        let mut meta = meta.ok_or_else(missing)?;
        Ok(meta.endpoints.remove("docker").ok_or_else(missing)?.host)
    }
}

impl Endpoint {
    /// The socket's path.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl From<PathBuf> for Endpoint {
    fn from(path: PathBuf) -> Self {
        Self(path)
    }
}

impl std::fmt::Display for Endpoint {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "unix://{}", self.0.display())
    }
}

/// The file's content, or `None` when there is no such file.
fn parse<T: serde::de::DeserializeOwned>(path: &Path) -> Result<Option<T>, EndpointError> {
    let failed = |problem: String| EndpointError::Client {
        path: path.to_owned(),
        problem,
    };
    match fs_err::metadata(path) {
        Ok(metadata) if !metadata.is_file() => return Err(failed("not a regular file".to_owned())),
        Ok(metadata) if metadata.len() > MAX_FILE_BYTES => {
            return Err(failed(format!("larger than {MAX_FILE_BYTES} bytes")));
        }
        Ok(_) => {}
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error.to_string())),
    }
    let text = fs_err::read(path).map_err(|error| failed(error.to_string()))?;
    // The message of the parser names a place, never the content: the file may hold credentials.
    let parsed = serde_json::from_slice(&text).map_err(|error| {
        failed(format!(
            "not the JSON of a docker client (line {}, column {})",
            error.line(),
            error.column()
        ))
    })?;
    Ok(Some(parsed))
}

/// The address as it may be shown: without user and password, query and fragment. Of one that does not show where its
/// password ends, the scheme alone.
fn without_secrets(address: &str) -> String {
    let (scheme, rest) = match address.split_once("://") {
        Some((scheme, rest)) => (format!("{scheme}://"), rest),
        None => (String::new(), address),
    };
    let (place, query) = rest.split_at(rest.find(['?', '#']).unwrap_or(rest.len()));
    let shown = match place.rsplit_once('@') {
        _ if query.contains('@') => "",
        None => place,
        Some((user, _)) if user.contains('/') => "",
        Some((_, host)) => host,
    };
    format!("{scheme}{shown}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A client folder whose current context is `current`, with one context of the given name and address.
    fn client(current: &str, context: &str, host: &str) -> (tempfile::TempDir, ClientConfig) {
        let folder = tempfile::tempdir().unwrap();
        let config = serde_json::json!({
            "currentContext": current,
            "proxies": { "default": { "httpProxy": "http://user:secret@proxy:3128" } },
        });
        fs_err::write(folder.path().join("config.json"), config.to_string()).unwrap();
        let digest = Sha256::digest(context.as_bytes())
            .iter()
            .fold(String::new(), |mut text, byte| {
                write!(text, "{byte:02x}").unwrap();
                text
            });
        let meta = folder.path().join("contexts/meta").join(digest);
        fs_err::create_dir_all(&meta).unwrap();
        let body = serde_json::json!({ "Name": context, "Endpoints": { "docker": { "Host": host } } });
        fs_err::write(meta.join("meta.json"), body.to_string()).unwrap();
        let settings = ClientConfig {
            folder: Some(folder.path().to_owned()),
            ..ClientConfig::default()
        };
        (folder, settings)
    }

    fn of_host(host: &str) -> Result<Endpoint, EndpointError> {
        ClientConfig {
            host: Some(host.to_owned()),
            ..ClientConfig::default()
        }
        .resolve()
    }

    #[test]
    fn only_a_socket_on_this_host_is_accepted() {
        for local in ["", "unix:///var/run/docker.sock", "/var/run/docker.sock"] {
            assert_eq!(
                of_host(local).unwrap().path(),
                Path::new("/var/run/docker.sock"),
                "{local:?}"
            );
        }
        for remote in [
            "named-daemon",
            "tcp://10.0.0.1:2375",
            "ssh://host",
            "https://host:2376",
            "unix://docker.sock",
            "npipe:////./pipe/docker_engine",
        ] {
            assert!(matches!(of_host(remote), Err(EndpointError::Remote { .. })), "{remote}");
        }
    }

    #[test]
    fn an_address_is_shown_without_its_password() {
        for (address, shown) in [
            ("ssh://root:hunter2@host", "ssh://host"),
            ("root:hunter2@host", "host"),
            ("https://user:hunter2@h:1/?token=hunter2", "https://h:1/"),
            ("https://h:1?token=hunter2", "https://h:1"),
            ("https://h:1/v1#hunter2", "https://h:1/v1"),
            ("https://u:a/hunter2@h:1/x", "https://"),
            ("https://u:a?hunter2@h:1/x", "https://"),
            ("https://h:1/?mail=a@hunter2", "https://"),
            ("unix://run/docker.sock", "unix://run/docker.sock"),
            ("tcp://10.0.0.1:2375", "tcp://10.0.0.1:2375"),
            ("named-daemon", "named-daemon"),
        ] {
            let error = of_host(address).unwrap_err();
            assert!(!error.to_string().contains("hunter2"), "{error}");
            assert!(
                matches!(&error, EndpointError::Remote { address, .. } if address == shown),
                "{address}: {error}"
            );
        }
    }

    #[test]
    fn an_engine_that_cannot_be_found_is_told_with_the_variable_that_names_it() {
        let told = |settings: &ClientConfig| settings.check().unwrap_err().to_string();
        let (folder, mut settings) = client("far", "far", "ssh://root:hunter2@far");
        let saved = told(&settings);
        assert!(
            saved.starts_with("DOCKER_HOST: unset, and docker context \"far\""),
            "{saved}"
        );
        assert!(saved.contains("ssh://far") && !saved.contains("hunter2"), "{saved}");
        for (name, words) in [("far", "ssh://far"), ("nowhere", "no docker context of this name")] {
            settings.context = Some(name.to_owned());
            let named = told(&settings);
            assert!(
                named.starts_with(&format!("DOCKER_CONTEXT={name:?}: ")) && named.contains(words),
                "{named}"
            );
        }
        settings.context = None;
        fs_err::write(folder.path().join("config.json"), r#"{"currentContext":"gone"}"#).unwrap();
        assert!(told(&settings).contains("current context \"gone\" does not exist"));
        fs_err::write(folder.path().join("config.json"), "{").unwrap();
        assert!(told(&settings).contains("config.json cannot be used"));
        settings.host = Some("/x.sock".to_owned());
        assert_eq!(settings.check(), Ok(()));
    }

    #[test]
    fn the_host_wins_over_the_context_and_the_named_context_over_the_saved_one() {
        let (_folder, mut client) = client("remote", "local", "unix:///run/user/1/docker.sock");
        assert!(matches!(client.resolve(), Err(EndpointError::NoContext { name }) if name == "remote"));
        client.context = Some("local".to_owned());
        assert_eq!(client.resolve().unwrap().path(), Path::new("/run/user/1/docker.sock"));
        client.context = Some("default".to_owned());
        assert_eq!(client.resolve().unwrap().path(), Path::new(DEFAULT_SOCKET));
        client.host = Some("/x.sock".to_owned());
        assert_eq!(client.resolve().unwrap().path(), Path::new("/x.sock"));
    }

    #[test]
    fn a_saved_context_of_a_remote_engine_is_refused_and_an_empty_address_is_the_default() {
        let (_folder, client_settings) = client("far", "far", "ssh://far");
        assert!(matches!(client_settings.resolve(), Err(EndpointError::Remote { .. })));
        let (_folder, client_settings) = client("near", "near", "");
        assert_eq!(client_settings.resolve().unwrap().path(), Path::new(DEFAULT_SOCKET));
    }

    #[test]
    fn a_broken_client_file_is_named_and_never_quoted() {
        let (folder, client) = client("x", "x", "/x.sock");
        fs_err::write(folder.path().join("config.json"), "{\"auths\": \"hunter2\" ").unwrap();
        let error = client.resolve().unwrap_err().to_string();
        assert!(error.contains("config.json") && !error.contains("hunter2"), "{error}");
    }

    #[test]
    fn without_a_client_the_default_socket_holds_unless_only_a_rootless_one_exists() {
        let folder = tempfile::tempdir().unwrap();
        let client = ClientConfig {
            folder: Some(folder.path().join("absent")),
            runtime_dir: Some(folder.path().to_owned()),
            ..ClientConfig::default()
        };
        assert_eq!(client.resolve().unwrap().path(), Path::new(DEFAULT_SOCKET));
        fs_err::write(folder.path().join("docker.sock"), "").unwrap();
        let rootless = folder.path().join("docker.sock");
        let expected = if Path::new(DEFAULT_SOCKET).exists() {
            Path::new(DEFAULT_SOCKET)
        } else {
            &rootless
        };
        assert_eq!(client.resolve().unwrap().path(), expected);
    }
}
