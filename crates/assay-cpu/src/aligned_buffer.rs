//! Buffers aligned to cache lines, and to huge pages where they are large.

use crate::simd::{SplitStep, TileB};
use std::alloc::Layout;
use std::ptr::NonNull;

/// From this size on, buffers are aligned to huge pages and request them.
pub(crate) const HUGE_PAGE_BYTES: usize = 2 << 20;

/// Zeroed bytes aligned to 64, so that no aligned vector load crosses a cache line.
pub(crate) struct AlignedBuffer {
    first: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the value owns its bytes.
unsafe impl Send for AlignedBuffer {}
// SAFETY: shared references only read.
unsafe impl Sync for AlignedBuffer {}

impl Default for AlignedBuffer {
    fn default() -> Self {
        AlignedBuffer { first: NonNull::dangling(), bytes: 0 }
    }
}

impl AlignedBuffer {
    pub fn zeroed(bytes: usize) -> Self {
        if bytes == 0 {
            return Self::default();
        }
        let layout = Self::layout(bytes);
        // SAFETY: the layout is not empty.
        let Some(first) = NonNull::new(unsafe { std::alloc::alloc(layout) }) else {
            std::alloc::handle_alloc_error(layout);
        };
        // Before the first write, which faults in the pages.
        prefer_huge_pages(first.as_ptr(), bytes);
        // SAFETY: these bytes were just allocated.
        unsafe { first.write_bytes(0, bytes) };
        AlignedBuffer { first, bytes }
    }

    fn layout(bytes: usize) -> Layout {
        let alignment = if bytes >= HUGE_PAGE_BYTES { HUGE_PAGE_BYTES } else { 64 };
        match Layout::from_size_align(bytes, alignment) {
            Ok(layout) => layout,
            // As `Vec` does.
            Err(_) => panic!("capacity overflow"),
        }
    }

    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the bytes are allocated and were set to zero.
        unsafe { std::slice::from_raw_parts(self.first.as_ptr(), self.bytes) }
    }

    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: the same, and they are borrowed for writing.
        unsafe { std::slice::from_raw_parts_mut(self.first.as_ptr(), self.bytes) }
    }

    /// `count` floats of unspecified values; allocates only to grow.
    pub fn floats(&mut self, count: usize) -> &mut [f32] {
        self.reserve(count.saturating_mul(4));
        // SAFETY: there are enough bytes, aligned for `f32`, and any bits are valid.
        unsafe { std::slice::from_raw_parts_mut(self.first.as_ptr().cast(), count) }
    }

    /// The same for 16-bit elements.
    pub fn halves(&mut self, count: usize) -> &mut [u16] {
        self.reserve(count.saturating_mul(2));
        // SAFETY: there are enough bytes, aligned for `u16`, and any bits are valid.
        unsafe { std::slice::from_raw_parts_mut(self.first.as_ptr().cast(), count) }
    }

    /// The same for steps of split operands.
    pub fn split_steps<const TERMS: usize>(&mut self, count: usize) -> &mut [SplitStep<TERMS>] {
        self.reserve(count.saturating_mul(size_of::<SplitStep<TERMS>>()));
        // SAFETY: there are enough bytes, aligned to 64, and any bits are valid.
        unsafe { std::slice::from_raw_parts_mut(self.first.as_ptr().cast(), count) }
    }

    /// The same for tiles of columns.
    pub fn tiles(&mut self, count: usize) -> &mut [TileB] {
        self.reserve(count.saturating_mul(size_of::<TileB>()));
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts_mut(self.first.as_ptr().cast(), count) }
    }

    fn reserve(&mut self, bytes: usize) {
        if self.bytes < bytes {
            *self = Self::zeroed(bytes.next_multiple_of(64));
        }
    }
}

impl Clone for AlignedBuffer {
    fn clone(&self) -> Self {
        let mut copy = Self::zeroed(self.bytes);
        copy.bytes_mut().copy_from_slice(self.bytes());
        copy
    }
}

impl Drop for AlignedBuffer {
    fn drop(&mut self) {
        if self.bytes > 0 {
            // SAFETY: allocated with this layout, and freed once.
            unsafe { std::alloc::dealloc(self.first.as_ptr(), Self::layout(self.bytes)) };
        }
    }
}

/// Requests 2 MiB pages, which avoid most TLB misses of a long read.
///
/// `first` is aligned to that size if the range contains a whole page.
#[cfg(target_os = "linux")]
pub(crate) fn prefer_huge_pages(first: *mut u8, bytes: usize) {
    let whole = bytes / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES;
    if whole > 0 {
        // SAFETY: the caller owns the range. Failure only means small pages.
        unsafe { libc::madvise(first.cast(), whole, libc::MADV_HUGEPAGE) };
    }
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn prefer_huge_pages(_first: *mut u8, _bytes: usize) {}
