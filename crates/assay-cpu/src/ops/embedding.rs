//! Embedding lookup: gathers rows of a table.

use super::dispatch::Element;
use crate::context::Context;
use crate::error::{Result, check_index, check_length};
use crate::quantization::PackedView;
use crate::threads::DisjointSlice;

/// The id of a skipped row.
const NONE: i32 = -1;

fn check_tokens(tokens: &[i32], rows: usize) -> Result<()> {
    for token in tokens.iter().filter(|token| **token != NONE) {
        check_index("embedding", "tokens", i64::from(*token), rows)?;
    }
    Ok(())
}

/// Calls `row` with each token and its row of `out`; rows of skipped tokens become zeros.
fn each_row(
    context: Context,
    columns: usize,
    tokens: &[i32],
    out: &mut [f32],
    row: &(dyn Fn(usize, &mut [f32]) + Sync),
) {
    let out = DisjointSlice::new(out);
    let least = 8_192_usize.div_ceil(columns.max(1));
    context.threads.parallel_for(tokens.len(), least, &|range| {
        for index in range {
            // SAFETY: rows do not overlap.
            let out = unsafe { out.slice_mut(index * columns..(index + 1) * columns) };
            match usize::try_from(tokens[index]) {
                Ok(token) => row(token, out),
                Err(_) => out.fill(0.0),
            }
        }
    });
}

/// Gathers the rows `tokens` of `table`, of `columns` elements each; a token of -1 gives zeros.
pub fn embedding<T: Element>(
    context: Context,
    table: &[T],
    columns: usize,
    tokens: &[i32],
    out: &mut [f32],
) -> Result<()> {
    let operation = "embedding";
    let rows = table.len().checked_div(columns).unwrap_or(0);
    check_length(operation, "table", table.len(), &[rows, columns])?;
    check_length(operation, "out", out.len(), &[tokens.len(), columns])?;
    check_tokens(tokens, rows)?;
    each_row(context, columns, tokens, out, &|token, out| {
        for (out, value) in out.iter_mut().zip(&table[token * columns..]) {
            *out = (*value).into();
        }
    });
    Ok(())
}

/// The same from packed weights.
pub fn packed_embedding(
    context: Context,
    table: PackedView,
    tokens: &[i32],
    out: &mut [f32],
) -> Result<()> {
    let columns = table.inputs();
    check_length("embedding", "out", out.len(), &[tokens.len(), columns])?;
    check_tokens(tokens, table.outputs())?;
    each_row(context, columns, tokens, out, &|token, out| {
        table.write_row(token, out);
    });
    Ok(())
}
