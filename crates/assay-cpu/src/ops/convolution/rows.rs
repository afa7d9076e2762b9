//! Convolution of rows by the fastest kernels for their shape.

use super::direct::Direct;
use super::shape::Precision;
use super::tiled;
use crate::context::Context;
use crate::ops::gemm::Epilogue;
use crate::simd::SPLIT_TERMS;

/// Writes convolutions of the same input with taps of the same filters: on AMX tiles where that pays off, else in
/// register tiles.
pub(super) fn convolve_rows(
    phases: &[Direct],
    context: Context,
    precision: Precision,
    epilogue: Epilogue,
    out: &mut [f32],
) {
    if let (Some(amx), true) = (context.level.amx(), phases.iter().all(tiled::applies)) {
        let done = match precision {
            Precision::Highest => {
                tiled::convolve::<SPLIT_TERMS>(phases, context, amx, epilogue, out)
            }
            Precision::High => tiled::convolve::<2>(phases, context, amx, epilogue, out),
            Precision::Medium => tiled::convolve::<1>(phases, context, amx, epilogue, out),
        };
        if done {
            return;
        }
    }
    for phase in phases {
        phase.run(context, epilogue, out);
    }
}
