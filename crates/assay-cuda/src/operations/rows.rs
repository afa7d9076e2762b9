//! Operations that take rows one by one.

use super::call::{Call, at, at_or_null, int, vector};
use super::tools::{Setting, Tools};
use crate::device::{Extent, Queue};
use assay_operations::{Activation, ElementFormat, Operand};
use assay_runtime::backend::{KernelArgument, Result};

/// Threads of a block that walks along one row of any width.
const WALKING: u64 = 1024;
/// The most threads of a block that holds a row, while there are other ways to widen it.
const HOLDING: u64 = 512;
/// The most pieces of a row that one thread holds.
const MOST_CHUNKS: u64 = 8;

/// How a block holds a row in its registers: pieces per thread, and threads.
fn held(width: u64, vector: u64) -> Option<(u64, u64)> {
    let pieces = width.div_ceil(vector);
    let mut chunks = 1;
    while pieces.div_ceil(chunks) > HOLDING && chunks < MOST_CHUNKS {
        chunks *= 2;
    }
    let threads = pieces.div_ceil(chunks).next_multiple_of(32);
    (threads <= 1024).then_some((chunks, threads))
}

/// A grid of one dimension.
pub(super) fn line(blocks: u64, threads: u64) -> Extent {
    plane(blocks, 1, threads)
}

/// A grid of two dimensions.
pub(super) fn plane(across: u64, down: u64, threads: u64) -> Extent {
    Extent {
        grid: [across as u32, down as u32, 1],
        block: [threads as u32, 1, 1],
        shared_bytes: 0,
        cluster: 1,
    }
}

/// A norm of rows: what goes in, what it is multiplied by, and where it goes.
struct Norm {
    x: Operand,
    residual: Option<Operand>,
    weight: Operand,
    bias: Option<Operand>,
    out: Operand,
    layer: bool,
    epsilon: f32,
}

fn normalize(tools: &Tools, queue: &Queue<'_>, call: &Call<'_>, layer: bool) -> Result<()> {
    let (rows, columns) = (call.size("rows")?, call.size("columns")?);
    let x = call.operand("x", &[rows, columns])?;
    let weight = call.of("weight", x.format, &[columns])?;
    let bias = match layer {
        true => call.optional_of("bias", x.format, &[columns])?,
        false => None,
    };
    let residual = call.optional_of("residual", x.format, &[rows, columns])?;
    let out = call.of("out", x.format, &[rows, columns])?;
    let norm = Norm {
        x,
        residual,
        weight,
        bias,
        out,
        layer,
        epsilon: call.float("epsilon")?,
    };
    norm.run(tools, queue, call, rows, columns)
}

/// The root-mean-square norm of the rows of x, times a gain, in memory of one's own.
pub(super) fn rms_norm_into(
    tools: &Tools,
    queue: &Queue<'_>,
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
        layer: false,
        epsilon: call.float("epsilon")?,
    };
    norm.run(tools, queue, call, rows, columns)
}

impl Norm {
    fn run(
        &self,
        tools: &Tools,
        queue: &Queue<'_>,
        call: &Call<'_>,
        rows: u64,
        columns: u64,
    ) -> Result<()> {
        if rows * columns == 0 {
            return Ok(());
        }
        let Norm {
            x,
            residual,
            weight,
            bias,
            out,
            layer,
            epsilon,
        } = *self;
        let operands = [Some(x), Some(weight), bias, residual, Some(out)];
        let vector = vector(x.format, columns, &operands);
        let Some((chunks, threads)) = held(columns, vector) else {
            return Err(call.error("rows that fit a block", format_args!("{columns} columns")));
        };
        let settings: [Setting; 5] = [
            ("NUMBER", call.numbers("x", x)?.into()),
            ("LAYER", layer.into()),
            ("THREADS", threads.into()),
            ("CHUNKS", chunks.into()),
            ("VECTOR", vector.into()),
        ];
        let function = tools.function(queue, "normalize", &settings)?;
        let arguments = [
            at(x),
            at_or_null(residual),
            at(weight),
            at_or_null(bias),
            at(out),
            int(columns),
            KernelArgument::F32(epsilon),
        ];
        queue.launch(&function, line(rows, threads), &arguments)
    }
}

pub(super) fn rms_norm(tools: &Tools, queue: &Queue<'_>, call: &Call<'_>) -> Result<()> {
    normalize(tools, queue, call, false)
}

pub(super) fn layer_norm(tools: &Tools, queue: &Queue<'_>, call: &Call<'_>) -> Result<()> {
    normalize(tools, queue, call, true)
}

pub(super) fn softmax(tools: &Tools, queue: &Queue<'_>, call: &Call<'_>) -> Result<()> {
    let (rows, columns) = (call.size("rows")?, call.size("columns")?);
    let x = call.operand("x", &[rows, columns])?;
    let out = call.of("out", x.format, &[rows, columns])?;
    if rows * columns == 0 {
        return Ok(());
    }
    let vector = vector(x.format, columns, &[Some(x), Some(out)]);
    let (chunks, threads) = held(columns, vector).unwrap_or((0, WALKING));
    let settings: [Setting; 5] = [
        ("NUMBER", call.numbers("x", x)?.into()),
        ("LOGARITHM", false.into()),
        ("THREADS", threads.into()),
        ("CHUNKS", chunks.into()),
        ("VECTOR", vector.into()),
    ];
    let function = tools.function(queue, "softmax", &settings)?;
    queue.launch(
        &function,
        line(rows, threads),
        &[at(x), at(out), int(columns)],
    )
}

