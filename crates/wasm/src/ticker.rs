//! The clock behind every deadline: one thread that moves wasmtime's epoch on while programs run.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use wasmtime::Engine;

/// How often a running guest hands control back. Deadlines are seen, and other tasks of the thread get their turn, within
/// one tick.
const TICK: Duration = Duration::from_millis(1);

/// How often a start-up proof looks for the first tick.
const PAUSE: Duration = Duration::from_micros(20);

/// Ticks without a run before the thread sleeps. Above zero, so that a busy daemon's runs never pay for waking it.
const IDLE_TICKS: u32 = 64;

/// Time without a run after which the process counts as quiet.
const QUIET: Duration = Duration::from_secs(1);

/// Runs at once that leave nothing worth giving back: a caller who sends one after the other keeps finding warm pages.
const FEW: usize = 2;

/// Owns the thread; it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Ticker {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    running: AtomicUsize,
    /// Most runs at once since the process was last quiet.
    most: AtomicUsize,
    started: AtomicU64,
    asleep: AtomicBool,
    /// Set by the first tick.
    ticked: AtomicBool,
    stop: AtomicBool,
}

impl Ticker {
    /// Starts the thread for `engine`. `quiet` is called, on it, when nothing has run for a second after more than a few
    /// runs at once.
    pub(crate) fn start(engine: Engine, quiet: impl Fn() + Send + 'static) -> std::io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let for_thread = Arc::clone(&shared);
        let thread = thread::Builder::new()
            .name("plimsoll-epoch".into())
            .spawn(move || for_thread.tick(&engine, quiet))?;
        Ok(Self {
            shared,
            thread: Some(thread),
        })
    }

    /// Keeps the epoch moving until the guard is dropped.
    pub(crate) fn running(&self) -> Running<'_> {
        let now = self.shared.running.fetch_add(1, Ordering::SeqCst) + 1;
        if now > FEW {
            self.shared.most.fetch_max(now, Ordering::Relaxed);
        }
        self.shared.started.fetch_add(1, Ordering::SeqCst);
        if self.shared.asleep.load(Ordering::SeqCst) {
            self.wake();
        }
        Running(&self.shared)
    }

    /// Whether the clock has moved since it was started, waiting at most so long for it to. Blocks: a thread that waits leaves
    /// the processor to the ticker.
    pub(crate) fn has_ticked(&self, patience: Duration) -> bool {
        let since = Instant::now();
        while !self.shared.ticked.load(Ordering::SeqCst) {
            if since.elapsed() >= patience {
                return false;
            }
            thread::sleep(PAUSE);
        }
        true
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
    fn tick(&self, engine: &Engine, quiet: impl Fn()) {
        let mut idle = 0;
        let mut seen = 0;
        while !self.stop.load(Ordering::SeqCst) {
            engine.increment_epoch();
            self.ticked.store(true, Ordering::SeqCst);
            // Not a sleep: whoever drops the engine wakes it and need not wait out the tick.
            thread::park_timeout(TICK);
            let started = self.started.load(Ordering::SeqCst);
            let busy = self.running.load(Ordering::SeqCst) > 0 || started != seen;
            seen = started;
            idle = if busy { 0 } else { idle + 1 };
            if idle < IDLE_TICKS {
                continue;
            }
            // A run that starts now either sees `asleep` and unparks, or was counted before it was set and is seen here.
            self.asleep.store(true, Ordering::SeqCst);
            let since = Instant::now();
            while self.running.load(Ordering::SeqCst) == 0 && !self.stop.load(Ordering::SeqCst) {
                if self.most.load(Ordering::Relaxed) <= FEW {
                    thread::park();
                } else if since.elapsed() >= QUIET {
                    self.most.store(0, Ordering::Relaxed);
                    quiet();
                } else {
                    thread::park_timeout(QUIET);
                }
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
