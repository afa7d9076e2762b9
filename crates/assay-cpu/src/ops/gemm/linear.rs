//! Linear layers over dense weights: GEMV for few rows of activations, a small-M GEMM for more, and
//! the packed or AMX GEMM for many.

use super::amx::{amx_linear, amx_linear_applies};
use super::epilogue::Epilogue;
use super::gemv::{Gemv, OUTPUTS_AT_ONCE};
use super::matmul::matmul;
use super::matrix::{LinearShape, Matrix};
use super::small_m::{self, SmallMGemm, transpose};
use crate::aligned_buffer::AlignedBuffer;
use crate::context::Context;
use crate::error::{Result, check_length};
use crate::ops::dispatch::Element;
use crate::ops::split::{split_linear, split_linear_applies};
use crate::simd::{Kernel, LANES, Vector};
use crate::threads::DisjointSlice;
use std::cell::RefCell;

/// Rows from which packing the weights for a blocked GEMM pays off.
const MIN_GEMM_ROWS: usize = 32;

/// Writes `x @ weights.T` to `out`, with the epilogue applied.
///
/// The summation order depends on the number of rows, unless `batch_invariant` asks for results that
/// depend only on their own row.
///
/// ```
/// use assay_cpu::ops::{Bf16, Context, Epilogue, LinearShape, linear};
/// let weights: Vec<Bf16> = [1.0, 2.0, 3.0, 4.0].map(Bf16::from).to_vec();
/// let shape = LinearShape { rows: 1, inputs: 2, outputs: 2 };
/// let mut out = [0.0; 2];
/// linear(Context::best(), &[1.0, 2.0], &weights, shape, Epilogue::default(), false, &mut out)?;
/// assert_eq!(out, [5.0, 11.0]);
/// # Ok::<(), assay_cpu::error::OpError>(())
/// ```
pub fn linear<T: Element>(
    context: Context,
    x: &[f32],
    weights: &[T],
    shape: LinearShape,
    epilogue: Epilogue,
    batch_invariant: bool,
    out: &mut [f32],
) -> Result<()> {
    let operation = "linear";
    let LinearShape { rows, inputs, outputs } = shape;
    check_length(operation, "x", x.len(), &[rows, inputs])?;
    check_length(operation, "weights", weights.len(), &[outputs, inputs])?;
    check_length(operation, "out", out.len(), &[rows, outputs])?;
    epilogue.check(operation, rows, outputs)?;
    if let (Some(amx), false) = (context.level.amx(), batch_invariant) {
        match T::as_bf16_bits(weights) {
            Some(weights) if amx_linear_applies(shape) => {
                amx_linear(context, amx, x, weights, shape, epilogue, out);
                return Ok(());
            }
            None if split_linear_applies(shape)
                && split_linear(context, amx, x, weights, shape, epilogue, out) =>
            {
                return Ok(());
            }
            _ => {}
        }
    }
    if rows >= MIN_GEMM_ROWS && !batch_invariant {
        let right = Matrix::new(weights, outputs, inputs).transposed();
        matmul(context, Matrix::new(x, rows, inputs), right, out)?;
        apply_epilogue(context, epilogue, outputs, out);
        return Ok(());
    }
    if rows >= small_m::MIN_ROWS && !batch_invariant {
        small_m_gemm(context, x, weights, shape, epilogue, out);
        return Ok(());
    }
    gemv(context, x, inputs, weights, shape, epilogue, out);
    Ok(())
}

