//! Runs JavaScript programs, each in an instance of its own.

use std::fmt;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use wasmtime::{Enabled, InstanceAllocationStrategy, PoolingAllocationConfig, Store, Trap};

pub use crate::capture::Stream;
pub use crate::files::{Files, MOST_FILES};
pub use crate::guest::IMPORTS;
pub use crate::host_call::{HostCalls, HostFuture, HostRequest, HostResponse, MAX_REQUEST};
pub use crate::interpreter::{CellReport, Interpreter};
pub use crate::smoke::SmokeFailure;

use crate::bridges::Habit;
use crate::calls::{Failure, classify, function, place};
use crate::capture::Capture;
use crate::guest::{self, Guest, PAGE, Stop};
use crate::image_config::image_config;
use crate::interpreter::Kept;
use crate::loaded::{Image, Loaded};
use crate::ticker::Ticker;

/// Every run's wall clock starts here: 2022-01-01T00:00:00Z, in milliseconds since 1970.
pub const CLOCK_START_MS: i64 = 1_640_995_200_000;

/// Seed of every run's random stream.
pub const RANDOM_SEED: i64 = 0x706c_696d_736f_6c6c;

/// Pages of 64 KiB a run may use unless configured otherwise: 256 MiB.
pub const DEFAULT_MEMORY_PAGES: u32 = 4096;

/// All the pages a 32-bit memory can have: 4 GiB.
pub const MAX_MEMORY_PAGES: u32 = 65_536;

/// Bytes kept of each stream unless configured otherwise.
pub const DEFAULT_OUTPUT_CAP: usize = 64 * 1024;

/// Exit code of a run that its deadline ended.
pub const EXIT_DEADLINE: i32 = 124;

/// Exit code of a run that a trap ended.
pub const EXIT_TRAP: i32 = 134;

/// Exit code of a step that wrote more than is kept: that of a process that was killed.
pub const EXIT_OUTPUT: i32 = 137;

/// Stack for compiled code. The JavaScript stack is bounded by the linear stack long before this is used up (the deepest
/// recursion measured takes a quarter of it), so overflowing it means something the bound does not see.
pub(crate) const WASM_STACK: usize = 32 << 20;

/// Stack for host functions, on top of [`WASM_STACK`].
pub(crate) const HOST_STACK: usize = 256 << 10;

/// Pages on top of the image's own that the smallest useful program needs: its text, its objects, the lines it prints.
const HEADROOM_PAGES: u32 = 16;

/// Bytes of a stack wiped in place after a run; what lies deeper is given back to the kernel. A usual run stays within.
const STACK_KEPT: usize = 64 << 10;

/// Bytes of a memory slot restored in place after a run instead of given back to the kernel: a usual run dirties less, and
/// its pages stay mapped for the next one.
const MEMORY_KEPT: usize = 1 << 20;

/// What an engine is built with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EngineConfig {
    /// Pages of 64 KiB one run may use; at most [`MAX_MEMORY_PAGES`]. Default [`DEFAULT_MEMORY_PAGES`].
    pub memory_pages: u32,
    /// Runs at the same time; more wait for their turn. Each reserves a little over 4 GiB of address space. Default 8.
    pub slots: u32,
    /// Bytes kept of each stream. Default [`DEFAULT_OUTPUT_CAP`].
    pub output_cap: usize,
}

impl Default for EngineConfig {
    fn default() -> Self {
        Self {
            memory_pages: DEFAULT_MEMORY_PAGES,
            slots: 8,
            output_cap: DEFAULT_OUTPUT_CAP,
        }
    }
}

/// What begins a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Program {
    /// `code` is a script.
    Script,
    /// `code` names a file in JSON, with its arguments.
    Step,
}

/// One program to run.
#[derive(Clone, Debug)]
pub struct RunSpec<'a> {
    /// JavaScript source text without NUL.
    pub code: &'a str,
    pub(crate) program: Program,
    /// Bytes kept of each stream where it is not the engine's own number; a run that writes more is ended.
    pub(crate) output_cap: Option<usize>,
    /// Time until the run is ended, from the moment it has its slot.
    pub timeout: Duration,
    /// Ends the run early; it then has no result.
    pub cancel: Option<CancellationToken>,
    /// Answers the program's host calls; without it they get 503.
    pub host: Option<Arc<dyn HostCalls>>,
    /// A script run before the program, `host.js` to the program: the client of its grant. Without NUL; none if empty.
    pub client: String,
    /// A script run between the client and the program, `preamble.js` to it. Without NUL; none if empty.
    pub preamble: String,
    /// Pages of 64 KiB this run may use, where that is less than the engine's own limit.
    pub memory_pages: Option<u32>,
    /// The files the program finds and leaves; without them it has no file system.
    pub files: Option<Files>,
    /// For the start-up proof: the run ends this long after its last output, and looks whether it is time at every check of
    /// its code instead of once a tick.
    pub(crate) after_output: Option<Duration>,
}

