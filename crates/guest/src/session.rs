//! A session: calls one after another in one sandbox. Files stay, and so do interpreters; nothing else does.

use std::time::{Duration, Instant};

use plimsoll_guest_messages::limits::WORK_DIR;
use plimsoll_guest_messages::{
    CellEnd, CellOutcome, CellPlan, Disk, GuestMessage, Language, NotRun, Open, Plan, ProjectFile, Ready, SnippetPlan,
    SweepEnd, SweepPlan, limits::PROTOCOL_VERSION,
};
use rustix::fs::statvfs;

use crate::beneath::Root;
use crate::child::{NotStarted, Untaken, deadline};
use crate::environment::Environment;
use crate::facts::{CallFacts, WRITABLE};
use crate::hub::{Hub, Stop};
use crate::interpreter::{Interpreter, Ran};
use crate::{project, snippet, tree};

/// How long an interpreter may take to stop.
const STOPS_WITHIN: Duration = Duration::from_millis(500);

/// How long a warmed interpreter goes on with what it loads once it is ready, so that its first cell need not.
const SETTLES_WITHIN: Duration = Duration::from_millis(100);

/// Serves the calls of a session until there is a reason to stop.
pub(crate) fn serve(hub: &mut Hub, open: &Open) -> Result<std::convert::Infallible, Stop> {
    let mut session = Session {
        environment: Environment::of_image(&open.env),
        interpreters: Vec::new(),
    };
    hub.is_sessions();
    hub.rest()?;
    hub.send(&GuestMessage::Ready(Ready {
        version: PROTOCOL_VERSION,
    }))?;
    loop {
        match hub.plan()? {
            Some(Plan::Snippet(plan)) => {
                session.as_swept(hub)?;
                session.snippet(hub, open, plan)?;
            }
            Some(Plan::Project(plan)) => {
                session.let_all_go(hub);
                tree::clear(hub)?;
                project::run(hub, &open.env, &plan)?;
            }
            Some(Plan::Cell(plan)) => session.cell(hub, &plan)?,
            Some(Plan::Warm(plan)) => session.warm(hub, &plan.languages)?,
            Some(Plan::Sweep(plan)) => session.sweep(hub, plan)?,
            Some(Plan::Probe(_)) => return Err(Stop::Violation("a session is not probed".into())),
            None => hub.wait(&mut [], None)?,
        }
    }
}

/// What stays from call to call beside files.
#[derive(Debug)]
struct Session {
    environment: Environment,
    interpreters: Vec<Interpreter>,
}

impl Session {
    /// A snippet, in a `node` of its own.
    fn snippet(&self, hub: &mut Hub, open: &Open, plan: SnippetPlan) -> Result<(), Stop> {
        let began = Instant::now();
        let ended = match snippet::Waiting::start(hub, open, Some(WORK_DIR)) {
            Ok(waiting) => waiting.in_session().run(hub, plan, began)?,
            Err(cause) => Err(Untaken::Gone(cause)),
        };
        hub.send(&match ended {
            Ok(end) => GuestMessage::SnippetEnd(end),
            Err(Untaken::Late) => GuestMessage::NotRun(NotRun::TooLate),
            Err(Untaken::Gone(cause)) => GuestMessage::NotRun(self.not_started(cause)),
        })
    }

    /// Why nothing runs a call's code, with what the caller can do about it where that may help.
    fn not_started(&self, cause: NotStarted) -> NotRun {
        let NotStarted { mut words, for_want } = cause;
        if for_want && !self.interpreters.is_empty() {
            words.push_str(". What earlier cells hold in their interpreters may leave no room: a project ends them");
        }
        NotRun::NoInterpreter(words)
    }

    fn cell(&mut self, hub: &mut Hub, plan: &CellPlan) -> Result<(), Stop> {
        let began = Instant::now();
        hub.begin_call()?;
        self.as_swept(hub)?;
        let answer = match place(hub, &plan.files)? {
            Ok(()) => self.execute(hub, plan, began)?,
            Err(cause) => GuestMessage::NotRun(cause),
        };
        hub.end_call();
        hub.send(&answer)
    }

