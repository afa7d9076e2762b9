//! Capture of queued work into graphs, and the graphs.
//!
//! The driver notes the work. What is kept here is what it does not tell: which streams take part,
//! so that a wait or a query can be refused by name before it would break the capture.

use super::CudaDevice;
use super::gpu::Gpu;
use super::stream::{Event, Mark, Stream, lock};
use assay_runtime::backend::{BackendError, CaptureClocks, EventId, GraphId, Operation, Result};
use cudarc::driver::sys::{CUgraphExec, CUstreamCaptureMode};
use std::ptr;
use std::sync::{Arc, Mutex};

/// A capture under way; `None` once it is over.
pub(super) type Lanes = Mutex<Option<CaptureClocks>>;

/// A stream's part in a capture.
pub(super) struct Membership {
    pub capture: Arc<Lanes>,
    pub lane: usize,
    /// The end of what was queued before.
    pub before: Event,
}

/// Where in a capture an event was recorded.
#[derive(Clone)]
pub(super) struct CapturedMark {
    capture: Arc<Lanes>,
    /// How much of each lane had been captured there.
    seen: Vec<u64>,
    pub stream: Arc<Stream>,
}

/// Work that can be launched again and again.
pub(super) struct Graph {
    gpu: Arc<Gpu>,
    handle: CUgraphExec,
    /// Streams it was launched on; held while it is launched, which only one thread may do.
    pub launched_on: Mutex<Vec<Arc<Stream>>>,
}

// SAFETY: the handle may be used from any thread, one at a time, which the lock sees to.
unsafe impl Send for Graph {}
// SAFETY: as above.
unsafe impl Sync for Graph {}

impl Graph {
    pub fn launch(&self, stream: &Arc<Stream>) -> Result<()> {
        let operation = Operation::LaunchGraph;
        let driver = self.gpu.enter(operation)?;
        let mut launched_on = lock(&self.launched_on);
        // SAFETY: graph and stream live, and no other thread launches the graph now.
        let status = unsafe { (driver.cuGraphLaunch)(self.handle, stream.handle()) };
        stream.check(operation, status)?;
        if !launched_on.iter().any(|known| Arc::ptr_eq(known, stream)) {
            launched_on.push(Arc::clone(stream));
        }
        Ok(())
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        if let Ok(driver) = self.gpu.enter(Operation::DestroyGraph) {
            // SAFETY: nobody else holds it, and its launches are over.
            let _ = unsafe { (driver.cuGraphExecDestroy)(self.handle) };
        }
    }
}

impl CudaDevice {
    /// Begins a capture on a stream that is in none.
    pub(super) fn capture_begin(&self, stream: &Arc<Stream>) -> Result<()> {
        let operation = Operation::BeginCapture;
        let mut membership = lock(&stream.capture);
        if membership.is_some() {
            return Err(BackendError::Capturing {
                operation,
                stream: stream.id,
            });
        }
        let driver = self.gpu.enter(operation)?;
        let before = self.mark_before(stream)?;
        // Relaxed: what other threads do meanwhile is theirs, and what this one may not do is
        // refused by the layers above.
        let mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
        // SAFETY: the stream lives.
        let status = unsafe { (driver.cuStreamBeginCapture_v2)(stream.handle(), mode) };
        stream.check(operation, status)?;
        *membership = Some(Membership {
            capture: Arc::new(Mutex::new(Some(CaptureClocks::new(stream.id)))),
            lane: 0,
            before,
        });
        Ok(())
    }

    /// Marks the end of what was queued on a stream that enters a capture.
    fn mark_before(&self, stream: &Stream) -> Result<Event> {
        let before = Event::new(&self.gpu)?;
        before.record(Operation::BeginCapture, stream)?;
        Ok(before)
    }

    /// Counts work queued on a stream, if it is captured.
    pub(super) fn note_captured(&self, stream: &Stream) {
        if let Some(membership) = &*lock(&stream.capture)
            && let Some(lanes) = &mut *lock(&membership.capture)
        {
            lanes.tick(membership.lane);
        }
    }

