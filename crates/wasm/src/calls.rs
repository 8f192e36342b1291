//! Calling into an instance, and what its failures mean.

use wasmtime::{Instance, Memory, ModuleExport, Store, Trap, TypedFunc};

use crate::engine::{EXIT_DEADLINE, EXIT_OUTPUT, EXIT_TRAP, RunError, TrapKind};
use crate::guest::{Guest, Stop};

/// How a call into an instance failed.
pub(crate) enum Failure {
    /// Nothing of the program ran.
    Instance(String),
    /// The guest ended abnormally.
    Guest(wasmtime::Error),
}

impl Failure {
    pub(crate) fn instance(error: &wasmtime::Error) -> Self {
        Self::Instance(format!("{error:#}"))
    }
}

/// Puts a text into the guest's memory: where it lies, and its length.
pub(crate) async fn place(
    store: &mut Store<Guest>,
    memory: Memory,
    alloc: &TypedFunc<u32, u32>,
    text: &str,
) -> Result<(u32, u32), Failure> {
    let length = u32::try_from(text.len()).map_err(|_| Failure::Instance("the program is larger than 4 GiB".into()))?;
    let at = alloc.call_async(&mut *store, length).await.map_err(Failure::Guest)?;
    let start = at as usize;
    let target = memory
        .data_mut(&mut *store)
        .get_mut(start..start.saturating_add(text.len()));
    let Some(target) = target.filter(|_| at != 0) else {
        return Err(Failure::Instance(
            "the program does not fit into the run's memory".into(),
        ));
    };
    target.copy_from_slice(text.as_bytes());
    Ok((at, length))
}

/// An export of an instance, as a function of this type.
pub(crate) fn function<Params: wasmtime::WasmParams, Results: wasmtime::WasmResults>(
    instance: &Instance,
    store: &mut Store<Guest>,
    export: &ModuleExport,
) -> Result<TypedFunc<Params, Results>, Failure> {
    let function = instance
        .get_module_export(&mut *store, export)
        .and_then(wasmtime::Extern::into_func);
    let function = function.ok_or_else(|| Failure::Instance("the engine image lacks an export".into()))?;
    function.typed(&*store).map_err(|error| Failure::instance(&error))
}

/// Exit code and trap of a run that did not return.
pub(crate) fn classify(error: &wasmtime::Error) -> Result<(i32, Option<TrapKind>), RunError> {
    match (error.downcast_ref::<Stop>(), error.downcast_ref::<Trap>()) {
        (Some(Stop::Exit(code)), _) => Ok((code & 0xff, None)),
        (Some(Stop::Deadline), _) => Ok((EXIT_DEADLINE, None)),
        (Some(Stop::Output), _) => Ok((EXIT_OUTPUT, None)),
        (Some(Stop::Cancelled), _) => Err(RunError::Cancelled),
        (Some(Stop::Contract), _) => Ok((EXIT_TRAP, Some(TrapKind::Other))),
        (None, Some(trap)) => Ok((EXIT_TRAP, Some(TrapKind::of(*trap)))),
        (None, None) => Err(RunError::Runtime(format!("{error:#}"))),
    }
}
