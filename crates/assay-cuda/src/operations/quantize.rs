//! Quantization to GGML blocks and back, in the layout of GGUF files, and conversion of floats.

use super::call::{Call, float_type_name, int, pointer};
use super::define::Define;
use super::grid::grid_1d;
use super::packed_layout::{WeightLayout, block_format};
use assay_operations::{ElementFormat, Operand};
use assay_runtime::backend::Result;

const THREADS: u64 = 256;

/// Formats whose codes a kernel chooses: the scale of a block is that of its extremes.
fn is_quantized_on_device(format: ElementFormat) -> bool {
    use ElementFormat::{Q4_0, Q4_1, Q8_0};
    matches!(format, Q8_0 | Q4_0 | Q4_1)
}

/// The operand of this name as blocks of `count` weights.
fn block_operand(
    call: &Call<'_>,
    name: &'static str,
    count: u64,
    format: ElementFormat,
) -> Result<Operand> {
    let found = call.raw(name)?;
    let Some(expected) = format.bytes(count) else {
        let multiple = format.block_values();
        return Err(call.error(format_args!("weights in multiples of {multiple}"), count));
    };
    match found.bytes < expected {
        true => Err(call.error(format_args!("{name} of {expected} bytes"), found.bytes)),
        false => Ok(found),
    }
}

fn launch(
    call: &Call<'_>,
    kernel: &'static str,
    defines: &[Define],
    [x, out]: [Operand; 2],
    count: u64,
) -> Result<()> {
    if count == 0 {
        return Ok(());
    }
    let function = call.function(kernel, defines)?;
    let config = grid_1d(count.div_ceil(THREADS), THREADS);
    call.queue.launch(&function, config, &[pointer(x), pointer(out), int(count)])
}

/// Converts floats to another type.
fn convert(call: &Call<'_>, count: u64) -> Result<()> {
    let (x, out) = (call.operand("x", &[count])?, call.operand("out", &[count])?);
    let defines: [Define; 2] = [
        ("TYPE", call.float_type("x", x)?.into()),
        ("OUTPUT", call.float_type("out", out)?.into()),
    ];
    launch(call, "convert", &defines, [x, out], count)
}

pub(super) fn quantize(call: &Call<'_>) -> Result<()> {
    let count = call.size("count")?;
    let format = call.raw("out")?.format;
    if float_type_name(format).is_some() {
        return convert(call, count);
    }
    // Other formats search for their scales, which only the CPU implements.
    let Some(code) = block_format(format).filter(|_| is_quantized_on_device(format)) else {
        return Err(call.error("out of f32, f16, bf16, q8_0, q4_0 or q4_1", format));
    };
    let x = call.operand("x", &[count])?;
    let out = block_operand(call, "out", count, format)?;
    let defines: [Define; 2] =
        [("BLOCK_FORMAT", code.into()), ("TYPE", call.float_type("x", x)?.into())];
    launch(call, "quantize_blocks", &defines, [x, out], count)
}

pub(super) fn dequantize(call: &Call<'_>) -> Result<()> {
    let count = call.size("count")?;
    let format = call.raw("x")?.format;
    if float_type_name(format).is_some() {
        return convert(call, count);
    }
    let (Some(code), Some(layout)) = (block_format(format), WeightLayout::of(format)) else {
        return Err(call.error("x of floats or of blocks", format));
    };
    let x = block_operand(call, "x", count, format)?;
    let out = call.operand("out", &[count])?;
    let mut defines = layout.defines().to_vec();
    defines
        .extend([("BLOCK_FORMAT", code.into()), ("OUTPUT", call.float_type("out", out)?.into())]);
    launch(call, "dequantize_blocks", &defines, [x, out], count)
}
