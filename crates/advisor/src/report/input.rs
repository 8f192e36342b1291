//! Reading the audit lines of a log: one JSON object a line, everything that is not a run passed over.

use std::io::{self, BufRead, Read as _};

use serde::Serialize;
use serde_json::{Map, Value};

/// Longest line read, in bytes without its line end. An audit line with 256 findings is far below it; a longer one is no
/// log of ours, and reading it whole could exhaust memory.
pub const MAX_LINE_BYTES: u64 = 16 << 20;

/// What was read.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Input {
    /// The runs, in the order of the log.
    pub(crate) runs: Vec<Run>,
    /// Lines that are not blank.
    pub(crate) lines: u64,
    /// Lines that are neither blank nor a JSON object. Lines of other kinds are not counted: a log is full of them.
    pub(crate) unreadable: u64,
}

/// The log cannot be read to its end.
#[derive(Debug, thiserror::Error)]
pub enum InputError {
    /// A line is too long.
    #[error("line {line} is longer than 16 MiB; this is no audit log of plimsoll")]
    LongLine {
        /// Counted from 1.
        line: u64,
    },
    /// The reader failed.
    #[error("reading line {line}: {error}")]
    Read {
        /// Counted from 1.
        line: u64,
        /// What the reader said.
        error: io::Error,
    },
}

/// One audit line. A field that is missing or of another type reads as empty, 0 or false: an old log stays readable.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Run {
    pub(crate) time: String,
    /// `code` or `project`.
    pub(crate) kind: &'static str,
    /// The provider returned an error.
    pub(crate) failed: bool,
    pub(crate) caller: String,
    pub(crate) trace_id: String,
    /// Fingerprint of the session, for a session call.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) session: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) session_call: Option<u64>,
    pub(crate) grant_profile: String,
    pub(crate) sandbox: String,
    pub(crate) isolation: String,
    pub(crate) exit_code: Option<i64>,
    pub(crate) timed_out: bool,
    pub(crate) duration_ms: u64,
    pub(crate) host_calls: u64,
    pub(crate) host_calls_denied: u64,
    pub(crate) host_calls_shed: u64,
    pub(crate) host_calls_dropped: u64,
    /// The advice mode; empty when the line carries no advice.
    pub(crate) advice: String,
    pub(crate) advice_findings: u64,
    pub(crate) advice_agent_fixable: u64,
    pub(crate) advice_ungranted_routes: u64,
    pub(crate) advice_candidate_routes: u64,
    pub(crate) advice_extra_calls: u64,
    pub(crate) advice_added_latency_ms: u64,
    pub(crate) advice_bytes_moved: u64,
    pub(crate) findings: Vec<LoggedFinding>,
}

/// One entry of `advice_finding_details`. Labels stay text, because an old log may hold retired ones.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct LoggedFinding {
    pub(crate) pattern: String,
    pub(crate) severity: String,
    pub(crate) remedy: String,
    pub(crate) method: String,
    pub(crate) route: String,
    pub(crate) detail: String,
    /// Who can act; worked out from the fields of the line.
    pub(crate) class: crate::Class,
    /// The route that would replace the calls, with its verb; empty for [`crate::Class::NoKnownRoute`].
    pub(crate) replacement: String,
    pub(crate) extra_calls: u64,
    pub(crate) added_latency_ms: u64,
    pub(crate) bytes_moved: u64,
    /// Text for the API owner's own AI, when a grants file was given and the class is `no-known-route`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) prompt: Option<String>,
}

/// Reads the log to its end.
pub(crate) fn read(mut log: impl BufRead) -> Result<Input, InputError> {
    let mut input = Input::default();
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        let read = log
            .by_ref()
            .take(MAX_LINE_BYTES + 1)
            .read_until(b'\n', &mut line)
            .map_err(|error| InputError::Read { line: number, error })?;
        if read == 0 {
            break;
        }
        if line.last() != Some(&b'\n') && line.len() as u64 > MAX_LINE_BYTES {
            return Err(InputError::LongLine { line: number });
        }
        let text = line.trim_ascii();
        if text.is_empty() {
            continue;
        }
        input.lines += 1;
        match serde_json::from_slice(text) {
            Ok(Value::Object(fields)) => input.runs.extend(run(&fields)),
            _ => input.unreadable += 1,
        }
    }
    Ok(input)
}

