//! Lengths with a large prime factor (Bluestein 1970): nk = (n^2 + k^2 - (k - n)^2) / 2 makes a transform a
//! convolution, which transforms of a length with small factors compute.

use super::plan::{factors, root};
use super::rows::Direction;
use crate::context::Context;

/// Elements of padded rows that are convolved at a time.
const MOST_ELEMENTS: usize = 1 << 22;

/// A transform of rows of a length with small factors.
type Transform = fn(Context, usize, Direction, &[f32], &mut [f32]);

/// Transforms rows of interleaved complex numbers of any length, by transforms of others.
pub(super) fn transform_by_chirp(
    context: Context,
    length: usize,
    direction: Direction,
    x: &[f32],
    out: &mut [f32],
    transform: Transform,
) {
    let mut padded = 2 * length - 1;
    while factors(padded).is_none_or(|factors| factors.iter().any(|factor| *factor > 5)) {
        padded += 1;
    }
    // exp(-pi i n^2 / length): the exponent modulo 2 length is exact in integers.
    let modulus = 2 * length as u64;
    let chirp: Vec<[f32; 2]> = (0..length as u64)
        .map(|n| root((u128::from(n) * u128::from(n) % u128::from(modulus)) as u64, modulus))
        .collect();
    let mut kernel = vec![0.0; 2 * padded];
    for (n, [re, im]) in chirp.iter().enumerate() {
        for at in [n, (padded - n) % padded] {
            (kernel[2 * at], kernel[2 * at + 1]) = (*re, -im);
        }
    }
    let forward = Direction { inverse: false, scale: 1.0 };
    let mut spectrum = vec![0.0; 2 * padded];
    transform(context, padded, forward, &kernel, &mut spectrum);
    let rows = (MOST_ELEMENTS / padded).max(1);
    let (mut first, mut second) = (Vec::new(), Vec::new());
    for (x, out) in x.chunks(rows * 2 * length).zip(out.chunks_mut(rows * 2 * length)) {
        let count = x.len() / (2 * length);
        first.clear();
        first.resize(count * 2 * padded, 0.0);
        second.resize(count * 2 * padded, 0.0);
        for (x, first) in x.chunks_exact(2 * length).zip(first.chunks_exact_mut(2 * padded)) {
            multiply(x, &chirp, direction.inverse, first);
        }
        transform(context, padded, forward, &first, &mut second);
        let factors = spectrum.as_chunks::<2>().0;
        for row in second.chunks_exact_mut(2 * padded) {
            for (pair, [c, d]) in row.as_chunks_mut::<2>().0.iter_mut().zip(factors) {
                let [a, b] = *pair;
                *pair = [a * c - b * d, a * d + b * c];
            }
        }
        let scale = direction.scale / padded as f32;
        transform(context, padded, Direction { inverse: true, scale }, &second, &mut first);
        for (out, first) in out.chunks_exact_mut(2 * length).zip(first.chunks_exact(2 * padded)) {
            multiply(&first[..2 * length], &chirp, false, out);
            if direction.inverse {
                out.as_chunks_mut::<2>().0.iter_mut().for_each(|pair| pair.swap(0, 1));
            }
        }
    }
}

/// The products of complex numbers, whose parts may be exchanged, with the chirp.
fn multiply(x: &[f32], chirp: &[[f32; 2]], exchanged: bool, out: &mut [f32]) {
    let pairs = x.as_chunks::<2>().0.iter().zip(chirp);
    for (([a, b], [c, d]), out) in pairs.zip(out.as_chunks_mut::<2>().0) {
        let (a, b) = if exchanged { (b, a) } else { (a, b) };
        *out = [a * c - b * d, a * d + b * c];
    }
}