impl<'a> RunSpec<'a> {
    /// A run of `code` under `timeout`, without a grant.
    pub fn new(code: &'a str, timeout: Duration) -> Self {
        Self {
            code,
            program: Program::Script,
            output_cap: None,
            timeout,
            cancel: None,
            host: None,
            client: String::new(),
            preamble: String::new(),
            memory_pages: None,
            files: None,
            after_output: None,
        }
    }
}

/// What became of a run that started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunReport {
    /// The program's exit code, 0..=255; [`EXIT_DEADLINE`] or [`EXIT_TRAP`] when it did not end by itself.
    pub exit_code: i32,
    /// The deadline had passed when the run ended.
    pub timed_out: bool,
    /// Standard output.
    pub stdout: Stream,
    /// Standard error.
    pub stderr: Stream,
    /// The trap that ended the run.
    pub trap: Option<TrapKind>,
    /// The program asked for more memory than it may use and was refused.
    pub memory_refused: bool,
    /// The program made more files and folders than there may be and was refused.
    pub entry_refused: bool,
    /// The largest size of its memory, in bytes; the engine image included.
    pub peak_memory: u64,
    /// Wall time from having a slot to the program's end.
    pub duration: Duration,
}

/// Kinds of trap, told apart by wasmtime's typed error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrapKind {
    /// The machine stack ran out.
    Stack,
    /// Memory outside the instance's was touched.
    Memory,
    /// Code that must not be reached was: the engine gave up.
    Unreachable,
    /// Anything else.
    Other,
}

impl TrapKind {
    /// The name `diagnostics.trap` uses.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stack => "stack",
            Self::Memory => "memory",
            Self::Unreachable => "unreachable",
            Self::Other => "other",
        }
    }

    pub(crate) fn of(trap: Trap) -> Self {
        match trap {
            Trap::StackOverflow => Self::Stack,
            Trap::MemoryOutOfBounds | Trap::HeapMisaligned => Self::Memory,
            Trap::UnreachableCodeReached => Self::Unreachable,
            _ => Self::Other,
        }
    }
}

/// Why no engine could be built.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// More memory than a 32-bit instance can address.
    #[error("{0} pages of memory; the engine can use at most {MAX_MEMORY_PAGES}")]
    TooManyPages(u32),
    /// Less memory than the engine image occupies before any program.
    #[error("{given} pages of memory (64 KiB each); the engine image needs at least {minimum} to start")]
    TooFewPages {
        /// What was configured.
        given: u32,
        /// The least that works.
        minimum: u32,
    },
    /// No slot, so nothing could ever run.
    #[error("an engine needs at least one slot")]
    NoSlots,
    /// The image asks for more than this crate offers.
    #[error("the engine image imports {0:?}, which is not among the functions it may use")]
    Import(String),
    /// wasmtime refused: address space, CPU features, settings.
    #[error("the wasm runtime refused to start: {0}")]
    Runtime(String),
    /// The thread behind the deadlines could not be started.
    #[error("the deadline thread could not be started: {0}")]
    Ticker(#[from] std::io::Error),
}

impl BuildError {
    /// What wasmtime itself refused.
    #[expect(clippy::needless_pass_by_value, reason = "`map_err` hands it over")]
    pub(crate) fn runtime(error: wasmtime::Error) -> Self {
        Self::Runtime(format!("{error:#}"))
    }
}

/// Why a run has no report.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// The caller cancelled.
    #[error("the run was cancelled")]
    Cancelled,
    /// No instance could be made; no guest code ran.
    #[error("no instance could be made: {0}")]
    Instance(String),
    /// The runtime failed in a way no program should be able to cause.
    #[error("the wasm runtime failed: {0}")]
    Runtime(String),
}

/// The engine image, loaded and ready to be instantiated. Cheap to share behind an `Arc`; dropping it ends its thread.
pub struct Engine {
    config: EngineConfig,
    image: Arc<Image>,
    pub(crate) ticker: Ticker,
    slots: Semaphore,
    habit: Habit,
    kept: OnceLock<Arc<Kept>>,
}

impl Engine {
    /// Loads the engine image into memory, without a compiler.
    ///
    /// # Errors
    /// The configuration is out of range, or the host cannot run the image.
    pub fn new(config: EngineConfig) -> Result<Self, BuildError> {
        Self::load(config, None)
    }

