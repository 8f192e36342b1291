//! What a host and PID 1 of its sandbox say to each other.
//!
//! One framing over whatever pipe a provider has. A frame is proven by a key that only the two know, numbered so that it
//! counts once, and its body is refused unless every field is one of this version's. The host reads with a [`Scanner`],
//! which finds honest frames in any noise; PID 1 reads with an [`Intake`], for which noise is a violation. No input, no
//! output, no async: both are functions of the bytes they are fed.

mod codec;
mod frame;
mod guest;
mod host;
mod intake;
pub mod limits;
mod probe;
mod scan;
mod session;

pub use codec::CodecError;
pub use frame::{Direction, FRAME_START, FrameError, Key, KeyLength, MAX_SEQUENCE, Sender};
pub use guest::{
    ArtifactContent, Captured, End, Fault, GuestMessage, LimitFacts, Ready, Report, SnippetEnd, StepReport,
};
pub use host::{HostMessage, Open, Plan, Prepare, ProbePlan, ProjectFile, ProjectPlan, SnippetPlan, Variable};
pub use intake::{Intake, IntakeError};
pub use probe::{CgroupFacts, MountFact, ProbeFacts, RlimitFact, SocketFact, StatusFacts};
pub use scan::Scanner;
pub use session::{CellEnd, CellOutcome, CellPlan, Disk, Language, NotRun, SweepEnd, SweepPlan, WarmPlan};
