//! Discrete Fourier transforms of any length, of rows, and of the frames of a signal.
//!
//! Sixteen sequences are transformed at once, one in each lane, so that no butterfly shuffles: rows of a
//! batch, frames of a signal, or columns of a long row. Lengths with a prime factor above 31 become a
//! convolution. A real sequence of even length is transformed as half as many complex numbers.

mod chirp;
mod complex;
mod frames;
mod lanes;
mod long;
mod overlap;
mod plan;
mod real;
mod rows;

pub use assay_operations::{FourierKind, FrameValue};
pub use frames::{FrameShape, stft};
pub use overlap::overlap_add;

use crate::context::Context;
use crate::error::{Result, check_length};
use rows::Direction;

/// Writes the transform of each row of `length` elements, times `scale`, to `out`.
///
/// ```
/// use assay_cpu::ops::{Context, FourierKind, fourier};
/// let mut out = [0.0; 4];
/// let x = [1.0, 2.0, 4.0];
/// fourier(Context::best(), FourierKind::RealToComplex, 3, 1.0, &x, &mut out)?;
/// assert_eq!((out[0], out[1]), (7.0, 0.0));
/// assert!((out[2] + 2.0).abs() < 1e-6 && (out[3] - 3_f32.sqrt()).abs() < 1e-6);
/// # Ok::<(), assay_cpu::error::OpError>(())
/// ```
pub fn fourier(
    context: Context,
    kind: FourierKind,
    length: usize,
    scale: f32,
    x: &[f32],
    out: &mut [f32],
) -> Result<()> {
    let half = 2 * (length / 2 + 1);
    let (from, to) = match kind {
        FourierKind::Complex | FourierKind::Inverse => (2 * length, 2 * length),
        FourierKind::RealToComplex => (length, half),
        FourierKind::ComplexToReal => (half, length),
    };
    let rows = x.len().checked_div(from).unwrap_or(0);
    check_length("fourier", "x", x.len(), &[rows, from])?;
    check_length("fourier", "out", out.len(), &[rows, to])?;
    if length == 0 || rows == 0 {
        return Ok(());
    }
    match kind {
        FourierKind::Complex => {
            complex::transform(context, length, Direction { inverse: false, scale }, x, out);
        }
        FourierKind::Inverse => {
            complex::transform(context, length, Direction { inverse: true, scale }, x, out);
        }
        FourierKind::RealToComplex => real::forward(context, length, scale, x, out),
        FourierKind::ComplexToReal => real::backward(context, length, scale, x, out),
    }
    Ok(())
}
