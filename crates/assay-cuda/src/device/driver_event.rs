//! Events of the driver, destroyed when dropped.

use super::context::PrimaryContext;
use crate::library::NOT_READY;
use assay_runtime::backend::{Operation, Result};
use cudarc::driver::sys::{CUevent, CUstream};
use std::ptr;
use std::sync::Arc;

/// A `CUevent` with timing.
pub(super) struct DriverEvent {
    context: Arc<PrimaryContext>,
    handle: CUevent,
}

// SAFETY: the driver's handles may be used from any thread.
unsafe impl Send for DriverEvent {}
// SAFETY: as above.
unsafe impl Sync for DriverEvent {}

impl DriverEvent {
    pub fn new(context: &Arc<PrimaryContext>) -> Result<Self> {
        let operation = Operation::CreateEvent;
        let driver = context.enter(operation)?;
        let mut handle = ptr::null_mut();
        // SAFETY: stores one handle; flags 0 enable timing.
        let status = unsafe { (driver.cuEventCreate)(&raw mut handle, 0) };
        context.check(operation, status)?;
        Ok(DriverEvent { context: Arc::clone(context), handle })
    }

    /// The driver's handle, valid while this lives.
    pub fn handle(&self) -> CUevent {
        self.handle
    }

    /// Records the event on a stream of another library.
    pub fn record_external(&self, operation: Operation, handle: u64) -> Result<()> {
        let driver = self.context.enter(operation)?;
        let stream: CUstream = ptr::with_exposed_provenance_mut(handle as usize);
        // SAFETY: the event lives; the caller guarantees the stream's handle.
        let status = unsafe { (driver.cuEventRecord)(self.handle, stream) };
        self.context.check(operation, status)
    }

    /// Makes later work of a stream of another library wait for the event.
    pub fn wait_external(&self, operation: Operation, handle: u64) -> Result<()> {
        let driver = self.context.enter(operation)?;
        let stream: CUstream = ptr::with_exposed_provenance_mut(handle as usize);
        // SAFETY: as above; the driver keeps the record even if the event is destroyed.
        let status = unsafe { (driver.cuStreamWaitEvent)(stream, self.handle, 0) };
        self.context.check(operation, status)
    }

    /// Nanoseconds since an earlier event; `None` while either is pending.
    pub fn elapsed_ns(&self, first: &DriverEvent) -> Result<Option<u64>> {
        let operation = Operation::Elapsed;
        let driver = self.context.enter(operation)?;
        let mut milliseconds = 0.0f32;
        // SAFETY: both live; stores one number.
        let status = unsafe {
            (driver.cuEventElapsedTime)(&raw mut milliseconds, first.handle, self.handle)
        };
        if status == NOT_READY {
            return Ok(None);
        }
        self.context.check(operation, status)?;
        Ok(Some((f64::from(milliseconds).max(0.0) * 1e6) as u64))
    }
}

impl Drop for DriverEvent {
    fn drop(&mut self) {
        if let Ok(driver) = self.context.enter(Operation::DestroyEvent) {
            // SAFETY: this is the last reference; waits already queued stay valid.
            let _ = unsafe { (driver.cuEventDestroy_v2)(self.handle) };
        }
    }
}
