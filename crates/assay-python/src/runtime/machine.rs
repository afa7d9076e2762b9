//! One device with its pool, dispatch controller, transfer engine and records.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use assay_cpu::device::{CpuDevice, CpuOptions};
use assay_cuda::device::{CudaDevice, CudaOptions};
use assay_operations::TABLE;
use assay_runtime::backend::{Backend, KernelArgument, KernelId, Launch, StreamId};
use assay_runtime::dispatch::{
    DispatchController, DispatchError, DispatchOptions, Recorder, Timing, Work, WorkId, WorkRequest,
};
use assay_runtime::sim::{SimBackend, SimOptions, SimProfile};
use assay_runtime::transfer::{TransferEngine, TransferOptions};
use pyo3::prelude::*;

use super::block::{Held, Use};
use super::capture::{self, CapturedStreams};
use super::cuda;
use super::errors;
use super::host_call::{self, HostCall};
use super::memory::{DeviceMemory, MemoryOptions};
use super::operate::{self, Operations};
use super::stream_tasks::StreamTasks;

thread_local! {
    /// Whether this thread is inside an operation's function, under the device's locks.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Marks the thread as inside an operation while it lives.
pub(super) struct Inside;

impl Inside {
    pub fn enter() -> Self {
        INSIDE.set(true);
        Inside
    }

    pub fn is_entered() -> bool {
        INSIDE.get()
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        INSIDE.set(false);
    }
}

/// Refuses a call from inside an operation, which would wait for the operation itself.
pub(super) fn outside_operation(operation: &str) -> PyResult<()> {
    if Inside::is_entered() {
        return Err(errors::invalid(&format!(
            "{operation}: expected a call between operations, got one from inside an operation"
        )));
    }
    Ok(())
}

/// How a machine is set up; nothing given means the device's own figures.
#[derive(Clone, Copy, Default)]
pub(super) struct MachineOptions {
    pub memory_bytes: Option<u64>,
    pub memory: MemoryOptions,
    pub timing: bool,
    pub records: usize,
}

/// Which device it is; kernels are registered with it, not with the trait.
pub(super) enum Device {
    Cpu { inline: KernelId, gated: KernelId },
    Sim { call: KernelId },
    Cuda { device: Arc<CudaDevice> },
}

/// Device, pool, dispatch, transfers and records; everything Python does goes through here.
pub(super) struct Machine {
    pub device: Device,
    pub operations: Operations,
    pub backend: Arc<dyn Backend>,
    pub memory: DeviceMemory,
    pub dispatch: DispatchController,
    transfers: OnceLock<TransferEngine>,
    timing: bool,
    calls: Arc<host_call::Calls>,
    next_token: AtomicU64,
    /// Buffers dropped inside an operation, freed by the next call.
    left: Mutex<Vec<Held>>,
    has_left: AtomicBool,
    pub captured: CapturedStreams,
    pub tasks: StreamTasks,
    /// Whether memory is of tenants, or lines of source are noted for it.
    has_accounts: AtomicBool,
    default_stream: StreamId,
    /// Whether any other stream was ever given work.
    several_streams: AtomicBool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing under these locks can panic half way.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Machine {
    pub fn cpu(options: MachineOptions) -> PyResult<Arc<Self>> {
        let device = CpuDevice::new(CpuOptions {
            memory_bytes: options.memory_bytes,
            ..CpuOptions::default()
        });
        let device = Arc::new(device.map_err(|error| errors::backend(&error))?);
        let calls = Arc::new(host_call::Calls::default());
        let kernels = Device::Cpu {
            inline: device.register_kernel(host_call::cpu_inline(Arc::clone(&calls))),
            gated: device.register_kernel(host_call::cpu_gated(Arc::clone(&calls))),
        };
        let operations = assay_cpu::kernels::register(&device);
        Machine::new(kernels, operations, device, calls, options)
    }

    pub fn sim(options: MachineOptions) -> PyResult<Arc<Self>> {
        let mut profile = SimProfile::generic();
        if let Some(bytes) = options.memory_bytes {
            profile.device_memory.capacity_bytes = bytes;
        }
        // A pass over memory reads and writes at the rate that a fill writes.
        let link = profile.device_fill;
        let made = SimBackend::new(SimOptions {
            profile,
            ..SimOptions::default()
        });
        let device = Arc::new(made.map_err(|error| errors::backend(&error))?);
        let calls = Arc::new(host_call::Calls::default());
        let kernel = host_call::simulated(Arc::clone(&calls), link);
        let call = device
            .register_kernel(kernel)
            .map_err(|error| errors::backend(&error))?;
        let operations = operate::simulated(link)
            .map(|kernel| device.register_kernel(kernel))
            .collect::<Result<_, _>>()
            .map_err(|error| errors::backend(&error))?;
        Machine::new(Device::Sim { call }, operations, device, calls, options)
    }

    pub fn cuda(options: MachineOptions, cuda: CudaOptions) -> PyResult<Arc<Self>> {
        let device = CudaDevice::new(cuda).map_err(|error| errors::cuda(&error))?;
        let device = Arc::new(device);
        let backend = Arc::clone(&device);
        let calls = Arc::new(host_call::Calls::default());
        let limited = MachineOptions {
            memory: MemoryOptions {
                pool_bytes: options.memory.pool_bytes.or(options.memory_bytes),
                ..options.memory
            },
            ..options
        };
        let operations = assay_cuda::operations::register(&device);
        Machine::new(Device::Cuda { device }, operations, backend, calls, limited)
    }

    fn new(
        device: Device,
        operations: Operations,
        backend: Arc<dyn Backend>,
        calls: Arc<host_call::Calls>,
        options: MachineOptions,
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
        Ok(Arc::new(Machine {
            device,
            operations,
            backend,
            memory,
            dispatch,
            transfers: OnceLock::new(),
            timing: options.timing,
            calls,
            next_token: AtomicU64::new(0),
            left: Mutex::new(Vec::new()),
            has_left: AtomicBool::new(false),
            captured: CapturedStreams::default(),
            tasks: StreamTasks::default(),
            has_accounts: AtomicBool::new(options.memory.tracking),
            default_stream,
            several_streams: AtomicBool::new(false),
        }))
    }

    /// Whether work on the stream is over when the call that queued it returns.
    pub fn is_synchronous(&self, stream: StreamId) -> bool {
        matches!(self.device, Device::Cpu { .. }) && stream == self.backend.default_stream()
    }

    /// Whether operations of the table take time and compute nothing.
    pub fn is_simulated(&self) -> bool {
        matches!(self.device, Device::Sim { .. })
    }

    /// Whether it is a GPU: arrays have kernels there, and nothing that it does waits for Python.
    pub fn is_gpu(&self) -> bool {
        matches!(self.device, Device::Cuda { .. })
    }

    /// Whether memory is nobody's in particular: no tenants, and no lines of source noted.
    pub fn is_plain(&self) -> bool {
        !self.has_accounts.load(Ordering::Acquire)
    }

    /// Memory may be a tenant's from now on.
    pub fn open_accounts(&self) {
        self.has_accounts.store(true, Ordering::Release);
    }

    /// Whether device memory has addresses that the host can read.
    pub fn is_host_memory(&self) -> bool {
        matches!(self.device, Device::Cpu { .. })
    }

    /// The operation of the table that a piece of work is, if it is one.
    pub fn operation_of(&self, work: &Work) -> Option<&'static str> {
        let Work::Launch(launch) = work else {
            return None;
        };
        let mut kernels = self.operations.iter();
        let index = kernels.position(|kernel| *kernel == launch.kernel)?;
        TABLE.get(index).map(|signature| signature.name)
    }

    /// The transfer engine, whose staging rings are pinned when the first transfer needs them.
    pub fn transfers(&self) -> PyResult<&TransferEngine> {
        if let Some(engine) = self.transfers.get() {
            return Ok(engine);
        }
        let options = TransferOptions {
            timing: self.timing,
            ..TransferOptions::default()
        };
        let recorder = Arc::clone(self.dispatch.recorder());
        let engine = TransferEngine::new(Arc::clone(&self.backend), options, recorder)
            .map_err(|error| errors::transfer(&error))?;
        Ok(self.transfers.get_or_init(|| engine))
    }

    /// Keeps what cannot be freed now, because its thread is inside an operation.
    pub fn leave(&self, held: Held) {
        lock(&self.left).push(held);
        self.has_left.store(true, Ordering::Release);
    }

    /// Refuses a call that cannot be made now, and does what earlier ones left to do.
    pub fn begin(&self, py: Python<'_>, operation: &str) -> PyResult<()> {
        outside_operation(operation)?;
        self.settle(py);
        Ok(())
    }

    /// Frees what was dropped inside an operation, and tells what compiling kernels met.
    pub fn settle(&self, py: Python<'_>) {
        if let Device::Cuda { device } = &self.device {
            let notices = device.take_notices();
            if !notices.is_empty()
                && let Err(error) = cuda::tell(py, &notices)
            {
                // A handler of the user's raised; the operation is not to blame.
                error.write_unraisable(py, None);
            }
        }
        if self.has_left.load(Ordering::Acquire) && self.has_left.swap(false, Ordering::AcqRel) {
            let left = std::mem::take(&mut *lock(&self.left));
            py.detach(|| left.into_iter().for_each(|held| held.give_back(self)));
        }
    }

    /// Whether work may have to come after that of another stream than this, which is given some.
    fn has_several_streams(&self, stream: StreamId) -> bool {
        if stream != self.default_stream {
            self.several_streams.store(true, Ordering::Release);
        }
        self.several_streams.load(Ordering::Acquire)
    }

    /// Queues work that comes after everything it depends on through its buffers.
    pub fn submit(&self, mut request: WorkRequest, uses: &[Use<'_>]) -> PyResult<WorkId> {
        if capture::is_on(self) {
            return capture::submit(request, uses);
        }
        self.captured.refuse(&request)?;
        self.tasks.charge(&mut request);
        let (stream, is_charged) = (request.stream, request.task.is_some());
        let name = Arc::clone(&request.name);
        let failures = self.dispatch.failures();
        all_whole(&name, uses)?;
        if self.has_several_streams(stream) {
            for one in uses {
                one.buffer
                    .dependencies(stream, one.writes, &mut request.after);
            }
        }
        let work = self
            .dispatch
            .submit_blocking(request)
            .map_err(|error| errors::dispatch(&error))?;
        if self.is_synchronous(stream) {
            if is_charged {
                // It may stand in line for its turn, and goes on in this thread when that comes.
                let waited = self.dispatch.wait(work);
                waited.map_err(|error| errors::dispatch(&error))?;
            }
        } else {
            for one in uses {
                one.buffer.note_use(stream, work, one.writes);
            }
        }
        if self.dispatch.failures() != failures {
            // Something failed meanwhile: what this read may have been spoilt before it ran.
            spoil_if_any(&name, uses)?;
        }
        Ok(work)
    }

    /// Queues a call of a Python function as one piece of work, and sees it through on the
    /// processor, where it runs in this thread.
    pub fn call(
        self: &Arc<Self>,
        mut request: WorkRequest,
        call: HostCall,
        uses: &[Use<'_>],
    ) -> PyResult<()> {
        capture::refuse(self, &request.name, "a Python function")?;
        let stream = request.stream;
        let kernel = match self.device {
            Device::Cpu { inline, .. } if self.is_synchronous(stream) => inline,
            Device::Cpu { gated, .. } => gated,
            Device::Sim { call } => call,
            Device::Cuda { .. } => return self.call_over_copies(&request, &call, uses),
        };
        let call = Arc::new(call);
        let token = self.next_token.fetch_add(1, Ordering::Relaxed);
        lock(&self.calls.pending).insert(token, Arc::clone(&call));
        request.work = Work::Launch(Launch {
            kernel,
            grid: [1; 3],
            block: [1; 3],
            shared_bytes: 0,
            arguments: vec![
                KernelArgument::U64(token),
                KernelArgument::U64(request.bytes),
            ],
        });
        let submitted = self.submit(request, uses);
        let outcome = match (submitted, &self.device) {
            (Err(error), _) => Err(error),
            // The simulated device calls it when its time comes.
            (Ok(_), Device::Sim { .. }) => return Ok(()),
            (Ok(_), Device::Cpu { inline, .. }) if *inline == kernel => Ok(()),
            (Ok(work), Device::Cpu { .. } | Device::Cuda { .. }) => {
                call.run_at_gate(&self.dispatch, work)
            }
        };
        lock(&self.calls.pending).remove(&token);
        outcome?;
        call.take_raised().map_or(Ok(()), Err)
    }

    /// Calls a Python function over copies of what it uses, which go there and back through the
    /// transfer engine: what a GPU has no kernel for.
    fn call_over_copies(
        &self,
        request: &WorkRequest,
        call: &HostCall,
        uses: &[Use<'_>],
    ) -> PyResult<()> {
        for one in uses {
            one.buffer.wait()?;
        }
        call.run_over_transfers(self.transfers()?, &request.name)
    }
}

/// Refuses work on memory that failed work was to write.
fn all_whole(name: &str, uses: &[Use<'_>]) -> PyResult<()> {
    let spoilt = uses.iter().find_map(|one| one.buffer.whole().err());
    spoilt.map_or(Ok(()), |source| Err(comes_after(name, source)))
}

/// The same for work that was queued before that was known: what it writes is spoilt too.
fn spoil_if_any(name: &str, uses: &[Use<'_>]) -> PyResult<()> {
    let spoilt = uses.iter().find_map(|one| one.buffer.whole().err());
    let Some(source) = spoilt else {
        return Ok(());
    };
    for one in uses.iter().filter(|one| one.writes) {
        one.buffer.spoil(source.clone());
    }
    Err(comes_after(name, source))
}

fn comes_after(name: &str, source: DispatchError) -> PyErr {
    errors::dispatch(&DispatchError::DependencyFailed {
        name: name.to_owned(),
        source: Box::new(source),
    })
}

impl host_call::Calls {
    /// Hands out a call that is about to run; each runs once.
    pub fn take(&self, token: u64) -> Option<Arc<HostCall>> {
        lock(&self.pending).remove(&token)
    }
}

/// Calls by token, until they run.
pub(super) type Pending = Mutex<HashMap<u64, Arc<HostCall>>>;
