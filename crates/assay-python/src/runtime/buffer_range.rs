//! Byte ranges of buffers, bounds-checked before a device uses their addresses.

use std::sync::Arc;

use assay_runtime::backend::{Address, DevicePointer};
use pyo3::prelude::*;

use super::buffer::Memory;
use super::device_runtime::DeviceRuntime;
use super::errors;

/// A buffer and a byte offset into it.
#[derive(Clone, Copy)]
pub(super) struct BufferRange<'a> {
    pub buffer: &'a Memory,
    pub offset: u64,
}

impl<'a> BufferRange<'a> {
    pub fn new(buffer: &'a Memory, offset: u64) -> Self {
        BufferRange { buffer, offset }
    }

    /// The address of `bytes` bytes, in a pool of this runtime; the buffer must be pinned.
    pub fn address(
        &self,
        runtime: &Arc<DeviceRuntime>,
        operation: &str,
        bytes: u64,
    ) -> PyResult<Address> {
        let BufferRange { buffer, offset } = *self;
        buffer.alive(operation)?;
        let end = offset.checked_add(bytes);
        let inside = end.is_some_and(|end| end <= buffer.bytes());
        let address = buffer.address().and_then(|base| base.offset(offset));
        let owned = Arc::ptr_eq(runtime, buffer.runtime()) && buffer.is_pooled();
        match (inside && owned, address) {
            (true, Some(address)) => Ok(address),
            (false, _) | (true, None) => Err(errors::invalid(&format!(
                "{operation}: expected {bytes} bytes from {offset} in a buffer of this device's \
                 pool, got a buffer of {} bytes",
                buffer.bytes()
            ))),
        }
    }

    /// Like `address`, in device memory only.
    pub fn device_address(
        &self,
        runtime: &Arc<DeviceRuntime>,
        operation: &str,
        bytes: u64,
    ) -> PyResult<DevicePointer> {
        match self.address(runtime, operation, bytes)? {
            Address::Device(pointer) => Ok(pointer),
            Address::Host(_) => Err(errors::invalid(&format!(
                "{operation}: expected memory of the device, got pinned host memory\nhint: copy \
                 it to the device first"
            ))),
        }
    }
}
