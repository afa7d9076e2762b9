//! Softmax over rows.

use crate::context::Context;
use crate::error::{Result, check_length};
use crate::simd::{Kernel, LANES, Vector, exponential, load_partial, store_partial};
use crate::threads::DisjointSlice;

/// Writes the softmax of each row of `columns` elements to `out`.
///
/// A row without a finite element, like a fully masked one, becomes NaN, as in NumPy.
pub fn softmax(context: Context, x: &[f32], columns: usize, out: &mut [f32]) -> Result<()> {
    let rows = x.len().checked_div(columns).unwrap_or(0);
    check_length("softmax", "x", x.len(), &[rows, columns])?;
    check_length("softmax", "out", out.len(), &[rows, columns])?;
    let out = DisjointSlice::new(out);
    let least = 4_096_usize.div_ceil(columns.max(1));
    context.threads.parallel_for(rows, least, &|rows| {
        let (start, end) = (rows.start * columns, rows.end * columns);
        // SAFETY: ranges of rows do not overlap.
        let out = unsafe { out.slice_mut(start..end) };
        out.copy_from_slice(&x[start..end]);
        context.level.run(Rows { columns, out });
    });
    Ok(())
}

struct Rows<'a> {
    columns: usize,
    out: &'a mut [f32],
}

impl Kernel for Rows<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vector>(self, v: V) {
        for row in self.out.chunks_exact_mut(self.columns.max(1)) {
            let largest = largest(v, row);
            let sum = exponentials(v, row, largest);
            scale(v, row, 1.0 / sum);
        }
    }
}

/// The maximum of a row; minus infinity if it is empty.
#[inline(always)]
pub(super) fn largest<V: Vector>(v: V, row: &[f32]) -> f32 {
    let (whole, rest) = row.as_chunks::<LANES>();
    let mut most = load_partial(v, rest, f32::NEG_INFINITY);
    for lanes in whole {
        most = v.max(v.load(lanes), most);
    }
    v.maximum(most)
}

/// Replaces each element by exp(x - largest), and returns their sum.
#[inline(always)]
pub(super) fn exponentials<V: Vector>(v: V, row: &mut [f32], largest: f32) -> f32 {
    let shift = v.splat(largest);
    let mut sum = v.splat(0.0);
    let (whole, rest) = row.as_chunks_mut::<LANES>();
    for lanes in whole {
        let power = exponential(v, v.sub(v.load(lanes), shift));
        sum = v.add(sum, power);
        v.store(power, lanes);
    }
    let mut total = v.sum(sum);
    if !rest.is_empty() {
        let power = exponential(v, v.sub(load_partial(v, rest, f32::NEG_INFINITY), shift));
        store_partial(v, power, rest);
        total += rest.iter().sum::<f32>();
    }
    total
}

/// Scales a row.
#[inline(always)]
pub(super) fn scale<V: Vector>(v: V, row: &mut [f32], factor: f32) {
    let (whole, rest) = row.as_chunks_mut::<LANES>();
    for lanes in whole {
        v.store(v.mul(v.load(lanes), v.splat(factor)), lanes);
    }
    for value in rest {
        *value *= factor;
    }
}
