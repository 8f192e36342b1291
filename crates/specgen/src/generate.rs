//! The one pass from a document to everything that can be emitted (spec 30 §12.2).

use std::collections::{BTreeMap, HashMap, HashSet};

use plimsoll_grants::{Method, Route};

use crate::document::{Document, Location, LookedAt, Operation, Parameters, Verb};
use crate::mark::{Health, Marks};
use crate::problem::{Problems, Refused, quoted, shortened};
use crate::template::{Piece, Template};
use crate::{name, server};

/// What to generate. The default is everything, for the global `host`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// The JavaScript global of the client; empty is `host`. Any text is safe.
    pub global: String,
    /// The only operations to look at, by their raw operationId. None is all of them.
    pub only: Option<Vec<String>>,
    /// Leave out, with a reason, what cannot be expressed; otherwise it is a problem.
    pub skip_unsupported: bool,
    /// What stands before every route.
    pub prefix: Prefix,
}

/// A path before every route.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Prefix {
    /// None.
    #[default]
    None,
    /// The path all `servers` share.
    Auto,
    /// This one; `/` is none.
    Path(String),
}

/// An operation that was left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skip {
    /// The operation as the document has it: `GET /path`.
    pub operation: String,
    /// Why.
    pub reason: String,
}

/// What one document yields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Generated {
    pub(crate) title: String,
    pub(crate) version: String,
    pub(crate) global: String,
    pub(crate) calls: Vec<Call>,
    pub(crate) operations: usize,
    pub(crate) allow: Vec<Route>,
    pub(crate) skipped: Vec<Skip>,
    pub(crate) warnings: Vec<String>,
    pub(crate) notes: Vec<String>,
    pub(crate) health: Health,
    pub(crate) batch_of: BTreeMap<Route, Vec<Route>>,
}

/// One generated method of the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) name: String,
    pub(crate) method: Method,
    /// As the document writes it, after the prefix.
    pub(crate) path: String,
    pub(crate) pieces: Vec<Piece>,
    /// `body` is the last one when there is a body.
    pub(crate) arguments: Vec<String>,
    pub(crate) has_body: bool,
    /// One line; may be empty.
    pub(crate) summary: String,
}

impl Generated {
    /// Operations of the document that were looked at: with [`Options::only`] those, otherwise all.
    pub fn operations(&self) -> usize {
        self.operations
    }

    /// Every route, once, sorted by path and then by method.
    pub fn allow(&self) -> &[Route] {
        &self.allow
    }

    /// Operations left out, in the order of their paths.
    pub fn skipped(&self) -> &[Skip] {
        &self.skipped
    }

    /// What the operator should know about operations that were generated.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// What the operator should know about the document.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// The probe the document marks.
    pub fn health_check(&self) -> Option<&Route> {
        match &self.health {
            Health::Probe(route) => Some(route),
            Health::Unset(_) => None,
        }
    }

    /// Batch routes and the routes one request to each replaces.
    pub fn batch_of(&self) -> &BTreeMap<Route, Vec<Route>> {
        &self.batch_of
    }
}

/// Generates everything from one OpenAPI 3 document in JSON or YAML. The same bytes and options give the same result.
///
/// # Errors
/// All problems of the document at once; then nothing is generated.
pub fn generate(document: &[u8], options: &Options) -> Result<Generated, Refused> {
    let mut problems = Problems::default();
    let document = Document::read(document, &mut problems)?;
    let mut malformed = Problems::default();
    let operations = document.operations(&mut malformed);
    let by_id = index(&operations);
    let chosen = match choose(&operations, &by_id, options) {
        Ok(chosen) => chosen,
        Err(unknown) => {
            problems.append(unknown);
            problems.append(malformed);
            return Err(problems.refused());
        }
    };
    if options.only.is_none() {
        problems.append(malformed);
    }
    let (prefix, notes) = prefix(&document, options, &mut problems);

    let mut pass = Pass {
        document: &document,
        options,
        prefix: &prefix,
        looked_at: LookedAt::default(),
        names: HashMap::new(),
        marks: Marks::default(),
        calls: Vec::new(),
        allow: Vec::new(),
        skipped: Vec::new(),
        warnings: Vec::new(),
        problems,
    };
    let mut fates = vec![Fate::NotChosen; operations.len()];
    for (operation, (fate, chosen)) in operations.iter().zip(fates.iter_mut().zip(&chosen)) {
        if *chosen {
            *fate = pass.operation(operation)?;
        }
    }
    let Pass {
        mut problems,
        marks,
        calls,
        mut allow,
        skipped,
        mut warnings,
        ..
    } = pass;
    let health = marks.health(&mut problems);
    let batch_of = marks.batch_of(&by_id, &operations, &fates, &mut warnings, &mut problems);
    if calls.is_empty() && problems.is_empty() {
        problems.push(
            "the document has no supported operations: every one was left out, for the reasons above; a grant needs one \
             that is GET, PUT, POST, DELETE or PATCH and requires no parameter outside its path",
        );
    }
    if !problems.is_empty() {
        return Err(problems.refused().with_skipped(skipped));
    }
    // By the text of the verb here; the order of verbs is that of the operations.
    allow.sort_by(|one, other| (one.path(), one.method().as_str()).cmp(&(other.path(), other.method().as_str())));
    allow.dedup();
    Ok(Generated {
        title: document.title,
        version: document.version,
        global: match options.global.as_str() {
            "" => "host".to_owned(),
            global => global.to_owned(),
        },
        calls,
        operations: chosen.iter().filter(|chosen| **chosen).count(),
        allow,
        skipped,
        warnings,
        notes,
        health,
        batch_of,
    })
}

