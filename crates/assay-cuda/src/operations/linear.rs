//! Products with weights, and products of matrices.
//!
//! A few rows are one pass over the weights by a kernel of ours; more are cuBLASLt's, and ours
//! again, a few rows at a time, where there is no cuBLASLt.

use super::call::{Call, at, at_or_null, int};
use super::rows::{activate_into, activation, line};
use super::tools::{Setting, Tools};
use crate::blas::{self, Element, Epilogue, Matrix, Places, Product};
use crate::device::Queue;
use assay_core::backend::{DevicePointer, KernelArgument, Result};
use assay_core::operations::{ElementFormat, Operand};

/// Inputs up to which the kernel for few rows takes eight rows at once; beyond them, four.
const SHORT: u64 = 4096;
/// Rounds of blocks that a multiprocessor works through.
const WAVES: u64 = 4;

const GELU_TANH: u64 = 3;
const RELU: u64 = 4;

/// One call of `linear`, read and checked.
struct Linear {
    rows: u64,
    inputs: u64,
    outputs: u64,
    x: Operand,
    weights: Operand,
    /// One scale for each output, of weights of 8 bits.
    scales: Option<DevicePointer>,
    bias: Option<Operand>,
    residual: Option<Operand>,
    out: Operand,
    activation: u64,
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

fn element(call: &Call<'_>, name: &str, format: ElementFormat) -> Result<Element> {
    match format {
        ElementFormat::F32 => Ok(Element::F32),
        ElementFormat::F16 => Ok(Element::F16),
        ElementFormat::Bf16 => Ok(Element::Bf16),
        other => Err(call.error(format_args!("{name} of f32, f16 or bf16"), other)),
    }
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

/// How the kernel for few rows is launched, as measured on an H200.
struct FewRows {
    /// The most rows of x at once.
    rows: u64,
    /// Weight rows that a block takes at once.
    taken: u64,
    threads: u64,
    /// Blocks on each multiprocessor.
    blocks: u64,
    /// 16-byte chunks of a weight row for each thread.
    chunks: u64,
}

impl FewRows {
    /// `chunk` weights are 16 bytes.
    fn new(rows: u64, inputs: u64, chunk: u64) -> Self {
        let rows = rows.next_power_of_two();
        let all = inputs.div_ceil(chunk);
        let (taken, threads, blocks) = match all {
            ..=512 => (if rows <= 2 { 4 } else { 2 }, all.min(256), 2),
            _ => (if rows <= 2 { 2 } else { 1 }, all.div_ceil(2).min(896), 1),
        };
        let threads = threads.next_multiple_of(32);
        FewRows {
            rows,
            taken,
            threads,
            blocks,
            chunks: all.div_ceil(threads),
        }
    }
}

/// Rows of x that one pass over the weights can serve.
fn few(inputs: u64) -> u64 {
    if inputs <= SHORT { 8 } else { 4 }
}

fn few_rows(tools: &Tools, queue: &Queue<'_>, call: &Call<'_>, given: &Linear) -> Result<()> {
    let most = few(given.inputs);
    let (bits, chunk) = if given.scales.is_some() {
        (8u64, 16)
    } else {
        (16, 8)
    };
    let FewRows {
        rows,
        taken,
        threads,
        blocks,
        chunks,
    } = FewRows::new(given.rows.min(most), given.inputs, chunk);
    let settings: [Setting; 10] = [
        ("ACTIVATION", call.numbers("x", given.x)?.into()),
        ("OUTPUT", call.numbers("out", given.out)?.into()),
        ("WEIGHT", bits.into()),
        ("GROUP", 0u64.into()),
        ("ACTIVATE", given.activation.into()),
        ("ROWS", rows.into()),
        ("TAKEN", taken.into()),
        ("THREADS", threads.into()),
        ("CHUNKS", chunks.into()),
        ("BLOCKS", blocks.into()),
    ];
    let function = tools.function(queue, "linear_few_rows", &settings)?;
    let fitting = u64::from(queue.device().facts().multiprocessors) * blocks * WAVES;
    let extent = line(given.outputs.div_ceil(taken).min(fitting), threads);
    let bytes = |operand: Operand| super::call::element_bytes(operand.format).unwrap_or(0);
    let after = |operand: Operand, elements: u64| Operand {
        pointer: DevicePointer(operand.pointer.0 + elements * bytes(operand)),
        ..operand
    };
    let nothing = KernelArgument::Pointer(DevicePointer(0));
    let mut done = 0;
    while done < given.rows {
        let now = (given.rows - done).min(most);
        let residual = given.residual.map(|one| after(one, done * given.outputs));
        let arguments = [
            at(given.weights),
            KernelArgument::Pointer(given.scales.unwrap_or(DevicePointer(0))),
            at(after(given.x, done * given.inputs)),
            nothing,
            at_or_null(given.bias),
            at_or_null(residual),
            at(after(given.out, done * given.outputs)),
            int(now),
            int(given.outputs),
            int(given.inputs),
            KernelArgument::F32(0.0),
        ];
        queue.launch(&function, extent, &arguments)?;
        done += now;
    }
    Ok(())
}

/// The largest power of two up to 256 that an address is a multiple of.
fn alignment(operand: Operand) -> u32 {
    1 << operand.pointer.0.trailing_zeros().min(8)
}

fn matrix(element: Element, operand: Operand, transposed: bool, stride: u64) -> Matrix {
    Matrix {
        element,
        transposed,
        stride,
        batch_stride: 0,
        alignment: alignment(operand),
    }
}

fn many_rows(tools: &Tools, queue: &Queue<'_>, call: &Call<'_>, given: &Linear) -> Result<()> {
    let Linear {
        rows,
        inputs,
        outputs,
        x,
        weights,
        bias,
        residual,
        out,
        activation,
        ..
    } = *given;
    let narrow = element(call, "x", x.format)?;
    let epilogue = match (activation, residual) {
        (GELU_TANH, None) => Some(Epilogue::GeluTanh),
        (RELU, None) => Some(Epilogue::Relu),
        (0, _) => Some(Epilogue::Plain),
        _ => None,
    };
    // The residual comes after the activation; the library would add it before.
    let fused = residual.filter(|_| activation == 0 && out.format == x.format);
    let product = Product {
        batch: 1,
        rows,
        columns: outputs,
        inner: inputs,
        a: matrix(narrow, x, false, inputs),
        b: matrix(narrow, weights, true, inputs),
        out: matrix(element(call, "out", out.format)?, out, false, outputs),
        adds: fused.is_some(),
        bias: bias.map(|_| narrow),
        epilogue: epilogue.unwrap_or(Epilogue::Plain),
        tf32: queue.device().allows_tf32(),
        fast_sums: false,
    };
    let places = Places {
        a: x.pointer,
        b: weights.pointer,
        added: fused.map(|one| one.pointer),
        bias: bias.map(|one| one.pointer),
        scales: None,
        out: out.pointer,
    };
    queue.multiply(&product, &places)?;
    let left = residual.filter(|_| fused.is_none());
    if epilogue.is_some() && left.is_none() {
        return Ok(());
    }
    if left.is_some() && out.format != x.format {
        let wanted = format_args!("out of {}, as the residual", x.format);
        return Err(call.error(wanted, out.format));
    }
    activate_into(tools, queue, call, out, left, out, rows * outputs)
}

pub(super) fn matmul(_: &Tools, queue: &Queue<'_>, call: &Call<'_>) -> Result<()> {
    let (batch, m) = (call.size("batch")?, call.size("m")?);
    let (k, n) = (call.size("k")?, call.size("n")?);
    let a = call.raw("a")?;
    let b = call.raw("b")?;
    let out = call.operand("out", &[batch, m, n])?;
    if batch * m * n == 0 {
        return Ok(());
    }
    let narrow = element(call, "a", a.format)?;
    if b.format != a.format {
        return Err(call.error(format_args!("b of {}", a.format), b.format));
    }
    let product = Product {
        batch: u32::try_from(batch).unwrap_or(u32::MAX),
        rows: m,
        columns: n,
        inner: k,
        a: strided(call, "a", narrow, a, [batch, m, k])?,
        b: strided(call, "b", narrow, b, [batch, k, n])?,
        out: Matrix {
            batch_stride: m * n,
            ..matrix(element(call, "out", out.format)?, out, false, n)
        },
        adds: false,
        bias: None,
        epilogue: Epilogue::Plain,
        tf32: queue.device().allows_tf32(),
        fast_sums: false,
    };
    let places = Places {
        a: a.pointer,
        b: b.pointer,
        added: None,
        bias: None,
        scales: None,
        out: out.pointer,
    };
    queue.multiply(&product, &places)
}

/// A matrix at strides, one of which is 1.
fn strided(
    call: &Call<'_>,
    name: &'static str,
    element: Element,
    operand: Operand,
    [batch, rows, columns]: [u64; 3],
) -> Result<Matrix> {
    let stride = |which: &str| call.size(&format!("{name}_{which}_stride"));
    let (batch_stride, row, column) = (stride("batch")?, stride("row")?, stride("column")?);
    // A single row or column has no next one, so its stride says nothing.
    let (transposed, stride) = match (rows, columns) {
        _ if column == 1 || columns == 1 => (false, row.max(columns)),
        _ if row == 1 || rows == 1 => (true, column.max(rows)),
        _ => {
            let wanted = format_args!("{name} with rows or columns without gaps");
            return Err(call.error(wanted, format_args!("strides {row} and {column}")));
        }
    };
    let last = |count: u64, stride: u64| count.saturating_sub(1).saturating_mul(stride);
    let reach = last(batch, batch_stride)
        .saturating_add(last(rows, row))
        .saturating_add(last(columns, column));
    let bytes = super::call::element_bytes(operand.format).unwrap_or(0);
    let wanted = match rows * columns {
        0 => 0,
        _ => reach.saturating_add(1).saturating_mul(bytes),
    };
    if operand.bytes < wanted {
        return Err(call.error(format_args!("{name} of {wanted} bytes"), operand.bytes));
    }
    Ok(Matrix {
        batch_stride,
        ..matrix(element, operand, transposed, stride)
    })
}
