//! What the command ends with, from what came of its cells and of its end.

use crate::failure::{Failure, MAY_HAVE_RUN, NOTHING_RAN};
use crate::run::{UNWRITTEN, eight_bits};

/// The rule: nothing ran, or something ran and not everything that was asked for has a checked answer, or a cell's own exit code
/// where one ends the command, or output was lost here, or all is well. The first that holds is told.
#[derive(Debug, Default)]
pub(super) struct Tally {
    /// Whether any cell ran, or may have.
    ran: bool,
    /// Whether a cell has no checked answer, was refused or is left, or the end was not clean.
    short: bool,
    /// The exit code of the cell that ended the command.
    own: i32,
    /// Whether output of an answered cell could not be written.
    lost: bool,
}

impl Tally {
    /// A cell was answered.
    pub(super) const fn ran(&mut self) {
        self.ran = true;
    }

    pub(super) const fn has_run(&self) -> bool {
        self.ran
    }

    /// Something that was asked for did not come to its end.
    pub(super) fn failed(&mut self, failure: &Failure) {
        self.unanswered_at_a_prompt(failure);
        self.fell_short();
    }

    /// As [`Tally::failed`], where somebody was told and goes on.
    pub(super) fn unanswered_at_a_prompt(&mut self, failure: &Failure) {
        self.ran |= failure.exit_code() == MAY_HAVE_RUN;
    }

    /// Cells are left that nobody will run.
    pub(super) const fn fell_short(&mut self) {
        self.short = true;
    }

    /// The cell that failed with this exit code is the last one.
    pub(super) const fn ended_by(&mut self, exit_code: i32) {
        self.own = exit_code;
    }

    pub(super) const fn lost_output(&mut self) {
        self.lost = true;
    }

    pub(super) fn exit_code(&self) -> u8 {
        match (self.short, self.ran) {
            (true, true) => MAY_HAVE_RUN,
            (true, false) => NOTHING_RAN,
            (false, _) if self.own != 0 => eight_bits(self.own),
            (false, _) if self.lost => UNWRITTEN,
            (false, _) => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_core::{Code, Refusal};

    use super::*;

    #[test]
    fn nothing_ran_is_said_only_when_nothing_did() {
        let refused = Failure::from(Refusal::request("cell.code is empty"));
        let lost = Failure::may_have_run(Code::Internal, "gone");
        let told = |what: &dyn Fn(&mut Tally)| {
            let mut tally = Tally::default();
            what(&mut tally);
            tally.exit_code()
        };
        assert_eq!(told(&|_| {}), 0);
        assert_eq!(told(&Tally::ran), 0);
        assert_eq!(told(&|tally| tally.failed(&refused)), 125);
        assert_eq!(told(&|tally| tally.failed(&lost)), 123);
        assert_eq!(
            told(&|tally| {
                tally.failed(&refused);
                tally.ran();
            }),
            123
        );
        assert_eq!(
            told(&|tally| {
                tally.failed(&lost);
                tally.failed(&refused);
            }),
            123
        );
        assert_eq!(
            told(&|tally| {
                tally.unanswered_at_a_prompt(&lost);
                tally.fell_short();
            }),
            123
        );
        assert_eq!(told(&|tally| tally.unanswered_at_a_prompt(&lost)), 0);
    }

    #[test]
    fn a_cells_own_exit_code_is_told_when_everything_has_an_answer() {
        let mut tally = Tally::default();
        tally.ran();
        tally.lost_output();
        assert_eq!(tally.exit_code(), 1);
        tally.ended_by(124);
        assert_eq!(tally.exit_code(), 124);
        tally.ended_by(256);
        assert_eq!(tally.exit_code(), 1);
        tally.fell_short();
        assert_eq!(tally.exit_code(), 123);
    }
}