    /// An interpreter that ends before it has taken the code is replaced once.
    fn execute(&mut self, hub: &mut Hub, plan: &CellPlan, began: Instant) -> Result<GuestMessage, Stop> {
        let deadline = deadline(began, plan.timeout_ms);
        let mut cause = NotStarted::default();
        for _ in 0..2 {
            let mut interpreter = match self.ready(hub, plan.language, deadline)? {
                Ok(interpreter) => interpreter,
                Err(Untaken::Late) => return Ok(GuestMessage::NotRun(NotRun::TooLate)),
                Err(Untaken::Gone(gone)) => {
                    cause = gone;
                    continue;
                }
            };
            match interpreter.begin(hub, deadline)? {
                Ok(()) => return self.run(hub, plan, interpreter, began, deadline),
                Err(Untaken::Late) => {
                    interpreter.end(hub)?;
                    return Ok(GuestMessage::NotRun(NotRun::TooLate));
                }
                Err(Untaken::Gone(gone)) => {
                    interpreter.end(hub)?;
                    cause = gone;
                }
            }
        }
        cause.words = format!(
            "no {} interpreter could be started: {}",
            plan.language.as_str(),
            cause.words
        );
        Ok(GuestMessage::NotRun(self.not_started(cause)))
    }

    fn run(
        &mut self,
        hub: &mut Hub,
        plan: &CellPlan,
        mut interpreter: Interpreter,
        began: Instant,
        deadline: Instant,
    ) -> Result<GuestMessage, Stop> {
        let mut facts = CallFacts::begin();
        let fresh = interpreter.is_fresh();
        hub.send(&GuestMessage::Started)?;
        let Ran {
            outcome,
            stdout,
            stderr,
        } = interpreter.run(hub, &plan.nonce, &plan.code, deadline)?;
        let duration = began.elapsed();
        facts.code_ended(outcome != CellOutcome::Ran);
        if outcome.ended_interpreter() {
            interpreter.end(hub)?;
        } else {
            self.interpreters.push(interpreter);
        }
        Ok(GuestMessage::CellEnd(CellEnd {
            outcome,
            stdout,
            stderr,
            fresh,
            duration_ms: u64::try_from(duration.as_millis()).unwrap_or(u64::MAX),
            limits: facts.read(),
        }))
    }

    /// The language's interpreter, kept or new. It is not among the kept ones until its cell has ended.
    fn ready(
        &mut self,
        hub: &mut Hub,
        language: Language,
        deadline: Instant,
    ) -> Result<Result<Interpreter, Untaken>, Stop> {
        self.forget_dead(hub);
        match self.interpreters.iter().position(|one| one.language == language) {
            Some(place) => Ok(Ok(self.interpreters.swap_remove(place))),
            None => Interpreter::start(hub, language, &self.environment, deadline),
        }
    }

    fn warm(&mut self, hub: &mut Hub, languages: &[Language]) -> Result<(), Stop> {
        hub.begin_call()?;
        for language in languages {
            let far = deadline(Instant::now(), u64::MAX);
            if let Ok(interpreter) = self.ready(hub, *language, far)? {
                self.interpreters.push(interpreter);
            }
        }
        let settled = Instant::now() + SETTLES_WITHIN;
        while Instant::now() < settled {
            hub.wait(&mut [], Some(settled))?;
        }
        self.still(hub)?;
        self.forget_dead(hub);
        hub.end_call();
        hub.send(&GuestMessage::Warm(self.languages()))
    }

    fn sweep(&mut self, hub: &mut Hub, plan: SweepPlan) -> Result<(), Stop> {
        hub.begin_call()?;
        if plan.keep_interpreters {
            for interpreter in self.interpreters.iter().filter(|one| !one.is_itself()) {
                hub.let_go(interpreter.pid());
            }
        } else {
            self.let_all_go(hub);
        }
        let found = tree::strangers(hub)?;
        // Stopped first: what cannot run cannot start anything between the last look and its stop.
        self.still(hub)?;
        let (clean, detail) = match tree::clear(hub) {
            Ok(()) => (true, String::new()),
            Err(Stop::Fault(cause)) => (false, cause),
            Err(other) => return Err(other),
        };
        self.forget_dead(hub);
        hub.end_call();
        if clean && (plan.rest || self.interpreters.is_empty()) {
            hub.rest()?;
        }
        hub.send(&GuestMessage::Swept(SweepEnd {
            clean,
            disk: if clean {
                disk(plan.disk_budget)
            } else {
                Disk::NotMeasured
            },
            killed: u32::try_from(found.len()).unwrap_or(u32::MAX),
            interpreters: self.languages(),
            detail,
        }))
    }

