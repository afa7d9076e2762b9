//! A task of the scheduler, and its turns, for Python.

use std::sync::{Arc, Mutex, PoisonError};

use assay_runtime::scheduler::{Holding, Task, TaskState, Turn};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::barrier::guarded;
use super::machine::{Machine, outside_operation};
use super::scheduler::{lane_named, task, told};
use super::stream::PyStream;

/// A task; its life ends with this object at the latest.
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
    /// Its number.
    #[getter]
    fn number(&self) -> u64 {
        self.task.id().0
    }

    /// Where it stands.
    #[getter]
    fn state(&self, py: Python<'_>) -> PyResult<&'static str> {
        guarded(
            "state",
            || Ok(told(py.detach(|| self.task.state()))?.name()),
        )
    }

    /// Everything known of it.
    fn snapshot<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        guarded("snapshot", || {
            task(py, &told(py.detach(|| self.task.snapshot()))?)
        })
    }

    /// Wait until it has its reservations.
    fn wait_admitted(&self, py: Python<'_>) -> PyResult<()> {
        guarded("wait_admitted", || {
            outside_operation("wait_admitted")?;
            told(py.detach(|| self.task.wait_admitted()))
        })
    }

    /// Let it ask for turns; it must be admitted.
    fn start(&self, py: Python<'_>) -> PyResult<()> {
        guarded("start", || told(py.detach(|| self.task.start())))
    }

    /// Give it no turns for now; without `keep` it gives its reservations back.
    fn pause(&self, py: Python<'_>, keep: bool) -> PyResult<()> {
        let holding = match keep {
            true => Holding::Keep,
            false => Holding::Release,
        };
        guarded("pause", || told(py.detach(|| self.task.pause(holding))))
    }

    /// Let it go on; returns its state, which is pending or admitted if it gave reservations back.
    fn resume(&self, py: Python<'_>) -> PyResult<&'static str> {
        guarded("resume", || {
            Ok(told(py.detach(|| self.task.resume()))?.name())
        })
    }

    /// End it well.
    fn finish(&self, py: Python<'_>) -> PyResult<()> {
        guarded("finish", || told(py.detach(|| self.task.finish())))
    }

    /// End it with an error.
    fn fail(&self, py: Python<'_>, message: &str) -> PyResult<()> {
        guarded("fail", || told(py.detach(|| self.task.fail(message))))
    }

    /// End it because it is no longer wanted.
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

    /// Have every piece of work of a stream ask for a turn of this task, and be charged to it.
    fn bind(&self, stream: PyRef<'_, PyStream>) -> PyResult<()> {
        guarded("bind", || {
            let id = stream.on(&self.machine, "bind")?;
            self.machine.tasks.bind(id, &self.task, self.assumed_ns)
        })
    }

    /// Let work of a stream go without turns again.
    fn unbind(&self, stream: PyRef<'_, PyStream>) {
        self.machine.tasks.unbind(stream.id, &self.task);
    }

    /// Wait for a turn of so many units in a lane.
    fn turn(&self, py: Python<'_>, lane: &str, units: u64) -> PyResult<PyTurn> {
        guarded("turn", || {
            outside_operation("turn")?;
            let lane = lane_named(lane)?;
            let turn = told(py.detach(|| self.task.turn(lane, units)))?;
            Ok(PyTurn {
                held: Mutex::new(Some(turn)),
            })
        })
    }
}

impl Drop for PyTask {
    fn drop(&mut self) {
        self.machine.tasks.unbind_all(&self.task);
        // Work in line may hold the task longer than Python does.
        if self
            .task
            .state()
            .is_ok_and(|state| !TaskState::is_final(state))
        {
            let _ = self.task.cancel();
        }
    }
}

/// A turn that was given: the work may go now.
#[pyclass(name = "NativeTurn", module = "assay._native", frozen)]
pub(super) struct PyTurn {
    held: Mutex<Option<Turn>>,
}

#[pymethods]
impl PyTurn {
    /// Give the turn back, at the measured cost if one is given; again changes nothing.
    #[pyo3(signature = (measured_units=None))]
    fn end(&self, py: Python<'_>, measured_units: Option<u64>) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let turn = held.take();
        drop(held);
        py.detach(|| match (turn, measured_units) {
            (Some(turn), Some(units)) => turn.end_measured(units),
            (turn, _) => drop(turn),
        });
    }
}
