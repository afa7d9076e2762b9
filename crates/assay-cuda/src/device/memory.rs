//! Device and pinned memory: the allocation table, and stream-ordered frees.
//!
//! `cuMemFree` synchronizes the whole device. Device memory therefore comes from a memory pool of the
//! driver and is freed on a dedicated stream, which first waits for every other stream; no thread
//! blocks.

use super::context::PrimaryContext;
use super::driver_event::DriverEvent;
use super::stream::Stream;
use super::sync::lock;
use crate::library::{OUT_OF_MEMORY, SUCCESS};
use assay_runtime::backend::{
    Address, BackendError, DevicePointer, HostPointer, MemoryInfo, Operation, Result, Space,
    StreamId,
};
use cudarc::driver::sys::{
    CUmemAllocationType, CUmemLocationType, CUmemPool_attribute, CUmemPoolProps, CUmemoryPool,
};
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::ptr;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

/// `CU_MEMHOSTALLOC_PORTABLE`: pinned for every context.
const PORTABLE: u32 = 1;

#[derive(Default)]
struct AllocationTable {
    device: BTreeMap<u64, u64>,
    host: BTreeMap<u64, u64>,
}

impl AllocationTable {
    fn space(&self, space: Space) -> &BTreeMap<u64, u64> {
        match space {
            Space::Device => &self.device,
            Space::Host => &self.host,
        }
    }
}

pub(super) struct Memory {
    context: Arc<PrimaryContext>,
    pool: CUmemoryPool,
    total_bytes: u64,
    allocations: RwLock<AllocationTable>,
    /// Allocates on a stream of its own, so that allocations never wait for frees.
    allocation_stream: Stream,
    free_stream: Stream,
    /// Orders the free stream behind the other streams, one after the other.
    order: Mutex<DriverEvent>,
}

