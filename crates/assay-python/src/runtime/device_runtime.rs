//! One device with its pool, dispatch controller, transfer engine and records.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use assay_cpu::device::{CpuDevice, CpuOptions};
use assay_cuda::device::{CudaDevice, CudaOptions};
use assay_operations::TABLE;
use assay_runtime::backend::{Backend, KernelId, StreamId};
use assay_runtime::dispatch::{DispatchController, DispatchOptions, Recorder, Timing, Work};
use assay_runtime::sim::{SimBackend, SimOptions, SimProfile};
use assay_runtime::transfer::{TransferEngine, TransferOptions};
use pyo3::prelude::*;

use super::backing::Backing;
use super::captured_streams::CapturedStreams;
use super::errors;
use super::host_function;
use super::memory::{DeviceMemory, MemoryOptions};
use super::notices;
use super::reentrancy::refuse_reentry;
use super::simulated_operations::{self, Operations};
use super::stream_tasks::StreamTasks;

/// Options of a runtime; None means the device's default.
#[derive(Clone, Copy, Default)]
pub(super) struct DeviceRuntimeOptions {
    pub memory_bytes: Option<u64>,
    pub memory: MemoryOptions,
    pub timing: bool,
    pub records: usize,
}

/// The concrete device; kernels are registered with it, not with the trait.
pub(super) enum Device {
    Cpu { inline: KernelId, gated: KernelId },
    Sim { call: KernelId },
    Cuda { device: Arc<CudaDevice> },
}

/// Device, pool, dispatch, transfers and records; every Python call uses one of these.
pub(super) struct DeviceRuntime {
    pub device: Device,
    pub operations: Operations,
    /// The delay kernel.
    pub delay: KernelId,
    pub backend: Arc<dyn Backend>,
    pub memory: DeviceMemory,
    pub dispatch: DispatchController,
    transfers: OnceLock<TransferEngine>,
    timing: bool,
    pub(super) calls: Arc<host_function::PendingFunctions>,
    pub(super) next_token: AtomicU64,
    /// Buffers dropped inside a host function; the next call frees them.
    deferred_frees: Mutex<Vec<Backing>>,
    has_deferred_frees: AtomicBool,
    pub captured: CapturedStreams,
    pub tasks: StreamTasks,
    /// Whether memory has tenants or call-site tracking.
    has_accounts: AtomicBool,
    default_stream: StreamId,
    /// Whether a stream other than the default ever received work.
    several_streams: AtomicBool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // No code under these locks can panic midway.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl DeviceRuntime {
    pub fn cpu(options: DeviceRuntimeOptions) -> PyResult<Arc<Self>> {
        let device = CpuDevice::new(CpuOptions {
            memory_bytes: options.memory_bytes,
            ..CpuOptions::default()
        });
        let device = Arc::new(device.map_err(|error| errors::backend(&error))?);
        let calls = Arc::new(host_function::PendingFunctions::default());
        let kernels = Device::Cpu {
            inline: device.register_kernel(host_function::cpu_inline(Arc::clone(&calls))),
            gated: device.register_kernel(host_function::cpu_gated(Arc::clone(&calls))),
        };
        let operations = (assay_cpu::kernels::register(&device), device.register_delay());
        DeviceRuntime::new(kernels, operations, device, calls, options)
    }

    pub fn sim(options: DeviceRuntimeOptions) -> PyResult<Arc<Self>> {
        let mut profile = SimProfile::generic();
        if let Some(bytes) = options.memory_bytes {
            profile.device_memory.capacity_bytes = bytes;
        }
        // A simulated operation reads and writes memory at the rate of a fill.
        let link = profile.device_fill;
        let backend = SimBackend::new(SimOptions { profile, ..SimOptions::default() });
        let device = Arc::new(backend.map_err(|error| errors::backend(&error))?);
        let calls = Arc::new(host_function::PendingFunctions::default());
        let kernel = host_function::simulated(Arc::clone(&calls), link);
        let call = device.register_kernel(kernel).map_err(|error| errors::backend(&error))?;
        let operations = simulated_operations::kernels(link)
            .map(|kernel| device.register_kernel(kernel))
            .collect::<Result<_, _>>()
            .map_err(|error| errors::backend(&error))?;
        let delay = device.register_delay();
        let operations = (operations, delay.map_err(|error| errors::backend(&error))?);
        DeviceRuntime::new(Device::Sim { call }, operations, device, calls, options)
    }

    pub fn cuda(options: DeviceRuntimeOptions, cuda: CudaOptions) -> PyResult<Arc<Self>> {
        let device = CudaDevice::new(cuda).map_err(|error| errors::cuda(&error))?;
        let device = Arc::new(device);
        let backend = Arc::clone(&device);
        let calls = Arc::new(host_function::PendingFunctions::default());
        let limited = DeviceRuntimeOptions {
            memory: MemoryOptions {
                pool_bytes: options.memory.pool_bytes.or(options.memory_bytes),
                ..options.memory
            },
            ..options
        };
        let operations = (assay_cuda::operations::register(&device), device.register_delay());
        DeviceRuntime::new(Device::Cuda { device }, operations, backend, calls, limited)
    }

