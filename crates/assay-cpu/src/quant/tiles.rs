//! Quantized weights as columns of matrix tiles, for products of many rows.
//!
//! Weights and activations are rounded to bfloat16, 2^-9 of each number, where the vector kernels round
//! activations to a byte, half of 1/127 of the largest of 32.

use super::panels::CODES;
use super::{Block, GROUP, PackedView, Panel};
use crate::ops::Panels;
use crate::simd::{LANES, TileColumns, Tiles, Vector};
use std::marker::PhantomData;
use std::ops::Range;

/// 32 inputs of a panel with a byte for each code.
pub(crate) struct Spread {
    /// Four codes of a row after four of the next.
    pub codes: [u8; CODES],
    /// What the codes of either half are multiplied by.
    pub scale: [[f32; LANES]; 2],
    /// What is added then.
    pub least: [[f32; LANES]; 2],
}

/// Panels of a format.
pub(super) struct Columns<'a, P> {
    weights: PackedView<'a>,
    format: PhantomData<P>,
}

impl<'a, P> Columns<'a, P> {
    pub fn new(weights: PackedView<'a>) -> Self {
        Columns {
            weights,
            format: PhantomData,
        }
    }
}

impl<P: Panel + Sync> Panels for Columns<'_, P> {
    const GRAIN: usize = P::PARTS;

    #[inline(always)]
    fn fill<V: Vector>(
        &self,
        v: V,
        tiles: Tiles,
        panel: usize,
        steps: Range<usize>,
        out: &mut [TileColumns],
    ) {
        let length = self.weights.inputs / P::Source::VALUES * P::BYTES;
        let panels = self.weights.panels;
        let Some(bytes) = panels.get(panel * length..(panel + 1) * length) else {
            // An odd last panel is the second half of nothing.
            return;
        };
        let bytes = &bytes[steps.start / P::PARTS * P::BYTES..steps.end / P::PARTS * P::BYTES];
        let mut spread = Spread {
            codes: [0; CODES],
            scale: [[0.0; LANES]; 2],
            least: [[0.0; LANES]; 2],
        };
        let blocks = bytes.chunks_exact(P::BYTES);
        for (block, out) in blocks.zip(out.chunks_exact_mut(P::PARTS)) {
            for (part, out) in out.iter_mut().enumerate() {
                P::spread(v, block, part, &mut spread);
                let lines = spread.codes.as_chunks::<64>().0;
                let pairs = out.0.as_chunks_mut::<2>().0;
                for (index, (line, out)) in lines.iter().zip(pairs).enumerate() {
                    let half = index / (GROUP / 8);
                    tiles.widen(line, &spread.scale[half], &spread.least[half], out);
                }
            }
        }
    }
}
