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
    let _nowhere_to_report = io::stderr().lock().write_all(format!("{line}\n").as_bytes());
}

/// Writes a line of our own after a guest's output. `dim` sets it apart on a terminal.
pub(crate) fn say_after(line: &str, guest_stdout: &[u8], guest_stderr: &[u8], dim: bool) {
    let line = if dim {
        format!("\u{1b}[2m{line}\u{1b}[0m")
    } else {
        line.to_owned()
    };
    // An unfinished last line of the guest is on the same terminal row our line would start in.
    let last = match (
        guest_stderr.last(),
        io::stdout().is_terminal() && io::stderr().is_terminal(),
    ) {
        (Some(last), _) => Some(*last),
        (None, true) => guest_stdout.last().copied(),
        (None, false) => None,
    };
    let gap = if last.is_some_and(|last| last != b'\n') {
        "\n"
    } else {
        ""
    };
    say(&format!("{gap}{line}"));
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
