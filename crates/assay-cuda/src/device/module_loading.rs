//! Compiling a source and loading the module.

use super::cuda_device::CudaDevice;
use super::kernel::Module;
use super::sync::lock;
use crate::compiler::{CompileError, Source, compile_cached, source_key};
use crate::discovery::discover;
use assay_runtime::backend::BackendError;
use std::fmt;
use std::sync::Arc;

/// Why a module could not be loaded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LoadError {
    /// Compilation failed.
    Compile(CompileError),
    /// The driver could not load it.
    Backend(BackendError),
}

impl fmt::Display for LoadError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoadError::Compile(error) => error.fmt(formatter),
            LoadError::Backend(error) => error.fmt(formatter),
        }
    }
}

impl std::error::Error for LoadError {}

impl From<BackendError> for LoadError {
    fn from(error: BackendError) -> Self {
        LoadError::Backend(error)
    }
}

impl CudaDevice {
    /// Compiles for this GPU, or reads the cache, and loads the module.
    ///
    /// Modules stay loaded until the device is dropped: graphs and queued launches may need them, and
    /// unloading would have to wait.
    pub fn compile(&self, source: &Source<'_>) -> std::result::Result<Arc<Module>, LoadError> {
        let key = source_key(source, self.architecture()).map_err(LoadError::Compile)?;
        let mut modules = lock(&self.modules);
        if let Some(known) = modules.get(&key) {
            return Ok(Arc::clone(known));
        }
        let image = compile_cached(source, self.architecture(), self.cache.as_ref())
            .map_err(LoadError::Compile)?;
        let module = Module::load(&self.context, &image.bytes, self.facts.shared_bytes);
        let module = module.map_err(|error| LoadError::Backend(explained(error)));
        let module = Arc::new(module?);
        modules.insert(key, Arc::clone(&module));
        Ok(module)
    }
}

/// A load error, with a hint where the driver is older than NVRTC.
fn explained(error: BackendError) -> BackendError {
    match (error, discover().newer_compiler_hint()) {
        (BackendError::Driver { operation, message }, Some(hint)) => {
            BackendError::Driver { operation, message: format!("{message}\nhint: {hint}") }
        }
        (error, _) => error,
    }
}
