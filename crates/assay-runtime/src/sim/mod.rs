//! A simulated device: virtual time, modeled bandwidths, deterministic results.
//!
//! It implements [`Backend`](crate::backend::Backend), so that pool, transfer, dispatch and
//! scheduler run on it unchanged, without a GPU and with injected faults. It is a discrete-event
//! simulation of in-order streams, one upload, one download, one compute and one host-copy engine,
//! stream priorities and the host time of every call. Delays hold no engine. It does not model
//! contention for memory bandwidth between engines, nor concurrent kernels.
//!
//! Driven from one thread it is deterministic to the nanosecond. It is thread-safe, but with
//! several threads the order of calls depends on their scheduling.

#![forbid(unsafe_code)]

mod delay;
mod device;
mod event_loop;
mod fault;
mod graph;
mod graph_replay;
mod implementation;
mod kernel;
mod memory;
mod profile;
mod work;

pub use fault::{Fault, FaultMoment};
pub use kernel::{KernelBody, KernelDuration, SimKernel};
pub use memory::{Contents, FRESH_BYTE, SimMemory};
pub use profile::{Link, MemoryModel, SimProfile};
pub use work::{Engine, SimSpan};

use crate::backend::{
    Address, BackendError, DeviceKind, DeviceProperties, KernelId, Operation, Result, Space,
};
use crate::clock::{Clock, VirtualClock};
use device::Device;
use std::sync::{Mutex, MutexGuard};

/// Options of a [`SimBackend`].
#[derive(Clone, Debug)]
pub struct SimOptions {
    /// The performance model.
    pub profile: SimProfile,
    /// Whether contents are stored.
    pub contents: Contents,
    /// Whether finished work is kept for [`SimBackend::take_timeline`].
    pub record_timeline: bool,
    /// The clock, which several devices may share.
    pub clock: VirtualClock,
}

impl Default for SimOptions {
    fn default() -> Self {
        SimOptions {
            profile: SimProfile::generic(),
            contents: Contents::Kept,
            record_timeline: false,
            clock: VirtualClock::new(),
        }
    }
}

/// The simulated device.
///
/// ```
/// use assay_runtime::backend::Backend;
/// use assay_runtime::sim::{SimBackend, SimOptions};
/// let device = SimBackend::new(SimOptions::default())?;
/// let stream = device.default_stream();
/// let buffer = device.allocate_device(1 << 20)?;
/// let before = device.clock().now_ns();
/// device.fill(stream, buffer.into(), 7, 1 << 20)?;
/// device.synchronize_stream(stream)?;
/// assert!(device.clock().now_ns() > before);
/// # Ok::<(), assay_runtime::backend::BackendError>(())
/// ```
pub struct SimBackend {
    properties: DeviceProperties,
    clock: VirtualClock,
    device: Mutex<Device>,
}

impl SimBackend {
    /// Creates a device, or fails for parameters with which nothing would ever finish.
    pub fn new(options: SimOptions) -> Result<Self> {
        options.profile.validate()?;
        let profile = options.profile;
        let properties = DeviceProperties {
            name: profile.name.clone(),
            kind: DeviceKind::Sim,
            memory_bytes: profile.device_memory.capacity_bytes,
            alignment_bytes: profile.alignment_bytes,
        };
        let memory = SimMemory::new(options.contents, profile.alignment_bytes);
        let mut device = Device::new(profile, memory, options.record_timeline);
        device.advance_to(options.clock.now_ns());
        Ok(SimBackend { properties, clock: options.clock, device: Mutex::new(device) })
    }

    /// The device's clock, which the caller may advance.
    pub fn virtual_clock(&self) -> &VirtualClock {
        &self.clock
    }

    /// Registers a kernel.
    pub fn register_kernel(&self, kernel: SimKernel) -> Result<KernelId> {
        let mut device = self.lock(Operation::Launch)?;
        let id = KernelId(device.streams.new_id());
        device.kernels.insert(id, kernel);
        Ok(id)
    }

    /// Injects a fault.
    pub fn inject(&self, fault: Fault) -> Result<()> {
        self.lock(fault.operation)?.faults.add(fault);
        Ok(())
    }

    /// Calls of this kind so far, including failed ones.
    pub fn calls(&self, operation: Operation) -> Result<u64> {
        Ok(self.lock(operation)?.faults.calls(operation))
    }

    /// Bytes allocated in this memory.
    pub fn used_bytes(&self, space: Space) -> Result<u64> {
        Ok(self.lock(Operation::AllocateDevice)?.memory.used_bytes(space))
    }

    /// Reads any memory at the current time, without waiting and without cost.
    pub fn peek(&self, source: Address, into: &mut [u8]) -> Result<()> {
        let mut device = self.lock(Operation::ReadHost)?;
        device.advance_to(self.clock.now_ns());
        device.memory.read(source, into)
    }

    /// The time of the next completion, if work is running; for driving virtual time.
    pub fn next_completion_ns(&self) -> Result<Option<u64>> {
        let mut device = self.lock(Operation::QueryStream)?;
        device.advance_to(self.clock.now_ns());
        Ok(device.next_completion_ns())
    }

    /// Takes the spans since the last call, in order of completion; empty unless recorded.
    pub fn take_timeline(&self) -> Result<Vec<SimSpan>> {
        let mut device = self.lock(Operation::QueryStream)?;
        device.advance_to(self.clock.now_ns());
        Ok(device.timeline.as_mut().map(std::mem::take).unwrap_or_default())
    }

    fn lock(&self, operation: Operation) -> Result<MutexGuard<'_, Device>> {
        self.device.lock().map_err(|_| BackendError::Driver {
            operation,
            message: "the simulated device is unusable after a panic in a kernel body".to_owned(),
        })
    }
}
