//! What an operation queues on its stream: kernels, GEMMs, fills and copies.

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

    /// Allocates zeroed device memory, usable by every stream; also during a capture.
    pub fn allocate_zeros(&self, bytes: u64) -> Result<DevicePointer> {
        self.device.memory.allocate_zeros(bytes)
    }

    /// Queues a GEMM of cuBLASLt.
    pub fn gemm(&self, problem: &GemmProblem, pointers: &GemmPointers) -> Result<()> {
        self.device.context.enter(Operation::Launch)?;
        let workspace = self.device.workspace(self.stream.id)?;
        let blas = self.device.blas()?;
        blas.gemm(problem, pointers, workspace, self.stream.handle())
    }

    /// Whether cuBLASLt supports a problem.
    pub fn supports_gemm(&self, problem: &GemmProblem, pointers: &GemmPointers) -> Result<bool> {
        self.device.context.enter(Operation::Launch)?;
        Ok(self.device.blas()?.supports_gemm(problem, pointers))
    }

    /// Queues a fill of device memory of the call.
    pub fn fill(&self, destination: DevicePointer, value: u8, bytes: u64) -> Result<()> {
        self.device
            .fill_on(self.stream, destination.into(), value, bytes)
    }

    /// Queues a copy between disjoint ranges of device memory of the call.
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
        config: LaunchConfig,
        arguments: &[KernelArgument],
    ) -> Result<()> {
        function.launch(self.stream, config, arguments)
    }

    /// Queues a kernel whose parameters are whole words.
    pub fn launch_words(
        &self,
        function: &Function,
        config: LaunchConfig,
        words: &mut [u64],
    ) -> Result<()> {
        function.launch_words(self.stream, config, words)
    }
}
