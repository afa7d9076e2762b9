//! Streams and events for Python.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use assay_runtime::backend::{EventId, StreamId, StreamPriority};
use pyo3::intern;
use pyo3::prelude::*;

use super::capture;
use super::device_runtime::DeviceRuntime;
use super::errors;
use super::panic_guard::guarded;
use super::reentrancy::{HostFunctionScope, refuse_reentry};

/// Streams that some thread or task is inside `with` of; as long as there are none, nobody looks
/// for the one that is current.
static ACTIVE: AtomicUsize = AtomicUsize::new(0);

/// Whether anyone is inside `with stream:`.
fn is_any_active() -> bool {
    ACTIVE.load(Ordering::Acquire) > 0
}

/// A queue of work of one device.
#[pyclass(name = "NativeStream", module = "assay._native", frozen)]
pub(super) struct PyStream {
    runtime: Arc<DeviceRuntime>,
    pub(super) id: StreamId,
    owned: bool,
}

impl PyStream {
    pub fn default_of(runtime: &Arc<DeviceRuntime>) -> Self {
        PyStream {
            runtime: Arc::clone(runtime),
            id: runtime.backend.default_stream(),
            owned: false,
        }
    }

    pub fn create(runtime: &Arc<DeviceRuntime>, priority: &str) -> PyResult<Self> {
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
        let id = runtime
            .dispatch
            .create_stream(priority)
            .map_err(|error| errors::dispatch(&error))?;
        Ok(PyStream {
            runtime: Arc::clone(runtime),
            id,
            owned: true,
        })
    }

    pub fn runtime(&self) -> &Arc<DeviceRuntime> {
        &self.runtime
    }

    /// Its number, if it belongs to the runtime that is to work on it.
    pub fn on(&self, runtime: &Arc<DeviceRuntime>, operation: &str) -> PyResult<StreamId> {
        match Arc::ptr_eq(&self.runtime, runtime) {
            true => Ok(self.id),
            false => Err(errors::invalid(&format!(
                "{operation}: expected a stream of the device, got one of another device"
            ))),
        }
    }

