//! Routes, and the request targets they are compared with (spec 30 §2.2 and §7.3).
//!
//! One checker serves both. What it lets through has one spelling only: no escape, no dot segment, no empty segment and no
//! byte that a URL encoder would touch. So the text that was compared can be put on the request line as it is.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// Longest request target and longest pattern, in bytes: what common servers take on a request line.
pub const MAX_TARGET_BYTES: usize = 8_192;

/// The verbs a grant can allow. They order as listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Method {
    /// Read.
    Get,
    /// Replace.
    Put,
    /// Anything else.
    Post,
    /// Remove.
    Delete,
    /// Change in part.
    Patch,
}

impl Method {
    /// Every verb, in order.
    pub const ALL: [Self; 5] = [Self::Get, Self::Put, Self::Post, Self::Delete, Self::Patch];

    /// The upper-case verb of the request line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Put => "PUT",
            Self::Post => "POST",
            Self::Delete => "DELETE",
            Self::Patch => "PATCH",
        }
    }

    /// Reads a verb in any case from the bytes a guest sent; white space around it makes it none.
    pub fn from_bytes(text: &[u8]) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|method| text.eq_ignore_ascii_case(method.as_str().as_bytes()))
    }
}

impl FromStr for Method {
    type Err = RouteError;

    /// Reads a verb in any case; white space around it is refused.
    fn from_str(text: &str) -> Result<Self, RouteError> {
        Self::from_bytes(text.as_bytes()).ok_or(RouteError::Method)
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Why a route is none. The text never repeats what was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RouteError {
    /// Not a verb.
    #[error("the method must be GET, PUT, POST, DELETE or PATCH, without white space around it")]
    Method,
    /// Not a line of a method and a path.
    #[error("must be written as \"METHOD /path\": two words and nothing else")]
    Line,
    /// A path that cannot be a pattern.
    #[error("the path {0}")]
    Path(#[from] PathProblem),
}

/// What is wrong with a path, as the end of a sentence that starts with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathProblem {
    /// Empty or relative.
    #[error("must start with /")]
    NotAbsolute,
    /// Over [`MAX_TARGET_BYTES`].
    #[error("must be at most {MAX_TARGET_BYTES} bytes")]
    TooLong,
    /// A character that ends or bends a path.
    #[error("must hold no backslash, ?, # or control character; a query cannot be granted")]
    Forbidden,
    /// An escape.
    #[error("must hold no %; write the path unescaped")]
    Escape,
    /// An empty segment or a slash at the end.
    #[error("must have no empty segment and no / at the end")]
    EmptySegment,
    /// A segment made of dots.
    #[error("must have no segment that is made of dots only")]
    Dots,
    /// A path parameter.
    #[error("must hold no ;")]
    Semicolon,
    /// A byte outside the alphabet.
    #[error("may hold only letters, digits and - _ . ~ $ & + , : = @ / and, in a pattern, segments that are *")]
    Byte,
    /// A star beside something else.
    #[error("must have * as a whole segment, or not at all")]
    Star,
}

/// A method and a path pattern: one line of an allow list, a catalog or a batch relation.
///
/// Orders by the bytes of its path, then by its method. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Route {
    method: Method,
    path: Arc<str>,
}

impl Route {
    /// Checks a method, in any case, and a path pattern.
    ///
    /// # Errors
    /// The first rule it breaks.
    pub fn new(method: &str, path: &str) -> Result<Self, RouteError> {
        let method = method.parse()?;
        check(path.as_bytes())?;
        let mixed = |segment: &str| segment.contains('*') && segment != "*";
        if path.split('/').any(mixed) {
            return Err(PathProblem::Star.into());
        }
        Ok(Self {
            method,
            path: path.into(),
        })
    }

    /// Reads `METHOD /path`: exactly two words, separated by white space.
    ///
    /// # Errors
    /// [`RouteError::Line`], or the first rule the route breaks.
    pub fn parse_line(line: &str) -> Result<Self, RouteError> {
        let (method, path) = split_line(line)?;
        Self::new(method, path)
    }

    /// Its verb.
    pub const fn method(&self) -> Method {
        self.method
    }

