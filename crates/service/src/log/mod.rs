//! The line stream on stderr: one record per line, whole lines only, one writer thread.
//!
//! ```text
//! callers ── Line::send ──► bounded queue of whole lines ──► writer thread ──► one write per batch
//! ```
//!
//! A full queue blocks the sender: an audit line is never dropped to save time. A write error loses the lines of that
//! write, is counted, and never fails a run. The JSON form is an interface; its fields keep the order they were added.

mod events;
mod refusals;

pub use events::Events;

use std::fmt::Write as _;
use std::io::{self, ErrorKind, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parking_lot::{Condvar, Mutex};

use refusals::Refusals;

/// Bytes of finished lines that may wait for the writer. At some 300 bytes a line this is about 800 lines, a tenth of a
/// second of a daemon at full speed, and small beside everything else the daemon holds.
const QUEUE_BYTES: usize = 256 * 1024;

/// Longest text of an internal fault on one line, in bytes.
const FAULT_TEXT_BYTES: usize = 4096;

/// Ends a text that was cut at its bound.
const CUT_MARK: &str = "…[cut]";

/// How a record is written (`PLIMSOLL_LOG_FORMAT`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// One JSON object a line.
    #[default]
    Json,
    /// The same fields as `key=value`.
    Text,
}

/// How much a record matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Ordinary events.
    Info,
    /// Something an operator should look at.
    Warn,
    /// Something failed.
    Error,
}

impl Level {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Info => "INFO",
            Self::Warn => "WARN",
            Self::Error => "ERROR",
        }
    }
}

/// The stream. Clones share it; when the last one is dropped the writer finishes its queue and ends.
#[derive(Clone)]
pub struct Log {
    sender: Arc<Sender>,
    /// `None` = refused calls are not told.
    refusals: Option<Arc<Refusals>>,
}

struct Sender {
    format: Format,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    /// Signalled when there is something to write, or nothing more to come.
    work: Condvar,
    /// Signalled when a batch has left the queue or has been written.
    progress: Condvar,
    write_errors: AtomicU64,
}

#[derive(Default)]
struct Queue {
    bytes: Vec<u8>,
    writer_waits: bool,
    writing: bool,
    closed: bool,
}

impl Log {
    /// Starts the writer thread on `target`.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn new(format: Format, target: impl Write + Send + 'static) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let writer = Arc::clone(&shared);
        std::thread::Builder::new()
            .name("log".to_owned())
            .spawn(move || writer.write_all(target))?;
        Ok(Self {
            sender: Arc::new(Sender { format, shared }),
            refusals: None,
        })
    }

    /// Begins an INFO record.
    pub fn info(&self, message: &str) -> Line<'_> {
        Line::new(self, Level::Info, message)
    }

    /// Begins a WARN record.
    pub fn warn(&self, message: &str) -> Line<'_> {
        Line::new(self, Level::Warn, message)
    }

    /// Begins an ERROR record.
    pub fn error(&self, message: &str) -> Line<'_> {
        Line::new(self, Level::Error, message)
    }

    /// Logs the cause of an internal fault under the id its caller was given; the text is cut at 4,096 bytes.
    pub fn fault(&self, id: &str, cause: &str) {
        self.warn("internal fault")
            .text("error_id", id)
            .text("error", &cut(cause, FAULT_TEXT_BYTES))
            .send();
    }

    /// Lines lost to write errors since the start.
    pub fn write_errors(&self) -> u64 {
        self.sender.shared.write_errors.load(Ordering::Relaxed)
    }

    /// Waits until everything sent so far has been handed to the target; `false` when that took longer than `bound`.
    pub fn flush(&self, bound: Duration) -> bool {
        let shared = &self.sender.shared;
        let mut queue = shared.queue.lock();
        let written = |queue: &mut Queue| queue.bytes.is_empty() && !queue.writing;
        !shared
            .progress
            .wait_while_for(&mut queue, |queue| !written(queue), bound)
            .timed_out()
    }
}

impl std::fmt::Debug for Log {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Log")
            .field("format", &self.sender.format)
            .finish_non_exhaustive()
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        self.shared.queue.lock().closed = true;
        self.shared.work.notify_one();
    }
}

