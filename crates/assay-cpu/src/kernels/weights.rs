//! The layout of weights in the device's memory.
//!
//! Dense weights are row-major. Blocks are packed into panels of sixteen rows; int8 weights too, with
//! the scales of all rows behind the panels.

use super::call::{Call, Span, op_error};
use crate::context::Context;
use crate::error::{OpError, check_length};
use crate::quantization::{BlockFormat, PackedView, int8_blocks, pack_into, packed_bytes};
use crate::simd::LANES;
use assay_operations::ElementFormat;
use assay_runtime::backend::Result;

/// The block format that stores an element format, if it is quantized.
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

fn not_a_weight_format(format: ElementFormat) -> OpError {
    OpError::Value {
        operation: "pack weights",
        argument: "format",
        expected: "a format of weights".to_owned(),
        got: format.to_string(),
    }
}

/// Bytes of weights of this shape in the device's memory.
pub fn weights_bytes(
    format: ElementFormat,
    outputs: usize,
    inputs: usize,
) -> std::result::Result<usize, OpError> {
    if let Some(bytes) = dense_bytes(format) {
        return Ok(outputs.saturating_mul(inputs).saturating_mul(bytes));
    }
    let blocks = block_format(format).ok_or_else(|| not_a_weight_format(format))?;
    let panels = packed_bytes(blocks, outputs, inputs)?;
    let scales = if format == ElementFormat::Int8 { 4 } else { 0 };
    Ok(panels.saturating_add(outputs.saturating_mul(scales)))
}

/// Packs weights in file order into the device's memory; `scales` are those of int8 weights.
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
    let needed = if format == ElementFormat::Int8 { outputs * 4 } else { 0 };
    check_length(operation, "scales", scales.map_or(0, <[u8]>::len), &[needed])?;
    if dense_bytes(format).is_some() {
        check_length(operation, "source", source.len(), &[bytes])?;
        out.copy_from_slice(source);
        return Ok(());
    }
    let blocks = block_format(format).ok_or_else(|| not_a_weight_format(format))?;
    let (panels, scale_bytes) = out.split_at_mut(packed_bytes(blocks, outputs, inputs)?);
    if let Some(scales) = scales {
        scale_bytes.copy_from_slice(scales);
        let values: Vec<i8> = source.iter().map(|byte| *byte as i8).collect();
        let source = int8_blocks(&values, outputs, inputs)?;
        return pack_into(context, blocks, &source, outputs, inputs, panels);
    }
    pack_into(context, blocks, source, outputs, inputs, panels)
}

/// A view of packed weights.
fn view<'a>(
    format: ElementFormat,
    bytes: &'a [u8],
    outputs: usize,
    inputs: usize,
) -> std::result::Result<PackedView<'a>, OpError> {
    let blocks = block_format(format).ok_or_else(|| not_a_weight_format(format))?;
    let (panels, scale_bytes) = bytes.split_at(packed_bytes(blocks, outputs, inputs)?);
    // SAFETY: any four bytes are a valid `f32`; unaligned bytes are excluded.
    let (before, scales, after) = unsafe { scale_bytes.align_to::<f32>() };
    check_length("pack weights", "aligned scales", before.len() + after.len(), &[0])?;
    let scales = (format == ElementFormat::Int8).then_some(scales);
    PackedView::new(blocks, panels, scales, outputs, inputs)
}

/// Dequantizes packed weights to `out`, row-major.
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
    let convert = |to_f32: fn(u16) -> f32, out: &mut [f32]| {
        for (out, pair) in out.iter_mut().zip(bytes.as_chunks::<2>().0) {
            *out = to_f32(u16::from_le_bytes(*pair));
        }
    };
    match format {
        ElementFormat::F32 => {
            for (out, four) in out.iter_mut().zip(bytes.as_chunks::<4>().0) {
                *out = f32::from_le_bytes(*four);
            }
        }
        ElementFormat::F16 => convert(crate::half_precision::f16_to_f32, out),
        ElementFormat::Bf16 => convert(crate::half_precision::bf16_to_f32, out),
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
        let bytes = weights_bytes(format, outputs, inputs).map_err(op_error)?;
        Ok(PackedSpan { format, outputs, inputs, bytes: call.bytes(name, bytes)? })
    }

    /// The weights of several experts, one below the other. Panels of sixteen rows must not mix experts.
    pub fn of_experts(
        call: &Call<'a>,
        name: &str,
        experts: usize,
        outputs: usize,
        inputs: usize,
    ) -> Result<Self> {
        if experts > 1 && !outputs.is_multiple_of(LANES) {
            let expected = format_args!("in multiples of {LANES} where they are quantized");
            return Err(call.error("outputs", expected, outputs));
        }
        let all = Self::new(call, name, experts.saturating_mul(outputs), inputs)?;
        Ok(PackedSpan { outputs, ..all })
    }

    /// The weights of one expert.
    ///
    /// # Safety
    ///
    /// As for [`Span::read`].
    pub unsafe fn read_expert(&self, expert: usize) -> Result<PackedView<'a>> {
        // SAFETY: the caller guarantees it.
        let bytes = unsafe { self.bytes.read() };
        let blocks =
            block_format(self.format).ok_or_else(|| op_error(not_a_weight_format(self.format)))?;
        let panel_bytes = packed_bytes(blocks, self.outputs, self.inputs).map_err(op_error)?;
        let panels = &bytes[expert * panel_bytes..][..panel_bytes];
        if self.format != ElementFormat::Int8 {
            return PackedView::new(blocks, panels, None, self.outputs, self.inputs)
                .map_err(op_error);
        }
        // The scales of all rows are behind the panels of all experts.
        let experts = bytes.len() / (panel_bytes + 4 * self.outputs).max(1);
        let scale_bytes = &bytes[experts * panel_bytes..][4 * self.outputs * expert..];
        // SAFETY: any four bytes are a valid `f32`; unaligned bytes are excluded below.
        let (before, scales, _) = unsafe { scale_bytes[..4 * self.outputs].align_to::<f32>() };
        check_length("pack weights", "aligned scales", before.len(), &[0]).map_err(op_error)?;
        PackedView::new(blocks, panels, Some(scales), self.outputs, self.inputs).map_err(op_error)
    }

    /// # Safety
    ///
    /// As for [`Span::read`].
    pub unsafe fn read(&self) -> Result<PackedView<'a>> {
        // SAFETY: the caller guarantees it.
        let bytes = unsafe { self.bytes.read() };
        view(self.format, bytes, self.outputs, self.inputs).map_err(op_error)
    }
}
