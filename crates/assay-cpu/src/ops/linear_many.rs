//! Linear layers of many rows: activations are turned so that sixteen rows lie side by side, and each
//! weight, broadcast, meets a vector of them. Weights are read where they are.

use super::element::Element;
use super::{Context, Epilogue, LinearShape};
use crate::aligned::Aligned;
use crate::simd::{Kernel, LANES, Vector, prefetch};
use crate::threads::Disjoint;
use std::cell::RefCell;
use std::ops::Range;

/// Rows from which half a vector of them is worth more than streaming.
pub(super) const MANY_ROWS: usize = 8;
/// Weights of each output that are widened at a time.
const DEPTH: usize = 256;

thread_local! {
    /// The activations, for each sixteen rows input by input.
    static TURNED: RefCell<Aligned> = RefCell::default();
}

pub(super) fn many_rows<T: Element>(
    context: Context,
    x: &[f32],
    weights: &[T],
    shape: LinearShape,
    epilogue: Epilogue,
    out: &mut [f32],
) {
    let LinearShape {
        rows,
        inputs,
        outputs,
    } = shape;
    let tiles = rows.div_ceil(LANES);
    TURNED.with_borrow_mut(|turned| {
        let turned = turned.floats(tiles * inputs * LANES);
        turn(context, x, shape, turned);
        let out = Disjoint::new(out);
        // A thread is worth waking for some hundred thousand products.
        let least = 131_072_usize.div_ceil((tiles * inputs * LANES * LANES).max(1));
        context
            .threads
            .ranges(outputs.div_ceil(LANES), least, &|panels| {
                let product = Product {
                    turned,
                    weights,
                    shape,
                    panels,
                    epilogue,
                    out: &out,
                };
                T::linear_many(context.level, product);
            });
    });
}

/// Writes sixteen rows side by side, input by input; rows that are not there are zeros.
fn turn(context: Context, x: &[f32], shape: LinearShape, turned: &mut [f32]) {
    let (rows, inputs) = (shape.rows, shape.inputs);
    let pieces = inputs.div_ceil(DEPTH);
    let out = Disjoint::new(turned);
    let count = rows.div_ceil(LANES) * pieces;
    context.threads.ranges(count, 8, &|range| {
        for part in range {
            let (tile, first) = (part / pieces, part % pieces * DEPTH);
            let depth = DEPTH.min(inputs - first);
            let start = (tile * inputs + first) * LANES;
            // SAFETY: parts are different inputs or rows.
            let out = unsafe { out.part(start..start + depth * LANES) };
            let lines = out.as_chunks_mut::<LANES>().0;
            for lane in 0..LANES {
                let row = tile * LANES + lane;
                let source = (row < rows).then(|| &x[row * inputs + first..][..depth]);
                for (index, line) in lines.iter_mut().enumerate() {
                    line[lane] = source.map_or(0.0, |source| source[index]);
                }
            }
        }
    });
}

/// Some outputs, sixteen at a time, of all rows.
pub(crate) struct Product<'a, T> {
    turned: &'a [f32],
    weights: &'a [T],
    shape: LinearShape,
    panels: Range<usize>,
    epilogue: Epilogue<'a>,
    out: &'a Disjoint<'a, f32>,
}

/// Weights of sixteen outputs, widened.
type Wide = [[f32; DEPTH]; LANES];
/// Sixteen outputs of sixteen rows, one row per lane.
type Tile = [[f32; LANES]; LANES];

impl<T: Element> Kernel for Product<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vector>(self, v: V) {
        let mut wide = [[0.0; DEPTH]; LANES];
        for panel in self.panels.clone() {
            let columns = panel * LANES..self.shape.outputs.min((panel + 1) * LANES);
            for tile in 0..self.shape.rows.div_ceil(LANES) {
                let mut sums = [[0.0; LANES]; LANES];
                for first in (0..self.shape.inputs).step_by(DEPTH) {
                    let depth = DEPTH.min(self.shape.inputs - first);
                    self.widen(v, &columns, first, depth, &mut wide);
                    let turned = &self.turned[(tile * self.shape.inputs + first) * LANES..];
                    let turned = &turned.as_chunks::<LANES>().0[..depth];
                    if V::MANY_REGISTERS {
                        multiply::<V, LANES>(v, turned, &wide, 0, &mut sums);
                    } else {
                        for output in (0..LANES).step_by(4) {
                            multiply::<V, 4>(v, turned, &wide, output, &mut sums);
                        }
                    }
                }
                self.store(v, tile, &columns, &sums);
            }
        }
    }
}

impl<T: Element> Product<'_, T> {
    /// Takes weights of all these outputs; outputs that are not there keep what was there before.
    #[inline(always)]
    fn widen<V: Vector>(
        &self,
        v: V,
        columns: &Range<usize>,
        first: usize,
        depth: usize,
        wide: &mut Wide,
    ) {
        for (column, wide) in columns.clone().zip(wide) {
            let row = &self.weights[column * self.shape.inputs + first..][..depth];
            let (whole, rest) = row.as_chunks::<LANES>();
            for (lanes, wide) in whole.iter().zip(wide.as_chunks_mut::<LANES>().0) {
                // Rows are far apart, so that the hardware does not see what comes next.
                prefetch(lanes.as_ptr().wrapping_add(DEPTH));
                v.store(T::load(v, lanes), wide);
            }
            for (value, wide) in rest.iter().zip(&mut wide[whole.len() * LANES..]) {
                *wide = (*value).into();
            }
        }
    }

    #[inline(always)]
    fn store<V: Vector>(&self, v: V, tile: usize, columns: &Range<usize>, sums: &Tile) {
        let rows = tile * LANES..self.shape.rows.min((tile + 1) * LANES);
        for (lane, row) in rows.enumerate() {
            let start = row * self.shape.outputs;
            // SAFETY: ranges of panels do not share columns.
            let out = unsafe { self.out.part(start + columns.start..start + columns.end) };
            for (out, sums) in out.iter_mut().zip(sums) {
                *out = sums[lane];
            }
            self.epilogue.apply(v, start, columns.clone(), out);
        }
    }
}

/// Adds the products of some outputs' weights with sixteen rows.
#[inline(always)]
fn multiply<V: Vector, const OUTPUTS: usize>(
    v: V,
    turned: &[[f32; LANES]],
    wide: &Wide,
    first: usize,
    tile: &mut Tile,
) {
    let mut sums = [v.splat(0.0); OUTPUTS];
    for output in 0..OUTPUTS {
        sums[output] = v.load(&tile[first + output]);
    }
    let depth = turned.len().min(DEPTH);
    for (index, rows) in turned[..depth].iter().enumerate() {
        let rows = v.load(rows);
        for output in 0..OUTPUTS {
            let weight = v.splat(wide[first + output][index]);
            sums[output] = v.mul_add(weight, rows, sums[output]);
        }
    }
    for output in 0..OUTPUTS {
        v.store(sums[output], &mut tile[first + output]);
    }
}