/// What became of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// Not among [`Options::only`].
    NotChosen,
    Skipped,
    /// It has a problem, which is already named.
    Refused,
    Generated(Route),
}

/// The operations of each raw operationId.
pub(crate) type ById<'d> = HashMap<&'d str, Vec<usize>>;

fn index<'d>(operations: &[Operation<'d>]) -> ById<'d> {
    let mut by_id = ById::new();
    for (index, operation) in operations.iter().enumerate() {
        if let Some(id) = operation.id() {
            by_id.entry(id).or_default().push(index);
        }
    }
    by_id
}

/// Which operations to look at. With a choice, what is wrong elsewhere does not matter.
///
/// # Errors
/// Every chosen operationId that is none.
fn choose(operations: &[Operation<'_>], by_id: &ById<'_>, options: &Options) -> Result<Vec<bool>, Problems> {
    let Some(only) = &options.only else {
        return Ok(vec![true; operations.len()]);
    };
    let mut chosen = vec![false; operations.len()];
    let mut unknown = Problems::default();
    for id in only {
        match by_id.get(id.as_str()) {
            Some(indices) => indices.iter().for_each(|index| chosen[*index] = true),
            None => unknown.push(format!("-only names {id:?}, which is no operationId of the document")),
        }
    }
    if unknown.is_empty() { Ok(chosen) } else { Err(unknown) }
}

/// The prefix and what to say about it.
fn prefix(document: &Document, options: &Options, problems: &mut Problems) -> (String, Vec<String>) {
    let mut notes = Vec::new();
    let prefix = match &options.prefix {
        Prefix::None => {
            // Servers that cannot be read matter only to someone who asks for them.
            let paths = server::paths(document.servers()).unwrap_or_default();
            let named: Vec<String> = paths
                .iter()
                .filter(|path| !path.is_empty())
                .map(|path| format!("{path:?}"))
                .collect();
            if !named.is_empty() {
                let flags = if paths.len() == 1 {
                    "-prefix auto or -prefix PATH"
                } else {
                    "-prefix PATH"
                };
                notes.push(format!(
                    "servers have the path {}, and base_url is an origin; pass {flags} to put it before every route",
                    named.join(", ")
                ));
            }
            String::new()
        }
        Prefix::Auto => match server::shared_path(document.servers()) {
            Ok(path) => path,
            Err(problem) => {
                problems.push(problem);
                String::new()
            }
        },
        Prefix::Path(path) => path
            .strip_suffix('/')
            .filter(|rest| rest.is_empty())
            .unwrap_or(path)
            .to_owned(),
    };
    if !prefix.is_empty() {
        let fault = match Route::new("GET", &prefix) {
            Ok(route) if route.is_wildcard() => Some("it must hold no *".to_owned()),
            Ok(_) => None,
            Err(error) => Some(error.to_string()),
        };
        if let Some(fault) = fault {
            problems.push(format!("the prefix {prefix:?} cannot stand before a route: {fault}"));
            return (String::new(), notes);
        }
    }
    if options.prefix == Prefix::Auto {
        notes.push(match prefix.as_str() {
            "" => "servers have no path; no prefix was added".to_owned(),
            prefix => format!("the prefix {prefix:?} comes from servers"),
        });
    }
    (prefix, notes)
}

struct Pass<'d> {
    document: &'d Document,
    options: &'d Options,
    prefix: &'d str,
    looked_at: LookedAt,
    /// Each method name and the operation that has it.
    names: HashMap<String, String>,
    marks: Marks<'d>,
    calls: Vec<Call>,
    allow: Vec<Route>,
    skipped: Vec<Skip>,
    warnings: Vec<String>,
    problems: Problems,
}