    /// As [`Engine::new`], and keeps the image in a folder for the next process to map, which takes that one about a
    /// millisecond. The folder must be this user's alone; one that is not, or cannot be written, is left alone.
    ///
    /// # Errors
    /// As [`Engine::new`].
    pub fn kept_in(config: EngineConfig, folder: &Path) -> Result<Self, BuildError> {
        Self::load(config, Some(folder))
    }

    fn load(config: EngineConfig, folder: Option<&Path>) -> Result<Self, BuildError> {
        if config.memory_pages > MAX_MEMORY_PAGES {
            return Err(BuildError::TooManyPages(config.memory_pages));
        }
        if config.slots == 0 {
            return Err(BuildError::NoSlots);
        }
        let engine = wasmtime::Engine::new(&runtime_config(config)).map_err(BuildError::runtime)?;
        let image = Arc::new(Image::load(engine.clone(), folder)?);
        let minimum = least_pages(&image);
        if config.memory_pages < minimum {
            return Err(BuildError::TooFewPages {
                given: config.memory_pages,
                minimum,
            });
        }
        let quiet = Arc::clone(&image);
        let ticker = Ticker::start(engine, move || quiet.renew())?;
        Ok(Self {
            config,
            image,
            ticker,
            slots: Semaphore::new(config.slots as usize),
            habit: Habit::default(),
            kept: OnceLock::new(),
        })
    }

    /// Environment identity of this engine: `quickjs-wasm:sha256:` and the SHA-256 of the snapshotted module.
    pub fn identity() -> &'static str {
        include_str!(concat!(env!("OUT_DIR"), "/engine.identity"))
    }

    /// What it was built with.
    pub fn config(&self) -> EngineConfig {
        self.config
    }

    /// The least memory, in pages, in which a run starts.
    pub fn least_pages(&self) -> u32 {
        least_pages(&self.image)
    }

    /// Whether a run that may use these many pages, files included, can start beside these files.
    pub(crate) fn starts_beside(&self, files: &Files, memory_pages: u32) -> bool {
        let held = u32::try_from(files.bytes().div_ceil(PAGE)).unwrap_or(u32::MAX);
        memory_pages.saturating_sub(held) >= self.least_pages()
    }

    /// Everything the loaded image imports, as `module.name`.
    pub fn imports(&self) -> Vec<String> {
        self.image
            .current()
            .module()
            .imports()
            .map(|import| format!("{}.{}", import.module(), import.name()))
            .collect()
    }

    /// Runs one program to its end in a fresh instance. A guest that computes hands the thread back every millisecond.
    /// Dropping the future ends the run.
    ///
    /// # Errors
    /// There is no report when the caller cancelled or the runtime itself failed.
    pub async fn run(&self, spec: RunSpec<'_>) -> Result<RunReport, RunError> {
        let _slot = self
            .slots
            .acquire()
            .await
            .map_err(|closed| RunError::Instance(closed.to_string()))?;
        let started = Instant::now();
        let deadline = started
            .checked_add(spec.timeout)
            .unwrap_or(started + Duration::from_secs(86_400));
        let guest = Guest {
            stdout: Capture::new(spec.output_cap.unwrap_or(self.config.output_cap)),
            stderr: Capture::new(spec.output_cap.unwrap_or(self.config.output_cap)),
            memory: None,
            memory_limit: spec.memory_pages.unwrap_or(u32::MAX).min(self.config.memory_pages) as usize * PAGE,
            growth_refused: false,
            entry_refused: false,
            ends_at_cap: spec.output_cap.is_some(),
            deadline,
            after_output: spec.after_output,
            every_check: false,
            cancel: spec.cancel,
            host: spec.host,
            files: spec.files,
        };
        let loaded = self.image.current();
        let mut store = Store::new(loaded.module().engine(), guest);
        store.limiter(|guest| guest);
        store.epoch_deadline_callback(|context| guest::on_tick(context.data()));
        store.set_epoch_deadline(1);
        let _ticking = self.ticker.running();

        let before = [&*spec.client, &spec.preamble];
        let outcome = execute(&loaded, &self.habit, &mut store, before, (spec.program, spec.code)).await;
        let ended = Instant::now();
        let memory = store.data().memory;
        if let Some(memory) = memory {
            self.habit.after_run(memory.data(&store));
        }
        let peak_memory = memory.map_or(0, |memory| memory.data_size(&store) as u64);
        let guest = store.into_data();
        let (exit_code, trap) = match outcome {
            Ok(code) => (code, None),
            Err(Failure::Instance(error)) => return Err(RunError::Instance(error)),
            Err(Failure::Guest(error)) => classify(&error)?,
        };
        if guest.cancel.as_ref().is_some_and(CancellationToken::is_cancelled) {
            return Err(RunError::Cancelled);
        }
        let timed_out = ended >= guest.deadline;
        Ok(RunReport {
            exit_code: if timed_out { EXIT_DEADLINE } else { exit_code },
            timed_out,
            stdout: guest.stdout.finish(),
            stderr: guest.stderr.finish(),
            trap: if timed_out { None } else { trap },
            memory_refused: guest.growth_refused,
            entry_refused: guest.entry_refused,
            peak_memory,
            duration: ended - started,
        })
    }
}

