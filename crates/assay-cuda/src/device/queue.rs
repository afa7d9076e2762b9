//! What an operation queues on its stream: kernels, GEMMs, fills and copies.

use super::cuda_device::{CudaDevice, Queue};
use super::driver_event::DriverEvent;
use super::kernel::{Function, LaunchConfig};
use super::sync::lock;
use crate::blas::{GemmPointers, GemmProblem, WORKSPACE_BYTES};
use assay_runtime::backend::{DevicePointer, KernelArgument, Operation, Result};
use assay_runtime::trace::LaunchKind;

/// Rows from which on the algorithm of a GEMM is worth timing: fewer are bound by reading weights.
const TUNED_ROWS: u64 = 512;
/// Runs of an algorithm that are timed together.
const TIMED_GEMMS: u32 = 5;
/// Bytes of an element of a result at most.
const LARGEST_ELEMENT: u64 = 4;

impl Queue<'_> {
    /// The device.
    pub fn device(&self) -> &CudaDevice {
        self.device
    }

    /// Whether what is queued belongs to a trace: its kernels store when they ran.
    pub fn is_traced(&self) -> bool {
        self.device.has_region(self.stream)
    }

    /// Scratch memory of the stream for one purpose, at least this long, zeroed when allocated; also
    /// during a capture, whose graph keeps it.
    pub fn scratch(&self, purpose: &'static str, bytes: u64) -> Result<DevicePointer> {
        let memory = &self.device.memory;
        lock(&self.stream.scratch).block(purpose, bytes, |bytes| memory.allocate_zeros(bytes))
    }

    /// The workspace of cuBLASLt; GEMMs of two streams may run concurrently.
    fn workspace(&self) -> Result<DevicePointer> {
        let memory = &self.device.memory;
        let mut scratch = lock(&self.stream.scratch);
        scratch.block("cuBLASLt", WORKSPACE_BYTES, |bytes| memory.allocate_device(bytes))
    }

    /// Queues a GEMM of cuBLASLt.
    pub fn gemm(&self, problem: &GemmProblem, pointers: &GemmPointers) -> Result<()> {
        self.device.context.enter(Operation::Launch)?;
        let workspace = self.workspace()?;
        let blas = self.device.blas()?;
        if self.device.tunes_gemms()
            && problem.rows >= TUNED_ROWS
            && problem.algorithm_rows.is_none()
            && !blas.is_tuned(problem)
            && self.stream.outside_capture(Operation::Launch).is_ok()
        {
            self.tune_gemm(problem, pointers, workspace)?;
        }
        let before = self.device.captured_nodes(self.stream)?;
        blas.gemm(problem, pointers, workspace, self.stream.handle())?;
        self.device.trace_gemm(self.stream, before)
    }

    /// Chooses the algorithm of a problem by time, on these operands. The result goes elsewhere: where
    /// it is added to what is there, only the call itself may do so.
    fn tune_gemm(
        &self,
        problem: &GemmProblem,
        pointers: &GemmPointers,
        workspace: DevicePointer,
    ) -> Result<()> {
        let (device, operation) = (self.device, Operation::Launch);
        let bytes = u64::from(problem.batch) * problem.rows * problem.columns * LARGEST_ELEMENT;
        let Ok(out) = device.memory.allocate_device(bytes) else {
            // Without room the heuristic's choice stays.
            return Ok(());
        };
        let elsewhere = GemmPointers { out, ..*pointers };
        let [begin, end] = [DriverEvent::new(&device.context)?, DriverEvent::new(&device.context)?];
        let stream = self.stream.handle();
        let tuned =
            device.blas()?.tune(problem, &elsewhere, workspace, stream, |run: &dyn Fn() -> _| {
                run()?;
                self.stream.record(operation, &begin)?;
                for _ in 0..TIMED_GEMMS {
                    run()?;
                }
                self.stream.record(operation, &end)?;
                self.stream.synchronize_event(operation, &end, &device.watchdog)?;
                Ok(end.elapsed_ns(&begin)?.unwrap_or(u64::MAX))
            });
        self.stream.synchronize(operation, &device.watchdog)?;
        device.memory.free_device(out, &[])?;
        tuned
    }

    /// Whether cuBLASLt supports a problem.
    pub fn supports_gemm(&self, problem: &GemmProblem, pointers: &GemmPointers) -> Result<bool> {
        self.device.context.enter(Operation::Launch)?;
        Ok(self.device.blas()?.supports_gemm(problem, pointers))
    }

    /// Queues a fill of device memory of the call.
    pub fn fill(&self, destination: DevicePointer, value: u8, bytes: u64) -> Result<()> {
        self.device.fill_on(self.stream, destination.into(), value, bytes)?;
        self.device.trace_unstamped(self.stream, LaunchKind::Fill, "memset")
    }

    /// Queues a copy between disjoint ranges of device memory of the call.
    pub fn copy(
        &self,
        source: DevicePointer,
        destination: DevicePointer,
        bytes: u64,
    ) -> Result<()> {
        self.device.copy_on(self.stream, source.into(), destination.into(), bytes)?;
        self.device.trace_unstamped(self.stream, LaunchKind::Copy, "memcpy")
    }

    /// Queues a kernel.
    pub fn launch(
        &self,
        function: &Function,
        config: LaunchConfig,
        arguments: &[KernelArgument],
    ) -> Result<()> {
        match function.stores_times() || self.is_traced() {
            true => self.device.launch_traced(self.stream, function, config, arguments),
            false => function.launch(self.stream, config, arguments),
        }
    }

    /// Queues a kernel whose parameters are whole words.
    pub fn launch_words(
        &self,
        function: &Function,
        config: LaunchConfig,
        words: &mut [u64],
    ) -> Result<()> {
        function.launch_words(self.stream, config, words)?;
        self.device.trace_unstamped(self.stream, LaunchKind::Kernel, &function.name)
    }
}
