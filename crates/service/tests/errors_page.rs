//! `docs/errors.md` lists every code, with its HTTP status, every reason and every end of a session there is.

#![expect(
    clippy::unwrap_used,
    reason = "a test stops at the first thing that is not as it should be"
)]

use std::collections::BTreeMap;

use plimsoll_core::{Code, Reason, SessionEnd};

const PAGE: &str = include_str!("../../../docs/errors.md");

/// Codes with an HTTP status of their own that the edge sends under others, because HTTP has an answer and Connect no code.
const UNDER_OTHERS: [(Code, &[u16]); 1] = [(Code::Unknown, &[405, 415])];

/// The text under a heading.
fn section(heading: &str) -> &'static str {
    let (_, rest) = PAGE.split_once(&format!("\n## {heading}\n")).unwrap();
    rest.split("\n## ").next().unwrap()
}

/// First and second cell of each row of the table under this head whose first cell is one word of code.
fn rows(section: &'static str, head: &str) -> BTreeMap<&'static str, &'static str> {
    let mut rows = BTreeMap::new();
    let head = format!("| {head} |");
    let table = section.lines().skip_while(|line| !line.starts_with(&head)).skip(1);
    for line in table.take_while(|line| line.starts_with('|')) {
        let mut cells = line.split('|').skip(1).map(str::trim);
        let (Some(first), Some(second)) = (cells.next(), cells.next()) else {
            continue;
        };
        if let Some(word) = first.strip_prefix('`').and_then(|word| word.strip_suffix('`')) {
            assert_eq!(rows.insert(word, second), None, "{word} stands there twice");
        }
    }
    rows
}

#[test]
fn every_code_has_a_row_or_is_said_to_be_never_sent() {
    let section = section("Which code");
    let rows = rows(section, "Code");
    let never = section
        .lines()
        .find(|line| line.starts_with("No answer of this build has "))
        .unwrap();
    for code in Code::ALL {
        let word = code.as_str();
        assert_ne!(rows.contains_key(word), never.contains(&format!("`{word}`")), "{word}");
    }
    for (word, statuses) in rows {
        let code = Code::from_wire(word).unwrap_or_else(|| panic!("{word} is no code"));
        let usual = code.http_status();
        let own = [usual];
        let expected = UNDER_OTHERS
            .iter()
            .find(|(other, _)| *other == code)
            .map_or(&own[..], |(_, them)| them);
        // What stands in brackets is an exception with its reason.
        let listed: Vec<u16> = statuses
            .split('(')
            .next()
            .unwrap()
            .split(',')
            .map(|status| status.trim().parse().unwrap())
            .collect();
        assert_eq!(listed, expected, "{word}");
    }
}

#[test]
fn every_reason_has_a_row() {
    let rows = rows(section("Reasons of a refusal"), "Reason");
    let mut known = Reason::ALL.map(Reason::as_str);
    known.sort_unstable();
    assert_eq!(rows.keys().copied().collect::<Vec<_>>(), known);
}

#[test]
fn every_end_of_a_session_that_a_call_is_told_has_a_row() {
    let rows = rows(section("Which code"), "`SessionEnded`");
    // Whoever closed a session, or names none of theirs, is told by the code.
    let mut known: Vec<_> = (1..)
        .map(SessionEnd::from_number)
        .take_while(|end| *end != SessionEnd::Unknown)
        .filter(|end| !matches!(end, SessionEnd::Closed | SessionEnd::NotFound))
        .map(SessionEnd::as_str)
        .collect();
    known.sort_unstable();
    assert_eq!(rows.keys().copied().collect::<Vec<_>>(), known);
}
