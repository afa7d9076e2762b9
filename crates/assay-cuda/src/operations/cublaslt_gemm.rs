//! GEMMs of many rows, and batched matmul: by cuBLASLt where it is available.

use super::call::{Call, element_bytes};
use super::fallback_gemm::fallback_gemm;
use super::layers::{activate_into, elementwise_activation};
use super::linear_arguments::LinearArguments;
use super::packed_layout::WeightLayout;
use super::packed_weights::PackedWeights;
use crate::blas::{self, Element, Epilogue, GemmPointers, GemmProblem, Matrix};
use assay_operations::{Activation, ElementFormat, Operand};
use assay_runtime::backend::{DevicePointer, Result};

fn element(call: &Call<'_>, name: &str, format: ElementFormat) -> Result<Element> {
    match format {
        ElementFormat::F32 => Ok(Element::F32),
        ElementFormat::F16 => Ok(Element::F16),
        ElementFormat::Bf16 => Ok(Element::Bf16),
        ElementFormat::Fp8 => Ok(Element::E4m3),
        other => Err(call.error(format_args!("{name} of f32, f16 or bf16"), other)),
    }
}

/// The largest power of two up to 256 that an address is a multiple of.
fn alignment(operand: Operand) -> u32 {
    1 << operand.pointer.0.trailing_zeros().min(8)
}

fn matrix(element: Element, operand: Operand, transposed: bool, stride: u64) -> Matrix {
    Matrix { element, transposed, stride, batch_stride: 0, alignment: alignment(operand) }
}

/// A GEMM of many rows with weights.
pub(super) fn cublaslt_gemm(call: &Call<'_>, linear: &LinearArguments) -> Result<()> {
    multiply(call, linear, None, None)
}

/// A GEMM with weights by the algorithm of so many rows.
pub(super) fn cublaslt_gemm_as(
    call: &Call<'_>,
    linear: &LinearArguments,
    algorithm_rows: u64,
) -> Result<()> {
    multiply(call, linear, None, Some(algorithm_rows))
}

/// A GEMM whose operands are both e4m3, with a scale for each row of either.
pub(super) fn fp8_gemm(call: &Call<'_>) -> Result<()> {
    let (rows, inputs) = (call.size("rows")?, call.size("inputs")?);
    let outputs = call.size("outputs")?;
    let got = call.raw("weights")?.format;
    let Some(layout) = WeightLayout::of(got).filter(|_| got == ElementFormat::Fp8) else {
        return Err(call.error("weights of fp8 beside x of fp8", got));
    };
    let (x, x_scales) = layout.find(call, "x", rows, inputs)?;
    let (weights, weight_scales) = layout.find(call, "weights", outputs, inputs)?;
    let out = call.operand("out", &[rows, outputs])?;
    let linear = LinearArguments {
        rows,
        inputs,
        outputs,
        x,
        weights,
        packed: None,
        gain: None,
        epsilon: 0.0,
        bias: call.optional_typed("bias", out.format, &[outputs])?,
        residual: call.optional_typed("residual", out.format, &[rows, outputs])?,
        out,
        activation: elementwise_activation(call)?,
        gated: false,
        lora: None,
    };
    if rows * outputs == 0 {
        return Ok(());
    }
    let scales = Some((x_scales, weight_scales));
    let (problem, pointers, _) = describe(call, &linear, scales)?;
    if blas::is_available() && call.queue.supports_gemm(&problem, &pointers)? {
        return multiply(call, &linear, scales, None);
    }
    // Only some cuBLASLt versions and GPUs scale by row: elsewhere the operands are dequantized.
    let unpacked = |purpose, from: Operand, scales, rows: u64| -> Result<Operand> {
        let bytes = rows * inputs * element_bytes(out.format).unwrap_or(0);
        let to = Operand { pointer: call.scratch(purpose, bytes)?, bytes, format: out.format };
        let packed = PackedWeights { layout, weights: from.pointer, scales, outputs: rows, inputs };
        packed.dequantize_into(call, to)?;
        Ok(to)
    };
    let dequantized = LinearArguments {
        x: unpacked("unpacked x", x, x_scales, rows)?,
        weights: unpacked("unpacked", weights, weight_scales, outputs)?,
        ..linear
    };
    multiply(call, &dequantized, None, None)
}

/// What a GEMM's epilogue could not fuse.
struct Unfused {
    activates: bool,
    residual: Option<Operand>,
}

/// The row scales of both operands.
type Scales = Option<(DevicePointer, DevicePointer)>;

