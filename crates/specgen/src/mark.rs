//! The two marks a document can carry: the health probe and batch relations.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_grants::{Method, Route};

use crate::document::{Operation, Verb};
use crate::generate::{ById, Fate};
use crate::problem::{Problems, quoted, shortened};

/// The probe, or why there is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Health {
    Probe(Route),
    Unset(String),
}

/// The marks met so far.
#[derive(Debug, Default)]
pub(crate) struct Marks<'d> {
    probes: Vec<(String, Option<Route>)>,
    batches: Vec<Batch<'d>>,
}

#[derive(Debug)]
struct Batch<'d> {
    place: String,
    route: Route,
    served: Vec<&'d str>,
}

impl<'d> Marks<'d> {
    /// Takes an operation that is marked as the health probe.
    pub(crate) fn health_probe(&mut self, operation: &Operation<'d>, fate: &Fate, problems: &mut Problems) {
        let place = operation.place();
        let mut fail = |why: &str| problems.push(format!("{place}: x-plimsoll-health-check {why}"));
        let is_get = operation.verb == Verb::Granted(Method::Get);
        if !is_get {
            fail("marks it, but a health check must be GET; mark another operation");
        }
        if operation.path.contains(['{', '}']) {
            fail("marks it, but a health check must have a concrete path without parameters; mark another operation");
        }
        if is_get && *fate == Fate::Skipped {
            fail("marks it, but it is skipped; mark another operation");
        }
        let route = match fate {
            Fate::Generated(route) => Some(route.clone()),
            _ => None,
        };
        self.probes.push((place, route));
    }

    /// Takes an operation and the operationIds it is marked to serve in one request; none is no mark.
    pub(crate) fn batch(
        &mut self,
        operation: &Operation<'d>,
        served: Vec<&'d str>,
        fate: &Fate,
        problems: &mut Problems,
    ) {
        if served.is_empty() {
            return;
        }
        let place = operation.place();
        if operation.verb != Verb::Granted(Method::Get) {
            problems.push(format!(
                "{place}: x-plimsoll-batch-of marks it, but a batch must be GET; remove the mark"
            ));
            return;
        }
        match fate {
            Fate::Generated(route) => self.batches.push(Batch {
                place,
                route: route.clone(),
                served,
            }),
            Fate::Skipped => problems.push(format!(
                "{place}: x-plimsoll-batch-of marks it, but it is skipped; remove the mark"
            )),
            // Named already, or never looked at.
            Fate::Refused | Fate::NotChosen => {}
        }
    }

    /// The probe, once every operation was seen.
    pub(crate) fn health(&self, problems: &mut Problems) -> Health {
        match self.probes.as_slice() {
            [] => Health::Unset(
                "no operation carries x-plimsoll-health-check: true, and none is guessed from its path".to_owned(),
            ),
            [(_, Some(route))] => Health::Probe(route.clone()),
            [(place, None)] => Health::Unset(format!("{place} cannot be one")),
            several => {
                let places: Vec<&str> = several.iter().map(|(place, _)| place.as_str()).collect();
                problems.push(format!(
                    "x-plimsoll-health-check marks {} operations ({}); mark one",
                    places.len(),
                    places.join(", ")
                ));
                Health::Unset("several are marked".to_owned())
            }
        }
    }

    /// The batch relations, once every operation was seen.
    pub(crate) fn batch_of(
        &self,
        by_id: &ById<'_>,
        operations: &[Operation<'_>],
        fates: &[Fate],
        warnings: &mut Vec<String>,
        problems: &mut Problems,
    ) -> BTreeMap<Route, Vec<Route>> {
        let mut relations: BTreeMap<Route, BTreeSet<Route>> = BTreeMap::new();
        let mut owners: BTreeMap<Route, String> = BTreeMap::new();
        for batch in &self.batches {
            let mut fail = |why: String| problems.push(format!("{}: x-plimsoll-batch-of {why}", batch.place));
            for id in &batch.served {
                let named = quoted(id);
                let indices = by_id.get(id).map_or(&[][..], Vec::as_slice);
                let index = match indices {
                    [] => {
                        fail(format!("names {named}, which is no operationId; correct it"));
                        continue;
                    }
                    [index] => *index,
                    several => {
                        fail(format!(
                            "names {named}, which {} operations have; rename all but one",
                            several.len()
                        ));
                        continue;
                    }
                };
                let target = operations[index].place();
                let target = shortened(&target);
                let served = match &fates[index] {
                    Fate::Generated(route) => route,
                    Fate::Skipped => {
                        fail(format!("names {named} ({target}), which is skipped; remove it"));
                        continue;
                    }
                    Fate::NotChosen => {
                        warnings.push(format!(
                            "{}: is no batch of {target}, because -only leaves that out",
                            batch.place
                        ));
                        continue;
                    }
                    Fate::Refused => continue,
                };
                if served.method() != Method::Get {
                    fail(format!("names {named} ({target}), which is not GET; remove it"));
                } else if *served == batch.route {
                    fail(format!("names {named} ({target}), which is the same route; remove it"));
                } else if !served.is_wildcard() {
                    fail(format!(
                        "names {named} ({target}), which has no path parameter, so there is no item to batch; remove it"
                    ));
                } else {
                    match owners.get(served) {
                        Some(place) => fail(format!(
                            "names {named} ({target}), which {} already serves; keep one",
                            shortened(place)
                        )),
                        None => {
                            owners.insert(served.clone(), batch.place.clone());
                            relations.entry(batch.route.clone()).or_default().insert(served.clone());
                        }
                    }
                }
            }
        }
        relations
            .into_iter()
            .map(|(route, served)| (route, served.into_iter().collect()))
            .collect()
    }
}
