//! A failed command: what is printed, as text or as a Connect error object, and the exit code that says whether anything
//! ran.

use plimsoll_core::{Code, Fault, Reason, Refusal, RunError};
use plimsoll_wire::ErrorAnswer;

use crate::words::{spoken, visible};

/// Exit code when the command line is wrong.
pub(crate) const USAGE: u8 = 2;

/// Exit code when nothing ran.
pub(crate) const NOTHING_RAN: u8 = 125;

/// Exit code when something may have run and there is no checked answer.
pub(crate) const MAY_HAVE_RUN: u8 = 123;

/// How a command failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    answer: ErrorAnswer,
    class: Class,
    /// What a person reads where the answer's own message speaks to programs.
    words: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Usage,
    /// With the word of the reason.
    NothingRan(&'static str),
    MayHaveRun,
}

impl Failure {
    /// The command line asks for what is not allowed; nothing ran.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self {
            answer: ErrorAnswer::refused(&Refusal::request(message)),
            class: Class::Usage,
            words: None,
        }
    }

    /// Nothing ran, because what would have run it could not be made or reached.
    pub(crate) fn not_ready(cause: &impl std::fmt::Display) -> Self {
        Refusal::new(Code::Internal, Reason::Environment, cause.to_string()).into()
    }

    /// Nothing ran, because there was no program to run.
    pub(crate) fn no_program(cause: impl Into<String>) -> Self {
        Refusal::request(cause).into()
    }

    /// Nothing ran, says a daemon, for a reason that has no word here.
    pub(crate) fn marked_unknown(code: Code, message: impl Into<String>) -> Self {
        Self {
            answer: ErrorAnswer::unmarked(code, message),
            class: Class::NothingRan("unknown"),
            words: None,
        }
    }

    /// It may have run, and there is no answer that stands.
    pub(crate) fn may_have_run(code: Code, message: impl Into<String>) -> Self {
        Self {
            answer: ErrorAnswer::unmarked(code, message),
            class: Class::MayHaveRun,
            words: None,
        }
    }

    /// The same failure, told to people in these words; the error object keeps its own.
    pub(crate) fn in_words(mut self, words: impl Into<String>) -> Self {
        self.words = Some(words.into());
        self
    }

    /// The same failure with something to do about it, for people only.
    pub(crate) fn with_advice(self, advice: &str) -> Self {
        let words = format!("{}; {advice}", self.words());
        self.in_words(words)
    }

    /// The same failure, with these words in the place of those it may have.
    pub(crate) fn said_as(self, those: &str, these: &str) -> Self {
        let words = self.words.clone().unwrap_or_else(|| spoken(self.answer.message()));
        if words.contains(those) {
            self.in_words(words.replace(those, these))
        } else {
            self
        }
    }

    /// What the process ends with.
    pub(crate) const fn exit_code(&self) -> u8 {
        match self.class {
            Class::Usage => USAGE,
            Class::NothingRan(_) => NOTHING_RAN,
            Class::MayHaveRun => MAY_HAVE_RUN,
        }
    }

    /// The Connect error object.
    pub(crate) fn to_json(&self) -> Vec<u8> {
        self.answer.to_json()
    }

    /// The line for people about a command that runs nothing: what there is none of, and why.
    pub(crate) fn line_without(&self, what: &str) -> String {
        match self.class {
            Class::Usage => self.line(),
            Class::NothingRan(_) | Class::MayHaveRun => format!("plimsoll: no {what}: {}", self.words()),
        }
    }

    /// What a command that runs nothing ends with.
    pub(crate) const fn exit_code_without_a_run(&self) -> u8 {
        match self.class {
            Class::Usage => USAGE,
            Class::NothingRan(_) | Class::MayHaveRun => 1,
        }
    }

    /// The line for people.
    pub(crate) fn line(&self) -> String {
        let message = self.words();
        match self.class {
            Class::Usage => format!("plimsoll: {message}"),
            Class::NothingRan(reason) => format!("plimsoll: nothing ran ({reason}): {message}"),
            Class::MayHaveRun => {
                format!(
                    "plimsoll: it may have run, there is no checked answer ({}): {message}",
                    self.answer.code()
                )
            }
        }
    }

    fn words(&self) -> String {
        let words = self.words.clone().unwrap_or_else(|| spoken(self.answer.message()));
        visible(&words)
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        Self {
            answer: ErrorAnswer::refused(&refusal),
            class: Class::NothingRan(refusal.reason().as_str()),
            words: None,
        }
    }
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Self {
        Self::may_have_run(fault.code(), fault.message())
    }
}

impl From<RunError> for Failure {
    fn from(error: RunError) -> Self {
        match error {
            RunError::NotDispatched(refusal) => refusal.into(),
            RunError::MayHaveRun(fault) => fault.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exit_code_says_whether_anything_ran() {
        let refused = Failure::from(Refusal::isolation("the floor is vm"));
        let lost = Failure::from(Fault::internal("the engine is gone"));
        let unknown = Failure::marked_unknown(Code::Unavailable, "busy");
        let usage = Failure::usage("--daemon is not a URL");
        assert_eq!(
            [&refused, &lost, &unknown, &usage].map(Failure::exit_code),
            [125, 123, 125, 2]
        );
        insta::assert_snapshot!([&refused, &lost, &unknown, &usage].map(Failure::line).join("\n"));
        insta::assert_snapshot!(String::from_utf8(refused.to_json()).unwrap());
    }

    #[test]
    fn a_command_that_runs_nothing_does_not_speak_of_a_run() {
        let lost = Failure::may_have_run(Code::Unavailable, "the connection broke").with_advice("try again");
        assert_eq!(
            lost.line_without("description"),
            "plimsoll: no description: the connection broke; try again"
        );
        assert_eq!(lost.exit_code_without_a_run(), 1);
        assert_eq!(Failure::usage("no").exit_code_without_a_run(), USAGE);
    }

    #[test]
    fn words_for_people_leave_the_error_object_alone() {
        let refused = Failure::from(Refusal::request("javascript.code is empty"));
        assert_eq!(refused.line(), "plimsoll: nothing ran (request): the program is empty");
        let advised = refused.clone().with_advice("write one");
        assert_eq!(
            advised.line(),
            "plimsoll: nothing ran (request): the program is empty; write one"
        );
        assert_eq!(advised.to_json(), refused.to_json());
        let over = Failure::from(Refusal::request("it has ended; open a new one"));
        assert_eq!(
            over.clone().said_as("open a new one", "wait").line(),
            "plimsoll: nothing ran (request): it has ended; wait"
        );
        assert_eq!(over.clone().said_as("no such words", "wait"), over);
    }
}