/// A linear layer as a GEMM, and what its epilogue could not fuse: an activation, a residual.
fn describe(
    call: &Call<'_>,
    linear: &LinearArguments,
    scales: Scales,
) -> Result<(GemmProblem, GemmPointers, Unfused)> {
    let LinearArguments {
        rows, inputs, outputs, x, weights, bias, residual, out, activation, ..
    } = *linear;
    let element_type = element(call, "x", x.format)?;
    // Bias and residual are of the type of x, or of out where x is e4m3.
    let added_format = if scales.is_some() { out.format } else { x.format };
    let epilogue = match (activation, residual) {
        (Activation::GeluTanh, None) => Some(Epilogue::GeluTanh),
        (Activation::Relu, None) => Some(Epilogue::Relu),
        (Activation::None, _) => Some(Epilogue::None),
        _ => None,
    };
    // The residual is c after the activation; cuBLASLt would add it before.
    let fused = residual.filter(|_| activation == Activation::None && out.format == added_format);
    let problem = GemmProblem {
        batch: 1,
        rows,
        algorithm_rows: None,
        columns: outputs,
        inner: inputs,
        a: matrix(element_type, x, false, inputs),
        b: matrix(element_type, weights, true, inputs),
        out: matrix(element(call, "out", out.format)?, out, false, outputs),
        has_c: fused.is_some(),
        bias: bias.map(|_| element(call, "bias", added_format)).transpose()?,
        epilogue: epilogue.unwrap_or(Epilogue::None),
        tf32: call.queue.device().allows_tf32(),
        fast_accumulation: false,
        row_scales: scales.is_some(),
    };
    let pointers = GemmPointers {
        a: x.pointer,
        b: weights.pointer,
        c: fused.map(|one| one.pointer),
        bias: bias.map(|one| one.pointer),
        scales,
        out: out.pointer,
    };
    let unfused =
        Unfused { activates: epilogue.is_none(), residual: residual.filter(|_| fused.is_none()) };
    if unfused.residual.is_some() && out.format != added_format {
        let expected = format_args!("out of {added_format}, as the residual");
        return Err(call.error(expected, out.format));
    }
    Ok((problem, pointers, unfused))
}

fn multiply(
    call: &Call<'_>,
    linear: &LinearArguments,
    scales: Scales,
    algorithm_rows: Option<u64>,
) -> Result<()> {
    let (problem, pointers, unfused) = describe(call, linear, scales)?;
    run(call, &GemmProblem { algorithm_rows, ..problem }, &pointers)?;
    if !unfused.activates && unfused.residual.is_none() {
        return Ok(());
    }
    let count = linear.rows * linear.outputs;
    activate_into(call, linear.out, unfused.residual, linear.out, count)
}

pub(super) fn matmul(call: &Call<'_>) -> Result<()> {
    let (batch, m) = (call.size("batch")?, call.size("m")?);
    let (k, n) = (call.size("k")?, call.size("n")?);
    let a = call.raw("a")?;
    let b = call.raw("b")?;
    let out = call.operand("out", &[batch, m, n])?;
    if batch * m * n == 0 {
        return Ok(());
    }
    if a.format == ElementFormat::Fp8 {
        return Err(call.error("a of f32, f16 or bf16", a.format));
    }
    let element_type = element(call, "a", a.format)?;
    if b.format != a.format {
        return Err(call.error(format_args!("b of {}", a.format), b.format));
    }
    let problem = GemmProblem {
        batch: u32::try_from(batch).unwrap_or(u32::MAX),
        rows: m,
        algorithm_rows: None,
        columns: n,
        inner: k,
        a: strided(call, "a", element_type, a, [batch, m, k])?,
        b: strided(call, "b", element_type, b, [batch, k, n])?,
        out: Matrix {
            batch_stride: m * n,
            ..matrix(element(call, "out", out.format)?, out, false, n)
        },
        has_c: false,
        bias: None,
        epilogue: Epilogue::None,
        tf32: call.queue.device().allows_tf32(),
        fast_accumulation: false,
        row_scales: false,
    };
    let pointers = GemmPointers {
        a: a.pointer,
        b: b.pointer,
        c: None,
        bias: None,
        scales: None,
        out: out.pointer,
    };
    run(call, &problem, &pointers)
}

fn run(call: &Call<'_>, problem: &GemmProblem, pointers: &GemmPointers) -> Result<()> {
    // It refuses some shapes, such as a bias of four outputs.
    match blas::is_available() && call.queue.supports_gemm(problem, pointers)? {
        true => call.queue.gemm(problem, pointers),
        false => {
            call.queue.device().note_fallback_gemm();
            fallback_gemm(call, problem, pointers)
        }
    }
}

/// A strided matrix, contiguous along rows or columns.
fn strided(
    call: &Call<'_>,
    name: &'static str,
    element: Element,
    operand: Operand,
    [batch, rows, columns]: [u64; 3],
) -> Result<Matrix> {
    let stride = |which: &str| call.size(&format!("{name}_{which}_stride"));
    let (batch_stride, row, column) = (stride("batch")?, stride("row")?, stride("column")?);
    // The stride of a single row or column is meaningless.
    let (transposed, stride) = match (rows, columns) {
        _ if column == 1 || columns == 1 => (false, row.max(columns)),
        _ if row == 1 || rows == 1 => (true, column.max(rows)),
        _ => {
            let expected = format_args!("{name} with rows or columns without gaps");
            return Err(call.error(expected, format_args!("strides {row} and {column}")));
        }
    };
    let last = |count: u64, stride: u64| count.saturating_sub(1).saturating_mul(stride);
    let reach = last(batch, batch_stride)
        .saturating_add(last(rows, row))
        .saturating_add(last(columns, column));
    let bytes = element_bytes(operand.format).unwrap_or(0);
    let expected = match rows * columns {
        0 => 0,
        _ => reach.saturating_add(1).saturating_mul(bytes),
    };
    if operand.bytes < expected {
        return Err(call.error(format_args!("{name} of {expected} bytes"), operand.bytes));
    }
    Ok(Matrix { batch_stride, ..matrix(element, operand, transposed, stride) })
}
