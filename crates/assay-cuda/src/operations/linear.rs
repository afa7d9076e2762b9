//! Linear layers: which GEMM kernel computes them.
//!
//! Few rows are a fused GEMV or, on GPUs with enough shared memory, a fused small-M GEMM, with the
//! norm as prologue and the activation as epilogue. More rows are cuBLASLt's GEMM between separate
//! kernels for norm, dequantization and gating, or repeated GEMVs where there is no cuBLASLt. Where
//! a row's result may not depend on the batch, GEMMs have one fixed shape.

use super::batch_invariant_gemm::batch_invariant_gemm;
use super::call::{Call, element_bytes};
use super::cublaslt_gemm::{cublaslt_gemm, fp8_gemm};
use super::gemv::{launch_gemv, prefers_gemv};
use super::layers::{activation, gate_into, rms_norm_into};
use super::linear_arguments::LinearArguments;
use super::packed_layout::WeightLayout;
use super::packed_weights::PackedWeights;
use super::small_m_gemm::try_small_m_gemm;
use crate::blas;
use assay_operations::{Activation, ElementFormat, Operand};
use assay_runtime::backend::Result;

/// The weights, and the layout of quantized ones.
pub(super) fn weights(
    call: &Call<'_>,
    x: ElementFormat,
    outputs: u64,
    inputs: u64,
) -> Result<(Operand, Option<PackedWeights>)> {
    let Some(layout) = WeightLayout::of(call.raw("weights")?.format) else {
        return Ok((call.typed("weights", x, &[outputs, inputs])?, None));
    };
    let (weights, scales) = layout.find(call, "weights", outputs, inputs)?;
    let packed = PackedWeights { layout, weights: weights.pointer, scales, outputs, inputs };
    Ok((weights, Some(packed)))
}

pub(super) fn linear(call: &Call<'_>) -> Result<()> {
    if call.raw("x")?.format == ElementFormat::Fp8 {
        return fp8_gemm(call);
    }
    launch_linear(call, &read_linear(call)?)
}

/// The arguments of a call of `linear`, or of one that has all of its operands.
pub(super) fn read_linear(call: &Call<'_>) -> Result<LinearArguments> {
    let (rows, inputs) = (call.size("rows")?, call.size("inputs")?);
    let outputs = call.size("outputs")?;
    let x = call.operand("x", &[rows, inputs])?;
    let (weights, packed) = weights(call, x.format, outputs, inputs)?;
    let activation = activation(call)?;
    let gated = activation.is_gated();
    let columns = if gated { outputs / 2 } else { outputs };
    let linear = LinearArguments {
        rows,
        inputs,
        outputs,
        x,
        weights,
        packed,
        gain: call.optional_typed("gain", x.format, &[inputs])?,
        epsilon: call.float("epsilon")?,
        bias: call.optional_typed("bias", x.format, &[outputs])?,
        residual: call.optional_typed("residual", x.format, &[rows, outputs])?,
        out: call.operand("out", &[rows, columns])?,
        activation: match activation {
            Activation::Swiglu => Activation::None,
            other => other,
        },
        gated,
        lora: None,
    };
    if gated && (!outputs.is_multiple_of(2) || linear.residual.is_some()) {
        let expected = "an even number of outputs and no residual for a gated activation";
        return Err(call.error(expected, format_args!("{outputs} outputs")));
    }
    Ok(linear)
}

/// Launches the kernel that computes a layer of few rows with all around it, if there is one for it, and returns
/// whether it did.
pub(super) fn try_one_kernel(call: &Call<'_>, linear: &LinearArguments) -> Result<bool> {
    if !is_supported(linear) {
        return Ok(false);
    }
    if try_small_m_gemm(call, linear)? {
        return Ok(true);
    }
    let use_gemv = prefers_gemv(linear);
    if use_gemv {
        launch_gemv(call, linear)?;
    }
    Ok(use_gemv)
}

/// Whether GEMV and small-M GEMM read such rows of x.
fn is_supported(linear: &LinearArguments) -> bool {
    let is_16_bit = matches!(linear.x.format, ElementFormat::F16 | ElementFormat::Bf16);
    let aligned_inputs = linear.inputs > 0 && linear.inputs.is_multiple_of(8);
    is_16_bit && aligned_inputs && linear.x.pointer.0.is_multiple_of(16)
}

/// Launches the kernel that suits a linear layer; the call has `epsilon` and `batch_invariant`.
pub(super) fn launch_linear(call: &Call<'_>, linear: &LinearArguments) -> Result<()> {
    let (x, packed) = (linear.x, linear.packed);
    if linear.rows * linear.outputs == 0 {
        return Ok(());
    }
    let supported = is_supported(linear);
    // A GEMM of another shape may sum in another order.
    let batch_invariant = call.integer("batch_invariant")? != 0;
    if packed.is_some() && !supported {
        return Err(call.error("x of f16 or bf16 beside quantized weights", x.format));
    }
    if !batch_invariant && try_one_kernel(call, linear)? {
        return Ok(());
    }
    // Batch-invariant: one kernel for any number of rows, GEMV where weights are quantized.
    let use_gemv = batch_invariant && packed.is_some();
    if supported && (use_gemv || !blas::is_available()) {
        if !use_gemv {
            call.queue.device().note_fallback_gemm();
        }
        return launch_gemv(call, linear);
    }
    match batch_invariant {
        true => unfused(call, linear, batch_invariant_gemm),
        false => unfused(call, linear, cublaslt_gemm),
    }
}

/// A GEMM without norm, dequantization or gating.
type Gemm = fn(&Call<'_>, &LinearArguments) -> Result<()>;

/// A GEMM of many rows, with norm, dequantization and SwiGLU in separate kernels.
fn unfused(call: &Call<'_>, linear: &LinearArguments, gemm: Gemm) -> Result<()> {
    let mut gemm_arguments = *linear;
    let scratch = |purpose, like: Operand, elements: u64| -> Result<Operand> {
        let bytes = elements * element_bytes(like.format).unwrap_or(0);
        let pointer = call.scratch(purpose, bytes)?;
        Ok(Operand { pointer, bytes, ..like })
    };
    if let Some(gain) = linear.gain {
        let size = [linear.rows, linear.inputs];
        gemm_arguments.x = scratch("normed", linear.x, linear.rows * linear.inputs)?;
        rms_norm_into(call, [linear.x, gain, gemm_arguments.x], size)?;
    }
    if let Some(packed) = linear.packed {
        gemm_arguments.weights = scratch("unpacked", linear.x, linear.outputs * linear.inputs)?;
        packed.dequantize_into(call, gemm_arguments.weights)?;
    }
    if !linear.gated {
        return gemm(call, &gemm_arguments);
    }
    gemm_arguments.out = scratch("gated", linear.out, linear.rows * linear.outputs)?;
    gemm_arguments.activation = Activation::None;
    gemm(call, &gemm_arguments)?;
    let size = [linear.rows, linear.outputs / 2];
    let gate = linear.activation;
    gate_into(call, gate, [gemm_arguments.out, linear.out], size)
}
