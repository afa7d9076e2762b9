//! Linear layers: an optional RMSNorm, the product with the weights, and the epilogue.

use super::activation::activation;
use super::call::{Call, Span, for_element, op_error};
use super::weights::{PackedSpan, block_format};
use crate::context::Context;
use crate::ops::{Epilogue, LinearShape, gate, linear as dense_linear, rms_norm};
use crate::quantization::{PackedView, QuantizedActivations};
use assay_operations::Activation;
use assay_runtime::backend::Result;
use std::cell::RefCell;

thread_local! {
    /// Quantized activations, reused from call to call.
    static QUANTIZED: RefCell<QuantizedActivations> = RefCell::default();
    /// Activations after the fused RMSNorm.
    static NORMED: RefCell<Vec<f32>> = RefCell::default();
    /// Gates and ups, before their product.
    static GATED: RefCell<Vec<f32>> = RefCell::default();
}

pub(super) fn linear(context: Context, call: &Call<'_>) -> Result<()> {
    let shape = LinearShape {
        rows: call.size("rows")?,
        inputs: call.size("inputs")?,
        outputs: call.size("outputs")?,
    };
    let LinearShape { rows, inputs, outputs } = shape;
    let activation = activation(call)?;
    let gated = activation.is_gated();
    if gated && !outputs.is_multiple_of(2) {
        return Err(call.error("outputs", "even, for gates and ups", outputs));
    }
    let out_features = if gated { outputs / 2 } else { outputs };
    let epsilon = call.float("epsilon")?;
    let x = call.span::<f32>("x", &[rows, inputs])?;
    let gain = call.optional::<f32>("gain", &[inputs])?;
    let out = call.span::<f32>("out", &[rows, out_features])?;
    let layer = LinearCall::new(call, shape, activation)?;
    if !call.runs() {
        return Ok(());
    }
    // SAFETY: the kernel runs, and operands do not overlap.
    let (x, gain, out) = unsafe { (x.read(), gain.map(|gain| gain.read()), out.write()) };
    let mut multiply = |x: &[f32]| {
        if !gated {
            return layer.run(context, x, out);
        }
        GATED.with_borrow_mut(|both| {
            both.resize(rows * outputs, 0.0);
            layer.run(context, x, both)?;
            gate(context, activation, both, out_features, out).map_err(op_error)
        })
    };
    let Some(gain) = gain else {
        return multiply(x);
    };
    NORMED.with_borrow_mut(|normed| {
        normed.resize(rows * inputs, 0.0);
        rms_norm(context, x, gain, epsilon, normed).map_err(op_error)?;
        multiply(normed)
    })
}

/// The product with a call's weights, and its epilogue.
struct LinearCall<'c, 'a> {
    call: &'c Call<'a>,
    shape: LinearShape,
    activation: Activation,
    batch_invariant: bool,
    bias: Option<Span<'a, f32>>,
    residual: Option<Span<'a, f32>>,
}

impl<'c, 'a> LinearCall<'c, 'a> {
    fn new(call: &'c Call<'a>, shape: LinearShape, activation: Activation) -> Result<Self> {
        let LinearShape { rows, inputs, outputs } = shape;
        let residual = call.optional::<f32>("residual", &[rows, outputs])?;
        if activation.is_gated() && residual.is_some() {
            return Err(call.error("a gated activation", "without a residual", "one"));
        }
        match block_format(call.format("weights")?) {
            Some(_) => PackedSpan::new(call, "weights", outputs, inputs).map(|_| ())?,
            None => for_element!(call, "weights", T => {
                call.span::<T>("weights", &[outputs, inputs]).map(|_| ())
            })?,
        }
        Ok(LinearCall {
            call,
            shape,
            // A gated activation is applied to the whole result.
            activation: if activation.is_gated() { Activation::None } else { activation },
            batch_invariant: call.flag("batch_invariant")?,
            bias: call.optional::<f32>("bias", &[outputs])?,
            residual,
        })
    }

    /// Only called while the kernel runs.
    fn run(&self, context: Context, x: &[f32], out: &mut [f32]) -> Result<()> {
        let (call, shape) = (self.call, self.shape);
        let LinearShape { rows, inputs, outputs } = shape;
        // SAFETY: the kernel runs, and operands do not overlap.
        let epilogue = unsafe {
            Epilogue {
                bias: self.bias.as_ref().map(|bias| bias.read()),
                activation: self.activation,
                residual: self.residual.as_ref().map(|residual| residual.read()),
            }
        };
        if block_format(call.format("weights")?).is_some() {
            let weights = PackedSpan::new(call, "weights", outputs, inputs)?;
            // SAFETY: as above.
            let weights = unsafe { weights.read()? };
            return packed_linear(context, weights, x, rows, epilogue, self.batch_invariant, out);
        }
        for_element!(call, "weights", T => {
            let weights = call.span::<T>("weights", &[outputs, inputs])?;
            // SAFETY: as above.
            let weights = unsafe { weights.read() };
            dense_linear(context, x, weights, shape, epilogue, self.batch_invariant, out)
                .map_err(op_error)
        })
    }
}

/// The product of rows with quantized weights: on AMX tiles, or with the rows quantized too.
pub(super) fn packed_linear(
    context: Context,
    weights: PackedView,
    x: &[f32],
    rows: usize,
    epilogue: Epilogue,
    batch_invariant: bool,
    out: &mut [f32],
) -> Result<()> {
    if !batch_invariant && weights.linear_amx(context, x, rows, epilogue, out).map_err(op_error)? {
        return Ok(());
    }
    QUANTIZED.with_borrow_mut(|quantized| {
        quantized
            .quantize(context, x, rows, weights.inputs())
            .and_then(|()| weights.linear(context, quantized, epilogue, out))
            .map_err(op_error)
    })
}
