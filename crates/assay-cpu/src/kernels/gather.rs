//! Gathers rows: embedding lookup, and rows of activations.

use super::call::{Call, for_element, op_error};
use super::weights::{PackedSpan, block_format};
use crate::ops::{self, Context};
use assay_runtime::backend::Result;

/// Replaces pending tokens: an id of -2 - n stands for `sampled_tokens[n]`.
fn resolve_pending(call: &Call<'_>, ids: &[i32], sampled: &[i32]) -> Result<Vec<i32>> {
    let one = |id: i32| match id {
        -1.. => Ok(id),
        _ => {
            let index = -2 - i64::from(id);
            let found = usize::try_from(index).ok().and_then(|at| sampled.get(at));
            let expected = format_args!("among the {} sampled tokens", sampled.len());
            found.copied().ok_or_else(|| call.error("ids", expected, index))
        }
    };
    ids.iter().map(|id| one(*id)).collect()
}

pub(super) fn embedding(context: Context, call: &Call<'_>) -> Result<()> {
    let (count, rows, columns) = (call.size("count")?, call.size("rows")?, call.size("columns")?);
    let ids = call.span::<i32>("ids", &[count])?;
    let sampled = call.all::<i32>("sampled_tokens")?;
    let out = call.span::<f32>("out", &[count, columns])?;
    // SAFETY: read while the kernel runs only, and operands do not overlap.
    let ids = || unsafe {
        resolve_pending(call, ids.read(), sampled.as_ref().map_or(&[], |all| all.read()))
    };
    if block_format(call.format("table")?).is_some() {
        let table = PackedSpan::new(call, "table", rows, columns)?;
        if !call.runs() {
            return Ok(());
        }
        // SAFETY: the kernel runs, and operands do not overlap.
        let (table, out) = unsafe { (table.read()?, out.write()) };
        return ops::packed_embedding(context, table, &ids()?, out).map_err(op_error);
    }
    for_element!(call, "table", T => {
        let table = call.span::<T>("table", &[rows, columns])?;
        if !call.runs() {
            return Ok(());
        }
        // SAFETY: the kernel runs, and operands do not overlap.
        let (table, out) = unsafe { (table.read(), out.write()) };
        ops::embedding(context, table, columns, &ids()?, out).map_err(op_error)
    })
}

pub(super) fn gather_rows(context: Context, call: &Call<'_>) -> Result<()> {
    let (count, rows, columns) =
        (call.size("count")?, call.size("source_rows")?, call.size("columns")?);
    let x = call.span::<f32>("x", &[rows, columns])?;
    let numbers = call.span::<i32>("rows", &[count])?;
    let out = call.span::<f32>("out", &[count, columns])?;
    if !call.runs() {
        return Ok(());
    }
    // SAFETY: the kernel runs, and operands do not overlap.
    let (x, numbers, out) = unsafe { (x.read(), numbers.read(), out.write()) };
    ops::embedding(context, x, columns, numbers, out).map_err(op_error)
}
