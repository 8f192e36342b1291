//! A session call cannot be admitted before it has its session's turn.
use plimsoll_core::{Addressed, Permit, RunRequest, SessionEvidence, SoftwareRule};

fn call(opened: &SessionEvidence) {
    let call = Addressed::new(RunRequest::javascript("1")).unwrap().validate(&SoftwareRule::NONE).unwrap();
    let waiting = call.grant(|_| Ok(())).unwrap().authorize(opened).unwrap();
    let _ = waiting.admit(Permit::new(()));
}

fn main() {
    let _ = call;
}
