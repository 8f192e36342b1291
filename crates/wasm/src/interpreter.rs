//! Interpreters that are kept: what one cell defines, the next cells find.
//!
//! They live on a wasmtime engine of their own, beside the pool of the runs. That pool is sized for what runs at once and
//! wipes what it gets back; an interpreter stays for as long as its session. So each has a memory mapped for it alone, a
//! copy-on-write view of the same artifact: an idle one costs the pages it wrote.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;
use wasmtime::{InstanceAllocationStrategy, Memory, Store, Trap, TypedFunc};

use crate::bridges::Stretch;
use crate::calls::{Failure, classify, function, place};
use crate::capture::Capture;
use crate::engine::{
    BuildError, CLOCK_START_MS, EXIT_DEADLINE, EngineConfig, Files, HOST_STACK, HostCalls, RANDOM_SEED, RunError,
    RunReport, WASM_STACK,
};
use crate::guest::{self, Guest, PAGE, Stop};
use crate::image_config::image_config;
use crate::loaded::{Image, Loaded};
use crate::stack::{self, Stack, Stacks};
use crate::sys::{self, Page};
use crate::ticker::Ticker;

/// Exit code of a cell that raised, and of one that ended its interpreter.
const EXIT_RAISED: i32 = 1;

/// What an idle interpreter holds beside the pages of its memory and its stack: tables, the host's side of it, page tables. A
/// thousand of them held 80 KiB each.
const OVERHEAD: u64 = 128 << 10;

/// Time an instance may take to come into being.
const START: Duration = Duration::from_secs(5);

/// What all interpreters of an engine share.
pub(crate) struct Kept {
    config: EngineConfig,
    loaded: Loaded,
    ticker: Ticker,
    /// What a first cell writes of its memory.
    usual: OnceLock<Vec<Stretch>>,
}

impl Kept {
    /// # Errors
    /// The host is out of descriptors, threads or address space.
    pub(crate) fn new(image: &Image, config: EngineConfig) -> Result<Self, BuildError> {
        let mut runtime = image_config();
        runtime
            .max_wasm_stack(WASM_STACK)
            .async_stack_size(WASM_STACK + HOST_STACK)
            .with_host_stack(Arc::new(Stacks))
            .allocation_strategy(InstanceAllocationStrategy::OnDemand);
        let engine = wasmtime::Engine::new(&runtime).map_err(BuildError::runtime)?;
        Ok(Self {
            config,
            loaded: image.map_on(&engine)?,
            ticker: Ticker::start(engine, || {})?,
            usual: OnceLock::new(),
        })
    }

    /// Sees in a throwaway interpreter which pages a first cell writes. Every later one is made with them, or the first cell would
    /// spend three quarters of its time on faulting them in.
    ///
    /// # Errors
    /// No instance could be made.
    pub(crate) async fn learn(self: &Arc<Self>) -> Result<(), RunError> {
        let sample = Interpreter::start(Arc::clone(self)).await?;
        let ended = sample.cell("1", START, None, None, Some(Files::default())).await?;
        if let Some(sample) = ended.interpreter {
            let memory = sample.memory.data(&sample.store);
            let pages = sys::pages(memory.as_ptr().addr(), memory.len()).unwrap_or_default();
            // Another caller may have been first; one sample is as good as the other.
            let _: Result<(), _> = self.usual.set(sys::stretches(&pages, Page::Own));
        }
        Ok(())
    }

    fn guest(&self) -> Guest {
        Guest {
            stdout: Capture::new(self.config.output_cap),
            stderr: Capture::new(self.config.output_cap),
            memory: None,
            memory_limit: self.config.memory_pages as usize * PAGE,
            growth_refused: false,
            entry_refused: false,
            ends_at_cap: false,
            deadline: Instant::now() + START,
            after_output: None,
            every_check: false,
            cancel: None,
            host: None,
            files: None,
        }
    }
}

/// One kept interpreter. It is handed back by every cell that it survives.
pub struct Interpreter {
    kept: Arc<Kept>,
    store: Store<Guest>,
    memory: Memory,
    alloc: TypedFunc<u32, u32>,
    cell: TypedFunc<(u32, u32, u32, i64, i64), i32>,
    stack: Arc<Stack>,
    /// Cells run so far.
    cells: u32,
}

/// What became of a cell.
#[derive(Debug)]
pub struct CellReport {
    /// As a run's, with these exit codes: 0 ran, 1 raised or ended its interpreter, 13 waited for what cannot come,
    /// [`EXIT_DEADLINE`].
    pub report: RunReport,
    /// The interpreter with all it holds; `None` when the cell ended it: by exiting, by a trap, by its deadline.
    pub interpreter: Option<Interpreter>,
}

