//! The clients file: who may call, by fingerprint only.
//!
//! The parser is strict where JSON libraries are kind: a repeated or unknown member, a null in place of a list, a
//! number with a fraction, a byte-order mark or anything after the object is an error, so a file never means less than
//! its author thinks. Errors name the place and never repeat a fingerprint, which may be a token pasted by mistake.

use std::collections::HashSet;
use std::fmt;
use std::io::Read as _;
use std::path::Path;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

/// Largest file read, in bytes; some 80,000 callers.
const MAX_BYTES: u64 = 16 * 1024 * 1024;

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
    /// A directory, device, socket or pipe.
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
    /// The JSON is good and a rule of the registry is not met.
    #[error("{place}: {problem}")]
    Rule {
        /// Such as `clients[2].scopes[0]`.
        place: String,
        /// The rule, and what is wrong.
        problem: &'static str,
    },
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
    /// The first problem found.
    pub fn load(path: &Path) -> Result<Self, ClientsError> {
        use std::os::unix::fs::PermissionsExt as _;

        // Looked at before it is opened: opening a pipe would wait for a writer.
        if !fs_err::metadata(path)?.is_file() {
            return Err(ClientsError::NotRegular);
        }
        let file = fs_err::File::open(path)?;
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(ClientsError::NotRegular);
        }
        let mut bytes = Vec::new();
        file.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > MAX_BYTES {
            return Err(ClientsError::TooLarge);
        }
        let clients = parse(&bytes)?;
        Ok(Self {
            clients,
            writable_by_others: metadata.permissions().mode() & 0o022 != 0,
        })
    }
}

/// Parses and validates a registry. An empty list of callers is a registry; the daemon refuses it, the editor does not.
///
/// # Errors
/// The first problem found, in file order.
pub fn parse(bytes: &[u8]) -> Result<Vec<Client>, ClientsError> {
    let Json::Object(root) = read_json(bytes)? else {
        return Err(ClientsError::Whole("must be a JSON object"));
    };
    let mut list = None;
    for (name, value) in root {
        match name.as_str() {
            "clients" => list = Some(value),
            _ => return Err(ClientsError::Whole("has a member other than `clients`")),
        }
    }
    let Some(Json::Array(list)) = list else {
        return rule("clients", "must be present and an array of objects");
    };
    let mut clients = Vec::with_capacity(list.len());
    let (mut ids, mut fingerprints) = (HashSet::new(), HashSet::new());
    for (index, entry) in list.into_iter().enumerate() {
        let place = format!("clients[{index}]");
        let client = read_client(entry, &place)?;
        if !ids.insert(client.id.clone()) {
            return rule(
                format!("{place}.id"),
                "is the id of another caller too; ids are unique after trimming",
            );
        }
        if !fingerprints.insert(client.token_sha256) {
            return rule(
                format!("{place}.token_sha256"),
                "is shared with another caller; one token names one caller",
            );
        }
        clients.push(client);
    }
    Ok(clients)
}

fn read_client(entry: Json, place: &str) -> Result<Client, ClientsError> {
    let Json::Object(members) = entry else {
        return rule(place, "must be an object");
    };
    let (mut id, mut fingerprint, mut scopes, mut allowance) = (None, None, Vec::new(), 0);
    for (name, value) in members {
        match name.as_str() {
            "id" => id = Some(read_id(value, &format!("{place}.id"))?),
            "token_sha256" => fingerprint = Some(read_fingerprint(value, &format!("{place}.token_sha256"))?),
            "scopes" => scopes = read_scopes(value, &format!("{place}.scopes"))?,
            "paid_seconds_per_day" => match value {
                Json::Count(seconds) => allowance = seconds,
                _ => return rule(format!("{place}.{name}"), "must be a whole number of at least 0"),
            },
            _ => {
                return rule(
                    place,
                    "has a member other than `id`, `token_sha256`, `scopes`, `paid_seconds_per_day`; names are \
                     case-sensitive",
                );
            }
        }
    }
    match (id, fingerprint) {
        (Some(id), Some(token_sha256)) => Ok(Client {
            id,
            token_sha256,
            scopes,
            paid_seconds_per_day: allowance,
        }),
        (None, _) => rule(place, "has no `id`"),
        (_, None) => rule(place, "has no `token_sha256`"),
    }
}

