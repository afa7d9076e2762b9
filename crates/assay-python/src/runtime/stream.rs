//! Streams and events for Python.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use assay_runtime::backend::{EventId, StreamId, StreamPriority};
use pyo3::prelude::*;

use super::barrier::guarded;
use super::capture;
use super::errors;
use super::graph::PyGraph;
use super::machine::{Inside, Machine, outside_operation};

/// Streams that some thread or task is inside `with` of; as long as there are none, nobody looks
/// for the one that is current.
static ENTERED: AtomicUsize = AtomicUsize::new(0);

/// Whether anyone is inside `with stream:`.
pub(super) fn is_any_entered() -> bool {
    ENTERED.load(Ordering::Acquire) > 0
}

/// A queue of work of one device.
#[pyclass(name = "NativeStream", module = "assay._native", frozen)]
pub(super) struct PyStream {
    machine: Arc<Machine>,
    pub(super) id: StreamId,
    owned: bool,
}

impl PyStream {
    pub fn default_of(machine: &Arc<Machine>) -> Self {
        PyStream {
            machine: Arc::clone(machine),
            id: machine.backend.default_stream(),
            owned: false,
        }
    }

    pub fn create(machine: &Arc<Machine>, priority: &str) -> PyResult<Self> {
        let priority = match priority {
            "low" => StreamPriority::Low,
            "normal" => StreamPriority::Normal,
            "high" => StreamPriority::High,
            other => {
                return Err(errors::invalid(&format!(
                    "stream: expected priority low, normal or high, got \"{other}\""
                )));
            }
        };
        let id = machine
            .dispatch
            .create_stream(priority)
            .map_err(|error| errors::dispatch(&error))?;
        Ok(PyStream {
            machine: Arc::clone(machine),
            id,
            owned: true,
        })
    }

    /// Its number, if it belongs to the machine that is to work on it.
    pub fn on(&self, machine: &Arc<Machine>, operation: &str) -> PyResult<StreamId> {
        match Arc::ptr_eq(&self.machine, machine) {
            true => Ok(self.id),
            false => Err(errors::invalid(&format!(
                "{operation}: expected a stream of the device, got one of another device"
            ))),
        }
    }

    /// Brings everything submitted so far onto the device, so that an event marks its end.
    fn bring_on(&self) -> PyResult<()> {
        let dispatch = &self.machine.dispatch;
        let usage = dispatch
            .usage(self.id)
            .map_err(|error| errors::dispatch(&error))?;
        match usage.waiting {
            0 => Ok(()),
            _ => dispatch
                .synchronize(self.id)
                .map_err(|error| errors::dispatch(&error)),
        }
    }
}

#[pymethods]
impl PyStream {
    /// The stream's number on its device.
    #[getter]
    fn number(&self) -> u32 {
        self.id.0
    }

    /// The driver's handle, by which other libraries know the stream; a GPU's streams have one.
    #[getter]
    fn handle(&self) -> PyResult<u64> {
        guarded("handle", || {
            let device = self.machine.cuda_device("handle")?;
            let handle = device.stream_handle(self.id);
            handle.map_err(|error| errors::backend(&error))
        })
    }

    /// Note that a `with` block of it begins.
    fn enter(&self) {
        ENTERED.fetch_add(1, Ordering::AcqRel);
    }

    /// Note that a `with` block of it ended.
    fn leave(&self) {
        ENTERED.fetch_sub(1, Ordering::AcqRel);
    }

    /// Pieces of work on the device and in line.
    fn usage(&self, py: Python<'_>) -> PyResult<(usize, usize)> {
        guarded("usage", || {
            outside_operation("usage")?;
            let usage = py.detach(|| self.machine.dispatch.usage(self.id));
            let usage = usage.map_err(|error| errors::dispatch(&error))?;
            Ok((usage.in_flight, usage.waiting))
        })
    }

    /// Wait for everything submitted so far.
    fn synchronize(&self, py: Python<'_>) -> PyResult<()> {
        guarded("synchronize", || {
            outside_operation("synchronize")?;
            capture::refuse(&self.machine, "synchronize", "a wait")?;
            py.detach(|| self.machine.dispatch.synchronize(self.id))
                .map_err(|error| errors::dispatch(&error))?;
            self.machine.settle(py);
            Ok(())
        })
    }

