//! Linear layers, and how their weights lie in the device's memory.
//!
//! Dense weights lie row by row as they came. Blocks are repacked into panels of sixteen rows;
//! signed bytes are panels too, with the scales of all rows behind them.

use super::call::{Call, Span, for_element, refused};
use crate::error::{OpError, check_length};
use crate::ops::{Context, Epilogue, LinearShape};
use crate::quant::{Activations, BlockFormat, PackedView, int8_blocks, pack_into, packed_bytes};
use assay_operations::{Activation, ElementFormat};
use assay_runtime::backend::Result;
use std::cell::RefCell;

/// The block format behind an element format, if it is one.
pub(super) fn block_format(format: ElementFormat) -> Option<BlockFormat> {
    match format {
        // Signed bytes are Q8_0 blocks with a scale of one.
        ElementFormat::Int8 => Some(BlockFormat::Q8_0),
        format => BlockFormat::of(format),
    }
}

fn dense_bytes(format: ElementFormat) -> Option<usize> {
    match format {
        ElementFormat::F32 | ElementFormat::F16 | ElementFormat::Bf16 => {
            Some(format.block_bytes() as usize)
        }
        _ => None,
    }
}

fn no_weights(format: ElementFormat) -> OpError {
    OpError::Value {
        operation: "pack weights",
        argument: "format",
        expected: "a format of weights".to_owned(),
        got: format.to_string(),
    }
}

/// Bytes that weights of this shape take in the device's memory.
pub fn weights_bytes(
    format: ElementFormat,
    outputs: usize,
    inputs: usize,
) -> std::result::Result<usize, OpError> {
    if let Some(bytes) = dense_bytes(format) {
        return Ok(outputs.saturating_mul(inputs).saturating_mul(bytes));
    }
    let blocks = block_format(format).ok_or_else(|| no_weights(format))?;
    let panels = packed_bytes(blocks, outputs, inputs)?;
    let scales = if format == ElementFormat::Int8 { 4 } else { 0 };
    Ok(panels.saturating_add(outputs.saturating_mul(scales)))
}

/// Writes weights as a file has them into memory of the device; `scales` are those of signed bytes.
pub fn pack_weights(
    context: Context,
    format: ElementFormat,
    source: &[u8],
    scales: Option<&[u8]>,
    outputs: usize,
    inputs: usize,
    out: &mut [u8],
) -> std::result::Result<(), OpError> {
    let operation = "pack weights";
    let bytes = weights_bytes(format, outputs, inputs)?;
    check_length(operation, "out", out.len(), &[bytes])?;
    let needed = if format == ElementFormat::Int8 {
        outputs * 4
    } else {
        0
    };
    check_length(
        operation,
        "scales",
        scales.map_or(0, <[u8]>::len),
        &[needed],
    )?;
    if dense_bytes(format).is_some() {
        check_length(operation, "source", source.len(), &[bytes])?;
        out.copy_from_slice(source);
        return Ok(());
    }
    let blocks = block_format(format).ok_or_else(|| no_weights(format))?;
    let (panels, behind) = out.split_at_mut(packed_bytes(blocks, outputs, inputs)?);
    if let Some(scales) = scales {
        behind.copy_from_slice(scales);
        let values: Vec<i8> = source.iter().map(|byte| *byte as i8).collect();
        let source = int8_blocks(&values, outputs, inputs)?;
        return pack_into(context, blocks, &source, outputs, inputs, panels);
    }
    pack_into(context, blocks, source, outputs, inputs, panels)
}

