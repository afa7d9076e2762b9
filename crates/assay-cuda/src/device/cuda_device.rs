//! [`CudaDevice`]: one GPU behind the backend trait.
//!
//! Every stream is non-blocking: only events order streams, and nothing waits for the whole device.

use super::context::PrimaryContext;
use super::error::DeviceError;
use super::event::Event;
use super::graph::Graph;
use super::kernel::{Function, Module};
use super::memory::Memory;
use super::stream::Stream;
use super::sync::lock;
use super::trace::DeviceTracer;
use super::watchdog::Watchdog;
use crate::blas::{BlasHandle, unavailable_message};
use crate::compiler::{Architecture, CubinCache};
use crate::discovery::{CudaUnavailable, DeviceInfo, discover};
use crate::notices::Notices;
use assay_runtime::backend::{
    Backend, BackendError, DeviceKind, DeviceProperties, EventId, GraphId, KernelId, Launch,
    Operation, Result, StreamId,
};
use assay_runtime::clock::MonotonicClock;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};
use std::time::Duration;

/// Options of a [`CudaDevice`].
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct CudaOptions {
    /// The device ordinal.
    pub ordinal: usize,
    /// The folder of the cubin cache; no cache if not given.
    pub cache_folder: Option<PathBuf>,
    /// The limit on waits for a stream or an event; none if not given.
    pub watchdog: Option<Duration>,
    /// Whether `f32` GEMMs may use TF32.
    pub allow_tf32: bool,
}

/// The host code of an operation: reads a launch's arguments and queues kernels.
pub type OperationBody = Box<dyn Fn(&Queue<'_>, &Launch) -> Result<()> + Send + Sync>;

/// The device and stream on which an operation queues its kernels.
pub struct Queue<'a> {
    pub(super) device: &'a CudaDevice,
    pub(super) stream: &'a Stream,
}

/// What a [`KernelId`] refers to.
pub(super) enum Code {
    /// One kernel, launched as it is.
    Function(Function),
    /// An operation that selects kernels and grids itself.
    Operation { name: String, parameters: usize, body: OperationBody },
}

/// One GPU as a device.
pub struct CudaDevice {
    pub(super) properties: DeviceProperties,
    pub(super) facts: DeviceInfo,
    pub(super) clock: MonotonicClock,
    pub(super) watchdog: Watchdog,
    pub(super) allow_tf32: bool,
    pub(super) cache: Option<CubinCache>,
    pub(super) notices: Notices,
    pub(super) noted_fallback_gemm: AtomicBool,
    pub(super) tune_gemms: AtomicBool,
    pub(super) default_stream: Arc<Stream>,
    /// The driver's least and most urgent priority.
    pub(super) priorities: (i32, i32),
    pub(super) streams: RwLock<HashMap<StreamId, Arc<Stream>>>,
    pub(super) events: RwLock<HashMap<EventId, Arc<Event>>>,
    pub(super) graphs: Mutex<HashMap<GraphId, Arc<Graph>>>,
    /// Indexed by kernel id: every launch looks here.
    pub(super) kernels: RwLock<Vec<Arc<Code>>>,
    pub(super) blas: OnceLock<BlasHandle>,
    /// Loaded modules by the hash of their source.
    pub(super) modules: Mutex<HashMap<String, Arc<Module>>>,
    pub(super) tracer: DeviceTracer,
    pub(super) next_stream: AtomicU32,
    pub(super) next_number: AtomicU64,
    // Last: fields drop in order, and the context must outlive everything in it.
    pub(super) memory: Memory,
    pub(super) context: Arc<PrimaryContext>,
}

/// Alignment of allocations, guaranteed by the driver.
const ALIGNMENT_BYTES: u64 = 256;