pub(super) fn swiglu(tools: &Tools, queue: &Queue<'_>, call: &Call<'_>) -> Result<()> {
    let (rows, columns) = (call.size("rows")?, call.size("columns")?);
    let gate_up = call.operand("gate_up", &[rows, 2, columns])?;
    let out = call.of("out", gate_up.format, &[rows, columns])?;
    swiglu_into(tools, queue, call, [gate_up, out], [rows, columns])
}

/// silu of the first half of each row times the second.
pub(super) fn swiglu_into(
    tools: &Tools,
    queue: &Queue<'_>,
    call: &Call<'_>,
    [gate_up, out]: [Operand; 2],
    [rows, columns]: [u64; 2],
) -> Result<()> {
    if rows * columns == 0 {
        return Ok(());
    }
    let vector = vector(gate_up.format, columns, &[Some(gate_up), Some(out)]);
    let number = call.numbers("gate_up", gate_up)?;
    let settings: [Setting; 2] = [("NUMBER", number.into()), ("VECTOR", vector.into())];
    let function = tools.function(queue, "swiglu", &settings)?;
    let threads = 128;
    let across = columns.div_ceil(vector * threads);
    queue.launch(
        &function,
        plane(across, rows, threads),
        &[at(gate_up), at(out), int(columns)],
    )
}

pub(super) fn activate(tools: &Tools, queue: &Queue<'_>, call: &Call<'_>) -> Result<()> {
    let count = call.size("count")?;
    let x = call.operand("x", &[count])?;
    let out = call.of("out", x.format, &[count])?;
    activate_into(tools, queue, call, x, None, out, count)
}

/// Applies the call's activation to numbers, and adds a residual if there is one.
pub(super) fn activate_into(
    tools: &Tools,
    queue: &Queue<'_>,
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
        return Err(call.error("less than 2**31 numbers", count));
    }
    let vector = vector(x.format, count, &[Some(x), residual, Some(out)]);
    let settings: [Setting; 3] = [
        ("NUMBER", call.numbers("x", x)?.into()),
        ("ACTIVATE", elementwise_activation(call)?.into()),
        ("VECTOR", vector.into()),
    ];
    let function = tools.function(queue, "activate", &settings)?;
    let threads = 256;
    queue.launch(
        &function,
        line(count.div_ceil(vector * threads), threads),
        &[at(x), at_or_null(residual), at(out), int(count)],
    )
}

/// The call's activation.
pub(super) fn activation(call: &Call<'_>) -> Result<Activation> {
    let code = call.integer("activation")?;
    let known = u32::try_from(code).ok().and_then(Activation::from_code);
    let last = Activation::ALL.len() - 1;
    known.ok_or_else(|| call.error(format_args!("an activation from 0 to {last}"), code))
}

/// The call's activation, which must be elementwise.
pub(super) fn elementwise_activation(call: &Call<'_>) -> Result<Activation> {
    let activation = activation(call)?;
    if activation.is_gated() {
        return Err(call.error("an elementwise activation", activation));
    }
    Ok(activation)
}

pub(super) fn embedding(tools: &Tools, queue: &Queue<'_>, call: &Call<'_>) -> Result<()> {
    let (count, rows) = (call.size("count")?, call.size("rows")?);
    let columns = call.size("columns")?;
    let table = call.operand("table", &[rows, columns])?;
    let chosen = call.optional_of("sampled_tokens", ElementFormat::I32, &[1])?;
    gather(
        tools,
        queue,
        call,
        "ids",
        chosen,
        table,
        [count, rows, columns],
    )
}

pub(super) fn gather_rows(tools: &Tools, queue: &Queue<'_>, call: &Call<'_>) -> Result<()> {
    let (count, rows) = (call.size("count")?, call.size("source_rows")?);
    let columns = call.size("columns")?;
    let x = call.operand("x", &[rows, columns])?;
    gather(tools, queue, call, "rows", None, x, [count, rows, columns])
}

/// Rows by their indices, some of which may stand for others that were chosen on the device.
fn gather(
    tools: &Tools,
    queue: &Queue<'_>,
    call: &Call<'_>,
    indices: &'static str,
    chosen: Option<Operand>,
    from: Operand,
    [count, rows, columns]: [u64; 3],
) -> Result<()> {
    let indices = call.of(indices, ElementFormat::I32, &[count])?;
    let out = call.of("out", from.format, &[count, columns])?;
    let row_bytes = columns * from.format.element_bytes().unwrap_or(1);
    if count * row_bytes == 0 {
        return Ok(());
    }
    if row_bytes > i32::MAX as u64 {
        return Err(call.error("rows of less than 2**31 bytes", row_bytes));
    }
    let places = [from.pointer.0, out.pointer.0, row_bytes];
    let fits = |unit: &&u64| places.iter().all(|place| place.is_multiple_of(**unit));
    let unit = *[16u64, 4, 2].iter().find(fits).unwrap_or(&1);
    let function = tools.function(queue, "gather_rows", &[("UNIT", unit.into())])?;
    let threads = (row_bytes / unit).next_multiple_of(32).min(256);
    let across = row_bytes.div_ceil(unit * threads);
    // The grid's second extent is short, so many rows are several launches.
    let mut done = 0;
    while done < count {
        let now = (count - done).min(65_535);
        let at_row = |place: Operand, bytes: u64| {
            KernelArgument::Pointer(assay_runtime::backend::DevicePointer(
                place.pointer.0 + bytes,
            ))
        };
        let arguments = [
            at(from),
            at_row(indices, done * 4),
            at_or_null(chosen),
            at_row(out, done * row_bytes),
            int(row_bytes),
            int(rows),
            int(chosen.map_or(0, |chosen| chosen.bytes / 4)),
        ];
        queue.launch(&function, plane(across, now, threads), &arguments)?;
        done += now;
    }
    Ok(())
}
