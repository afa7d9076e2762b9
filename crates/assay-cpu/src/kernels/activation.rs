//! Activations, the gated product and softmax.

use super::call::{Call, refused};
use super::weights::elementwise_activation;
use crate::ops::{self, Context};
use assay_runtime::backend::Result;

pub(super) fn swiglu(context: Context, call: &Call<'_>) -> Result<()> {
    let (rows, columns) = (call.size("rows")?, call.size("columns")?);
    let gate_up = call.span::<f32>("gate_up", &[rows, 2, columns])?;
    let out = call.span::<f32>("out", &[rows, columns])?;
    if !call.runs() {
        return Ok(());
    }
    // SAFETY: the kernel runs, and operands do not overlap.
    let (gate_up, out) = unsafe { (gate_up.read(), out.write()) };
    ops::swiglu(context, gate_up, columns, out).map_err(refused)
}

pub(super) fn activate(context: Context, call: &Call<'_>) -> Result<()> {
    let count = call.size("count")?;
    let activation = elementwise_activation(call)?;
    let x = call.span::<f32>("x", &[count])?;
    let out = call.span::<f32>("out", &[count])?;
    if !call.runs() {
        return Ok(());
    }
    // SAFETY: the kernel runs, and operands do not overlap.
    let (x, out) = unsafe { (x.read(), out.write()) };
    ops::activate(context, activation, x, out).map_err(refused)
}

pub(super) fn softmax(context: Context, call: &Call<'_>) -> Result<()> {
    let (rows, columns) = (call.size("rows")?, call.size("columns")?);
    let x = call.span::<f32>("x", &[rows, columns])?;
    let out = call.span::<f32>("out", &[rows, columns])?;
    if !call.runs() {
        return Ok(());
    }
    // SAFETY: the kernel runs, and operands do not overlap.
    let (x, out) = unsafe { (x.read(), out.write()) };
    ops::softmax(context, x, columns, out).map_err(refused)
}