    /// Its pattern, as written.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Whether a segment of it is `*`.
    pub fn is_wildcard(&self) -> bool {
        // A star stands alone in its segment, so any star is such a segment.
        self.path.contains('*')
    }

    /// Whether a call falls under this route: same method, same number of segments, each equal byte for byte or `*`
    /// against one that is not empty and holds no `:` (`/items/a:close` is another operation than `/items/a`).
    pub fn matches(&self, method: Method, target: Target<'_>) -> bool {
        self.method == method && self.covers(target, |pattern, segment| pattern == segment)
    }

    /// The segment rules of [`Route::matches`] with literal segments compared by `same`.
    pub(crate) fn covers(&self, target: Target<'_>, same: impl Fn(&str, &str) -> bool) -> bool {
        let (mut patterns, mut segments) = (self.path.split('/'), target.0.split('/'));
        loop {
            match (patterns.next(), segments.next()) {
                (None, None) => return true,
                (Some("*"), Some(segment)) if !segment.is_empty() && !segment.contains(':') => {}
                (Some(pattern), Some(segment)) if pattern != "*" && same(pattern, segment) => {}
                _ => return false,
            }
        }
    }
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.method, self.path)
    }
}

impl Ord for Route {
    fn cmp(&self, other: &Self) -> Ordering {
        (&self.path, self.method).cmp(&(&other.path, other.method))
    }
}

impl PartialOrd for Route {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Splits `METHOD /path` into its two words; the path is at least absolute.
pub(crate) fn split_line(line: &str) -> Result<(&str, &str), RouteError> {
    let mut words = line.split_whitespace();
    let (Some(method), Some(path), None) = (words.next(), words.next(), words.next()) else {
        return Err(RouteError::Line);
    };
    if path.starts_with('/') {
        Ok((method, path))
    } else {
        Err(PathProblem::NotAbsolute.into())
    }
}

/// A request target in its one spelling: the bytes that were approved and the bytes that go on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Target<'a>(&'a str);

/// A request target is not in its one spelling. The text never repeats it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the request path {0}")]
pub struct TargetError(PathProblem);

impl<'a> Target<'a> {
    /// Checks the raw target of a request line, before anything has decoded or cleaned it.
    ///
    /// # Errors
    /// The first rule it breaks.
    pub fn parse(raw: &'a [u8]) -> Result<Self, TargetError> {
        check(raw).map_err(TargetError)?;
        if raw.contains(&b'*') {
            return Err(TargetError(PathProblem::Byte));
        }
        match std::str::from_utf8(raw) {
            Ok(text) => Ok(Self(text)),
            Err(_) => Err(TargetError(PathProblem::Byte)),
        }
    }

    /// The target, byte for byte as it came in.
    pub const fn as_str(self) -> &'a str {
        self.0
    }
}

/// What patterns and targets share; stars are the callers' business.
fn check(path: &[u8]) -> Result<(), PathProblem> {
    let [b'/', rest @ ..] = path else {
        return Err(PathProblem::NotAbsolute);
    };
    if path.len() > MAX_TARGET_BYTES {
        return Err(PathProblem::TooLong);
    }
    if let Some(problem) = path.iter().find_map(|byte| refused(*byte)) {
        return Err(problem);
    }
    if rest.is_empty() {
        return Ok(());
    }
    for segment in rest.split(|byte| *byte == b'/') {
        if segment.is_empty() {
            return Err(PathProblem::EmptySegment);
        }
        if segment.iter().all(|byte| *byte == b'.') {
            return Err(PathProblem::Dots);
        }
    }
    Ok(())
}

/// Why a byte may not stand in a path.
const fn refused(byte: u8) -> Option<PathProblem> {
    match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' => None,
        b'-' | b'_' | b'.' | b'~' | b'$' | b'&' | b'+' | b',' | b':' | b'=' | b'@' | b'/' | b'*' => None,
        b'\\' | b'?' | b'#' | 0..0x20 | 0x7f => Some(PathProblem::Forbidden),
        b'%' => Some(PathProblem::Escape),
        b';' => Some(PathProblem::Semicolon),
        _ => Some(PathProblem::Byte),
    }
}
