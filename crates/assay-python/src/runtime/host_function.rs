//! Host functions: Python functions that run as stream-ordered work.
//!
//! A worker thread never takes the GIL. On the CPU's default stream the function runs in the
//! calling thread. On its other streams the worker that reaches the work opens a gate and blocks
//! the stream while the calling thread runs the function. On the simulated device the function runs
//! over copies of the bytes when virtual time reaches it.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use assay_cpu::device::CpuKernel;
use assay_runtime::backend::{
    Address, BackendError, DevicePointer, KernelArgument, Launch, Operation,
};
use assay_runtime::dispatch::{DispatchController, WorkId};
use assay_runtime::sim::{Link, SimKernel, SimMemory};
use assay_runtime::transfer::{TransferAttributes, TransferEngine};
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyList};

use super::errors;
use super::reentrancy::HostFunctionScope;

/// How long a thread waits at a gate between checks for a failed stream.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// The host functions whose work has not run yet.
#[derive(Default)]
pub(super) struct PendingFunctions {
    /// By token, until they run.
    pending: Mutex<HashMap<u64, Arc<HostFunction>>>,
}

impl PendingFunctions {
    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Arc<HostFunction>>> {
        // No code under the lock can panic midway.
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn add(&self, token: u64, call: Arc<HostFunction>) {
        self.lock().insert(token, call);
    }

    /// Removes a function that is about to run; each runs once.
    pub fn take(&self, token: u64) -> Option<Arc<HostFunction>> {
        self.lock().remove(&token)
    }
}

/// A range of device memory that the function reads or writes.
pub(super) struct Range {
    pub address: Option<Address>,
    pub bytes: u64,
    pub writes: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Gate {
    Shut,
    Open,
    Passed,
}

/// A Python function queued as a piece of work.
pub(super) struct HostFunction {
    function: Py<PyAny>,
    /// The ranges that a simulated device copies out and back.
    ranges: Vec<Range>,
    raised: Mutex<Option<PyErr>>,
    gate: Mutex<Gate>,
    moved: Condvar,
}

impl HostFunction {
    pub fn new(function: Py<PyAny>, ranges: Vec<Range>) -> Self {
        HostFunction {
            function,
            ranges,
            raised: Mutex::new(None),
            gate: Mutex::new(Gate::Shut),
            moved: Condvar::new(),
        }
    }

    /// The exception of the function; later calls return None.
    pub fn take_raised(&self) -> Option<PyErr> {
        let mut raised = self.raised.lock().unwrap_or_else(PoisonError::into_inner);
        raised.take()
    }

    fn keep(&self, outcome: PyResult<()>) {
        if let Err(error) = outcome {
            let mut raised = self.raised.lock().unwrap_or_else(PoisonError::into_inner);
            *raised = Some(error);
        }
    }

    fn run(&self) {
        let outcome = Python::attach(|py| {
            let _inside = HostFunctionScope::enter();
            self.function.call0(py).map(|_| ())
        });
        self.keep(outcome);
    }

    fn set_gate(&self, to: Gate) {
        *self.gate.lock().unwrap_or_else(PoisonError::into_inner) = to;
        self.moved.notify_all();
    }

