//! Linear layers, and how their weights lie in the device's memory.
//!
//! Dense weights lie row by row as they came. Blocks are repacked into panels of sixteen rows;
//! signed bytes are panels too, with the scales of all rows behind them.

use super::call::{Call, Span, refused};
use crate::context::Context;
use crate::error::{OpError, check_length};
use crate::quantization::{BlockFormat, PackedView, int8_blocks, pack_into, packed_bytes};
use assay_operations::ElementFormat;
use assay_runtime::backend::Result;

/// The block format behind an element format, if it is one.
pub(super) fn block_format(format: ElementFormat) -> Option<BlockFormat> {
    match format {
        // Signed bytes are Q8_0 blocks with a scale of one.
        ElementFormat::Int8 => Some(BlockFormat::Q8_0),
        format => BlockFormat::of(format),
    }
}

fn dense_bytes(format: ElementFormat) -> Option<usize> {
    match format {
        ElementFormat::F32 | ElementFormat::F16 | ElementFormat::Bf16 => {
            Some(format.block_bytes() as usize)
        }
        _ => None,
    }
}

fn no_weights(format: ElementFormat) -> OpError {
    OpError::Value {
        operation: "pack weights",
        argument: "format",
        expected: "a format of weights".to_owned(),
        got: format.to_string(),
    }
}

/// Bytes that weights of this shape take in the device's memory.
pub fn weights_bytes(
    format: ElementFormat,
    outputs: usize,
    inputs: usize,
) -> std::result::Result<usize, OpError> {
    if let Some(bytes) = dense_bytes(format) {
        return Ok(outputs.saturating_mul(inputs).saturating_mul(bytes));
    }
    let blocks = block_format(format).ok_or_else(|| no_weights(format))?;
    let panels = packed_bytes(blocks, outputs, inputs)?;
    let scales = if format == ElementFormat::Int8 { 4 } else { 0 };
    Ok(panels.saturating_add(outputs.saturating_mul(scales)))
}

/// Writes weights as a file has them into memory of the device; `scales` are those of signed bytes.
pub fn pack_weights(
    context: Context,
    format: ElementFormat,
    source: &[u8],
    scales: Option<&[u8]>,
    outputs: usize,
    inputs: usize,
    out: &mut [u8],
) -> std::result::Result<(), OpError> {
    let operation = "pack weights";
    let bytes = weights_bytes(format, outputs, inputs)?;
    check_length(operation, "out", out.len(), &[bytes])?;
    let needed = if format == ElementFormat::Int8 {
        outputs * 4
    } else {
        0
    };
    check_length(
        operation,
        "scales",
        scales.map_or(0, <[u8]>::len),
        &[needed],
    )?;
    if dense_bytes(format).is_some() {
        check_length(operation, "source", source.len(), &[bytes])?;
        out.copy_from_slice(source);
        return Ok(());
    }
    let blocks = block_format(format).ok_or_else(|| no_weights(format))?;
    let (panels, behind) = out.split_at_mut(packed_bytes(blocks, outputs, inputs)?);
    if let Some(scales) = scales {
        behind.copy_from_slice(scales);
        let values: Vec<i8> = source.iter().map(|byte| *byte as i8).collect();
        let source = int8_blocks(&values, outputs, inputs)?;
        return pack_into(context, blocks, &source, outputs, inputs, panels);
    }
    pack_into(context, blocks, source, outputs, inputs, panels)
}

/// Repacked weights, looked at where they are.
fn view<'a>(
    format: ElementFormat,
    bytes: &'a [u8],
    outputs: usize,
    inputs: usize,
) -> std::result::Result<PackedView<'a>, OpError> {
    let blocks = block_format(format).ok_or_else(|| no_weights(format))?;
    let (panels, behind) = bytes.split_at(packed_bytes(blocks, outputs, inputs)?);
    // SAFETY: any four bytes are a number, and what is not aligned is left out.
    let (before, scales, after) = unsafe { behind.align_to::<f32>() };
    check_length(
        "pack weights",
        "aligned scales",
        before.len() + after.len(),
        &[0],
    )?;
    let scales = (format == ElementFormat::Int8).then_some(scales);
    PackedView::new(blocks, panels, scales, outputs, inputs)
}

/// Writes the numbers of packed weights to `out`, row by row.
pub fn dequantize_weights(
    format: ElementFormat,
    bytes: &[u8],
    outputs: usize,
    inputs: usize,
    out: &mut [f32],
) -> std::result::Result<(), OpError> {
    let operation = "dequantize";
    check_length(operation, "out", out.len(), &[outputs, inputs])?;
    let expected = weights_bytes(format, outputs, inputs)?;
    check_length(operation, "weights", bytes.len(), &[expected])?;
    let two = |widen: fn(u16) -> f32, out: &mut [f32]| {
        for (out, pair) in out.iter_mut().zip(bytes.as_chunks::<2>().0) {
            *out = widen(u16::from_le_bytes(*pair));
        }
    };
    match format {
        ElementFormat::F32 => {
            for (out, four) in out.iter_mut().zip(bytes.as_chunks::<4>().0) {
                *out = f32::from_le_bytes(*four);
            }
        }
        ElementFormat::F16 => two(crate::half_precision::f16_to_f32, out),
        ElementFormat::Bf16 => two(crate::half_precision::bf16_to_f32, out),
        _ => {
            let view = view(format, bytes, outputs, inputs)?;
            for (row, out) in out.chunks_exact_mut(inputs.max(1)).enumerate() {
                view.dequantize_row(row, out)?;
            }
        }
    }
    Ok(())
}

/// Packed weights of a call.
pub(super) struct PackedSpan<'a> {
    format: ElementFormat,
    outputs: usize,
    inputs: usize,
    bytes: Span<'a, u8>,
}

impl<'a> PackedSpan<'a> {
    pub fn new(call: &Call<'a>, name: &str, outputs: usize, inputs: usize) -> Result<Self> {
        let format = call.format(name)?;
        let bytes = weights_bytes(format, outputs, inputs).map_err(refused)?;
        Ok(PackedSpan {
            format,
            outputs,
            inputs,
            bytes: call.bytes(name, bytes)?,
        })
    }

    /// # Safety
    ///
    /// As for [`Span::read`].
    pub unsafe fn read(&self) -> Result<PackedView<'a>> {
        // SAFETY: the caller vouches for it.
        let bytes = unsafe { self.bytes.read() };
        view(self.format, bytes, self.outputs, self.inputs).map_err(refused)
    }
}