impl Shared {
    fn push(&self, line: &str) {
        let mut queue = self.queue.lock();
        // A line longer than the bound waits for an empty queue and then passes: it is bounded by what makes it.
        while !queue.bytes.is_empty() && queue.bytes.len() + line.len() > QUEUE_BYTES {
            self.progress.wait(&mut queue);
        }
        queue.bytes.extend_from_slice(line.as_bytes());
        if std::mem::take(&mut queue.writer_waits) {
            drop(queue);
            self.work.notify_one();
        }
    }

    fn write_all(&self, mut target: impl Write) {
        let mut batch = Vec::new();
        let mut torn = false;
        loop {
            {
                let mut queue = self.queue.lock();
                queue.writing = false;
                self.progress.notify_all();
                while queue.bytes.is_empty() {
                    if queue.closed {
                        return;
                    }
                    queue.writer_waits = true;
                    self.work.wait(&mut queue);
                }
                queue.writer_waits = false;
                queue.writing = true;
                std::mem::swap(&mut queue.bytes, &mut batch);
            }
            self.progress.notify_all();
            let lost = write_batch(&mut target, &batch, &mut torn);
            self.write_errors.fetch_add(lost, Ordering::Relaxed);
            batch.clear();
            batch.shrink_to(QUEUE_BYTES);
        }
    }
}

/// Writes whole lines and returns how many were lost. A line cut in the middle by an error is ended before the next
/// one, so that a reader loses that line and no other.
fn write_batch(target: &mut impl Write, batch: &[u8], torn: &mut bool) -> u64 {
    if *torn && write_fully(target, b"\n") == 1 {
        *torn = false;
    }
    let written = if *torn { 0 } else { write_fully(target, batch) };
    if written > 0 {
        *torn = batch[written - 1] != b'\n';
    }
    batch[written..].iter().filter(|byte| **byte == b'\n').count() as u64
}

fn write_fully(target: &mut impl Write, bytes: &[u8]) -> usize {
    let mut written = 0;
    while written < bytes.len() {
        match target.write(&bytes[written..]) {
            Ok(0) => break,
            Ok(count) => written += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            // Another process may have made the shared stderr non-blocking; the reader is slow, not gone.
            Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::sleep(Duration::from_millis(1)),
            Err(_) => break,
        }
    }
    written
}

/// One record being written. Nothing appears before [`Line::send`].
#[must_use = "a record appears only when it is sent"]
#[derive(Debug)]
pub struct Line<'a> {
    log: &'a Log,
    text: String,
}

impl<'a> Line<'a> {
    /// Begins a record with `time`, `level` and `msg`.
    pub fn new(log: &'a Log, level: Level, message: &str) -> Self {
        let mut text = String::with_capacity(384);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        match log.sender.format {
            Format::Json => {
                text.push_str("{\"time\":\"");
                push_time(&mut text, now);
                text.push_str("\",\"level\":\"");
                text.push_str(level.as_str());
                text.push('"');
            }
            Format::Text => {
                text.push_str("time=");
                push_time(&mut text, now);
                text.push_str(" level=");
                text.push_str(level.as_str());
            }
        }
        Self { log, text }.text("msg", message)
    }

    /// Adds a text field.
    pub fn text(mut self, key: &str, value: &str) -> Self {
        self.key(key);
        match self.log.sender.format {
            Format::Json => push_json(&mut self.text, value),
            Format::Text if is_plain(value) => self.text.push_str(value),
            Format::Text => push_json(&mut self.text, value),
        }
        self
    }

