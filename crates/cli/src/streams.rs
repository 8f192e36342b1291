//! Standard output and standard error: bytes pass unaltered, and a reader who has gone is not a crash.

use std::io::{self, IsTerminal as _, Write as _};

/// What became of a write to standard output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delivered {
    /// Everything was taken.
    Whole,
    /// The reader closed its end; it does not want the rest.
    ReaderGone,
}

/// Writes bytes to standard output, all of them and nothing else.
///
/// # Errors
/// Everything but a closed pipe, which is the reader's own choice: a full disk, for example.
pub(crate) fn stdout(bytes: &[u8]) -> io::Result<Delivered> {
    let mut out = io::stdout().lock();
    delivered(out.write_all(bytes).and_then(|()| out.flush()))
}

/// Writes the guest's standard error, all of it and nothing else.
///
/// # Errors
/// As [`stdout`].
pub(crate) fn stderr(bytes: &[u8]) -> io::Result<Delivered> {
    delivered(io::stderr().lock().write_all(bytes))
}

/// Writes one line of our own to standard error. There is nowhere left to report a failure of that.
pub(crate) fn say(line: &str) {
    write_own(&format!("{line}\n"));
}

/// Writes text of our own as it is.
pub(crate) fn write_own(text: &str) {
    let _nowhere_to_report = io::stderr().lock().write_all(text.as_bytes());
}

/// What one part of a guest wrote: to standard output, then to standard error.
pub(crate) type Written<'a> = (&'a [u8], &'a [u8]);

/// Writes lines of our own after a guest's output. `dim` sets them apart on a terminal.
pub(crate) fn say_after(lines: &[String], guest: &[Written<'_>], dim: bool) {
    let mut text = gap(guest, both_in_one_place()).to_owned();
    for line in lines {
        let (on, off) = if dim { ("\u{1b}[2m", "\u{1b}[0m") } else { ("", "") };
        text.push_str(&format!("{on}{line}{off}\n"));
    }
    write_own(&text);
}

/// What ends a last line of the guest that our own would otherwise continue. It goes to standard error alone, so no stream of
/// the guest gets a byte it did not write.
fn gap(guest: &[Written<'_>], in_one_place: bool) -> &'static str {
    // Of each part, standard error is written last.
    let last = guest.iter().rev().find_map(|(stdout, stderr)| match stderr.last() {
        None if in_one_place => stdout.last(),
        last => last,
    });
    if last.is_some_and(|last| *last != b'\n') {
        "\n"
    } else {
        ""
    }
}

/// Whether both streams end up behind one another: on one terminal, in one file, in one pipe.
fn both_in_one_place() -> bool {
    let (out, err) = (io::stdout(), io::stderr());
    let identity = |stat: rustix::fs::Stat| (stat.st_dev, stat.st_ino);
    let same = || {
        let (out, err) = (rustix::fs::fstat(&out).ok()?, rustix::fs::fstat(&err).ok()?);
        Some(identity(out) == identity(err))
    };
    (out.is_terminal() && err.is_terminal()) || same().unwrap_or(false)
}

fn delivered(written: io::Result<()>) -> io::Result<Delivered> {
    match written {
        Ok(()) => Ok(Delivered::Whole),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(Delivered::ReaderGone),
        Err(error) => Err(error),
    }
}

/// Whether our own lines on standard error may be dimmed: a terminal, and no `NO_COLOR` with a value.
pub(crate) fn may_dim(no_color: bool) -> bool {
    !no_color && io::stderr().is_terminal()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_line_begins_in_a_row_of_its_own() {
        for (guest, in_one_place, expected) in [
            (&[("abc", "")][..], true, "\n"),
            (&[("abc\n", "")], true, ""),
            (&[("", "")], true, ""),
            (&[], true, ""),
            (&[("abc", "done\n")], true, ""),
            (&[("abc\n", "done")], true, "\n"),
            (&[("abc", "")], false, ""),
            (&[("abc", "done")], false, "\n"),
            (&[("a", "b\n"), ("", "")], true, ""),
            (&[("a", "b"), ("c\n", "")], true, ""),
            (&[("a", "b"), ("c\n", "")], false, "\n"),
        ] {
            let bytes: Vec<Written<'_>> = guest
                .iter()
                .map(|(out, err)| (out.as_bytes(), err.as_bytes()))
                .collect();
            assert_eq!(gap(&bytes, in_one_place), expected, "{guest:?} {in_one_place}");
        }
    }
}
