//! Rows of a table or of activations, by number.

use super::call::{Call, for_element, refused};
use super::weights::{PackedSpan, block_format};
use crate::ops::{self, Context};
use assay_core::backend::Result;

pub(super) fn embedding(context: Context, call: &Call<'_>) -> Result<()> {
    let (count, rows, columns) = (
        call.size("count")?,
        call.size("rows")?,
        call.size("columns")?,
    );
    let ids = call.span::<i32>("ids", &[count])?;
    let out = call.span::<f32>("out", &[count, columns])?;
    if block_format(call.format("table")?).is_some() {
        let table = PackedSpan::new(call, "table", rows, columns)?;
        if !call.runs() {
            return Ok(());
        }
        // SAFETY: the kernel runs, and operands do not overlap.
        let (ids, table, out) = unsafe { (ids.read(), table.read()?, out.write()) };
        return ops::packed_embedding(context, table, ids, out).map_err(refused);
    }
    for_element!(call, "table", T => {
        let table = call.span::<T>("table", &[rows, columns])?;
        if !call.runs() {
            return Ok(());
        }
        // SAFETY: the kernel runs, and operands do not overlap.
        let (ids, table, out) = unsafe { (ids.read(), table.read(), out.write()) };
        ops::embedding(context, table, columns, ids, out).map_err(refused)
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
    ops::embedding(context, x, columns, numbers, out).map_err(refused)
}