impl CudaDevice {
    /// Opens a GPU, if driver, NVRTC and device are available.
    pub fn new(options: CudaOptions) -> std::result::Result<Self, DeviceError> {
        let found = discover();
        if let Some(missing) = found.missing(options.ordinal) {
            return Err(DeviceError::CudaUnavailable(missing));
        }
        let (Some(driver), Some(facts)) =
            (&found.driver_functions, found.devices.get(options.ordinal))
        else {
            // Both exist where nothing is missing.
            return Err(DeviceError::CudaUnavailable(CudaUnavailable::Devices));
        };
        if !facts.memory_pools {
            return Err(DeviceError::Backend(BackendError::Driver {
                operation: Operation::AllocateDevice,
                message: format!("{} offers no memory pools", facts.name),
            }));
        }
        let context = PrimaryContext::new(driver, options.ordinal).map_err(|message| {
            DeviceError::CudaUnavailable(CudaUnavailable::DriverFailed { message })
        })?;
        let context = Arc::new(context);
        let (mut least, mut most) = (0, 0);
        context.enter(Operation::CreateStream)?;
        // SAFETY: stores two numbers.
        let status = unsafe { (driver.cuCtxGetStreamPriorityRange)(&raw mut least, &raw mut most) };
        context.check(Operation::CreateStream, status)?;
        let default_id = StreamId(0);
        let default_stream = Arc::new(Stream::new(&context, default_id, normal(least, most))?);
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
            noted_fallback_gemm: AtomicBool::new(false),
            tune_gemms: AtomicBool::new(false),
            streams: RwLock::new(HashMap::from([(default_id, Arc::clone(&default_stream))])),
            default_stream,
            priorities: (least, most),
            events: RwLock::default(),
            graphs: Mutex::default(),
            kernels: RwLock::default(),
            blas: OnceLock::new(),
            modules: Mutex::default(),
            tracer: DeviceTracer::default(),
            next_stream: AtomicU32::new(default_id.0 + 1),
            next_number: AtomicU64::new(1),
            memory: Memory::new(&context, options.ordinal, facts.memory_bytes)?,
            context,
        })
    }

    /// Properties of the GPU.
    pub fn facts(&self) -> &DeviceInfo {
        &self.facts
    }

    /// Whether `f32` GEMMs may use TF32.
    pub fn allows_tf32(&self) -> bool {
        self.allow_tf32
    }

    /// Whether GEMMs of many rows are timed when they first run, and the fastest algorithm is kept.
    pub fn tunes_gemms(&self) -> bool {
        self.tune_gemms.load(Ordering::Relaxed)
    }

    /// Turns the timing of GEMMs on or off: it takes some milliseconds for each problem.
    pub fn set_tunes_gemms(&self, tunes: bool) {
        self.tune_gemms.store(tunes, Ordering::Relaxed);
    }

    /// The architecture that kernels are compiled for.
    pub fn architecture(&self) -> Architecture {
        Architecture::of_device(self.facts.capability)
    }

    /// Notices since the last call, which are not errors: unusable cubin files, GEMMs without
    /// cuBLASLt.
    pub fn take_notices(&self) -> Vec<String> {
        let mut notices = self.notices.take();
        if let Some(cache) = &self.cache {
            notices.extend(cache.take_notices());
        }
        notices
    }

    /// Adds a notice, once, that GEMMs run without cuBLASLt, unless it is disabled on purpose.
    pub(crate) fn note_fallback_gemm(&self) {
        if let Some(sentence) = unavailable_message()
            && !self.noted_fallback_gemm.swap(true, Ordering::AcqRel)
        {
            self.notices.add(format!(
                "{sentence}. GEMMs of many rows are slow without it. hint: pip install \
                 \"assay[gpu]\""
            ));
        }
    }

    fn register(&self, code: Code) -> KernelId {
        let mut kernels = self.kernels.write().unwrap_or_else(PoisonError::into_inner);
        kernels.push(Arc::new(code));
        KernelId(kernels.len() as u64 - 1)
    }

    /// Registers a kernel.
    pub fn register_function(&self, function: Function) -> KernelId {
        self.register(Code::Function(function))
    }

    /// Registers an operation, whose body selects kernels and grids.
    pub fn register_operation(
        &self,
        name: impl Into<String>,
        parameters: usize,
        body: OperationBody,
    ) -> KernelId {
        self.register(Code::Operation { name: name.into(), parameters, body })
    }

    pub(super) fn code(&self, kernel: KernelId) -> Result<Arc<Code>> {
        let kernels = self.kernels.read().unwrap_or_else(PoisonError::into_inner);
        let found = usize::try_from(kernel.0).ok().and_then(|index| kernels.get(index));
        found.cloned().ok_or(BackendError::UnknownKernel { kernel })
    }

    /// The cuBLASLt handle, created by the first GEMM.
    pub(super) fn blas(&self) -> Result<&BlasHandle> {
        if let Some(handle) = self.blas.get() {
            return Ok(handle);
        }
        let handle = BlasHandle::new()?;
        Ok(self.blas.get_or_init(|| handle))
    }

    pub(super) fn fresh_number(&self) -> u64 {
        self.next_number.fetch_add(1, Ordering::Relaxed)
    }

    /// The stream with this id.
    pub(super) fn stream(&self, operation: Operation, stream: StreamId) -> Result<Arc<Stream>> {
        if stream == self.default_stream.id {
            return Ok(Arc::clone(&self.default_stream));
        }
        let streams = self.streams.read().unwrap_or_else(PoisonError::into_inner);
        let found = streams.get(&stream).cloned();
        found.ok_or(BackendError::UnknownStream { operation, stream })
    }

    pub(super) fn all_streams(&self) -> Vec<Arc<Stream>> {
        let streams = self.streams.read().unwrap_or_else(PoisonError::into_inner);
        streams.values().cloned().collect()
    }

    pub(super) fn event(&self, operation: Operation, event: EventId) -> Result<Arc<Event>> {
        let events = self.events.read().unwrap_or_else(PoisonError::into_inner);
        let found = events.get(&event).cloned();
        found.ok_or(BackendError::UnknownEvent { operation, event })
    }

    pub(super) fn graphs(&self) -> MutexGuard<'_, HashMap<GraphId, Arc<Graph>>> {
        lock(&self.graphs)
    }
}

/// The middle of the driver's priority range; lower numbers are more urgent.
pub(super) fn normal(least: i32, most: i32) -> i32 {
    i32::midpoint(least, most)
}

impl Drop for CudaDevice {
    fn drop(&mut self) {
        if self.watchdog.has_expired() || self.context.is_lost() {
            // Work that may never end is not waited for; it ends with the process.
            return;
        }
        for stream in self.all_streams() {
            // An unfinished capture is dropped with its stream, and a fault leaves nothing to
            // synchronize.
            if self.is_capturing(stream.id) == Ok(false) {
                let _ = stream.synchronize(Operation::SynchronizeStream, &self.watchdog);
            }
        }
    }
}
