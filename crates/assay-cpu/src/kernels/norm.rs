//! RMSNorm and LayerNorm.

use super::call::{Call, op_error};
use crate::ops::{self, Context};
use assay_runtime::backend::Result;

pub(super) fn rms_norm(context: Context, call: &Call<'_>) -> Result<()> {
    let (rows, columns) = (call.size("rows")?, call.size("columns")?);
    let epsilon = call.float("epsilon")?;
    let x = call.span::<f32>("x", &[rows, columns])?;
    let weight = call.span::<f32>("weight", &[columns])?;
    let residual = call.optional::<f32>("residual", &[rows, columns])?;
    let out = call.span::<f32>("out", &[rows, columns])?;
    if !call.runs() {
        return Ok(());
    }
    // SAFETY: the kernel runs, and operands do not overlap.
    let (x, weight, residual, out) = unsafe {
        (x.read(), weight.read(), residual.map(|residual| residual.write()), out.write())
    };
    match residual {
        Some(residual) => ops::add_rms_norm(context, x, residual, weight, epsilon, out),
        None => ops::rms_norm(context, x, weight, epsilon, out),
    }
    .map_err(op_error)
}

pub(super) fn layer_norm(context: Context, call: &Call<'_>) -> Result<()> {
    let (rows, columns) = (call.size("rows")?, call.size("columns")?);
    let epsilon = call.float("epsilon")?;
    let x = call.span::<f32>("x", &[rows, columns])?;
    let weight = call.span::<f32>("weight", &[columns])?;
    let bias = call.optional::<f32>("bias", &[columns])?;
    let residual = call.optional::<f32>("residual", &[rows, columns])?;
    let out = call.span::<f32>("out", &[rows, columns])?;
    if !call.runs() {
        return Ok(());
    }
    // SAFETY: the kernel runs, and operands do not overlap.
    let (x, weight, bias, residual, out) = unsafe {
        (
            x.read(),
            weight.read(),
            bias.map(|bias| bias.read()),
            residual.map(|residual| residual.write()),
            out.write(),
        )
    };
    match residual {
        Some(residual) => ops::add_layer_norm(context, x, residual, weight, bias, epsilon, out),
        None => ops::layer_norm(context, x, weight, bias, epsilon, out),
    }
    .map_err(op_error)
}
