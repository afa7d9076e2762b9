//! The legacy quants of ggml, blocks of 32 with one scale: Q8_0, Q4_0 and Q4_1.

use super::block::{Block, half, inverse, poison, store_half};
use assay_operations::ElementFormat;

pub(crate) struct Q8_0;

impl Block for Q8_0 {
    const FORMAT: ElementFormat = ElementFormat::Q8_0;

    fn quantize(values: &[f32], block: &mut [u8]) {
        let largest = values.iter().fold(0.0_f32, |most, value| most.max(value.abs()));
        let scale = largest / 127.0;
        store_half(block, 0, scale + poison(values));
        let factor = inverse(scale);
        for (code, value) in block[2..].iter_mut().zip(values) {
            *code = (value * factor).round() as i8 as u8;
        }
    }

    fn dequantize(block: &[u8], values: &mut [f32]) {
        let scale = half(block, 0);
        for (value, code) in values.iter_mut().zip(&block[2..]) {
            *value = f32::from(*code as i8) * scale;
        }
    }
}

pub(crate) struct Q4_0;

impl Block for Q4_0 {
    const FORMAT: ElementFormat = ElementFormat::Q4_0;

    fn quantize(values: &[f32], block: &mut [u8]) {
        // The value of largest magnitude becomes -8: the range of 4 bits is -8 to 7.
        let mut extreme = 0.0_f32;
        for value in values {
            if value.abs() > extreme.abs() {
                extreme = *value;
            }
        }
        let scale = extreme / -8.0;
        store_half(block, 0, scale + poison(values));
        let factor = inverse(scale);
        store_nibbles(&mut block[2..], |index| values[index] * factor + 8.5);
    }

    fn dequantize(block: &[u8], values: &mut [f32]) {
        let scale = half(block, 0);
        each_nibble(&block[2..], |index, code| {
            values[index] = (f32::from(code) - 8.0) * scale;
        });
    }
}

pub(crate) struct Q4_1;

impl Block for Q4_1 {
    const FORMAT: ElementFormat = ElementFormat::Q4_1;

    fn quantize(values: &[f32], block: &mut [u8]) {
        let minimum = values.iter().fold(f32::INFINITY, |a, b| a.min(*b));
        let most = values.iter().fold(f32::NEG_INFINITY, |a, b| a.max(*b));
        let scale = (most - minimum) / 15.0;
        store_half(block, 0, scale + poison(values));
        store_half(block, 2, minimum);
        let factor = inverse(scale);
        store_nibbles(&mut block[4..], |index| (values[index] - minimum) * factor + 0.5);
    }

    fn dequantize(block: &[u8], values: &mut [f32]) {
        let (scale, minimum) = (half(block, 0), half(block, 2));
        each_nibble(&block[4..], |index, code| {
            values[index] = f32::from(code) * scale + minimum;
        });
    }
}

/// Sixteen bytes: value i in the low nibble of byte i, value i + 16 in the high nibble.
fn store_nibbles(bytes: &mut [u8], code: impl Fn(usize) -> f32) {
    for (index, byte) in bytes.iter_mut().enumerate() {
        // The cast truncates and saturates to 0..=255.
        let (low, high) = (code(index) as u8, code(index + 16) as u8);
        *byte = low.min(15) | (high.min(15) << 4);
    }
}

pub(super) fn each_nibble(bytes: &[u8], mut take: impl FnMut(usize, u8)) {
    for (index, byte) in bytes.iter().enumerate() {
        take(index, byte & 15);
        take(index + 16, byte >> 4);
    }
}
