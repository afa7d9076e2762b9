//! Roofline measurements: read and copy bandwidth, and FMA throughput.

use super::call::{Call, op_error};
use crate::context::Context;
use crate::roofline::{self, FmaChain};
use assay_runtime::backend::Result;

pub(super) fn stream_read(context: Context, call: &Call<'_>) -> Result<()> {
    let x = call.span::<f32>("x", &[call.size("count")?])?;
    let out = call.span::<f32>("out", &[1])?;
    if !call.runs() {
        return Ok(());
    }
    // SAFETY: the kernel runs, and operands do not overlap.
    let (x, out) = unsafe { (x.read(), out.write()) };
    out[0] = roofline::stream_read(context, x) as f32;
    Ok(())
}

pub(super) fn stream_copy(context: Context, call: &Call<'_>) -> Result<()> {
    let count = call.size("count")?;
    let x = call.span::<f32>("x", &[count])?;
    let out = call.span::<f32>("out", &[count])?;
    if !call.runs() {
        return Ok(());
    }
    // SAFETY: the kernel runs, and operands do not overlap.
    let (x, out) = unsafe { (x.read(), out.write()) };
    roofline::stream_copy(context, x, out).map_err(op_error)
}

pub(super) fn fma_peak(context: Context, call: &Call<'_>) -> Result<()> {
    let count = call.size("count")?;
    let steps = FmaChain {
        length: call.size("steps")?,
        factor: call.float("factor")?,
        addend: call.float("addend")?,
    };
    let x = call.span::<f32>("x", &[count])?;
    let out = call.span::<f32>("out", &[count])?;
    if !call.runs() {
        return Ok(());
    }
    // SAFETY: the kernel runs, and operands do not overlap.
    let (x, out) = unsafe { (x.read(), out.write()) };
    roofline::fma_peak(context, x, steps, out).map_err(op_error)
}
