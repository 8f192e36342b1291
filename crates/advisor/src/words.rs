//! The detail paragraphs (spec 30 §13.1). Sentences of ours with counts, sizes and route templates put in.

use std::fmt::Write as _;

use plimsoll_grants::{Method, Route};

use crate::finding::Replacement;

/// What the detectors counted, for the words.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counted<'a> {
    pub(crate) route: &'a Route,
    /// Successful calls.
    pub(crate) calls: u64,
    /// Failed calls of the same route.
    pub(crate) failed: u64,
    /// Whether the trace lost rows, so that every count is a lower bound.
    pub(crate) lower_bound: bool,
}

impl Counted<'_> {
    fn count(&self) -> String {
        let bound = if self.lower_bound { "at least " } else { "" };
        format!("{bound}{}", self.calls)
    }

    fn failures(&self, text: &mut String) {
        // Writing to a String cannot fail.
        let _ = match self.failed {
            0 => Ok(()),
            1 => write!(text, " 1 more call of this route failed and is not counted."),
            many => write!(text, " {many} more calls of this route failed and are not counted."),
        };
    }
}

pub(crate) fn fan_out(counted: &Counted<'_>, replacement: &Replacement, parent_granted: bool) -> String {
    let mut text = format!(
        "This run made {} successful calls of {}.",
        counted.count(),
        counted.route
    );
    if counted.route.method() == Method::Get {
        text.push_str(
            " Only the route template is recorded, so which items were read is not known, nor whether one was read twice. \
             Reading them in one batch helps only if the batch returns the same items.",
        );
    } else {
        text.push_str(
            " Only the route template is recorded, so what was written is not known. No replacement for a write is \
             guessed.",
        );
    }
    counted.failures(&mut text);
    basis(&mut text, replacement, parent_granted);
    text
}

pub(crate) fn repeated_read(counted: &Counted<'_>, size: u64) -> String {
    let unit = if size == 1 { "byte" } else { "bytes" };
    let mut text = format!(
        "This run made {} successful calls of {} without a request body, each answered with {size} {unit}. Equal size is \
         evidence that the answers were the same, not proof. Reusing the first answer helps only if the data did not \
         change in between.",
        counted.count(),
        counted.route,
    );
    counted.failures(&mut text);
    text
}

/// How the replacement is known.
fn basis(text: &mut String, replacement: &Replacement, parent_granted: bool) {
    // Writing to a String cannot fail.
    let _ = match replacement {
        Replacement::Suggested(route) => write!(
            text,
            " The operator declares that one call of {route} replaces these reads. The declaration is unverified; the route \
             is granted."
        ),
        Replacement::GrantRoute(route) => write!(
            text,
            " The operator declares that one call of {route} replaces these reads. The declaration is unverified, and the \
             route is not granted."
        ),
        Replacement::Candidate(route) => {
            let listed = if parent_granted { "granted" } else { "catalogued" };
            write!(
                text,
                " {route} is {listed} and is a candidate by its path only: nobody has declared what it returns, so it is \
                 not offered to the agent."
            )
        }
        Replacement::None => Ok(()),
    };
}
