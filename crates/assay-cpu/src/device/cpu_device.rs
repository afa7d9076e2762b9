//! [`CpuDevice`]: the host's CPU and memory behind the backend trait.
//!
//! Work on the default stream runs in the caller's thread. A few worker threads serve the other
//! streams; a thread that waits for a stream or an event runs queued work too, so that progress never
//! depends on a worker.

use super::kernel::CpuKernel;
use super::memory::{self, ALIGNMENT_BYTES, CpuMemory};
use super::shared::Shared;
use super::state::State;
use assay_runtime::backend::{
    BackendError, DeviceKind, DeviceProperties, KernelId, Operation, Result,
};
use assay_runtime::clock::MonotonicClock;
use assay_runtime::trace::SpanLog;
use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, PoisonError, RwLock};
use std::thread::JoinHandle;

/// Options of a [`CpuDevice`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CpuOptions {
    /// The device's memory; all memory of the machine by default.
    pub memory_bytes: Option<u64>,
    /// Worker threads for streams other than the default one.
    pub workers: usize,
}

impl Default for CpuOptions {
    fn default() -> Self {
        CpuOptions { memory_bytes: None, workers: 2 }
    }
}

/// The most workers that branches of graphs are given; further branches share them.
const MAX_BRANCH_WORKERS: usize = 16;

/// The host's CPU and memory as a device.
///
/// ```
/// use assay_runtime::backend::Backend;
/// use assay_cpu::device::{CpuDevice, CpuOptions};
/// let device = CpuDevice::new(CpuOptions::default())?;
/// let pointer = device.allocate_device(64)?;
/// device.fill(device.default_stream(), pointer.into(), 7, 64)?;
/// assert_eq!(device.memory().snapshot(pointer.into(), 2)?, [7, 7]);
/// device.free_device(pointer)?;
/// # Ok::<(), assay_runtime::backend::BackendError>(())
/// ```
pub struct CpuDevice {
    pub(super) shared: Arc<Shared>,
    pub(super) properties: DeviceProperties,
    workers: Mutex<Vec<JoinHandle<()>>>,
    worker_limit: usize,
}

impl CpuDevice {
    /// A device over the machine's memory.
    pub fn new(options: CpuOptions) -> Result<Self> {
        let memory_bytes = match options.memory_bytes.or_else(memory::physical_bytes) {
            Some(bytes) if bytes > 0 => bytes,
            got => {
                return Err(BackendError::InvalidOption {
                    name: "memory_bytes",
                    expected: "a number above 0, given where the system does not tell its memory",
                    got: got.unwrap_or(0),
                });
            }
        };
        if options.workers == 0 {
            return Err(BackendError::InvalidOption {
                name: "workers",
                expected: "at least 1",
                got: 0,
            });
        }
        Ok(CpuDevice {
            shared: Arc::new(Shared {
                state: Mutex::new(State::default()),
                changed: Condvar::new(),
                work: Condvar::new(),
                memory: CpuMemory::new(memory_bytes),
                kernels: RwLock::new(HashMap::new()),
                clock: MonotonicClock::new(),
                trace: SpanLog::default(),
            }),
            properties: DeviceProperties {
                name: memory::cpu_name(),
                kind: DeviceKind::Cpu,
                memory_bytes,
                alignment_bytes: ALIGNMENT_BYTES,
            },
            workers: Mutex::new(Vec::new()),
            worker_limit: options.workers,
        })
    }

    /// The device's memory, for zero-copy access.
    pub fn memory(&self) -> &CpuMemory {
        &self.shared.memory
    }

    /// Makes a kernel launchable.
    pub fn register_kernel(&self, kernel: CpuKernel) -> KernelId {
        let id = KernelId(self.shared.lock().streams.new_id());
        let mut kernels = self.shared.kernels.write().unwrap_or_else(PoisonError::into_inner);
        kernels.insert(id, Arc::new(kernel));
        id
    }

    /// Starts a worker unless the limit is reached.
    pub(super) fn start_worker(&self) -> Result<()> {
        let mut workers = self.workers.lock().unwrap_or_else(PoisonError::into_inner);
        match workers.len() < self.worker_limit {
            true => self.add_worker(&mut workers),
            false => Ok(()),
        }
    }

    /// Starts workers for the branches of a graph: each may wait while the others run.
    pub(super) fn ensure_workers(&self, wanted: usize) -> Result<()> {
        let mut workers = self.workers.lock().unwrap_or_else(PoisonError::into_inner);
        for _ in workers.len()..wanted.min(MAX_BRANCH_WORKERS) {
            self.add_worker(&mut workers)?;
        }
        Ok(())
    }

    fn add_worker(&self, workers: &mut Vec<JoinHandle<()>>) -> Result<()> {
        let shared = Arc::clone(&self.shared);
        let started = std::thread::Builder::new()
            .name("assay-stream".to_owned())
            .spawn(move || shared.worker_loop());
        match started {
            Ok(handle) => {
                workers.push(handle);
                Ok(())
            }
            // One worker serves any number of streams, and waiting threads help: fewer is slower, not wrong.
            Err(_) if !workers.is_empty() => Ok(()),
            Err(error) => Err(BackendError::Driver {
                operation: Operation::CreateStream,
                message: format!("no worker thread could be started: {error}"),
            }),
        }
    }
}

impl Drop for CpuDevice {
    fn drop(&mut self) {
        let state = self.shared.lock();
        let mut state = self.shared.run_until(state, |state| state.streams.is_idle());
        state.shut_down = true;
        drop(state);
        self.shared.changed.notify_all();
        self.shared.work.notify_all();
        let workers = self.workers.get_mut().unwrap_or_else(PoisonError::into_inner);
        for worker in workers.drain(..) {
            // A worker that panicked owns no resources.
            let _ = worker.join();
        }
    }
}
