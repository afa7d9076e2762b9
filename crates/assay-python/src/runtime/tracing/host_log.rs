//! Sections of host code, each from the end of the one before it.

use std::sync::{Mutex, MutexGuard, PoisonError};

use assay_runtime::clock::{Clock, MonotonicClock};
use pyo3::prelude::*;

use super::super::device_runtime::DeviceRuntime;

/// A section that ended.
#[derive(Clone, Copy)]
pub(super) struct Lap {
    pub section: u16,
    pub step: Option<i64>,
    pub start_ns: u64,
    pub end_ns: u64,
    /// Bytes that the section copied to or from a device; 0 for none.
    pub bytes: u64,
    pub thread: i64,
}

pub(super) struct Laps {
    pub laps: Vec<Lap>,
    capacity: usize,
    dropped: u64,
    last_ns: u64,
    thread: i64,
}

/// Sections of host code of one engine, in the order in which they ended.
///
/// A section begins where the one before it ended, so that no time between them is lost.
#[pyclass(name = "HostLog", module = "assay._native", frozen)]
pub(super) struct PyHostLog {
    clock: MonotonicClock,
    state: Mutex<Laps>,
}

impl PyHostLog {
    pub fn lock(&self) -> MutexGuard<'_, Laps> {
        // Nothing under the lock can panic midway.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What to add to the times of a device to get times of this clock.
    pub fn offset_of(&self, runtime: &DeviceRuntime) -> i64 {
        let device = runtime.backend.clock();
        // The closest of a few pairs of readings.
        let pairs = (0..5).map(|_| {
            let before = self.clock.now_ns();
            let then = device.now_ns();
            let after = self.clock.now_ns();
            let middle = before + (after - before) / 2;
            (after - before, middle as i64 - then as i64)
        });
        let closest = pairs.min_by_key(|(width, _)| *width);
        closest.map_or(0, |(_, offset)| offset)
    }
}

#[pymethods]
impl PyHostLog {
    /// A log of this many sections, allocated now; more are counted and dropped.
    #[new]
    fn new(capacity: usize) -> Self {
        PyHostLog {
            clock: MonotonicClock::new(),
            state: Mutex::new(Laps {
                laps: Vec::with_capacity(capacity),
                capacity,
                dropped: 0,
                last_ns: 0,
                thread: 0,
            }),
        }
    }

    /// Begin a section now, in the thread of this ID; returns the time.
    fn begin(&self, thread: i64) -> u64 {
        let mut state = self.lock();
        state.thread = thread;
        state.last_ns = self.clock.now_ns();
        state.last_ns
    }

    /// End a section, and begin the next; returns the time.
    #[pyo3(signature = (section, step, copied_bytes=0))]
    fn lap(&self, section: u16, step: Option<i64>, copied_bytes: u64) -> u64 {
        let mut state = self.lock();
        let end_ns = self.clock.now_ns();
        let lap = Lap {
            section,
            step,
            start_ns: state.last_ns,
            end_ns,
            bytes: copied_bytes,
            thread: state.thread,
        };
        state.last_ns = end_ns;
        match state.laps.len() < state.capacity {
            true => state.laps.push(lap),
            false => state.dropped += 1,
        }
        end_ns
    }

    /// The time now on the log's clock.
    fn now_ns(&self) -> u64 {
        self.clock.now_ns()
    }

    /// Sections that were dropped.
    #[getter]
    fn dropped(&self) -> u64 {
        self.lock().dropped
    }

    fn __len__(&self) -> usize {
        self.lock().laps.len()
    }
}
