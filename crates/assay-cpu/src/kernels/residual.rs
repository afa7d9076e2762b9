//! Sums with the residual stream, and scaled or normalized parts of rows.

use super::call::{Call, op_error};
use crate::ops::{self, Context};
use assay_runtime::backend::Result;

pub(super) fn scale(context: Context, call: &Call<'_>) -> Result<()> {
    let count = call.size("count")?;
    let (factor, softcap) = (call.float("factor")?, call.float("softcap")?);
    let x = call.span::<f32>("x", &[count])?;
    if !call.runs() {
        return Ok(());
    }
    // SAFETY: the kernel runs, and it is the only operand.
    let x = unsafe { x.write() };
    ops::scale(context, x, factor, softcap).map_err(op_error)
}

pub(super) fn add_residual(context: Context, call: &Call<'_>) -> Result<()> {
    let (rows, columns) = (call.size("rows")?, call.size("columns")?);
    let (epsilon, factor) = (call.float("epsilon")?, call.float("factor")?);
    let x = call.span::<f32>("x", &[rows, columns])?;
    let weight = call.optional::<f32>("weight", &[columns])?;
    let residual = call.span::<f32>("residual", &[rows, columns])?;
    let out = call.span::<f32>("out", &[rows, columns])?;
    if !call.runs() {
        return Ok(());
    }
    // SAFETY: the kernel runs, and operands do not overlap.
    let (x, weight, residual, out) =
        unsafe { (x.read(), weight.map(|weight| weight.read()), residual.read(), out.write()) };
    let norm = weight.map(|weight| (weight, epsilon));
    ops::add_residual(context, x, norm, residual, factor, out).map_err(op_error)
}

pub(super) fn norm_columns(context: Context, call: &Call<'_>) -> Result<()> {
    let (rows, columns) = (call.size("rows")?, call.size("columns")?);
    let (first, width) = (call.size("first")?, call.size("width")?);
    let epsilon = call.float("epsilon")?;
    let x = call.span::<f32>("x", &[rows, columns])?;
    let weight = call.span::<f32>("weight", &[width])?;
    if !call.runs() {
        return Ok(());
    }
    // SAFETY: the kernel runs, and operands do not overlap.
    let (x, weight) = unsafe { (x.write(), weight.read()) };
    ops::norm_columns(context, x, columns, first, weight, epsilon).map_err(op_error)
}
