//! Rows of a table, by number.

use super::Context;
use super::element::Element;
use crate::error::{Result, check_index, check_length};
use crate::quant::{Format, dequantise};
use crate::threads::Disjoint;

/// Writes the rows of `table` named by `tokens` to `out`; a row is `columns` numbers.
pub fn embedding<T: Element>(
    context: Context,
    table: &[T],
    columns: usize,
    tokens: &[i64],
    out: &mut [f32],
) -> Result<()> {
    let operation = "embedding";
    let rows = table.len().checked_div(columns).unwrap_or(0);
    check_length(operation, "table", table.len(), &[rows, columns])?;
    check_length(operation, "out", out.len(), &[tokens.len(), columns])?;
    for token in tokens {
        check_index(operation, "tokens", *token, rows)?;
    }
    let out = Disjoint::new(out);
    let least = 8_192_usize.div_ceil(columns.max(1));
    context.threads.ranges(tokens.len(), least, &|range| {
        for index in range {
            // SAFETY: rows do not overlap.
            let out = unsafe { out.part(index * columns..(index + 1) * columns) };
            let row = tokens[index] as usize * columns;
            for (out, value) in out.iter_mut().zip(&table[row..]) {
                *out = (*value).into();
            }
        }
    });
    Ok(())
}

/// The same from a table in blocks.
pub fn quantised_embedding(
    context: Context,
    format: Format,
    table: &[u8],
    columns: usize,
    tokens: &[i64],
    out: &mut [f32],
) -> Result<()> {
    let operation = "embedding";
    let row_bytes = format.bytes(operation, columns)?;
    let rows = table.len().checked_div(row_bytes).unwrap_or(0);
    check_length(operation, "table", table.len(), &[rows, row_bytes])?;
    check_length(operation, "out", out.len(), &[tokens.len(), columns])?;
    for token in tokens {
        check_index(operation, "tokens", *token, rows)?;
    }
    for (token, out) in tokens.iter().zip(out.chunks_exact_mut(columns.max(1))) {
        let start = *token as usize * row_bytes;
        dequantise(context, format, &table[start..start + row_bytes], out)?;
    }
    Ok(())
}
