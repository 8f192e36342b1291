//! The page: one file, no script, nothing loaded, every value escaped by the type it is written through.

mod markup;
mod runs;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use sha2::{Digest as _, Sha256};

use self::markup::{Page, Raw, put};
use super::Report;
use super::summary::{PatternRow, ProfileRow, Totals};
use super::text::{bytes, counted, millis};
use crate::Severity;

/// The only style of the page; its hash is in the page's policy.
const STYLE: &str = include_str!("page.css");

/// The load line of a ship: a circle and the line it must not sink below.
const MARK: &str = "<svg viewBox=\"0 0 24 24\" width=\"20\" height=\"20\" aria-hidden=\"true\" focusable=\"false\">\
    <circle cx=\"12\" cy=\"12\" r=\"7\"/><path d=\"M1 12h22\"/></svg>";

/// Writes the whole page.
pub(super) fn page(report: &Report) -> String {
    let mut page = Page::default();
    head(&mut page, report);
    if report.runs.is_empty() {
        page.raw(EMPTY);
    } else {
        tiles(&mut page, &report.totals);
        profiles(&mut page, &report.profiles);
        patterns(&mut page, &report.patterns, &report.totals);
        runs::table_of_runs(&mut page, &report.runs);
    }
    foot(&mut page, report);
    page.into_string()
}

fn head(page: &mut Page, report: &Report) {
    let hash = BASE64_STANDARD.encode(Sha256::digest(STYLE.as_bytes()));
    put!(
        page,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'sha256-{}'; \
         base-uri 'none'; form-action 'none'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<meta name=\"referrer\" content=\"no-referrer\">\n\
         <title>{}</title>\n<style>{}</style>\n</head>\n<body>\n",
        hash,
        report.title,
        Raw(STYLE),
    );
    if !report.runs.is_empty() {
        page.raw("<a class=\"skip\" href=\"#runs\">Skip to the runs</a>\n");
    }
    put!(
        page,
        "<header class=\"masthead\">\n<p class=\"brand\">{}plimsoll</p>\n<h1>{}</h1>\n<dl class=\"origin\">\n\
         <div><dt>Generated</dt><dd>{}</dd></div>\n<div><dt>Source</dt><dd>{}</dd></div>\n</dl>\n</header>\n<main>\n",
        Raw(MARK),
        report.title,
        report.generated_at,
        report.source,
    );
}

const EMPTY: &str = "<section class=\"empty\">\n<h2>No runs in this log</h2>\n\
    <p>The report reads the audit lines that the daemon writes to its standard error, one JSON object a line, with the \
    message <code>code run</code> or <code>project run</code>. None of the lines it was given is one. Is this the right \
    file, and was the daemon logging as JSON?</p>\n</section>\n";

fn tiles(page: &mut Page, totals: &Totals) {
    page.raw("<section class=\"summary\" aria-label=\"Summary\">\n");
    let when = |number: u64, text: String| if number > 0 { text } else { String::new() };
    let refused = [
        when(
            totals.host_calls_denied,
            counted(totals.host_calls_denied, "denied", "denied"),
        ),
        when(totals.host_calls_shed, counted(totals.host_calls_shed, "shed", "shed")),
        when(
            totals.host_calls_dropped,
            counted(totals.host_calls_dropped, "not traced", "not traced"),
        ),
    ];
    let refused: Vec<&str> = refused
        .iter()
        .map(String::as_str)
        .filter(|text| !text.is_empty())
        .collect();
    let failed = when(totals.failed_runs, counted(totals.failed_runs, "failed", "failed"));
    let advised = match totals.runs_with_advice {
        0 => String::new(),
        number => format!("in {}", counted(number, "run", "runs")),
    };
    group(
        page,
        "What happened",
        &[
            ("Runs", super::text::count(totals.runs), failed),
            ("Host calls", super::text::count(totals.host_calls), refused.join(", ")),
            ("Findings", super::text::count(totals.findings), advised),
        ],
    );
    let tile = |name, number, who: &str| (name, super::text::count(number), who.to_owned());
    group(
        page,
        "Who can act",
        &[
            tile("Agent-fixable", totals.agent_fixable, "the agent"),
            tile("Declared routes to grant", totals.grant_route, "the operator"),
            tile("Candidates", totals.candidate, "the operator"),
            tile("No known route", totals.no_known_route, "the owner of the API"),
        ],
    );
    group(
        page,
        "Modelled cost",
        &[
            ("Latency", millis(totals.added_latency_ms), String::new()),
            ("Extra calls", super::text::count(totals.extra_calls), String::new()),
            ("Bytes moved", bytes(totals.bytes_moved), String::new()),
        ],
    );
    if totals.detailed_findings != totals.findings {
        put!(
            page,
            "<p class=\"note\">Who can act is known for {} of {}: the other lines keep totals only. A profile with \
             <code>advice_retention: detailed</code> keeps the findings themselves.</p>\n",
            totals.detailed_findings,
            counted(totals.findings, "finding", "findings"),
        );
    }
    page.raw("</section>\n");
}

fn group(page: &mut Page, heading: &str, tiles: &[(&str, String, String)]) {
    put!(page, "<div class=\"group\">\n<h2>{}</h2>\n<dl>\n", heading);
    for (name, value, note) in tiles {
        put!(page, "<div class=\"tile\"><dt>{}</dt><dd><b>{}</b>", name, value);
        if !note.is_empty() {
            put!(page, "<small>{}</small>", note);
        }
        page.raw("</dd></div>\n");
    }
    page.raw("</dl>\n</div>\n");
}

