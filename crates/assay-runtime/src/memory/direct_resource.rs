//! Allocation without a pool: every request goes to the device. The baseline for policies.

use super::block::NONE;
use super::error::MemoryError;
use super::resource::{Allocation, MemoryResource, Request, Result, Usage};
use crate::backend::{Address, Backend, DevicePointer, HostPointer, Space, StreamId};
use crate::sync::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Flag in the index of an allocation that has no block descriptor; the other bits number its
/// resource.
const DIRECT_FLAG: u32 = 1 << 31;

/// Resource numbers that fit beside the flag without colliding with [`NONE`].
const NUMBERS: u32 = DIRECT_FLAG - 1;

/// Numbers the resources, so that each rejects allocations of another.
static NEXT_NUMBER: AtomicU32 = AtomicU32::new(0);

#[derive(Default)]
struct Live {
    /// Bytes and serial number by address.
    by_address: HashMap<u64, (u64, u32)>,
    bytes: u64,
    last_serial: u32,
}

/// Allocates directly from the device.
pub struct DirectResource {
    backend: Arc<dyn Backend>,
    space: Space,
    capacity_bytes: u64,
    index: u32,
    live: Mutex<Live>,
}

impl DirectResource {
    /// A resource that may hold at most `capacity_bytes`.
    pub fn new(backend: Arc<dyn Backend>, space: Space, capacity_bytes: u64) -> Self {
        DirectResource {
            backend,
            space,
            capacity_bytes,
            index: DIRECT_FLAG | (NEXT_NUMBER.fetch_add(1, Ordering::Relaxed) % NUMBERS),
            live: Mutex::new(Live::default()),
        }
    }

    fn check_stream(&self, stream: StreamId) -> Result<()> {
        if stream == StreamId::HOST {
            return Ok(());
        }
        // Called for its error on unknown streams.
        self.backend.is_capturing(stream)?;
        Ok(())
    }
}

fn poisoned<T>(_: T) -> MemoryError {
    MemoryError::Poisoned { resource: "direct memory resource" }
}

impl MemoryResource for DirectResource {
    fn space(&self) -> Space {
        self.space
    }

    fn allocate(&self, request: &Request) -> Result<Allocation> {
        let bytes = request.bytes;
        if bytes == 0 {
            return Ok(Allocation::empty(self.space));
        }
        self.check_stream(request.stream)?;
        let mut live = self.live.lock().map_err(poisoned)?;
        let free = self.capacity_bytes - live.bytes;
        if bytes > free {
            return Err(MemoryError::OutOfMemory {
                space: self.space,
                requested: bytes,
                allocated: live.bytes,
                capacity: self.capacity_bytes,
                largest_free: free,
            });
        }
        let address = match self.space {
            Space::Device => self.backend.allocate_device(bytes)?.0,
            Space::Host => self.backend.allocate_host(bytes)?.0,
        };
        live.last_serial = live.last_serial.wrapping_add(1);
        let serial = live.last_serial;
        live.bytes += bytes;
        live.by_address.insert(address, (bytes, serial));
        Ok(Allocation {
            address: Address::new(self.space, address),
            bytes,
            index: self.index,
            generation: serial,
        })
    }

    fn deallocate(&self, allocation: Allocation, stream: StreamId) -> Result<()> {
        if allocation.index == NONE {
            return Ok(());
        }
        self.check_stream(stream)?;
        let address = allocation.address;
        let mut live = self.live.lock().map_err(poisoned)?;
        let known = live.by_address.get(&address.value()).copied();
        let own = address.space() == self.space && allocation.index == self.index;
        match known {
            Some((bytes, serial)) if own && serial == allocation.generation => {
                match address {
                    Address::Device(DevicePointer(value)) => {
                        self.backend.free_device(DevicePointer(value))?;
                    }
                    Address::Host(HostPointer(value)) => {
                        self.backend.free_host(HostPointer(value))?;
                    }
                }
                live.by_address.remove(&address.value());
                live.bytes -= bytes;
                Ok(())
            }
            _ if own && allocation.generation <= live.last_serial => {
                Err(MemoryError::AlreadyFreed { address })
            }
            _ => Err(MemoryError::UnknownAllocation { address }),
        }
    }

    fn usage(&self) -> Result<Usage> {
        let live = self.live.lock().map_err(poisoned)?;
        Ok(Usage {
            allocated_bytes: live.bytes,
            live: live.by_address.len() as u64,
            held_bytes: live.bytes,
            capacity_bytes: self.capacity_bytes,
        })
    }
}

impl Drop for DirectResource {
    fn drop(&mut self) {
        if let Ok(live) = self.live.lock() {
            for address in live.by_address.keys() {
                // Errors cannot be reported from a drop.
                let _ = match self.space {
                    Space::Device => self.backend.free_device(DevicePointer(*address)),
                    Space::Host => self.backend.free_host(HostPointer(*address)),
                };
            }
        }
    }
}
