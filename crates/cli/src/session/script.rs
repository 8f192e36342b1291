//! Cells from a standard input that is no terminal: one a line, or blocks split by a line `---`.

use std::io::{self, BufRead, Read};

use plimsoll_core::limits::MAX_CODE_BYTES;

use crate::failure::Failure;

/// The line that splits blocks.
const SPLIT: &str = "---";

/// The longest input that is read before the first cell runs, in bytes: 64 cells of the greatest length.
const MAX_INPUT_BYTES: u64 = 64 * MAX_CODE_BYTES as u64;

/// The longest line: a whole cell and the line's end, which may be two bytes.
const MAX_LINE_BYTES: u64 = MAX_CODE_BYTES as u64 + 2;

/// The cells of an input, in order.
pub(super) enum Script<R> {
    /// The whole input was read: cells that wait.
    Read(std::vec::IntoIter<String>),
    /// The input began with a split, so each block can run as soon as the split after it has come. With the lines that were
    /// read.
    Arriving(R, usize),
}

impl<R: BufRead> Script<R> {
    /// Reads as much of the input as is needed to know how it is split. Only an input whose first line is `---` is known to
    /// be blocks before its end.
    ///
    /// # Errors
    /// What cannot be read, or is no UTF-8.
    pub(super) fn new(mut input: R) -> Result<Self, Failure> {
        let mut first = line(&mut input, 1)?.unwrap_or_default();
        // What some editors begin a file with, and no part of its text.
        if let Some(text) = first.strip_prefix('\u{feff}') {
            first = text.to_owned();
        }
        if is_split(&first) {
            return Ok(Self::Arriving(input, 1));
        }
        let mut rest = String::new();
        let read = input.take(MAX_INPUT_BYTES + 1).read_to_string(&mut rest);
        read.map_err(|error| unreadable(&error))?;
        if rest.len() as u64 > MAX_INPUT_BYTES {
            return Err(Failure::no_program(format!(
                "standard input is over {MAX_INPUT_BYTES} bytes before its first cell can run; begin it with a line --- to run \
                 each block as it arrives"
            )));
        }
        let text = first + &rest;
        let cells = if text.lines().any(is_split) {
            blocks(&text)
        } else {
            text.lines().map(str::to_owned).zip(1..).collect()
        };
        let cells: Vec<(String, usize)> = cells.into_iter().filter(|(cell, _)| !is_blank(cell)).collect();
        if let Some((_, begins)) = cells.iter().find(|(cell, _)| cell.len() > MAX_CODE_BYTES) {
            return Err(too_long(*begins));
        }
        let cells: Vec<String> = cells.into_iter().map(|(cell, _)| cell).collect();
        Ok(Self::Read(cells.into_iter()))
    }

    /// The next cell that is not blank; `None` at the end.
    ///
    /// # Errors
    /// As [`Script::new`].
    pub(super) fn next(&mut self) -> Result<Option<String>, Failure> {
        let (input, read) = match self {
            Self::Read(cells) => return Ok(cells.next()),
            Self::Arriving(input, read) => (input, read),
        };
        let mut block = String::new();
        let mut begins = *read + 1;
        loop {
            let text = line(input, begins)?;
            *read += 1;
            let text = match text {
                Some(text) if !is_split(&text) => text,
                Some(_) if is_blank(&block) => {
                    block.clear();
                    begins = *read + 1;
                    continue;
                }
                _ => break,
            };
            block.push_str(&text);
            if block.len() > MAX_CODE_BYTES {
                return Err(too_long(begins));
            }
        }
        Ok((!is_blank(&block)).then_some(block))
    }
}

/// A line with its end, of a cell that begins on the line of this number; never more of it than shows that no cell could have
/// it.
fn line(input: &mut impl BufRead, begins: usize) -> Result<Option<String>, Failure> {
    let mut bytes = Vec::new();
    let read = input.take(MAX_LINE_BYTES + 1).read_until(b'\n', &mut bytes);
    read.map_err(|error| unreadable(&error))?;
    let text = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
    if text.strip_suffix(b"\r").unwrap_or(text).len() > MAX_CODE_BYTES {
        return Err(too_long(begins));
    }
    let text = String::from_utf8(bytes).map_err(|_| not_text())?;
    Ok((!text.is_empty()).then_some(text))
}

fn too_long(begins: usize) -> Failure {
    Failure::no_program(format!(
        "the cell that begins on line {begins} of standard input is over {MAX_CODE_BYTES} bytes, the most a cell may have"
    ))
}

