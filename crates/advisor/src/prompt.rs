//! Text for the API owner's own AI (spec 30 §13.4). Nothing here calls a model.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::time::Duration;

use plimsoll_grants::{Method, Route};

use crate::finding::{Cost, Finding, Remedy};

/// The prompt for a finding; `allow` is the allow list of its profile and may be empty.
pub fn prompt(finding: &Finding, allow: &[Route]) -> String {
    write(finding.remedy(), &finding.route, &finding.detail, finding.cost, allow)
}

/// The prompt for a finding read back from a log. `None` for a remedy that has none, and for a route that is no route: a
/// prompt holds templates, labels, numbers and words of ours, and nothing that merely stood in a file.
pub(crate) fn prompt_of_log(
    remedy: &str,
    method: &str,
    route: &str,
    detail: &str,
    cost: Cost,
    allow: &[Route],
) -> Option<String> {
    let remedy = Remedy::of_label(remedy)?;
    let route = Route::new(method, route).ok()?;
    Some(write(remedy, &route, detail, cost, allow))
}

fn write(remedy: Remedy, route: &Route, detail: &str, cost: Cost, allow: &[Route]) -> String {
    let mut text = String::from(ROLE);
    text.push_str("\nWhat was seen\n");
    // One paragraph, whatever the log says.
    for (index, word) in detail.split_whitespace().enumerate() {
        text.push_str(if index == 0 { "" } else { " " });
        text.push_str(word);
    }
    text.push('\n');
    if let Some(line) = cost_line(cost) {
        text.push_str(&line);
    }
    text.push_str("\nRoutes the sandbox may call\n");
    for line in routes(route, allow) {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "  - {line}");
    }
    text.push_str("\nTask\n");
    let _ = match (remedy, route.method()) {
        (Remedy::Batch, Method::Get) => writeln!(text, "{BATCH_READ}"),
        (Remedy::Batch, _) => writeln!(text, "{BATCH_WRITE}"),
        (Remedy::Cache, _) => writeln!(text, "{CACHE}"),
    };
    text.push_str("\nAnswer with\n");
    text.push_str(match remedy {
        Remedy::Batch => BATCH_OUTPUT,
        Remedy::Cache => CACHE_OUTPUT,
    });
    text.push_str(LIMITS);
    text
}

/// `Modelled cost in that run: 11 extra calls, 55 ms of added latency, 4.0 KB moved.`; nothing when no number is positive.
fn cost_line(cost: Cost) -> Option<String> {
    let mut parts = Vec::new();
    if cost.extra_calls > 0 {
        let word = if cost.extra_calls == 1 { "call" } else { "calls" };
        parts.push(format!("{} extra {word}", cost.extra_calls));
    }
    let latency = rounded_ms(cost.added_latency);
    if latency > 0 {
        parts.push(format!("{latency} ms of added latency"));
    }
    if cost.bytes_moved > 0 {
        parts.push(format!("{} moved", crate::report::text::bytes(cost.bytes_moved)));
    }
    (!parts.is_empty()).then(|| format!("Modelled cost in that run: {}.\n", parts.join(", ")))
}

fn rounded_ms(latency: Duration) -> u128 {
    (latency.as_nanos() + 500_000) / 1_000_000
}

/// The allow list once each, by method and then by path; the finding's own route when there is none.
fn routes(own: &Route, allow: &[Route]) -> BTreeSet<String> {
    let listed = if allow.is_empty() {
        std::slice::from_ref(own)
    } else {
        allow
    };
    // A verb holds no character below a space, so whole lines order as pairs of verb and path do.
    listed.iter().map(Route::to_string).collect()
}

const ROLE: &str = "You review the design of an HTTP API for its owner. A program written by an AI agent called this API \
    from a sandbox. The sandbox's broker kept metadata of those calls, and one pattern in it may be worth a change to the \
    API. It also may not: \"no change warranted\" is a complete and welcome answer.\n";

const BATCH_READ: &str = "Decide whether one endpoint that returns many of these items in a single request belongs in the \
    API. If it does, design it: how the keys are passed and how many at most, the order of the answer, and what happens to \
    a key that does not exist or may not be read. Only if the calls most likely served to compute a total, a count or \
    another summary, consider an endpoint that returns that aggregate as an alternative, and say under which condition it \
    would be the better one.";

const BATCH_WRITE: &str = "Decide whether one endpoint that performs many of these writes in a single request belongs in \
    the API. If it does, design it: whether the batch is atomic, what partial failure looks like item by item, how a retry \
    is kept from writing twice, and how many items are taken at most.";

const CACHE: &str = "Decide whether answers of this route should be reusable. If they should, choose Cache-Control and a \
    validator (ETag), say how If-None-Match is answered with 304 Not Modified, and for how long a stale answer would be \
    harmless.";

const BATCH_OUTPUT: &str = "  \
  1. An OpenAPI 3.1 stub of the endpoint: path, parameters, request and response schemas, without example values.
  2. The rationale, with what it costs to build and to keep.
Or: no change warranted, and why.
";

const CACHE_OUTPUT: &str = "  \
  1. The response headers, exactly.
  2. The behaviour of conditional requests.
  3. The rationale, with what could go wrong when data changes.
Or: no change warranted, and why.
";

const LIMITS: &str = "
Limits of what is known
  - This is one run. Other callers may use the API differently.
  - The routes above may be a part of the API only.
  - Costs are a model over recorded times and sizes, not a measurement of the alternative.
  - No request or response was recorded: do not invent fields, and ask where you need them.
  - `*` in a route stands for one opaque key.
";
