//! Sums with the residual stream, and scaled or normalized parts of rows.

use super::call::{Call, int, pointer, pointer_or_null, vector};
use super::define::Define;
use super::grid::grid_1d;
use super::layers::register_row;
use assay_runtime::backend::{KernelArgument, Result};

/// Threads of a CTA that normalizes some columns of a row.
const COLUMN_THREADS: u64 = 256;

pub(super) fn scale(call: &Call<'_>) -> Result<()> {
    let count = call.count("count")?;
    let x = call.operand("x", &[count])?;
    let softcap = call.float("softcap")?;
    if !softcap.is_finite() || softcap < 0.0 {
        return Err(call.error("a softcap of 0 or more", softcap));
    }
    if count == 0 {
        return Ok(());
    }
    let vector = vector(x.format, count, &[Some(x)]);
    let threads = 256;
    let ctas = count.div_ceil(vector * threads);
    if ctas > i32::MAX as u64 {
        return Err(call.error("fewer elements", count));
    }
    let defines: [Define; 3] = [
        ("ELEMENT", call.float_type("x", x)?.into()),
        ("SOFTCAP", (softcap > 0.0).into()),
        ("VECTOR", vector.into()),
    ];
    let function = call.function("scale", &defines)?;
    let arguments = [
        pointer(x),
        KernelArgument::I64(count.cast_signed()),
        KernelArgument::F32(call.float("factor")?),
        KernelArgument::F32(softcap),
    ];
    call.queue.launch(&function, grid_1d(ctas, threads), &arguments)
}

pub(super) fn add_residual(call: &Call<'_>) -> Result<()> {
    let (rows, columns) = (call.size("rows")?, call.size("columns")?);
    let x = call.operand("x", &[rows, columns])?;
    let weight = call.optional_typed("weight", x.format, &[columns])?;
    let residual = call.typed("residual", x.format, &[rows, columns])?;
    let out = call.typed("out", x.format, &[rows, columns])?;
    if rows * columns == 0 {
        return Ok(());
    }
    let operands = [Some(x), weight, Some(residual), Some(out)];
    let vector = vector(x.format, columns, &operands);
    let Some((chunks, threads)) = register_row(columns, vector) else {
        return Err(call.error("rows that fit a CTA", format_args!("{columns} columns")));
    };
    let defines: [Define; 5] = [
        ("ELEMENT", call.float_type("x", x)?.into()),
        ("NORM", weight.is_some().into()),
        ("THREADS", threads.into()),
        ("CHUNKS_PER_THREAD", chunks.into()),
        ("VECTOR", vector.into()),
    ];
    let function = call.function("add_residual", &defines)?;
    let arguments = [
        pointer(x),
        pointer_or_null(weight),
        pointer(residual),
        pointer(out),
        int(columns),
        KernelArgument::F32(call.float("epsilon")?),
        KernelArgument::F32(call.float("factor")?),
    ];
    call.queue.launch(&function, grid_1d(rows, threads), &arguments)
}

pub(super) fn norm_columns(call: &Call<'_>) -> Result<()> {
    let (rows, columns) = (call.size("rows")?, call.size("columns")?);
    let (first, width) = (call.size("first")?, call.size("width")?);
    let x = call.operand("x", &[rows, columns])?;
    let weight = call.typed("weight", x.format, &[width])?;
    if width == 0 || first + width > columns {
        let expected = format_args!("columns {first} to {} of each row", first + width);
        return Err(call.error(expected, columns));
    }
    if rows == 0 {
        return Ok(());
    }
    let aligned = vector(x.format, columns, &[Some(x), Some(weight)]);
    let vector = match first.is_multiple_of(aligned) && width.is_multiple_of(aligned) {
        true => aligned,
        false => 1,
    };
    let defines: [Define; 3] = [
        ("ELEMENT", call.float_type("x", x)?.into()),
        ("THREADS", COLUMN_THREADS.into()),
        ("VECTOR", vector.into()),
    ];
    let function = call.function("norm_columns", &defines)?;
    let arguments = [
        pointer(x),
        pointer(weight),
        int(columns),
        int(first),
        int(width),
        KernelArgument::F32(call.float("epsilon")?),
    ];
    call.queue.launch(&function, grid_1d(rows, COLUMN_THREADS), &arguments)
}