/// Like [`linear`], batch-invariant, over rows that begin `step` elements after each other and may
/// overlap: the frames of a signal.
///
/// ```
/// use assay_cpu::ops::{Context, Epilogue, LinearShape, framed_linear};
/// let shape = LinearShape { rows: 3, inputs: 2, outputs: 1 };
/// let mut sums = [0.0; 3];
/// let signal = [1.0, 2.0, 4.0, 8.0];
/// framed_linear(Context::caller(), &signal, 1, &[1.0, 1.0], shape, Epilogue::default(), &mut sums)?;
/// assert_eq!(sums, [3.0, 6.0, 12.0]);
/// # Ok::<(), assay_cpu::error::OpError>(())
/// ```
pub fn framed_linear(
    context: Context,
    x: &[f32],
    step: usize,
    weights: &[f32],
    shape: LinearShape,
    epilogue: Epilogue,
    out: &mut [f32],
) -> Result<()> {
    let operation = "framed_linear";
    let LinearShape { rows, inputs, outputs } = shape;
    let extent = match rows {
        0 => 0,
        rows => (rows - 1).saturating_mul(step).saturating_add(inputs),
    };
    check_length(operation, "x", x.len(), &[extent])?;
    check_length(operation, "weights", weights.len(), &[outputs, inputs])?;
    check_length(operation, "out", out.len(), &[rows, outputs])?;
    epilogue.check(operation, rows, outputs)?;
    gemv(context, x, step, weights, shape, epilogue, out);
    Ok(())
}

fn gemv<T: Element>(
    context: Context,
    x: &[f32],
    step: usize,
    weights: &[T],
    shape: LinearShape,
    epilogue: Epilogue,
    out: &mut [f32],
) {
    let out = DisjointSlice::new(out);
    let least = 16_384_usize.div_ceil(shape.inputs.max(1)).next_multiple_of(OUTPUTS_AT_ONCE);
    context.threads.parallel_for(shape.outputs, least, &|columns| {
        let product = Gemv { x, step, weights, shape, columns, epilogue, out: &out };
        T::gemv(context.level, product);
    });
}

thread_local! {
    /// The activations in tiles of sixteen rows, transposed.
    static TRANSPOSED: RefCell<AlignedBuffer> = RefCell::default();
}

fn small_m_gemm<T: Element>(
    context: Context,
    x: &[f32],
    weights: &[T],
    shape: LinearShape,
    epilogue: Epilogue,
    out: &mut [f32],
) {
    let LinearShape { rows, inputs, outputs } = shape;
    let tiles = rows.div_ceil(LANES);
    TRANSPOSED.with_borrow_mut(|transposed| {
        let transposed = transposed.floats(tiles * inputs * LANES);
        transpose(context, x, shape, transposed);
        let out = DisjointSlice::new(out);
        // A hundred thousand multiply-adds amortize waking a thread.
        let least = 131_072_usize.div_ceil((tiles * inputs * LANES * LANES).max(1));
        context.threads.parallel_for(outputs.div_ceil(LANES), least, &|panels| {
            let product = SmallMGemm { transposed, weights, shape, panels, epilogue, out: &out };
            T::small_m_gemm(context.level, product);
        });
    });
}

/// Applies the epilogue to the result of a GEMM.
fn apply_epilogue(context: Context, epilogue: Epilogue, outputs: usize, out: &mut [f32]) {
    if epilogue.is_empty() || outputs == 0 {
        return;
    }
    let rows = out.len() / outputs;
    let out = DisjointSlice::new(out);
    let least = 16_384_usize.div_ceil(outputs);
    context.threads.parallel_for(rows, least, &|rows| {
        context.level.run(ApplyEpilogue {
            epilogue,
            outputs,
            first: rows.start,
            // SAFETY: ranges of rows do not overlap.
            out: unsafe { out.slice_mut(rows.start * outputs..rows.end * outputs) },
        });
    });
}

/// A range of rows of the output.
struct ApplyEpilogue<'a> {
    epilogue: Epilogue<'a>,
    outputs: usize,
    first: usize,
    out: &'a mut [f32],
}

impl Kernel for ApplyEpilogue<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vector>(self, v: V) {
        for (row, out) in self.out.chunks_exact_mut(self.outputs).enumerate() {
            let start = (self.first + row) * self.outputs;
            self.epilogue.apply(v, start, 0..self.outputs, out);
        }
    }
}
