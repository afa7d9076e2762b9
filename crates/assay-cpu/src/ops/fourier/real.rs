//! Transforms of real rows, as complex ones of half the length where it is even.

use super::complex::transform;
use super::plan::root;
use super::rows::Direction;
use crate::context::Context;
use crate::threads::DisjointSlice;

/// Elements of a row that are split at a time.
const PART: usize = 8_192;

fn roots(length: usize) -> Vec<[f32; 2]> {
    (0..=length / 2).map(|k| root(k as u64, length as u64)).collect()
}

/// Real rows to their first length / 2 + 1 frequencies.
pub(super) fn forward(context: Context, length: usize, scale: f32, x: &[f32], out: &mut [f32]) {
    let bins = length / 2 + 1;
    let direction = Direction { inverse: false, scale };
    if !length.is_multiple_of(2) {
        let wide: Vec<f32> = x.iter().flat_map(|value| [*value, 0.0]).collect();
        let mut whole = vec![0.0; wide.len()];
        transform(context, length, direction, &wide, &mut whole);
        for (out, whole) in out.chunks_exact_mut(2 * bins).zip(whole.chunks_exact(2 * length)) {
            out.copy_from_slice(&whole[..2 * bins]);
        }
        return;
    }
    let half = length / 2;
    let mut packed = vec![0.0; x.len()];
    transform(context, half, direction, x, &mut packed);
    let roots = roots(length);
    let parts = bins.div_ceil(PART);
    let rows = x.len() / length;
    let out = DisjointSlice::new(out);
    let grain = PART.div_ceil(bins.min(PART));
    context.threads.parallel_for(rows * parts, grain, &|range| {
        for task in range {
            let (row, first) = (task / parts, task % parts * PART);
            let last = (first + PART).min(bins);
            let packed = packed[row * length..(row + 1) * length].as_chunks::<2>().0;
            // SAFETY: parts of rows do not overlap.
            let out = unsafe { out.slice_mut(2 * (row * bins + first)..2 * (row * bins + last)) };
            for (k, out) in (first..last).zip(out.as_chunks_mut::<2>().0) {
                let (a, b) = (packed[k % half], packed[(half - k) % half]);
                *out = separate(a, b, roots[k]);
            }
        }
    });
}

/// Frequency k of real elements from those of the complex numbers that they were packed as: `a` is frequency k, `b`
/// frequency half - k.
#[inline(always)]
fn separate(a: [f32; 2], b: [f32; 2], [cosine, sine]: [f32; 2]) -> [f32; 2] {
    let (even_re, even_im) = (0.5 * (a[0] + b[0]), 0.5 * (a[1] - b[1]));
    let (odd_re, odd_im) = (0.5 * (a[1] + b[1]), 0.5 * (b[0] - a[0]));
    [even_re + cosine * odd_re - sine * odd_im, even_im + cosine * odd_im + sine * odd_re]
}

/// The first length / 2 + 1 frequencies back to real rows.
pub(super) fn backward(context: Context, length: usize, scale: f32, x: &[f32], out: &mut [f32]) {
    let bins = length / 2 + 1;
    let rows = out.len() / length;
    if !length.is_multiple_of(2) {
        let mut whole = Vec::with_capacity(2 * rows * length);
        for x in x.chunks_exact(2 * bins) {
            let pairs = x.as_chunks::<2>().0;
            whole.extend([pairs[0][0], 0.0]);
            whole.extend_from_slice(&x[2..]);
            whole.extend(pairs[1..].iter().rev().flat_map(|[re, im]| [*re, -im]));
        }
        let mut complex = vec![0.0; whole.len()];
        transform(context, length, Direction { inverse: true, scale }, &whole, &mut complex);
        for (out, [re, _]) in out.iter_mut().zip(complex.as_chunks::<2>().0) {
            *out = *re;
        }
        return;
    }
    let (half, roots) = (length / 2, roots(length));
    let mut packed = vec![0.0; out.len()];
    let shared = DisjointSlice::new(&mut packed);
    context.threads.parallel_for(rows, PART.div_ceil(length), &|range| {
        for row in range {
            let x = x[row * 2 * bins..(row + 1) * 2 * bins].as_chunks::<2>().0;
            // SAFETY: rows do not overlap.
            let out = unsafe { shared.slice_mut(row * length..(row + 1) * length) };
            for (k, out) in out.as_chunks_mut::<2>().0.iter_mut().enumerate() {
                let (mut a, mut b) = (x[k], x[half - k]);
                if k == 0 {
                    (a[1], b[1]) = (0.0, 0.0);
                }
                // The sum of even elements, and of odd ones turned back.
                let (even_re, even_im) = (a[0] + b[0], a[1] - b[1]);
                let (re, im) = (a[0] - b[0], a[1] + b[1]);
                let [cosine, sine] = roots[k];
                let (odd_re, odd_im) = (cosine * re + sine * im, cosine * im - sine * re);
                *out = [even_re - odd_im, even_im + odd_re];
            }
        }
    });
    // Both sums were left without their factor of one half, and the transform of half the length lacks another.
    transform(context, half, Direction { inverse: true, scale }, &packed, out);
}
