//! Products with weights: which kernel computes them.
//!
//! A few rows, and on GPUs with much shared memory some more, are one pass over the weights by
//! kernels of ours, norm in front and activation behind; others are cuBLASLt's between kernels of
//! their own, and ours again, a few rows at a time, where there is no cuBLASLt. Rows that may not
//! depend on those beside them go in groups.

use super::call::{Call, element_bytes};
use super::few_rows::{few_rows, is_few};
use super::groups::in_groups;
use super::packed::{Packed, Packing};
use super::products::{both_fp8, many_rows};
use super::rows::{activation, rms_norm_into, swiglu_into};
use super::some_rows::some_rows;
use super::tools::Tools;
use crate::blas;
use crate::device::Queue;
use assay_operations::{Activation, ElementFormat, Operand};
use assay_runtime::backend::Result;

/// One call of `linear`, read and checked.
#[derive(Clone, Copy)]
pub(super) struct Linear {
    pub rows: u64,
    pub inputs: u64,
    pub outputs: u64,
    pub x: Operand,
    pub weights: Operand,
    /// How weights of fewer bits lie, and where their scales are.
    pub packed: Option<Packed>,
    /// What normed rows of x are multiplied by; none leaves them as they are.
    pub gain: Option<Operand>,
    pub epsilon: f32,
    pub bias: Option<Operand>,
    pub residual: Option<Operand>,
    pub out: Operand,
    /// Of the products, unless they are gated.
    pub activation: Activation,
    /// Whether the outputs are gates and then as many ups, of which half as many numbers are made.
    pub gated: bool,
}

/// The weights, and how they lie where they are of fewer bits.
fn weights(
    call: &Call<'_>,
    x: ElementFormat,
    outputs: u64,
    inputs: u64,
) -> Result<(Operand, Option<Packed>)> {
    let Some(packing) = Packing::of(call.raw("weights")?.format) else {
        return Ok((call.of("weights", x, &[outputs, inputs])?, None));
    };
    let (weights, scales) = packing.find(call, "weights", outputs, inputs)?;
    let packed = Packed {
        packing,
        weights: weights.pointer,
        scales,
        outputs,
        inputs,
    };
    Ok((weights, Some(packed)))
}

pub(super) fn linear(tools: &Tools, queue: &Queue<'_>, call: &Call<'_>) -> Result<()> {
    let (rows, inputs) = (call.size("rows")?, call.size("inputs")?);
    let outputs = call.size("outputs")?;
    if call.raw("x")?.format == ElementFormat::Fp8 {
        return both_fp8(tools, queue, call);
    }
    let x = call.operand("x", &[rows, inputs])?;
    let (weights, packed) = weights(call, x.format, outputs, inputs)?;
    let activation = activation(call)?;
    let gated = activation.is_gated();
    let made = if gated { outputs / 2 } else { outputs };
    let given = Linear {
        rows,
        inputs,
        outputs,
        x,
        weights,
        packed,
        gain: call.optional_of("gain", x.format, &[inputs])?,
        epsilon: call.float("epsilon")?,
        bias: call.optional_of("bias", x.format, &[outputs])?,
        residual: call.optional_of("residual", x.format, &[rows, outputs])?,
        out: call.operand("out", &[rows, made])?,
        activation: if gated { Activation::None } else { activation },
        gated,
    };
    if gated && (!outputs.is_multiple_of(2) || given.residual.is_some()) {
        let wanted = "an even number of outputs and no residual for swiglu";
        return Err(call.error(wanted, format_args!("{outputs} outputs")));
    }
    if rows * outputs == 0 {
        return Ok(());
    }
    let narrow = matches!(x.format, ElementFormat::F16 | ElementFormat::Bf16);
    let whole = inputs > 0 && inputs.is_multiple_of(8);
    let fits = narrow && whole && x.pointer.0.is_multiple_of(16);
    // Rows beside each other in one product may be summed in another order than alone.
    let invariant = call.integer("batch_invariant")? != 0;
    if packed.is_some() && !fits {
        return Err(call.error("x of f16 or bf16 beside weights of fewer bits", x.format));
    }
    if fits && !invariant && some_rows(tools, queue, call, &given)? {
        return Ok(());
    }
    // One way for any number of rows: passes of ours where weights would be unpacked first.
    let ours = match invariant {
        true => packed.is_some(),
        false => is_few(&given),
    };
    if fits && (ours || !blas::is_available()) {
        if !ours {
            queue.device().note_own_products();
        }
        return few_rows(tools, queue, call, &given);
    }
    match invariant {
        true => between(tools, queue, call, &given, in_groups),
        false => between(tools, queue, call, &given, many_rows),
    }
}

/// How a plain product of many rows is computed.
type Multiply = fn(&Tools, &Queue<'_>, &Call<'_>, &Linear) -> Result<()>;

/// The product of many rows, with the norm and the unpacking of weights before it and the gates
/// after it in kernels of their own.
fn between(
    tools: &Tools,
    queue: &Queue<'_>,
    call: &Call<'_>,
    given: &Linear,
    multiply: Multiply,
) -> Result<()> {
    let mut product = *given;
    let scratch = |purpose, like: Operand, elements: u64| -> Result<Operand> {
        let bytes = elements * element_bytes(like.format).unwrap_or(0);
        let pointer = tools.scratch(queue, purpose, bytes)?;
        Ok(Operand {
            pointer,
            bytes,
            ..like
        })
    };
    if let Some(gain) = given.gain {
        let size = [given.rows, given.inputs];
        product.x = scratch("normed", given.x, given.rows * given.inputs)?;
        rms_norm_into(tools, queue, call, [given.x, gain, product.x], size)?;
    }
    if let Some(packed) = given.packed {
        product.weights = scratch("unpacked", given.x, given.outputs * given.inputs)?;
        packed.unpack_into(tools, queue, call, product.weights)?;
    }
    if !given.gated {
        return multiply(tools, queue, call, &product);
    }
    product.out = scratch("gated", given.out, given.rows * given.outputs)?;
    multiply(tools, queue, call, &product)?;
    let size = [given.rows, given.outputs / 2];
    swiglu_into(tools, queue, call, [product.out, given.out], size)
}
