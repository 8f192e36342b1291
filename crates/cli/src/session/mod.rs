//! `plimsoll session`: one sandbox for a conversation, typed at a prompt or read from standard input.
//!
//! Each cell's output goes to standard output and standard error as it is; what is said about it is a line on standard error.

mod complete;
mod place;
mod prompt;
mod script;
mod tally;

use std::io::{self, BufReader, IsTerminal as _};
use std::pin::pin;
use std::time::Duration;

use plimsoll_core::vars::Lookup;
use tokio::runtime::Runtime;

use crate::args::{Language, SessionArgs};
use crate::failure::Failure;
use crate::line::{self, AboutCell, Lowered};
use crate::progress::{Progress, Signals, Told};
use crate::words::visible;
use crate::{local, streams};
use place::{Answered, Conversation, Place, Unanswered, Unclosed};
use prompt::{Prompt, Typed};
use script::Script;
use tally::Tally;

/// How long each part of the end may take once the command was ended and nobody may be there any more.
const UNATTENDED: Duration = Duration::from_secs(15);

/// Runs the session; the exit code of the process.
pub(crate) fn session(args: &SessionArgs, lookup: &dyn Lookup) -> u8 {
    let ended = match runtime() {
        Ok(runtime) => {
            let code = converse(&runtime, args, lookup);
            // A name look-up that was given up may still sit in the system's resolver; it is not waited for.
            runtime.shutdown_background();
            code
        }
        Err(failure) => Err(failure),
    };
    ended.unwrap_or_else(|failure| {
        streams::say(&failure.line());
        failure.exit_code()
    })
}

/// A thread beside this one, because what follows a cell (its sandbox is swept, a session that is dropped is closed) must not
/// wait until the next one is typed.
fn runtime() -> Result<Runtime, Failure> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder
        .worker_threads(1)
        .enable_all()
        .build()
        .map_err(|error| Failure::not_ready(&error))
}

fn converse(runtime: &Runtime, args: &SessionArgs, lookup: &dyn Lookup) -> Result<u8, Failure> {
    let stdin = io::stdin();
    let interactive = stdin.is_terminal();
    // What cannot be read is told before a sandbox is made for it.
    let script = if interactive {
        None
    } else {
        Some(Script::new(BufReader::new(stdin))?)
    };
    let mut talk = Talk::begin(runtime, args, interactive, lookup)?;
    let said = match script {
        Some(script) => talk.read_all(script),
        None => talk.prompt(),
    };
    Ok(talk.finish(said))
}

/// What becomes of the next cell.
enum Then {
    Goes,
    /// There is none: the command is over.
    Ends,
}

/// A conversation under way.
struct Talk<'a> {
    runtime: &'a Runtime,
    args: &'a SessionArgs,
    lookup: &'a dyn Lookup,
    signals: Signals,
    progress: Progress,
    place: Place,
    session: Option<Conversation>,
    tally: Tally,
    language: Language,
    interactive: bool,
    dim: bool,
}

impl<'a> Talk<'a> {
    fn begin(
        runtime: &'a Runtime,
        args: &'a SessionArgs,
        interactive: bool,
        lookup: &'a dyn Lookup,
    ) -> Result<Self, Failure> {
        if !args.quiet && args.target.daemon.is_none() {
            let warnings = local::warnings(args.target.provider.as_deref(), lookup);
            warnings
                .into_iter()
                .for_each(|warning| streams::say(&format!("plimsoll: {warning}")));
        }
        let progress = Progress::new(args.quiet, lookup);
        let (signals, place) = runtime.block_on(async {
            let mut signals = Signals::watched(true)?;
            let preparing = progress.during("preparing the sandbox", Place::new(args, lookup));
            match signals.see_through(preparing).await {
                (Some(place), false) => Ok((signals, place?)),
                (Some(Ok(place)), true) => {
                    if let Err(failure) = place.drain().await {
                        streams::say(&failure.line_without("clean end"));
                    }
                    Err(interrupted())
                }
                _ => Err(interrupted()),
            }
        })?;
        let mut talk = Self {
            runtime,
            args,
            lookup,
            signals,
            progress,
            place,
            session: None,
            tally: Tally::default(),
            language: args.language.unwrap_or(Language::JavaScript),
            interactive,
            dim: streams::may_dim(crate::no_color(lookup)),
        };
        if let Err(failure) = talk.open() {
            talk.drain();
            return Err(failure);
        }
        Ok(talk)
    }

