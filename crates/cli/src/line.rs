//! The one line about a run that goes to standard error.

use std::fmt::Write as _;

use plimsoll_core::limits::EXIT_TIMED_OUT;
use plimsoll_core::{Diagnostics, JavaScriptResult, Trap};
use plimsoll_record::Answer;

use crate::failure::{MAY_HAVE_RUN, NOTHING_RAN, USAGE};
use crate::words::milliseconds;

/// Exit code of a run whose engine trapped.
const EXIT_TRAPPED: i32 = 134;

/// Exit codes this command has for failures of its own.
const OURS: [u8; 3] = [USAGE, NOTHING_RAN, MAY_HAVE_RUN];

/// A timeout that was asked for and one that held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lowered {
    pub(crate) asked_ms: u64,
    pub(crate) most_ms: u64,
}

impl Lowered {
    /// What became of a timeout at a provider with this maximum; 0 is the provider's default, or no stated maximum.
    pub(crate) fn of(asked_ms: i32, most_ms: u32) -> Option<Self> {
        let (asked_ms, most_ms) = (u64::try_from(asked_ms).ok()?, u64::from(most_ms));
        (most_ms > 0 && asked_ms > most_ms).then_some(Self { asked_ms, most_ms })
    }
}

/// Tier, duration, exit code with its meaning, what was cut, which limit was hit, and the digest of the record.
///
/// `lowered` is there when the timeout asked for was above the provider's maximum.
pub(crate) fn about(answer: &Answer, result: &JavaScriptResult, lowered: Option<Lowered>) -> String {
    let diagnostics = answer.diagnostics.unwrap_or_default();
    let mut line = format!(
        "plimsoll: tier {}, {}, exit {}",
        answer.isolation,
        duration(answer.duration_ms),
        result.exit_code
    );
    if let Some(meaning) = meaning(result, &diagnostics) {
        let _infallible = write!(line, " ({meaning})");
    }
    if let Some(Lowered { asked_ms, most_ms }) = lowered {
        let _infallible = write!(
            line,
            ", timeout {} lowered to {}, this provider's maximum",
            milliseconds(asked_ms),
            milliseconds(most_ms)
        );
    }
    for (stream, cut, kept, written) in [
        (
            "stdout",
            result.stdout_truncated,
            result.stdout.len(),
            diagnostics.stdout_bytes,
        ),
        (
            "stderr",
            result.stderr_truncated,
            result.stderr.len(),
            diagnostics.stderr_bytes,
        ),
    ] {
        if cut {
            let _infallible = write!(line, ", {stream} truncated to {kept}");
            if written > 0 {
                let _infallible = write!(line, " of {written}");
            }
            line.push_str(" bytes");
        }
    }
    if let Some(limit) = diagnostics.limit_hit {
        let _infallible = write!(line, ", limit hit: {}", limit.as_str());
    }
    if let Some(record) = &answer.record {
        let _infallible = write!(line, ", record {}", record.record_sha256);
    }
    line
}

fn duration(ms: i64) -> String {
    match ms {
        ..1 => "under 1 ms".to_owned(),
        1..10_000 => format!("{ms} ms"),
        _ => format!("{}.{} s", ms / 1000, ms % 1000 / 100),
    }
}

/// What an exit code says that its number does not.
fn meaning(result: &JavaScriptResult, diagnostics: &Diagnostics) -> Option<&'static str> {
    if result.timed_out {
        return Some("its timeout ended it");
    }
    if let Some(trap) = diagnostics.trap {
        return Some(match trap {
            Trap::Stack => "the engine trapped: its native stack ran out",
            Trap::Memory => "the engine trapped: an access outside its memory",
            Trap::Unreachable => {
                "the engine trapped: it gave up, as it does when memory runs out where it cannot recover"
            }
            Trap::Other => "the engine trapped",
        });
    }
    match result.exit_code {
        EXIT_TIMED_OUT => Some("the program's own exit code, not a timeout"),
        EXIT_TRAPPED => Some("the program's own exit code, not a trap"),
        13 => Some("as when an await never settles"),
        code if OURS.map(i32::from).contains(&code) => Some("the program's own exit code: it ran"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_core::{Limit, RunResult};
    use plimsoll_record::RunRecord;

    use super::*;

    fn line(duration_ms: i64, result: &JavaScriptResult, diagnostics: Diagnostics) -> String {
        let record = RunRecord {
            record_sha256: "9a".repeat(32),
            ..RunRecord::default()
        };
        let answer = Answer {
            sandbox: "wasm".to_owned(),
            isolation: "process".to_owned(),
            duration_ms,
            record: Some(record),
            software_identity: String::new(),
            environment: String::new(),
            instance: String::new(),
            diagnostics: Some(diagnostics),
            result: Some(RunResult::JavaScript(result.clone())),
        };
        about(&answer, result, None)
    }

    #[test]
    fn a_timeout_is_lowered_only_above_a_stated_maximum() {
        let held = |asked, most| Lowered::of(asked, most).map(|lowered| (lowered.asked_ms, lowered.most_ms));
        assert_eq!(held(60_000, 30_000), Some((60_000, 30_000)));
        for (asked, most) in [(30_000, 30_000), (0, 30_000), (60_000, 0), (-1, 30_000)] {
            assert_eq!(held(asked, most), None, "{asked} {most}");
        }
    }

    #[test]
    fn the_line_says_what_happened_and_nothing_else() {
        let trapped = |trap| Diagnostics {
            trap: Some(trap),
            ..Diagnostics::default()
        };
        let exit = |exit_code| JavaScriptResult {
            exit_code,
            ..JavaScriptResult::default()
        };
        let lines = [
            line(0, &exit(0), Diagnostics::default()),
            line(12, &exit(3), Diagnostics::default()),
            line(
                50,
                &JavaScriptResult {
                    timed_out: true,
                    ..exit(124)
                },
                Diagnostics::default(),
            ),
            line(50, &exit(124), Diagnostics::default()),
            line(50, &exit(134), Diagnostics::default()),
            line(1, &exit(125), Diagnostics::default()),
            line(1, &exit(13), Diagnostics::default()),
            line(7, &exit(134), trapped(Trap::Stack)),
            line(7, &exit(134), trapped(Trap::Memory)),
            line(
                7,
                &exit(134),
                Diagnostics {
                    limit_hit: Some(Limit::Memory),
                    ..trapped(Trap::Unreachable)
                },
            ),
            line(7, &exit(134), trapped(Trap::Other)),
            line(
                12_345,
                &JavaScriptResult {
                    stdout: vec![b'x'; 5],
                    stdout_truncated: true,
                    stderr_truncated: true,
                    ..exit(0)
                },
                Diagnostics {
                    stdout_bytes: 8,
                    limit_hit: Some(Limit::Output),
                    ..Diagnostics::default()
                },
            ),
        ];
        insta::assert_snapshot!(lines.join("\n"));
    }
}
