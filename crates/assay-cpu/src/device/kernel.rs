//! CPU kernels: Rust functions over the device's memory.

use super::memory::CpuMemory;
use assay_runtime::backend::{DevicePointer, KernelArgument, Launch, Operation, Result};

/// Validates a launch before it is queued; an error refuses the launch.
pub type KernelCheck = Box<dyn Fn(&KernelCall) -> Result<()> + Send + Sync>;

/// Runs the kernel; an error or a panic fails the work, with its message.
pub type KernelBody = Box<dyn Fn(&KernelCall) -> Result<()> + Send + Sync>;

/// A kernel that the device can launch.
pub struct CpuKernel {
    /// Its name, for errors.
    pub name: String,
    /// How many arguments a launch must have.
    pub parameters: usize,
    /// Validates a launch before it is queued, so that its caller gets the error.
    pub check: Option<KernelCheck>,
    /// The kernel's body.
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

    /// CTAs along x, y and z.
    pub fn grid(&self) -> [u32; 3] {
        self.launch.grid
    }

    /// The first byte of a range of device memory, checked to be inside one allocation.
    pub fn pointer(&self, pointer: DevicePointer, bytes: u64) -> Result<*mut u8> {
        self.memory.pointer(Operation::Launch, pointer.into(), bytes)
    }
}
