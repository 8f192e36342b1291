//! Cells from a standard input that is no terminal: one a line, or blocks split by a line `---`.

use std::io::{self, BufRead, Read};

use plimsoll_core::limits::MAX_CODE_BYTES;

use crate::failure::Failure;

/// The line that splits blocks.
const SPLIT: &str = "---";

/// The longest input that is read before the first cell runs, in bytes: 64 cells of the greatest length.
const MAX_INPUT_BYTES: u64 = 64 * MAX_CODE_BYTES as u64;

/// The cells of an input, in order.
pub(super) enum Script<R> {
    /// The whole input was read: cells that wait.
    Read(std::vec::IntoIter<String>),
    /// The input began with a split, so each block can run as soon as the split after it has come.
    Arriving(R),
}

impl<R: BufRead> Script<R> {
    /// Reads as much of the input as is needed to know how it is split. Only an input whose first line is `---` is known to
    /// be blocks before its end.
    ///
    /// # Errors
    /// What cannot be read, or is no UTF-8.
    pub(super) fn new(mut input: R) -> Result<Self, Failure> {
        let first = line(&mut input)?.unwrap_or_default();
        if is_split(&first) {
            return Ok(Self::Arriving(input));
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
            text.lines().map(str::to_owned).collect()
        };
        let cells: Vec<String> = cells.into_iter().filter(|cell| !is_blank(cell)).collect();
        Ok(Self::Read(cells.into_iter()))
    }

    /// The next cell that is not blank; `None` at the end.
    ///
    /// # Errors
    /// As [`Script::new`].
    pub(super) fn next(&mut self) -> Result<Option<String>, Failure> {
        let input = match self {
            Self::Read(cells) => return Ok(cells.next()),
            Self::Arriving(input) => input,
        };
        let mut block = String::new();
        loop {
            match line(input)? {
                None => return Ok((!is_blank(&block)).then_some(block)),
                Some(text) if !is_split(&text) => block.push_str(&text),
                Some(_) if is_blank(&block) => block.clear(),
                Some(_) => return Ok(Some(block)),
            }
        }
    }
}

/// A line with its end; never more of it than a cell may have, and a byte to see that it is more.
fn line(input: &mut impl BufRead) -> Result<Option<String>, Failure> {
    let mut text = String::new();
    let read = input.take(MAX_INPUT_BYTES).read_line(&mut text);
    let bytes = read.map_err(|error| unreadable(&error))?;
    Ok((bytes > 0).then_some(text))
}

fn unreadable(error: &io::Error) -> Failure {
    Failure::no_program(if error.kind() == io::ErrorKind::InvalidData {
        "standard input is not UTF-8 text; save it as UTF-8".to_owned()
    } else {
        format!("cannot read standard input: {error}")
    })
}

fn is_split(line: &str) -> bool {
    line.trim_end() == SPLIT
}

fn is_blank(cell: &str) -> bool {
    cell.trim().is_empty()
}

fn blocks(text: &str) -> Vec<String> {
    let mut blocks = vec![String::new()];
    for line in text.split_inclusive('\n') {
        if is_split(line) {
            blocks.push(String::new());
        } else if let Some(last) = blocks.last_mut() {
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
        // Whoever writes the blocks may wait for the answer to one before it writes the next.
        let endless = io::Cursor::new("---\nfirst\n---\n").chain(io::repeat(b'x'));
        let mut script = Script::new(io::BufReader::new(endless)).unwrap();
        assert_eq!(script.next().unwrap().as_deref(), Some("first\n"));
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
