//! Products of many rows with weights, and of matrices: by cuBLASLt where it is found.

use super::call::{Call, element_bytes};
use super::linear::Linear;
use super::own_products;
use super::packed::{Packed, Packing};
use super::rows::{activate_into, elementwise_activation};
use super::tools::Tools;
use crate::blas::{self, Element, Epilogue, Matrix, Places, Product};
use crate::device::Queue;
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
    Matrix {
        element,
        transposed,
        stride,
        batch_stride: 0,
        alignment: alignment(operand),
    }
}

/// A product of many rows with weights.
pub(super) fn many_rows(
    tools: &Tools,
    queue: &Queue<'_>,
    call: &Call<'_>,
    given: &Linear,
) -> Result<()> {
    multiply(tools, queue, call, given, None)
}

/// A product of rows and weights that are both 8-bit floats, with a scale for each row of either.
pub(super) fn both_fp8(tools: &Tools, queue: &Queue<'_>, call: &Call<'_>) -> Result<()> {
    let (rows, inputs) = (call.size("rows")?, call.size("inputs")?);
    let outputs = call.size("outputs")?;
    let got = call.raw("weights")?.format;
    let Some(packing) = Packing::of(got).filter(|_| got == ElementFormat::Fp8) else {
        return Err(call.error("weights of fp8 beside x of fp8", got));
    };
    let (x, x_scales) = packing.find(call, "x", rows, inputs)?;
    let (weights, weight_scales) = packing.find(call, "weights", outputs, inputs)?;
    let out = call.operand("out", &[rows, outputs])?;
    let given = Linear {
        rows,
        inputs,
        outputs,
        x,
        weights,
        packed: None,
        gain: None,
        epsilon: 0.0,
        bias: call.optional_of("bias", out.format, &[outputs])?,
        residual: call.optional_of("residual", out.format, &[rows, outputs])?,
        out,
        activation: elementwise_activation(call)?,
        gated: false,
    };
    if rows * outputs == 0 {
        return Ok(());
    }
    let scales = Some((x_scales, weight_scales));
    let (product, places, _) = describe(queue, call, &given, scales)?;
    if blas::is_available() && queue.can_multiply(&product, &places)? {
        return multiply(tools, queue, call, &given, scales);
    }
    // Only some libraries and GPUs scale by row: elsewhere the numbers are multiplied.
    let unpacked = |purpose, from: Operand, scales, rows: u64| -> Result<Operand> {
        let bytes = rows * inputs * element_bytes(out.format).unwrap_or(0);
        let to = Operand {
            pointer: tools.scratch(queue, purpose, bytes)?,
            bytes,
            format: out.format,
        };
        let packed = Packed {
            packing,
            weights: from.pointer,
            scales,
            outputs: rows,
            inputs,
        };
        packed.unpack_into(tools, queue, call, to)?;
        Ok(to)
    };
    let plain = Linear {
        x: unpacked("unpacked x", x, x_scales, rows)?,
        weights: unpacked("unpacked", weights, weight_scales, outputs)?,
        ..given
    };
    multiply(tools, queue, call, &plain, None)
}

/// What a product leaves to do.
struct Left {
    activates: bool,
    residual: Option<Operand>,
}

/// The scales of both sides of a product.
type Scales = Option<(DevicePointer, DevicePointer)>;

/// A linear layer as a product, and what of it is left to do afterward: its activation, and a
/// residual to add.
fn describe(
    queue: &Queue<'_>,
    call: &Call<'_>,
    given: &Linear,
    scales: Scales,
) -> Result<(Product, Places, Left)> {
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
    // What is not multiplied is of the type of x, or of the result where x is of 8 bits.
    let plain = if scales.is_some() {
        out.format
    } else {
        x.format
    };
    let epilogue = match (activation, residual) {
        (Activation::GeluTanh, None) => Some(Epilogue::GeluTanh),
        (Activation::Relu, None) => Some(Epilogue::Relu),
        (Activation::None, _) => Some(Epilogue::Plain),
        _ => None,
    };
    // The residual comes after the activation; the library would add it before.
    let fused = residual.filter(|_| activation == Activation::None && out.format == plain);
    let product = Product {
        batch: 1,
        rows,
        columns: outputs,
        inner: inputs,
        a: matrix(narrow, x, false, inputs),
        b: matrix(narrow, weights, true, inputs),
        out: matrix(element(call, "out", out.format)?, out, false, outputs),
        adds: fused.is_some(),
        bias: bias.map(|_| element(call, "bias", plain)).transpose()?,
        epilogue: epilogue.unwrap_or(Epilogue::Plain),
        tf32: queue.device().allows_tf32(),
        fast_sums: false,
        row_scales: scales.is_some(),
    };
    let places = Places {
        a: x.pointer,
        b: weights.pointer,
        added: fused.map(|one| one.pointer),
        bias: bias.map(|one| one.pointer),
        scales,
        out: out.pointer,
    };
    let left = Left {
        activates: epilogue.is_none(),
        residual: residual.filter(|_| fused.is_none()),
    };
    if left.residual.is_some() && out.format != plain {
        let wanted = format_args!("out of {plain}, as the residual");
        return Err(call.error(wanted, out.format));
    }
    Ok((product, places, left))
}

fn multiply(
    tools: &Tools,
    queue: &Queue<'_>,
    call: &Call<'_>,
    given: &Linear,
    scales: Scales,
) -> Result<()> {
    let (product, places, left) = describe(queue, call, given, scales)?;
    run(tools, queue, &product, &places)?;
    if !left.activates && left.residual.is_none() {
        return Ok(());
    }
    let count = given.rows * given.outputs;
    activate_into(
        tools,
        queue,
        call,
        given.out,
        left.residual,
        given.out,
        count,
    )
}

pub(super) fn matmul(tools: &Tools, queue: &Queue<'_>, call: &Call<'_>) -> Result<()> {
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
        row_scales: false,
    };
    let places = Places {
        a: a.pointer,
        b: b.pointer,
        added: None,
        bias: None,
        scales: None,
        out: out.pointer,
    };
    run(tools, queue, &product, &places)
}

fn run(tools: &Tools, queue: &Queue<'_>, product: &Product, places: &Places) -> Result<()> {
    match blas::is_available() {
        true => queue.multiply(product, places),
        false => {
            queue.device().note_own_products();
            own_products::multiply(tools, queue, product, places)
        }
    }
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
    let bytes = element_bytes(operand.format).unwrap_or(0);
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
