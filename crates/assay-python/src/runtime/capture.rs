//! The active stream capture of a thread: the allocations it uses and the calls it rejects.
//!
//! A graph refers to memory by address. It therefore keeps every allocation that a captured
//! operation uses alive, and a replay is ordered after unfinished work on all of them. Dependencies
//! inside the capture are tracked separately from those of the allocations, because captured work
//! does not run.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use assay_runtime::backend::StreamId;
use assay_runtime::dispatch::{self, Capture, WorkId, WorkRequest};
use pyo3::prelude::*;

use super::allocation::{Allocation, Use};
use super::capture_state;
use super::device_runtime::DeviceRuntime;
use super::errors;
use super::uses::Uses;

thread_local! {
    static CURRENT: RefCell<Option<Capturing>> = const { RefCell::new(None) };
}

/// An allocation that a graph uses; it cannot be freed explicitly while this lives.
pub(super) struct Captured {
    pub allocation: Arc<Allocation>,
    pub writes: bool,
}

impl Captured {
    /// An allocation that a graph uses from now on.
    pub fn new(allocation: &Arc<Allocation>, writes: bool) -> Self {
        allocation.export();
        Captured { allocation: Arc::clone(allocation), writes }
    }

    pub fn as_use(&self) -> Use<'_> {
        Use { buffer: &self.allocation, writes: self.writes }
    }
}

impl Drop for Captured {
    fn drop(&mut self) {
        self.allocation.unexport();
    }
}

struct Capturing {
    runtime: Arc<DeviceRuntime>,
    /// None after the capture ends.
    capture: Option<Capture>,
    /// Streams with captured work; the capture began on the first.
    streams: Vec<StreamId>,
    allocations: Vec<(Captured, Uses)>,
    indices: HashMap<*const Allocation, usize>,
}

impl Capturing {
    fn index_of(&mut self, allocation: &Arc<Allocation>) -> usize {
        *self.indices.entry(Arc::as_ptr(allocation)).or_insert_with(|| {
            let captured = Captured::new(allocation, false);
            self.allocations.push((captured, Uses::default()));
            self.allocations.len() - 1
        })
    }

    fn submit(&mut self, mut request: WorkRequest, uses: &[Use<'_>]) -> PyResult<WorkId> {
        let stream = request.stream;
        let indices: Vec<usize> = uses.iter().map(|one| self.index_of(one.buffer)).collect();
        for (one, &index) in uses.iter().zip(&indices) {
            let (_, used) = &self.allocations[index];
            used.dependencies(stream, one.writes, &mut request.after);
        }
        let joins = self.streams.contains(&stream) || !request.after.is_empty();
        if !joins {
            return Err(errors::invalid(&format!(
                "{}: expected the captured stream {} or work that comes after what it wrote, got \
                 stream {}\nhint: leave `with stream:` inside the captured function",
                request.name, self.streams[0].0, stream.0
            )));
        }
        let work = self.runtime.dispatch.submit(request);
        let work = work.map_err(|error| errors::dispatch(&error))?;
        if !self.streams.contains(&stream) {
            self.runtime.captured.set(stream, true);
            self.streams.push(stream);
        }
        for (one, index) in uses.iter().zip(indices) {
            let (captured, used) = &mut self.allocations[index];
            captured.writes |= one.writes;
            if one.writes {
                capture_state::add_written(Arc::as_ptr(one.buffer).addr());
            }
            used.note(stream, work, one.writes);
        }
        Ok(work)
    }
}

impl Drop for Capturing {
    fn drop(&mut self) {
        capture_state::end();
        drop(self.capture.take());
        for stream in &self.streams {
            self.runtime.captured.set(*stream, false);
        }
    }
}

/// Begins capturing this thread's work on a stream.
pub(super) fn begin(runtime: &Arc<DeviceRuntime>, stream: StreamId) -> PyResult<()> {
    if capture_state::is_capturing() {
        return Err(errors::invalid(
            "capture: expected one capture at a time in a thread, got a second",
        ));
    }
    let capture = runtime.dispatch.begin_capture(stream);
    let capture = capture.map_err(|error| errors::dispatch(&error))?;
    runtime.captured.set(stream, true);
    let capturing = Capturing {
        runtime: Arc::clone(runtime),
        capture: Some(capture),
        streams: vec![stream],
        allocations: Vec::new(),
        indices: HashMap::new(),
    };
    CURRENT.set(Some(capturing));
    capture_state::begin();
    Ok(())
}

/// Ends this thread's capture and returns the graph and the allocations it uses.
pub(super) fn end(runtime: &DeviceRuntime) -> PyResult<(dispatch::Graph, Vec<Captured>)> {
    if !is_on(runtime) {
        return Err(no_capture());
    }
    let mut capturing = CURRENT.take().ok_or_else(no_capture)?;
    let capture = capturing.capture.take().ok_or_else(no_capture)?;
    let ended = capture.end();
    let allocations = std::mem::take(&mut capturing.allocations);
    let captured = allocations.into_iter().map(|(captured, _)| captured).collect();
    match ended {
        Ok(graph) => Ok((graph, captured)),
        Err(error) => Err(errors::dispatch(&error)),
    }
}

fn no_capture() -> PyErr {
    errors::invalid("capture: expected a capture begun by this thread on this device, got none")
}

/// Aborts this thread's capture, if any; its streams run work again.
pub(super) fn abandon() {
    drop(CURRENT.take());
}

/// Whether this thread is capturing on the runtime.
pub(super) fn is_on(runtime: &DeviceRuntime) -> bool {
    CURRENT.with_borrow(|current| {
        let capturing = current.as_ref();
        capturing.is_some_and(|one| std::ptr::eq(&*one.runtime, runtime))
    })
}

/// Adds work to this thread's active capture.
pub(super) fn submit(request: WorkRequest, uses: &[Use<'_>]) -> PyResult<WorkId> {
    CURRENT.with_borrow_mut(|current| match current {
        Some(capturing) => capturing.submit(request, uses),
        None => Err(no_capture()),
    })
}

/// Rejects an operation that cannot be captured while this thread captures on the runtime.
pub(super) fn refuse(runtime: &DeviceRuntime, operation: &str, got: &str) -> PyResult<()> {
    match is_on(runtime) {
        true => Err(errors::invalid(&format!(
            "{operation}: expected an operation that a graph can replay, got {got} under \
             capture\nhint: do it before or after capture_graph; operations of assay.ops with \
             `out`, fills and copies within the device can be captured"
        ))),
        false => Ok(()),
    }
}
