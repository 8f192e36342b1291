//! The clients file: who may call, by fingerprint only.
//!
//! The parser is strict where JSON libraries are kind: a repeated or unknown member, a null in place of a list, a
//! number with a fraction, a byte-order mark or anything after the object is an error, so a file never means less than
//! its author thinks. Errors name the place and never repeat a fingerprint, which may be a token pasted by mistake.

use std::collections::HashSet;
use std::fmt;
use std::fs::Metadata;
use std::io::Read as _;
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use serde::Serialize;

use crate::check_identity;
use crate::json::{self, Json};

/// Largest file read, in bytes; some 80,000 callers.
pub const MAX_BYTES: usize = 16 * 1024 * 1024;

/// Most problems of one file that are kept; the others are counted.
const MAX_PROBLEMS: usize = 100;

/// One caller of the registry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Client {
    /// Its stable name: limiter key, audit name, owner of sessions.
    pub id: String,
    /// SHA-256 of its token.
    pub token_sha256: [u8; 32],
    /// What it may do; empty authenticates and allows nothing.
    pub scopes: Vec<String>,
    /// Seconds of paid time per day; 0 = no allowance of its own.
    pub paid_seconds_per_day: u64,
}

/// A registry as read, and what an operator should know about the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientsFile {
    /// The callers, in file order.
    pub clients: Vec<Client>,
    /// Whether group or others may write the file.
    pub writable_by_others: bool,
}

/// Why a clients file is refused.
#[derive(Debug, thiserror::Error)]
pub enum ClientsError {
    /// The file cannot be opened or read.
    #[error("the file cannot be read: {0}")]
    Unreadable(std::io::Error),
    /// There is none.
    #[error("the file does not exist")]
    Missing,
    /// A directory, device, socket or pipe; for the editor a symbolic link too.
    #[error("the file is not a regular file")]
    NotRegular,
    /// Over 16 MiB.
    #[error("the file is larger than {MAX_BYTES} bytes")]
    TooLarge,
    /// Not the JSON object it must be.
    #[error("the file is not valid JSON (line {line}, column {column}): {problem}")]
    Syntax {
        /// Counted from 1.
        line: usize,
        /// Counted from 1.
        column: usize,
        /// What is wrong there.
        problem: &'static str,
    },
    /// A member is repeated.
    #[error("the file repeats a member of one object (line {line}, column {column})")]
    Repeated {
        /// Counted from 1.
        line: usize,
        /// Counted from 1.
        column: usize,
    },
    /// The JSON is good, and the file as a whole breaks a rule of the registry.
    #[error("the file {0}")]
    Whole(&'static str),
    /// The JSON is good and rules of the registry are not met.
    #[error("{0}")]
    Rules(Problems),
}

/// A rule that is not met.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {problem}")]
pub struct Problem {
    /// Such as `clients[2].scopes[0]`.
    pub place: String,
    /// The rule, and what is wrong.
    pub problem: &'static str,
}

/// Every rule that is not met, in file order: at least one, and at most 100 of them by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Problems {
    named: Vec<Problem>,
    more: usize,
}

/// The first problem, and how many others there are.
impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(first) = self.named.first() {
            write!(f, "{first}")?;
        }
        match self.count() {
            ..2 => Ok(()),
            2 => f.write_str(" (and 1 more problem)"),
            count => write!(f, " (and {} more problems)", count - 1),
        }
    }
}

impl Problems {
    /// How many there are.
    pub fn count(&self) -> usize {
        self.named.len() + self.more
    }

    fn add(&mut self, place: impl Into<String>, problem: &'static str) {
        if self.named.len() == MAX_PROBLEMS {
            self.more += 1;
            return;
        }
        self.named.push(Problem {
            place: place.into(),
            problem,
        });
    }
}

impl ClientsError {
    /// How many problems this is.
    pub fn count(&self) -> usize {
        match self {
            Self::Rules(problems) => problems.count(),
            _ => 1,
        }
    }

    /// Every problem in words of its own, one a line.
    pub fn lines(&self) -> Vec<String> {
        let Self::Rules(Problems { named, more }) = self else {
            return vec![self.to_string()];
        };
        let mut lines: Vec<String> = named.iter().map(ToString::to_string).collect();
        if *more > 0 {
            lines.push(format!("and {more} more"));
        }
        lines
    }
}

impl From<std::io::Error> for ClientsError {
    fn from(error: std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::NotFound => Self::Missing,
            _ => Self::Unreadable(error),
        }
    }
}