/// Repacked weights, looked at where they are.
fn view<'a>(
    format: ElementFormat,
    bytes: &'a [u8],
    outputs: usize,
    inputs: usize,
) -> std::result::Result<PackedView<'a>, OpError> {
    let blocks = block_format(format).ok_or_else(|| no_weights(format))?;
    let (panels, behind) = bytes.split_at(packed_bytes(blocks, outputs, inputs)?);
    // SAFETY: any four bytes are a number, and what is not aligned is left out.
    let (before, scales, after) = unsafe { behind.align_to::<f32>() };
    check_length(
        "pack weights",
        "aligned scales",
        before.len() + after.len(),
        &[0],
    )?;
    let scales = (format == ElementFormat::Int8).then_some(scales);
    PackedView::new(blocks, panels, scales, outputs, inputs)
}

/// Writes the numbers of packed weights to `out`, row by row.
pub fn dequantize_weights(
    format: ElementFormat,
    bytes: &[u8],
    outputs: usize,
    inputs: usize,
    out: &mut [f32],
) -> std::result::Result<(), OpError> {
    let operation = "dequantize";
    check_length(operation, "out", out.len(), &[outputs, inputs])?;
    let expected = weights_bytes(format, outputs, inputs)?;
    check_length(operation, "weights", bytes.len(), &[expected])?;
    let two = |widen: fn(u16) -> f32, out: &mut [f32]| {
        for (out, pair) in out.iter_mut().zip(bytes.as_chunks::<2>().0) {
            *out = widen(u16::from_le_bytes(*pair));
        }
    };
    match format {
        ElementFormat::F32 => {
            for (out, four) in out.iter_mut().zip(bytes.as_chunks::<4>().0) {
                *out = f32::from_le_bytes(*four);
            }
        }
        ElementFormat::F16 => two(crate::number::f16_to_f32, out),
        ElementFormat::Bf16 => two(crate::number::bf16_to_f32, out),
        _ => {
            let view = view(format, bytes, outputs, inputs)?;
            for (row, out) in out.chunks_exact_mut(inputs.max(1)).enumerate() {
                view.dequantize_row(row, out)?;
            }
        }
    }
    Ok(())
}

/// Packed weights of a call.
pub(super) struct PackedSpan<'a> {
    format: ElementFormat,
    outputs: usize,
    inputs: usize,
    bytes: Span<'a, u8>,
}

impl<'a> PackedSpan<'a> {
    pub fn new(call: &Call<'a>, name: &str, outputs: usize, inputs: usize) -> Result<Self> {
        let format = call.format(name)?;
        let bytes = weights_bytes(format, outputs, inputs).map_err(refused)?;
        Ok(PackedSpan {
            format,
            outputs,
            inputs,
            bytes: call.bytes(name, bytes)?,
        })
    }

    /// # Safety
    ///
    /// As for [`Span::read`].
    pub unsafe fn read(&self) -> Result<PackedView<'a>> {
        // SAFETY: the caller vouches for it.
        let bytes = unsafe { self.bytes.read() };
        view(self.format, bytes, self.outputs, self.inputs).map_err(refused)
    }
}

thread_local! {
    /// Activations as bytes, kept from call to call.
    static QUANTIZED: RefCell<Activations> = RefCell::default();
    /// Activations after the norm in front of a product.
    static NORMED: RefCell<Vec<f32>> = RefCell::default();
    /// Gates and what they let through, before the two are multiplied.
    static GATED: RefCell<Vec<f32>> = RefCell::default();
}

/// The call's activation.
fn activation(call: &Call<'_>) -> Result<Activation> {
    let code = call.size("activation")?;
    let known = u32::try_from(code).ok().and_then(Activation::from_code);
    let last = Activation::ALL.len() - 1;
    known.ok_or_else(|| call.error("activation", format_args!("from 0 to {last}"), code))
}

/// The call's activation, which must be elementwise.
pub(super) fn elementwise_activation(call: &Call<'_>) -> Result<Activation> {
    let activation = activation(call)?;
    if activation.is_gated() {
        return Err(call.error("an elementwise", "activation", activation));
    }
    Ok(activation)
}

