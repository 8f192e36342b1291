//! The words of the wire, said as the command line says them.

/// Fields of a request or a client, and what somebody who types a command calls them.
const FIELDS: [(&str, &str); 10] = [
    ("minimum_isolation", "--floor"),
    ("timeout_ms", "--timeout"),
    ("javascript.code", "the program"),
    ("cell.code", "the cell"),
    ("cell.language", "--language"),
    ("project.steps", "--step"),
    ("project.artifacts", "--artifact"),
    ("grant_profile", "--grant"),
    ("base URL", "--daemon"),
    ("token", "PLIMSOLL_TOKEN"),
];

/// A message for people: a field it begins with has its name on the command line, and what the line says anyway ("nothing
/// ran") is not said twice. Everything else stays as it came.
pub(crate) fn spoken(message: &str) -> String {
    let named = FIELDS.iter().find_map(|(field, word)| {
        let rest = message.strip_prefix(field)?;
        match rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            // People count from one.
            Some((index, rest)) => Some(format!("{word} number {}{rest}", index.parse::<usize>().ok()? + 1)),
            None => rest.starts_with([' ', ':']).then(|| format!("{word}{rest}")),
        }
    });
    named
        .unwrap_or_else(|| message.to_owned())
        .replacen("; nothing ran", "", 1)
}

/// The text on one line, with everything a terminal would obey instead of show spelled out: it may come from a daemon
/// nobody vouches for.
pub(crate) fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        let turns_direction =
            matches!(c, '\u{200e}' | '\u{200f}' | '\u{061c}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        if c.is_control() || turns_direction || matches!(c, '\u{2028}' | '\u{2029}') {
            shown.extend(c.escape_unicode());
        } else {
            shown.push(c);
        }
    }
    shown
}

/// A number of milliseconds as people write it.
pub(crate) fn milliseconds(ms: u64) -> String {
    match (ms / 1000, ms % 1000) {
        (0, rest) => format!("{rest} ms"),
        (seconds, 0) => format!("{seconds} s"),
        (seconds, rest) => format!("{seconds}.{} s", format!("{rest:03}").trim_end_matches('0')),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leading_field_has_its_name_on_the_command_line_and_nothing_else_changes() {
        for (message, words) in [
            ("javascript.code is empty; send text", "the program is empty; send text"),
            ("timeout_ms: 7; at most 5", "--timeout: 7; at most 5"),
            (
                "minimum_isolation is vm, but provider wasm gives process; nothing ran. Lower the floor",
                "--floor is vm, but provider wasm gives process. Lower the floor",
            ),
            ("project.steps: 21 steps; at most 20", "--step: 21 steps; at most 20"),
            (
                "project.steps[0]: 7 bytes; at most 5",
                "--step number 1: 7 bytes; at most 5",
            ),
            (
                "project.artifacts[11] repeats an earlier path",
                "--artifact number 12 repeats an earlier path",
            ),
            ("tokens are scarce", "tokens are scarce"),
            ("the field token is odd", "the field token is odd"),
        ] {
            assert_eq!(spoken(message), words);
        }
    }

    #[test]
    fn a_text_from_elsewhere_moves_no_cursor_and_adds_no_line() {
        assert_eq!(visible("plain \u{e9} text"), "plain \u{e9} text");
        assert_eq!(
            visible("\u{1b}[31mEVIL\r\nplimsoll: tier vm\u{202e}"),
            "\\u{1b}[31mEVIL\\u{d}\\u{a}plimsoll: tier vm\\u{202e}"
        );
    }

    #[test]
    fn a_duration_has_no_more_digits_than_it_needs() {
        for (ms, words) in [
            (7, "7 ms"),
            (30_000, "30 s"),
            (1_500, "1.5 s"),
            (61_250, "61.25 s"),
            (2_001, "2.001 s"),
            (10_010, "10.01 s"),
        ] {
            assert_eq!(milliseconds(ms), words);
        }
    }
}
