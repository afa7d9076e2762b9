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

/// The number of active `with stream:` blocks; 0 skips the lookup of the current stream.
static ACTIVE: AtomicUsize = AtomicUsize::new(0);

/// Whether any thread is inside `with stream:`.
fn is_any_active() -> bool {
    ACTIVE.load(Ordering::Acquire) > 0
}

/// A stream of one device.
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
        let id =
            runtime.dispatch.create_stream(priority).map_err(|error| errors::dispatch(&error))?;
        Ok(PyStream { runtime: Arc::clone(runtime), id, owned: true })
    }

    pub fn runtime(&self) -> &Arc<DeviceRuntime> {
        &self.runtime
    }

    /// Its id; an error if it belongs to another runtime.
    pub fn on(&self, runtime: &Arc<DeviceRuntime>, operation: &str) -> PyResult<StreamId> {
        match Arc::ptr_eq(&self.runtime, runtime) {
            true => Ok(self.id),
            false => Err(errors::invalid(&format!(
                "{operation}: expected a stream of the device, got one of another device"
            ))),
        }
    }
}

#[pymethods]
impl PyStream {
    /// The stream's id on its device.
    #[getter]
    fn number(&self) -> u32 {
        self.id.0
    }

    /// The `CUstream` handle for other libraries; an error on devices other than GPUs.
    #[getter]
    fn handle(&self) -> PyResult<u64> {
        guarded("handle", || {
            let device = self.runtime.cuda_device("handle")?;
            let handle = device.stream_handle(self.id);
            handle.map_err(|error| errors::backend(&error))
        })
    }

    /// Count a `with` block that begins.
    fn enter(&self) {
        ACTIVE.fetch_add(1, Ordering::AcqRel);
    }

    /// Count a `with` block that ended.
    fn leave(&self) {
        ACTIVE.fetch_sub(1, Ordering::AcqRel);
    }

    /// The number of submitted and of queued pieces of work.
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

    /// Record an event after everything submitted so far.
    fn record(&self, py: Python<'_>) -> PyResult<PyEvent> {
        guarded("record", || {
            refuse_reentry("record")?;
            capture::refuse(&self.runtime, "record", "an event")?;
            py.detach(|| {
                let dispatch = &self.runtime.dispatch;
                // An event covers only what the device has been given.
                dispatch.flush(self.id).map_err(|error| errors::dispatch(&error))?;
                let backend = &self.runtime.backend;
                let id = backend.create_event().map_err(|error| errors::backend(&error))?;
                let event = PyEvent { runtime: Arc::clone(&self.runtime), id };
                backend.record_event(id, self.id).map_err(|error| errors::backend(&error))?;
                Ok(event)
            })
        })
    }

    /// Begin a capture: work of this thread on the stream is captured instead of run.
    fn begin_capture(&self, py: Python<'_>) -> PyResult<()> {
        guarded("capture", || {
            self.runtime.begin(py, "capture")?;
            py.detach(|| capture::begin(&self.runtime, self.id))
        })
    }

    /// Abort this thread's capture, if any.
    fn abandon_capture(&self, py: Python<'_>) -> PyResult<()> {
        guarded("capture", || {
            py.detach(capture::abandon);
            Ok(())
        })
    }

    /// Make later work of the stream wait for the event.
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
        // A host function must not wait; the stream then lives as long as its device.
        if !self.owned || HostFunctionScope::is_active() {
            return;
        }
        let (runtime, id) = (Arc::clone(&self.runtime), self.id);
        Python::attach(|py| {
            py.detach(|| {
                // A destructor cannot report errors.
                let _ = runtime.dispatch.synchronize(id);
                runtime.memory.forget_stream(id);
                let _ = runtime.dispatch.destroy_stream(id);
            });
        });
    }
}

/// An event recorded in a stream.
#[pyclass(name = "NativeEvent", module = "assay._native", frozen)]
pub(super) struct PyEvent {
    runtime: Arc<DeviceRuntime>,
    id: EventId,
}

#[pymethods]
impl PyEvent {
    /// Whether the event is complete.
    fn query(&self, py: Python<'_>) -> PyResult<bool> {
        guarded("query", || {
            refuse_reentry("query")?;
            py.detach(|| self.runtime.backend.query_event(self.id))
                .map_err(|error| errors::backend(&error))
        })
    }

    /// Wait for the event.
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
        // Inside a host function the simulated device is locked; the event then lives as long as
        // it.
        if HostFunctionScope::is_active() {
            return;
        }
        let (runtime, id) = (Arc::clone(&self.runtime), self.id);
        // A thread inside a host function holds the device's lock and waits for the GIL.
        Python::attach(|py| py.detach(|| drop(runtime.backend.destroy_event(id))));
    }
}

/// The current stream of a device; `device` is its Python object.
pub(super) fn current_stream(
    py: Python<'_>,
    runtime: &Arc<DeviceRuntime>,
    device: &Py<PyAny>,
) -> PyResult<StreamId> {
    if !is_any_active() {
        return Ok(runtime.backend.default_stream());
    }
    let current = device.bind(py).call_method0(intern!(py, "current_stream"))?;
    let native = current.getattr(intern!(py, "_native"))?;
    Ok(native.cast::<PyStream>()?.get().id)
}