    /// Opens a session, and says so.
    fn open(&mut self) -> Result<(), Failure> {
        let opening = async {
            let opening = self
                .progress
                .during("opening a session", self.place.open(self.args, self.lookup));
            match self.signals.see_through(opening).await {
                (Some(opened), false) => opened,
                (Some(Ok((session, _))), true) => {
                    if let Err(unclosed) = session.close(self.lookup).await {
                        streams::say(&unclosed.line());
                    }
                    Err(interrupted())
                }
                _ => Err(interrupted()),
            }
        };
        let (session, most_ms) = self.runtime.block_on(opening)?;
        self.language = self
            .args
            .language
            .unwrap_or_else(|| Language::default_of(session.provider()));
        self.note(&format!(
            "plimsoll: session {} on {}, tier {}, {}{}",
            visible(session.fingerprint()),
            visible(session.provider()),
            visible(session.tier()),
            self.language.as_str(),
            line::lowering(self.args.timeout.and_then(|asked| Lowered::of(asked.ms, most_ms)))
        ));
        self.session = Some(session);
        Ok(())
    }

    fn read_all(&mut self, mut script: Script<impl io::BufRead + Send + 'static>) -> Result<(), Failure> {
        loop {
            let cell;
            (cell, script) = match self.next_of(script) {
                Some((cell, script)) => (cell?, script),
                None => {
                    self.say("plimsoll: interrupted");
                    self.tally.fell_short();
                    return Ok(());
                }
            };
            let Some(cell) = cell else { return Ok(()) };
            if let Some(reason) = self.session.as_ref().and_then(Conversation::over) {
                // What is left was written for this sandbox and no other.
                return Err(Failure::not_ready(&format!(
                    "the session is over ({reason}), and there are cells left"
                )));
            }
            if let Then::Ends = self.cell(cell)? {
                return Ok(());
            }
        }
    }

