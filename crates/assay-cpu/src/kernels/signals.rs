//! Fourier transforms, frames and filters of signals.

use super::call::{Call, op_error};
use crate::ops::{self, Context, FourierKind, FrameShape, FrameValue, Resampling};
use assay_runtime::backend::Result;

pub(super) fn fourier(context: Context, call: &Call<'_>) -> Result<()> {
    let (rows, length) = (call.size("rows")?, call.size("length")?);
    let scale = call.float("scale")?;
    let kind = call.chosen("kind", &FourierKind::ALL)?;
    let (complex, half) = ([rows, length, 2], [rows, length / 2 + 1, 2]);
    let real = [rows, length, 1];
    let (from, to) = match kind {
        FourierKind::Complex | FourierKind::Inverse => (complex, complex),
        FourierKind::RealToComplex => (real, half),
        FourierKind::ComplexToReal => (half, real),
    };
    let x = call.span::<f32>("x", &from)?;
    let out = call.span::<f32>("out", &to)?;
    if !call.runs() {
        return Ok(());
    }
    // SAFETY: the kernel runs, and operands do not overlap.
    let (x, out) = unsafe { (x.read(), out.write()) };
    ops::fourier(context, kind, length, scale, x, out).map_err(op_error)
}

pub(super) fn stft(context: Context, call: &Call<'_>) -> Result<()> {
    let value = call.chosen("value", &FrameValue::ALL)?;
    let shape = FrameShape {
        batch: call.size("batch")?,
        samples: call.size("samples")?,
        length: call.size("length")?,
        hop: call.size("hop")?,
        frames: call.size("frames")?,
        padding: call.size("padding")?,
        reflect: call.flag("reflect")?,
        value,
    };
    let x = call.span::<f32>("x", &[shape.batch, shape.samples])?;
    let window = call.span::<f32>("window", &[shape.length])?;
    let extents = [shape.batch, shape.length / 2 + 1, shape.frames, value.width()];
    let out = call.span::<f32>("out", &extents)?;
    if !call.runs() {
        return Ok(());
    }
    // SAFETY: the kernel runs, and operands do not overlap.
    let (x, window, out) = unsafe { (x.read(), window.read(), out.write()) };
    ops::stft(context, shape, x, window, out).map_err(op_error)
}

pub(super) fn overlap_add(context: Context, call: &Call<'_>) -> Result<()> {
    let (batch, frames) = (call.size("batch")?, call.size("frames")?);
    let (length, hop) = (call.size("length")?, call.size("hop")?);
    let (first, samples) = (call.size("first")?, call.size("samples")?);
    let floor = call.float("floor")?;
    let x = call.span::<f32>("x", &[batch, frames, length])?;
    let window = call.span::<f32>("window", &[length])?;
    let out = call.span::<f32>("out", &[batch, samples])?;
    if !call.runs() {
        return Ok(());
    }
    // SAFETY: the kernel runs, and operands do not overlap.
    let (x, window, out) = unsafe { (x.read(), window.read(), out.write()) };
    ops::overlap_add(context, x, window, batch, hop, first, floor, out).map_err(op_error)
}

pub(super) fn resample(context: Context, call: &Call<'_>) -> Result<()> {
    let (batch, samples) = (call.size("batch")?, call.size("samples")?);
    let (taps, outputs) = (call.size("taps_count")?, call.size("outputs")?);
    let (up, down) = (call.size("up")?, call.size("down")?);
    let resampling = Resampling { batch, up, down, first: call.size("first")? };
    let x = call.span::<f32>("x", &[batch, samples])?;
    let taps = call.span::<f32>("taps", &[taps])?;
    let out = call.span::<f32>("out", &[batch, outputs])?;
    if !call.runs() {
        return Ok(());
    }
    // SAFETY: the kernel runs, and operands do not overlap.
    let (x, taps, out) = unsafe { (x.read(), taps.read(), out.write()) };
    ops::resample(context, resampling, x, taps, out).map_err(op_error)
}

pub(super) fn recursive_filter(context: Context, call: &Call<'_>) -> Result<()> {
    let (batch, samples) = (call.size("batch")?, call.size("samples")?);
    let order = call.size("order")?;
    let b = call.span::<f32>("b", &[order.saturating_add(1)])?;
    let a = call.span::<f32>("a", &[order.saturating_add(1)])?;
    let x = call.span::<f32>("x", &[batch, samples])?;
    let state = call.span::<f32>("state", &[batch, order])?;
    let out = call.span::<f32>("out", &[batch, samples])?;
    if !call.runs() {
        return Ok(());
    }
    // SAFETY: the kernel runs, and operands do not overlap.
    let (b, a, x, state, out) =
        unsafe { (b.read(), a.read(), x.read(), state.write(), out.write()) };
    ops::recursive_filter(context, b, a, x, state, out).map_err(op_error)
}