    /// An event that marks the end of everything submitted so far.
    fn record(&self, py: Python<'_>) -> PyResult<PyEvent> {
        guarded("record", || {
            outside_operation("record")?;
            capture::refuse(&self.machine, "record", "an event")?;
            py.detach(|| {
                self.bring_on()?;
                let backend = &self.machine.backend;
                let id = backend
                    .create_event()
                    .map_err(|error| errors::backend(&error))?;
                let event = PyEvent {
                    machine: Arc::clone(&self.machine),
                    id,
                };
                backend
                    .record_event(id, self.id)
                    .map_err(|error| errors::backend(&error))?;
                Ok(event)
            })
        })
    }

    /// From here on, work that this thread submits to the stream is captured instead of run.
    fn begin_capture(&self, py: Python<'_>) -> PyResult<()> {
        guarded("capture", || {
            self.machine.begin(py, "capture")?;
            py.detach(|| capture::begin(&self.machine, self.id))
        })
    }

    /// End the capture of this thread and make a graph of it, called `name` in records.
    fn end_capture(&self, py: Python<'_>, name: &str) -> PyResult<PyGraph> {
        guarded("capture", || {
            py.detach(|| {
                let (graph, blocks) = capture::end(&self.machine)?;
                Ok(PyGraph::new(&self.machine, name, graph, blocks))
            })
        })
    }

    /// Give up the capture of this thread, if there is one.
    fn abandon_capture(&self, py: Python<'_>) -> PyResult<()> {
        guarded("capture", || {
            py.detach(capture::give_up);
            Ok(())
        })
    }

    /// Have later work come after the event.
    fn wait(&self, py: Python<'_>, event: PyRef<'_, PyEvent>) -> PyResult<()> {
        guarded("wait", || {
            outside_operation("wait")?;
            capture::refuse(&self.machine, "wait", "an event")?;
            if !Arc::ptr_eq(&self.machine, &event.machine) {
                return Err(errors::invalid(
                    "wait: expected an event of the stream's device, got one of another device",
                ));
            }
            let (machine, id) = (&self.machine, event.id);
            py.detach(|| machine.backend.wait_event(self.id, id))
                .map_err(|error| errors::backend(&error))
        })
    }
}

impl Drop for PyStream {
    fn drop(&mut self) {
        // Inside an operation nothing can be waited for; the stream then lives with its device.
        if !self.owned || Inside::is_entered() {
            return;
        }
        let (machine, id) = (Arc::clone(&self.machine), self.id);
        Python::attach(|py| {
            py.detach(|| {
                // Nobody is left to hear of a refusal.
                let _ = machine.dispatch.synchronize(id);
                machine.memory.forget_stream(id);
                let _ = machine.dispatch.destroy_stream(id);
            });
        });
    }
}

/// A mark in a stream.
#[pyclass(name = "NativeEvent", module = "assay._native", frozen)]
pub(super) struct PyEvent {
    machine: Arc<Machine>,
    id: EventId,
}

#[pymethods]
impl PyEvent {
    /// Whether the mark has been reached.
    fn query(&self, py: Python<'_>) -> PyResult<bool> {
        guarded("query", || {
            outside_operation("query")?;
            py.detach(|| self.machine.backend.query_event(self.id))
                .map_err(|error| errors::backend(&error))
        })
    }

    /// Wait until the mark has been reached.
    fn synchronize(&self, py: Python<'_>) -> PyResult<()> {
        guarded("synchronize", || {
            outside_operation("synchronize")?;
            py.detach(|| self.machine.backend.synchronize_event(self.id))
                .map_err(|error| errors::backend(&error))?;
            self.machine.settle(py);
            Ok(())
        })
    }

    /// Nanoseconds of device time since an earlier event.
    fn elapsed_ns(&self, py: Python<'_>, earlier: PyRef<'_, PyEvent>) -> PyResult<u64> {
        guarded("elapsed", || {
            outside_operation("elapsed")?;
            let first = earlier.id;
            py.detach(|| self.machine.backend.elapsed_ns(first, self.id))
                .map_err(|error| errors::backend(&error))
        })
    }
}

impl Drop for PyEvent {
    fn drop(&mut self) {
        // Inside an operation the simulated device is locked; the event then lives with it.
        if Inside::is_entered() {
            return;
        }
        let (machine, id) = (Arc::clone(&self.machine), self.id);
        // A thread inside an operation holds the device's lock and needs Python's to go on.
        Python::attach(|py| py.detach(|| drop(machine.backend.destroy_event(id))));
    }
}
