//! Ordering between streams of other libraries in this process and ours.

use super::cuda_device::CudaDevice;
use super::driver_event::DriverEvent;
use assay_runtime::backend::{Operation, Result, StreamId};

impl CudaDevice {
    /// The driver's handle of a stream, for other libraries.
    pub fn stream_handle(&self, stream: StreamId) -> Result<u64> {
        let stream = self.stream(Operation::WaitEvent, stream)?;
        Ok(stream.handle().expose_provenance() as u64)
    }

    /// Makes a stream of another library, given by its handle, wait for everything queued on one of
    /// ours.
    pub fn lead(&self, stream: StreamId, external: u64) -> Result<()> {
        let operation = Operation::WaitEvent;
        let stream = self.stream(operation, stream)?;
        stream.outside_capture(operation)?;
        let event = DriverEvent::new(&self.context)?;
        stream.record(operation, &event)?;
        event.wait_external(operation, external)
    }

    /// Makes one of our streams wait for everything queued on a stream of another library.
    pub fn follow(&self, external: u64, stream: StreamId) -> Result<()> {
        let operation = Operation::WaitEvent;
        let stream = self.stream(operation, stream)?;
        stream.outside_capture(operation)?;
        let event = DriverEvent::new(&self.context)?;
        event.record_external(operation, external)?;
        stream.wait(operation, &event)
    }
}
