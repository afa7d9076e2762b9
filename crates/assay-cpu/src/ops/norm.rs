//! RMSNorm and LayerNorm.

use super::element;
use crate::context::Context;
use crate::error::{Result, check_length, check_value};
use crate::simd::{Kernel, LANES, Vector, load_partial, store_partial};
use crate::threads::DisjointSlice;

/// Writes the RMSNorm of each row of `x`, times `weight`, to `out`.
pub fn rms_norm(
    context: Context,
    x: &[f32],
    weight: &[f32],
    epsilon: f32,
    out: &mut [f32],
) -> Result<()> {
    let norm = Norm { operation: "rms_norm", weight, bias: None, epsilon, centered: false };
    norm.run(context, x, None, out)
}

/// Adds `x` to `residual`, and writes the RMSNorm of the sum to `out`.
pub fn add_rms_norm(
    context: Context,
    x: &[f32],
    residual: &mut [f32],
    weight: &[f32],
    epsilon: f32,
    out: &mut [f32],
) -> Result<()> {
    let norm = Norm { operation: "add_rms_norm", weight, bias: None, epsilon, centered: false };
    norm.run(context, x, Some(residual), out)
}

/// Writes the LayerNorm of each row of `x`, times `weight` plus `bias`, to `out`.
pub fn layer_norm(
    context: Context,
    x: &[f32],
    weight: &[f32],
    bias: Option<&[f32]>,
    epsilon: f32,
    out: &mut [f32],
) -> Result<()> {
    let norm = Norm { operation: "layer_norm", weight, bias, epsilon, centered: true };
    norm.run(context, x, None, out)
}

/// Adds `x` to `residual`, and writes the LayerNorm of the sum to `out`.
#[allow(clippy::too_many_arguments)] // One more than the norm without a residual.
pub fn add_layer_norm(
    context: Context,
    x: &[f32],
    residual: &mut [f32],
    weight: &[f32],
    bias: Option<&[f32]>,
    epsilon: f32,
    out: &mut [f32],
) -> Result<()> {
    let norm = Norm { operation: "add_layer_norm", weight, bias, epsilon, centered: true };
    norm.run(context, x, Some(residual), out)
}

/// A LayerNorm: weight and bias of each element, and what is added to the variance.
#[derive(Clone, Copy, Debug)]
pub struct LayerNorm<'a> {
    /// Factors.
    pub weight: &'a [f32],
    /// Added last.
    pub bias: &'a [f32],
    /// Added to the variance.
    pub epsilon: f32,
}

/// A norm of rows.
#[derive(Clone, Copy)]
pub(super) struct Norm<'a> {
    operation: &'static str,
    weight: &'a [f32],
    bias: Option<&'a [f32]>,
    epsilon: f32,
    centered: bool,
}

impl<'a> Norm<'a> {
    /// A LayerNorm that is part of another operation.
    pub(super) fn layer(operation: &'static str, norm: LayerNorm<'a>) -> Result<Self> {
        let LayerNorm { weight, bias, epsilon } = norm;
        check_length(operation, "bias", bias.len(), &[weight.len()])?;
        check_value(operation, "epsilon", epsilon >= 0.0, "at least 0", epsilon)?;
        Ok(Norm { operation, weight, bias: Some(bias), epsilon, centered: true })
    }

    /// Normalizes one row.
    #[inline(always)]
    pub(super) fn row<V: Vector>(self, v: V, x: &[f32], out: &mut [f32]) {
        Row { norm: self, x, residual: None, out }.run(v);
    }

    pub(super) fn run(
        self,
        context: Context,
        x: &[f32],
        residual: Option<&mut [f32]>,
        out: &mut [f32],
    ) -> Result<()> {
        let columns = self.weight.len();
        let rows = x.len().checked_div(columns).unwrap_or(0);
        check_length(self.operation, "x", x.len(), &[rows, columns])?;
        check_length(self.operation, "out", out.len(), &[rows, columns])?;
        if let Some(bias) = self.bias {
            check_length(self.operation, "bias", bias.len(), &[columns])?;
        }
        if let Some(residual) = &residual {
            check_length(self.operation, "residual", residual.len(), &[rows, columns])?;
        }
        let valid = self.epsilon >= 0.0;
        check_value(self.operation, "epsilon", valid, "at least 0", self.epsilon)?;
        let (out, residual) = (DisjointSlice::new(out), residual.map(DisjointSlice::new));
        let least = 8_192_usize.div_ceil(columns.max(1));
        context.threads.parallel_for(rows, least, &|rows| {
            for row in rows {
                let range = row * columns..(row + 1) * columns;
                // SAFETY: rows do not overlap.
                let (out, residual) = unsafe {
                    (
                        out.slice_mut(range.clone()),
                        residual.as_ref().map(|all| all.slice_mut(range.clone())),
                    )
                };
                context.level.run(Row { norm: self, x: &x[range], residual, out });
            }
        });
        Ok(())
    }
}

struct Row<'a> {
    norm: Norm<'a>,
    x: &'a [f32],
    residual: Option<&'a mut [f32]>,
    out: &'a mut [f32],
}

impl Kernel for Row<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vector>(self, v: V) {
        let out = self.out;
        out.copy_from_slice(self.x);
        if let Some(residual) = self.residual {
            each(v, out, residual, |v, x, residual| v.add(x, residual));
            residual.copy_from_slice(out);
        }
        let count = out.len() as f32;
        if self.norm.centered {
            let mean = total(v, out) / count;
            each(v, out, &[], |v, x, _| v.sub(x, v.splat(mean)));
        }
        let square = element::dot(v, out, out) / count;
        let factor = 1.0 / (square + self.norm.epsilon).sqrt();
        each(v, out, self.norm.weight, |v, x, weight| v.mul(v.mul(x, v.splat(factor)), weight));
        if let Some(bias) = self.norm.bias {
            each(v, out, bias, |v, x, bias| v.add(x, bias));
        }
    }
}

#[inline(always)]
fn total<V: Vector>(v: V, row: &[f32]) -> f32 {
    let (whole, rest) = row.as_chunks::<LANES>();
    let mut sum = load_partial(v, rest, 0.0);
    for lanes in whole {
        sum = v.add(sum, v.load(lanes));
    }
    v.sum(sum)
}

/// Replaces each element of a row by a function of it and the element of `other`, or zero.
#[inline(always)]
fn each<V: Vector>(v: V, row: &mut [f32], other: &[f32], f: impl Fn(V, V::F, V::F) -> V::F) {
    let (whole, rest) = row.as_chunks_mut::<LANES>();
    let (other_whole, other_rest) = other.as_chunks::<LANES>();
    for (index, lanes) in whole.iter_mut().enumerate() {
        let other_lanes = match other_whole.get(index) {
            Some(other_lanes) => v.load(other_lanes),
            None => v.splat(0.0),
        };
        v.store(f(v, v.load(lanes), other_lanes), lanes);
    }
    let last = f(v, load_partial(v, rest, 0.0), load_partial(v, other_rest, 0.0));
    store_partial(v, last, rest);
}