impl Interpreter {
    /// # Errors
    /// No instance could be made.
    pub(crate) async fn start(kept: Arc<Kept>) -> Result<Self, RunError> {
        let failed = |error: wasmtime::Error| RunError::Instance(format!("{error:#}"));
        let mut store = Store::new(kept.loaded.module().engine(), kept.guest());
        store.limiter(|guest| guest);
        store.epoch_deadline_callback(|context| guest::on_tick(context.data()));
        store.set_epoch_deadline(1);
        let stack = Arc::new(Stack::default());
        let instance = stack::remembered(Arc::clone(&stack), kept.loaded.instance.instantiate_async(&mut store))
            .await
            .map_err(failed)?;
        let memory = instance
            .get_module_export(&mut store, &kept.loaded.memory)
            .and_then(wasmtime::Extern::into_memory)
            .ok_or_else(|| RunError::Instance("the engine image exports no memory".into()))?;
        store.data_mut().memory = Some(memory);
        if let Some(usual) = kept.usual.get() {
            sys::warm(memory.data_mut(&mut store), usual);
        }
        let lacks = |failure| match failure {
            Failure::Instance(cause) => RunError::Instance(cause),
            Failure::Guest(error) => failed(error),
        };
        let alloc = function(&instance, &mut store, &kept.loaded.alloc).map_err(lacks)?;
        let cell = function(&instance, &mut store, &kept.loaded.cell).map_err(lacks)?;
        Ok(Self {
            kept,
            store,
            memory,
            alloc,
            cell,
            stack,
            cells: 0,
        })
    }

    /// Whether no cell has run in it yet.
    pub fn is_fresh(&self) -> bool {
        self.cells == 0
    }

    /// Bytes of memory it keeps from others, measured: the pages it wrote, its stack, and what belongs to it on the host's side.
    pub fn resident(&self) -> u64 {
        let memory = self.memory.data(&self.store);
        let written = sys::pages(memory.as_ptr().addr(), memory.len());
        written.map_or(memory.len() as u64, |pages| sys::own_bytes(&pages)) + self.stack.resident() + OVERHEAD
    }

    /// It will not be used for a while: lets go of what it only read. The next cell finds it as it was.
    pub fn rest(&mut self) {
        sys::let_go(self.memory.data_mut(&mut self.store));
    }

    /// Bytes of its memory, whether used or not: what counts against its limit.
    pub fn memory(&self) -> usize {
        self.memory.data_size(&self.store)
    }

    /// Runs one cell to its end. Host calls get the answers of `host`, 503 without one; `files` are the files it finds. A guest that
    /// computes hands the thread back every millisecond. Dropping the future ends the cell and its interpreter.
    ///
    /// # Errors
    /// There is no report, and no interpreter, when `cancel` fired or the runtime itself failed.
    pub async fn cell(
        mut self,
        code: &str,
        timeout: Duration,
        cancel: Option<CancellationToken>,
        host: Option<Arc<dyn HostCalls>>,
        files: Option<Files>,
    ) -> Result<CellReport, RunError> {
        let started = Instant::now();
        let deadline = started
            .checked_add(timeout)
            .unwrap_or(started + Duration::from_secs(86_400));
        *self.store.data_mut() = Guest {
            memory: Some(self.memory),
            deadline,
            cancel,
            host,
            files,
            ..self.kept.guest()
        };
        self.store.set_epoch_deadline(1);
        let kept = Arc::clone(&self.kept);
        let ticking = kept.ticker.running();
        self.cells += 1;
        let stack = Arc::clone(&self.stack);
        let outcome = stack::remembered(stack, self.evaluate(code)).await;
        let ended = Instant::now();
        drop(ticking);
        if self
            .store
            .data()
            .cancel
            .as_ref()
            .is_some_and(CancellationToken::is_cancelled)
        {
            // Nobody learns how it ended, so nothing of it may live on.
            return Err(RunError::Cancelled);
        }

        let mut survives = false;
        let (exit_code, trap) = match outcome {
            Ok(code) => {
                survives = true;
                (code, None)
            }
            // What the cell before left in memory leaves no room for the text of this one.
            Err(Failure::Instance(_)) => {
                self.store.data_mut().growth_refused = true;
                (EXIT_RAISED, None)
            }
            Err(Failure::Guest(error)) if error.is::<Stop>() || error.is::<Trap>() => {
                let (_, trap) = classify(&error)?;
                (EXIT_RAISED, trap)
            }
            Err(Failure::Guest(error)) => return Err(RunError::Runtime(format!("{error:#}"))),
        };
        let timed_out = ended >= deadline;
        let peak_memory = self.memory.data_size(&self.store) as u64;
        let guest = self.store.data_mut();
        let output = |stream: &mut Capture| std::mem::replace(stream, Capture::new(0)).finish();
        let report = RunReport {
            exit_code: if timed_out { EXIT_DEADLINE } else { exit_code },
            timed_out,
            stdout: output(&mut guest.stdout),
            stderr: output(&mut guest.stderr),
            trap: if timed_out { None } else { trap },
            memory_refused: guest.growth_refused,
            entry_refused: guest.entry_refused,
            peak_memory,
            duration: ended - started,
        };
        guest.cancel = None;
        guest.host = None;
        guest.files = None;
        let interpreter = (survives && !timed_out).then(|| {
            self.stack.give_back();
            self
        });
        Ok(CellReport { report, interpreter })
    }

    async fn evaluate(&mut self, code: &str) -> Result<i32, Failure> {
        let (at, length) = place(&mut self.store, self.memory, &self.alloc, code).await?;
        self.cell
            .call_async(&mut self.store, (at, length, self.cells, CLOCK_START_MS, RANDOM_SEED))
            .await
            .map_err(Failure::Guest)
    }
}

impl fmt::Debug for Interpreter {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Interpreter")
            .field("cells", &self.cells)
            .finish_non_exhaustive()
    }
}
