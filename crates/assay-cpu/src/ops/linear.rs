//! Linear layers over dense weights: few rows of activations stream the weights once, and many rows
//! meet each weight in vectors of sixteen.

use super::element::{self, Element};
use super::linear_many::{MANY_ROWS, many_rows};
use super::linear_tiles;
use super::{Context, Epilogue, Matrix, matmul};
use crate::error::{Result, check_length};
use crate::simd::{Kernel, LANES, Vector};
use crate::threads::Disjoint;
use std::ops::Range;

/// Rows of weights that are read side by side.
const BESIDE: usize = 4;

/// Rows from which weights are worth packing as a matrix.
const MATRIX_ROWS: usize = 32;

/// The sizes of a linear layer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LinearShape {
    /// Rows of activations.
    pub rows: usize,
    /// Numbers in a row of activations, and in a row of weights.
    pub inputs: usize,
    /// Rows of weights.
    pub outputs: usize,
}

/// Writes `x` times the transposed `weights` to `out`: a row of outputs per row of `x`.
///
/// Many rows are multiplied in another order than few, unless `invariant` asks for results that
/// depend on nothing but their own row.
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
    invariant: bool,
    out: &mut [f32],
) -> Result<()> {
    let operation = "linear";
    let LinearShape {
        rows,
        inputs,
        outputs,
    } = shape;
    check_length(operation, "x", x.len(), &[rows, inputs])?;
    check_length(operation, "weights", weights.len(), &[outputs, inputs])?;
    check_length(operation, "out", out.len(), &[rows, outputs])?;
    epilogue.check(operation, rows, outputs)?;
    if !invariant
        && linear_tiles::fits(shape)
        && let (Some(tiles), Some(weights)) = (context.level.tiles(), T::bfloats(weights))
    {
        linear_tiles::linear_on_tiles(context, tiles, x, weights, shape, epilogue, out);
        return Ok(());
    }
    if rows >= MATRIX_ROWS && !invariant {
        let right = Matrix::new(weights, outputs, inputs).transposed();
        matmul(context, Matrix::new(x, rows, inputs), right, out)?;
        finish(context, epilogue, outputs, out);
        return Ok(());
    }
    if rows >= MANY_ROWS && !invariant {
        many_rows(context, x, weights, shape, epilogue, out);
        return Ok(());
    }
    let out = Disjoint::new(out);
    let least = 16_384_usize
        .div_ceil(inputs.max(1))
        .next_multiple_of(BESIDE);
    context.threads.ranges(outputs, least, &|columns| {
        let product = Product {
            x,
            weights,
            shape,
            columns,
            epilogue,
            out: &out,
        };
        T::linear(context.level, product);
    });
    Ok(())
}

/// Does to outputs of a matrix product what a linear layer does.
fn finish(context: Context, epilogue: Epilogue, outputs: usize, out: &mut [f32]) {
    if epilogue.is_empty() || outputs == 0 {
        return;
    }
    let rows = out.len() / outputs;
    let out = Disjoint::new(out);
    let least = 16_384_usize.div_ceil(outputs);
    context.threads.ranges(rows, least, &|rows| {
        context.level.run(Finish {
            epilogue,
            outputs,
            first: rows.start,
            // SAFETY: ranges of rows do not overlap.
            out: unsafe { out.part(rows.start * outputs..rows.end * outputs) },
        });
    });
}

/// Some rows of outputs.
struct Finish<'a> {
    epilogue: Epilogue<'a>,
    outputs: usize,
    first: usize,
    out: &'a mut [f32],
}

impl Kernel for Finish<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vector>(self, v: V) {
        for (row, out) in self.out.chunks_exact_mut(self.outputs).enumerate() {
            let start = (self.first + row) * self.outputs;
            self.epilogue.apply(v, start, 0..self.outputs, out);
        }
    }
}

