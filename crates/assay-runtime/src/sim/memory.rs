//! The simulated device and host memory: address ranges, and optionally their contents.

use crate::backend::{Address, BackendError, Operation, Result, Space};
use std::collections::BTreeMap;

/// Whether the simulated device stores contents.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Contents {
    /// Every byte is stored and copied, so that results can be compared.
    Kept,
    /// Only sizes and times are modeled.
    Dropped,
}

/// The initial value of memory: not zero, so that tests catch code that relies on zeros.
pub const FRESH_BYTE: u8 = 0xA5;

struct Region {
    bytes: u64,
    /// Empty when contents are dropped.
    contents: Vec<u8>,
}

struct Memory {
    regions: BTreeMap<u64, Region>,
    next_address: u64,
    used_bytes: u64,
}

/// Device and host memory of one simulated device.
///
/// Addresses are never reused, so that a stale one is always recognized.
pub struct SimMemory {
    device: Memory,
    host: Memory,
    contents: Contents,
    alignment: u64,
}

impl SimMemory {
    pub(super) fn new(contents: Contents, alignment: u64) -> Self {
        let memory = |first_address: u64| Memory {
            regions: BTreeMap::new(),
            next_address: first_address.next_multiple_of(alignment),
            used_bytes: 0,
        };
        SimMemory { device: memory(1 << 44), host: memory(1 << 40), contents, alignment }
    }

    fn memory(&self, space: Space) -> &Memory {
        match space {
            Space::Device => &self.device,
            Space::Host => &self.host,
        }
    }

    fn memory_mut(&mut self, space: Space) -> &mut Memory {
        match space {
            Space::Device => &mut self.device,
            Space::Host => &mut self.host,
        }
    }

    /// Bytes allocated in this memory.
    pub fn used_bytes(&self, space: Space) -> u64 {
        self.memory(space).used_bytes
    }

    pub(super) fn allocate(
        &mut self,
        operation: Operation,
        space: Space,
        bytes: u64,
        capacity: u64,
    ) -> Result<u64> {
        if bytes == 0 {
            return Err(BackendError::ZeroBytes { operation });
        }
        let (kept, alignment) = (self.contents == Contents::Kept, self.alignment);
        let memory = self.memory_mut(space);
        let free = capacity.saturating_sub(memory.used_bytes);
        let out_of_memory = BackendError::OutOfMemory { operation, requested: bytes, free };
        let address = memory.next_address;
        // A guard gap of one alignment unit after each region.
        let end = address
            .checked_add(bytes)
            .and_then(|end| end.checked_next_multiple_of(alignment))
            .and_then(|end| end.checked_add(alignment));
        let (true, Some(end)) = (bytes <= free, end) else {
            return Err(out_of_memory);
        };
        let mut contents = Vec::new();
        if kept {
            let length = usize::try_from(bytes).map_err(|_| out_of_memory.clone())?;
            contents.try_reserve_exact(length).map_err(|_| out_of_memory)?;
            contents.resize(length, FRESH_BYTE);
        }
        memory.next_address = end;
        memory.used_bytes += bytes;
        memory.regions.insert(address, Region { bytes, contents });
        Ok(address)
    }

    pub(super) fn free(&mut self, operation: Operation, address: Address) -> Result<()> {
        let memory = self.memory_mut(address.space());
        let region = memory
            .regions
            .remove(&address.value())
            .ok_or(BackendError::UnknownAddress { operation, address })?;
        memory.used_bytes -= region.bytes;
        Ok(())
    }

    /// Start of the region that contains the range.
    fn locate(&self, operation: Operation, address: Address, bytes: u64) -> Result<u64> {
        let unknown = BackendError::UnknownAddress { operation, address };
        let (base, region) = self
            .memory(address.space())
            .regions
            .range(..=address.value())
            .next_back()
            .ok_or_else(|| unknown.clone())?;
        let inside = address.value() - base;
        if inside >= region.bytes {
            return Err(unknown);
        }
        let available = region.bytes - inside;
        if bytes > available {
            return Err(BackendError::OutOfBounds { operation, address, bytes, available });
        }
        Ok(*base)
    }

