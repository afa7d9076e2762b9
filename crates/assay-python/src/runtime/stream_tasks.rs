//! Which task the work of a stream is charged to.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use assay_runtime::backend::StreamId;
use assay_runtime::dispatch::WorkRequest;
use assay_runtime::scheduler::Task;
use pyo3::prelude::*;

use super::errors;

/// Tasks by stream, with the assumed device time of a piece of work.
#[derive(Default)]
pub(super) struct StreamTasks {
    bound: Mutex<HashMap<StreamId, (Arc<Task>, u64)>>,
    /// The number of bound streams; 0 skips the lock.
    count: AtomicUsize,
}

impl StreamTasks {
    fn lock(&self) -> MutexGuard<'_, HashMap<StreamId, (Arc<Task>, u64)>> {
        // No code under the lock can panic midway.
        self.bound.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Binds a stream: its work requests grants of a task.
    pub fn bind(&self, stream: StreamId, task: &Arc<Task>, assumed_ns: u64) -> PyResult<()> {
        let mut bound = self.lock();
        match bound.get(&stream) {
            Some((other, _)) if !Arc::ptr_eq(other, task) => Err(errors::invalid(&format!(
                "task \"{}\": expected a stream without a task, got one of task \"{}\"",
                task.name(),
                other.name()
            ))),
            _ => {
                bound.insert(stream, (Arc::clone(task), assumed_ns));
                self.count.store(bound.len(), Ordering::Release);
                Ok(())
            }
        }
    }

    /// Lets the work of a stream run without grants, if it was bound to this task.
    pub fn unbind(&self, stream: StreamId, task: &Arc<Task>) {
        self.retain(|other, bound| *other != stream || !Arc::ptr_eq(bound, task));
    }

    /// Unbinds a task from every stream.
    pub fn unbind_all(&self, task: &Arc<Task>) {
        self.retain(|_, bound| !Arc::ptr_eq(bound, task));
    }

    fn retain(&self, keep: impl Fn(&StreamId, &Arc<Task>) -> bool) {
        let mut bound = self.lock();
        bound.retain(|stream, (task, _)| keep(stream, task));
        self.count.store(bound.len(), Ordering::Release);
    }

    /// The task of a stream, if it has one.
    pub fn task_of(&self, stream: StreamId) -> Option<Arc<Task>> {
        if self.count.load(Ordering::Acquire) == 0 {
            return None;
        }
        self.lock().get(&stream).map(|(task, _)| Arc::clone(task))
    }

    /// Charges work to the task of its stream, if it has one.
    pub fn charge(&self, request: &mut WorkRequest) {
        if self.count.load(Ordering::Acquire) == 0 {
            return;
        }
        if let Some((task, assumed_ns)) = self.lock().get(&request.stream) {
            request.task = Some(Arc::clone(task));
            request.cost_ns = *assumed_ns;
        }
    }
}
