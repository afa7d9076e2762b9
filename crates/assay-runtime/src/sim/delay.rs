//! Delays: launches that let their stream wait and hold no engine.

use super::SimBackend;
use super::memory::SimMemory;
use crate::backend::{
    DELAY_SLOT_BYTES, DevicePointer, KernelArgument, KernelId, Launch, Operation, Result,
};

impl SimBackend {
    /// Registers the kernel whose launches are delays; a second call returns the same.
    pub fn register_delay(&self) -> Result<KernelId> {
        let mut device = self.lock(Operation::Launch)?;
        if let Some(known) = device.delay {
            return Ok(known);
        }
        let kernel = KernelId(device.streams.new_id());
        device.delay = Some(kernel);
        Ok(kernel)
    }
}

/// The slot of a launch of the delay kernel.
pub(super) fn slot_of(launch: &Launch) -> Option<DevicePointer> {
    match launch.arguments[..] {
        [KernelArgument::Pointer(slot)] => Some(slot),
        _ => None,
    }
}

fn words(memory: &mut SimMemory, slot: DevicePointer) -> Result<[u64; 2]> {
    let mut bytes = [0; DELAY_SLOT_BYTES as usize];
    memory.read(slot.into(), &mut bytes)?;
    let (words, _) = bytes.as_chunks::<8>();
    Ok([0, 1].map(|index| words.get(index).copied().map_or(0, u64::from_ne_bytes)))
}

/// How long the delay is to be; 0 for a slot that cannot be read, which fails when it ends.
pub(super) fn requested_ns(memory: &mut SimMemory, slot: DevicePointer) -> u64 {
    words(memory, slot).map_or(0, |[requested, _]| requested)
}

pub(super) fn add_spent(
    memory: &mut SimMemory,
    slot: DevicePointer,
    duration_ns: u64,
) -> Result<()> {
    let [requested, spent] = words(memory, slot)?;
    let words = [requested, spent.saturating_add(duration_ns)];
    let mut bytes = [0; DELAY_SLOT_BYTES as usize];
    for (into, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(words) {
        *into = word.to_ne_bytes();
    }
    memory.write(slot.into(), &bytes)
}
