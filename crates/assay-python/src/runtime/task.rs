//! A task of the scheduler, for Python.

use std::sync::Arc;

use assay_runtime::scheduler::{Lane, PausePolicy, SchedulerError, Task, TaskSnapshot, TaskState};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::device_runtime::DeviceRuntime;
use super::errors;
use super::panic_guard::guarded;
use super::records::dictionary;
use super::reentrancy::refuse_reentry;
use super::stream::PyStream;

pub(super) fn or_raise<T>(outcome: Result<T, SchedulerError>) -> PyResult<T> {
    outcome.map_err(|error| errors::scheduler(&error))
}

/// The lane of this name.
pub(super) fn lane_named(name: &str) -> PyResult<Lane> {
    Lane::of_name(name).ok_or_else(|| {
        errors::invalid(&format!(
            "scheduler: expected lane compute, upload or download, got \"{name}\""
        ))
    })
}

/// A task's state as a dictionary.
pub(super) fn task_to_dict<'py>(
    py: Python<'py>,
    task: &TaskSnapshot,
) -> PyResult<Bound<'py, PyDict>> {
    let row = PyDict::new(py);
    row.set_item("task", task.task.0)?;
    row.set_item("name", &task.name)?;
    row.set_item("partition", task.partition.0)?;
    row.set_item("qos", task.class.name())?;
    row.set_item("state", task.state.name())?;
    row.set_item("ended", task.ended.map(|reason| reason.to_string()))?;
    row.set_item("message", task.message.as_deref())?;
    row.set_item("holds_reservation", task.holds_reservation)?;
    row.set_item("submitted_ns", task.submitted_ns)?;
    row.set_item("grants_in_flight", task.grants_in_flight)?;
    let lanes = PyDict::new(py);
    for lane in Lane::ALL {
        let figures = &task.lanes[lane];
        let figures = dictionary!(
            py, figures: waiting_requests, grants, granted_units, reserved_units, measured_units
        )?;
        lanes.set_item(lane.name(), figures)?;
    }
    row.set_item("lanes", lanes)?;
    Ok(row)
}

/// A task; dropping this object ends it.
#[pyclass(name = "NativeTask", module = "assay._native", frozen)]
pub(super) struct PyTask {
    runtime: Arc<DeviceRuntime>,
    task: Arc<Task>,
    assumed_ns: u64,
}

impl PyTask {
    pub fn new(runtime: &Arc<DeviceRuntime>, task: Task, assumed_ns: u64) -> Self {
        PyTask { runtime: Arc::clone(runtime), task: Arc::new(task), assumed_ns }
    }
}

#[pymethods]
impl PyTask {
    /// Its id.
    #[getter]
    fn number(&self) -> u64 {
        self.task.id().0
    }

    /// Its state.
    #[getter]
    fn state(&self, py: Python<'_>) -> PyResult<&'static str> {
        guarded("state", || Ok(or_raise(py.detach(|| self.task.state()))?.name()))
    }

    /// A snapshot of it.
    fn snapshot<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        guarded("snapshot", || task_to_dict(py, &or_raise(py.detach(|| self.task.snapshot()))?))
    }

    /// Wait until it is admitted.
    fn wait_admitted(&self, py: Python<'_>) -> PyResult<()> {
        guarded("wait_admitted", || {
            refuse_reentry("wait_admitted")?;
            or_raise(py.detach(|| self.task.wait_admitted()))
        })
    }

    /// Start it; it must be admitted.
    fn start(&self, py: Python<'_>) -> PyResult<()> {
        guarded("start", || or_raise(py.detach(|| self.task.start())))
    }

    /// Pause its grants; without `keep` its reservation is released.
    fn pause(&self, py: Python<'_>, keep: bool) -> PyResult<()> {
        let policy = match keep {
            true => PausePolicy::Keep,
            false => PausePolicy::Release,
        };
        guarded("pause", || or_raise(py.detach(|| self.task.pause(policy))))
    }

    /// Resume it; returns its state, pending or admitted if its reservation was released.
    fn resume(&self, py: Python<'_>) -> PyResult<&'static str> {
        guarded("resume", || Ok(or_raise(py.detach(|| self.task.resume()))?.name()))
    }

    /// End it successfully.
    fn finish(&self, py: Python<'_>) -> PyResult<()> {
        guarded("finish", || or_raise(py.detach(|| self.task.finish())))
    }

    /// End it with an error.
    fn fail(&self, py: Python<'_>, message: &str) -> PyResult<()> {
        guarded("fail", || or_raise(py.detach(|| self.task.fail(message))))
    }

    /// Cancel it.
    fn cancel(&self, py: Python<'_>) -> PyResult<()> {
        guarded("cancel", || or_raise(py.detach(|| self.task.cancel())))
    }

    /// Whether it has ended.
    #[getter]
    fn ended(&self, py: Python<'_>) -> PyResult<bool> {
        guarded("ended", || Ok(or_raise(py.detach(|| self.task.state()))?.is_final()))
    }

    /// Bind a stream: all of its work requests grants of this task and is charged to it.
    fn bind(&self, stream: PyRef<'_, PyStream>) -> PyResult<()> {
        guarded("bind", || {
            let id = stream.on(&self.runtime, "bind")?;
            self.runtime.tasks.bind(id, &self.task, self.assumed_ns)
        })
    }

    /// Unbind a stream: its work runs without grants again.
    fn unbind(&self, stream: PyRef<'_, PyStream>) {
        self.runtime.tasks.unbind(stream.id, &self.task);
    }
}

impl Drop for PyTask {
    fn drop(&mut self) {
        self.runtime.tasks.unbind_all(&self.task);
        // Queued work may keep the task alive longer than Python does.
        if self.task.state().is_ok_and(|state| !TaskState::is_final(state)) {
            let _ = self.task.cancel();
        }
    }
}
