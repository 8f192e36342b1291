//! The state the host keeps beside one instance, and the functions the instance can call: exactly those of [`IMPORTS`].

use std::fmt;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio_util::sync::CancellationToken;
use wasmtime::{AsContextMut as _, Caller, Linker, Memory, ResourceLimiter, UpdateDeadline};

use crate::capture::Capture;
use crate::file_calls;
use crate::files::Files;
use crate::host_call::{self, HostCalls, HostResponse, slice};

/// Module name of every import.
pub(crate) const MODULE: &str = "plimsoll";

/// Everything the guest can ask of the host, in name order.
pub const IMPORTS: [&str; 4] = ["exit", "files", "host_call", "write"];

/// Bytes of one WebAssembly page.
pub(crate) const PAGE: usize = 65_536;

/// Why the host ended a run. Travels through wasmtime as a typed error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// The program ended itself.
    Exit(i32),
    /// The deadline passed.
    Deadline,
    /// The caller no longer wants the answer.
    Cancelled,
    /// It wrote more than it may.
    Output,
    /// The guest broke the shim's contract (a pointer outside its memory, an unknown stream).
    Contract,
}

impl fmt::Display for Stop {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exit(code) => write!(formatter, "the program ended with code {code}"),
            Self::Deadline => formatter.write_str("the deadline passed"),
            Self::Cancelled => formatter.write_str("the caller cancelled"),
            Self::Output => formatter.write_str("a stream passed its limit"),
            Self::Contract => formatter.write_str("the guest broke the shim's contract"),
        }
    }
}

impl std::error::Error for Stop {}

/// Host state of one run.
#[derive(Debug)]
pub(crate) struct Guest {
    pub(crate) stdout: Capture,
    pub(crate) stderr: Capture,
    pub(crate) memory: Option<Memory>,
    pub(crate) memory_limit: usize,
    /// A `memory.grow` past the limit was refused.
    pub(crate) growth_refused: bool,
    /// A file or folder more than there may be was refused.
    pub(crate) entry_refused: bool,
    /// Dropping a byte of output ends the run.
    pub(crate) ends_at_cap: bool,
    pub(crate) deadline: Instant,
    /// As in the run's specification.
    pub(crate) after_output: Option<Duration>,
    /// Whether the guest hands control back at every check of its code, or once a tick.
    pub(crate) every_check: bool,
    pub(crate) cancel: Option<CancellationToken>,
    pub(crate) host: Option<Arc<dyn HostCalls>>,
    /// The files it can reach; their bytes count against its memory.
    pub(crate) files: Option<Files>,
}

impl Guest {
    /// Called by the running guest once a tick, and before every host call.
    pub(crate) fn check(&self) -> Result<(), Stop> {
        if self.cancel.as_ref().is_some_and(CancellationToken::is_cancelled) {
            return Err(Stop::Cancelled);
        }
        if Instant::now() >= self.deadline {
            return Err(Stop::Deadline);
        }
        Ok(())
    }
}

impl ResourceLimiter for Guest {
    fn memory_growing(&mut self, _current: usize, desired: usize, _maximum: Option<usize>) -> wasmtime::Result<bool> {
        let files = self.files.as_ref().map_or(0, Files::bytes);
        let allowed = desired.saturating_add(files) <= self.memory_limit;
        self.growth_refused |= !allowed;
        Ok(allowed)
    }

    fn table_growing(&mut self, current: usize, _desired: usize, _maximum: Option<usize>) -> wasmtime::Result<bool> {
        // The module's one table holds its functions: it is made once and never grows.
        Ok(current == 0)
    }
}

/// The epoch callback: lets other tasks run, then goes on, unless the run is over.
pub(crate) fn on_tick(guest: &Guest) -> wasmtime::Result<UpdateDeadline> {
    guest.check()?;
    Ok(UpdateDeadline::Yield(u64::from(!guest.every_check)))
}

/// Defines the imports.
pub(crate) fn define(linker: &mut Linker<Guest>) -> wasmtime::Result<()> {
    linker.func_wrap(MODULE, "write", write)?;
    linker.func_wrap(MODULE, "exit", |code: i32| -> wasmtime::Result<()> {
        Err(Stop::Exit(code).into())
    })?;
    file_calls::define(linker)?;
    linker.func_wrap_async(
        MODULE,
        "host_call",
        |mut caller: Caller<'_, Guest>, (at, length, response_at, capacity): (u32, u32, u32, u32)| {
            Box::new(async move { call_host(&mut caller, at, length, response_at, capacity).await })
        },
    )?;
    Ok(())
}

fn write(mut caller: Caller<'_, Guest>, stream: i32, at: u32, length: u32) -> wasmtime::Result<()> {
    let memory = caller.data().memory.ok_or(Stop::Contract)?;
    let (data, guest) = memory.data_and_store_mut(&mut caller);
    let bytes = slice(data, at, length).ok_or(Stop::Contract)?;
    let kept = match stream {
        1 => guest.stdout.push(bytes),
        2 => guest.stderr.push(bytes),
        _ => return Err(Stop::Contract.into()),
    };
    if !kept && guest.ends_at_cap {
        return Err(Stop::Output.into());
    }
    if let Some(rest) = guest.after_output {
        guest.deadline = Instant::now() + rest;
        guest.every_check = true;
        caller.as_context_mut().set_epoch_deadline(0);
    }
    Ok(())
}

async fn call_host(
    caller: &mut Caller<'_, Guest>,
    at: u32,
    length: u32,
    response_at: u32,
    capacity: u32,
) -> wasmtime::Result<i64> {
    caller.data().check()?;
    let memory = caller.data().memory.ok_or(Stop::Contract)?;
    let request = host_call::copy_request(memory.data(&*caller), at, length);
    let guest = caller.data();
    let request = request.as_deref().map_err(|refused| *refused);
    let response = match (request.and_then(host_call::parse), &guest.host) {
        (Err(refused), _) => refused.answer(),
        (Ok(_), None) => HostResponse {
            status: 503,
            body: Bytes::new(),
        },
        (Ok(request), Some(host)) => {
            let cancelled = async {
                match &guest.cancel {
                    Some(token) => token.cancelled().await,
                    None => std::future::pending().await,
                }
            };
            let mut call = host.call(request);
            // Asked once before anything waits: a refusal is ready at once, and a guest may loop over refusals. A timer for
            // each, in the wheel all threads share, would cost a third of the whole call.
            match std::future::poll_fn(|cx| Poll::Ready(call.as_mut().poll(cx))).await {
                Poll::Ready(response) => response,
                Poll::Pending => tokio::select! {
                    biased;
                    () = cancelled => return Err(Stop::Cancelled.into()),
                    () = tokio::time::sleep_until(guest.deadline.into()) => return Err(Stop::Deadline.into()),
                    response = call => response,
                },
            }
        }
    };
    let memory = memory.data_mut(&mut *caller);
    Ok(host_call::deliver(memory, response_at, capacity, response))
}