/// The run of a line, if its message says that it is one.
fn run(fields: &Map<String, Value>) -> Option<Run> {
    let (kind, failed) = match fields.get("msg")?.as_str()? {
        "code run" => ("code", false),
        "code run failed" => ("code", true),
        "project run" => ("project", false),
        "project run failed" => ("project", true),
        _ => return None,
    };
    Some(Run {
        time: text(fields, "time"),
        kind,
        failed,
        caller: text(fields, "caller"),
        trace_id: text(fields, "trace_id"),
        session: text(fields, "session"),
        session_call: fields.get("session_call").map(number),
        grant_profile: text(fields, "grant_profile"),
        sandbox: text(fields, "sandbox"),
        isolation: text(fields, "isolation"),
        exit_code: fields.get("exit_code").and_then(Value::as_i64),
        timed_out: flag(fields, "timed_out"),
        duration_ms: amount(fields, "duration_ms"),
        host_calls: amount(fields, "host_calls"),
        host_calls_denied: amount(fields, "host_calls_denied"),
        host_calls_shed: amount(fields, "host_calls_shed"),
        host_calls_dropped: amount(fields, "host_calls_dropped"),
        advice: text(fields, "advice"),
        advice_findings: amount(fields, "advice_findings"),
        advice_agent_fixable: amount(fields, "advice_agent_fixable"),
        advice_ungranted_routes: amount(fields, "advice_ungranted_routes"),
        advice_candidate_routes: amount(fields, "advice_candidate_routes"),
        advice_extra_calls: amount(fields, "advice_extra_calls"),
        advice_added_latency_ms: amount(fields, "advice_added_latency_ms"),
        advice_bytes_moved: amount(fields, "advice_bytes_moved"),
        findings: fields
            .get("advice_finding_details")
            .and_then(Value::as_array)
            .map(|details| details.iter().filter_map(Value::as_object).map(finding).collect())
            .unwrap_or_default(),
    })
}

fn finding(fields: &Map<String, Value>) -> LoggedFinding {
    use crate::Class;
    let route = |method: &str, route: &str| {
        format!("{} {}", text(fields, method), text(fields, route))
            .trim()
            .to_owned()
    };
    let set = |key: &str| !text(fields, key).is_empty();
    let (class, replacement) = if flag(fields, "agent_fixable") {
        (Class::AgentFixable, route("suggested_method", "suggested_route"))
    } else if set("grant_route") {
        (Class::GrantRoute, route("grant_route_method", "grant_route"))
    } else if set("candidate_route") {
        (Class::Candidate, route("candidate_method", "candidate_route"))
    } else {
        (Class::NoKnownRoute, String::new())
    };
    LoggedFinding {
        pattern: text(fields, "pattern"),
        severity: text(fields, "severity"),
        remedy: text(fields, "remedy"),
        method: text(fields, "method"),
        route: text(fields, "route"),
        detail: text(fields, "detail"),
        class,
        replacement,
        extra_calls: amount(fields, "extra_calls"),
        added_latency_ms: amount(fields, "added_latency_ms"),
        bytes_moved: amount(fields, "bytes_moved"),
        prompt: None,
    }
}

