//! Convolution of rows by the fastest kernels for their shape.

use super::direct::Direct;
use super::tiled;
use crate::context::Context;
use crate::ops::gemm::Epilogue;

/// Writes a convolution of rows: on AMX tiles where that pays off, else in register tiles.
pub(super) fn convolve_rows(
    direct: &Direct,
    context: Context,
    epilogue: Epilogue,
    out: &mut [f32],
) {
    if let (Some(amx), true) = (context.level.amx(), tiled::applies(direct))
        && tiled::convolve(direct, context, amx, epilogue, out)
    {
        return;
    }
    direct.run(context, epilogue, out);
}
