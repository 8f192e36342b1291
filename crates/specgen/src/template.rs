//! Path templates: what route one is, and how its path is put together.

use plimsoll_grants::{Method, Route};

use crate::problem::quoted;

/// Most parameters of one path. Real ones have up to 8; their argument names grow with each other.
const MAX_PARAMETERS: usize = 64;

/// A part of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    Literal(String),
    /// The argument of this number.
    Argument(usize),
}

/// A path template that can be granted.
#[derive(Clone, Debug)]
pub(crate) struct Template<'d> {
    pub(crate) route: Route,
    pub(crate) pieces: Vec<Piece>,
    pub(crate) parameters: Vec<&'d str>,
}

impl<'d> Template<'d> {
    /// Reads the template of an operation and puts `prefix` before it.
    ///
    /// # Errors
    /// Why no grant can express it.
    pub(crate) fn new(method: Method, prefix: &str, path: &'d str) -> Result<Self, String> {
        if !path.starts_with('/') {
            return Err("the path must start with /".to_owned());
        }
        if path.contains(['?', '#']) {
            return Err("the path holds a query or a fragment, which a grant cannot allow".to_owned());
        }
        let mut pattern = prefix.to_owned();
        let mut literal = prefix.to_owned();
        let mut pieces = Vec::new();
        let mut parameters = Vec::new();
        for segment in path[1..].split('/') {
            pattern.push('/');
            literal.push('/');
            if segment.contains(['{', '}']) {
                let name = segment
                    .strip_prefix('{')
                    .and_then(|rest| rest.strip_suffix('}'))
                    .filter(|name| !name.is_empty() && !name.contains(['{', '}']))
                    .ok_or_else(|| format!("in {} a parameter must be a whole segment, {{name}}", quoted(segment)))?;
                pieces.push(Piece::Literal(std::mem::take(&mut literal)));
                pieces.push(Piece::Argument(parameters.len()));
                parameters.push(name);
                pattern.push('*');
            } else if segment == "*" {
                return Err("a segment * would be granted as a wildcard that no generated method calls".to_owned());
            } else {
                literal.push_str(segment);
                pattern.push_str(segment);
            }
        }
        if parameters.len() > MAX_PARAMETERS {
            return Err(format!("the path has more than {MAX_PARAMETERS} parameters"));
        }
        if !literal.is_empty() {
            pieces.push(Piece::Literal(literal));
        }
        let route = Route::new(method.as_str(), &pattern).map_err(|error| error.to_string())?;
        Ok(Self {
            route,
            pieces,
            parameters,
        })
    }
}
