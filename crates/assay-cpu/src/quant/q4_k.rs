//! Q4_K: 256 values in eight parts of 32, each with a 6-bit scale and a 6-bit minimum.

use super::{Block, half, inverse, poison, store_half};
use assay_operations::ElementFormat;

pub(crate) struct Q4K;

const PARTS: usize = 8;
const PART: usize = 32;

/// Scale and minimum of a part, out of the twelve bytes that hold eight of each.
pub(crate) fn scale_and_min(packed: &[u8], part: usize) -> (u8, u8) {
    if part < 4 {
        return (packed[part] & 63, packed[part + 4] & 63);
    }
    (
        (packed[part + 4] & 15) | ((packed[part - 4] >> 6) << 4),
        (packed[part + 4] >> 4) | ((packed[part] >> 6) << 4),
    )
}

/// Sets the bits of a part's scale and minimum in twelve bytes that were zero.
pub(crate) fn store_scale_and_min(packed: &mut [u8], part: usize, scale: u8, least: u8) {
    if part < 4 {
        packed[part] |= scale;
        packed[part + 4] |= least;
    } else {
        packed[part + 4] |= (scale & 15) | ((least & 15) << 4);
        packed[part - 4] |= (scale >> 4) << 6;
        packed[part] |= (least >> 4) << 6;
    }
}

/// The scale and minimum with the least squared error among some around the plain choice.
fn fit(values: &[f32]) -> (f32, f32) {
    // The format subtracts a minimum that is not negative, so the range has to reach zero.
    let least = values.iter().fold(0.0_f32, |a, b| a.min(*b));
    let most = values.iter().fold(least, |a, b| a.max(*b));
    let mut best = ((most - least) / 15.0, -least);
    let mut best_error = error(values, best);
    for step in 0..20 {
        let levels = 13.0 + 0.2 * step as f32;
        let tried = refine(values, (most - least) / levels, -least);
        let tried_error = error(values, tried);
        if tried_error < best_error {
            (best, best_error) = (tried, tried_error);
        }
    }
    best
}

fn code(value: f32, scale: f32, least: f32) -> f32 {
    ((value + least) * inverse(scale)).round().clamp(0.0, 15.0)
}

fn error(values: &[f32], (scale, least): (f32, f32)) -> f32 {
    let off = |value: &f32| code(*value, scale, least) * scale - least - value;
    values.iter().map(|value| off(value).powi(2)).sum()
}

/// The line through the codes that these scale and minimum give, by least squares.
fn refine(values: &[f32], scale: f32, least: f32) -> (f32, f32) {
    let (mut codes, mut squares, mut sum, mut products) = (0.0, 0.0, 0.0, 0.0);
    for value in values {
        let code = code(*value, scale, least);
        codes += code;
        squares += code * code;
        sum += value;
        products += code * value;
    }
    let count = values.len() as f32;
    let spread = count * squares - codes * codes;
    if spread <= 0.0 {
        return (scale, least);
    }
    let slope = (count * products - codes * sum) / spread;
    let constant = (sum - slope * codes) / count;
    if constant > 0.0 || slope <= 0.0 {
        return (scale, least);
    }
    (slope, -constant)
}

impl Block for Q4K {
    const FORMAT: ElementFormat = ElementFormat::Q4K;

    fn quantize(values: &[f32], block: &mut [u8]) {
        let mut fitted = [(0.0, 0.0); PARTS];
        for (fitted, values) in fitted.iter_mut().zip(values.chunks_exact(PART)) {
            *fitted = fit(values);
        }
        let largest = |pick: fn(&(f32, f32)) -> f32| fitted.iter().map(pick).fold(0.0, f32::max);
        let (most_scale, most_least) = (largest(|part| part.0), largest(|part| part.1));
        let scale = store_half(block, 0, most_scale / 63.0 + poison(values));
        let least = store_half(block, 2, most_least / 63.0);
        let (packed, codes) = block[4..].split_at_mut(12);
        packed.fill(0);
        codes.fill(0);
        for (part, (fitted, values)) in fitted.iter().zip(values.chunks_exact(PART)).enumerate() {
            let scale_code = (fitted.0 * inverse(scale)).round().clamp(0.0, 63.0) as u8;
            let least_code = (fitted.1 * inverse(least)).round().clamp(0.0, 63.0) as u8;
            store_scale_and_min(packed, part, scale_code, least_code);
            let (scale, least) = (scale * f32::from(scale_code), least * f32::from(least_code));
            for (code_byte, value) in codes[part / 2 * PART..][..PART].iter_mut().zip(values) {
                *code_byte |= (code(*value, scale, least) as u8) << (part % 2 * 4);
            }
        }
    }

    fn dequantize(block: &[u8], values: &mut [f32]) {
        let (scale, least) = (half(block, 0), half(block, 2));
        let (packed, codes) = block[4..].split_at(12);
        for (part, values) in values.chunks_exact_mut(PART).enumerate() {
            let (scale_code, least_code) = scale_and_min(packed, part);
            let (scale, least) = (scale * f32::from(scale_code), least * f32::from(least_code));
            for (value, byte) in values.iter_mut().zip(&codes[part / 2 * PART..]) {
                let code = (byte >> (part % 2 * 4)) & 15;
                *value = f32::from(code) * scale - least;
            }
        }
    }
}
