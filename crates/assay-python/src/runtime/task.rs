//! A task of the scheduler, and its grants, for Python.

use std::sync::{Arc, Mutex, PoisonError};

use assay_runtime::scheduler::{Grant, PausePolicy, Task, TaskState};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::barrier::guarded;
use super::machine::{Machine, outside_operation};
use super::scheduler::{lane_named, task, told};
use super::stream::PyStream;

/// A task; it ends with this object at the latest.
#[pyclass(name = "NativeTask", module = "assay._native", frozen)]
pub(super) struct PyTask {
    machine: Arc<Machine>,
    task: Arc<Task>,
    assumed_ns: u64,
}

impl PyTask {
    pub fn new(machine: &Arc<Machine>, task: Task, assumed_ns: u64) -> Self {
        PyTask {
            machine: Arc::clone(machine),
            task: Arc::new(task),
            assumed_ns,
        }
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
        guarded(
            "state",
            || Ok(told(py.detach(|| self.task.state()))?.name()),
        )
    }

    /// A snapshot of it.
    fn snapshot<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        guarded("snapshot", || {
            task(py, &told(py.detach(|| self.task.snapshot()))?)
        })
    }

    /// Wait until it is admitted.
    fn wait_admitted(&self, py: Python<'_>) -> PyResult<()> {
        guarded("wait_admitted", || {
            outside_operation("wait_admitted")?;
            told(py.detach(|| self.task.wait_admitted()))
        })
    }

    /// Start it; it must be admitted.
    fn start(&self, py: Python<'_>) -> PyResult<()> {
        guarded("start", || told(py.detach(|| self.task.start())))
    }

    /// Pause its grants; without `keep` its reservation is released.
    fn pause(&self, py: Python<'_>, keep: bool) -> PyResult<()> {
        let policy = match keep {
            true => PausePolicy::Keep,
            false => PausePolicy::Release,
        };
        guarded("pause", || told(py.detach(|| self.task.pause(policy))))
    }

    /// Resume it; returns its state, pending or admitted if its reservation was released.
    fn resume(&self, py: Python<'_>) -> PyResult<&'static str> {
        guarded("resume", || {
            Ok(told(py.detach(|| self.task.resume()))?.name())
        })
    }

    /// End it successfully.
    fn finish(&self, py: Python<'_>) -> PyResult<()> {
        guarded("finish", || told(py.detach(|| self.task.finish())))
    }

    /// End it with an error.
    fn fail(&self, py: Python<'_>, message: &str) -> PyResult<()> {
        guarded("fail", || told(py.detach(|| self.task.fail(message))))
    }

    /// Cancel it.
    fn cancel(&self, py: Python<'_>) -> PyResult<()> {
        guarded("cancel", || told(py.detach(|| self.task.cancel())))
    }

    /// Whether it has ended.
    #[getter]
    fn ended(&self, py: Python<'_>) -> PyResult<bool> {
        guarded("ended", || {
            Ok(told(py.detach(|| self.task.state()))?.is_final())
        })
    }

    /// Have all work of a stream request grants of this task, and be charged to it.
    fn bind(&self, stream: PyRef<'_, PyStream>) -> PyResult<()> {
        guarded("bind", || {
            let id = stream.on(&self.machine, "bind")?;
            self.machine.tasks.bind(id, &self.task, self.assumed_ns)
        })
    }

    /// Let work of a stream run without grants again.
    fn unbind(&self, stream: PyRef<'_, PyStream>) {
        self.machine.tasks.unbind(stream.id, &self.task);
    }

    /// Request a grant of `units` in a lane, and wait for it.
    fn request_grant(&self, py: Python<'_>, lane: &str, units: u64) -> PyResult<PyGrant> {
        guarded("request_grant", || {
            outside_operation("request_grant")?;
            let lane = lane_named(lane)?;
            let grant = told(py.detach(|| self.task.request_grant(lane, units)))?;
            Ok(PyGrant {
                grant: Mutex::new(Some(grant)),
            })
        })
    }
}

impl Drop for PyTask {
    fn drop(&mut self) {
        self.machine.tasks.unbind_all(&self.task);
        // Queued work may hold the task longer than Python does.
        if self
            .task
            .state()
            .is_ok_and(|state| !TaskState::is_final(state))
        {
            let _ = self.task.cancel();
        }
    }
}

/// The right to queue one piece of work.
#[pyclass(name = "NativeGrant", module = "assay._native", frozen)]
pub(super) struct PyGrant {
    grant: Mutex<Option<Grant>>,
}

#[pymethods]
impl PyGrant {
    /// End the grant, at the measured cost if one is given; idempotent.
    #[pyo3(signature = (measured_units=None))]
    fn end(&self, py: Python<'_>, measured_units: Option<u64>) {
        let grant = self
            .grant
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        py.detach(|| match (grant, measured_units) {
            (Some(grant), Some(units)) => grant.end_measured(units),
            (grant, _) => drop(grant),
        });
    }
}
