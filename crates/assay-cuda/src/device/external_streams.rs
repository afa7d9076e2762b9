//! Streams and memory of other libraries in this process: their order with ours, and their device.

use super::cuda_device::CudaDevice;
use super::driver_event::DriverEvent;
use crate::library::SUCCESS;
use assay_runtime::backend::{DevicePointer, Operation, Result, StreamId};
use cudarc::driver::sys::CUpointer_attribute;

impl CudaDevice {
    /// The driver's handle of a stream, for other libraries.
    pub fn stream_handle(&self, stream: StreamId) -> Result<u64> {
        let stream = self.stream(Operation::WaitEvent, stream)?;
        Ok(stream.handle().expose_provenance() as u64)
    }

    /// Whether an address is memory of this GPU that the driver knows.
    pub fn holds(&self, pointer: DevicePointer) -> Result<bool> {
        let driver = self.context.enter(Operation::Copy)?;
        let attribute = CUpointer_attribute::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL;
        let mut ordinal = -1i32;
        // SAFETY: stores one number; the driver accepts any address.
        let status = unsafe {
            (driver.cuPointerGetAttribute)((&raw mut ordinal).cast(), attribute, pointer.0)
        };
        // An address that the driver does not know is an invalid value, not a failure.
        Ok(status == SUCCESS && usize::try_from(ordinal) == Ok(self.facts.ordinal))
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