    /// Brings everything submitted so far onto the device, so that an event marks its end.
    fn flush(&self) -> PyResult<()> {
        let dispatch = &self.runtime.dispatch;
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
            let device = self.runtime.cuda_device("handle")?;
            let handle = device.stream_handle(self.id);
            handle.map_err(|error| errors::backend(&error))
        })
    }

    /// Note that a `with` block of it begins.
    fn enter(&self) {
        ACTIVE.fetch_add(1, Ordering::AcqRel);
    }

    /// Note that a `with` block of it ended.
    fn leave(&self) {
        ACTIVE.fetch_sub(1, Ordering::AcqRel);
    }

    /// Pieces of work on the device and in line.
    fn usage(&self, py: Python<'_>) -> PyResult<(usize, usize)> {
        guarded("usage", || {
            refuse_reentry("usage")?;
            let usage = py.detach(|| self.runtime.dispatch.usage(self.id));
            let usage = usage.map_err(|error| errors::dispatch(&error))?;
            Ok((usage.in_flight, usage.waiting))
        })
    }

    /// Wait for everything submitted so far.
    fn synchronize(&self, py: Python<'_>) -> PyResult<()> {
        guarded("synchronize", || {
            refuse_reentry("synchronize")?;
            capture::refuse(&self.runtime, "synchronize", "a wait")?;
            py.detach(|| self.runtime.dispatch.synchronize(self.id))
                .map_err(|error| errors::dispatch(&error))?;
            self.runtime.run_deferred(py);
            Ok(())
        })
    }

    /// An event that marks the end of everything submitted so far.
    fn record(&self, py: Python<'_>) -> PyResult<PyEvent> {
        guarded("record", || {
            refuse_reentry("record")?;
            capture::refuse(&self.runtime, "record", "an event")?;
            py.detach(|| {
                self.flush()?;
                let backend = &self.runtime.backend;
                let id = backend
                    .create_event()
                    .map_err(|error| errors::backend(&error))?;
                let event = PyEvent {
                    runtime: Arc::clone(&self.runtime),
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
            self.runtime.begin(py, "capture")?;
            py.detach(|| capture::begin(&self.runtime, self.id))
        })
    }

    /// Give up the capture of this thread, if there is one.
    fn abandon_capture(&self, py: Python<'_>) -> PyResult<()> {
        guarded("capture", || {
            py.detach(capture::abandon);
            Ok(())
        })
    }

    /// Have later work come after the event.
    fn wait(&self, py: Python<'_>, event: PyRef<'_, PyEvent>) -> PyResult<()> {
        guarded("wait", || {
            refuse_reentry("wait")?;
            capture::refuse(&self.runtime, "wait", "an event")?;
            if !Arc::ptr_eq(&self.runtime, &event.runtime) {
                return Err(errors::invalid(
                    "wait: expected an event of the stream's device, got one of another device",
                ));
            }
            let (runtime, id) = (&self.runtime, event.id);
            py.detach(|| runtime.backend.wait_event(self.id, id))
                .map_err(|error| errors::backend(&error))
        })
    }
}

impl Drop for PyStream {
    fn drop(&mut self) {
        // Inside a host function nothing can wait; the stream then lives as long as its device.
        if !self.owned || HostFunctionScope::is_active() {
            return;
        }
        let (runtime, id) = (Arc::clone(&self.runtime), self.id);
        Python::attach(|py| {
            py.detach(|| {
                // Nobody is left to hear of a refusal.
                let _ = runtime.dispatch.synchronize(id);
                runtime.memory.forget_stream(id);
                let _ = runtime.dispatch.destroy_stream(id);
            });
        });
    }
}

/// A mark in a stream.
#[pyclass(name = "NativeEvent", module = "assay._native", frozen)]
pub(super) struct PyEvent {
    runtime: Arc<DeviceRuntime>,
    id: EventId,
}

#[pymethods]
impl PyEvent {
    /// Whether the mark has been reached.
    fn query(&self, py: Python<'_>) -> PyResult<bool> {
        guarded("query", || {
            refuse_reentry("query")?;
            py.detach(|| self.runtime.backend.query_event(self.id))
                .map_err(|error| errors::backend(&error))
        })
    }

    /// Wait until the mark has been reached.
    fn synchronize(&self, py: Python<'_>) -> PyResult<()> {
        guarded("synchronize", || {
            refuse_reentry("synchronize")?;
            py.detach(|| self.runtime.backend.synchronize_event(self.id))
                .map_err(|error| errors::backend(&error))?;
            self.runtime.run_deferred(py);
            Ok(())
        })
    }

    /// Nanoseconds of device time since an earlier event.
    fn elapsed_ns(&self, py: Python<'_>, earlier: PyRef<'_, PyEvent>) -> PyResult<u64> {
        guarded("elapsed", || {
            refuse_reentry("elapsed")?;
            let first = earlier.id;
            py.detach(|| self.runtime.backend.elapsed_ns(first, self.id))
                .map_err(|error| errors::backend(&error))
        })
    }
}

impl Drop for PyEvent {
    fn drop(&mut self) {
        // Inside a host function the simulated device is locked; the event then lives with it.
        if HostFunctionScope::is_active() {
            return;
        }
        let (runtime, id) = (Arc::clone(&self.runtime), self.id);
        // A thread inside an operation holds the device's lock and needs Python's to go on.
        Python::attach(|py| py.detach(|| drop(runtime.backend.destroy_event(id))));
    }
}

/// The stream that operations of a device go to, `device` being Python's object of it.
pub(super) fn current_stream(
    py: Python<'_>,
    runtime: &Arc<DeviceRuntime>,
    device: &Py<PyAny>,
) -> PyResult<StreamId> {
    if !is_any_active() {
        return Ok(runtime.backend.default_stream());
    }
    let current = device
        .bind(py)
        .call_method0(intern!(py, "current_stream"))?;
    let native = current.getattr(intern!(py, "_native"))?;
    Ok(native.cast::<PyStream>()?.get().id)
}