fn text(fields: &Map<String, Value>, key: &str) -> String {
    fields.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn flag(fields: &Map<String, Value>, key: &str) -> bool {
    fields.get(key).and_then(Value::as_bool).unwrap_or_default()
}

fn amount(fields: &Map<String, Value>, key: &str) -> u64 {
    fields.get(key).map(number).unwrap_or_default()
}

/// A count; a fraction is cut, and what is no count reads as 0.
fn number(value: &Value) -> u64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the cast saturates: a fraction is cut, a negative number is 0"
    )]
    value
        .as_u64()
        .or_else(|| value.as_f64().map(|fraction| fraction as u64))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Class;

    fn runs(log: &str) -> Vec<Run> {
        read(log.as_bytes()).unwrap().runs
    }

    #[test]
    fn only_runs_are_kept_and_only_what_is_no_object_is_called_unreadable() {
        let log = "\n  \nnot json\n[1]\n\"x\"\n{\"msg\":\"session opened\"}\n{\"msg\":7}\n{}\n{\"msg\":\"module run\"}\n\
                   {\"msg\":\"code run\",\"caller\":\"a\"}\r\n{\"msg\":\"project run\"}\n{\"msg\":\"code run failed\"}\n\
                   \u{fe}\n{\"msg\":\"code run\",\"caller\":\"last, without an end\"}";
        let input = read(log.as_bytes()).unwrap();
        let seen: Vec<_> = input.runs.iter().map(|run| (run.kind, run.failed)).collect();
        assert_eq!(
            seen,
            [("code", false), ("project", false), ("code", true), ("code", false)]
        );
        assert_eq!(input.runs[3].caller, "last, without an end");
        assert_eq!(input.unreadable, 4);
        assert_eq!(read(&b"\xff{\xfe\n"[..]).unwrap().unreadable, 1);
    }

    #[test]
    fn nesting_without_end_is_an_unreadable_line_and_no_crash() {
        let input = read("[".repeat(1 << 20).as_bytes()).unwrap();
        assert_eq!((input.runs.len(), input.unreadable), (0, 1));
    }

    #[test]
    fn a_field_of_another_type_reads_as_nothing() {
        let run = &runs(
            r#"{"msg":"code run","time":5,"caller":null,"exit_code":"0","timed_out":"yes","duration_ms":-3,
            "host_calls":"9","advice_finding_details":{"pattern":"fan_out"}}"#
                .replace('\n', " ")
                .as_str(),
        )[0];
        let nothing = Run {
            kind: "code",
            ..Run::default()
        };
        assert_eq!(*run, nothing);
        let run = &runs(r#"{"msg":"code run","advice_finding_details":[7,{"route":[],"extra_calls":2.9}]}"#)[0];
        assert_eq!(run.findings.len(), 1);
        assert_eq!(run.findings[0].extra_calls, 2);
    }

    #[test]
    fn a_line_may_have_16_mib_and_not_a_byte_more() {
        let limit = usize::try_from(MAX_LINE_BYTES).unwrap();
        let line = |bytes: usize| {
            let head = r#"{"msg":"code run","caller":""#;
            format!("{head}{}\"}}", "c".repeat(bytes - head.len() - 2))
        };
        let longest = line(limit);
        assert_eq!(longest.len(), limit);
        assert_eq!(runs(&longest).len(), 1);
        assert_eq!(runs(&format!("{longest}\n{{\"msg\":\"code run\"}}\n")).len(), 2);
        let error = read(format!("\n{}", line(limit + 1)).as_bytes()).unwrap_err();
        assert!(matches!(error, InputError::LongLine { line: 2 }), "{error}");
        let blanks = " ".repeat(limit + 1);
        read(blanks.as_bytes()).unwrap_err();
    }

    #[test]
    fn the_class_follows_the_first_of_the_three_routes_that_is_set() {
        let class = |members: &str| {
            let log = format!(r#"{{"msg":"code run","advice_finding_details":[{{{members}}}]}}"#);
            let finding = runs(&log)[0].findings[0].clone();
            (finding.class, finding.replacement)
        };
        let all = r#""agent_fixable":true,"suggested_method":"GET","suggested_route":"/s","grant_route_method":"GET",
            "grant_route":"/g","candidate_method":"GET","candidate_route":"/c""#
            .replace('\n', " ");
        assert_eq!(class(&all), (Class::AgentFixable, "GET /s".to_owned()));
        let unfixable = all.replace("true", "false");
        assert_eq!(class(&unfixable), (Class::GrantRoute, "GET /g".to_owned()));
        let candidate = r#""candidate_method":"GET","candidate_route":"/c""#;
        assert_eq!(class(candidate), (Class::Candidate, "GET /c".to_owned()));
        let suggested_only = r#""suggested_method":"GET","suggested_route":"/s""#;
        assert_eq!(class(suggested_only), (Class::NoKnownRoute, String::new()));
    }
}