impl ClientsFile {
    /// Reads and validates the file at `path`; a symbolic link is followed.
    ///
    /// # Errors
    /// The file cannot be used; of rules that are not met, all of them.
    pub fn load(path: &Path) -> Result<Self, ClientsError> {
        // Looked at before it is opened: that alone does something to a device.
        if !fs_err::metadata(path)?.is_file() {
            return Err(ClientsError::NotRegular);
        }
        Ok(open(path, OFlags::empty())?.0)
    }

    /// The same, and a symbolic link is refused: who edits a registry must know which file that is.
    ///
    /// # Errors
    /// As [`ClientsFile::load`]; a symbolic link is no regular file.
    pub fn load_itself(path: &Path) -> Result<Self, ClientsError> {
        Ok(load_itself(path)?.0)
    }

    fn from_open(file: std::fs::File) -> Result<(Self, Metadata), ClientsError> {
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(ClientsError::NotRegular);
        }
        let limit = u64::try_from(MAX_BYTES).unwrap_or(u64::MAX).saturating_add(1);
        let mut bytes = Vec::new();
        file.take(limit).read_to_end(&mut bytes)?;
        if bytes.len() > MAX_BYTES {
            return Err(ClientsError::TooLarge);
        }
        let file = Self {
            clients: parse(&bytes)?,
            writable_by_others: writable_by_others(&metadata),
        };
        Ok((file, metadata))
    }
}

/// The file and what the system knows of it; the path's last part is not followed.
pub(crate) fn load_itself(path: &Path) -> Result<(ClientsFile, Metadata), ClientsError> {
    if !fs_err::symlink_metadata(path)?.is_file() {
        return Err(ClientsError::NotRegular);
    }
    // What took its place meanwhile is not followed.
    open(path, OFlags::NOFOLLOW)
}

/// Whatever is there by now is not waited for: opening a pipe would wait for a writer.
fn open(path: &Path, how: OFlags) -> Result<(ClientsFile, Metadata), ClientsError> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | how;
    match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(file) => ClientsFile::from_open(file.into()),
        Err(rustix::io::Errno::LOOP) => Err(ClientsError::NotRegular),
        Err(error) => Err(std::io::Error::from(error).into()),
    }
}

fn writable_by_others(metadata: &Metadata) -> bool {
    use std::os::unix::fs::PermissionsExt as _;

    metadata.permissions().mode() & 0o022 != 0
}

/// The registry as a file: indented by two, a line end behind it. [`parse`] reads it back.
pub fn to_json(clients: &[Client]) -> Vec<u8> {
    #[derive(Serialize)]
    struct File<'a> {
        clients: Vec<Entry<'a>>,
    }

    #[derive(Serialize)]
    struct Entry<'a> {
        id: &'a str,
        token_sha256: String,
        scopes: &'a [String],
        #[serde(skip_serializing_if = "is_zero")]
        paid_seconds_per_day: u64,
    }

    fn is_zero(seconds: &u64) -> bool {
        *seconds == 0
    }

    let digits = |digest: &[u8; 32]| digest.iter().map(|byte| format!("{byte:02x}")).collect();
    let clients = clients
        .iter()
        .map(|client| Entry {
            id: &client.id,
            token_sha256: digits(&client.token_sha256),
            scopes: &client.scopes,
            paid_seconds_per_day: client.paid_seconds_per_day,
        })
        .collect();
    #[expect(clippy::expect_used, reason = "text, lists and numbers are JSON")]
    let mut bytes = serde_json::to_vec_pretty(&File { clients }).expect("text, lists and numbers");
    bytes.push(b'\n');
    bytes
}

