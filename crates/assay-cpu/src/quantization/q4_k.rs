//! Q4_K: 256 values in eight sub-blocks of 32, each with a 6-bit scale and a 6-bit minimum.

use super::block::{Block, half, inverse, poison, store_half};
use assay_operations::ElementFormat;

pub(crate) struct Q4K;

const SUB_BLOCKS: usize = 8;
const SUB_BLOCK: usize = 32;

/// The scale and minimum of a sub-block, from the twelve bytes that hold eight of each.
pub(crate) fn scale_and_minimum(packed: &[u8], sub_block: usize) -> (u8, u8) {
    if sub_block < 4 {
        return (packed[sub_block] & 63, packed[sub_block + 4] & 63);
    }
    (
        (packed[sub_block + 4] & 15) | ((packed[sub_block - 4] >> 6) << 4),
        (packed[sub_block + 4] >> 4) | ((packed[sub_block] >> 6) << 4),
    )
}

/// Stores a sub-block's scale and minimum in twelve bytes that were zero.
pub(crate) fn store_scale_and_minimum(packed: &mut [u8], sub_block: usize, scale: u8, minimum: u8) {
    if sub_block < 4 {
        packed[sub_block] |= scale;
        packed[sub_block + 4] |= minimum;
    } else {
        packed[sub_block + 4] |= (scale & 15) | ((minimum & 15) << 4);
        packed[sub_block - 4] |= (scale >> 4) << 6;
        packed[sub_block] |= (minimum >> 4) << 6;
    }
}

/// The scale and minimum with the least squared error, searched around the min-max choice.
fn fit(values: &[f32]) -> (f32, f32) {
    // The format subtracts a nonnegative minimum, so the range must include zero.
    let minimum = values.iter().fold(0.0_f32, |a, b| a.min(*b));
    let most = values.iter().fold(minimum, |a, b| a.max(*b));
    let mut best = ((most - minimum) / 15.0, -minimum);
    let mut best_error = error(values, best);
    for step in 0..20 {
        let levels = 13.0 + 0.2 * step as f32;
        let tried = refine(values, (most - minimum) / levels, -minimum);
        let tried_error = error(values, tried);
        if tried_error < best_error {
            (best, best_error) = (tried, tried_error);
        }
    }
    best
}

fn code(value: f32, scale: f32, minimum: f32) -> f32 {
    ((value + minimum) * inverse(scale))
        .round()
        .clamp(0.0, 15.0)
}

fn error(values: &[f32], (scale, minimum): (f32, f32)) -> f32 {
    let off = |value: &f32| code(*value, scale, minimum) * scale - minimum - value;
    values.iter().map(|value| off(value).powi(2)).sum()
}

/// The least-squares line through the codes that this scale and minimum give.
fn refine(values: &[f32], scale: f32, minimum: f32) -> (f32, f32) {
    let (mut codes, mut squares, mut sum, mut products) = (0.0, 0.0, 0.0, 0.0);
    for value in values {
        let code = code(*value, scale, minimum);
        codes += code;
        squares += code * code;
        sum += value;
        products += code * value;
    }
    let count = values.len() as f32;
    let unpack_group = count * squares - codes * codes;
    if unpack_group <= 0.0 {
        return (scale, minimum);
    }
    let slope = (count * products - codes * sum) / unpack_group;
    let constant = (sum - slope * codes) / count;
    if constant > 0.0 || slope <= 0.0 {
        return (scale, minimum);
    }
    (slope, -constant)
}

impl Block for Q4K {
    const FORMAT: ElementFormat = ElementFormat::Q4K;

    fn quantize(values: &[f32], block: &mut [u8]) {
        let mut fitted = [(0.0, 0.0); SUB_BLOCKS];
        for (fitted, values) in fitted.iter_mut().zip(values.chunks_exact(SUB_BLOCK)) {
            *fitted = fit(values);
        }
        let largest = |pick: fn(&(f32, f32)) -> f32| fitted.iter().map(pick).fold(0.0, f32::max);
        let (max_scale, max_minimum) = (
            largest(|sub_block| sub_block.0),
            largest(|sub_block| sub_block.1),
        );
        let scale = store_half(block, 0, max_scale / 63.0 + poison(values));
        let minimum = store_half(block, 2, max_minimum / 63.0);
        let (packed, codes) = block[4..].split_at_mut(12);
        packed.fill(0);
        codes.fill(0);
        for (sub_block, (fitted, values)) in fitted
            .iter()
            .zip(values.chunks_exact(SUB_BLOCK))
            .enumerate()
        {
            let scale_code = (fitted.0 * inverse(scale)).round().clamp(0.0, 63.0) as u8;
            let minimum_code = (fitted.1 * inverse(minimum)).round().clamp(0.0, 63.0) as u8;
            store_scale_and_minimum(packed, sub_block, scale_code, minimum_code);
            let (scale, minimum) = (
                scale * f32::from(scale_code),
                minimum * f32::from(minimum_code),
            );
            for (code_byte, value) in codes[sub_block / 2 * SUB_BLOCK..][..SUB_BLOCK]
                .iter_mut()
                .zip(values)
            {
                *code_byte |= (code(*value, scale, minimum) as u8) << (sub_block % 2 * 4);
            }
        }
    }

    fn dequantize(block: &[u8], values: &mut [f32]) {
        let (scale, minimum) = (half(block, 0), half(block, 2));
        let (packed, codes) = block[4..].split_at(12);
        for (sub_block, values) in values.chunks_exact_mut(SUB_BLOCK).enumerate() {
            let (scale_code, minimum_code) = scale_and_minimum(packed, sub_block);
            let (scale, minimum) = (
                scale * f32::from(scale_code),
                minimum * f32::from(minimum_code),
            );
            for (value, byte) in values.iter_mut().zip(&codes[sub_block / 2 * SUB_BLOCK..]) {
                let code = (byte >> (sub_block % 2 * 4)) & 15;
                *value = f32::from(code) * scale - minimum;
            }
        }
    }
}
