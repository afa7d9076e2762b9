//! Real memory: where allocations are, and checked access to them.

use super::ALIGNMENT_BYTES;
use crate::aligned_buffer::{HUGE_PAGE_BYTES, prefer_huge_pages};
use assay_runtime::backend::{Address, BackendError, Operation, Result, Space};
use std::alloc::Layout;
use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// One piece taken from the system allocator.
struct Allocation {
    bytes: u64,
    /// What the system gave; the address handed out lies inside, at the alignment asked for.
    base: usize,
    layout: Layout,
}

#[derive(Default)]
struct Books {
    device: BTreeMap<u64, Allocation>,
    host: BTreeMap<u64, Allocation>,
    used_bytes: u64,
}

impl Books {
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
/// Device and pinned memory are the same memory under two names: addresses are those of the
/// process. Who reads or writes through them is bound by the order of streams and events, as on
/// any device.
pub struct CpuMemory {
    books: RwLock<Books>,
    total_bytes: u64,
}

impl CpuMemory {
    pub(super) fn new(total_bytes: u64) -> Self {
        CpuMemory {
            books: RwLock::new(Books::default()),
            total_bytes,
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, Books> {
        self.books.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Books> {
        self.books.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes handed out, in both spaces.
    pub fn used_bytes(&self) -> u64 {
        self.read().used_bytes
    }

    /// Bytes in all.
    pub fn total_bytes(&self) -> u64 {
        self.total_bytes
    }

    pub(super) fn allocate(&self, operation: Operation, space: Space, bytes: u64) -> Result<u64> {
        if bytes == 0 {
            return Err(BackendError::ZeroBytes { operation });
        }
        let mut books = self.write();
        let free = self.total_bytes.saturating_sub(books.used_bytes);
        let refused = BackendError::OutOfMemory {
            operation,
            requested: bytes,
            free,
        };
        if bytes > free {
            return Err(refused);
        }
        let alignment = if bytes >= HUGE_PAGE_BYTES as u64 {
            HUGE_PAGE_BYTES as u64
        } else {
            ALIGNMENT_BYTES
        };
        // Zeroed at the system's own alignment, fresh pages stay untouched until they are used; a
        // wider alignment would have the standard library clear them here.
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
        // The address is handed out as a number, and comes back as one.
        let base = base.expose_provenance();
        let first = (base as u64).next_multiple_of(alignment);
        let pointer = std::ptr::with_exposed_provenance_mut(first as usize);
        prefer_huge_pages(pointer, bytes as usize);
        let allocation = Allocation {
            bytes,
            base,
            layout,
        };
        books.space_mut(space).insert(first, allocation);
        books.used_bytes += bytes;
        Ok(first)
    }

    /// Gives an allocation back; the caller has made sure that no work uses it any more.
    pub(super) fn free(&self, operation: Operation, address: Address) -> Result<()> {
        let mut books = self.write();
        let Some(allocation) = books.space_mut(address.space()).remove(&address.value()) else {
            return Err(BackendError::UnknownAddress { operation, address });
        };
        books.used_bytes -= allocation.bytes;
        let base = std::ptr::with_exposed_provenance_mut(allocation.base);
        // SAFETY: pointer and layout are those of the allocation, which has just left the books.
        unsafe { std::alloc::dealloc(base, allocation.layout) };
        Ok(())
    }

    /// Whether an allocation begins here.
    pub(super) fn check_start(&self, operation: Operation, address: Address) -> Result<()> {
        match self
            .read()
            .space(address.space())
            .contains_key(&address.value())
        {
            true => Ok(()),
            false => Err(BackendError::UnknownAddress { operation, address }),
        }
    }

    /// The first byte of a range that lies in one live allocation.
    ///
    /// The pointer is good until that allocation is freed, which waits for all queued work.
    pub fn pointer(&self, operation: Operation, address: Address, bytes: u64) -> Result<*mut u8> {
        let books = self.read();
        let below = books.space(address.space()).range(..=address.value());
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
            return Err(BackendError::OutOfBounds {
                operation,
                address,
                bytes,
                available,
            });
        }
        Ok(std::ptr::with_exposed_provenance_mut(
            address.value() as usize
        ))
    }

    /// A copy of the bytes as they are now; queued work is not waited for.
    pub fn snapshot(&self, address: Address, bytes: u64) -> Result<Vec<u8>> {
        let mut taken = vec![0; usize::try_from(bytes).unwrap_or(usize::MAX)];
        let source = self.pointer(Operation::ReadHost, address, bytes)?;
        // SAFETY: the range was checked, and the vector is as long.
        unsafe { std::ptr::copy_nonoverlapping(source, taken.as_mut_ptr(), taken.len()) };
        Ok(taken)
    }
}

impl Drop for CpuMemory {
    fn drop(&mut self) {
        let books = self.books.get_mut().unwrap_or_else(PoisonError::into_inner);
        let device = std::mem::take(&mut books.device);
        let host = std::mem::take(&mut books.host);
        for allocation in device.into_values().chain(host.into_values()) {
            let base = std::ptr::with_exposed_provenance_mut(allocation.base);
            // SAFETY: pointer and layout are those of the allocation, which nobody can name now.
            unsafe { std::alloc::dealloc(base, allocation.layout) };
        }
    }
}

/// The machine's memory, where the system tells it.
#[cfg(unix)]
pub(super) fn physical_bytes() -> Option<u64> {
    // SAFETY: both calls only read system values.
    let (pages, page) = unsafe {
        (
            libc::sysconf(libc::_SC_PHYS_PAGES),
            libc::sysconf(libc::_SC_PAGESIZE),
        )
    };
    u64::try_from(pages)
        .ok()?
        .checked_mul(u64::try_from(page).ok()?)
}

#[cfg(not(unix))]
pub(super) fn physical_bytes() -> Option<u64> {
    None
}

/// The processor as the system names it, else its instruction set.
pub(super) fn processor_name() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let named = text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == "model name").then(|| value.trim().to_owned())
    });
    named.unwrap_or_else(|| std::env::consts::ARCH.to_owned())
}