/// Parses and validates a registry. An empty list of callers is a registry; the daemon refuses it, the editor does not.
///
/// # Errors
/// Why it is none; of rules that are not met, all of them.
pub fn parse(bytes: &[u8]) -> Result<Vec<Client>, ClientsError> {
    let Json::Object(root) = json::read(bytes)? else {
        return Err(ClientsError::Whole("must be a JSON object"));
    };
    let mut list = None;
    for (name, value) in root {
        match name.as_str() {
            "clients" => list = Some(value),
            _ => return Err(ClientsError::Whole("has a member other than `clients`")),
        }
    }
    let mut problems = Problems::default();
    let mut clients = Vec::new();
    if let Some(Json::Array(list)) = list {
        let (mut ids, mut fingerprints) = (HashSet::new(), HashSet::new());
        for (index, entry) in list.into_iter().enumerate() {
            let place = format!("clients[{index}]");
            let Read { id, token_sha256, rest } = read_client(entry, &place, &mut problems);
            if let Some(id) = &id
                && !ids.insert(id.clone())
            {
                problems.add(
                    format!("{place}.id"),
                    "is the id of another caller too; ids are unique after trimming",
                );
            }
            if let Some(fingerprint) = token_sha256
                && !fingerprints.insert(fingerprint)
            {
                problems.add(
                    format!("{place}.token_sha256"),
                    "is shared with another caller; one token names one caller",
                );
            }
            if let (Some(id), Some(token_sha256)) = (id, token_sha256) {
                let (scopes, paid_seconds_per_day) = rest;
                clients.push(Client {
                    id,
                    token_sha256,
                    scopes,
                    paid_seconds_per_day,
                });
            }
        }
    } else {
        problems.add("clients", "must be present and an array of objects");
    }
    if problems.count() == 0 {
        Ok(clients)
    } else {
        Err(ClientsError::Rules(problems))
    }
}

/// What can be read of one entry, however much of it breaks a rule.
#[derive(Default)]
struct Read {
    id: Option<String>,
    token_sha256: Option<[u8; 32]>,
    rest: (Vec<String>, u64),
}

fn read_client(entry: Json, place: &str, problems: &mut Problems) -> Read {
    let mut read = Read::default();
    let Json::Object(members) = entry else {
        problems.add(place, "must be an object");
        return read;
    };
    let (mut has_id, mut has_fingerprint) = (false, false);
    for (name, value) in members {
        match name.as_str() {
            "id" => {
                has_id = true;
                read.id = read_id(&value, &format!("{place}.id"), problems);
            }
            "token_sha256" => {
                has_fingerprint = true;
                read.token_sha256 = read_fingerprint(&value);
                if read.token_sha256.is_none() {
                    problems.add(
                        format!("{place}.token_sha256"),
                        "must be the SHA-256 of the token as exactly 64 hex digits",
                    );
                }
            }
            "scopes" => read.rest.0 = read_scopes(value, &format!("{place}.scopes"), problems),
            "paid_seconds_per_day" => match value {
                Json::Count(seconds) => read.rest.1 = seconds,
                _ => problems.add(format!("{place}.{name}"), "must be a whole number of at least 0"),
            },
            _ => problems.add(
                place,
                "has a member other than `id`, `token_sha256`, `scopes`, `paid_seconds_per_day`; names are \
                 case-sensitive",
            ),
        }
    }
    if !has_id {
        problems.add(place, "has no `id`");
    }
    if !has_fingerprint {
        problems.add(place, "has no `token_sha256`");
    }
    read
}

fn read_id(value: &Json, place: &str, problems: &mut Problems) -> Option<String> {
    let Json::Text(text) = value else {
        problems.add(place, "must be a string");
        return None;
    };
    let id = text.trim();
    match check_identity(id) {
        Ok(()) => Some(id.to_owned()),
        Err(problem) => {
            problems.add(place, problem);
            None
        }
    }
}

fn read_fingerprint(value: &Json) -> Option<[u8; 32]> {
    let Json::Text(text) = value else { return None };
    let digits = text.trim().as_bytes();
    let mut digest = [0; 32];
    if digits.len() != 2 * digest.len() {
        return None;
    }
    for (byte, pair) in digest.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = hex(pair[0])? << 4 | hex(pair[1])?;
    }
    Some(digest)
}

fn read_scopes(value: Json, place: &str, problems: &mut Problems) -> Vec<String> {
    let Json::Array(list) = value else {
        problems.add(place, "must be an array of strings");
        return Vec::new();
    };
    let mut seen = HashSet::new();
    let mut scopes = Vec::with_capacity(list.len());
    for (index, scope) in list.into_iter().enumerate() {
        let problem = match scope {
            Json::Text(scope) if !is_scope(&scope) => {
                "must not be empty and must hold no white space or control character"
            }
            Json::Text(scope) => {
                if seen.insert(scope.clone()) {
                    scopes.push(scope);
                    continue;
                }
                "is repeated"
            }
            _ => "must be a string",
        };
        problems.add(format!("{place}[{index}]"), problem);
    }
    scopes
}

fn is_scope(text: &str) -> bool {
    !text.is_empty() && !text.contains(|c: char| c.is_whitespace() || c.is_control())
}

const fn hex(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
