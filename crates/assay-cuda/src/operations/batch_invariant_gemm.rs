//! Batch-invariant GEMM: a row's result does not depend on the other rows of the batch.
//!
//! cuBLASLt computes a GEMM of one shape always by the same kernel, with one order of sums for all
//! rows. So rows are multiplied in groups of one size, and the last group is padded; or it has its own
//! size and the algorithm of a whole group, where that is known to give the same bits.

use super::call::{Call, element_bytes};
use super::cublaslt_gemm::cublaslt_gemm_as;
use super::linear_arguments::LinearArguments;
use assay_operations::Operand;
use assay_runtime::backend::{DevicePointer, Result};

/// Rows of a group: as many as cost little more than one, since reading the weights dominates.
const GEMM_ROWS: u64 = 128;
/// cuBLASLt's heuristics treat all larger alignments alike.
const ALIGNMENT: u64 = 256;
/// The value of `batch_invariant` that keeps the algorithm of a whole group for fewer rows.
const KEEPS_ALGORITHM: i64 = 2;

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
    let keeps_algorithm = call.integer("batch_invariant")? == KEEPS_ALGORITHM;
    for first in (0..linear.rows).step_by(GEMM_ROWS as usize) {
        let group = LinearArguments {
            rows: GEMM_ROWS.min(linear.rows - first),
            x: rows_from(linear.x, first, linear.inputs),
            residual: linear.residual.map(|one| rows_from(one, first, linear.outputs)),
            out: rows_from(linear.out, first, linear.outputs),
            ..*linear
        };
        let operands = [Some(group.x), group.residual, Some(group.out)];
        let aligned = |one: Operand| one.pointer.0.is_multiple_of(ALIGNMENT);
        let has_rows = group.rows == GEMM_ROWS || keeps_algorithm;
        match has_rows && operands.into_iter().flatten().all(aligned) {
            true => cublaslt_gemm_as(call, &group, GEMM_ROWS)?,
            false => padded_gemm(call, &group)?,
        }
    }
    Ok(())
}

/// A group of fewer rows, or of unaligned operands: computed in scratch memory. The padding rows
/// hold arbitrary values.
fn padded_gemm(call: &Call<'_>, group: &LinearArguments) -> Result<()> {
    let bytes = |like: Operand, rows: u64, columns: u64| {
        rows * columns * element_bytes(like.format).unwrap_or(0)
    };
    let scratch = |purpose, like: Operand, columns: u64| -> Result<Operand> {
        let bytes = bytes(like, GEMM_ROWS, columns);
        let pointer = call.scratch(purpose, bytes)?;
        Ok(Operand { pointer, bytes, ..like })
    };
    let copy_to_scratch = |purpose, from: Operand, columns: u64| -> Result<Operand> {
        let to = scratch(purpose, from, columns)?;
        call.queue.copy(from.pointer, to.pointer, bytes(from, group.rows, columns))?;
        Ok(to)
    };
    let padded = LinearArguments {
        rows: GEMM_ROWS,
        x: copy_to_scratch("group of x", group.x, group.inputs)?,
        residual: match group.residual {
            Some(residual) => Some(copy_to_scratch("group of residual", residual, group.outputs)?),
            None => None,
        },
        out: scratch("group of out", group.out, group.outputs)?,
        ..*group
    };
    cublaslt_gemm_as(call, &padded, GEMM_ROWS)?;
    let bytes_out = bytes(group.out, group.rows, group.outputs);
    call.queue.copy(padded.out.pointer, group.out.pointer, bytes_out)
}
