//! Kernels of the simulated device: a time, and if wanted an effect on memory.

use super::memory::SimMemory;
use crate::backend::{Launch, Result};

/// Gives the time a launch takes.
pub type KernelDuration = Box<dyn Fn(&Launch) -> u64 + Send + Sync>;

/// Does to memory what the kernel does; an error fails the launch, with its words.
pub type KernelBody = Box<dyn Fn(&Launch, &mut SimMemory) -> Result<()> + Send + Sync>;

/// Code the simulated device can launch.
pub struct SimKernel {
    /// Its name, for errors.
    pub name: String,
    /// How many arguments a launch must have.
    pub parameters: usize,
    /// The time a launch takes.
    pub duration_ns: KernelDuration,
    /// What it does to memory, where that matters.
    pub body: Option<KernelBody>,
}
