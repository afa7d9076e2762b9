//! Activations, SwiGLU and softmax.

use super::call::{Call, op_error};
use crate::ops::{self, Context};
use assay_operations::Activation;
use assay_runtime::backend::Result;

/// The call's activation.
pub(super) fn activation(call: &Call<'_>) -> Result<Activation> {
    call.chosen("activation", &Activation::ALL)
}

/// The call's activation, which must be elementwise.
pub(super) fn elementwise_activation(call: &Call<'_>) -> Result<Activation> {
    let activation = activation(call)?;
    if activation.is_gated() {
        return Err(call.error("an elementwise", "activation", activation));
    }
    Ok(activation)
}

pub(super) fn swiglu(context: Context, call: &Call<'_>) -> Result<()> {
    let (rows, columns) = (call.size("rows")?, call.size("columns")?);
    let gate_up = call.span::<f32>("gate_up", &[rows, 2, columns])?;
    let out = call.span::<f32>("out", &[rows, columns])?;
    if !call.runs() {
        return Ok(());
    }
    // SAFETY: the kernel runs, and operands do not overlap.
    let (gate_up, out) = unsafe { (gate_up.read(), out.write()) };
    ops::gate(context, Activation::Swiglu, gate_up, columns, out).map_err(op_error)
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
    ops::activate(context, activation, x, out).map_err(op_error)
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
    ops::softmax(context, x, columns, out).map_err(op_error)
}
