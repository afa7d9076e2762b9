//! What the body of an operation queues on a stream: kernels, problems, fills and copies.

use super::cuda_device::{CudaDevice, Queue};
use super::kernel::{Function, LaunchConfig};
use crate::blas::{GemmPointers, GemmProblem};
use assay_runtime::backend::{DevicePointer, KernelArgument, Operation, Result, StreamId};

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

    /// Queues a matrix problem of cuBLASLt.
    pub fn gemm(&self, problem: &GemmProblem, pointers: &GemmPointers) -> Result<()> {
        self.device.context.enter(Operation::Launch)?;
        let workspace = self.device.workspace(self.stream.id)?;
        let blas = self.device.blas()?;
        blas.gemm(problem, pointers, workspace, self.stream.handle())
    }

    /// Whether cuBLASLt has a way to do a problem.
    pub fn supports_gemm(&self, problem: &GemmProblem, pointers: &GemmPointers) -> Result<bool> {
        self.device.context.enter(Operation::Launch)?;
        Ok(self.device.blas()?.supports_gemm(problem, pointers))
    }

    /// Queues the setting of device memory that the call was given.
    pub fn fill(&self, destination: DevicePointer, value: u8, bytes: u64) -> Result<()> {
        self.device
            .fill_on(self.stream, destination.into(), value, bytes)
    }

    /// Queues a copy between pointers of device memory that do not overlap, which the call was given.
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
        extent: LaunchConfig,
        arguments: &[KernelArgument],
    ) -> Result<()> {
        function.launch(self.stream, extent, arguments)
    }

    /// Queues a kernel whose parameters are whole words, which are given as they are.
    pub fn launch_words(
        &self,
        function: &Function,
        extent: LaunchConfig,
        words: &mut [u64],
    ) -> Result<()> {
        function.launch_words(self.stream, extent, words)
    }
}