// SAFETY: the pool's handle may be used from any thread.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    pub fn new(context: &Arc<PrimaryContext>, ordinal: usize, total_bytes: u64) -> Result<Self> {
        let operation = Operation::AllocateDevice;
        let driver = context.enter(operation)?;
        // SAFETY: a plain structure of numbers and one pointer, for which zero is valid.
        let mut properties: CUmemPoolProps = unsafe { std::mem::zeroed() };
        properties.allocType = CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED;
        properties.location.type_ = CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE;
        properties.location.id = i32::try_from(ordinal).unwrap_or(-1);
        let mut pool = ptr::null_mut();
        // SAFETY: stores one handle.
        context.check(operation, unsafe {
            (driver.cuMemPoolCreate)(&raw mut pool, &raw const properties)
        })?;
        let mut off = 0i32;
        let attribute = CUmemPool_attribute::CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES;
        // SAFETY: the attribute is a 32-bit number. Enabled, it would let an allocation wait for
        // unrelated work.
        context.check(operation, unsafe {
            (driver.cuMemPoolSetAttribute)(pool, attribute, (&raw mut off).cast::<c_void>())
        })?;
        Ok(Memory {
            context: Arc::clone(context),
            pool,
            total_bytes,
            allocations: RwLock::default(),
            allocation_stream: Stream::new(context, StreamId::HOST, 0)?,
            free_stream: Stream::new(context, StreamId::HOST, 0)?,
            order: Mutex::new(DriverEvent::new(context)?),
        })
    }

    fn note(&self, space: Space, address: u64, bytes: u64) {
        let mut allocations = self.allocations.write().unwrap_or_else(PoisonError::into_inner);
        match space {
            Space::Device => allocations.device.insert(address, bytes),
            Space::Host => allocations.host.insert(address, bytes),
        };
    }

    fn forget(&self, operation: Operation, address: Address) -> Result<()> {
        let mut allocations = self.allocations.write().unwrap_or_else(PoisonError::into_inner);
        let removed = match address.space() {
            Space::Device => allocations.device.remove(&address.value()),
            Space::Host => allocations.host.remove(&address.value()),
        };
        removed.map(|_| ()).ok_or(BackendError::UnknownAddress { operation, address })
    }

    /// Refuses a range that is not inside one live allocation.
    pub fn check_range(&self, operation: Operation, address: Address, bytes: u64) -> Result<()> {
        let allocations = self.allocations.read().unwrap_or_else(PoisonError::into_inner);
        let below = allocations.space(address.space()).range(..=address.value());
        let unknown = BackendError::UnknownAddress { operation, address };
        let Some((start, length)) = below.last() else {
            return Err(unknown);
        };
        let inside = address.value() - start;
        if inside >= *length {
            return Err(unknown);
        }
        match length - inside {
            available if bytes > available => {
                Err(BackendError::OutOfBounds { operation, address, bytes, available })
            }
            _ => Ok(()),
        }
    }

    pub fn info(&self, operation: Operation) -> Result<MemoryInfo> {
        let driver = self.context.enter(operation)?;
        let (mut free, mut total) = (0, 0);
        // SAFETY: stores two numbers.
        let status = unsafe { (driver.cuMemGetInfo_v2)(&raw mut free, &raw mut total) };
        self.context.check(operation, status)?;
        Ok(MemoryInfo {
            free_bytes: (free as u64).min(self.total_bytes),
            total_bytes: self.total_bytes,
        })
    }

    pub fn allocate_device(&self, bytes: u64) -> Result<DevicePointer> {
        let operation = Operation::AllocateDevice;
        if bytes == 0 {
            return Err(BackendError::ZeroBytes { operation });
        }
        let driver = self.context.enter(operation)?;
        let refused = || -> Result<DevicePointer> {
            Err(BackendError::OutOfMemory {
                operation,
                requested: bytes,
                free: self.info(operation)?.free_bytes,
            })
        };
        let Some(size) = usize::try_from(bytes).ok().filter(|_| bytes <= self.total_bytes) else {
            return refused();
        };
        let mut address = 0;
        let mut attempt = || {
            // SAFETY: stores one address; the pool and the stream live.
            unsafe {
                (driver.cuMemAllocFromPoolAsync)(
                    &raw mut address,
                    size,
                    self.pool,
                    self.allocation_stream.handle(),
                )
            }
        };
        let mut status = attempt();
        if status == OUT_OF_MEMORY {
            // Freed memory may still be in use or cached by the driver's pool.
            self.release_freed(operation)?;
            status = attempt();
        }
        if status == OUT_OF_MEMORY {
            return refused();
        }
        self.context.check(operation, status)?;
        // Every stream may use the memory once this one has executed the allocation; nothing else is
        // ever queued on it.
        // SAFETY: the stream lives.
        let status = unsafe { (driver.cuStreamSynchronize)(self.allocation_stream.handle()) };
        self.context.check(operation, status)?;
        self.note(Space::Device, address, bytes);
        Ok(DevicePointer(address))
    }

    /// As [`Memory::allocate_device`], zeroed.
    pub fn allocate_zeros(&self, bytes: u64) -> Result<DevicePointer> {
        let operation = Operation::AllocateDevice;
        let pointer = self.allocate_device(bytes)?;
        let driver = self.context.enter(operation)?;
        let stream = self.allocation_stream.handle();
        // SAFETY: the memory was just allocated, and the stream is valid.
        let status = unsafe {
            match (driver.cuMemsetD8Async)(pointer.0, 0, bytes as usize, stream) {
                SUCCESS => (driver.cuStreamSynchronize)(stream),
                refused => refused,
            }
        };
        self.context.check(operation, status)?;
        Ok(pointer)
    }

    /// Makes later frees wait for everything queued on the stream so far.
    pub fn free_after(&self, stream: &Stream) -> Result<()> {
        let operation = Operation::FreeDevice;
        if let Some(member) = &*lock(&stream.capture) {
            // Captured work is not queued; `before` covers the work queued before the capture.
            return self.free_stream.wait(operation, &member.before);
        }
        let order = lock(&self.order);
        stream.record(operation, &order)?;
        self.free_stream.wait(operation, &order)
    }

    pub fn free_device(&self, pointer: DevicePointer, streams: &[Arc<Stream>]) -> Result<()> {
        let operation = Operation::FreeDevice;
        self.forget(operation, pointer.into())?;
        let driver = self.context.enter(operation)?;
        for stream in streams {
            self.free_after(stream)?;
        }
        // SAFETY: the pool allocated the address, which was just removed from the table.
        let status = unsafe { (driver.cuMemFreeAsync)(pointer.0, self.free_stream.handle()) };
        self.context.check(operation, status)
    }

    /// Waits until freed memory is no longer in use, then returns it from the driver's pool to the device.
    pub fn release_freed(&self, operation: Operation) -> Result<()> {
        let driver = self.context.enter(operation)?;
        // SAFETY: the stream and the pool live.
        let status = unsafe {
            match (driver.cuStreamSynchronize)(self.free_stream.handle()) {
                SUCCESS => (driver.cuMemPoolTrimTo)(self.pool, 0),
                failed => failed,
            }
        };
        self.context.check(operation, status)
    }

    pub fn allocate_host(&self, bytes: u64) -> Result<HostPointer> {
        let operation = Operation::AllocateHost;
        if bytes == 0 {
            return Err(BackendError::ZeroBytes { operation });
        }
        let driver = self.context.enter(operation)?;
        let refused = BackendError::OutOfMemory { operation, requested: bytes, free: 0 };
        let Ok(size) = usize::try_from(bytes) else {
            return Err(refused);
        };
        let mut pointer = ptr::null_mut();
        // SAFETY: stores one pointer.
        let status = unsafe { (driver.cuMemHostAlloc)(&raw mut pointer, size, PORTABLE) };
        if status == OUT_OF_MEMORY {
            return Err(refused);
        }
        self.context.check(operation, status)?;
        // The address leaves as an integer and comes back as one.
        let address = pointer.expose_provenance() as u64;
        self.note(Space::Host, address, bytes);
        Ok(HostPointer(address))
    }

    /// Frees pinned memory; the caller has waited for all work that may use it.
    pub fn free_host(&self, pointer: HostPointer) -> Result<()> {
        let operation = Operation::FreeHost;
        self.forget(operation, pointer.into())?;
        let driver = self.context.enter(operation)?;
        let pointer = ptr::with_exposed_provenance_mut(pointer.0 as usize);
        // SAFETY: the driver allocated it, and it was just removed from the table.
        let status = unsafe { (driver.cuMemFreeHost)(pointer) };
        self.context.check(operation, status)
    }

    /// Refuses an address that is not the start of a pinned allocation.
    pub fn check_host_start(&self, pointer: HostPointer) -> Result<()> {
        let allocations = self.allocations.read().unwrap_or_else(PoisonError::into_inner);
        match allocations.host.contains_key(&pointer.0) {
            true => Ok(()),
            false => Err(BackendError::UnknownAddress {
                operation: Operation::FreeHost,
                address: pointer.into(),
            }),
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        let Ok(driver) = self.context.enter(Operation::FreeDevice) else {
            // A lost context cannot free; the OS does at process exit.
            return;
        };
        let allocations =
            std::mem::take(self.allocations.get_mut().unwrap_or_else(PoisonError::into_inner));
        for address in allocations.device.into_keys() {
            // SAFETY: all streams of the device are idle or destroyed, and the table was just emptied.
            let _ = unsafe { (driver.cuMemFreeAsync)(address, self.free_stream.handle()) };
        }
        for address in allocations.host.into_keys() {
            let pointer = ptr::with_exposed_provenance_mut(address as usize);
            // SAFETY: as above.
            let _ = unsafe { (driver.cuMemFreeHost)(pointer) };
        }
        // SAFETY: no allocation can follow; the driver keeps the pool until pending frees are done.
        let _ = unsafe { (driver.cuMemPoolDestroy)(self.pool) };
    }
}
