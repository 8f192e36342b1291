//! Which route answers for many others: the operator's word, which nothing here can check (spec 30 §3.1).

use std::collections::BTreeMap;

use super::error::{Place, ProfileError};
use crate::route::{Method, Route};

/// Reads `batch_of`: from each batch route to the routes it serves. The answer is turned round: served to batch.
pub(super) fn read(
    mut relations: Vec<(&str, Vec<&str>)>,
    field: &Place,
    problems: &mut Vec<ProfileError>,
) -> BTreeMap<Route, Route> {
    relations.sort_unstable_by_key(|(key, _)| *key);
    let mut batches: Vec<Route> = Vec::with_capacity(relations.len());
    let mut served_by: BTreeMap<Route, Route> = BTreeMap::new();
    for (key, served) in relations {
        let place = field.member(key);
        let Some(batch) = read_get(key, &place, problems) else {
            continue;
        };
        if batches.contains(&batch) {
            problems.push(place.problem("is the same batch route as another key; join them"));
        }
        batches.push(batch.clone());
        if served.is_empty() {
            problems.push(place.problem("must list at least one route that a batch request replaces"));
        }
        for (index, line) in served.into_iter().enumerate() {
            let place = place.item(index);
            let Some(route) = read_get(line, &place, problems) else {
                continue;
            };
            if route == batch {
                problems.push(place.problem("is the batch route itself"));
            } else if !route.is_wildcard() {
                problems.push(place.problem("must have a segment that is *: one route for many items"));
            } else if let Some(other) = served_by.insert(route, batch.clone()) {
                problems.push(place.problem(format_args!(
                    "is served by {other} already; a route has one batch route"
                )));
            }
        }
    }
    served_by
}

fn read_get(line: &str, place: &Place, problems: &mut Vec<ProfileError>) -> Option<Route> {
    match Route::parse_line(line) {
        Ok(route) if route.method() == Method::Get => Some(route),
        Ok(_) => {
            problems.push(place.problem("must be a GET route; only reads are batched"));
            None
        }
        Err(error) => {
            problems.push(place.problem(error));
            None
        }
    }
}
