//! The clock behind every deadline: one thread that moves wasmtime's epoch on while programs run.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use wasmtime::Engine;

/// How often a running guest hands control back. Deadlines are seen, and other tasks of the thread get their turn, within
/// one tick.
const TICK: Duration = Duration::from_millis(1);

/// Ticks without a run before the thread sleeps. Above zero, so that a busy daemon's runs never pay for waking it.
const IDLE_TICKS: u32 = 64;

/// Owns the thread; it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Ticker {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    running: AtomicUsize,
    started: AtomicU64,
    asleep: AtomicBool,
    stop: AtomicBool,
}

impl Ticker {
    /// Starts the thread for `engine`.
    pub(crate) fn start(engine: Engine) -> std::io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let for_thread = Arc::clone(&shared);
        let thread = thread::Builder::new()
            .name("plimsoll-epoch".into())
            .spawn(move || for_thread.tick(&engine))?;
        Ok(Self {
            shared,
            thread: Some(thread),
        })
    }

    /// Keeps the epoch moving until the guard is dropped.
    pub(crate) fn running(&self) -> Running<'_> {
        self.shared.running.fetch_add(1, Ordering::SeqCst);
        self.shared.started.fetch_add(1, Ordering::SeqCst);
        if self.shared.asleep.load(Ordering::SeqCst) {
            self.wake();
        }
        Running(&self.shared)
    }

    fn wake(&self) {
        if let Some(thread) = &self.thread {
            thread.thread().unpark();
        }
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        self.wake();
        if let Some(thread) = self.thread.take() {
            // It cannot panic: it only sleeps and counts.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn tick(&self, engine: &Engine) {
        let mut idle = 0;
        let mut seen = 0;
        while !self.stop.load(Ordering::SeqCst) {
            thread::sleep(TICK);
            engine.increment_epoch();
            let started = self.started.load(Ordering::SeqCst);
            let busy = self.running.load(Ordering::SeqCst) > 0 || started != seen;
            seen = started;
            idle = if busy { 0 } else { idle + 1 };
            if idle < IDLE_TICKS {
                continue;
            }
            // A run that starts now either sees `asleep` and unparks, or was counted before it was set and is seen here.
            self.asleep.store(true, Ordering::SeqCst);
            while self.running.load(Ordering::SeqCst) == 0 && !self.stop.load(Ordering::SeqCst) {
                thread::park();
            }
            self.asleep.store(false, Ordering::SeqCst);
            idle = 0;
        }
    }
}

/// A program is running.
#[derive(Debug)]
pub(crate) struct Running<'a>(&'a Shared);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::SeqCst);
    }
}
