//! Streams of the driver, destroyed when the last reference is dropped.

use super::context::{FaultSite, PrimaryContext};
use super::driver_event::DriverEvent;
use super::scratch::Scratch;
use super::sync::lock;
use super::trace::Region;
use super::watchdog::Watchdog;
use crate::library::{NOT_READY, SUCCESS};
use assay_runtime::backend::{BackendError, CaptureClocks, Operation, Result, StreamId};
use cudarc::driver::sys::CUstream;
use std::ptr;
use std::sync::{Arc, Mutex};

/// A capture under way; `None` once it has ended.
pub(super) type Capture = Mutex<Option<CaptureClocks>>;

/// A stream's membership in a capture.
pub(super) struct CaptureMembership {
    pub capture: Arc<Capture>,
    pub branch: usize,
    /// Recorded after the work that was queued before the stream entered the capture.
    pub before: DriverEvent,
}

/// `CU_STREAM_NON_BLOCKING`: no implicit synchronization with the legacy default stream.
const NON_BLOCKING: u32 = 1;

/// A stream of the driver.
pub(super) struct Stream {
    pub id: StreamId,
    context: Arc<PrimaryContext>,
    handle: CUstream,
    /// The capture it currently belongs to.
    pub capture: Mutex<Option<CaptureMembership>>,
    /// The launches whose times are not flushed yet.
    pub region: Mutex<Option<Region>>,
    /// What its operations work in; freed when the stream is destroyed, or the last graph that was
    /// captured on it.
    pub scratch: Mutex<Scratch>,
    last_kernel: Mutex<Option<Arc<str>>>,
}

// SAFETY: the driver's handles may be used from any thread.
unsafe impl Send for Stream {}
// SAFETY: as above.
unsafe impl Sync for Stream {}

impl Stream {
    /// Creates a stream with a driver priority; lower numbers are more urgent.
    pub fn new(context: &Arc<PrimaryContext>, id: StreamId, priority: i32) -> Result<Self> {
        let operation = Operation::CreateStream;
        let driver = context.enter(operation)?;
        let mut handle = ptr::null_mut();
        // SAFETY: stores one handle.
        let status =
            unsafe { (driver.cuStreamCreateWithPriority)(&raw mut handle, NON_BLOCKING, priority) };
        context.check(operation, status)?;
        Ok(Stream {
            id,
            context: Arc::clone(context),
            handle,
            capture: Mutex::new(None),
            region: Mutex::new(None),
            scratch: Mutex::default(),
            last_kernel: Mutex::new(None),
        })
    }

    /// The driver's handle, valid while this lives.
    pub fn handle(&self) -> CUstream {
        self.handle
    }

    /// Notes the last kernel, for the message of a fault.
    pub fn note_kernel(&self, name: &Arc<str>) {
        let mut last = lock(&self.last_kernel);
        if !last.as_ref().is_some_and(|known| Arc::ptr_eq(known, name)) {
            *last = Some(Arc::clone(name));
        }
    }

    /// What a wait for this stream waits for, for messages.
    fn describe(&self) -> String {
        match &*lock(&self.last_kernel) {
            Some(kernel) => format!("kernel {kernel} or what precedes it on stream {}", self.id.0),
            None => format!("stream {}", self.id.0),
        }
    }

    /// The error for a status of the driver in a call on this stream.
    pub fn check(&self, operation: Operation, status: u32) -> Result<()> {
        if status == SUCCESS {
            return Ok(());
        }
        let kernel = lock(&self.last_kernel).clone();
        let site = FaultSite { stream: self.id, kernel: kernel.as_deref() };
        self.context.check_on(operation, status, site)
    }

    /// Refuses a call that would wait for captured work, which does not run.
    pub fn outside_capture(&self, operation: Operation) -> Result<()> {
        match *lock(&self.capture) {
            Some(_) => Err(BackendError::Capturing { operation, stream: self.id }),
            None => Ok(()),
        }
    }

    /// Whether everything queued so far has finished.
    pub fn query(&self, operation: Operation) -> Result<bool> {
        let driver = self.context.enter(operation)?;
        // SAFETY: the stream lives.
        match unsafe { (driver.cuStreamQuery)(self.handle) } {
            NOT_READY => Ok(false),
            status => self.check(operation, status).map(|()| true),
        }
    }

    /// Blocks until everything queued so far has finished.
    pub fn synchronize(&self, operation: Operation, watchdog: &Watchdog) -> Result<()> {
        let driver = self.context.enter(operation)?;
        let Some(limit) = watchdog.limit else {
            // SAFETY: the stream lives.
            let status = unsafe { (driver.cuStreamSynchronize)(self.handle) };
            return self.check(operation, status);
        };
        let waited_for = || self.describe();
        watchdog.poll(operation, limit, waited_for, || self.query(operation))
    }

    /// Records an event behind everything queued so far.
    pub fn record(&self, operation: Operation, event: &DriverEvent) -> Result<()> {
        let driver = self.context.enter(operation)?;
        // SAFETY: both live.
        let status = unsafe { (driver.cuEventRecord)(event.handle(), self.handle) };
        self.check(operation, status)
    }

    /// Makes later work of this stream wait for the event's latest record.
    pub fn wait(&self, operation: Operation, event: &DriverEvent) -> Result<()> {
        let driver = self.context.enter(operation)?;
        // SAFETY: both live; the driver keeps the record even if the event is destroyed.
        let status = unsafe { (driver.cuStreamWaitEvent)(self.handle, event.handle(), 0) };
        self.check(operation, status)
    }

    /// Whether an event recorded on this stream has finished.
    pub fn query_event(&self, operation: Operation, event: &DriverEvent) -> Result<bool> {
        let driver = self.context.enter(operation)?;
        // SAFETY: the event lives.
        match unsafe { (driver.cuEventQuery)(event.handle()) } {
            NOT_READY => Ok(false),
            status => self.check(operation, status).map(|()| true),
        }
    }

    /// Blocks until an event recorded on this stream has finished.
    pub fn synchronize_event(
        &self,
        operation: Operation,
        event: &DriverEvent,
        watchdog: &Watchdog,
    ) -> Result<()> {
        let driver = self.context.enter(operation)?;
        let Some(limit) = watchdog.limit else {
            // SAFETY: the event lives.
            let status = unsafe { (driver.cuEventSynchronize)(event.handle()) };
            return self.check(operation, status);
        };
        let waited_for = || self.describe();
        watchdog.poll(operation, limit, waited_for, || self.query_event(operation, event))
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if let Ok(driver) = self.context.enter(Operation::DestroyStream) {
            // SAFETY: this is the last reference; queued work still runs.
            let _ = unsafe { (driver.cuStreamDestroy_v2)(self.handle) };
        }
    }
}
