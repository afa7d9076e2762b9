//! [`CpuDevice`]: the host's processor and memory behind the backend trait.
//!
//! Work on the default stream is done before the call returns. Other streams are queues that a
//! few worker threads take from; whoever waits for a stream or an event takes from them too, so
//! nothing depends on a worker being there.

mod copying;
mod implementation;
mod kernel;
mod memory;
mod queue;
mod running;

pub use kernel::{CpuKernel, KernelCall};
pub use memory::CpuMemory;

use assay_runtime::backend::{
    BackendError, DeviceKind, DeviceProperties, KernelId, Operation, Result,
};
use assay_runtime::clock::MonotonicClock;
use queue::State;
use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock};
use std::thread::JoinHandle;

/// How a [`CpuDevice`] is set up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CpuOptions {
    /// Memory the device may hand out; the machine's whole memory where not given.
    pub memory_bytes: Option<u64>,
    /// Threads that take work from streams other than the default one.
    pub workers: usize,
}

impl Default for CpuOptions {
    fn default() -> Self {
        CpuOptions {
            memory_bytes: None,
            workers: 2,
        }
    }
}

/// What workers, waiters and callers share.
struct Shared {
    state: Mutex<State>,
    /// Something finished or was queued that a thread in `run_until` may wait for.
    changed: Condvar,
    /// There may be something for a worker to do, or the device ends.
    work: Condvar,
    memory: CpuMemory,
    kernels: RwLock<HashMap<KernelId, Arc<CpuKernel>>>,
    clock: MonotonicClock,
}

impl Shared {
    /// No code that can panic runs under the lock, so a poisoned one still holds whole books.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        state.waiters += 1;
        let mut state = self
            .changed
            .wait(state)
            .unwrap_or_else(PoisonError::into_inner);
        state.waiters -= 1;
        state
    }

    fn wait_for_work<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.work
            .wait(state)
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes whoever the change concerns; waking a thread costs more than a short piece of work.
    fn wake(&self, state: &State) {
        if state.waiters > 0 {
            self.changed.notify_all();
        }
        if !state.streams.is_drained() {
            self.work.notify_all();
        }
    }
}

/// The host's processor and memory as a device.
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
    shared: Arc<Shared>,
    properties: DeviceProperties,
    workers: Mutex<Vec<JoinHandle<()>>>,
    worker_limit: usize,
}

/// Every allocation begins on a cache line, which is also the widest vector.
const ALIGNMENT_BYTES: u64 = 64;

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
            }),
            properties: DeviceProperties {
                name: memory::processor_name(),
                kind: DeviceKind::Cpu,
                memory_bytes,
                alignment_bytes: ALIGNMENT_BYTES,
            },
            workers: Mutex::new(Vec::new()),
            worker_limit: options.workers,
        })
    }

    /// The device's memory, for those who share it without copying.
    pub fn memory(&self) -> &CpuMemory {
        &self.shared.memory
    }

    /// Makes a kernel launchable.
    pub fn register_kernel(&self, kernel: CpuKernel) -> KernelId {
        let id = KernelId(self.shared.lock().streams.new_id());
        let mut kernels = self
            .shared
            .kernels
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        kernels.insert(id, Arc::new(kernel));
        id
    }

    /// Starts a worker if fewer run than are allowed; the first stream needs the first one.
    fn start_worker(&self) -> Result<()> {
        let mut workers = self.workers.lock().unwrap_or_else(PoisonError::into_inner);
        if workers.len() >= self.worker_limit {
            return Ok(());
        }
        let shared = Arc::clone(&self.shared);
        let started = std::thread::Builder::new()
            .name("assay-stream".to_owned())
            .spawn(move || shared.work_until_the_end());
        match started {
            Ok(handle) => {
                workers.push(handle);
                Ok(())
            }
            // One worker serves any number of streams, and waiters help: fewer is slower, not wrong.
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
        let mut state = self
            .shared
            .run_until(state, |state| state.streams.is_idle());
        state.shut_down = true;
        drop(state);
        self.shared.changed.notify_all();
        self.shared.work.notify_all();
        let workers = self
            .workers
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner);
        for worker in workers.drain(..) {
            // A worker that panicked has nothing left to give back.
            let _ = worker.join();
        }
    }
}
