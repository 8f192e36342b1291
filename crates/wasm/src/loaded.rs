//! The engine image as loaded, and loaded anew once the process has gone quiet.
//!
//! A slot of the pool keeps the pages its runs touched, so that the next run finds them warm. That is worth having while
//! runs come and go, and a waste afterwards: a burst of 32 large programs would leave 60 MiB resident for ever. wasmtime
//! gives the pages of a slot back when the module it last held is gone, so that is what going quiet does: the artifact is
//! mapped again (it never left memory) and the old mapping is dropped, with every slot that was warm for it.

use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};

use wasmtime::{InstancePre, Linker, Module, ModuleExport};

use crate::artifact::Artifact;
use crate::engine::BuildError;
use crate::guest::{self, Guest, IMPORTS, MODULE};
use crate::sys;

/// Owns the artifact and the current mapping of it.
pub(crate) struct Image {
    engine: wasmtime::Engine,
    linker: Linker<Guest>,
    artifact: Artifact,
    current: RwLock<Arc<Loaded>>,
}

/// One mapping, ready to be instantiated.
pub(crate) struct Loaded {
    pub(crate) instance: InstancePre<Guest>,
    pub(crate) memory: ModuleExport,
    pub(crate) alloc: ModuleExport,
    pub(crate) prelude: ModuleExport,
    pub(crate) run: ModuleExport,
    pub(crate) step: ModuleExport,
    pub(crate) cell: ModuleExport,
}

impl Image {
    /// Maps the artifact for an engine, from `folder` where one is given that can be trusted and written.
    ///
    /// # Errors
    /// The host cannot run it, or it asks for a function that is not ours to give.
    pub(crate) fn load(engine: wasmtime::Engine, folder: Option<&Path>) -> Result<Self, BuildError> {
        // A folder that does not serve costs time, never the run.
        let kept = folder.and_then(|folder| Artifact::kept_in(folder).ok());
        let artifact = kept
            .map_or_else(Artifact::in_memory, Ok)
            .map_err(|error| BuildError::Runtime(format!("memory file: {error}")))?;
        let mut linker = Linker::new(&engine);
        guest::define(&mut linker).map_err(BuildError::runtime)?;
        let current = RwLock::new(Arc::new(Loaded::map(&engine, &linker, &artifact)?));
        Ok(Self {
            engine,
            linker,
            artifact,
            current,
        })
    }

    /// A mapping of the same artifact on another engine.
    ///
    /// # Errors
    /// The host is out of descriptors or address space.
    pub(crate) fn map_on(&self, engine: &wasmtime::Engine) -> Result<Loaded, BuildError> {
        let mut linker = Linker::new(engine);
        guest::define(&mut linker).map_err(BuildError::runtime)?;
        Loaded::map(engine, &linker, &self.artifact)
    }

    /// The mapping to run on. A run keeps the one it started with.
    pub(crate) fn current(&self) -> Arc<Loaded> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Maps the artifact again. The pages of the old mapping's slots go when its last run ends. What worked once fails
    /// only where the process is out of descriptors or address space; then the warm pages simply stay.
    pub(crate) fn renew(&self) {
        if let Ok(fresh) = Loaded::map(&self.engine, &self.linker, &self.artifact) {
            *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(fresh);
        }
    }
}

impl Loaded {
    fn map(engine: &wasmtime::Engine, linker: &Linker<Guest>, artifact: &Artifact) -> Result<Self, BuildError> {
        let module = sys::load(engine, artifact).map_err(BuildError::runtime)?;
        for import in module.imports() {
            if import.module() != MODULE || !IMPORTS.contains(&import.name()) {
                return Err(BuildError::Import(format!("{}.{}", import.module(), import.name())));
            }
        }
        let export = |name: &str| {
            module
                .get_export_index(name)
                .ok_or_else(|| BuildError::Runtime(format!("the engine image exports no `{name}`")))
        };
        Ok(Self {
            memory: export("memory")?,
            alloc: export("alloc")?,
            prelude: export("prelude")?,
            run: export("run")?,
            step: export("step")?,
            cell: export("cell")?,
            instance: linker.instantiate_pre(&module).map_err(BuildError::runtime)?,
        })
    }

    /// The module this maps.
    pub(crate) fn module(&self) -> &Module {
        self.instance.module()
    }
}
