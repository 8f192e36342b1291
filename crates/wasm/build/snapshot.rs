//! Starts the linked module once, snapshots the memory it leaves behind, and compiles the result ahead of time.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use anyhow::{Result, anyhow, bail};
use wasmtime::{Caller, Engine, Linker, OptLevel, Store};
use wasmtime_wizer::Wizer;

use crate::image_config::{MAX_IMAGE, image_config};
use crate::sys;

/// Changes whenever this file makes something else out of the same module.
pub(crate) const RECIPE: &[u8] = b"2";

/// CPU features of x86-64-v2; every 64-bit x86 server since 2009 has them.
const X86_64_V2: [&str; 6] = [
    "has_cmpxchg16b",
    "has_popcnt",
    "has_sse3",
    "has_ssse3",
    "has_sse41",
    "has_sse42",
];

/// What the guest printed while it started; shown when it fails.
type BuildLog = Vec<u8>;

/// Runs the reactor's start functions and `wizer-initialize`, and returns a module that begins in the state they left.
pub(crate) fn snapshot(wasm: &[u8]) -> Result<Vec<u8>> {
    let mut config = image_config();
    config.epoch_interruption(false).cranelift_opt_level(OptLevel::None);
    let engine = Engine::new(&config).map_err(tell)?;
    let mut linker: Linker<BuildLog> = Linker::new(&engine);
    linker
        .func_wrap(
            "plimsoll",
            "write",
            |mut caller: Caller<'_, BuildLog>, _fd: i32, at: u32, length: u32| {
                let Some(memory) = caller.get_export("memory").and_then(wasmtime::Extern::into_memory) else {
                    return;
                };
                let (data, log) = memory.data_and_store_mut(&mut caller);
                let range = (at as usize)..(at as usize).saturating_add(length as usize);
                log.extend_from_slice(data.get(range).unwrap_or_default());
            },
        )
        .and_then(|linker| {
            linker.func_wrap("plimsoll", "exit", |_: i32| -> wasmtime::Result<()> {
                Err(wasmtime::Error::msg("it gave up"))
            })
        })
        .and_then(|linker| {
            linker.func_wrap(
                "plimsoll",
                "files",
                |_: i32, _: u32, _: u32, _: u32, _: u32, _: u32, _: u32| -> wasmtime::Result<i64> {
                    Err(wasmtime::Error::msg("it asked for a file"))
                },
            )
        })
        .and_then(|linker| {
            linker.func_wrap(
                "plimsoll",
                "host_call",
                |_: u32, _: u32, _: u32, _: u32| -> wasmtime::Result<i64> {
                    Err(wasmtime::Error::msg("it made a host call"))
                },
            )
        })
        .map_err(tell)?;
    let mut store = Store::new(&engine, BuildLog::new());
    let wizer = Wizer::new();
    let (context, instrumented) = wizer.instrument(wasm).map_err(tell)?;
    let module = wasmtime::Module::new(&engine, &instrumented).map_err(tell)?;
    let instance = linker.instantiate(&mut store, &module).map_err(tell)?;
    for name in ["_initialize", "wizer-initialize"] {
        let started = instance
            .get_typed_func::<(), ()>(&mut store, name)
            .and_then(|f| f.call(&mut store, ()));
        if let Err(error) = started {
            bail!(
                "the engine image failed to start in {name}: {error:?}\n{}",
                String::from_utf8_lossy(store.data())
            );
        }
    }
    if !store.data().is_empty() {
        for line in String::from_utf8_lossy(store.data()).lines() {
            println!("cargo::warning=engine image: {line}");
        }
    }
    let size = instance
        .get_memory(&mut store, "memory")
        .map_or(0, |memory| memory.data_size(&store) as u64);
    if size > MAX_IMAGE {
        bail!(
            "the engine image occupies {size} bytes of memory; more than {MAX_IMAGE} cannot start as a copy-on-write view"
        );
    }
    let mut state = Started {
        store: &mut store,
        instance,
    };
    ready(wizer.snapshot(&context, &mut state))?.map_err(tell)
}

/// Machine code for a fixed baseline of the target's architecture, never for the CPU the build runs on.
pub(crate) fn compile_ahead(wasm: &[u8], target: &str) -> Result<Vec<u8>> {
    let mut config = image_config();
    config.target(target).map_err(tell)?;
    config.cranelift_opt_level(OptLevel::Speed);
    if target.starts_with("x86_64") {
        for feature in X86_64_V2 {
            sys::enable_cpu_feature(&mut config, feature);
        }
    }
    let engine = Engine::new(&config).map_err(tell)?;
    engine.precompile_module(wasm).map_err(tell)
}

struct Started<'a> {
    store: &'a mut Store<BuildLog>,
    instance: wasmtime::Instance,
}

impl wasmtime_wizer::InstanceState for Started<'_> {
    async fn global_get(&mut self, name: &str, _: wasmtime_wizer::ValType) -> wasmtime_wizer::SnapshotVal {
        use wasmtime::Val;
        use wasmtime_wizer::SnapshotVal;
        let global = self
            .instance
            .get_global(&mut *self.store, name)
            .map(|global| global.get(&mut *self.store));
        match global {
            Some(Val::I32(value)) => SnapshotVal::I32(value),
            Some(Val::I64(value)) => SnapshotVal::I64(value),
            Some(Val::F32(value)) => SnapshotVal::F32(value),
            Some(Val::F64(value)) => SnapshotVal::F64(value),
            other => unreachable!("the linked module has a global of an unexpected kind: {name} {other:?}"),
        }
    }

    async fn memory_contents(&mut self, name: &str, contents: impl FnOnce(&[u8]) + Send) {
        let memory = self.instance.get_memory(&mut *self.store, name);
        contents(memory.map(|memory| memory.data(&*self.store)).unwrap_or_default());
    }
}

/// The snapshot is taken by an `async` interface whose only waits are the two functions above, which never wait.
fn ready<T>(future: impl Future<Output = T>) -> Result<T> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => Ok(value),
        Poll::Pending => bail!("the snapshot waited for something"),
    }
}

#[expect(clippy::needless_pass_by_value, reason = "`map_err` hands it over")]
fn tell(error: wasmtime::Error) -> anyhow::Error {
    anyhow!("{error:?}")
}