    /// The next cell of a script, which may take any time to come; nothing after a signal.
    #[expect(clippy::type_complexity, reason = "what was read, and what reads on")]
    fn next_of<R: io::BufRead + Send + 'static>(
        &mut self,
        mut script: Script<R>,
    ) -> Option<(Result<Option<String>, Failure>, Script<R>)> {
        let signals = &mut self.signals;
        self.runtime.block_on(async {
            let reading = tokio::task::spawn_blocking(move || (script.next(), script));
            tokio::select! {
                biased;
                read = reading => read.ok(),
                _ = signals.next() => None,
            }
        })
    }

    fn prompt(&mut self) -> Result<(), Failure> {
        let mut prompt = Prompt::new(self.language, self.lookup)?;
        self.note(
            "plimsoll: Enter runs a whole cell, Alt-Enter begins a new line, Ctrl-C gives up or interrupts, Ctrl-D ends",
        );
        loop {
            let label = match &self.session {
                // The next cell is the first of another one.
                Some(session) if session.over().is_some() => format!("{} 1> ", visible(session.tier())),
                Some(session) => format!("{} {}> ", visible(session.tier()), session.calls() + 1),
                None => "> ".to_owned(),
            };
            let typed;
            (typed, prompt) = match self.typed(prompt, label) {
                Some((typed, prompt)) => (typed?, prompt),
                None => {
                    self.say("plimsoll: interrupted");
                    self.tally.fell_short();
                    return Ok(());
                }
            };
            let cell = match typed {
                Typed::End => return Ok(()),
                Typed::GivenUp => continue,
                Typed::Cell(cell) => cell,
            };
            match self.renew() {
                Ok(()) => {}
                // As with a cell that is refused: the next one tries again.
                Err(failure) if self.only_the_cell() && !self.args.fail_fast => {
                    self.say(&failure.line());
                    self.tally.unanswered_at_a_prompt(&failure);
                    continue;
                }
                Err(failure) => return Err(failure),
            }
            if let Then::Ends = self.cell(cell)? {
                return Ok(());
            }
        }
    }

    /// What is typed next; nothing after a signal about the whole command. An interrupt is the editor's.
    fn typed(&mut self, mut prompt: Prompt, label: String) -> Option<(Result<Typed, Failure>, Prompt)> {
        let signals = &mut self.signals;
        self.runtime.block_on(async {
            let mut reading = tokio::task::spawn_blocking(move || (prompt.read(&label), prompt));
            tokio::select! {
                biased;
                read = &mut reading => return read.ok(),
                () = signals.end() => {}
            }
            // The interrupt that ends the editor may come to this watch, and is not for what follows.
            signals.ignore_interrupts();
            prompt::end(reading).await;
            None
        })
    }

    /// At a prompt a session that is over is followed by another: somebody sees it said.
    fn renew(&mut self) -> Result<(), Failure> {
        if let Some(old) = self.session.take() {
            let Some(reason) = old.over() else {
                self.session = Some(old);
                return Ok(());
            };
            self.say(&format!(
                "plimsoll: the session is over ({}); a new one begins without its files and variables",
                visible(&reason)
            ));
            let closing = old.close(self.lookup);
            let closed = unless_interrupted(self.runtime, &mut self.signals, closing);
            if let Err(unclosed) = closed.unwrap_or_else(|| Err(Unclosed::interrupted())) {
                self.tell_unclosed(&unclosed);
            }
        }
        self.open()
    }

    /// Runs one cell and tells what came of it.
    fn cell(&mut self, code: String) -> Result<Then, Failure> {
        let Some(session) = &self.session else {
            return Err(Failure::not_ready(&"there is no session"));
        };
        let timeout = Duration::from_millis(
            self.args
                .timeout
                .map_or(0, |timeout| u64::try_from(timeout.ms).unwrap_or(0)),
        );
        let ask_twice = self.interactive && matches!(session, Conversation::There(_));
        let (signals, progress) = (&mut self.signals, self.progress);
        let mut interrupted = false;
        let ended = self.runtime.block_on(async {
            if self.interactive {
                // One that came too late for the cell before is not for this one.
                signals.forget().await;
            }
            let stop = async {
                if signals.next().await == Told::Interrupt && ask_twice {
                    streams::say(
                        "plimsoll: the cell goes on; interrupt once more to give it up, and the session with it, because \
                         its answer is then lost",
                    );
                    signals.next().await;
                }
                interrupted = true;
            };
            let running = session.cell(self.language.as_str(), code, timeout, stop, self.lookup);
            Box::pin(progress.during("running the cell", running)).await
        });
        match ended {
            Ok(answered) => {
                let then = self.tell(&answered);
                if !interrupted || self.only_the_cell() {
                    return Ok(then);
                }
                // It was answered in the same moment.
                self.say("plimsoll: interrupted");
                self.tally.fell_short();
                Ok(Then::Ends)
            }
            Err(unanswered) => Ok(self.tell_unanswered(&unanswered, interrupted)),
        }
    }

    /// Whether a signal was about the cell that ran. Whoever interrupts a script means all of it.
    const fn only_the_cell(&self) -> bool {
        self.interactive && !self.signals.has_ended()
    }

    fn tell(&mut self, answered: &Answered) -> Then {
        let Answered {
            result,
            record,
            duration_ms,
            diagnostics,
        } = answered;
        let written = streams::stdout(&result.stdout).and_then(|_| streams::stderr(&result.stderr));
        if !self.args.quiet {
            let about = line::about_cell(&AboutCell {
                result,
                record,
                duration_ms: *duration_ms,
                diagnostics,
            });
            streams::say_after(&[about], &[(&result.stdout, &result.stderr)], self.dim);
        }
        self.tally.ran();
        // The cell ran all the same, and the next one may be about something else than its output.
        if let Err(error) = written {
            self.say(&format!("plimsoll: the output could not be written: {error}"));
            self.tally.lost_output();
        }
        if result.exit_code != 0 && self.args.fail_fast {
            self.tally.ended_by(result.exit_code);
            Then::Ends
        } else {
            Then::Goes
        }
    }

    fn tell_unanswered(&mut self, unanswered: &Unanswered, interrupted: bool) -> Then {
        let mut failure = unanswered.failure.clone();
        if self.interactive {
            failure = failure.said_as("open a new one", "the next cell begins a new one");
        }
        let failure = match (interrupted, &self.place) {
            (false, _) => failure,
            (true, Place::Here(_)) => {
                failure.in_words("interrupted; the cell has been ended, and its interpreter with the variables")
            }
            (true, Place::There { .. }) => {
                failure.in_words("interrupted; the daemon was hung up on, by which it ends the cell")
            }
        };
        self.say(&failure.line());
        if let Some(record) = &unanswered.record {
            self.note(&format!(
                "plimsoll: call {}, no answer, record {}",
                record.sequence,
                visible(&record.record_sha256)
            ));
        }
        let ends = self.args.fail_fast || (interrupted && !self.only_the_cell());
        if self.interactive && !ends {
            // Whoever typed the cell was told.
            self.tally.unanswered_at_a_prompt(&unanswered.failure);
        } else {
            self.tally.failed(&unanswered.failure);
        }
        if ends { Then::Ends } else { Then::Goes }
    }

    fn tell_unclosed(&mut self, unclosed: &Unclosed) {
        self.say(&unclosed.line());
        if !unclosed.foreseen {
            self.tally.failed(&unclosed.failure);
        }
    }

    /// Closes the session and clears away, whatever came before, and tells what went wrong; the exit code.
    fn finish(mut self, said: Result<(), Failure>) -> u8 {
        if let Err(failure) = said {
            let line = if self.tally.has_run() {
                failure.line_without("further cell")
            } else {
                failure.line()
            };
            self.say(&line);
            self.tally.failed(&failure);
        }
        let closed = self.session.take().map(|session| {
            let fingerprint = session.fingerprint().to_owned();
            let closing = self.progress.during("closing the session", session.close(self.lookup));
            let closed = unless_interrupted(self.runtime, &mut self.signals, closing);
            (closed.unwrap_or_else(|| Err(Unclosed::interrupted())), fingerprint)
        });
        self.drain();
        match closed {
            Some((Ok(receipt), fingerprint)) => {
                let last = if receipt.calls == 0 {
                    String::new()
                } else {
                    format!(", last record {}", visible(&receipt.last_record_sha256))
                };
                let compared = if receipt.compared { ", as the daemon counts" } else { "" };
                let calls = if receipt.calls == 1 { "call" } else { "calls" };
                self.note(&format!(
                    "plimsoll: session {} closed, {} {calls}{compared}{last}",
                    visible(&fingerprint),
                    receipt.calls
                ));
            }
            Some((Err(unclosed), _)) => self.tell_unclosed(&unclosed),
            None => {}
        }
        self.tally.exit_code()
    }

    fn drain(&mut self) {
        let draining = self.progress.during("clearing away the sandbox", self.place.drain());
        let drained = unless_interrupted(self.runtime, &mut self.signals, draining);
        let interrupted = || Err(Failure::not_ready(&"interrupted before everything was cleared away"));
        if let Err(failure) = drained.unwrap_or_else(interrupted) {
            self.say(&failure.line_without("clean end"));
            self.tally.failed(&failure);
        }
    }

    /// A line that `--quiet` leaves out.
    fn note(&self, text: &str) {
        if !self.args.quiet {
            self.say(text);
        }
    }

    fn say(&self, text: &str) {
        streams::say_after(&[text.to_owned()], &[], self.dim);
    }
}

/// Waits for the work; nothing when a signal comes first, because what ends a command may take as long as its daemon likes. The
/// signal that ends the command does not end its end, but then nobody may be there to send another: it has a time.
fn unless_interrupted<T>(runtime: &Runtime, signals: &mut Signals, work: impl Future<Output = T>) -> Option<T> {
    runtime.block_on(async {
        let mut work = pin!(work);
        loop {
            let ended = signals.has_ended();
            tokio::select! {
                biased;
                done = &mut work => return Some(done),
                told = signals.next() => if ended || told == Told::Interrupt {
                    return None;
                },
                () = tokio::time::sleep(UNATTENDED), if ended => return None,
            }
        }
    })
}

fn interrupted() -> Failure {
    Failure::not_ready(&"interrupted before anything ran")
}
