//! Row-wise layers: norms, softmax, activations, and row gathers.

use super::call::{Call, int, pointer, pointer_or_null, vector};
use super::define::Define;
use super::grid::{grid_1d, grid_2d};
use assay_operations::{Activation, ElementFormat, Operand};
use assay_runtime::backend::{KernelArgument, Result};

/// Threads of a CTA that streams a row of any width.
const STREAMING_THREADS: u64 = 1024;
/// The most threads of a CTA that holds a row, while more chunks per thread are possible.
const PREFERRED_THREADS: u64 = 512;
/// The most vectors of a row that one thread holds.
const MAX_CHUNKS: u64 = 8;

/// Vectors per thread, and threads, of a CTA that holds a row in registers.
pub(super) fn register_row(width: u64, vector: u64) -> Option<(u64, u64)> {
    let pieces = width.div_ceil(vector);
    let mut chunks = 1;
    while pieces.div_ceil(chunks) > PREFERRED_THREADS && chunks < MAX_CHUNKS {
        chunks *= 2;
    }
    let threads = pieces.div_ceil(chunks).next_multiple_of(32);
    (threads <= 1024).then_some((chunks, threads))
}

/// A norm of rows.
struct Norm {
    x: Operand,
    residual: Option<Operand>,
    weight: Operand,
    bias: Option<Operand>,
    out: Operand,
    is_layer_norm: bool,
    epsilon: f32,
}

fn normalize(call: &Call<'_>, is_layer_norm: bool) -> Result<()> {
    let (rows, columns) = (call.size("rows")?, call.size("columns")?);
    let x = call.operand("x", &[rows, columns])?;
    let weight = call.typed("weight", x.format, &[columns])?;
    let bias = match is_layer_norm {
        true => call.optional_typed("bias", x.format, &[columns])?,
        false => None,
    };
    let residual = call.optional_typed("residual", x.format, &[rows, columns])?;
    let out = call.typed("out", x.format, &[rows, columns])?;
    let norm =
        Norm { x, residual, weight, bias, out, is_layer_norm, epsilon: call.float("epsilon")? };
    norm.run(call, rows, columns)
}

/// The RMS norm of the rows of x, times a gain, to another operand.
pub(super) fn rms_norm_into(
    call: &Call<'_>,
    [x, weight, out]: [Operand; 3],
    [rows, columns]: [u64; 2],
) -> Result<()> {
    let norm = Norm {
        x,
        residual: None,
        weight,
        bias: None,
        out,
        is_layer_norm: false,
        epsilon: call.float("epsilon")?,
    };
    norm.run(call, rows, columns)
}

impl Norm {
    fn run(&self, call: &Call<'_>, rows: u64, columns: u64) -> Result<()> {
        if rows * columns == 0 {
            return Ok(());
        }
        let Norm { x, residual, weight, bias, out, is_layer_norm, epsilon } = *self;
        let operands = [Some(x), Some(weight), bias, residual, Some(out)];
        let vector = vector(x.format, columns, &operands);
        let Some((chunks, threads)) = register_row(columns, vector) else {
            return Err(call.error("rows that fit a CTA", format_args!("{columns} columns")));
        };
        let defines: [Define; 5] = [
            ("ELEMENT", call.float_type("x", x)?.into()),
            ("LAYER_NORM", is_layer_norm.into()),
            ("THREADS", threads.into()),
            ("CHUNKS_PER_THREAD", chunks.into()),
            ("VECTOR", vector.into()),
        ];
        let function = call.function("normalize", &defines)?;
        let arguments = [
            pointer(x),
            pointer_or_null(residual),
            pointer(weight),
            pointer_or_null(bias),
            pointer(out),
            int(columns),
            KernelArgument::F32(epsilon),
        ];
        call.queue.launch(&function, grid_1d(rows, threads), &arguments)
    }
}

pub(super) fn rms_norm(call: &Call<'_>) -> Result<()> {
    normalize(call, false)
}

pub(super) fn layer_norm(call: &Call<'_>) -> Result<()> {
    normalize(call, true)
}

pub(super) fn softmax(call: &Call<'_>) -> Result<()> {
    let (rows, columns) = (call.size("rows")?, call.size("columns")?);
    let x = call.operand("x", &[rows, columns])?;
    let out = call.typed("out", x.format, &[rows, columns])?;
    if rows * columns == 0 {
        return Ok(());
    }
    let vector = vector(x.format, columns, &[Some(x), Some(out)]);
    let (chunks, threads) = register_row(columns, vector).unwrap_or((0, STREAMING_THREADS));
    let defines: [Define; 5] = [
        ("ELEMENT", call.float_type("x", x)?.into()),
        ("LOG_SOFTMAX", false.into()),
        ("THREADS", threads.into()),
        ("CHUNKS_PER_THREAD", chunks.into()),
        ("VECTOR", vector.into()),
    ];
    let function = call.function("softmax", &defines)?;
    call.queue.launch(&function, grid_1d(rows, threads), &[pointer(x), pointer(out), int(columns)])
}

pub(super) fn swiglu(call: &Call<'_>) -> Result<()> {
    let (rows, columns) = (call.size("rows")?, call.size("columns")?);
    let gate_up = call.operand("gate_up", &[rows, 2, columns])?;
    let out = call.typed("out", gate_up.format, &[rows, columns])?;
    let gate = Activation::None;
    gate_into(call, gate, [gate_up, out], [rows, columns])
}

