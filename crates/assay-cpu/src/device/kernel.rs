//! Kernels of the processor: Rust functions over the device's memory.

use super::memory::CpuMemory;
use assay_runtime::backend::{DevicePointer, KernelArgument, Launch, Operation, Result};

/// Looks at a launch before it is queued; an error refuses the launch.
pub type KernelCheck = Box<dyn Fn(&KernelCall) -> Result<()> + Send + Sync>;

/// Does the work; an error or a panic fails it, with its words.
pub type KernelBody = Box<dyn Fn(&KernelCall) -> Result<()> + Send + Sync>;

/// Code the device can launch.
pub struct CpuKernel {
    /// Its name, for errors.
    pub name: String,
    /// How many arguments a launch must have.
    pub parameters: usize,
    /// What has to hold before the launch is queued, so that its caller hears of a mistake.
    pub check: Option<KernelCheck>,
    /// The work.
    pub body: KernelBody,
}

/// One launch as a kernel sees it.
pub struct KernelCall<'a> {
    pub(super) launch: &'a Launch,
    pub(super) memory: &'a CpuMemory,
}

impl KernelCall<'_> {
    /// The arguments in the order of the kernel's parameters.
    pub fn arguments(&self) -> &[KernelArgument] {
        &self.launch.arguments
    }

    /// Blocks along x, y and z.
    pub fn grid(&self) -> [u32; 3] {
        self.launch.grid
    }

    /// The first byte of a range of device memory, checked to lie in one allocation.
    pub fn pointer(&self, pointer: DevicePointer, bytes: u64) -> Result<*mut u8> {
        self.memory
            .pointer(Operation::Launch, pointer.into(), bytes)
    }
}
