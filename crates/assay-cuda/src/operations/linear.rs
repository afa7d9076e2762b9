//! Products with weights: which kernel computes them.
//!
//! A few rows are one pass over the weights by a kernel of ours; more are cuBLASLt's, and ours
//! again, a few rows at a time, where there is no cuBLASLt.

use super::call::Call;
use super::few_rows::{few, few_rows};
use super::products::many_rows;
use super::rows::activation;
use super::tools::Tools;
use crate::blas;
use crate::device::Queue;
use assay_core::backend::{DevicePointer, Result};
use assay_core::operations::{ElementFormat, Operand};

/// One call of `linear`, read and checked.
pub(super) struct Linear {
    pub rows: u64,
    pub inputs: u64,
    pub outputs: u64,
    pub x: Operand,
    pub weights: Operand,
    /// One scale for each output, of weights of 8 bits.
    pub scales: Option<DevicePointer>,
    pub bias: Option<Operand>,
    pub residual: Option<Operand>,
    pub out: Operand,
    pub activation: u64,
}

/// The weights, and the scales behind them where they are of 8 bits.
fn weights(
    call: &Call<'_>,
    x: ElementFormat,
    outputs: u64,
    inputs: u64,
) -> Result<(Operand, Option<DevicePointer>)> {
    let weights = call.raw("weights")?;
    if weights.format != ElementFormat::Int8 {
        return Ok((call.of("weights", x, &[outputs, inputs])?, None));
    }
    let wanted = outputs * inputs + outputs * 4;
    if weights.bytes < wanted || !inputs.is_multiple_of(16) {
        let wanted = format_args!("weights of {wanted} bytes, with inputs a multiple of 16");
        return Err(call.error(wanted, weights.bytes));
    }
    let scales = DevicePointer(weights.pointer.0 + outputs * inputs);
    Ok((weights, Some(scales)))
}

pub(super) fn linear(tools: &Tools, queue: &Queue<'_>, call: &Call<'_>) -> Result<()> {
    let (rows, inputs) = (call.size("rows")?, call.size("inputs")?);
    let outputs = call.size("outputs")?;
    let x = call.operand("x", &[rows, inputs])?;
    let (weights, scales) = weights(call, x.format, outputs, inputs)?;
    let given = Linear {
        rows,
        inputs,
        outputs,
        x,
        weights,
        scales,
        bias: call.optional_of("bias", x.format, &[outputs])?,
        residual: call.optional_of("residual", x.format, &[rows, outputs])?,
        out: call.operand("out", &[rows, outputs])?,
        activation: activation(call)?,
    };
    if rows * outputs == 0 {
        return Ok(());
    }
    let narrow = matches!(x.format, ElementFormat::F16 | ElementFormat::Bf16);
    let whole = inputs > 0 && inputs.is_multiple_of(8);
    let fits = narrow && whole && x.pointer.0.is_multiple_of(16);
    // Rows beside each other in one product may be summed in another order than alone; the kernel
    // for few rows keeps to one.
    let alone = call.integer("invariant")? != 0 || scales.is_some();
    if scales.is_some() && !fits {
        return Err(call.error("x of f16 or bf16 beside weights of 8 bits", x.format));
    }
    if fits && (rows <= few(inputs) || alone || blas::finding().is_err()) {
        return few_rows(tools, queue, call, &given);
    }
    many_rows(tools, queue, call, &given)
}