    fn new(
        device: Device,
        (operations, delay): (Operations, KernelId),
        backend: Arc<dyn Backend>,
        calls: Arc<host_function::PendingFunctions>,
        options: DeviceRuntimeOptions,
    ) -> PyResult<Arc<Self>> {
        let dispatch_options = DispatchOptions {
            timing: match options.timing {
                true => Timing::Full,
                false => Timing::Off,
            },
            ..DispatchOptions::default()
        };
        let recorder = Arc::new(Recorder::new(options.records));
        let dispatch = DispatchController::new(Arc::clone(&backend), dispatch_options, recorder)
            .map_err(|error| errors::dispatch(&error))?;
        let memory = DeviceMemory::new(&backend, &dispatch, options.memory);
        let memory = memory.map_err(|error| errors::memory(&error))?;
        let default_stream = backend.default_stream();
        Ok(Arc::new(DeviceRuntime {
            device,
            operations,
            delay,
            backend,
            memory,
            dispatch,
            transfers: OnceLock::new(),
            timing: options.timing,
            calls,
            next_token: AtomicU64::new(0),
            deferred_frees: Mutex::new(Vec::new()),
            has_deferred_frees: AtomicBool::new(false),
            captured: CapturedStreams::default(),
            tasks: StreamTasks::default(),
            has_accounts: AtomicBool::new(options.memory.tracking),
            default_stream,
            several_streams: AtomicBool::new(false),
        }))
    }

    /// Whether work on the stream completes before the call that queued it returns.
    pub fn is_synchronous(&self, stream: StreamId) -> bool {
        matches!(self.device, Device::Cpu { .. }) && stream == self.backend.default_stream()
    }

    /// Whether operations of the table take time but compute nothing.
    pub fn is_simulated(&self) -> bool {
        matches!(self.device, Device::Sim { .. })
    }

    /// Whether it is a GPU: arrays have kernels there, and no device code waits for the GIL.
    pub fn is_gpu(&self) -> bool {
        matches!(self.device, Device::Cuda { .. })
    }

    /// Whether memory has neither tenants nor call-site tracking.
    pub fn has_no_accounts(&self) -> bool {
        !self.has_accounts.load(Ordering::Acquire)
    }

    /// Records that memory may belong to tenants from now on.
    pub fn add_accounts(&self) {
        self.has_accounts.store(true, Ordering::Release);
    }

    /// Whether the host can access device memory by its address.
    pub fn is_host_memory(&self) -> bool {
        matches!(self.device, Device::Cpu { .. })
    }

    /// The operation of the table that a piece of work launches, if any.
    pub fn operation_of(&self, work: &Work) -> Option<&'static str> {
        let Work::Launch(launch) = work else {
            return None;
        };
        let mut kernels = self.operations.iter();
        let index = kernels.position(|kernel| *kernel == launch.kernel)?;
        TABLE.get(index).map(|signature| signature.name)
    }

    /// The transfer engine; the first transfer allocates its pinned staging rings.
    pub fn transfers(&self) -> PyResult<&TransferEngine> {
        if let Some(engine) = self.transfers.get() {
            return Ok(engine);
        }
        let options = TransferOptions { timing: self.timing, ..TransferOptions::default() };
        let recorder = Arc::clone(self.dispatch.recorder());
        let engine = TransferEngine::new(Arc::clone(&self.backend), options, recorder)
            .map_err(|error| errors::transfer(&error))?;
        Ok(self.transfers.get_or_init(|| engine))
    }

    /// Defers a free of a thread that is inside a host function.
    pub fn defer_free(&self, backing: Backing) {
        lock(&self.deferred_frees).push(backing);
        self.has_deferred_frees.store(true, Ordering::Release);
    }

    /// Rejects a reentrant call and runs deferred frees.
    pub fn begin(&self, py: Python<'_>, operation: &str) -> PyResult<()> {
        refuse_reentry(operation)?;
        self.run_deferred(py);
        Ok(())
    }

    /// Frees what was dropped inside a host function, and logs the warnings of kernel compilation.
    pub fn run_deferred(&self, py: Python<'_>) {
        if let Device::Cuda { device } = &self.device {
            let warnings = device.take_notices();
            if !warnings.is_empty()
                && let Err(error) = notices::log_warnings(py, &warnings)
            {
                // A user's log handler raised; the operation itself succeeded.
                error.write_unraisable(py, None);
            }
        }
        if self.has_deferred_frees.load(Ordering::Acquire)
            && self.has_deferred_frees.swap(false, Ordering::AcqRel)
        {
            let deferred = std::mem::take(&mut *lock(&self.deferred_frees));
            py.detach(|| {
                deferred
                    .into_iter()
                    .for_each(|backing| backing.free(&*self.backend, &self.dispatch))
            });
        }
    }

    /// Whether work of this stream may depend on another stream; records that it receives work.
    pub(super) fn has_several_streams(&self, stream: StreamId) -> bool {
        if stream != self.default_stream {
            self.several_streams.store(true, Ordering::Release);
        }
        self.several_streams.load(Ordering::Acquire)
    }
}
