//! Rows of floats of equal width, aligned for vector loads.

/// Floats per cache line.
const LINE: usize = 8;

/// A table of rows, each `width` floats long.
#[derive(Debug, Default)]
pub(super) struct Rows {
    data: Vec<f64>,
    /// Floats to skip so that the first row starts on a cache line.
    offset: usize,
    stride: usize,
}

impl Rows {
    /// A table of zeros.
    pub(super) fn new(count: usize, width: usize) -> Rows {
        // Short rows are packed; long ones are padded so that equal columns of different rows do
        // not map to the same set of the L1 cache.
        let stride = if width < LINE { width } else { width.next_multiple_of(LINE) + LINE };
        let data = vec![0.0; count * stride + LINE];
        let misaligned = data.as_ptr().addr() / size_of::<f64>() % LINE;
        Rows { offset: (LINE - misaligned) % LINE, data, stride }
    }

    /// Address of the first row.
    pub(super) fn as_mut_ptr(&mut self) -> *mut f64 {
        self.data[self.offset..].as_mut_ptr()
    }

    /// Floats from one row to the next.
    pub(super) fn stride(&self) -> usize {
        self.stride
    }

    /// The first `lanes` floats of a row.
    #[inline]
    pub(super) fn row(&self, index: usize, lanes: usize) -> &[f64] {
        let start = self.offset + index * self.stride;
        &self.data[start..start + lanes]
    }

    /// The first `lanes` floats of a row, to be written.
    #[inline]
    pub(super) fn row_mut(&mut self, index: usize, lanes: usize) -> &mut [f64] {
        let start = self.offset + index * self.stride;
        &mut self.data[start..start + lanes]
    }

    /// One row to be written and all others to be read.
    #[inline]
    pub(super) fn split(&mut self, index: usize, lanes: usize) -> (&mut [f64], OtherRows<'_>) {
        let start = self.offset + index * self.stride;
        let (before, rest) = self.data.split_at_mut(start);
        let (row, after) = rest.split_at_mut(self.stride);
        let others = OtherRows { before, after, index, offset: self.offset, stride: self.stride };
        (&mut row[..lanes], others)
    }
}

/// All rows of a table but one.
#[derive(Clone, Copy)]
pub(super) struct OtherRows<'a> {
    before: &'a [f64],
    after: &'a [f64],
    index: usize,
    offset: usize,
    stride: usize,
}

impl<'a> OtherRows<'a> {
    /// The first `lanes` floats of a row other than the one split off.
    #[inline]
    pub(super) fn row(&self, index: usize, lanes: usize) -> &'a [f64] {
        debug_assert_ne!(index, self.index, "a row cannot be read while it is written");
        if index < self.index {
            let start = self.offset + index * self.stride;
            &self.before[start..start + lanes]
        } else {
            let start = (index - self.index - 1) * self.stride;
            &self.after[start..start + lanes]
        }
    }
}
