//! The capture that a thread has under way: what it holds, and what it refuses meanwhile.
//!
//! A graph names memory by address. So it holds every block that a captured operation uses, and
//! a replay is ordered by all of them. Order inside the capture is kept apart from the blocks'
//! own, because captured work does not run.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use assay_runtime::backend::StreamId;
use assay_runtime::dispatch::{self, Capture, WorkId, WorkRequest};
use pyo3::prelude::*;

use super::block::{Block, Use};
use super::errors;
use super::machine::Machine;
use super::uses::Uses;

thread_local! {
    static UNDER_WAY: RefCell<Option<Capturing>> = const { RefCell::new(None) };
}

/// A block that a graph uses, kept from being freed by hand.
pub(super) struct Captured {
    pub block: Arc<Block>,
    pub writes: bool,
}

impl Captured {
    pub fn as_use(&self) -> Use<'_> {
        Use {
            buffer: &self.block,
            writes: self.writes,
        }
    }
}

impl Drop for Captured {
    fn drop(&mut self) {
        self.block.unexport();
    }
}

/// The streams of a device whose work is captured.
#[derive(Default)]
pub(super) struct CapturedStreams {
    streams: Mutex<Vec<StreamId>>,
    /// How many there are, so that none takes no lock.
    count: AtomicUsize,
}

impl CapturedStreams {
    fn set(&self, stream: StreamId, captured: bool) {
        let mut streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        streams.retain(|other| *other != stream);
        if captured {
            streams.push(stream);
        }
        self.count.store(streams.len(), Ordering::Release);
    }

    /// Refuses work for a stream that another thread captures: no graph would hold its memory.
    pub fn refuse(&self, request: &WorkRequest) -> PyResult<()> {
        if self.count.load(Ordering::Acquire) == 0 {
            return Ok(());
        }
        let streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        match streams.contains(&request.stream) {
            false => Ok(()),
            true => Err(errors::invalid(&format!(
                "{}: expected a stream that no other thread captures, got stream {}",
                request.name, request.stream.0
            ))),
        }
    }
}

struct Capturing {
    machine: Arc<Machine>,
    /// None once it ended.
    capture: Option<Capture>,
    /// Streams with captured work, the first of which began it.
    streams: Vec<StreamId>,
    blocks: Vec<(Captured, Uses)>,
    places: HashMap<*const Block, usize>,
}

impl Capturing {
    fn place(&mut self, block: &Arc<Block>) -> usize {
        *self.places.entry(Arc::as_ptr(block)).or_insert_with(|| {
            block.export();
            let captured = Captured {
                block: Arc::clone(block),
                writes: false,
            };
            self.blocks.push((captured, Uses::default()));
            self.blocks.len() - 1
        })
    }

    fn submit(&mut self, mut request: WorkRequest, uses: &[Use<'_>]) -> PyResult<WorkId> {
        let stream = request.stream;
        let places: Vec<usize> = uses.iter().map(|one| self.place(one.buffer)).collect();
        for (one, &place) in uses.iter().zip(&places) {
            let (_, used) = &self.blocks[place];
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
        let work = self.machine.dispatch.submit(request);
        let work = work.map_err(|error| errors::dispatch(&error))?;
        if !self.streams.contains(&stream) {
            self.machine.captured.set(stream, true);
            self.streams.push(stream);
        }
        for (one, place) in uses.iter().zip(places) {
            let (captured, used) = &mut self.blocks[place];
            captured.writes |= one.writes;
            used.note(stream, work, one.writes);
        }
        Ok(work)
    }
}

impl Drop for Capturing {
    fn drop(&mut self) {
        drop(self.capture.take());
        for stream in &self.streams {
            self.machine.captured.set(*stream, false);
        }
    }
}

/// Whether this thread captures.
pub(super) fn is_under_way() -> bool {
    UNDER_WAY.with_borrow(Option::is_some)
}

/// Begins to capture this thread's work on a stream.
pub(super) fn begin(machine: &Arc<Machine>, stream: StreamId) -> PyResult<()> {
    if is_under_way() {
        return Err(errors::invalid(
            "capture: expected one capture at a time in a thread, got a second",
        ));
    }
    let capture = machine.dispatch.begin_capture(stream);
    let capture = capture.map_err(|error| errors::dispatch(&error))?;
    machine.captured.set(stream, true);
    let capturing = Capturing {
        machine: Arc::clone(machine),
        capture: Some(capture),
        streams: vec![stream],
        blocks: Vec::new(),
        places: HashMap::new(),
    };
    UNDER_WAY.set(Some(capturing));
    Ok(())
}

/// Ends the capture of this thread and gives the graph and the blocks it uses.
pub(super) fn end(machine: &Machine) -> PyResult<(dispatch::Graph, Vec<Captured>)> {
    if !is_on(machine) {
        return Err(none_under_way());
    }
    let mut capturing = UNDER_WAY.take().ok_or_else(none_under_way)?;
    let capture = capturing.capture.take().ok_or_else(none_under_way)?;
    let ended = capture.end();
    let blocks = std::mem::take(&mut capturing.blocks);
    let captured = blocks.into_iter().map(|(captured, _)| captured).collect();
    match ended {
        Ok(graph) => Ok((graph, captured)),
        Err(error) => Err(errors::dispatch(&error)),
    }
}

fn none_under_way() -> PyErr {
    errors::invalid("capture: expected a capture begun by this thread on this device, got none")
}

/// Gives up the capture of this thread, if there is one; its streams run again.
pub(super) fn give_up() {
    drop(UNDER_WAY.take());
}

/// Whether this thread captures on the machine.
pub(super) fn is_on(machine: &Machine) -> bool {
    UNDER_WAY.with_borrow(|under_way| {
        let capturing = under_way.as_ref();
        capturing.is_some_and(|one| std::ptr::eq(&*one.machine, machine))
    })
}

/// Submits work to the capture that this thread has under way.
pub(super) fn submit(request: WorkRequest, uses: &[Use<'_>]) -> PyResult<WorkId> {
    UNDER_WAY.with_borrow_mut(|under_way| match under_way {
        Some(capturing) => capturing.submit(request, uses),
        None => Err(none_under_way()),
    })
}

/// Refuses what a graph cannot hold, while this thread captures on the machine.
pub(super) fn refuse(machine: &Machine, operation: &str, got: &str) -> PyResult<()> {
    match is_on(machine) {
        true => Err(errors::invalid(&format!(
            "{operation}: expected an operation that a graph can replay, got {got} under \
             capture\nhint: do it before or after capture_graph; operations of assay.ops with \
             `out`, fills and copies within the device can be captured"
        ))),
        false => Ok(()),
    }
}

/// Refuses to wait for memory that captured work writes, since that work has not run.
pub(super) fn refuse_wait(block: &Block) -> PyResult<()> {
    let written = UNDER_WAY.with_borrow(|under_way| {
        let capturing = under_way.as_ref()?;
        let place = *capturing.places.get(&std::ptr::from_ref(block))?;
        Some(capturing.blocks[place].0.writes)
    });
    match written {
        Some(true) => Err(errors::invalid(
            "read: expected memory that holds its values, got memory that captured work will \
             write\nhint: read it after graph.replay()",
        )),
        _ => Ok(()),
    }
}