fn read_id(value: Json, place: &str) -> Result<String, ClientsError> {
    let Json::Text(text) = value else {
        return rule(place, "must be a string");
    };
    let id = text.trim();
    match super::principal::check_identity(id) {
        Ok(()) => Ok(id.to_owned()),
        Err(problem) => rule(place, problem),
    }
}

fn read_fingerprint(value: Json, place: &str) -> Result<[u8; 32], ClientsError> {
    const RULE: &str = "must be the SHA-256 of the token as exactly 64 hex digits";
    let Json::Text(text) = value else {
        return rule(place, RULE);
    };
    let digits = text.trim().as_bytes();
    let mut digest = [0; 32];
    if digits.len() != 2 * digest.len() {
        return rule(place, RULE);
    }
    for (byte, pair) in digest.iter_mut().zip(digits.chunks_exact(2)) {
        match (hex(pair[0]), hex(pair[1])) {
            (Some(high), Some(low)) => *byte = high << 4 | low,
            _ => return rule(place, RULE),
        }
    }
    Ok(digest)
}

fn read_scopes(value: Json, place: &str) -> Result<Vec<String>, ClientsError> {
    let Json::Array(list) = value else {
        return rule(place, "must be an array of strings");
    };
    let mut scopes: Vec<String> = Vec::with_capacity(list.len());
    for (index, scope) in list.into_iter().enumerate() {
        let place = format!("{place}[{index}]");
        let Json::Text(scope) = scope else {
            return rule(place, "must be a string");
        };
        if scope.is_empty() || scope.contains(|c: char| c.is_whitespace() || c.is_control()) {
            return rule(
                place,
                "must not be empty and must hold no white space or control character",
            );
        }
        if scopes.contains(&scope) {
            return rule(place, "is repeated");
        }
        scopes.push(scope);
    }
    Ok(scopes)
}

const fn hex(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}

fn rule<T>(place: impl Into<String>, problem: &'static str) -> Result<T, ClientsError> {
    Err(ClientsError::Rule {
        place: place.into(),
        problem,
    })
}

/// What a repeated member is reported as from inside the JSON reader.
const REPEATED: &str = "repeated member";

fn read_json(bytes: &[u8]) -> Result<Json, ClientsError> {
    if bytes.starts_with(b"\xef\xbb\xbf") {
        return Err(ClientsError::Syntax {
            line: 1,
            column: 1,
            problem: "starts with a byte-order mark",
        });
    }
    // The library's own message may quote the input, so only its place and kind are used.
    serde_json::from_slice(bytes).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        match error.classify() {
            serde_json::error::Category::Eof => ClientsError::Syntax {
                line,
                column,
                problem: "ends too early",
            },
            serde_json::error::Category::Data if error.to_string().starts_with(REPEATED) => {
                ClientsError::Repeated { line, column }
            }
            _ => ClientsError::Syntax {
                line,
                column,
                problem: "unexpected text",
            },
        }
    })
}

/// A JSON value with its members in order and none repeated. Numbers that are no count are kept as just that.
enum Json {
    Null,
    Bool,
    Count(u64),
    OtherNumber,
    Text(String),
    Array(Vec<Json>),
    Object(Vec<(String, Json)>),
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(JsonVisitor)
    }
}

struct JsonVisitor;

impl<'de> Visitor<'de> for JsonVisitor {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Json, E> {
        Ok(Json::Bool)
    }

