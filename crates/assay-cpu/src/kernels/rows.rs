//! Rows of a table or of activations, by number.

use super::call::{Call, for_element, op_error};
use super::weights::{PackedSpan, block_format};
use crate::ops::{self, Context};
use assay_runtime::backend::Result;

/// Ids in which -2 - n stands for the n-th chosen one.
fn resolved(call: &Call<'_>, ids: &[i32], chosen: &[i32]) -> Result<Vec<i32>> {
    let one = |id: i32| match id {
        -1.. => Ok(id),
        _ => {
            let place = -2 - i64::from(id);
            let found = usize::try_from(place).ok().and_then(|at| chosen.get(at));
            let wanted = format_args!("among the {} chosen ones", chosen.len());
            found
                .copied()
                .ok_or_else(|| call.error("ids", wanted, place))
        }
    };
    ids.iter().map(|id| one(*id)).collect()
}

pub(super) fn embedding(context: Context, call: &Call<'_>) -> Result<()> {
    let (count, rows, columns) = (
        call.size("count")?,
        call.size("rows")?,
        call.size("columns")?,
    );
    let ids = call.span::<i32>("ids", &[count])?;
    let chosen = call.all::<i32>("sampled_tokens")?;
    let out = call.span::<f32>("out", &[count, columns])?;
    // SAFETY: read while the kernel runs only, and operands do not overlap.
    let ids = || unsafe {
        resolved(
            call,
            ids.read(),
            chosen.as_ref().map_or(&[], |all| all.read()),
        )
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
    let (count, rows, columns) = (
        call.size("count")?,
        call.size("source_rows")?,
        call.size("columns")?,
    );
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
