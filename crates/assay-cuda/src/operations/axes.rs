//! How the arrays of an elementwise operation lie beside each other, with as few axes as can be.

use assay_operations::MOST_AXES;

/// Inputs and result.
pub(super) const ARRAYS: usize = 4;

/// Where arrays lie: the extent of each axis, and the step of each array along it, in elements.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Axes {
    pub count: usize,
    pub extents: [i64; MOST_AXES],
    pub steps: [[i64; MOST_AXES]; ARRAYS],
}

impl Axes {
    /// Takes neighboring axes together wherever every array goes through them in one stride.
    pub fn merged(numbers: impl Iterator<Item = i64>) -> Self {
        let mut axes = Axes {
            count: 0,
            extents: [1; MOST_AXES],
            steps: [[0; MOST_AXES]; ARRAYS],
        };
        let mut axis = [0; 1 + ARRAYS];
        for (place, number) in numbers.enumerate() {
            axis[place % (1 + ARRAYS)] = number;
            if place % (1 + ARRAYS) == ARRAYS {
                axes.add(axis[0], &axis[1..]);
            }
        }
        axes
    }

    /// One axis that all arrays go along without gaps.
    pub fn line(count: i64) -> Self {
        let mut axes = Axes::merged(std::iter::empty());
        axes.add(count, &[1; ARRAYS]);
        axes
    }

    fn add(&mut self, extent: i64, steps: &[i64]) {
        if extent == 1 {
            return;
        }
        let last = self.count.wrapping_sub(1);
        let follows = self.count > 0
            && (0..ARRAYS).all(|array| self.steps[array][last] == extent * steps[array]);
        let place = if follows { last } else { self.count };
        let before = if follows { self.extents[last] } else { 1 };
        if !follows {
            self.count += 1;
        }
        self.extents[place] = before * extent;
        for (array, step) in self.steps.iter_mut().zip(steps) {
            array[place] = *step;
        }
    }

    /// The extent of each axis, and the steps of all arrays along it.
    pub fn iter(&self) -> impl Iterator<Item = (i64, [i64; ARRAYS])> {
        let steps = |axis| self.steps.map(|of_array: [i64; MOST_AXES]| of_array[axis]);
        (0..self.count).map(move |axis| (self.extents[axis], steps(axis)))
    }

    pub fn elements(&self) -> u64 {
        self.extents
            .iter()
            .map(|extent| extent.unsigned_abs())
            .product()
    }

    /// Counts pieces of so many elements along the last axis.
    pub fn in_pieces(&mut self, together: u64) {
        let Some(last) = self.count.checked_sub(1) else {
            return;
        };
        self.extents[last] /= together as i64;
        for steps in &mut self.steps {
            steps[last] *= together as i64;
        }
    }

    /// Whether an array's elements lie in the order of the result, one after the other.
    pub fn is_dense(&self, array: usize) -> bool {
        self.count == 0 || (self.count == 1 && self.steps[array][0] == 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axes(rows: &[[i64; 5]]) -> Axes {
        Axes::merged(rows.iter().flatten().copied())
    }

    #[test]
    fn axes_that_follow_each_other_become_one() {
        let dense = axes(&[
            [2, 12, 12, 12, 12],
            [3, 4, 4, 4, 4],
            [4, 1, 1, 1, 1],
            [1, 0, 0, 0, 0],
        ]);
        assert_eq!((dense.count, dense.elements()), (1, 24));
        assert!((0..ARRAYS).all(|array| dense.is_dense(array)));
    }

    #[test]
    fn a_line_is_one_dense_axis() {
        let line = Axes::line(24);
        assert_eq!(line, axes(&[[24, 1, 1, 1, 1]]));
        assert!((0..ARRAYS).all(|array| line.is_dense(array)));
        assert_eq!(Axes::line(1).elements(), 1);
        assert_eq!(Axes::line(0).elements(), 0);
    }

    #[test]
    fn a_broadcast_array_keeps_axes_apart() {
        let row = axes(&[[3, 4, 0, 0, 4], [4, 1, 1, 0, 1]]);
        assert_eq!(row.count, 2);
        assert_eq!(row.extents[..2], [3, 4]);
        assert_eq!(row.steps[1][..2], [0, 1]);
        assert!(!row.is_dense(1));
        let number = axes(&[[3, 4, 0, 0, 4], [4, 1, 0, 0, 1]]);
        assert_eq!((number.count, number.steps[1][0]), (1, 0));
    }

    #[test]
    fn nothing_at_all_has_no_elements() {
        assert_eq!(axes(&[[3, 0, 0, 0, 0], [0, 1, 1, 1, 1]]).elements(), 0);
        assert_eq!(axes(&[[1, 0, 0, 0, 0]]).elements(), 1);
    }
}
