//! [`CudaDevice`]: one GPU behind the backend trait.
//!
//! All streams are the device's own and order nothing among themselves but by events; nothing
//! waits for the whole device.

mod bare;
mod capture;
mod foreign;
mod gpu;
mod implementation;
mod kernel;
mod loading;
mod memory;
mod queue;
mod stream;
mod tensor_map;

pub use kernel::{Extent, Function, LaunchOptions, Module};
pub use loading::LoadError;
pub use queue::Queue;
pub use tensor_map::Boxes;

use crate::blas::{self, Blas, WORKSPACE_BYTES};
use crate::compiler::{Architecture, CubinCache};
use crate::notices::Notices;
use crate::probe::{DeviceFacts, Missing, probe};
use assay_runtime::backend::{
    Backend, BackendError, DeviceKind, DevicePointer, DeviceProperties, EventId, GraphId, KernelId,
    Launch, Operation, Result, StreamId,
};
use assay_runtime::clock::MonotonicClock;
use capture::Graph;
use gpu::Gpu;
use memory::Memory;
use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};
use std::time::Duration;
use stream::{Event, Stream, Watchdog, lock};

/// How a [`CudaDevice`] is set up.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct CudaOptions {
    /// Which GPU, as the driver numbers them.
    pub ordinal: usize,
    /// Where compiled kernels are kept; nowhere where not given.
    pub cache_folder: Option<PathBuf>,
    /// How long a wait for a stream or an event may last; for ever where not given.
    pub watchdog: Option<Duration>,
    /// Whether products of single precision may round what they read to 19 bits.
    pub allow_tf32: bool,
}

/// Why a device could not be made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DeviceError {
    /// Something of CUDA is not there.
    Missing(Missing),
    /// The driver refused.
    Backend(BackendError),
}

impl fmt::Display for DeviceError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DeviceError::Missing(missing) => missing.fmt(formatter),
            DeviceError::Backend(error) => error.fmt(formatter),
        }
    }
}

impl std::error::Error for DeviceError {}

impl From<BackendError> for DeviceError {
    fn from(error: BackendError) -> Self {
        DeviceError::Backend(error)
    }
}

