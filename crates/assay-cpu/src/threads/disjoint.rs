//! One output written by several threads, each its own range.

use std::marker::PhantomData;
use std::ops::Range;

/// A mutable slice that tasks write to in disjoint ranges.
pub(crate) struct DisjointSlice<'a, T> {
    first: *mut T,
    length: usize,
    borrow: PhantomData<&'a mut [T]>,
}

// SAFETY: tasks write to ranges that do not overlap, as `slice_mut` requires.
unsafe impl<T: Send> Sync for DisjointSlice<'_, T> {}

impl<'a, T> DisjointSlice<'a, T> {
    pub fn new(slice: &'a mut [T]) -> Self {
        DisjointSlice { first: slice.as_mut_ptr(), length: slice.len(), borrow: PhantomData }
    }

    /// Prefetches the cache line of an element; any index is allowed.
    #[inline(always)]
    pub fn prefetch(&self, index: usize) {
        crate::simd::prefetch(self.first.wrapping_add(index));
    }

    /// The range as a mutable slice.
    ///
    /// # Safety
    ///
    /// No overlapping range is borrowed at the same time.
    // The borrow is of the underlying slice, which the caller partitions.
    #[allow(clippy::mut_from_ref)]
    pub unsafe fn slice_mut(&self, range: Range<usize>) -> &mut [T] {
        assert!(range.start <= range.end && range.end <= self.length);
        // SAFETY: the range is inside the slice, and the caller guarantees no overlap.
        unsafe { std::slice::from_raw_parts_mut(self.first.add(range.start), range.len()) }
    }
}
