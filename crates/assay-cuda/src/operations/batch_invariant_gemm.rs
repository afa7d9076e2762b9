//! Batch-invariant GEMM: a row's result does not depend on the other rows of the batch.
//!
//! cuBLASLt computes a GEMM of one shape always by the same kernel, with one order of sums for all
//! rows. So rows are multiplied in groups of one size, and the last group is padded; or all at once, by
//! the algorithm of a given number of rows, where that is known to give the same bits for any number.

use super::call::{Call, element_bytes};
use super::cublaslt_gemm::cublaslt_gemm_as;
use super::linear_arguments::LinearArguments;
use assay_operations::Operand;
use assay_runtime::backend::{DevicePointer, Result};

/// Rows of a group: as many as cost little more than one, since reading the weights dominates.
const GEMM_ROWS: u64 = 128;
/// cuBLASLt's heuristics treat all larger alignments alike.
const ALIGNMENT: u64 = 256;
/// The value of `batch_invariant` for groups of one size; larger ones are rows of an algorithm.
const GROUPS: u64 = 1;

/// The rows of an operand from `first` on.
fn rows_from(operand: Operand, first: u64, columns: u64) -> Operand {
    let bytes = first * columns * element_bytes(operand.format).unwrap_or(0);
    Operand {
        pointer: DevicePointer(operand.pointer.0 + bytes),
        bytes: operand.bytes.saturating_sub(bytes),
        ..operand
    }
}

/// A batch-invariant GEMM of any number of rows.
pub(super) fn batch_invariant_gemm(call: &Call<'_>, linear: &LinearArguments) -> Result<()> {
    let algorithm_rows = call.size("batch_invariant")?;
    if algorithm_rows > GROUPS {
        return match is_aligned(linear) {
            true => cublaslt_gemm_as(call, linear, algorithm_rows),
            false => copied_gemm(call, linear, linear.rows, algorithm_rows),
        };
    }
    for first in (0..linear.rows).step_by(GEMM_ROWS as usize) {
        let group = LinearArguments {
            rows: GEMM_ROWS.min(linear.rows - first),
            x: rows_from(linear.x, first, linear.inputs),
            residual: linear.residual.map(|one| rows_from(one, first, linear.outputs)),
            out: rows_from(linear.out, first, linear.outputs),
            ..*linear
        };
        match group.rows == GEMM_ROWS && is_aligned(&group) {
            true => cublaslt_gemm_as(call, &group, GEMM_ROWS)?,
            false => copied_gemm(call, &group, GEMM_ROWS, GEMM_ROWS)?,
        }
    }
    Ok(())
}

fn is_aligned(linear: &LinearArguments) -> bool {
    let operands = [Some(linear.x), linear.residual, Some(linear.out)];
    operands.into_iter().flatten().all(|one| one.pointer.0.is_multiple_of(ALIGNMENT))
}

/// A group that is padded to so many rows, or of unaligned operands: computed in scratch memory. The
/// padding rows hold arbitrary values.
fn copied_gemm(
    call: &Call<'_>,
    group: &LinearArguments,
    rows: u64,
    algorithm_rows: u64,
) -> Result<()> {
    let bytes = |like: Operand, rows: u64, columns: u64| {
        rows * columns * element_bytes(like.format).unwrap_or(0)
    };
    let scratch = |purpose, like: Operand, columns: u64| -> Result<Operand> {
        let bytes = bytes(like, rows, columns);
        let pointer = call.scratch(purpose, bytes)?;
        Ok(Operand { pointer, bytes, ..like })
    };
    let copy_to_scratch = |purpose, from: Operand, columns: u64| -> Result<Operand> {
        let to = scratch(purpose, from, columns)?;
        call.queue.copy(from.pointer, to.pointer, bytes(from, group.rows, columns))?;
        Ok(to)
    };
    let padded = LinearArguments {
        rows,
        x: copy_to_scratch("group of x", group.x, group.inputs)?,
        residual: match group.residual {
            Some(residual) => Some(copy_to_scratch("group of residual", residual, group.outputs)?),
            None => None,
        },
        out: scratch("group of out", group.out, group.outputs)?,
        ..*group
    };
    cublaslt_gemm_as(call, &padded, algorithm_rows)?;
    let bytes_out = bytes(group.out, group.rows, group.outputs);
    call.queue.copy(padded.out.pointer, group.out.pointer, bytes_out)
}