/// The host's side of an operation: reads a launch's arguments and queues what they ask for.
pub type OperationBody = Box<dyn Fn(&Queue<'_>, &Launch) -> Result<()> + Send + Sync>;

/// What a [`KernelId`] stands for.
enum Code {
    /// One kernel, launched as asked.
    Function(Function),
    /// An operation that picks kernels and grids itself.
    Operation {
        name: String,
        parameters: usize,
        body: OperationBody,
    },
}

/// One GPU as a device.
pub struct CudaDevice {
    properties: DeviceProperties,
    facts: DeviceFacts,
    clock: MonotonicClock,
    watchdog: Watchdog,
    allow_tf32: bool,
    cache: Option<CubinCache>,
    notices: Notices,
    told_own_products: AtomicBool,
    default_stream: Arc<Stream>,
    /// The driver's least and most urgent priority.
    priorities: (i32, i32),
    streams: RwLock<HashMap<StreamId, Arc<Stream>>>,
    events: RwLock<HashMap<EventId, Arc<Event>>>,
    graphs: Mutex<HashMap<GraphId, Arc<Graph>>>,
    /// By number: a launch looks here every time.
    kernels: RwLock<Vec<Arc<Code>>>,
    blas: OnceLock<Blas>,
    workspaces: Mutex<HashMap<StreamId, DevicePointer>>,
    /// Loaded code by the hash of its source.
    modules: Mutex<HashMap<String, Arc<Module>>>,
    next_stream: AtomicU32,
    next_number: AtomicU64,
    // Last: memory is freed in the driver's order, and the context goes after everything in it.
    memory: Memory,
    gpu: Arc<Gpu>,
}

/// Every allocation begins at a multiple of this: the driver promises 256, pages give more.
const ALIGNMENT_BYTES: u64 = 256;

impl CudaDevice {
    /// Takes hold of a GPU, if everything that it takes is there.
    pub fn new(options: CudaOptions) -> std::result::Result<Self, DeviceError> {
        let found = probe();
        if let Some(missing) = found.missing(options.ordinal) {
            return Err(DeviceError::Missing(missing));
        }
        let (Some(driver), Some(facts)) =
            (&found.driver_functions, found.devices.get(options.ordinal))
        else {
            // Both are there where nothing is missing.
            return Err(DeviceError::Missing(Missing::Devices));
        };
        if !facts.memory_pools {
            return Err(DeviceError::Backend(BackendError::Driver {
                operation: Operation::AllocateDevice,
                message: format!("{} offers no memory pools", facts.name),
            }));
        }
        let gpu = Gpu::new(driver, options.ordinal)
            .map_err(|message| DeviceError::Missing(Missing::DriverFailed { message }))?;
        let gpu = Arc::new(gpu);
        let (mut least, mut most) = (0, 0);
        gpu.enter(Operation::CreateStream)?;
        // SAFETY: stores two numbers.
        let status = unsafe { (driver.cuCtxGetStreamPriorityRange)(&raw mut least, &raw mut most) };
        gpu.check(Operation::CreateStream, status)?;
        let default_id = StreamId(0);
        let default_stream = Arc::new(Stream::new(&gpu, default_id, normal(least, most))?);
        Ok(CudaDevice {
            properties: DeviceProperties {
                name: facts.name.clone(),
                kind: DeviceKind::Cuda,
                memory_bytes: facts.memory_bytes,
                alignment_bytes: ALIGNMENT_BYTES,
            },
            facts: facts.clone(),
            clock: MonotonicClock::new(),
            watchdog: Watchdog::new(options.watchdog),
            allow_tf32: options.allow_tf32,
            cache: options.cache_folder.map(CubinCache::new),
            notices: Notices::default(),
            told_own_products: AtomicBool::new(false),
            streams: RwLock::new(HashMap::from([(default_id, Arc::clone(&default_stream))])),
            default_stream,
            priorities: (least, most),
            events: RwLock::default(),
            graphs: Mutex::default(),
            kernels: RwLock::default(),
            blas: OnceLock::new(),
            workspaces: Mutex::default(),
            modules: Mutex::default(),
            next_stream: AtomicU32::new(default_id.0 + 1),
            next_number: AtomicU64::new(1),
            memory: Memory::new(&gpu, options.ordinal, facts.memory_bytes)?,
            gpu,
        })
    }

    /// What the driver says about the GPU.
    pub fn facts(&self) -> &DeviceFacts {
        &self.facts
    }

    /// Whether products of single precision may round what they read to 19 bits.
    pub fn allows_tf32(&self) -> bool {
        self.allow_tf32
    }

    /// What kernels are compiled for here.
    pub fn architecture(&self) -> Architecture {
        Architecture::of_device(self.facts.capability)
    }

    /// What went less well than it could since the last call, and is no error: files of compiled
    /// kernels that are of no use, products without cuBLASLt.
    pub fn take_notices(&self) -> Vec<String> {
        let mut taken = self.notices.take();
        if let Some(cache) = &self.cache {
            taken.extend(cache.take_notices());
        }
        taken
    }

    /// Notes, once, that products of many rows are without cuBLASLt, where nobody asked for that.
    pub(crate) fn note_own_products(&self) {
        if let Some(sentence) = blas::absence()
            && !self.told_own_products.swap(true, Ordering::AcqRel)
        {
            self.notices.add(format!(
                "{sentence}. Products of many rows are slow without it. hint: pip install \
                 \"assay[gpu]\""
            ));
        }
    }

    fn register(&self, code: Code) -> KernelId {
        let mut kernels = self.kernels.write().unwrap_or_else(PoisonError::into_inner);
        kernels.push(Arc::new(code));
        KernelId(kernels.len() as u64 - 1)
    }

    /// Makes a kernel launchable as it is.
    pub fn register_function(&self, function: Function) -> KernelId {
        self.register(Code::Function(function))
    }

    /// Makes an operation launchable, whose body picks kernels and grids.
    pub fn register_operation(
        &self,
        name: impl Into<String>,
        parameters: usize,
        body: OperationBody,
    ) -> KernelId {
        self.register(Code::Operation {
            name: name.into(),
            parameters,
            body,
        })
    }

    fn code(&self, kernel: KernelId) -> Result<Arc<Code>> {
        let kernels = self.kernels.read().unwrap_or_else(PoisonError::into_inner);
        let found = usize::try_from(kernel.0)
            .ok()
            .and_then(|index| kernels.get(index));
        found.cloned().ok_or(BackendError::UnknownKernel { kernel })
    }

    /// cuBLASLt, opened by the first product.
    fn blas(&self) -> Result<&Blas> {
        if let Some(made) = self.blas.get() {
            return Ok(made);
        }
        let made = Blas::new()?;
        Ok(self.blas.get_or_init(|| made))
    }

    /// Memory that products of a stream work in; products of two streams may run at once.
    fn workspace(&self, stream: StreamId) -> Result<DevicePointer> {
        let mut workspaces = lock(&self.workspaces);
        if let Some(known) = workspaces.get(&stream) {
            return Ok(*known);
        }
        let made = self.memory.allocate_device(WORKSPACE_BYTES)?;
        workspaces.insert(stream, made);
        Ok(made)
    }

    fn fresh_number(&self) -> u64 {
        self.next_number.fetch_add(1, Ordering::Relaxed)
    }

    /// The stream of this name, or the error that names the call.
    fn stream(&self, operation: Operation, stream: StreamId) -> Result<Arc<Stream>> {
        if stream == self.default_stream.id {
            return Ok(Arc::clone(&self.default_stream));
        }
        let streams = self.streams.read().unwrap_or_else(PoisonError::into_inner);
        let found = streams.get(&stream).cloned();
        found.ok_or(BackendError::UnknownStream { operation, stream })
    }

    fn all_streams(&self) -> Vec<Arc<Stream>> {
        let streams = self.streams.read().unwrap_or_else(PoisonError::into_inner);
        streams.values().cloned().collect()
    }

    fn event(&self, operation: Operation, event: EventId) -> Result<Arc<Event>> {
        let events = self.events.read().unwrap_or_else(PoisonError::into_inner);
        let found = events.get(&event).cloned();
        found.ok_or(BackendError::UnknownEvent { operation, event })
    }

    fn graphs(&self) -> MutexGuard<'_, HashMap<GraphId, Arc<Graph>>> {
        lock(&self.graphs)
    }
}

/// The priority in the middle of the driver's range, in which lower is more urgent.
fn normal(least: i32, most: i32) -> i32 {
    i32::midpoint(least, most)
}

impl Drop for CudaDevice {
    fn drop(&mut self) {
        if self.watchdog.has_expired() || self.gpu.is_lost() {
            // What never ends is not waited for; the end of the process is its end.
            return;
        }
        for stream in self.all_streams() {
            // A capture nobody ended is dropped with its stream, and a fault has nothing left to
            // give back.
            if self.is_capturing(stream.id) == Ok(false) {
                let _ = stream.synchronize(Operation::SynchronizeStream, &self.watchdog);
            }
        }
    }
}
