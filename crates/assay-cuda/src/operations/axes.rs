//! The strides of the arrays of an elementwise operation, with mergeable axes collapsed.

use assay_operations::MOST_AXES;

/// Inputs and result.
pub(super) const ARRAYS: usize = 4;

/// The extent of each axis, and the stride of each array along it, in elements.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Axes {
    pub count: usize,
    pub extents: [i64; MOST_AXES],
    pub strides: [[i64; MOST_AXES]; ARRAYS],
}

impl Axes {
    /// Merges adjacent axes wherever they are one stride for every array.
    pub fn merged(layout: impl Iterator<Item = i64>) -> Self {
        let mut axes =
            Axes { count: 0, extents: [1; MOST_AXES], strides: [[0; MOST_AXES]; ARRAYS] };
        let mut axis = [0; 1 + ARRAYS];
        for (index, value) in layout.enumerate() {
            axis[index % (1 + ARRAYS)] = value;
            if index % (1 + ARRAYS) == ARRAYS {
                axes.add(axis[0], &axis[1..]);
            }
        }
        axes
    }

    /// One axis along which all arrays are contiguous.
    pub fn contiguous(count: i64) -> Self {
        let mut axes = Axes::merged(std::iter::empty());
        axes.add(count, &[1; ARRAYS]);
        axes
    }

    fn add(&mut self, extent: i64, strides: &[i64]) {
        if extent == 1 {
            return;
        }
        let last = self.count.wrapping_sub(1);
        let merges = self.count > 0
            && (0..ARRAYS).all(|array| self.strides[array][last] == extent * strides[array]);
        let index = if merges { last } else { self.count };
        let extent_before = if merges { self.extents[last] } else { 1 };
        if !merges {
            self.count += 1;
        }
        self.extents[index] = extent_before * extent;
        for (array, step) in self.strides.iter_mut().zip(strides) {
            array[index] = *step;
        }
    }

    /// The extent of each axis, and the strides of all arrays along it.
    pub fn iter(&self) -> impl Iterator<Item = (i64, [i64; ARRAYS])> {
        let strides = |axis| self.strides.map(|of_array: [i64; MOST_AXES]| of_array[axis]);
        (0..self.count).map(move |axis| (self.extents[axis], strides(axis)))
    }

    pub fn elements(&self) -> u64 {
        self.extents.iter().map(|extent| extent.unsigned_abs()).product()
    }

    /// Counts the last axis in vectors of so many elements.
    pub fn in_vectors(&mut self, vector: u64) {
        let Some(last) = self.count.checked_sub(1) else {
            return;
        };
        self.extents[last] /= vector as i64;
        for strides in &mut self.strides {
            strides[last] *= vector as i64;
        }
    }

    /// Whether an array is contiguous in the order of the result.
    pub fn is_contiguous(&self, array: usize) -> bool {
        self.count == 0 || (self.count == 1 && self.strides[array][0] == 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axes(rows: &[[i64; 5]]) -> Axes {
        Axes::merged(rows.iter().flatten().copied())
    }

    #[test]
    fn adjacent_axes_of_one_stride_merge() {
        let contiguous_axes =
            axes(&[[2, 12, 12, 12, 12], [3, 4, 4, 4, 4], [4, 1, 1, 1, 1], [1, 0, 0, 0, 0]]);
        assert_eq!((contiguous_axes.count, contiguous_axes.elements()), (1, 24));
        assert!((0..ARRAYS).all(|array| contiguous_axes.is_contiguous(array)));
    }

    #[test]
    fn contiguous_arrays_have_one_axis() {
        let contiguous = Axes::contiguous(24);
        assert_eq!(contiguous, axes(&[[24, 1, 1, 1, 1]]));
        assert!((0..ARRAYS).all(|array| contiguous.is_contiguous(array)));
        assert_eq!(Axes::contiguous(1).elements(), 1);
        assert_eq!(Axes::contiguous(0).elements(), 0);
    }

    #[test]
    fn broadcast_axes_do_not_merge() {
        let row = axes(&[[3, 4, 0, 0, 4], [4, 1, 1, 0, 1]]);
        assert_eq!(row.count, 2);
        assert_eq!(row.extents[..2], [3, 4]);
        assert_eq!(row.strides[1][..2], [0, 1]);
        assert!(!row.is_contiguous(1));
        let value = axes(&[[3, 4, 0, 0, 4], [4, 1, 0, 0, 1]]);
        assert_eq!((value.count, value.strides[1][0]), (1, 0));
    }

    #[test]
    fn empty_axes_have_no_elements() {
        assert_eq!(axes(&[[3, 0, 0, 0, 0], [0, 1, 1, 1, 1]]).elements(), 0);
        assert_eq!(axes(&[[1, 0, 0, 0, 0]]).elements(), 1);
    }
}
