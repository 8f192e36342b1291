//! The table of runs; a run with findings opens to them.

use super::super::input::{LoggedFinding, Run};
use super::super::text::{bytes, count, counted, log_time, millis};
use super::markup::{Page, put};
use super::{pattern_label, profile_name, severity, table};
use crate::{Class, Severity};

const COLUMNS: [(&str, bool); 9] = [
    ("Time", false),
    ("Trace", false),
    ("Profile", false),
    ("Sandbox", false),
    ("Exit", false),
    ("Duration", true),
    ("Host calls", true),
    ("Findings", true),
    ("Waste", true),
];

/// Hides the plain rows by style alone.
const FILTER: &str =
    "<p class=\"filter\"><label><input type=\"checkbox\" id=\"only-advised\"> Only runs with findings</label></p>\n";

/// The section of runs, in the order of the log.
pub(super) fn table_of_runs(page: &mut Page, runs: &[Run]) {
    let advised = runs.iter().filter(|run| is_advised(run)).count();
    let filter = if (1..runs.len()).contains(&advised) { FILTER } else { "" };
    table(page, "runs", "Runs", filter, &COLUMNS);
    for run in runs {
        page.raw(if is_advised(run) {
            "<tbody class=\"advised\">\n<tr>"
        } else {
            "<tbody class=\"plain\">\n<tr>"
        });
        row(page, run);
        page.raw("</tr>\n");
        if !run.findings.is_empty() {
            findings(page, run);
        }
        page.raw("</tbody>\n");
    }
    page.raw("</table>\n</div>\n</section>\n");
}

fn is_advised(run: &Run) -> bool {
    run.advice_findings > 0 || !run.findings.is_empty()
}

fn row(page: &mut Page, run: &Run) {
    put!(page, "<th scope=\"row\">{}", or_dash(&log_time(&run.time)));
    let what = match (run.session_call, run.kind) {
        (Some(number), _) => format!("session call {number}"),
        (None, "project") => "project".to_owned(),
        (None, _) => String::new(),
    };
    below(page, &what);
    put!(page, "</th><td><bdi>{}</bdi>", or_dash(&run.trace_id));
    below(page, &run.caller);
    page.raw("</td><td>");
    profile_name(page, &run.grant_profile);
    put!(page, "</td><td><bdi>{}</bdi>", or_dash(&run.sandbox));
    below(page, &run.isolation);
    page.raw("</td><td>");
    match run.exit_code {
        _ if run.failed => page.raw("<span class=\"badge high\">failed</span>"),
        Some(code) => put!(page, "{}", code.to_string()),
        None => page.raw("–"),
    }
    if run.timed_out {
        page.raw(" <span class=\"badge medium\">timed out</span>");
    }
    put!(page, "</td><td class=\"num\">{}</td>", millis(run.duration_ms));
    put!(page, "<td class=\"num\">{}", count(run.host_calls));
    for (number, word) in [
        (run.host_calls_denied, "denied"),
        (run.host_calls_shed, "shed"),
        (run.host_calls_dropped, "not traced"),
    ] {
        if number > 0 {
            below(page, &counted(number, word, word));
        }
    }
    put!(
        page,
        "</td><td class=\"num\">{}</td><td class=\"num\">",
        count(run.advice_findings)
    );
    if run.advice_findings == 0 {
        page.raw("–");
    } else {
        put!(page, "{}", millis(run.advice_added_latency_ms));
        below(page, &counted(run.advice_extra_calls, "extra call", "extra calls"));
        below(page, &bytes(run.advice_bytes_moved));
    }
    page.raw("</td>");
}

/// A second line of a cell.
fn below(page: &mut Page, text: &str) {
    if !text.is_empty() {
        put!(page, "<small>{}</small>", text);
    }
}

fn or_dash(text: &str) -> &str {
    if text.is_empty() { "–" } else { text }
}

