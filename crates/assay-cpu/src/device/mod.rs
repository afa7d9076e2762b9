//! The CPU as a device.

mod backend;
mod branch_times;
mod branches;
mod cpu_device;
mod delay;
mod executor;
mod graph;
mod kernel;
mod memory;
mod shared;
mod state;
mod transfers;

pub use cpu_device::{CpuDevice, CpuOptions};
pub use kernel::{CpuKernel, KernelCall};
pub use memory::CpuMemory;
