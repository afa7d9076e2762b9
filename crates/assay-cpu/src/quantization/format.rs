//! Block formats with CPU kernels, and quantization of whole arrays.

use super::block::Block;
use super::legacy_quants::{Q4_0, Q4_1, Q8_0};
use super::mxfp4::Mxfp4;
use super::q4_k::{Q4K, Q5K};
use super::q6_k::Q6K;
use crate::context::Context;
use crate::error::{Result, check_length, check_value};
use crate::threads::DisjointSlice;
use assay_operations::ElementFormat;
use std::fmt;

/// A block format that the CPU has kernels for; [`ElementFormat`] has its name and sizes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum BlockFormat {
    /// Signed 8-bit codes, a scale per 32.
    Q8_0,
    /// 4-bit codes with zero point 8, a scale per 32.
    Q4_0,
    /// 4-bit codes, a scale and a minimum per 32.
    Q4_1,
    /// 4-bit codes; a 6-bit scale and minimum per 32 in superblocks of 256.
    Q4K,
    /// 5-bit codes; a 6-bit scale and minimum per 32 in superblocks of 256.
    Q5K,
    /// 6-bit codes; an 8-bit scale per 16 in superblocks of 256.
    Q6K,
    /// 4-bit floats, a power of two per 32.
    Mxfp4,
}

impl BlockFormat {
    /// All formats.
    pub const ALL: [BlockFormat; 7] = [
        BlockFormat::Q8_0,
        BlockFormat::Q4_0,
        BlockFormat::Q4_1,
        BlockFormat::Q4K,
        BlockFormat::Q5K,
        BlockFormat::Q6K,
        BlockFormat::Mxfp4,
    ];

    /// The block format that an element format is, if the CPU has kernels for it.
    pub fn of(format: ElementFormat) -> Option<Self> {
        Self::ALL.into_iter().find(|block| block.element_format() == format)
    }

    /// The format's row in the table of all formats.
    pub const fn element_format(self) -> ElementFormat {
        match self {
            BlockFormat::Q8_0 => Q8_0::FORMAT,
            BlockFormat::Q4_0 => Q4_0::FORMAT,
            BlockFormat::Q4_1 => Q4_1::FORMAT,
            BlockFormat::Q4K => Q4K::FORMAT,
            BlockFormat::Q5K => Q5K::FORMAT,
            BlockFormat::Q6K => Q6K::FORMAT,
            BlockFormat::Mxfp4 => Mxfp4::FORMAT,
        }
    }

    /// Values per block.
    pub const fn block_values(self) -> usize {
        self.element_format().block_values() as usize
    }

    /// Bytes per block.
    pub const fn block_bytes(self) -> usize {
        self.element_format().block_bytes() as usize
    }

    /// Bytes of this many values, which must fill whole blocks.
    pub fn bytes(self, operation: &'static str, values: usize) -> Result<usize> {
        check_value(
            operation,
            "values",
            values.is_multiple_of(self.block_values()),
            format_args!("a multiple of {} for {self}", self.block_values()),
            values,
        )?;
        Ok(values / self.block_values() * self.block_bytes())
    }
}

impl fmt::Display for BlockFormat {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.element_format().name())
    }
}

/// Blocks per task at least: enough to amortize waking a thread.
const MIN_BLOCKS_PER_TASK: usize = 256;

/// Quantizes values to blocks; a non-finite value makes its block dequantize to NaN.
pub fn quantize(
    context: Context,
    format: BlockFormat,
    values: &[f32],
    out: &mut [u8],
) -> Result<()> {
    let operation = "quantize";
    let bytes = format.bytes(operation, values.len())?;
    check_length(operation, "out", out.len(), &[bytes])?;
    match format {
        BlockFormat::Q8_0 => quantize_all::<Q8_0>(context, values, out),
        BlockFormat::Q4_0 => quantize_all::<Q4_0>(context, values, out),
        BlockFormat::Q4_1 => quantize_all::<Q4_1>(context, values, out),
        BlockFormat::Q4K => quantize_all::<Q4K>(context, values, out),
        BlockFormat::Q5K => quantize_all::<Q5K>(context, values, out),
        BlockFormat::Q6K => quantize_all::<Q6K>(context, values, out),
        BlockFormat::Mxfp4 => quantize_all::<Mxfp4>(context, values, out),
    }
    Ok(())
}

/// Dequantizes blocks.
pub fn dequantize(
    context: Context,
    format: BlockFormat,
    blocks: &[u8],
    out: &mut [f32],
) -> Result<()> {
    let operation = "dequantize";
    let bytes = format.bytes(operation, out.len())?;
    check_length(operation, "blocks", blocks.len(), &[bytes])?;
    match format {
        BlockFormat::Q8_0 => dequantize_all::<Q8_0>(context, blocks, out),
        BlockFormat::Q4_0 => dequantize_all::<Q4_0>(context, blocks, out),
        BlockFormat::Q4_1 => dequantize_all::<Q4_1>(context, blocks, out),
        BlockFormat::Q4K => dequantize_all::<Q4K>(context, blocks, out),
        BlockFormat::Q5K => dequantize_all::<Q5K>(context, blocks, out),
        BlockFormat::Q6K => dequantize_all::<Q6K>(context, blocks, out),
        BlockFormat::Mxfp4 => dequantize_all::<Mxfp4>(context, blocks, out),
    }
    Ok(())
}

fn quantize_all<B: Block>(context: Context, values: &[f32], out: &mut [u8]) {
    let count = values.len() / B::VALUES;
    let out = DisjointSlice::new(out);
    context.threads.parallel_for(count, MIN_BLOCKS_PER_TASK, &|blocks| {
        let values = &values[blocks.start * B::VALUES..blocks.end * B::VALUES];
        // SAFETY: ranges of blocks do not overlap.
        let out = unsafe { out.slice_mut(blocks.start * B::BYTES..blocks.end * B::BYTES) };
        for (values, block) in values.chunks_exact(B::VALUES).zip(out.chunks_exact_mut(B::BYTES)) {
            B::quantize(values, block);
        }
    });
}

fn dequantize_all<B: Block>(context: Context, blocks: &[u8], out: &mut [f32]) {
    let count = out.len() / B::VALUES;
    let out = DisjointSlice::new(out);
    context.threads.parallel_for(count, MIN_BLOCKS_PER_TASK, &|range| {
        let blocks = &blocks[range.start * B::BYTES..range.end * B::BYTES];
        // SAFETY: ranges of blocks do not overlap.
        let out = unsafe { out.slice_mut(range.start * B::VALUES..range.end * B::VALUES) };
        for (block, values) in blocks.chunks_exact(B::BYTES).zip(out.chunks_exact_mut(B::VALUES)) {
            B::dequantize(block, values);
        }
    });
}