fn profiles(page: &mut Page, rows: &[ProfileRow]) {
    table(
        page,
        "profiles",
        "Profiles",
        "",
        &[
            ("Profile", false),
            ("Runs", true),
            ("Host calls", true),
            ("Findings", true),
            ("Modelled latency", true),
            ("Extra calls", true),
            ("Bytes moved", true),
        ],
    );
    page.raw("<tbody>\n");
    let most = rows.iter().map(|row| row.added_latency_ms).max().unwrap_or(0);
    for row in rows {
        put!(page, "<tr><th scope=\"row\">");
        profile_name(page, &row.profile);
        page.raw("</th>");
        number(page, row.runs);
        number(page, row.host_calls);
        number(page, row.findings);
        put!(page, "<td class=\"num\">{}", millis(row.added_latency_ms));
        bar(page, row.added_latency_ms, most);
        page.raw("</td>");
        number(page, row.extra_calls);
        put!(page, "<td class=\"num\">{}</td></tr>\n", bytes(row.bytes_moved));
    }
    page.raw("</tbody>\n</table>\n</div>\n</section>\n");
}

/// A bar as long as its part of the longest; decoration, because the number stands above it.
fn bar(page: &mut Page, part: u64, most: u64) {
    if part > 0 {
        let width = (u128::from(part) * 100).div_ceil(u128::from(most.max(1)));
        put!(
            page,
            "<svg class=\"bar\" viewBox=\"0 0 100 3\" preserveAspectRatio=\"none\" aria-hidden=\"true\" \
             focusable=\"false\"><rect x=\"{}\" width=\"{}\" height=\"3\"/></svg>",
            (100 - width).to_string(),
            width.to_string(),
        );
    }
}

fn patterns(page: &mut Page, rows: &[PatternRow], totals: &Totals) {
    if rows.is_empty() {
        let why = if totals.findings == 0 {
            "No finding in these runs: no route was called often enough, and alike enough, to be worth a word."
        } else {
            "These lines keep totals only, so there is no pattern to show."
        };
        put!(
            page,
            "<section aria-labelledby=\"patterns\">\n<h2 id=\"patterns\">Patterns</h2>\n<p class=\"note\">{}</p>\n\
             </section>\n",
            why
        );
        return;
    }
    table(
        page,
        "patterns",
        "Patterns",
        "",
        &[
            ("Pattern", false),
            ("Findings", true),
            ("Worst severity", false),
            ("Modelled latency", true),
            ("Extra calls", true),
            ("Bytes moved", true),
        ],
    );
    page.raw("<tbody>\n");
    for row in rows {
        put!(page, "<tr><th scope=\"row\">{}</th>", pattern_label(&row.pattern));
        number(page, row.findings);
        page.raw("<td>");
        severity(page, row.worst_severity, row.worst_severity.as_str());
        put!(page, "</td><td class=\"num\">{}</td>", millis(row.added_latency_ms));
        number(page, row.extra_calls);
        put!(page, "<td class=\"num\">{}</td></tr>\n", bytes(row.bytes_moved));
    }
    page.raw("</tbody>\n</table>\n</div>\n</section>\n");
}

fn foot(page: &mut Page, report: &Report) {
    page.raw("</main>\n<footer>\n");
    if report.unreadable > 0 {
        put!(
            page,
            "<p>{} of the log could not be read as a JSON object, and nothing of it is in this report.</p>\n",
            counted(report.unreadable, "line", "lines"),
        );
    }
    page.raw(
        "<p><b>Metadata only.</b> This page is made of route templates, verbs, sizes, times and counts. The log it was \
         made from holds no path, query, header, body or credential of a call.</p>\n\
         <p><b>Costs are modelled.</b> They say what the repeated calls of a run took beyond one call, from recorded times \
         and sizes. What an alternative would take was not measured.</p>\n\
         <p>This page runs no script and loads nothing, from this host or any other.</p>\n</footer>\n</body>\n</html>\n",
    );
}

/// Opens a section with a table up to the end of its head; true columns hold numbers. `control` stands above it.
fn table(page: &mut Page, id: &'static str, heading: &str, control: &'static str, columns: &[(&str, bool)]) {
    put!(
        page,
        "<section aria-labelledby=\"{}\">\n<h2 id=\"{}\">{}</h2>\n{}\
         <div class=\"scroll\" role=\"region\" aria-labelledby=\"{}\" tabindex=\"0\">\n<table class=\"{}\">\n<thead>\n<tr>",
        id,
        id,
        heading,
        Raw(control),
        id,
        id,
    );
    for (name, is_number) in columns {
        let class = if *is_number { " class=\"num\"" } else { "" };
        put!(page, "<th scope=\"col\"{}>{}</th>", Raw(class), name);
    }
    page.raw("</tr>\n</thead>\n");
}

fn number(page: &mut Page, number: u64) {
    put!(page, "<td class=\"num\">{}</td>", super::text::count(number));
}

fn profile_name(page: &mut Page, name: &str) {
    if name.is_empty() {
        page.raw("<span class=\"quiet\">(none)</span>");
    } else {
        put!(page, "<bdi>{}</bdi>", name);
    }
}

/// A badge whose look is one of four; its words are the log's.
fn severity(page: &mut Page, look: Severity, label: &str) {
    put!(page, "<span class=\"badge {}\">{}</span>", look.as_str(), label);
}

/// Retired patterns of older logs keep their names.
fn pattern_label(pattern: &str) -> &str {
    match pattern {
        "fan_out" => "Fan-out (N+1)",
        "repeated_read" => "Repeated read",
        "aggregate_in_code" => "Aggregate in code",
        "sequential_calls" => "Sequential calls",
        other => other,
    }
}
