//! Quantized weights as the B operand of AMX tiles, for products of many rows.
//!
//! Weights and activations are rounded to bfloat16, with a relative error of 2^-9; the SIMD kernels
//! quantize activations to 8 bits per group of 32 instead.

use super::block::Block;
use super::panels::{CODE_BYTES, Panel, UnpackedGroup};
use super::quantized_activations::GROUP;
use crate::ops::PanelSource;
use crate::simd::{Amx, LANES, TileB, Vector};
use std::marker::PhantomData;
use std::ops::Range;

/// The panels of a block format.
pub(super) struct AmxPanels<'a, P> {
    panels: &'a [u8],
    inputs: usize,
    format: PhantomData<P>,
}

impl<'a, P> AmxPanels<'a, P> {
    pub fn new(panels: &'a [u8], inputs: usize) -> Self {
        AmxPanels { panels, inputs, format: PhantomData }
    }
}

impl<P: Panel + Sync> PanelSource for AmxPanels<'_, P> {
    const GRAIN: usize = P::SUB_BLOCKS;

    #[inline(always)]
    fn fill<V: Vector>(
        &self,
        v: V,
        amx: Amx,
        panel: usize,
        steps: Range<usize>,
        out: &mut [TileB],
    ) {
        let length = self.inputs / P::Source::VALUES * P::BYTES;
        let Some(bytes) = self.panels.get(panel * length..(panel + 1) * length) else {
            // The second panel of an odd last pair does not exist.
            return;
        };
        let bytes =
            &bytes[steps.start / P::SUB_BLOCKS * P::BYTES..steps.end / P::SUB_BLOCKS * P::BYTES];
        let mut unpack_group = UnpackedGroup {
            codes: [0; CODE_BYTES],
            scale: [[0.0; LANES]; 2],
            minimum: [[0.0; LANES]; 2],
        };
        let blocks = bytes.chunks_exact(P::BYTES);
        for (block, out) in blocks.zip(out.chunks_exact_mut(P::SUB_BLOCKS)) {
            for (sub_block, out) in out.iter_mut().enumerate() {
                P::unpack_group(v, block, sub_block, &mut unpack_group);
                let lines = unpack_group.codes.as_chunks::<64>().0;
                let pairs = out.0.as_chunks_mut::<2>().0;
                for (index, (line, out)) in lines.iter().zip(pairs).enumerate() {
                    let half = index / (GROUP / 8);
                    amx.dequantize_to_bf16(
                        line,
                        &unpack_group.scale[half],
                        &unpack_group.minimum[half],
                        out,
                    );
                }
            }
        }
    }
}
