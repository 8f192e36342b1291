//! Numbers, times and values as the page shows them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// `512 B`, `4.0 KB` or `1.5 MB`; one KB is 1,024 bytes.
pub(crate) fn bytes(count: u64) -> String {
    if count >= MIB {
        tenths(count, MIB, "MB")
    } else if count >= KIB {
        tenths(count, KIB, "KB")
    } else {
        format!("{count} B")
    }
}

/// One decimal, rounded half up, in whole numbers: a sum of bytes may be larger than a double counts exactly.
fn tenths(count: u64, unit: u64, name: &str) -> String {
    let tenths = (u128::from(count) * 10 + u128::from(unit) / 2) / u128::from(unit);
    format!("{}.{} {name}", tenths / 10, tenths % 10)
}

/// `55 ms` or `1.25 s`.
pub(crate) fn millis(count: u64) -> String {
    if count >= 1_000 {
        let hundredths = (u128::from(count) + 5) / 10;
        format!("{}.{:02} s", hundredths / 100, hundredths % 100)
    } else {
        format!("{count} ms")
    }
}

/// A count with a comma between groups of three digits.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.char_indices() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `1 call`, `2 calls`.
pub(crate) fn counted(number: u64, one: &str, many: &str) -> String {
    format!("{} {}", count(number), if number == 1 { one } else { many })
}

/// `YYYY-MM-DD HH:MM:SS UTC`; a clock before 1970 reads as 1970.
pub(crate) fn utc(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs();
    let (year, month, day) = civil(since / 86_400);
    let (hour, minute, second) = (since / 3_600 % 24, since / 60 % 60, since % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
}

/// The date of a day counted from 1970-01-01. Years are counted from March, so that a leap day is a year's last.
fn civil(days: u64) -> (u64, u64, u64) {
    const ERA: u64 = 146_097; // days of 400 years
    const MARCH_0000: u64 = 719_468; // days from 0000-03-01 to 1970-01-01
    let shifted = days + MARCH_0000;
    let (era, day) = (shifted / ERA, shifted % ERA);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day_of_month = day - (153 * month + 2) / 5 + 1;
    let (month, carry) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (era * 400 + year + carry, month, day_of_month)
}

/// A time of the log to the second: `2026-01-02T03:04:05.678Z` reads `2026-01-02 03:04:05`. Anything else stays as it is.
pub(crate) fn log_time(text: &str) -> String {
    let shape = b"dddd-dd-ddTdd:dd:dd";
    let fits = text.len() > shape.len()
        && text.ends_with('Z')
        && text.bytes().zip(shape).all(|(byte, form)| match form {
            b'd' => byte.is_ascii_digit(),
            _ => byte == *form,
        });
    if fits {
        format!("{} {}", &text[..10], &text[11..19])
    } else {
        text.to_owned()
    }
}

/// A value as HTML text, safe between tags and inside double quotes. What would be invisible or would turn the reading
/// direction is spelled out, so that no value of a log can pass for another.
pub(crate) fn escape(value: &str) -> String {
    let mut text = String::with_capacity(value.len() + 8);
    for c in value.chars() {
        match c {
            '&' => text.push_str("&amp;"),
            '<' => text.push_str("&lt;"),
            '>' => text.push_str("&gt;"),
            '"' => text.push_str("&quot;"),
            '\'' => text.push_str("&#39;"),
            '\n' => text.push('\n'),
            c if c.is_control() || turns_or_hides(c) => text.push_str(&format!("\\u{{{:x}}}", u32::from(c))),
            c => text.push(c),
        }
    }
    text
}

const fn turns_or_hides(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_change_unit_at_a_kib_and_a_mib() {
        for (number, text) in [
            (0, "0 B"),
            (1_023, "1023 B"),
            (1_024, "1.0 KB"),
            (1_536, "1.5 KB"),
            (1_048_575, "1024.0 KB"),
            (1_048_576, "1.0 MB"),
            (3_670_016, "3.5 MB"),
            (u64::MAX, "17592186044416.0 MB"),
        ] {
            assert_eq!(bytes(number), text);
        }
    }

    #[test]
    fn milliseconds_become_seconds_at_a_thousand() {
        for (number, text) in [
            (0, "0 ms"),
            (999, "999 ms"),
            (1_000, "1.00 s"),
            (1_234, "1.23 s"),
            (61_500, "61.50 s"),
        ] {
            assert_eq!(millis(number), text);
        }
        assert!(millis(u64::MAX).ends_with(" s"));
    }

    #[test]
    fn counts_are_grouped_and_agree_in_number() {
        for (number, text) in [
            (0, "0"),
            (999, "999"),
            (1_000, "1,000"),
            (12_345, "12,345"),
            (1_234_567, "1,234,567"),
        ] {
            assert_eq!(count(number), text);
        }
        assert_eq!(counted(1, "call", "calls"), "1 call");
        assert_eq!(counted(0, "call", "calls"), "0 calls");
    }

    #[test]
    fn dates_are_right_around_leap_days_and_centuries() {
        for (seconds, text) in [
            (0, "1970-01-01 00:00:00 UTC"),
            (951_782_399, "2000-02-28 23:59:59 UTC"),
            (951_782_400, "2000-02-29 00:00:00 UTC"),
            (951_868_800, "2000-03-01 00:00:00 UTC"),
            (1_800_000_000, "2027-01-15 08:00:00 UTC"),
            (4_107_542_400, "2100-03-01 00:00:00 UTC"),
        ] {
            assert_eq!(utc(UNIX_EPOCH + Duration::from_secs(seconds)), text);
        }
        assert_eq!(utc(UNIX_EPOCH - Duration::from_secs(1)), "1970-01-01 00:00:00 UTC");
    }

    #[test]
    fn a_log_time_is_cut_to_the_second_and_anything_else_is_kept() {
        assert_eq!(log_time("2026-01-02T03:04:05.678901234Z"), "2026-01-02 03:04:05");
        assert_eq!(log_time("2026-01-02T03:04:05Z"), "2026-01-02 03:04:05");
        for other in ["", "yesterday", "2026-01-02T03:04:05+02:00", "2026-01-02T03:04:0éZ"] {
            assert_eq!(log_time(other), other);
        }
    }

    #[test]
    fn no_value_can_leave_its_place_or_hide_in_it() {
        assert_eq!(
            escape(r#"<a b='c' d="e">&"#),
            "&lt;a b=&#39;c&#39; d=&quot;e&quot;&gt;&amp;"
        );
        assert_eq!(escape("a\u{202e}b\u{0}c\u{200b}"), "a\\u{202e}b\\u{0}c\\u{200b}");
        assert_eq!(escape("line\nline"), "line\nline");
    }
}
