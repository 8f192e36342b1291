//! What every corridor's test needs: a log that can be read back, and callers.

use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use plimsoll_sandbox::Received;
use plimsoll_service::auth::Principal;
use plimsoll_service::handler::CallContext;
use plimsoll_service::log::{Format, Log};
use tokio_util::sync::CancellationToken;

/// A log in JSON that can be read back.
pub(crate) struct Logged {
    pub(crate) log: Log,
    lines: Lines,
}

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Logged {
    pub(crate) fn new() -> Self {
        let lines = Lines::default();
        let log = Log::new(Format::Json, lines.clone()).unwrap();
        Self { log, lines }
    }

    /// Everything logged so far.
    pub(crate) fn text(&self) -> String {
        assert!(self.log.flush(Duration::from_secs(5)));
        String::from_utf8(self.lines.0.lock().unwrap().clone()).unwrap()
    }
}

/// A caller by name; nobody in particular without one.
pub(crate) fn principal(who: &str) -> Principal {
    match who {
        "" => Principal::anonymous(),
        name => Principal::verified(name.as_bytes(), vec!["code:run".to_owned()]).unwrap(),
    }
}

/// A call of this caller that has just arrived and has no deadline.
pub(crate) fn context(who: &str) -> CallContext {
    CallContext {
        principal: principal(who),
        received: Received::now(),
        deadline: None,
        cancelled: CancellationToken::new(),
    }
}