fn findings(page: &mut Page, run: &Run) {
    put!(
        page,
        "<tr class=\"more\"><td colspan=\"{}\"><details><summary>{} ",
        COLUMNS.len().to_string(),
        counted(run.findings.len() as u64, "finding", "findings"),
    );
    let severities = run.findings.iter().map(|finding| Severity::of_label(&finding.severity));
    let worst = severities.max().unwrap_or_default();
    severity(page, worst, worst.as_str());
    page.raw("<span class=\"quiet\">");
    for (index, finding) in run.findings.iter().enumerate() {
        let gap = if index == 0 { "" } else { ", " };
        put!(
            page,
            "{}{} of {} {}",
            gap,
            pattern_label(&finding.pattern),
            finding.method,
            finding.route
        );
    }
    page.raw("</span></summary>\n");
    for finding in &run.findings {
        finding_block(page, finding, run);
    }
    page.raw("</details></td></tr>\n");
}

fn finding_block(page: &mut Page, finding: &LoggedFinding, run: &Run) {
    put!(
        page,
        "<article>\n<h3><code>{} {}</code></h3>\n<p class=\"badges\"><span class=\"badge\">{}</span> ",
        finding.method,
        finding.route,
        pattern_label(&finding.pattern),
    );
    severity(page, Severity::of_label(&finding.severity), or_dash(&finding.severity));
    put!(
        page,
        " <span class=\"badge {}\">{}</span></p>\n",
        finding.class.as_str(),
        finding.class.as_str()
    );
    put!(page, "<div class=\"columns\">\n<p>{}</p>\n", finding.detail);
    put!(page, "<div>\n<p class=\"cost\">{}</p>\n<p>", cost_line(finding));
    advice(page, finding, run);
    page.raw("</p>\n</div>\n</div>\n");
    if let Some(prompt) = &finding.prompt {
        put!(
            page,
            "<details class=\"prompt\"><summary>Prompt for the API owner’s own AI</summary>\n\
             <pre tabindex=\"0\">{}</pre></details>\n",
            prompt,
        );
    }
    page.raw("</article>\n");
}

fn cost_line(finding: &LoggedFinding) -> String {
    let mut parts = Vec::new();
    if finding.extra_calls > 0 {
        parts.push(counted(finding.extra_calls, "extra call", "extra calls"));
    }
    if finding.added_latency_ms > 0 {
        parts.push(format!("{} of added latency", millis(finding.added_latency_ms)));
    }
    if finding.bytes_moved > 0 {
        parts.push(format!("{} moved", bytes(finding.bytes_moved)));
    }
    if parts.is_empty() {
        return "No modelled cost".to_owned();
    }
    parts.join(" · ")
}

/// What can be done, and by whom.
fn advice(page: &mut Page, finding: &LoggedFinding, run: &Run) {
    let route = or_dash(&finding.replacement);
    match finding.class {
        Class::AgentFixable => {
            put!(
                page,
                "<b>The agent can act.</b> <code>{}</code> is granted, and declared to serve these reads in one call. ",
                route
            );
            page.raw(if run.advice == "caller" {
                "The caller was told so with the result of this run."
            } else {
                "The caller was not told: this profile’s advice is for the operator only. <code>advice: caller</code> \
                 would tell it."
            });
        }
        Class::GrantRoute => put!(
            page,
            "<b>The operator can act.</b> <code>{}</code> is declared to serve these reads in one call, and it is not \
             granted. If runs may call it, add it to <code>allow</code>.",
            route
        ),
        Class::Candidate => put!(
            page,
            "<b>The operator can act.</b> <code>{}</code> looks like the list of these items, by its path alone. If one \
             call of it returns the same items, declare that in <code>batch_of</code>.",
            route
        ),
        Class::NoKnownRoute => page.raw(match (finding.remedy.as_str(), finding.method.as_str()) {
            ("cache", _) => {
                "<b>The owner of the API can act.</b> No route replaces these reads. Answers that state how \
                 long they may be reused would."
            }
            ("batch", "GET") => {
                "<b>The owner of the API can act.</b> No route is known that serves these reads in one call. Its owner can \
                 judge whether one should exist."
            }
            ("batch", _) => {
                "<b>The owner of the API can act.</b> No route is guessed for a write. Its owner can judge whether one \
                 call should perform many."
            }
            _ => "No route is known that replaces these calls.",
        }),
    }
}