    pub(super) fn record(&self, event: &Event, stream: &Arc<Stream>) -> Result<()> {
        let membership = lock(&stream.capture);
        let mut mark = lock(&event.mark);
        event.record(Operation::RecordEvent, stream)?;
        let captured = membership.as_ref().and_then(|membership| {
            let lanes = lock(&membership.capture);
            Some(CapturedMark {
                capture: Arc::clone(&membership.capture),
                seen: lanes.as_ref()?.clock(membership.lane),
                stream: Arc::clone(stream),
            })
        });
        *mark = match captured {
            Some(captured) => Mark::Captured(captured),
            None => Mark::Recorded(Arc::clone(stream)),
        };
        Ok(())
    }

    /// Waits for an event recorded inside a capture; the waiting stream joins that capture.
    pub(super) fn join_capture(
        &self,
        stream: &Arc<Stream>,
        event: &Event,
        mark: &CapturedMark,
    ) -> Result<()> {
        let operation = Operation::WaitEvent;
        let refused = BackendError::Capturing {
            operation,
            stream: stream.id,
        };
        let mut membership = lock(&stream.capture);
        let mut lanes = lock(&mark.capture);
        let Some(lanes) = &mut *lanes else {
            // The graph is made; a place in it is no moment to wait for.
            return Err(refused);
        };
        let lane = match &*membership {
            Some(own) if Arc::ptr_eq(&own.capture, &mark.capture) => {
                event.hold(operation, stream)?;
                own.lane
            }
            Some(_) => return Err(refused),
            None => {
                let before = self.mark_before(stream)?;
                event.hold(operation, stream)?;
                let lane = lanes.add_branch(stream.id);
                *membership = Some(Membership {
                    capture: Arc::clone(&mark.capture),
                    lane,
                    before,
                });
                lane
            }
        };
        lanes.merge(lane, &mark.seen);
        Ok(())
    }

    /// Ends the capture begun on this stream.
    pub(super) fn capture_end(&self, stream: &Arc<Stream>) -> Result<GraphId> {
        let operation = Operation::EndCapture;
        let refused = BackendError::NotCapturing { stream: stream.id };
        let capture = match &*lock(&stream.capture) {
            Some(membership) if membership.lane == 0 => Arc::clone(&membership.capture),
            _ => return Err(refused),
        };
        let Some(lanes) = lock(&capture).take() else {
            return Err(refused);
        };
        let driver = self.gpu.enter(operation)?;
        let mut captured = ptr::null_mut();
        // SAFETY: the stream lives; stores one handle, null where the capture failed.
        let status = unsafe { (driver.cuStreamEndCapture)(stream.handle(), &raw mut captured) };
        for id in lanes.streams() {
            if let Ok(member) = self.stream(operation, *id) {
                *lock(&member.capture) = None;
            }
        }
        if let Some(left) = lanes.unjoined() {
            return Err(BackendError::UnjoinedCapture {
                origin: stream.id,
                stream: left,
            });
        }
        stream.check(operation, status)?;
        let mut handle = ptr::null_mut();
        // SAFETY: stores one handle; the template is not needed after this.
        let status = unsafe {
            let status = (driver.cuGraphInstantiateWithFlags)(&raw mut handle, captured, 0);
            (driver.cuGraphDestroy)(captured);
            status
        };
        self.gpu.check(operation, status)?;
        let graph = Graph {
            gpu: Arc::clone(&self.gpu),
            handle,
            launched_on: Mutex::new(Vec::new()),
        };
        let id = GraphId(self.fresh_number());
        self.graphs().insert(id, Arc::new(graph));
        Ok(id)
    }

    /// What an event stands for, or the error that names the call.
    pub(super) fn mark(&self, operation: Operation, event: EventId) -> Result<(Arc<Event>, Mark)> {
        let found = self.event(operation, event)?;
        let mark = lock(&found.mark).clone();
        Ok((found, mark))
    }
}
