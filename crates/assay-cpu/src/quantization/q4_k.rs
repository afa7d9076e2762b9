//! Q4_K and Q5_K: 256 values in eight sub-blocks of 32, each with a 6-bit scale and a 6-bit minimum.

use super::block::{Block, half, inverse, poison, store_half};
use assay_operations::ElementFormat;

pub(crate) struct Q4K;
pub(crate) struct Q5K;

/// The largest codes of 4 and of 5 bits.
const MOST_4_BITS: f32 = 15.0;
const MOST_5_BITS: f32 = 31.0;
/// The offsets of the upper bits and of the lower four bits of a Q5_K block.
const Q5K_UPPER: usize = 16;
const Q5K_LOWER: usize = 48;

impl Q5K {
    /// The five bits of a value.
    pub fn code(block: &[u8], index: usize) -> u8 {
        let (sub_block, at) = (index / SUB_BLOCK, index % SUB_BLOCK);
        let lower = block[Q5K_LOWER + sub_block / 2 * SUB_BLOCK + at] >> (sub_block % 2 * 4);
        (lower & 15) | (((block[Q5K_UPPER + at] >> sub_block) & 1) << 4)
    }

    /// Stores the five bits of a value in a block that was zero.
    pub fn store_code(block: &mut [u8], index: usize, code: u8) {
        let (sub_block, at) = (index / SUB_BLOCK, index % SUB_BLOCK);
        block[Q5K_LOWER + sub_block / 2 * SUB_BLOCK + at] |= (code & 15) << (sub_block % 2 * 4);
        block[Q5K_UPPER + at] |= (code >> 4) << sub_block;
    }
}

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

/// The scale and minimum with the least squared error, searched around the min-max choice, for
/// codes up to `largest`.
fn fit(values: &[f32], largest: f32) -> (f32, f32) {
    // The format subtracts a nonnegative minimum, so the range must include zero.
    let minimum = values.iter().fold(0.0_f32, |a, b| a.min(*b));
    let most = values.iter().fold(minimum, |a, b| a.max(*b));
    let mut best = ((most - minimum) / largest, -minimum);
    let mut best_error = error(values, best, largest);
    for step in 0..20 {
        let levels = largest - 2.0 + 0.2 * step as f32;
        let tried = refine(values, (most - minimum) / levels, -minimum, largest);
        let tried_error = error(values, tried, largest);
        if tried_error < best_error {
            (best, best_error) = (tried, tried_error);
        }
    }
    best
}

fn code(value: f32, scale: f32, minimum: f32, largest: f32) -> f32 {
    ((value + minimum) * inverse(scale)).round().clamp(0.0, largest)
}

fn error(values: &[f32], (scale, minimum): (f32, f32), largest: f32) -> f32 {
    let off = |value: &f32| code(*value, scale, minimum, largest) * scale - minimum - value;
    values.iter().map(|value| off(value).powi(2)).sum()
}

/// The least-squares line through the codes that this scale and minimum give.
fn refine(values: &[f32], scale: f32, minimum: f32, largest: f32) -> (f32, f32) {
    let (mut codes, mut squares, mut sum, mut products) = (0.0, 0.0, 0.0, 0.0);
    for value in values {
        let code = code(*value, scale, minimum, largest);
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

/// Quantizes a block with codes up to `largest`: `store` is given the block, a value's index and its
/// code.
fn quantize_block(
    values: &[f32],
    block: &mut [u8],
    largest: f32,
    store: impl Fn(&mut [u8], usize, u8),
) {
    let mut fitted = [(0.0, 0.0); SUB_BLOCKS];
    for (fitted, values) in fitted.iter_mut().zip(values.chunks_exact(SUB_BLOCK)) {
        *fitted = fit(values, largest);
    }
    let most = |pick: fn(&(f32, f32)) -> f32| fitted.iter().map(pick).fold(0.0, f32::max);
    let (max_scale, max_minimum) = (most(|sub_block| sub_block.0), most(|sub_block| sub_block.1));
    block.fill(0);
    let scale = store_half(block, 0, max_scale / 63.0 + poison(values));
    let minimum = store_half(block, 2, max_minimum / 63.0);
    for (sub_block, (fitted, values)) in
        fitted.iter().zip(values.chunks_exact(SUB_BLOCK)).enumerate()
    {
        let scale_code = (fitted.0 * inverse(scale)).round().clamp(0.0, 63.0) as u8;
        let minimum_code = (fitted.1 * inverse(minimum)).round().clamp(0.0, 63.0) as u8;
        store_scale_and_minimum(&mut block[4..16], sub_block, scale_code, minimum_code);
        let (scale, minimum) = (scale * f32::from(scale_code), minimum * f32::from(minimum_code));
        for (index, value) in values.iter().enumerate() {
            let code = code(*value, scale, minimum, largest) as u8;
            store(block, sub_block * SUB_BLOCK + index, code);
        }
    }
}

impl Block for Q5K {
    const FORMAT: ElementFormat = ElementFormat::Q5K;

    fn quantize(values: &[f32], block: &mut [u8]) {
        quantize_block(values, block, MOST_5_BITS, Q5K::store_code);
    }

    fn dequantize(block: &[u8], values: &mut [f32]) {
        let (scale, minimum) = (half(block, 0), half(block, 2));
        for (index, value) in values.iter_mut().enumerate() {
            let (scale_code, minimum_code) = scale_and_minimum(&block[4..16], index / SUB_BLOCK);
            let (scale, minimum) =
                (scale * f32::from(scale_code), minimum * f32::from(minimum_code));
            *value = f32::from(Q5K::code(block, index)) * scale - minimum;
        }
    }
}

impl Block for Q4K {
    const FORMAT: ElementFormat = ElementFormat::Q4K;

    fn quantize(values: &[f32], block: &mut [u8]) {
        quantize_block(values, block, MOST_4_BITS, |block, index, code| {
            let (sub_block, at) = (index / SUB_BLOCK, index % SUB_BLOCK);
            block[16 + sub_block / 2 * SUB_BLOCK + at] |= code << (sub_block % 2 * 4);
        });
    }

    fn dequantize(block: &[u8], values: &mut [f32]) {
        let (scale, minimum) = (half(block, 0), half(block, 2));
        let (packed, codes) = block[4..].split_at(12);
        for (sub_block, values) in values.chunks_exact_mut(SUB_BLOCK).enumerate() {
            let (scale_code, minimum_code) = scale_and_minimum(packed, sub_block);
            let (scale, minimum) =
                (scale * f32::from(scale_code), minimum * f32::from(minimum_code));
            for (value, byte) in values.iter_mut().zip(&codes[sub_block / 2 * SUB_BLOCK..]) {
                let code = (byte >> (sub_block % 2 * 4)) & 15;
                *value = f32::from(code) * scale - minimum;
            }
        }
    }
}