    /// In a worker: opens the gate for the calling thread and blocks until the function returns.
    fn hold_stream(&self) {
        let mut gate = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
        if *gate == Gate::Shut {
            *gate = Gate::Open;
            self.moved.notify_all();
        }
        while *gate != Gate::Passed {
            gate = self.moved.wait(gate).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// In the calling thread: waits for the stream to reach the work, then runs the function.
    pub fn run_at_gate(&self, dispatch: &DispatchController, work: WorkId) -> PyResult<()> {
        let outcome = self.wait_at_gate(dispatch, work);
        if outcome.is_ok() {
            self.run();
        }
        // On every path the stream must be released.
        self.set_gate(Gate::Passed);
        outcome
    }

    fn wait_at_gate(&self, dispatch: &DispatchController, work: WorkId) -> PyResult<()> {
        // Work that waits for a grant is issued by a thread that waits with it; polling would be late.
        dispatch.wait_issued(work).map_err(|error| errors::dispatch(&error))?;
        let mut gate = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
        while *gate == Gate::Shut {
            drop(gate);
            // Polls dispatch, which advances queued work and reports a failed stream.
            let over = dispatch.is_complete(work);
            over.map_err(|error| errors::dispatch(&error))?;
            gate = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
            if *gate == Gate::Shut {
                let waited = self.moved.wait_timeout(gate, POLL_INTERVAL);
                gate = waited.unwrap_or_else(PoisonError::into_inner).0;
            }
        }
        Ok(())
    }

    /// Runs the function over copies of the ranges that the transfer engine downloads, uploads the
    /// ranges it writes, and waits.
    pub fn run_over_transfers(
        &self,
        engine: &TransferEngine,
        name: &str,
        attributes: &TransferAttributes,
    ) -> PyResult<()> {
        let refused = |error| errors::transfer(&error);
        let mut fetched = Vec::with_capacity(self.ranges.len());
        for range in &self.ranges {
            let bytes = vec![0u8; usize::try_from(range.bytes).unwrap_or(usize::MAX)];
            fetched.push(match range.address {
                Some(address) => engine
                    .download(name, DevicePointer(address.value()), bytes, attributes.clone())
                    .and_then(|download| download.wait())
                    .map_err(refused)?,
                None => bytes,
            });
        }
        let written = Python::attach(|py| -> PyResult<Vec<(DevicePointer, Vec<u8>)>> {
            let copies = PyList::empty(py);
            for bytes in fetched {
                copies.append(PyByteArray::new(py, &bytes))?;
            }
            {
                let _inside = HostFunctionScope::enter();
                self.function.call1(py, (&copies,))?;
            }
            let mut written = Vec::new();
            for (range, copy) in self.ranges.iter().zip(copies.iter()) {
                if let (Some(address), true) = (range.address, range.writes) {
                    let bytes = copy.cast::<PyByteArray>()?.to_vec();
                    written.push((DevicePointer(address.value()), bytes));
                }
            }
            Ok(written)
        })?;
        for (destination, bytes) in written {
            engine
                .upload(name, Arc::new(bytes), destination, attributes.clone())
                .and_then(|upload| upload.wait())
                .map_err(refused)?;
        }
        Ok(())
    }

    /// Runs the function over copies of the ranges and writes back the writable ones.
    fn run_over_copies(&self, memory: &mut SimMemory) -> Result<(), BackendError> {
        let outcome = Python::attach(|py| -> PyResult<Result<(), BackendError>> {
            let copies = PyList::empty(py);
            for range in &self.ranges {
                let copy = PyByteArray::new_with(py, range.bytes as usize, |bytes| {
                    let read = match range.address {
                        Some(address) => memory.read(address, bytes),
                        None => Ok(()),
                    };
                    read.map_err(|error| errors::backend(&error))
                })?;
                copies.append(copy)?;
            }
            {
                let _inside = HostFunctionScope::enter();
                self.function.call1(py, (&copies,))?;
            }
            for (range, copy) in self.ranges.iter().zip(copies.iter()) {
                let (Some(address), true) = (range.address, range.writes) else {
                    continue;
                };
                let copy = copy.cast::<PyByteArray>()?.to_vec();
                if let Err(error) = memory.write(address, &copy) {
                    return Ok(Err(error));
                }
            }
            Ok(Ok(()))
        });
        // The caller has returned already, so the work fails with the exception's text.
        outcome.unwrap_or_else(|error| {
            Err(BackendError::Driver { operation: Operation::Launch, message: error.to_string() })
        })
    }
}

fn token(arguments: &[KernelArgument]) -> Option<u64> {
    match arguments.first() {
        Some(KernelArgument::U64(token)) => Some(*token),
        _ => None,
    }
}

fn find(
    calls: &PendingFunctions,
    arguments: &[KernelArgument],
) -> Result<Arc<HostFunction>, BackendError> {
    let found = token(arguments).and_then(|token| calls.take(token));
    found.ok_or_else(|| BackendError::Driver {
        operation: Operation::Launch,
        message: "the function of this launch was called before".to_owned(),
    })
}

/// The kernel of the CPU's default stream: it runs in the calling thread.
pub(super) fn cpu_inline(calls: Arc<PendingFunctions>) -> CpuKernel {
    CpuKernel {
        name: "host_call".to_owned(),
        parameters: 2,
        check: None,
        body: Box::new(move |call| {
            find(&calls, call.arguments())?.run();
            Ok(())
        }),
    }
}

/// The kernel of the CPU's other streams: a worker blocks the stream until the function returns.
pub(super) fn cpu_gated(calls: Arc<PendingFunctions>) -> CpuKernel {
    CpuKernel {
        name: "host_call".to_owned(),
        parameters: 2,
        check: None,
        body: Box::new(move |call| {
            find(&calls, call.arguments())?.hold_stream();
            Ok(())
        }),
    }
}

/// The kernel of the simulated device; its duration is that of its bytes over `link`.
pub(super) fn simulated(calls: Arc<PendingFunctions>, link: Link) -> SimKernel {
    SimKernel {
        name: "host_call".to_owned(),
        parameters: 2,
        duration_ns: Box::new(move |launch: &Launch| {
            let bytes = match launch.arguments.get(1) {
                Some(KernelArgument::U64(bytes)) => *bytes,
                _ => 0,
            };
            link.duration_ns(bytes)
        }),
        body: Some(Box::new(move |launch, memory| {
            find(&calls, &launch.arguments)?.run_over_copies(memory)
        })),
    }
}