impl Engine {
    /// An interpreter that keeps what its cells define, in an instance of its own. It takes no slot: interpreters live beside the
    /// pool of the runs and end when they are dropped.
    ///
    /// # Errors
    /// No instance could be made.
    pub async fn interpreter(&self) -> Result<Interpreter, RunError> {
        let kept = if let Some(kept) = self.kept.get() {
            kept
        } else {
            let made = Kept::new(&self.image, self.config).map_err(|error| RunError::Instance(error.to_string()))?;
            let made = Arc::new(made);
            made.learn().await?;
            // Another caller may have been first; one is as good as the other.
            self.kept.get_or_init(|| made)
        };
        Interpreter::start(Arc::clone(kept)).await
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Engine")
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}

/// Instantiates, hands the program over and runs it.
async fn execute(
    loaded: &Loaded,
    habit: &Habit,
    store: &mut Store<Guest>,
    before: [&str; 2],
    (program, code): (Program, &str),
) -> Result<i32, Failure> {
    let instance = loaded.instance.instantiate_async(&mut *store).await.map_err(|error| {
        // A deadline may pass this early too, and is answered like any other.
        if error.is::<Stop>() {
            Failure::Guest(error)
        } else {
            Failure::instance(&error)
        }
    })?;
    let memory = instance
        .get_module_export(&mut *store, &loaded.memory)
        .and_then(wasmtime::Extern::into_memory)
        .ok_or_else(|| Failure::Instance("the engine image exports no memory".into()))?;
    store.data_mut().memory = Some(memory);
    habit.before_run(memory.data_mut(&mut *store));
    let alloc = function::<u32, u32>(&instance, store, &loaded.alloc)?;
    let export = match program {
        Program::Script => &loaded.run,
        Program::Step => &loaded.step,
    };
    let run = function::<(u32, u32, i64, i64), i32>(&instance, store, export)?;

    for (which, text) in (0_u32..).zip(before).filter(|(_, text)| !text.is_empty()) {
        let (at, length) = place(store, memory, &alloc, text).await?;
        let prelude = function::<(u32, u32, u32), ()>(&instance, store, &loaded.prelude)?;
        prelude
            .call_async(&mut *store, (at, length, which))
            .await
            .map_err(Failure::Guest)?;
    }
    let (at, length) = place(store, memory, &alloc, code).await?;
    run.call_async(&mut *store, (at, length, CLOCK_START_MS, RANDOM_SEED))
        .await
        .map_err(Failure::Guest)
}

/// The shared settings plus what only matters at run time.
/// The least memory in which the image starts.
fn least_pages(image: &Image) -> u32 {
    let required = image.current().module().resources_required();
    let initial = required.max_initial_memory_size.unwrap_or(0);
    u32::try_from(initial)
        .unwrap_or(u32::MAX)
        .saturating_add(HEADROOM_PAGES)
}

fn runtime_config(config: EngineConfig) -> wasmtime::Config {
    let mut pool = PoolingAllocationConfig::new();
    pool.total_core_instances(config.slots)
        .total_memories(config.slots)
        .total_tables(config.slots)
        .total_stacks(config.slots)
        // The limit of a run is the store's limiter; the pool's would refuse the image before `new` can say why.
        .max_memory_size(MAX_MEMORY_PAGES as usize * PAGE)
        .linear_memory_keep_resident(MEMORY_KEPT)
        .async_stack_keep_resident(STACK_KEPT)
        .table_keep_resident(PAGE)
        .pagemap_scan(Enabled::Auto);
    let mut runtime = image_config();
    runtime
        .max_wasm_stack(WASM_STACK)
        .async_stack_size(WASM_STACK + HOST_STACK)
        // Wiping gives a deep recursion's stack back to the kernel; without it every slot would keep its deepest.
        .async_stack_zeroing(true)
        .allocation_strategy(InstanceAllocationStrategy::Pooling(pool));
    runtime
}
