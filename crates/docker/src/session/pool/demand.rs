//! What sessions ask for, and what the pool should therefore hold.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_guest_link::messages::Language;

/// Languages whose interpreters are started: of a waiting sandbox, or as a session wants them.
pub(crate) type Languages = BTreeSet<Language>;

/// A pool of fewer holds one kind of sandbox: every language in each.
const KINDS_FROM: u32 = 5;

/// The most that one open counts.
const MOST: f64 = 1.0 / 16.0;

/// Pools follow what the last opens for each member asked for.
const OPENS_FOR_EACH: f64 = 4.0;

/// The part of one open below which a kind is forgotten.
const FORGOTTEN: f64 = 0.25;

/// Members in the wrong kinds, missing and too many together, from which one is replaced. Replacing one changes this by 2, so
/// it is not done back and forth.
const WORTH_A_MOVE: f64 = 1.75;

/// A kind with this part of the demand is used up by opens soon enough.
const IN_DEMAND: f64 = 0.25;

/// How much each kind of sandbox is asked for. The last opens count most.
#[derive(Debug)]
pub(crate) struct Demand {
    size: u32,
    all: Languages,
    /// Of each kind; in sum at most 1.
    weights: BTreeMap<Languages, f64>,
}

impl Demand {
    /// For a pool of `size` members that can start these interpreters. Before the first open every language is wanted.
    pub(crate) fn new(size: u32, all: Languages) -> Self {
        Self {
            size,
            weights: BTreeMap::from([(all.clone(), 1.0)]),
            all,
        }
    }

    /// The kind a session of these languages wants. A hint at none that there is, is none.
    pub(crate) fn kind(&self, hinted: impl IntoIterator<Item = Language>) -> Languages {
        let known: Languages = hinted
            .into_iter()
            .filter(|language| self.all.contains(language))
            .collect();
        if known.is_empty() { self.all.clone() } else { known }
    }

    /// A session of this kind was opened.
    pub(crate) fn opened(&mut self, kind: &Languages) {
        if self.size < KINDS_FROM {
            return;
        }
        let one = MOST.min(1.0 / (OPENS_FOR_EACH * f64::from(self.size)));
        for weight in self.weights.values_mut() {
            *weight *= 1.0 - one;
        }
        *self.weights.entry(kind.clone()).or_default() += one;
        self.weights.retain(|_, weight| *weight >= one * FORGOTTEN);
    }

    /// How many members of the kind the demand is worth, in parts of one.
    pub(crate) fn share(&self, kind: &Languages) -> f64 {
        f64::from(self.size) * self.part(kind)
    }

    /// The kind that is furthest below its share; among equals the one with most languages.
    pub(crate) fn missing(&self, held: &BTreeMap<Languages, u32>) -> Languages {
        let furthest = self.furthest(held, |missing| missing);
        furthest.map_or_else(|| self.all.clone(), |(kind, _)| kind.clone())
    }

    /// The kind of which one should give way to another kind, in a pool that is full.
    pub(crate) fn too_many(&self, held: &BTreeMap<Languages, u32>) -> Option<Languages> {
        let (_, missing) = self.furthest(held, |missing| missing)?;
        let (kind, surplus) = self.furthest(held, |missing| -missing)?;
        (missing + surplus > WORTH_A_MOVE && self.part(kind) < IN_DEMAND).then(|| kind.clone())
    }

    /// The part of the demand that is for this kind.
    fn part(&self, kind: &Languages) -> f64 {
        let whole: f64 = self.weights.values().sum();
        self.weights.get(kind).map_or(0.0, |weight| weight / whole)
    }

    /// The kind, in demand or held, for which this of what it lacks is the most.
    fn furthest<'a>(
        &'a self,
        held: &'a BTreeMap<Languages, u32>,
        of: impl Fn(f64) -> f64,
    ) -> Option<(&'a Languages, f64)> {
        let kinds: BTreeSet<&Languages> = self.weights.keys().chain(held.keys()).collect();
        let lacks = |kind: &Languages| self.share(kind) - f64::from(held.get(kind).copied().unwrap_or_default());
        kinds
            .into_iter()
            .map(|kind| (kind, of(lacks(kind))))
            .max_by(|(one, lack), (other, lacks)| lack.total_cmp(lacks).then(one.len().cmp(&other.len())))
    }
}

#[cfg(test)]
mod tests;
