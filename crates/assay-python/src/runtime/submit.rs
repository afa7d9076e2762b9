//! Submits work and host functions, ordered by the memory that they use.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use assay_runtime::backend::{KernelArgument, Launch};
use assay_runtime::dispatch::{DispatchError, Work, WorkId, WorkRequest};
use pyo3::prelude::*;

use super::allocation::Use;
use super::capture;
use super::device_runtime::{Device, DeviceRuntime};
use super::errors;
use super::host_function::HostFunction;
use super::transfer;

impl DeviceRuntime {
    /// Queues work after everything it depends on through its buffers.
    pub fn submit(&self, mut request: WorkRequest, uses: &[Use<'_>]) -> PyResult<WorkId> {
        if capture::is_on(self) {
            return capture::submit(request, uses);
        }
        self.captured.refuse(&request)?;
        self.tasks.charge(&mut request);
        let (stream, is_charged) = (request.stream, request.task.is_some());
        let name = Arc::clone(&request.name);
        let failures = self.dispatch.failures();
        check_all_poison(&name, uses)?;
        if self.has_several_streams(stream) {
            for one in uses {
                one.buffer.dependencies(stream, one.writes, &mut request.after);
            }
        }
        let work =
            self.dispatch.submit_blocking(request).map_err(|error| errors::dispatch(&error))?;
        if self.is_synchronous(stream) {
            if is_charged {
                // Work that queues for a grant runs in this thread during the wait.
                let waited = self.dispatch.wait(work);
                waited.map_err(|error| errors::dispatch(&error))?;
            }
        } else {
            for one in uses {
                one.buffer.note_use(stream, work, one.writes);
            }
        }
        if self.dispatch.failures() != failures {
            // Other work failed concurrently: an input of this may have been poisoned before it
            // ran.
            poison_if_any(&name, uses)?;
        }
        Ok(work)
    }

    /// Queues a Python function as one piece of work; on the CPU runs it in this thread and waits.
    pub fn call(
        self: &Arc<Self>,
        mut request: WorkRequest,
        call: HostFunction,
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
        self.calls.add(token, Arc::clone(&call));
        request.work = Work::Launch(Launch {
            kernel,
            grid: [1; 3],
            block: [1; 3],
            shared_bytes: 0,
            arguments: vec![KernelArgument::U64(token), KernelArgument::U64(request.bytes)],
        });
        let submitted = self.submit(request, uses);
        let outcome = match (submitted, &self.device) {
            (Err(error), _) => Err(error),
            // The simulated device calls it when virtual time reaches it.
            (Ok(_), Device::Sim { .. }) => return Ok(()),
            (Ok(_), Device::Cpu { inline, .. }) if *inline == kernel => Ok(()),
            (Ok(work), Device::Cpu { .. } | Device::Cuda { .. }) => {
                call.run_at_gate(&self.dispatch, work)
            }
        };
        drop(self.calls.take(token));
        outcome?;
        call.take_raised().map_or(Ok(()), Err)
    }

    /// Calls a Python function over host copies of its buffers, which the transfer engine downloads
    /// and uploads: the fallback where a GPU has no kernel.
    fn call_over_copies(
        &self,
        request: &WorkRequest,
        call: &HostFunction,
        uses: &[Use<'_>],
    ) -> PyResult<()> {
        for one in uses {
            one.buffer.wait()?;
        }
        let attributes = transfer::attributes(self, request.stream);
        call.run_over_transfers(self.transfers()?, &request.name, &attributes)
    }
}

/// Rejects work on memory that failed work was to write.
fn check_all_poison(name: &str, uses: &[Use<'_>]) -> PyResult<()> {
    let poisoned = uses.iter().find_map(|one| one.buffer.check_poison().err());
    poisoned.map_or(Ok(()), |source| Err(comes_after(name, source)))
}

/// Like `check_all_poison`, for work that was queued before the failure: poisons what it writes.
fn poison_if_any(name: &str, uses: &[Use<'_>]) -> PyResult<()> {
    let poisoned = uses.iter().find_map(|one| one.buffer.check_poison().err());
    let Some(source) = poisoned else {
        return Ok(());
    };
    for one in uses.iter().filter(|one| one.writes) {
        one.buffer.poison(source.clone());
    }
    Err(comes_after(name, source))
}

fn comes_after(name: &str, source: DispatchError) -> PyErr {
    errors::dispatch(&DispatchError::DependencyFailed {
        name: name.to_owned(),
        source: Box::new(source),
    })
}
