//! Products of rows that do not depend on how many others are beside them.
//!
//! A product of one shape is always computed by the same kernel, in one order of sums for all of its
//! rows. So rows go in groups of one size, and the last group is filled up.

use super::call::{Call, element_bytes};
use super::linear::Linear;
use super::products::many_rows;
use super::tools::Tools;
use crate::device::Queue;
use assay_operations::Operand;
use assay_runtime::backend::{DevicePointer, Result};

/// Rows of a group: as many as cost little more than one, since weights are read for all of them.
const ROWS: u64 = 128;
/// What cuBLASLt chooses kernels by is the same from here on.
const ALIGNED: u64 = 256;

/// The rows of an operand from `first` on.
fn rows_from(operand: Operand, first: u64, columns: u64) -> Operand {
    let bytes = first * columns * element_bytes(operand.format).unwrap_or(0);
    Operand {
        pointer: DevicePointer(operand.pointer.0 + bytes),
        bytes: operand.bytes.saturating_sub(bytes),
        ..operand
    }
}

/// A product of any number of rows, each the same whatever is beside it.
pub(super) fn in_groups(
    tools: &Tools,
    queue: &Queue<'_>,
    call: &Call<'_>,
    given: &Linear,
) -> Result<()> {
    for first in (0..given.rows).step_by(ROWS as usize) {
        let group = Linear {
            rows: ROWS.min(given.rows - first),
            x: rows_from(given.x, first, given.inputs),
            residual: given
                .residual
                .map(|one| rows_from(one, first, given.outputs)),
            out: rows_from(given.out, first, given.outputs),
            ..*given
        };
        let operands = [Some(group.x), group.residual, Some(group.out)];
        let aligned = |one: Operand| one.pointer.0.is_multiple_of(ALIGNED);
        match group.rows == ROWS && operands.into_iter().flatten().all(aligned) {
            true => many_rows(tools, queue, call, &group)?,
            false => filled_up(tools, queue, call, &group)?,
        }
    }
    Ok(())
}

/// A group of fewer rows, or of rows that lie elsewhere: computed aside. What its other rows are
/// made of is of no concern.
fn filled_up(tools: &Tools, queue: &Queue<'_>, call: &Call<'_>, group: &Linear) -> Result<()> {
    let bytes = |like: Operand, rows: u64, columns: u64| {
        rows * columns * element_bytes(like.format).unwrap_or(0)
    };
    let aside = |purpose, like: Operand, columns: u64| -> Result<Operand> {
        let bytes = bytes(like, ROWS, columns);
        let pointer = tools.scratch(queue, purpose, bytes)?;
        Ok(Operand {
            pointer,
            bytes,
            ..like
        })
    };
    let copied = |purpose, from: Operand, columns: u64| -> Result<Operand> {
        let to = aside(purpose, from, columns)?;
        queue.copy(from.pointer, to.pointer, bytes(from, group.rows, columns))?;
        Ok(to)
    };
    let whole = Linear {
        rows: ROWS,
        x: copied("group of x", group.x, group.inputs)?,
        residual: match group.residual {
            Some(residual) => Some(copied("group of residual", residual, group.outputs)?),
            None => None,
        },
        out: aside("group of out", group.out, group.outputs)?,
        ..*group
    };
    many_rows(tools, queue, call, &whole)?;
    let made = bytes(group.out, group.rows, group.outputs);
    queue.copy(whole.out.pointer, group.out.pointer, made)
}
