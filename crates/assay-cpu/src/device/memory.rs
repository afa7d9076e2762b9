//! Host memory: the allocation table, and bounds-checked access.

use crate::aligned_buffer::{HUGE_PAGE_BYTES, prefer_huge_pages};
use assay_runtime::backend::{Address, BackendError, Operation, Result, Space};
use std::alloc::Layout;
use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Alignment of allocations: a cache line, and the widest vector.
pub(super) const ALIGNMENT_BYTES: u64 = 64;

/// One allocation of the system allocator.
struct Allocation {
    bytes: u64,
    /// The system's address; the allocation starts inside, at its alignment.
    base: usize,
    layout: Layout,
}

#[derive(Default)]
struct AllocationTable {
    device: BTreeMap<u64, Allocation>,
    host: BTreeMap<u64, Allocation>,
    used_bytes: u64,
}

impl AllocationTable {
    fn space(&self, space: Space) -> &BTreeMap<u64, Allocation> {
        match space {
            Space::Device => &self.device,
            Space::Host => &self.host,
        }
    }

    fn space_mut(&mut self, space: Space) -> &mut BTreeMap<u64, Allocation> {
        match space {
            Space::Device => &mut self.device,
            Space::Host => &mut self.host,
        }
    }
}

/// The memory of a [`CpuDevice`](super::CpuDevice).
///
/// Device and pinned memory are both host memory: addresses are those of the process. Stream and
/// event order governs accesses, as on any device.
pub struct CpuMemory {
    allocations: RwLock<AllocationTable>,
    total_bytes: u64,
}

impl CpuMemory {
    pub(super) fn new(total_bytes: u64) -> Self {
        CpuMemory { allocations: RwLock::new(AllocationTable::default()), total_bytes }
    }

    fn read(&self) -> RwLockReadGuard<'_, AllocationTable> {
        self.allocations.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, AllocationTable> {
        self.allocations.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Allocated bytes, in both spaces.
    pub fn used_bytes(&self) -> u64 {
        self.read().used_bytes
    }

    /// Total bytes.
    pub fn total_bytes(&self) -> u64 {
        self.total_bytes
    }

    pub(super) fn allocate(&self, operation: Operation, space: Space, bytes: u64) -> Result<u64> {
        if bytes == 0 {
            return Err(BackendError::ZeroBytes { operation });
        }
        let mut allocations = self.write();
        let free = self.total_bytes.saturating_sub(allocations.used_bytes);
        let refused = BackendError::OutOfMemory { operation, requested: bytes, free };
        if bytes > free {
            return Err(refused);
        }
        let alignment =
            if bytes >= HUGE_PAGE_BYTES as u64 { HUGE_PAGE_BYTES as u64 } else { ALIGNMENT_BYTES };
        // With the allocator's own alignment, `alloc_zeroed` does not touch fresh pages; for a larger
        // alignment the standard library would write zeros.
        let padded = bytes
            .checked_add(alignment)
            .and_then(|size| usize::try_from(size).ok())
            .and_then(|size| Layout::from_size_align(size, 16).ok());
        let Some(layout) = padded else {
            return Err(refused);
        };
        // SAFETY: the layout is not empty, since zero bytes were refused above.
        let base = unsafe { std::alloc::alloc_zeroed(layout) };
        if base.is_null() {
            return Err(refused);
        }
        // The address leaves as an integer and comes back as one.
        let base = base.expose_provenance();
        let first = (base as u64).next_multiple_of(alignment);
        let pointer = std::ptr::with_exposed_provenance_mut(first as usize);
        prefer_huge_pages(pointer, bytes as usize);
        let allocation = Allocation { bytes, base, layout };
        allocations.space_mut(space).insert(first, allocation);
        allocations.used_bytes += bytes;
        Ok(first)
    }

    /// Frees an allocation; the caller guarantees that no work uses it.
    pub(super) fn free(&self, operation: Operation, address: Address) -> Result<()> {
        let mut allocations = self.write();
        let Some(allocation) = allocations.space_mut(address.space()).remove(&address.value())
        else {
            return Err(BackendError::UnknownAddress { operation, address });
        };
        allocations.used_bytes -= allocation.bytes;
        let base = std::ptr::with_exposed_provenance_mut(allocation.base);
        // SAFETY: pointer and layout are those of the allocation, which was just removed from the table.
        unsafe { std::alloc::dealloc(base, allocation.layout) };
        Ok(())
    }

    /// Refuses an address that is not the start of an allocation.
    pub(super) fn check_start(&self, operation: Operation, address: Address) -> Result<()> {
        match self.read().space(address.space()).contains_key(&address.value()) {
            true => Ok(()),
            false => Err(BackendError::UnknownAddress { operation, address }),
        }
    }

    /// The first byte of a range inside one live allocation.
    ///
    /// The pointer is valid until that allocation is freed, which waits for all queued work.
    pub fn pointer(&self, operation: Operation, address: Address, bytes: u64) -> Result<*mut u8> {
        let allocations = self.read();
        let below = allocations.space(address.space()).range(..=address.value());
        let unknown = BackendError::UnknownAddress { operation, address };
        let Some((start, allocation)) = below.last() else {
            return Err(unknown);
        };
        let inside = address.value() - start;
        if inside >= allocation.bytes {
            return Err(unknown);
        }
        let available = allocation.bytes - inside;
        if bytes > available {
            return Err(BackendError::OutOfBounds { operation, address, bytes, available });
        }
        Ok(std::ptr::with_exposed_provenance_mut(address.value() as usize))
    }

    /// A copy of the current bytes; does not wait for queued work.
    pub fn snapshot(&self, address: Address, bytes: u64) -> Result<Vec<u8>> {
        let mut copy = vec![0; usize::try_from(bytes).unwrap_or(usize::MAX)];
        let source = self.pointer(Operation::ReadHost, address, bytes)?;
        // SAFETY: the range was checked, and the vector is as long.
        unsafe { std::ptr::copy_nonoverlapping(source, copy.as_mut_ptr(), copy.len()) };
        Ok(copy)
    }
}

impl Drop for CpuMemory {
    fn drop(&mut self) {
        let allocations = self.allocations.get_mut().unwrap_or_else(PoisonError::into_inner);
        let device = std::mem::take(&mut allocations.device);
        let host = std::mem::take(&mut allocations.host);
        for allocation in device.into_values().chain(host.into_values()) {
            let base = std::ptr::with_exposed_provenance_mut(allocation.base);
            // SAFETY: pointer and layout are those of the allocation, which is unreachable now.
            unsafe { std::alloc::dealloc(base, allocation.layout) };
        }
    }
}

/// The machine's memory, if the system reports it.
#[cfg(unix)]
pub(super) fn physical_bytes() -> Option<u64> {
    // SAFETY: both calls only read system values.
    let (pages, page) =
        unsafe { (libc::sysconf(libc::_SC_PHYS_PAGES), libc::sysconf(libc::_SC_PAGESIZE)) };
    u64::try_from(pages).ok()?.checked_mul(u64::try_from(page).ok()?)
}

#[cfg(not(unix))]
pub(super) fn physical_bytes() -> Option<u64> {
    None
}

/// The CPU's model name, else its architecture.
pub(super) fn cpu_name() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let named = text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == "model name").then(|| value.trim().to_owned())
    });
    named.unwrap_or_else(|| std::env::consts::ARCH.to_owned())
}
