//! What the tests of several modules need.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use plimsoll_service::log::Log;
use serde_json::Value;

use crate::start::FLUSH_BOUND;

/// What is written to a log.
#[derive(Clone, Default)]
pub(crate) struct Lines(Arc<Mutex<Vec<u8>>>);

impl Lines {
    /// The records so far of the log that writes here.
    pub(crate) fn records(&self, log: &Log) -> Vec<Value> {
        assert!(log.flush(FLUSH_BOUND));
        let text = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
