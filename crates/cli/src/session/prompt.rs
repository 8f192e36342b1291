//! The prompt: a line editor with history, cells of several lines, and interrupts.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use plimsoll_core::vars::Lookup;
use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{
    Behavior, Cmd, ConditionalEventHandler, Config, Editor, Event, EventContext, EventHandler, ExternalPrinter, Helper,
    KeyCode, KeyEvent, Modifiers, RepeatCount,
};
use tokio::task::JoinHandle;

use super::complete::is_whole;
use crate::args::Language;
use crate::failure::Failure;
use crate::local::users_folder;

/// Cells that are remembered from one session to the next.
const REMEMBERED: usize = 1_000;

/// How long the editor has to end after it was told to, and how often it is told.
const EACH: Duration = Duration::from_millis(50);
const TIMES: u32 = 20;

/// What is typed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Typed {
    Cell(String),
    /// Ctrl-C: what stood there was given up.
    GivenUp,
    /// Ctrl-D on an empty line, or the terminal has gone.
    End,
}

/// The editor of one session.
pub(super) struct Prompt {
    editor: Editor<Cells, FileHistory>,
    history: Option<PathBuf>,
    given_up: Arc<AtomicBool>,
    /// As long as there is one, the editor waits for keys and signals together, on whatever thread it is.
    _waits_for_signals: Option<Box<dyn ExternalPrinter + Send>>,
}

impl Prompt {
    /// An editor for cells of this language, with the history of earlier sessions.
    ///
    /// # Errors
    /// The terminal cannot be used.
    pub(super) fn new(language: Language, lookup: &dyn Lookup) -> Result<Self, Failure> {
        let cannot = |error: ReadlineError| Failure::not_ready(&format!("the terminal cannot be used: {error}"));
        let config = Config::builder()
            .behavior(Behavior::PreferTerm)
            .history_ignore_space(true)
            .max_history_size(REMEMBERED)
            .map_err(cannot)?
            .build();
        let mut editor = Editor::with_config(config).map_err(cannot)?;
        editor.set_helper(Some(Cells(language)));
        editor.bind_sequence(KeyEvent(KeyCode::Enter, Modifiers::ALT), Cmd::Newline);
        // As a text, because a single character of a binding repeats what was inserted last.
        editor.bind_sequence(KeyEvent(KeyCode::Tab, Modifiers::NONE), Cmd::Insert(1, "\t".to_owned()));
        let given_up = Arc::new(AtomicBool::new(false));
        editor.bind_sequence(
            KeyEvent(KeyCode::Char('C'), Modifiers::CTRL),
            EventHandler::Conditional(Box::new(GiveUp(Arc::clone(&given_up)))),
        );
        // A terminal that knows no editing has none, and is read line by line.
        let printer = editor.create_external_printer().ok();
        let history = history(lookup);
        if let Some(file) = &history {
            // There is none before the first session, and none where it cannot be read.
            drop(editor.load_history(file));
        }
        Ok(Self {
            editor,
            history,
            given_up,
            _waits_for_signals: printer.map(|printer| Box::new(printer) as _),
        })
    }

    /// Waits for a cell.
    ///
    /// # Errors
    /// The terminal failed.
    pub(super) fn read(&mut self, prompt: &str) -> Result<Typed, Failure> {
        let read = self.editor.readline(prompt);
        if self.given_up.swap(false, Ordering::Relaxed) {
            return Ok(Typed::GivenUp);
        }
        match read {
            Ok(cell) if cell.trim().is_empty() => Ok(Typed::GivenUp),
            Ok(cell) => {
                self.remember(&cell);
                Ok(Typed::Cell(cell))
            }
            Err(ReadlineError::Interrupted) => Ok(Typed::GivenUp),
            Err(ReadlineError::Eof) => Ok(Typed::End),
            Err(error) => Err(Failure::not_ready(&format!("the terminal failed: {error}"))),
        }
    }

    /// A history that cannot be written is one that ends with the session.
    fn remember(&mut self, cell: &str) {
        let added = self.editor.add_history_entry(cell.trim_end()).unwrap_or(false);
        if let Some(file) = self.history.as_ref().filter(|_| added) {
            drop(self.editor.append_history(file));
        }
    }
}

/// Ends the editor that waits on its own thread, so that it gives the terminal back as it was: by the interrupt that it listens
/// for while it waits. It is told again, because it may not have begun to.
pub(super) async fn end<T>(mut reading: JoinHandle<T>) {
    for _ in 0..TIMES {
        // That it cannot be told shows by its not ending.
        let _told = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::INT);
        if tokio::time::timeout(EACH, &mut reading).await.is_ok() {
            return;
        }
    }
}

/// Ctrl-C. With the editor's own interrupt what was read behind the key would be lost, so the line is taken as if it were a cell.
struct GiveUp(Arc<AtomicBool>);

impl ConditionalEventHandler for GiveUp {
    fn handle(&self, _: &Event, _: RepeatCount, _: bool, _: &EventContext<'_>) -> Option<Cmd> {
        self.0.store(true, Ordering::Relaxed);
        Some(Cmd::AcceptLine)
    }
}

/// Where this user's cells are remembered: `$XDG_STATE_HOME`, else `~/.local/state`, if the environment says. The editor makes
/// the file so that nobody else can read it.
fn history(lookup: &dyn Lookup) -> Option<PathBuf> {
    let folder = users_folder(lookup, "XDG_STATE_HOME", ".local/state")?;
    fs_err::create_dir_all(&folder).ok()?;
    Some(folder.join("session-history"))
}

/// What the editor asks about cells.
struct Cells(Language);

impl Validator for Cells {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        Ok(if is_whole(self.0, context.input()) {
            ValidationResult::Valid(None)
        } else {
            ValidationResult::Incomplete
        })
    }
}

impl Completer for Cells {
    type Candidate = String;
}

impl Hinter for Cells {
    type Hint = String;
}

impl Highlighter for Cells {}

impl Helper for Cells {}
