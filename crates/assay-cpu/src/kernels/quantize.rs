//! Quantization to block or low-precision formats, and back.

use super::call::{Call, for_element, op_error};
use super::weights::block_format;
use crate::ops::{Context, Element};
use crate::quantization::{self, BlockFormat};
use assay_operations::ElementFormat;
use assay_runtime::backend::Result;

/// The block format of an operand, unless it is a dense one.
fn blocks(call: &Call<'_>, name: &str) -> Result<Option<BlockFormat>> {
    match call.format(name)? {
        ElementFormat::Int8 => Err(call.error(name, "of a dense or a block format", "int8")),
        format => Ok(block_format(format)),
    }
}

pub(super) fn quantize(context: Context, call: &Call<'_>) -> Result<()> {
    let count = call.size("count")?;
    let x = call.span::<f32>("x", &[count])?;
    if let Some(format) = blocks(call, "out")? {
        let bytes = format.bytes("quantize", count).map_err(op_error)?;
        let out = call.bytes("out", bytes)?;
        if !call.runs() {
            return Ok(());
        }
        // SAFETY: the kernel runs, and operands do not overlap.
        let (x, out) = unsafe { (x.read(), out.write()) };
        return quantization::quantize(context, format, x, out).map_err(op_error);
    }
    for_element!(call, "out", T => {
        let out = call.span::<T>("out", &[count])?;
        if call.runs() {
            // SAFETY: the kernel runs, and operands do not overlap.
            let (x, out) = unsafe { (x.read(), out.write()) };
            for (out, x) in out.iter_mut().zip(x) {
                *out = T::from(*x);
            }
        }
        Ok(())
    })
}

pub(super) fn dequantize(context: Context, call: &Call<'_>) -> Result<()> {
    let count = call.size("count")?;
    let out = call.span::<f32>("out", &[count])?;
    if let Some(format) = blocks(call, "x")? {
        let bytes = format.bytes("dequantize", count).map_err(op_error)?;
        let x = call.bytes("x", bytes)?;
        if !call.runs() {
            return Ok(());
        }
        // SAFETY: the kernel runs, and operands do not overlap.
        let (x, out) = unsafe { (x.read(), out.write()) };
        return quantization::dequantize(context, format, x, out).map_err(op_error);
    }
    for_element!(call, "x", T => {
        let x = call.span::<T>("x", &[count])?;
        if call.runs() {
            // SAFETY: the kernel runs, and operands do not overlap.
            let (x, out) = unsafe { (x.read(), out.write()) };
            convert_to_f32(x, out);
        }
        Ok(())
    })
}

fn convert_to_f32<T: Element>(x: &[T], out: &mut [f32]) {
    for (out, x) in out.iter_mut().zip(x) {
        *out = (*x).into();
    }
}
