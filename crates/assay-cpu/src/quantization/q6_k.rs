//! Q6_K: 256 values in sixteen sub-blocks of 16, each with an 8-bit scale.

use super::block::{Block, half, inverse, poison, store_half};
use assay_operations::ElementFormat;

pub(crate) struct Q6K;

const SUB_BLOCK: usize = 16;
const LOW: usize = 128;
const HIGH: usize = 64;

impl Q6K {
    /// Byte and shift of a value's low four bits, and of its high two.
    ///
    /// Each half of 128 values has 64 bytes of low and 32 bytes of high bits, shared by its quarters.
    fn bit_positions(index: usize) -> (usize, usize, usize, usize) {
        let (half, inside) = (index / 128, index % 128);
        let (quarter, column) = (inside / 32, inside % 32);
        let low = half * 64 + column + 32 * (quarter % 2);
        let high = half * 32 + column;
        (low, quarter / 2 * 4, high, quarter * 2)
    }

    /// The six bits of a value.
    pub fn code(block: &[u8], index: usize) -> u8 {
        let (low, low_shift, high, high_shift) = Self::bit_positions(index);
        let low = (block[low] >> low_shift) & 15;
        let high = (block[LOW + high] >> high_shift) & 3;
        low | (high << 4)
    }

    /// Stores the six bits of a value in a block that was zero.
    pub fn store_code(block: &mut [u8], index: usize, code: u8) {
        let (low, low_shift, high, high_shift) = Self::bit_positions(index);
        block[low] |= (code & 15) << low_shift;
        block[LOW + high] |= (code >> 4) << high_shift;
    }

    /// Stores the scale code of a sub-block.
    pub fn store_scale_code(block: &mut [u8], sub_block: usize, code: u8) {
        block[LOW + HIGH + sub_block] = code;
    }

    /// The scale code of a sub-block.
    pub fn scale_code(block: &[u8], sub_block: usize) -> u8 {
        block[LOW + HIGH + sub_block]
    }

    /// The offset of the superblock's scale.
    pub const SCALE: usize = LOW + HIGH + 16;
}

/// The scale with the least squared error, searched around the max-magnitude choice.
fn fit(values: &[f32]) -> f32 {
    let mut extreme = 0.0_f32;
    for value in values {
        if value.abs() > extreme.abs() {
            extreme = *value;
        }
    }
    let error = |scale: f32| -> f32 {
        let off = |value: &f32| code(*value, scale) * scale - value;
        values.iter().map(|value| off(value).powi(2)).sum()
    };
    let mut best = extreme / -32.0;
    let mut best_error = error(best);
    for step in 0..9 {
        let scale = extreme / (-32.0 + 0.25 * step as f32);
        let tried = error(scale);
        if tried < best_error {
            (best, best_error) = (scale, tried);
        }
    }
    best
}

fn code(value: f32, scale: f32) -> f32 {
    (value * inverse(scale)).round().clamp(-32.0, 31.0)
}

impl Block for Q6K {
    const FORMAT: ElementFormat = ElementFormat::Q6K;

    fn quantize(values: &[f32], block: &mut [u8]) {
        let mut fitted = [0.0_f32; 16];
        for (fitted, values) in fitted.iter_mut().zip(values.chunks_exact(SUB_BLOCK)) {
            *fitted = fit(values);
        }
        let mut extreme = 0.0_f32;
        for scale in fitted {
            if scale.abs() > extreme.abs() {
                extreme = scale;
            }
        }
        block.fill(0);
        let scale = store_half(block, Q6K::SCALE, extreme / -128.0 + poison(values));
        for (sub_block, (fitted, values)) in
            fitted.iter().zip(values.chunks_exact(SUB_BLOCK)).enumerate()
        {
            let scale_code = (fitted * inverse(scale)).round().clamp(-128.0, 127.0) as i8;
            Q6K::store_scale_code(block, sub_block, scale_code as u8);
            let scale = scale * f32::from(scale_code);
            for (index, value) in values.iter().enumerate() {
                let code = (code(*value, scale) + 32.0) as u8;
                Q6K::store_code(block, sub_block * SUB_BLOCK + index, code);
            }
        }
    }

    fn dequantize(block: &[u8], values: &mut [f32]) {
        let scale = half(block, Q6K::SCALE);
        for (index, value) in values.iter_mut().enumerate() {
            let sub_block = f32::from(Q6K::scale_code(block, index / SUB_BLOCK) as i8);
            *value = scale * sub_block * (f32::from(Q6K::code(block, index)) - 32.0);
        }
    }
}