    /// Every interpreter ends with the next call's processes.
    fn let_all_go(&mut self, hub: &mut Hub) {
        for interpreter in self.interpreters.drain(..) {
            hub.let_go(interpreter.pid());
        }
    }

    /// Process numbers are given again: who has died must not be taken for who comes next.
    fn forget_dead(&mut self, hub: &mut Hub) {
        hub.reap();
        self.interpreters.retain(|one| one.lives(hub));
    }

    /// Stops the interpreters, and returns when every thread of them has stopped. One that does not stop is kept no longer.
    fn still(&mut self, hub: &mut Hub) -> Result<(), Stop> {
        self.forget_dead(hub);
        for interpreter in &self.interpreters {
            interpreter.still();
        }
        let until = Instant::now() + STOPS_WITHIN;
        loop {
            let moving: Vec<_> = self
                .interpreters
                .iter()
                .filter(|one| !tree::stands_still(one.pid()))
                .collect();
            if moving.is_empty() {
                return Ok(());
            }
            if Instant::now() >= until {
                for interpreter in moving {
                    hub.let_go(interpreter.pid());
                }
                return Ok(());
            }
            hub.wait(&mut [], Some(Instant::now() + Duration::from_millis(1)))?;
            self.forget_dead(hub);
        }
    }

    /// A call begins with nothing alive that the last sweep did not leave. Code can have the kernel wake its own interpreter
    /// (a timer or a file that sends it SIGCONT): one that moves is kept no longer, and what it has started goes with it.
    fn as_swept(&mut self, hub: &mut Hub) -> Result<(), Stop> {
        self.forget_dead(hub);
        let awake: Vec<_> = self
            .interpreters
            .iter()
            .map(Interpreter::pid)
            .filter(|pid| !tree::stands_still(*pid))
            .collect();
        if awake.is_empty() && tree::strangers(hub)?.into_iter().all(tree::is_dead) {
            return Ok(());
        }
        for pid in awake {
            hub.let_go(pid);
        }
        tree::clear(hub)?;
        self.forget_dead(hub);
        Ok(())
    }

    fn languages(&self) -> Vec<Language> {
        let mut languages: Vec<_> = self.interpreters.iter().map(|one| one.language).collect();
        languages.sort_unstable();
        languages
    }
}

/// Writes a cell's files. Those before one that cannot be written stay.
fn place(hub: &mut Hub, files: &[ProjectFile]) -> Result<Result<(), NotRun>, Stop> {
    if files.is_empty() {
        return Ok(Ok(()));
    }
    let refused = |index: usize, error: rustix::io::Errno| NotRun::File {
        index: u32::try_from(index).unwrap_or(u32::MAX),
        errno: error.raw_os_error(),
    };
    let root = match Root::open(WORK_DIR) {
        Ok(root) => root,
        Err(error) => return Ok(Err(refused(0, error))),
    };
    for (index, file) in files.iter().enumerate() {
        hub.alive()?;
        if let Err(error) = root.write(&file.path, file.content.as_bytes()) {
            return Ok(Err(refused(index, error)));
        }
    }
    Ok(Ok(()))
}

/// What the file systems hold that the guest may write to; what is deleted and still open counts.
fn disk(budget: u64) -> Disk {
    if budget == 0 {
        return Disk::NotMeasured;
    }
    let mut used: u64 = 0;
    for path in WRITABLE {
        match statvfs(path) {
            Ok(fs) if fs.f_blocks > 0 => {
                used = used.saturating_add(fs.f_blocks.saturating_sub(fs.f_bfree).saturating_mul(fs.f_frsize));
            }
            Ok(_) | Err(_) => return Disk::Unmeasurable,
        }
    }
    if used > budget {
        Disk::Over(used)
    } else {
        Disk::Within(used)
    }
}