/// The gate, a function of the first half of each row, times the second; none is SwiGLU's.
pub(super) fn gate_into(
    call: &Call<'_>,
    gate: Activation,
    [gate_up, out]: [Operand; 2],
    [rows, columns]: [u64; 2],
) -> Result<()> {
    if rows * columns == 0 {
        return Ok(());
    }
    let vector = vector(gate_up.format, columns, &[Some(gate_up), Some(out)]);
    let number = call.float_type("gate_up", gate_up)?;
    let defines: [Define; 3] =
        [("ELEMENT", number.into()), ("ACTIVATION", gate.into()), ("VECTOR", vector.into())];
    let function = call.function("swiglu", &defines)?;
    let threads = 128;
    let ctas_x = columns.div_ceil(vector * threads);
    call.queue.launch(
        &function,
        grid_2d(ctas_x, rows, threads),
        &[pointer(gate_up), pointer(out), int(columns)],
    )
}

pub(super) fn activate(call: &Call<'_>) -> Result<()> {
    let count = call.size("count")?;
    let x = call.operand("x", &[count])?;
    let out = call.typed("out", x.format, &[count])?;
    activate_into(call, x, None, out, count)
}

/// Applies the call's activation, and adds a residual if there is one.
pub(super) fn activate_into(
    call: &Call<'_>,
    x: Operand,
    residual: Option<Operand>,
    out: Operand,
    count: u64,
) -> Result<()> {
    if count == 0 {
        return Ok(());
    }
    if count > i32::MAX as u64 {
        return Err(call.error("fewer than 2**31 elements", count));
    }
    let vector = vector(x.format, count, &[Some(x), residual, Some(out)]);
    let defines: [Define; 3] = [
        ("ELEMENT", call.float_type("x", x)?.into()),
        ("ACTIVATION", elementwise_activation(call)?.into()),
        ("VECTOR", vector.into()),
    ];
    let function = call.function("activate", &defines)?;
    let threads = 256;
    call.queue.launch(
        &function,
        grid_1d(count.div_ceil(vector * threads), threads),
        &[pointer(x), pointer_or_null(residual), pointer(out), int(count)],
    )
}

/// The call's activation.
pub(super) fn activation(call: &Call<'_>) -> Result<Activation> {
    call.chosen("activation", &Activation::ALL)
}

/// The call's activation, which must be elementwise.
pub(super) fn elementwise_activation(call: &Call<'_>) -> Result<Activation> {
    let activation = activation(call)?;
    if activation.is_gated() {
        return Err(call.error("an elementwise activation", activation));
    }
    Ok(activation)
}

pub(super) fn embedding(call: &Call<'_>) -> Result<()> {
    let (count, rows) = (call.size("count")?, call.size("rows")?);
    let columns = call.size("columns")?;
    let table = call.operand("table", &[rows, columns])?;
    let sampled_tokens = call.optional_typed("sampled_tokens", ElementFormat::I32, &[1])?;
    gather_rows_from(call, "ids", sampled_tokens, table, [count, rows, columns])
}

pub(super) fn gather_rows(call: &Call<'_>) -> Result<()> {
    let (count, rows) = (call.size("count")?, call.size("source_rows")?);
    let columns = call.size("columns")?;
    let x = call.operand("x", &[rows, columns])?;
    gather_rows_from(call, "rows", None, x, [count, rows, columns])
}

/// Gathers rows by index; an index may stand for a token that was just sampled on the device.
fn gather_rows_from(
    call: &Call<'_>,
    indices: &'static str,
    sampled_tokens: Option<Operand>,
    from: Operand,
    [count, rows, columns]: [u64; 3],
) -> Result<()> {
    let indices = call.typed(indices, ElementFormat::I32, &[count])?;
    let out = call.typed("out", from.format, &[count, columns])?;
    let row_bytes = columns * from.format.element_bytes().unwrap_or(1);
    if count * row_bytes == 0 {
        return Ok(());
    }
    if row_bytes > i32::MAX as u64 {
        return Err(call.error("rows of less than 2**31 bytes", row_bytes));
    }
    let alignments = [from.pointer.0, out.pointer.0, row_bytes];
    let fits = |access_bytes: &&u64| {
        alignments.iter().all(|operand| operand.is_multiple_of(**access_bytes))
    };
    let access_bytes = *[16u64, 4, 2].iter().find(fits).unwrap_or(&1);
    let function = call.function("gather_rows", &[("ACCESS_BYTES", access_bytes.into())])?;
    let threads = (row_bytes / access_bytes).next_multiple_of(32).min(256);
    let ctas_x = row_bytes.div_ceil(access_bytes * threads);
    // A grid's y is at most 65535, so that many rows are several launches.
    let mut done = 0;
    while done < count {
        let launch_rows = (count - done).min(65_535);
        let at_row = |operand: Operand, bytes: u64| {
            KernelArgument::Pointer(assay_runtime::backend::DevicePointer(
                operand.pointer.0 + bytes,
            ))
        };
        let arguments = [
            pointer(from),
            at_row(indices, done * 4),
            pointer_or_null(sampled_tokens),
            at_row(out, done * row_bytes),
            int(row_bytes),
            int(rows),
            int(sampled_tokens.map_or(0, |sampled_tokens| sampled_tokens.bytes / 4)),
        ];
        call.queue.launch(&function, grid_2d(ctas_x, launch_rows, threads), &arguments)?;
        done += launch_rows;
    }
    Ok(())
}
