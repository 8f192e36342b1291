//! JSON's number grammar, and exact whole numbers written in any of its forms.

/// How long the number at the start of `bytes` is; `None` when it is not one.
pub(super) fn length(bytes: &[u8]) -> Option<usize> {
    let digits = |from: usize| {
        bytes[from.min(bytes.len())..]
            .iter()
            .take_while(|byte| byte.is_ascii_digit())
            .count()
    };
    let mut at = usize::from(bytes.first() == Some(&b'-'));
    let whole = digits(at);
    if whole == 0 || (whole > 1 && bytes[at] == b'0') {
        return None;
    }
    at += whole;
    if bytes.get(at) == Some(&b'.') {
        let fraction = digits(at + 1);
        if fraction == 0 {
            return None;
        }
        at += 1 + fraction;
    }
    if let Some(b'e' | b'E') = bytes.get(at) {
        at += 1 + usize::from(matches!(bytes.get(at + 1), Some(b'+' | b'-')));
        let exponent = digits(at);
        if exponent == 0 {
            return None;
        }
        at += exponent;
    }
    Some(at)
}

/// Whether text is a plain decimal integer, the only form a whole number takes inside a string.
pub(super) fn is_decimal(text: &[u8]) -> bool {
    !text.is_empty() && length(text) == Some(text.len()) && !text.iter().any(|byte| matches!(byte, b'.' | b'e' | b'E'))
}

/// Whether a well-formed number is whole and within bounds, computed exactly: `1.0` and `1e3` are whole, `0.5` is not.
pub(super) fn fits(text: &[u8], least: i128, most: i128) -> bool {
    exact(text).is_some_and(|value| (least..=most).contains(&value))
}

/// The exact value of a whole number; `None` when it is not whole or far beyond 64 bits.
fn exact(text: &[u8]) -> Option<i128> {
    let (negative, text) = text.strip_prefix(b"-").map_or((false, text), |rest| (true, rest));
    let exponent_at = text
        .iter()
        .position(|byte| matches!(byte, b'e' | b'E'))
        .unwrap_or(text.len());
    let (mantissa, exponent) = (&text[..exponent_at], text.get(exponent_at + 1..));
    let point = mantissa.iter().position(|byte| *byte == b'.').unwrap_or(mantissa.len());
    let fraction = mantissa.len().saturating_sub(point + 1);

    let mut value: i128 = 0;
    let mut trailing_zeros = 0_i64;
    for digit in mantissa.iter().filter(|byte| **byte != b'.') {
        if *digit == b'0' {
            trailing_zeros += 1;
            continue;
        }
        // Zeros are held back until a digit follows, so `1000…0e-30` stays exact and small.
        if value != 0 {
            for _ in 0..trailing_zeros {
                value = value.checked_mul(10)?;
                if value > i128::from(u64::MAX) * 10 {
                    return None;
                }
            }
        }
        trailing_zeros = 0;
        value = value.checked_mul(10)?.checked_add(i128::from(digit - b'0'))?;
        if value > i128::from(u64::MAX) * 10 {
            return None;
        }
    }
    if value == 0 {
        return Some(0);
    }
    let scale = (trailing_zeros - i64::try_from(fraction).ok()?).checked_add(exponent.map_or(Some(0), small)?)?;
    // A negative scale leaves a fraction: the last digit kept is never zero.
    let scale = u32::try_from(scale).ok()?;
    value = value.checked_mul(10_i128.checked_pow(scale)?)?;
    Some(if negative { -value } else { value })
}

/// A small exponent; one of many digits cannot make a whole number of 64 bits unless its mantissa is zero.
fn small(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    let mut value: i64 = 0;
    for digit in digits {
        value = value.checked_mul(10)?.checked_add(i64::from(digit - b'0'))?;
    }
    Some(if negative { -value } else { value })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_grammar_is_jsons() {
        for good in ["0", "-0", "10", "1.5", "-1.50e+10", "1E-3", "0e0"] {
            assert_eq!(length(good.as_bytes()), Some(good.len()), "{good}");
        }
        for bad in [
            "",
            "-",
            "01",
            "+1",
            ".5",
            "1.",
            "1e",
            "1e+",
            "NaN",
            "Infinity",
            "-Infinity",
        ] {
            assert_eq!(length(bad.as_bytes()), None, "{bad}");
        }
        assert_eq!(length(b"1x"), Some(1));
    }

    #[test]
    fn whole_numbers_are_exact_in_every_form() {
        for (text, value) in [
            ("0", 0),
            ("-0", 0),
            ("-0.0", 0),
            ("0e99999999999999999999", 0),
            ("1.0", 1),
            ("1e3", 1000),
            ("1.5e1", 15),
            ("1500e-2", 15),
            ("100000000000000000000000000000e-28", 10),
            ("0.00001e5", 1),
            ("10.50e1", 105),
            ("101", 101),
            ("9007199254740993", 9_007_199_254_740_993),
            ("18446744073709551615", 18_446_744_073_709_551_615),
            ("-9223372036854775808", -9_223_372_036_854_775_808),
        ] {
            assert_eq!(exact(text.as_bytes()), Some(value), "{text}");
        }
        for text in ["0.5", "1e-1", "1.01e1", "1e99999999999999999999", "1e41", "15e-1"] {
            assert_eq!(exact(text.as_bytes()), None, "{text}");
        }
    }
}