    fn visit_u64<E>(self, value: u64) -> Result<Json, E> {
        Ok(Json::Count(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Json, E> {
        Ok(u64::try_from(value).map_or(Json::OtherNumber, Json::Count))
    }

    fn visit_f64<E>(self, _: f64) -> Result<Json, E> {
        Ok(Json::OtherNumber)
    }

    fn visit_str<E>(self, value: &str) -> Result<Json, E> {
        Ok(Json::Text(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Json, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = list.next_element()? {
            values.push(value);
        }
        Ok(Json::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Json, A::Error> {
        let mut members: Vec<(String, Json)> = Vec::new();
        let mut names = HashSet::new();
        while let Some(name) = object.next_key::<String>()? {
            if !names.insert(name.clone()) {
                return Err(serde::de::Error::custom(REPEATED));
            }
            members.push((name, object.next_value()?));
        }
        Ok(Json::Object(members))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    const B: &str = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";

    fn error(text: &str) -> String {
        parse(text.as_bytes()).unwrap_err().to_string()
    }

    fn one(members: &str) -> String {
        format!("{{\"clients\":[{{{members}}}]}}")
    }

    #[test]
    fn a_registry_is_one_object_with_one_list() {
        for text in [
            "null",
            "{}",
            "[]",
            "{\"clients\":null}",
            "{\"clients\":{}}",
            "{\"clients\":[]} {}",
            "{\"clients\":[]}x",
            "{\"clients\":[],\"unexpected\":true}",
            "{\"Clients\":[]}",
            "{\"clients\":[],\"clients\":[]}",
            "\u{feff}{\"clients\":[]}",
            "{\"clients\":[[]]}",
            "{\"clients\":[null]}",
            "{\"clients\":[",
            "",
        ] {
            assert!(parse(text.as_bytes()).is_err(), "{text:?}");
        }
        assert!(parse(b"{\"clients\":[\xff]}").is_err());
        assert_eq!(parse(b" {\"clients\":[]}\n").unwrap(), []);
    }

    #[test]
    fn a_problem_is_said_of_the_file_or_of_a_place_in_it() {
        for (text, told) in [
            ("[]", "the file must be a JSON object"),
            ("{\"callers\":[]}", "the file has a member other than `clients`"),
            ("{\"clients\":{}}", "clients: must be present and an array of objects"),
            ("{\"clients\":[1]}", "clients[0]: must be an object"),
            ("{", "the file is not valid JSON (line 1, column 1): ends too early"),
        ] {
            assert_eq!(error(text), told);
        }
    }

    #[test]
    fn an_id_is_trimmed_and_a_fingerprint_lowered() {
        let text = one(&format!(
            "\"id\":\" caller \",\"token_sha256\":\" {} \",\"scopes\":[\"code:run\"]",
            A.to_uppercase()
        ));
        let clients = parse(text.as_bytes()).unwrap();
        assert_eq!(
            clients,
            [Client {
                id: "caller".to_owned(),
                token_sha256: [0xaa; 32],
                scopes: vec!["code:run".to_owned()],
                paid_seconds_per_day: 0
            }]
        );
    }

    #[test]
    fn a_bad_id_is_refused() {
        for id in ["a\\u0000b", "*", " * ", "", "  ", "a\\nb", "a\\u0085b"] {
            let error = error(&one(&format!("\"id\":\"{id}\",\"token_sha256\":\"{A}\"")));
            assert!(error.starts_with("clients[0].id: "), "{error}");
        }
        assert!(error(&one("\"id\":7,\"token_sha256\":\"x\"")).starts_with("clients[0].id: "));
        assert_eq!(
            error(&one(&format!("\"token_sha256\":\"{A}\""))),
            "clients[0]: has no `id`"
        );
        assert_eq!(error(&one("\"id\":\"a\"")), "clients[0]: has no `token_sha256`");
        let twice = format!(
            "{{\"clients\":[{{\"id\":\"a\",\"token_sha256\":\"{A}\"}},{{\"id\":\" a\",\"token_sha256\":\"{B}\"}}]}}"
        );
        assert!(error(&twice).starts_with("clients[1].id: "), "{}", error(&twice));
    }

    #[test]
    fn a_bad_fingerprint_is_refused_and_never_shown() {
        for fingerprint in [&A[1..], &format!("{A}0"), &A.replace("aa", "ag"), "hunter2", ""] {
            let error = error(&one(&format!("\"id\":\"a\",\"token_sha256\":\"{fingerprint}\"")));
            assert!(error.starts_with("clients[0].token_sha256: "), "{error}");
            assert!(fingerprint.is_empty() || !error.contains(fingerprint), "{error}");
        }
        let shared = format!(
            "{{\"clients\":[{{\"id\":\"a\",\"token_sha256\":\"{A}\"}},{{\"id\":\"b\",\"token_sha256\":\"{}\"}}]}}",
            A.to_uppercase()
        );
        assert!(error(&shared).starts_with("clients[1].token_sha256: "));
    }

    #[test]
    fn bad_scopes_are_refused() {
        for scopes in [
            "[\"\"]",
            "[\"code:run other\"]",
            "[\"a\",\"a\"]",
            "[\"a\\u0007\"]",
            "[1]",
            "null",
            "\"a\"",
        ] {
            let error = error(&one(&format!(
                "\"id\":\"a\",\"token_sha256\":\"{A}\",\"scopes\":{scopes}"
            )));
            assert!(error.starts_with("clients[0].scopes"), "{error}");
        }
    }

    #[test]
    fn an_allowance_is_a_whole_number_that_is_not_negative() {
        for allowance in ["-1", "1.5", "1e3", "null", "\"60\"", "18446744073709551616"] {
            let error = error(&one(&format!(
                "\"id\":\"a\",\"token_sha256\":\"{A}\",\"paid_seconds_per_day\":{allowance}"
            )));
            assert!(error.starts_with("clients[0].paid_seconds_per_day: "), "{error}");
        }
        let text = one(&format!(
            "\"id\":\"a\",\"token_sha256\":\"{A}\",\"paid_seconds_per_day\":3600"
        ));
        assert_eq!(parse(text.as_bytes()).unwrap()[0].paid_seconds_per_day, 3600);
    }

    #[test]
    fn members_are_known_unrepeated_and_case_sensitive() {
        for extra in ["\"Id\":\"b\"", "\"token\":\"x\"", "\"ID\":1"] {
            let error = error(&one(&format!("\"id\":\"a\",\"token_sha256\":\"{A}\",{extra}")));
            assert!(error.starts_with("clients[0]: has a member other than"), "{error}");
        }
        let repeated = error(&one(&format!("\"id\":\"a\",\"token_sha256\":\"{A}\",\"id\":\"b\"")));
        assert!(repeated.starts_with("the file repeats a member"), "{repeated}");
    }

    #[test]
    fn only_a_regular_file_of_bounded_size_is_read() {
        use std::os::unix::fs::{PermissionsExt as _, symlink};

        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("clients.json");
        assert!(matches!(ClientsFile::load(&path), Err(ClientsError::Missing)));
        assert!(matches!(
            ClientsFile::load(folder.path()),
            Err(ClientsError::NotRegular)
        ));
        assert!(matches!(
            ClientsFile::load(Path::new("/dev/null")),
            Err(ClientsError::NotRegular)
        ));
        fs_err::write(&path, vec![b' '; usize::try_from(MAX_BYTES).unwrap() + 1]).unwrap();
        assert!(matches!(ClientsFile::load(&path), Err(ClientsError::TooLarge)));
        fs_err::write(&path, "{\"clients\":[]}").unwrap();
        for (mode, writable) in [(0o600, false), (0o644, false), (0o620, true), (0o602, true)] {
            fs_err::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(
                ClientsFile::load(&path).unwrap().writable_by_others,
                writable,
                "{mode:o}"
            );
        }
        let link = folder.path().join("link.json");
        symlink(&path, &link).unwrap();
        assert!(ClientsFile::load(&link).unwrap().clients.is_empty());
    }
}
