//! Shapes and strides of the operands of a product.

use crate::error::{Result, check_value};

/// A strided matrix.
#[derive(Clone, Copy, Debug)]
pub struct Matrix<'a, T = f32> {
    /// The elements, from the first on.
    pub data: &'a [T],
    /// Number of rows.
    pub rows: usize,
    /// Number of columns.
    pub columns: usize,
    /// Elements from one row to the next.
    pub row_stride: usize,
    /// Elements from one column to the next.
    pub column_stride: usize,
}

impl<'a, T> Matrix<'a, T> {
    /// A contiguous row-major matrix.
    pub fn new(data: &'a [T], rows: usize, columns: usize) -> Self {
        Matrix { data, rows, columns, row_stride: columns, column_stride: 1 }
    }

    /// The transposed matrix, over the same elements.
    pub fn transposed(self) -> Self {
        Matrix {
            data: self.data,
            rows: self.columns,
            columns: self.rows,
            row_stride: self.column_stride,
            column_stride: self.row_stride,
        }
    }

    pub(super) fn offset(&self, row: usize, column: usize) -> usize {
        row * self.row_stride + column * self.column_stride
    }

    pub(super) fn check(&self, argument: &'static str) -> Result<()> {
        let reach = |extent: usize, stride: usize| (extent.max(1) - 1).checked_mul(stride);
        let last = reach(self.rows, self.row_stride)
            .zip(reach(self.columns, self.column_stride))
            .and_then(|(down, across)| down.checked_add(across));
        let empty = self.rows == 0 || self.columns == 0;
        check_value(
            "matmul",
            argument,
            empty || last.is_some_and(|last| last < self.data.len()),
            format_args!("strides within {} elements", self.data.len()),
            format_args!(
                "{} x {} at strides {} and {}",
                self.rows, self.columns, self.row_stride, self.column_stride
            ),
        )
    }
}

/// The shape of a linear layer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LinearShape {
    /// Rows of activations.
    pub rows: usize,
    /// Elements in a row of activations, and in a row of weights.
    pub inputs: usize,
    /// Rows of weights: the output features.
    pub outputs: usize,
}
