//! The product of two matrices.

use super::amx::amx_matmul;
use super::blocked::blocked_gemm;
use super::matrix::Matrix;
use super::microkernel::RegisterTile;
use super::skinny::{SKINNY_ROWS, skinny_gemm};
use crate::context::Context;
use crate::error::{Result, check_length, check_value};
use crate::ops::dispatch::Element;

/// Writes the product of `a` and `b` to `out`, row-major and contiguous.
///
/// ```
/// use assay_cpu::ops::{Context, Matrix, matmul};
/// let (a, b) = ([1.0, 2.0, 3.0, 4.0], [5.0, 6.0]);
/// let mut out = [0.0; 2];
/// matmul(Context::best(), Matrix::new(&a, 2, 2), Matrix::new(&b, 2, 1), &mut out)?;
/// assert_eq!(out, [17.0, 39.0]);
/// # Ok::<(), assay_cpu::error::OpError>(())
/// ```
pub fn matmul<A: Element, B: Element>(
    context: Context,
    a: Matrix<A>,
    b: Matrix<B>,
    out: &mut [f32],
) -> Result<()> {
    a.check("a")?;
    b.check("b")?;
    check_value(
        "matmul",
        "b",
        a.columns == b.rows,
        format_args!("{} rows, as a has columns", a.columns),
        format_args!("{} rows", b.rows),
    )?;
    check_length("matmul", "out", out.len(), &[a.rows, b.columns])?;
    if a.columns == 0 {
        out.fill(0.0);
    }
    if amx_matmul(context, &a, &b, out) {
        return Ok(());
    }
    let tile = RegisterTile::of(context.level);
    match a.rows < SKINNY_ROWS {
        true => skinny_gemm(context, tile, &a, &b, out),
        false => blocked_gemm(context, tile, &a, &b, out),
    }
    Ok(())
}
