//! Rows as columns, sixteen at a time.
//!
//! A panel is sixteen rows, element by element: [width][16]. Either operand of a product and its result are panels, so
//! that a layer whose input has been gathered packs nothing again, and sums over a row are sums of whole vectors.

use crate::aligned_buffer::AlignedBuffer;
use crate::context::Context;
use crate::ops::norm::LayerNorm;
use crate::simd::{Kernel, LANES, Vector};
use crate::threads::DisjointSlice;
use std::array::from_fn;
use std::ops::Range;

/// An element of sixteen rows.
pub(super) type Lanes = [f32; LANES];

static ZEROS: Lanes = [0.0; LANES];

/// So many elements of sixteen rows in a buffer.
pub(super) fn lanes(buffer: &mut AlignedBuffer, count: usize) -> &mut [Lanes] {
    buffer.floats(count * LANES).as_chunks_mut().0
}

/// Writes `count` rows of `width` elements as panels; the rows that the last panels lack are zero.
#[inline(always)]
pub(super) fn gather<'a, V: Vector>(
    v: V,
    count: usize,
    width: usize,
    row: impl Fn(usize) -> &'a [f32],
    to: &mut [Lanes],
) {
    for (panel, to) in to.chunks_exact_mut(width).enumerate() {
        let lines: [&[f32]; LANES] = from_fn(|lane| match panel * LANES + lane {
            index if index < count => row(index),
            _ => &[],
        });
        for (block, to) in to.chunks_mut(LANES).enumerate() {
            let rest = lines.map(|line| line.get(block * LANES..).unwrap_or(&[]));
            match to.first_chunk_mut() {
                Some(to) => v.transpose(rest.map(|rest| rest.first_chunk().unwrap_or(&ZEROS)), to),
                None => {
                    for (element, to) in to.iter_mut().enumerate() {
                        *to = rest.map(|rest| rest.get(element).copied().unwrap_or(0.0));
                    }
                }
            }
        }
    }
}

/// Calls `take` with sixteen elements, or what is left of them, of each of the first `count` rows of panels.
#[inline(always)]
pub(super) fn scatter<V: Vector>(
    v: V,
    count: usize,
    width: usize,
    from: &[Lanes],
    mut take: impl FnMut(usize, Range<usize>, V::F),
) {
    let mut square = [[0.0; LANES]; LANES];
    for (panel, from) in from.chunks_exact(width).enumerate() {
        let first = panel * LANES;
        for (block, from) in from.chunks(LANES).enumerate() {
            v.transpose(from_fn(|index| from.get(index).unwrap_or(&ZEROS)), &mut square);
            let elements = block * LANES..block * LANES + from.len();
            for (lane, row) in square.iter().enumerate().take(count.saturating_sub(first)) {
                take(first + lane, elements.clone(), v.load(row));
            }
        }
    }
}

/// Replaces the rows of panels by their LayerNorm.
#[inline(always)]
pub(super) fn normalize<V: Vector>(v: V, norm: LayerNorm, panels: &mut [Lanes]) {
    let width = norm.weight.len();
    let (zero, share) = (v.splat(0.0), v.splat(1.0 / width as f32));
    for panel in panels.chunks_exact_mut(width) {
        let mean = v.mul(reduce(v, panel, zero, |sum, x| v.add(sum, x), |a, b| v.add(a, b)), share);
        let square = |sum: V::F, x: V::F| {
            let x = v.sub(x, mean);
            v.mul_add(x, x, sum)
        };
        let mut factors = ZEROS;
        v.store(v.mul(reduce(v, panel, zero, square, |a, b| v.add(a, b)), share), &mut factors);
        let factors = v.load(&factors.map(|variance| 1.0 / (variance + norm.epsilon).sqrt()));
        for ((x, weight), bias) in panel.iter_mut().zip(norm.weight).zip(norm.bias) {
            let factor = v.mul(factors, v.splat(*weight));
            v.store(v.mul_add(v.sub(v.load(x), mean), factor, v.splat(*bias)), x);
        }
    }
}

/// Reduces the elements of each row of a panel, in four independent chains.
#[inline(always)]
pub(super) fn reduce<V: Vector>(
    v: V,
    panel: &[Lanes],
    start: V::F,
    step: impl Fn(V::F, V::F) -> V::F,
    join: impl Fn(V::F, V::F) -> V::F,
) -> V::F {
    let mut chains = [start; 4];
    let (fours, rest) = panel.as_chunks::<4>();
    for four in fours {
        for (chain, x) in chains.iter_mut().zip(four) {
            *chain = step(*chain, v.load(x));
        }
    }
    for x in rest {
        chains[0] = step(chains[0], v.load(x));
    }
    join(join(chains[0], chains[1]), join(chains[2], chains[3]))
}

/// Packs weights of (outputs, inputs) as panels of outputs; threads share them.
pub(super) fn pack<'a>(
    context: Context,
    weights: &[f32],
    inputs: usize,
    buffer: &'a mut AlignedBuffer,
) -> &'a [Lanes] {
    let outputs = weights.len() / inputs;
    let panels = outputs.div_ceil(LANES);
    let packed = lanes(buffer, panels * inputs);
    let out = DisjointSlice::new(&mut *packed);
    context.threads.parallel_for(panels, 8, &|panels| {
        let rows = panels.start * LANES..outputs.min(panels.end * LANES);
        let weights = &weights[rows.start * inputs..rows.end * inputs];
        // SAFETY: ranges of panels do not overlap.
        let to = unsafe { out.slice_mut(panels.start * inputs..panels.end * inputs) };
        context.level.run(Pack { weights, inputs, to });
    });
    packed
}

/// Rows that are next to each other.
struct Pack<'a> {
    weights: &'a [f32],
    inputs: usize,
    to: &'a mut [Lanes],
}

impl Kernel for Pack<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vector>(self, v: V) {
        let Pack { weights, inputs, to } = self;
        let row = |index: usize| &weights[index * inputs..(index + 1) * inputs];
        gather(v, weights.len() / inputs, inputs, row, to);
    }
}
