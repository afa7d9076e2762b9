//! Stream capture into graphs.
//!
//! The driver captures the work. The device tracks which streams take part, so that it can refuse a
//! wait or a query that would invalidate the capture, and name the stream.

use super::cuda_device::CudaDevice;
use super::driver_event::DriverEvent;
use super::event::{CapturePoint, Event, EventState};
use super::graph::Graph;
use super::stream::{CaptureMembership, Stream};
use super::sync::lock;
use assay_runtime::backend::{BackendError, CaptureClocks, EventId, GraphId, Operation, Result};
use cudarc::driver::sys::{CUgraph, CUgraphExec, CUstreamCaptureMode};
use std::ptr;
use std::sync::{Arc, Mutex};

impl CudaDevice {
    /// Begins a capture on a stream that is in no capture.
    pub(super) fn capture_begin(&self, stream: &Arc<Stream>) -> Result<()> {
        let operation = Operation::BeginCapture;
        let mut member = lock(&stream.capture);
        if member.is_some() {
            return Err(BackendError::Capturing { operation, stream: stream.id });
        }
        let driver = self.context.enter(operation)?;
        let before = self.record_before(stream)?;
        self.begin_graph_region(stream)?;
        // Relaxed: calls of other threads do not affect the capture, and the layers above refuse what
        // this thread may not do.
        let mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
        // SAFETY: the stream lives.
        let status = unsafe { (driver.cuStreamBeginCapture_v2)(stream.handle(), mode) };
        stream.check(operation, status)?;
        *member = Some(CaptureMembership {
            capture: Arc::new(Mutex::new(Some(CaptureClocks::new(stream.id)))),
            branch: 0,
            before,
        });
        Ok(())
    }

    /// Records an event behind the work queued before a stream enters a capture.
    fn record_before(&self, stream: &Stream) -> Result<DriverEvent> {
        let before = DriverEvent::new(&self.context)?;
        stream.record(Operation::BeginCapture, &before)?;
        Ok(before)
    }

    /// Advances the clock of a captured stream's branch.
    pub(super) fn note_captured(&self, stream: &Stream) {
        if let Some(member) = &*lock(&stream.capture)
            && let Some(clocks) = &mut *lock(&member.capture)
        {
            clocks.tick(member.branch);
        }
        self.end_traced_node(stream);
    }

    pub(super) fn record(&self, event: &Event, stream: &Arc<Stream>) -> Result<()> {
        let member = lock(&stream.capture);
        let mut state = lock(&event.state);
        stream.record(Operation::RecordEvent, &event.driver)?;
        let captured = member.as_ref().and_then(|member| {
            let clocks = lock(&member.capture);
            Some(CapturePoint {
                capture: Arc::clone(&member.capture),
                clock: clocks.as_ref()?.clock(member.branch),
                stream: Arc::clone(stream),
            })
        });
        *state = match captured {
            Some(captured) => EventState::Captured(captured),
            None => EventState::Recorded(Arc::clone(stream)),
        };
        Ok(())
    }

    /// Waits for an event recorded inside a capture; the waiting stream joins that capture.
    pub(super) fn join_capture(
        &self,
        stream: &Arc<Stream>,
        event: &Event,
        point: &CapturePoint,
    ) -> Result<()> {
        let operation = Operation::WaitEvent;
        let refused = BackendError::Capturing { operation, stream: stream.id };
        let mut member = lock(&stream.capture);
        let mut clocks = lock(&point.capture);
        let Some(clocks) = &mut *clocks else {
            // The capture has ended; a position in a graph cannot be waited for.
            return Err(refused);
        };
        let branch = match &*member {
            Some(own) if Arc::ptr_eq(&own.capture, &point.capture) => {
                stream.wait(operation, &event.driver)?;
                own.branch
            }
            Some(_) => return Err(refused),
            None => {
                let before = self.record_before(stream)?;
                stream.wait(operation, &event.driver)?;
                let branch = clocks.add_branch(stream.id);
                *member =
                    Some(CaptureMembership { capture: Arc::clone(&point.capture), branch, before });
                branch
            }
        };
        clocks.merge(branch, &point.clock);
        Ok(())
    }

    /// Ends the capture begun on this stream.
    pub(super) fn capture_end(&self, stream: &Arc<Stream>) -> Result<GraphId> {
        let operation = Operation::EndCapture;
        let refused = BackendError::NotCapturing { stream: stream.id };
        let capture = match &*lock(&stream.capture) {
            Some(member) if member.branch == 0 => Arc::clone(&member.capture),
            _ => return Err(refused),
        };
        let Some(clocks) = lock(&capture).take() else {
            return Err(refused);
        };
        let region = self.end_graph_region(stream)?;
        let driver = self.context.enter(operation)?;
        let mut captured = ptr::null_mut();
        // SAFETY: the stream lives; stores one handle, null where the capture failed.
        let status = unsafe { (driver.cuStreamEndCapture)(stream.handle(), &raw mut captured) };
        let mut scratch = Vec::new();
        for id in clocks.streams() {
            if let Ok(member) = self.stream(operation, *id) {
                // Before the stream leaves the capture: from then on it may be destroyed.
                scratch.extend(lock(&member.scratch).shared());
                *lock(&member.capture) = None;
            }
        }
        let instantiated = match clocks.unjoined() {
            Some(left) => Err(BackendError::UnjoinedCapture { origin: stream.id, stream: left }),
            None => {
                stream.check(operation, status).and_then(|()| self.instantiate(operation, captured))
            }
        };
        let handle = match instantiated {
            Ok(handle) => handle,
            Err(refused) => {
                // A stream of the capture may have been destroyed since it left.
                self.free_unshared(scratch, &[])?;
                return Err(refused);
            }
        };
        let graph = Graph {
            context: Arc::clone(&self.context),
            handle,
            region: region.as_ref().map(|region| (region.id, region.slots)),
            launched_on: Mutex::new(Vec::new()),
            scratch: Mutex::new(scratch),
        };
        if let Some(region) = region {
            self.tracer.add_graph(region);
        }
        let id = GraphId(self.fresh_number());
        self.graphs().insert(id, Arc::new(graph));
        Ok(id)
    }

    /// Makes a captured template executable; the template is not needed after this.
    fn instantiate(&self, operation: Operation, captured: CUgraph) -> Result<CUgraphExec> {
        let driver = self.context.enter(operation)?;
        let mut handle = ptr::null_mut();
        // SAFETY: stores one handle; the template is valid, and used by nobody else.
        let status = unsafe {
            let status = (driver.cuGraphInstantiateWithFlags)(&raw mut handle, captured, 0);
            (driver.cuGraphDestroy)(captured);
            status
        };
        self.context.check(operation, status)?;
        Ok(handle)
    }

    /// An event and its state.
    pub(super) fn state(
        &self,
        operation: Operation,
        event: EventId,
    ) -> Result<(Arc<Event>, EventState)> {
        let found = self.event(operation, event)?;
        let state = lock(&found.state).clone();
        Ok((found, state))
    }
}
