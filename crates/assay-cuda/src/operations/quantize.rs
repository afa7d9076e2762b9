//! Numbers to narrower formats and back, in the order in which files hold them.

use super::call::{Call, at, int, number_type};
use super::rows::line;
use super::tools::{Setting, Tools};
use crate::device::Queue;
use assay_operations::{ElementFormat, Operand};
use assay_runtime::backend::Result;

const THREADS: u64 = 256;

/// A block format and the value of the kernels' `SOURCE` option that selects it.
struct Blocks {
    source: u64,
    format: ElementFormat,
}

fn blocks(format: ElementFormat) -> Option<Blocks> {
    let source = match format {
        ElementFormat::Q8_0 => 80,
        ElementFormat::Q4_0 => 40,
        ElementFormat::Q4_1 => 41,
        ElementFormat::Q4K => 45,
        ElementFormat::Q6K => 65,
        _ => return None,
    };
    Some(Blocks { source, format })
}

/// The operand of this name as `count` numbers in blocks.
fn held(call: &Call<'_>, name: &'static str, count: u64, blocks: &Blocks) -> Result<Operand> {
    let found = call.raw(name)?;
    let Some(wanted) = blocks.format.bytes(count) else {
        let wanted = format_args!("numbers in multiples of {}", blocks.format.block_values());
        return Err(call.error(wanted, count));
    };
    match found.bytes < wanted {
        true => Err(call.error(format_args!("{name} of {wanted} bytes"), found.bytes)),
        false => Ok(found),
    }
}

fn launch(
    tools: &Tools,
    queue: &Queue<'_>,
    kernel: &'static str,
    settings: &[Setting],
    [x, out]: [Operand; 2],
    count: u64,
) -> Result<()> {
    if count == 0 {
        return Ok(());
    }
    let function = tools.function(queue, kernel, settings)?;
    let extent = line(count.div_ceil(THREADS), THREADS);
    queue.launch(&function, extent, &[at(x), at(out), int(count)])
}

/// Plain numbers to plain numbers of another type.
fn convert(tools: &Tools, queue: &Queue<'_>, call: &Call<'_>, count: u64) -> Result<()> {
    let (x, out) = (call.operand("x", &[count])?, call.operand("out", &[count])?);
    let settings: [Setting; 2] = [
        ("TYPE", call.numbers("x", x)?.into()),
        ("OUTPUT", call.numbers("out", out)?.into()),
    ];
    launch(tools, queue, "convert", &settings, [x, out], count)
}

pub(super) fn quantize(tools: &Tools, queue: &Queue<'_>, call: &Call<'_>) -> Result<()> {
    let count = call.size("count")?;
    let format = call.raw("out")?.format;
    if number_type(format).is_some() {
        return convert(tools, queue, call, count);
    }
    // Scales of the longer blocks are searched for, which is a processor's work.
    let Some(blocks) = blocks(format).filter(|blocks| blocks.format.block_values() == 32) else {
        return Err(call.error("out of f32, f16, bf16, q8_0, q4_0 or q4_1", format));
    };
    let x = call.operand("x", &[count])?;
    let out = held(call, "out", count, &blocks)?;
    let settings: [Setting; 2] = [
        ("SOURCE", blocks.source.into()),
        ("TYPE", call.numbers("x", x)?.into()),
    ];
    launch(tools, queue, "quantize_blocks", &settings, [x, out], count)
}

pub(super) fn dequantize(tools: &Tools, queue: &Queue<'_>, call: &Call<'_>) -> Result<()> {
    let count = call.size("count")?;
    let format = call.raw("x")?.format;
    if number_type(format).is_some() {
        return convert(tools, queue, call, count);
    }
    let Some(blocks) = blocks(format) else {
        return Err(call.error("x of plain numbers or of blocks", format));
    };
    let x = held(call, "x", count, &blocks)?;
    let out = call.operand("out", &[count])?;
    let settings: [Setting; 2] = [
        ("SOURCE", blocks.source.into()),
        ("OUTPUT", call.numbers("out", out)?.into()),
    ];
    launch(
        tools,
        queue,
        "dequantize_blocks",
        &settings,
        [x, out],
        count,
    )
}