impl<'d> Pass<'d> {
    fn operation(&mut self, operation: &Operation<'d>) -> Result<Fate, Refused> {
        let place = operation.place();
        let mut faults = Problems::default();
        let parameters = self.document.parameters(operation, &mut self.looked_at, &mut faults)?;
        let id = operation.text("operationId", &mut faults).filter(|id| !id.is_empty());
        let summary = operation.text("summary", &mut faults).unwrap_or_default();
        let batch_of = operation.batch_of(&mut self.looked_at, &mut faults)?;
        let is_health_probe = operation.is_health_probe(&mut faults);
        if !faults.is_empty() {
            self.problems.append(faults);
            // What else is wrong with it is named too; only the name may be among what was named already.
            if matches!(operation.verb, Verb::Granted(_))
                && let Err(reason) = Template::new(Method::Get, self.prefix, operation.path)
                && !self.options.skip_unsupported
            {
                self.problems.push(inexpressible(&place, &reason));
            }
            return Ok(Fate::Refused);
        }

        let outcome = self.express(operation, id, &parameters);
        let fate = match outcome {
            Ok((method, template, name)) => {
                self.warn(operation, &place, &parameters);
                let has_body =
                    matches!(method, Method::Put | Method::Post | Method::Patch) && operation.declares_body();
                let route = template.route.clone();
                self.allow.push(route.clone());
                self.calls.push(Call {
                    arguments: name::arguments(&template.parameters, has_body),
                    name,
                    method,
                    path: format!("{}{}", self.prefix, operation.path),
                    pieces: template.pieces,
                    has_body,
                    summary: name::one_line(summary),
                });
                Fate::Generated(route)
            }
            Err(Unfit::Skip(reason)) => self.skip(&place, reason),
            Err(Unfit::Inexpressible(reason)) if self.options.skip_unsupported => self.skip(&place, reason),
            Err(Unfit::Inexpressible(reason)) => {
                self.problems.push(inexpressible(&place, &reason));
                Fate::Refused
            }
        };
        if is_health_probe {
            self.marks.health_probe(operation, &fate, &mut self.problems);
        }
        self.marks.batch(operation, batch_of, &fate, &mut self.problems);
        Ok(fate)
    }

    /// Method, route and name of an operation, or why it has none.
    fn express(
        &mut self,
        operation: &Operation<'d>,
        id: Option<&str>,
        parameters: &Parameters<'d>,
    ) -> Result<(Method, Template<'d>, String), Unfit> {
        let method = match operation.verb {
            Verb::Granted(method) => method,
            Verb::Other(verb) => return Err(Unfit::Skip(format!("{verb} is no method a grant can allow"))),
        };
        let required = listed(parameters, true);
        if !required.is_empty() {
            return Err(Unfit::Skip(format!("requires {}", required.join(", "))));
        }
        let template = Template::new(method, self.prefix, operation.path);
        let name = match id {
            None => Err("operationId is missing; add one".to_owned()),
            Some(id) => name::method(id).and_then(|name| match self.names.get(&name) {
                None => Ok(name),
                Some(first) => Err(format!(
                    "operationId {id:?} collides with that of {}: both become {name}; rename one",
                    shortened(first)
                )),
            }),
        };
        match (template, name) {
            (Ok(template), Ok(name)) => {
                self.names.insert(name.clone(), operation.place());
                Ok((method, template, name))
            }
            (Err(one), Err(other)) => Err(Unfit::Inexpressible(format!("{one}; {other}"))),
            (Err(reason), Ok(_)) | (Ok(_), Err(reason)) => Err(Unfit::Inexpressible(reason)),
        }
    }

    fn skip(&mut self, place: &str, reason: String) -> Fate {
        self.skipped.push(Skip {
            operation: place.to_owned(),
            reason,
        });
        Fate::Skipped
    }

    fn warn(&mut self, operation: &Operation<'d>, place: &str, parameters: &Parameters<'d>) {
        let optional = listed(parameters, false);
        if !optional.is_empty() {
            self.warnings
                .push(format!("{place}: optional {} cannot be sent", optional.join(", ")));
        }
        if operation.has_own_servers(self.document) {
            self.warnings.push(format!(
                "{place}: has servers of its own; a grant reaches one origin, the one of its base_url"
            ));
        }
    }
}

/// The problem of an operation that no grant can express.
fn inexpressible(place: &str, reason: &str) -> String {
    format!("{place}: {reason}. -skip-unsupported leaves the operation out")
}

/// Why an operation is not generated.
enum Unfit {
    /// Always a skip.
    Skip(String),
    /// A problem unless skips are asked for.
    Inexpressible(String),
}

/// The parameters that do not travel in the path, each once.
fn listed(parameters: &Parameters<'_>, required: bool) -> Vec<String> {
    let mut seen = HashSet::new();
    parameters
        .iter()
        .filter(|((location, _), is_required)| *location != Location::Path && **is_required == required)
        .map(|((location, name), _)| format!("{} {}", location.as_str(), quoted(name)))
        .filter(|text| seen.insert(text.clone()))
        .collect()
}
