//! The report as JSON: what the page shows, for programs.

use serde::Serialize;

use super::Report;
use super::input::Run;
use super::summary::{PatternRow, ProfileRow, Totals};

#[derive(Serialize)]
struct Document<'a> {
    title: &'a str,
    generated_at: &'a str,
    source: &'a str,
    unreadable_lines: u64,
    totals: &'a Totals,
    profiles: &'a [ProfileRow],
    patterns: &'a [PatternRow],
    runs: &'a [Run],
}

/// Two spaces a level and a line end.
pub(crate) fn document(report: &Report) -> String {
    let document = Document {
        title: &report.title,
        generated_at: &report.generated_at,
        source: &report.source,
        unreadable_lines: report.unreadable,
        totals: &report.totals,
        profiles: &report.profiles,
        patterns: &report.patterns,
        runs: &report.runs,
    };
    // Only maps with keys that are not text could fail, and there are none.
    let mut text = serde_json::to_string_pretty(&document).unwrap_or_default();
    text.push('\n');
    text
}
