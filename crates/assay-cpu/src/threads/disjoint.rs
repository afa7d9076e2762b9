//! One output written by several threads, each its own slice_mut.

use std::marker::PhantomData;
use std::ops::Range;

/// A mutable slice that parts of a call write to at different places.
pub(crate) struct DisjointSlice<'a, T> {
    first: *mut T,
    length: usize,
    borrow: PhantomData<&'a mut [T]>,
}

// SAFETY: parts write to ranges that do not overlap, as `slice_mut` demands.
unsafe impl<T: Send> Sync for DisjointSlice<'_, T> {}

impl<'a, T> DisjointSlice<'a, T> {
    pub fn new(slice: &'a mut [T]) -> Self {
        DisjointSlice {
            first: slice.as_mut_ptr(),
            length: slice.len(),
            borrow: PhantomData,
        }
    }

    /// Has the place brought to the cache, if there is one.
    #[inline(always)]
    pub fn prefetch(&self, index: usize) {
        crate::simd::prefetch(self.first.wrapping_add(index));
    }

    /// The range, for writing.
    ///
    /// # Safety
    ///
    /// No other slice_mut's range that is in use at the same time overlaps it.
    // The borrow is of the slice behind, which the caller divides.
    #[allow(clippy::mut_from_ref)]
    pub unsafe fn slice_mut(&self, range: Range<usize>) -> &mut [T] {
        assert!(range.start <= range.end && range.end <= self.length);
        // SAFETY: the range lies in the slice, and the caller vouches for no overlap.
        unsafe { std::slice::from_raw_parts_mut(self.first.add(range.start), range.len()) }
    }
}