/// Some outputs of all rows.
pub(crate) struct Product<'a, T> {
    x: &'a [f32],
    weights: &'a [T],
    shape: LinearShape,
    columns: Range<usize>,
    epilogue: Epilogue<'a>,
    out: &'a Disjoint<'a, f32>,
}

impl<T: Element> Kernel for Product<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vector>(self, v: V) {
        for column in self.columns.clone().step_by(BESIDE) {
            if self.columns.end - column < BESIDE {
                self.single_columns(v, column);
                break;
            }
            let mut row = 0;
            while row < self.shape.rows {
                row += match self.shape.rows - row {
                    4.. => self.tile::<V, 4>(v, row, column),
                    _ => self.tile::<V, 1>(v, row, column),
                };
            }
        }
        for row in 0..self.shape.rows {
            let start = row * self.shape.outputs;
            // SAFETY: ranges of columns do not overlap.
            let out = unsafe {
                self.out
                    .part(start + self.columns.start..start + self.columns.end)
            };
            self.epilogue.apply(v, start, self.columns.clone(), out);
        }
    }
}

impl<T: Element> Product<'_, T> {
    #[inline(always)]
    fn weight_row(&self, row: usize) -> &[T] {
        &self.weights[row * self.shape.inputs..(row + 1) * self.shape.inputs]
    }

    #[inline(always)]
    fn x_row(&self, row: usize) -> &[f32] {
        &self.x[row * self.shape.inputs..(row + 1) * self.shape.inputs]
    }

    #[inline(always)]
    fn single_columns<V: Vector>(&self, v: V, first: usize) {
        for column in first..self.columns.end {
            for row in 0..self.shape.rows {
                let product = element::dot(v, self.weight_row(column), self.x_row(row));
                let at = row * self.shape.outputs + column;
                // SAFETY: ranges of columns do not overlap.
                let out = unsafe { self.out.part(at..at + 1) };
                out[0] = product;
            }
        }
    }

    /// `BESIDE` outputs of `ROWS` rows; gives the count of rows.
    #[inline(always)]
    fn tile<V: Vector, const ROWS: usize>(&self, v: V, first: usize, column: usize) -> usize {
        let inputs = self.shape.inputs;
        let whole = inputs / LANES;
        let weights: [&[T]; BESIDE] =
            std::array::from_fn(|beside| self.weight_row(column + beside));
        let x: [&[f32]; ROWS] = std::array::from_fn(|row| self.x_row(first + row));
        let weight_lanes = weights.map(|row| &row.as_chunks::<LANES>().0[..whole]);
        let x_lanes = x.map(|row| &row.as_chunks::<LANES>().0[..whole]);
        let mut sums = [[v.splat(0.0); BESIDE]; ROWS];
        for step in 0..whole {
            let mut across = [v.splat(0.0); BESIDE];
            for beside in 0..BESIDE {
                across[beside] = T::load(v, &weight_lanes[beside][step]);
            }
            for row in 0..ROWS {
                let x = v.load(&x_lanes[row][step]);
                for beside in 0..BESIDE {
                    sums[row][beside] = v.mul_add(across[beside], x, sums[row][beside]);
                }
            }
        }
        if whole * LANES < inputs {
            let mut across = [v.splat(0.0); BESIDE];
            for beside in 0..BESIDE {
                across[beside] = element::load_part(v, &weights[beside][whole * LANES..]);
            }
            for row in 0..ROWS {
                let x = crate::simd::load_part(v, &x[row][whole * LANES..], 0.0);
                for beside in 0..BESIDE {
                    sums[row][beside] = v.mul_add(across[beside], x, sums[row][beside]);
                }
            }
        }
        for (row, sums) in sums.iter().enumerate() {
            let at = (first + row) * self.shape.outputs + column;
            // SAFETY: ranges of columns do not overlap.
            let out = unsafe { self.out.part(at..at + BESIDE) };
            for (out, sum) in out.iter_mut().zip(sums) {
                *out = v.sum(*sum);
            }
        }
        ROWS
    }
}
