//! Batched strided GEMM.

use super::call::{Call, for_element, op_error};
use crate::ops::{self, Context, Element, Epilogue, LinearShape, Matrix};
use assay_operations::ElementFormat;
use assay_runtime::backend::Result;
use std::cell::RefCell;

/// The shape of a batch of strided matrices; strides are in elements.
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
    /// Elements from the first to the last, inclusive.
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
        let sum = parts.into_iter().try_fold(1_usize, |sum, part| sum.checked_add(part?));
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
    /// The `f32` result before conversion to the output's type.
    static F32_OUT: RefCell<Vec<f32>> = RefCell::default();
    /// The left matrix as `f32`.
    static F32_LEFT: RefCell<Vec<f32>> = RefCell::default();
}

pub(super) fn matmul(context: Context, call: &Call<'_>) -> Result<()> {
    let (batch, m, k, n) = (call.size("batch")?, call.size("m")?, call.size("k")?, call.size("n")?);
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
            return multiply(context, (a, left), (b, right), out).map_err(op_error);
        }
        for_element!(call, "out", T => {
            let out = call.span::<T>("out", &sizes)?;
            if !call.runs() {
                return Ok(());
            }
            // SAFETY: the kernel runs, and operands do not overlap.
            let (left, right, out) = unsafe { (left.read(), right.read(), out.write()) };
            F32_OUT.with_borrow_mut(|buffer| {
                buffer.resize(out.len(), 0.0);
                multiply(context, (a, left), (b, right), buffer).map_err(op_error)?;
                ops::convert_from_f32(context, buffer, out);
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
    if let (Some(left), Some(right)) = (A::as_floats(left), B::as_floats(right)) {
        let matrices = |index: usize| (a.matrix(left, index), b.matrix(right, index));
        let (first, second) = matrices(0);
        match context.level.amx() {
            Some(amx)
                if ops::split_products_apply(a.batch, &first, &second)
                    && ops::split_products(context, amx, &matrices, m * n, out) =>
            {
                return Ok(());
            }
            None if ops::plane_products_apply(a.batch, &first, &second) => {
                ops::plane_products(context, &matrices, m * n, out);
                return Ok(());
            }
            _ => {}
        }
    }
    // A contiguous transposed right matrix is a linear layer, which streams it once.
    let rows_in_order = a.column_stride == 1 && a.row_stride == k;
    let columns_in_order = b.row_stride == 1 && b.column_stride == k;
    for (index, out) in out.chunks_exact_mut((m * n).max(1)).enumerate() {
        let (left, right) = (a.matrix(left, index), b.matrix(right, index));
        let as_linear = rows_in_order && columns_in_order && m * k * n > 0;
        if as_linear && !ops::amx_matmul_applies(context, &left, &right) {
            let shape = LinearShape { rows: m, inputs: k, outputs: n };
            let right = &right.data[..n * k];
            F32_LEFT.with_borrow_mut(|buffer| {
                buffer.clear();
                buffer.extend(left.data[..m * k].iter().map(|&value| value.into()));
                ops::linear(context, buffer, right, shape, Epilogue::default(), false, out)
            })?;
        } else {
            ops::matmul(context, left, right, out)?;
        }
    }
    Ok(())
}