fn unreadable(error: &io::Error) -> Failure {
    if error.kind() == io::ErrorKind::InvalidData {
        return not_text();
    }
    Failure::no_program(format!("cannot read standard input: {error}"))
}

fn not_text() -> Failure {
    Failure::no_program("standard input is not UTF-8 text; save it as UTF-8")
}

fn is_split(line: &str) -> bool {
    line.trim_end() == SPLIT
}

fn is_blank(cell: &str) -> bool {
    cell.trim().is_empty()
}

/// With the number of the line each begins on.
fn blocks(text: &str) -> Vec<(String, usize)> {
    let mut blocks = vec![(String::new(), 1)];
    for (line, number) in text.split_inclusive('\n').zip(1..) {
        if is_split(line) {
            blocks.push((String::new(), number + 1));
        } else if let Some((last, _)) = blocks.last_mut() {
            last.push_str(line);
        }
    }
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cells(input: &str) -> Vec<String> {
        let mut script = Script::new(input.as_bytes()).unwrap();
        std::iter::from_fn(|| script.next().unwrap()).collect()
    }

    #[test]
    fn without_a_split_each_line_is_a_cell_and_blank_ones_are_none() {
        assert_eq!(cells("let n = 1\n\n  \nn + 1"), ["let n = 1", "n + 1"]);
        assert_eq!(cells(""), [""; 0]);
        assert_eq!(cells("a\r\nb --- c\r\n"), ["a", "b --- c"]);
    }

    #[test]
    fn a_line_of_three_dashes_makes_blocks_of_the_rest() {
        assert_eq!(cells("a\nb\n---\nc\n"), ["a\nb\n", "c\n"]);
        assert_eq!(cells("a\n---\r\n\n---  \nb\n---\n"), ["a\n", "b\n"]);
        assert_eq!(cells("a\n--- b\n---"), ["a\n--- b\n"]);
    }

    #[test]
    fn an_input_that_begins_with_a_split_is_read_block_by_block() {
        assert_eq!(cells("---\na\nb\n---\n\n---\nc"), ["a\nb\n", "c"]);
        assert_eq!(cells("\u{feff}---\na\nb\n---\nc"), ["a\nb\n", "c"]);
        assert_eq!(cells("\u{feff}a\nb"), ["a", "b"]);
        // Whoever writes the blocks may wait for the answer to one before it writes the next.
        let endless = io::Cursor::new("---\nfirst\n---\n").chain(io::repeat(b'x'));
        let mut script = Script::new(io::BufReader::new(endless)).unwrap();
        assert_eq!(script.next().unwrap().as_deref(), Some("first\n"));
    }

    #[test]
    fn no_cell_is_longer_than_a_cell_may_be() {
        let most = "x".repeat(MAX_CODE_BYTES);
        assert_eq!(cells(&format!("1\n{most}\r\n2")), ["1", &most, "2"]);
        let block = format!("{}\n", &most[1..]);
        assert_eq!(cells(&format!("---\n{block}---\n2")), [block.as_str(), "2"]);
        for (input, before, begins) in [
            (format!("1\n{most}x\n"), None, 2),
            (format!("{most}\u{e9}\n"), None, 1),
            (format!("1\n---\n{most}\n---\n"), None, 3),
            (format!("---\n1\n---\n{most}x\n---\n"), Some("1\n"), 4),
            (
                format!("---\n1\n---\n\n---\n1\n{}", "x\n".repeat(MAX_CODE_BYTES / 2)),
                Some("1\n"),
                6,
            ),
        ] {
            let refused = Script::new(input.as_bytes()).and_then(|mut script| {
                assert_eq!(script.next()?.as_deref(), before);
                script.next()
            });
            let told = refused.unwrap_err().line();
            let words = format!("the cell that begins on line {begins} of standard input is over 262144 bytes");
            assert!(told.contains(&words), "{told}");
        }
    }

    #[test]
    fn what_is_no_text_or_has_no_end_is_no_script() {
        assert!(Script::new(&b"\xff\n"[..]).is_err());
        assert!(Script::new(&b"ok\n\xff"[..]).is_err());
        let endless = io::BufReader::new(io::repeat(b'x'));
        let Err(failure) = Script::new(endless) else {
            panic!("it would never end");
        };
        assert!(failure.line().contains("bytes"), "{}", failure.line());
    }
}
