//! Kernels of the simulated device: a duration model and an optional effect on memory.

use super::memory::SimMemory;
use crate::backend::{Launch, Result};

/// The duration of a launch in nanoseconds.
pub type KernelDuration = Box<dyn Fn(&Launch) -> u64 + Send + Sync>;

/// The kernel's effect on memory; an error fails the launch with its message.
pub type KernelBody = Box<dyn Fn(&Launch, &mut SimMemory) -> Result<()> + Send + Sync>;

/// A kernel of the simulated device.
pub struct SimKernel {
    /// Its name, for errors.
    pub name: String,
    /// Number of arguments.
    pub parameters: usize,
    /// The duration of a launch.
    pub duration_ns: KernelDuration,
    /// The effect on memory, if any.
    pub body: Option<KernelBody>,
}
