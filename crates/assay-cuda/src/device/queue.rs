//! What the body of an operation queues on a stream: kernels, products, fills and copies.

use super::CudaDevice;
use super::kernel::{Extent, Function};
use super::stream::Stream;
use crate::blas::{Places, Product};
use assay_runtime::backend::{DevicePointer, KernelArgument, Operation, Result, StreamId};

/// Where an operation's kernels are queued.
pub struct Queue<'a> {
    pub(super) device: &'a CudaDevice,
    pub(super) stream: &'a Stream,
}

impl Queue<'_> {
    /// The device.
    pub fn device(&self) -> &CudaDevice {
        self.device
    }

    /// The stream.
    pub fn stream_id(&self) -> StreamId {
        self.stream.id
    }

    /// Device memory that is there, and zero, for every stream; also while this one is captured.
    pub fn allocate_zeros(&self, bytes: u64) -> Result<DevicePointer> {
        self.device.memory.allocate_zeros(bytes)
    }

    /// Queues a matrix product of cuBLASLt.
    pub fn multiply(&self, product: &Product, places: &Places) -> Result<()> {
        self.device.gpu.enter(Operation::Launch)?;
        let workspace = self.device.workspace(self.stream.id)?;
        let blas = self.device.blas()?;
        blas.multiply(product, places, workspace, self.stream.handle())
    }

    /// Whether cuBLASLt has a way to do a product.
    pub fn can_multiply(&self, product: &Product, places: &Places) -> Result<bool> {
        self.device.gpu.enter(Operation::Launch)?;
        Ok(self.device.blas()?.can_multiply(product, places))
    }

    /// Queues the setting of device memory that the call was given.
    pub fn fill(&self, destination: DevicePointer, value: u8, bytes: u64) -> Result<()> {
        self.device
            .fill_on(self.stream, destination.into(), value, bytes)
    }

    /// Queues a copy between places of device memory that do not overlap, which the call was given.
    pub fn copy(
        &self,
        source: DevicePointer,
        destination: DevicePointer,
        bytes: u64,
    ) -> Result<()> {
        self.device
            .copy_on(self.stream, source.into(), destination.into(), bytes)
    }

    /// Queues a kernel.
    pub fn launch(
        &self,
        function: &Function,
        extent: Extent,
        arguments: &[KernelArgument],
    ) -> Result<()> {
        function.launch(self.stream, extent, arguments)
    }

    /// Queues a kernel whose parameters are whole words, which are given as they are.
    pub fn launch_words(
        &self,
        function: &Function,
        extent: Extent,
        words: &mut [u64],
    ) -> Result<()> {
        function.launch_words(self.stream, extent, words)
    }
}
