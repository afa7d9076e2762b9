//! Packing of weights: blocks in file order to panels of sixteen rows, and back.

use super::block::Block;
use super::format::BlockFormat;
use super::panels::{Mxfp4Panel, Panel, Q4KPanel, Q5KPanel, Q6KPanel, Q8Panel, Q40Panel, Q41Panel};
use super::q6_k::Q6K;
use crate::context::Context;
use crate::error::{Result, check_length};
use crate::simd::LANES;
use crate::threads::DisjointSlice;

pub(super) const OPERATION: &str = "pack weights";

/// Expands `$body` with the panel type of a format.
macro_rules! for_panel {
    ($format:expr, $panel:ident => $body:expr) => {
        match $format {
            BlockFormat::Q8_0 => {
                type $panel = Q8Panel;
                $body
            }
            BlockFormat::Q4_0 => {
                type $panel = Q40Panel;
                $body
            }
            BlockFormat::Q4_1 => {
                type $panel = Q41Panel;
                $body
            }
            BlockFormat::Q4K => {
                type $panel = Q4KPanel;
                $body
            }
            BlockFormat::Q5K => {
                type $panel = Q5KPanel;
                $body
            }
            BlockFormat::Q6K => {
                type $panel = Q6KPanel;
                $body
            }
            BlockFormat::Mxfp4 => {
                type $panel = Mxfp4Panel;
                $body
            }
        }
    };
}

/// Packed bytes of `outputs` rows of `inputs` weights.
pub fn packed_bytes(format: BlockFormat, outputs: usize, inputs: usize) -> Result<usize> {
    let row_bytes = format.bytes(OPERATION, inputs)?;
    let per_row = row_bytes / format.block_bytes();
    let panel = for_panel!(format, P => P::BYTES);
    // A saturated size is refused by the allocator.
    Ok(outputs.div_ceil(LANES).saturating_mul(per_row).saturating_mul(panel))
}

/// Packs rows of weights into `out`, which has [`packed_bytes`] bytes.
pub fn pack_into(
    context: Context,
    format: BlockFormat,
    blocks: &[u8],
    outputs: usize,
    inputs: usize,
    out: &mut [u8],
) -> Result<()> {
    let row_bytes = format.bytes(OPERATION, inputs)?;
    check_length(OPERATION, "blocks", blocks.len(), &[outputs, row_bytes])?;
    let bytes = packed_bytes(format, outputs, inputs)?;
    check_length(OPERATION, "out", out.len(), &[bytes])?;
    for_panel!(format, P => pack_all::<P>(context, blocks, outputs, row_bytes, out));
    Ok(())
}

/// Int8 values as Q8_0 blocks with a scale of one.
pub fn int8_blocks(values: &[i8], outputs: usize, inputs: usize) -> Result<Vec<u8>> {
    check_length(OPERATION, "values", values.len(), &[outputs, inputs])?;
    let row_bytes = BlockFormat::Q8_0.bytes(OPERATION, inputs)?;
    let mut blocks = Vec::with_capacity(outputs * row_bytes);
    for group in values.chunks_exact(BlockFormat::Q8_0.block_values()) {
        blocks.extend(crate::half_precision::f32_to_f16(1.0).to_le_bytes());
        blocks.extend(group.iter().map(|value| *value as u8));
    }
    Ok(blocks)
}

fn pack_all<P: Panel>(
    context: Context,
    blocks: &[u8],
    outputs: usize,
    row_bytes: usize,
    packed: &mut [u8],
) {
    let per_row = row_bytes / P::Source::BYTES;
    let panel_bytes = per_row * P::BYTES;
    let out = DisjointSlice::new(packed);
    context.threads.parallel_for(outputs.div_ceil(LANES), 1, &|panels| {
        // SAFETY: ranges of panels do not overlap.
        let out = unsafe { out.slice_mut(panels.start * panel_bytes..panels.end * panel_bytes) };
        for (index, panel) in panels.zip(out.chunks_exact_mut(panel_bytes.max(1))) {
            let rows = index * LANES..outputs.min((index + 1) * LANES);
            if rows.len() < LANES {
                // Padding rows of the last panel are zeros with a scale of zero.
                panel.fill(0);
            }
            for (lane, row) in rows.enumerate() {
                let source = &blocks[row * row_bytes..(row + 1) * row_bytes];
                let blocks = source.chunks_exact(P::Source::BYTES);
                for (source, panel) in blocks.zip(panel.chunks_exact_mut(P::BYTES)) {
                    P::pack(source, lane, panel);
                }
            }
        }
    });
}

/// Dequantizes one row of packed weights.
pub(super) fn unpack_row(format: BlockFormat, panels: &[u8], row: usize, out: &mut [f32]) {
    for_panel!(format, P => unpack_row_of::<P>(panels, row, out));
}

/// Bytes of the longest block of a row.
const LONGEST_BLOCK: usize = Q6K::BYTES;

fn unpack_row_of<P: Panel>(panels: &[u8], row: usize, out: &mut [f32]) {
    let length = out.len() / P::Source::VALUES * P::BYTES;
    let panel = &panels[row / LANES * length..][..length];
    let blocks = panel.chunks_exact(P::BYTES);
    let mut block = [0; LONGEST_BLOCK];
    for (panel, out) in blocks.zip(out.chunks_exact_mut(P::Source::VALUES)) {
        let block = &mut block[..P::Source::BYTES];
        P::unpack(panel, row % LANES, block);
        P::Source::dequantize(block, out);
    }
}

pub(super) use for_panel;
