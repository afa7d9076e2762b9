//! Batched matrix products at any strides.

use super::call::{Call, for_element, refused};
use crate::ops::{self, Context, Element, Epilogue, LinearShape, Matrix};
use assay_operations::ElementFormat;
use assay_runtime::backend::Result;
use std::cell::RefCell;

/// A batch of matrices in memory; strides count elements.
#[derive(Clone, Copy)]
struct Extents {
    batch: usize,
    rows: usize,
    columns: usize,
    batch_stride: usize,
    row_stride: usize,
    column_stride: usize,
}

impl Extents {
    /// Elements from the first to the last.
    fn reach(&self, call: &Call<'_>, name: &str) -> Result<usize> {
        let along = |extent: usize, stride: usize| match extent {
            0 => Some(0),
            _ => (extent - 1).checked_mul(stride),
        };
        if self.batch * self.rows * self.columns == 0 {
            return Ok(0);
        }
        let parts = [
            along(self.batch, self.batch_stride),
            along(self.rows, self.row_stride),
            along(self.columns, self.column_stride),
        ];
        let sum = parts
            .into_iter()
            .try_fold(1_usize, |sum, part| sum.checked_add(part?));
        sum.ok_or_else(|| call.error(name, "in memory", "strides beyond all addresses"))
    }

    fn matrix<'a, T>(&self, data: &'a [T], index: usize) -> Matrix<'a, T> {
        Matrix {
            data: data.get(index * self.batch_stride..).unwrap_or(&[]),
            rows: self.rows,
            columns: self.columns,
            row_stride: self.row_stride,
            column_stride: self.column_stride,
        }
    }
}

thread_local! {
    /// The result of a product before it is narrowed.
    static WIDE: RefCell<Vec<f32>> = RefCell::default();
    /// The left matrix in single precision.
    static LEFT: RefCell<Vec<f32>> = RefCell::default();
}

pub(super) fn matmul(context: Context, call: &Call<'_>) -> Result<()> {
    let (batch, m, k, n) = (
        call.size("batch")?,
        call.size("m")?,
        call.size("k")?,
        call.size("n")?,
    );
    let a = Extents {
        batch,
        rows: m,
        columns: k,
        batch_stride: call.size("a_batch_stride")?,
        row_stride: call.size("a_row_stride")?,
        column_stride: call.size("a_column_stride")?,
    };
    let b = Extents {
        batch,
        rows: k,
        columns: n,
        batch_stride: call.size("b_batch_stride")?,
        row_stride: call.size("b_row_stride")?,
        column_stride: call.size("b_column_stride")?,
    };
    let sizes = [batch, m, n];
    let (a_reach, b_reach) = (a.reach(call, "a")?, b.reach(call, "b")?);
    for_element!(call, "a", A => for_element!(call, "b", B => {
        let left = call.span::<A>("a", &[a_reach])?;
        let right = call.span::<B>("b", &[b_reach])?;
        if call.format("out")? == ElementFormat::F32 {
            let out = call.span::<f32>("out", &sizes)?;
            if !call.runs() {
                return Ok(());
            }
            // SAFETY: the kernel runs, and operands do not overlap.
            let (left, right, out) = unsafe { (left.read(), right.read(), out.write()) };
            return multiply(context, (a, left), (b, right), out).map_err(refused);
        }
        for_element!(call, "out", T => {
            let out = call.span::<T>("out", &sizes)?;
            if !call.runs() {
                return Ok(());
            }
            // SAFETY: the kernel runs, and operands do not overlap.
            let (left, right, out) = unsafe { (left.read(), right.read(), out.write()) };
            WIDE.with_borrow_mut(|wide| {
                wide.resize(out.len(), 0.0);
                multiply(context, (a, left), (b, right), wide).map_err(refused)?;
                ops::convert_from_f32(context, wide, out);
                Ok(())
            })
        })
    }))
}

fn multiply<A: Element, B: Element>(
    context: Context,
    (a, left): (Extents, &[A]),
    (b, right): (Extents, &[B]),
    out: &mut [f32],
) -> crate::error::Result<()> {
    let (m, k, n) = (a.rows, a.columns, b.columns);
    // The product with a transposed matrix, as in a linear layer: it is streamed once.
    let rows_in_order = a.column_stride == 1 && a.row_stride == k;
    let columns_in_order = b.row_stride == 1 && b.column_stride == k;
    for (index, out) in out.chunks_exact_mut((m * n).max(1)).enumerate() {
        let (left, right) = (a.matrix(left, index), b.matrix(right, index));
        let as_linear = rows_in_order && columns_in_order && m * k * n > 0;
        if as_linear && !ops::amx_matmul_applies(context, &left, &right) {
            let shape = LinearShape {
                rows: m,
                inputs: k,
                outputs: n,
            };
            let right = &right.data[..n * k];
            LEFT.with_borrow_mut(|wide| {
                wide.clear();
                wide.extend(left.data[..m * k].iter().map(|&value| value.into()));
                ops::linear(context, wide, right, shape, Epilogue::default(), false, out)
            })?;
        } else {
            ops::matmul(context, left, right, out)?;
        }
    }
    Ok(())
}