    /// Adds a list of texts: a JSON array in both forms.
    pub fn list<'t>(mut self, key: &str, values: impl IntoIterator<Item = &'t str>) -> Self {
        self.key(key);
        self.text.push('[');
        for (index, value) in values.into_iter().enumerate() {
            if index > 0 {
                self.text.push(',');
            }
            push_json(&mut self.text, value);
        }
        self.text.push(']');
        self
    }

    /// Adds data of ours as JSON, in both forms. What cannot be written as JSON, which nothing of ours is, becomes `null`.
    pub fn json(mut self, key: &str, value: &impl serde::Serialize) -> Self {
        self.key(key);
        let text = serde_json::to_string(value);
        self.text.push_str(text.as_deref().unwrap_or("null"));
        self
    }

    /// Adds a whole number.
    pub fn int(self, key: &str, value: impl Into<i64>) -> Self {
        self.display(key, value.into())
    }

    /// Adds a whole number that is not negative.
    pub fn uint(self, key: &str, value: impl Into<u64>) -> Self {
        self.display(key, value.into())
    }

    /// Adds a count of things.
    pub fn count(self, key: &str, value: usize) -> Self {
        self.display(key, value)
    }

    /// Adds a number in its shortest form; JSON has no word for one that is not finite, so that is `null`.
    pub fn float(mut self, key: &str, value: f64) -> Self {
        if value.is_finite() {
            return self.display(key, value);
        }
        self.key(key);
        self.text.push_str("null");
        self
    }

    /// Adds a truth value.
    pub fn bool(self, key: &str, value: bool) -> Self {
        self.display(key, value)
    }

    /// Ends the record and hands it to the writer; waits when the queue is full.
    pub fn send(mut self) {
        if self.log.sender.format == Format::Json {
            self.text.push('}');
        }
        self.text.push('\n');
        self.log.sender.shared.push(&self.text);
    }

    fn display(mut self, key: &str, value: impl std::fmt::Display) -> Self {
        self.key(key);
        // Writing to a String cannot fail.
        let _ = write!(self.text, "{value}");
        self
    }

    fn key(&mut self, key: &str) {
        match self.log.sender.format {
            Format::Json => {
                self.text.push_str(",\"");
                self.text.push_str(key);
                self.text.push_str("\":");
            }
            Format::Text => {
                self.text.push(' ');
                self.text.push_str(key);
                self.text.push('=');
            }
        }
    }
}

fn is_plain(value: &str) -> bool {
    !value.is_empty()
        && value
            .chars()
            .all(|c| !c.is_whitespace() && !c.is_control() && !matches!(c, '"' | '=' | '\\'))
}

fn push_json(out: &mut String, value: &str) {
    out.push('"');
    for c in value.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            // Control characters must be escaped in JSON; the two separators end lines for some readers.
            c if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

/// RFC 3339 in UTC with nine fractional digits.
fn push_time(out: &mut String, since_epoch: Duration) {
    push_seconds(out, since_epoch);
    let _ = write!(out, ".{:09}Z", since_epoch.subsec_nanos());
}

/// RFC 3339 in UTC, to the second.
pub(crate) fn rfc3339(since_epoch: Duration) -> String {
    let mut out = String::new();
    push_seconds(&mut out, since_epoch);
    out.push('Z');
    out
}

fn push_seconds(out: &mut String, since_epoch: Duration) {
    let seconds = since_epoch.as_secs();
    let (year, month, day) = civil_date(seconds / 86_400);
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    let _ = write!(out, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}");
}

/// Year, month and day of a day counted from 1970-01-01: whole 400-year cycles first, then years, then months.
fn civil_date(days: u64) -> (u64, u64, u64) {
    const CYCLE_DAYS: u64 = 146_097;
    const MONTHS: [u64; 12] = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let leap = |year: u64| (year.is_multiple_of(4) && !year.is_multiple_of(100)) || year.is_multiple_of(400);
    // 1970 + 400k has the calendar of 1970.
    let mut year = 1970 + days / CYCLE_DAYS * 400;
    let mut rest = days % CYCLE_DAYS;
    loop {
        let length = if leap(year) { 366 } else { 365 };
        if rest < length {
            break;
        }
        rest -= length;
        year += 1;
    }
    let mut month = 0;
    for (index, length) in MONTHS.into_iter().enumerate() {
        let length = if index == 1 && leap(year) { 29 } else { length };
        if rest < length {
            month = index as u64 + 1;
            break;
        }
        rest -= length;
    }
    (year, month, rest + 1)
}

/// At most `bound` bytes of `text`, cut between characters and marked when something is missing.
pub fn cut(text: &str, bound: usize) -> std::borrow::Cow<'_, str> {
    if text.len() <= bound {
        return text.into();
    }
    let kept = &text[..text.floor_char_boundary(bound.saturating_sub(CUT_MARK.len()))];
    format!("{kept}{CUT_MARK}").into()
}

#[cfg(test)]
pub(crate) mod tests;