    /// Fails for a range that is not inside one live allocation.
    pub(super) fn check(&self, operation: Operation, address: Address, bytes: u64) -> Result<()> {
        self.locate(operation, address, bytes).map(|_| ())
    }

    /// The bytes of a range, or an error where contents are dropped.
    fn slice_mut(
        &mut self,
        operation: Operation,
        address: Address,
        bytes: u64,
    ) -> Result<&mut [u8]> {
        let base = self.locate(operation, address, bytes)?;
        if self.contents == Contents::Dropped {
            return Err(BackendError::ContentsNotKept { operation });
        }
        let unknown = BackendError::UnknownAddress { operation, address };
        let start = (address.value() - base) as usize;
        self.memory_mut(address.space())
            .regions
            .get_mut(&base)
            .and_then(|region| region.contents.get_mut(start..start + bytes as usize))
            .ok_or(unknown)
    }

    /// Copies a range out.
    pub fn read(&mut self, address: Address, into: &mut [u8]) -> Result<()> {
        let bytes = into.len() as u64;
        into.copy_from_slice(self.slice_mut(Operation::ReadHost, address, bytes)?);
        Ok(())
    }

    /// Overwrites a range; without contents only checks the range.
    pub fn write(&mut self, address: Address, from: &[u8]) -> Result<()> {
        let (operation, bytes) = (Operation::WriteHost, from.len() as u64);
        if self.contents == Contents::Dropped {
            return self.check(operation, address, bytes);
        }
        self.slice_mut(operation, address, bytes)?.copy_from_slice(from);
        Ok(())
    }

    /// Calls `change` on the bytes of a range; without contents only checks the range.
    pub fn update(
        &mut self,
        address: Address,
        bytes: u64,
        change: impl FnOnce(&mut [u8]),
    ) -> Result<()> {
        let operation = Operation::Launch;
        if self.contents == Contents::Dropped {
            return self.check(operation, address, bytes);
        }
        change(self.slice_mut(operation, address, bytes)?);
        Ok(())
    }

    pub(super) fn fill(&mut self, destination: Address, value: u8, bytes: u64) -> Result<()> {
        if self.contents == Contents::Dropped {
            return self.check(Operation::Fill, destination, bytes);
        }
        self.slice_mut(Operation::Fill, destination, bytes)?.fill(value);
        Ok(())
    }

    pub(super) fn copy(&mut self, source: Address, destination: Address, bytes: u64) -> Result<()> {
        let operation = Operation::Copy;
        let from = self.locate(operation, source, bytes)?;
        let to = self.locate(operation, destination, bytes)?;
        if self.contents == Contents::Dropped {
            return Ok(());
        }
        let from_start = (source.value() - from) as usize;
        let to_start = (destination.value() - to) as usize;
        let length = bytes as usize;
        if source.space() == destination.space() && from == to {
            if let Some(region) = self.memory_mut(source.space()).regions.get_mut(&from) {
                region.contents.copy_within(from_start..from_start + length, to_start);
            }
            return Ok(());
        }
        // Two regions of one map cannot be borrowed at once, so the source is moved out meanwhile.
        let source_memory = self.memory_mut(source.space());
        let Some(source_region) = source_memory.regions.get_mut(&from) else {
            return Err(BackendError::UnknownAddress { operation, address: source });
        };
        let borrowed = std::mem::take(&mut source_region.contents);
        let outcome = self
            .slice_mut(operation, destination, bytes)
            .map(|target| target.copy_from_slice(&borrowed[from_start..from_start + length]));
        if let Some(region) = self.memory_mut(source.space()).regions.get_mut(&from) {
            region.contents = borrowed;
        }
        outcome
    }
}