pub(super) fn linear(context: Context, call: &Call<'_>) -> Result<()> {
    let shape = LinearShape {
        rows: call.size("rows")?,
        inputs: call.size("inputs")?,
        outputs: call.size("outputs")?,
    };
    let LinearShape {
        rows,
        inputs,
        outputs,
    } = shape;
    let activation = activation(call)?;
    let gated = activation.is_gated();
    if gated && !outputs.is_multiple_of(2) {
        return Err(call.error("outputs", "even, for gates and ups", outputs));
    }
    let made = if gated { outputs / 2 } else { outputs };
    let epsilon = call.float("epsilon")?;
    let x = call.span::<f32>("x", &[rows, inputs])?;
    let gain = call.optional::<f32>("gain", &[inputs])?;
    let out = call.span::<f32>("out", &[rows, made])?;
    let product = Product::new(call, shape, activation)?;
    if !call.runs() {
        return Ok(());
    }
    // SAFETY: the kernel runs, and operands do not overlap.
    let (x, gain, out) = unsafe { (x.read(), gain.map(|gain| gain.read()), out.write()) };
    let mut multiply = |x: &[f32]| {
        if !gated {
            return product.run(context, x, out);
        }
        GATED.with_borrow_mut(|both| {
            both.resize(rows * outputs, 0.0);
            product.run(context, x, both)?;
            crate::ops::swiglu(context, both, made, out).map_err(refused)
        })
    };
    let Some(gain) = gain else {
        return multiply(x);
    };
    NORMED.with_borrow_mut(|normed| {
        normed.resize(rows * inputs, 0.0);
        crate::ops::rms_norm(context, x, gain, epsilon, normed).map_err(refused)?;
        multiply(normed)
    })
}

/// A product of rows with the weights of a call, and what follows it.
struct Product<'c, 'a> {
    call: &'c Call<'a>,
    shape: LinearShape,
    activation: Activation,
    invariant: bool,
    bias: Option<Span<'a, f32>>,
    residual: Option<Span<'a, f32>>,
}

impl<'c, 'a> Product<'c, 'a> {
    fn new(call: &'c Call<'a>, shape: LinearShape, activation: Activation) -> Result<Self> {
        let LinearShape {
            rows,
            inputs,
            outputs,
        } = shape;
        let residual = call.optional::<f32>("residual", &[rows, outputs])?;
        if activation.is_gated() && residual.is_some() {
            return Err(call.error("swiglu", "without a residual", "one"));
        }
        match block_format(call.format("weights")?) {
            Some(_) => PackedSpan::new(call, "weights", outputs, inputs).map(|_| ())?,
            None => for_element!(call, "weights", T => {
                call.span::<T>("weights", &[outputs, inputs]).map(|_| ())
            })?,
        }
        Ok(Product {
            call,
            shape,
            // A gated activation is applied to the whole result.
            activation: if activation.is_gated() {
                Activation::None
            } else {
                activation
            },
            invariant: call.flag("batch_invariant")?,
            bias: call.optional::<f32>("bias", &[outputs])?,
            residual,
        })
    }

    /// Runs while the kernel does.
    fn run(&self, context: Context, x: &[f32], out: &mut [f32]) -> Result<()> {
        let (call, shape) = (self.call, self.shape);
        let LinearShape {
            rows,
            inputs,
            outputs,
        } = shape;
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
            if !self.invariant
                && weights
                    .linear_on_tiles(context, x, rows, epilogue, out)
                    .map_err(refused)?
            {
                return Ok(());
            }
            return QUANTIZED.with_borrow_mut(|quantized| {
                quantized
                    .quantize(context, x, rows, inputs)
                    .and_then(|()| weights.linear(context, quantized, epilogue, out))
                    .map_err(refused)
            });
        }
        for_element!(call, "weights", T => {
            let weights = call.span::<T>("weights", &[outputs, inputs])?;
            // SAFETY: as above.
            let weights = unsafe { weights.read() };
            crate::ops::linear(context, x, weights, shape, epilogue, self.invariant, out)
                .map_err(refused)
        })
    }
}
