//! The samples of one channel in a FLAC frame: a constant, plain, or a prediction and its residuals.

use super::bits::Bits;
use crate::error::{Fault, FormatError, Result};

/// Coefficients of the fixed predictors, the newest sample first.
const FIXED: [&[i64]; 5] = [&[], &[1], &[2, -1], &[3, -3, 1], &[4, -6, 4, -1]];

/// Decodes `size` samples of `depth` bits into `out`.
pub(super) fn decode(
    bits: &mut Bits<'_>,
    size: usize,
    depth: u32,
    out: &mut Vec<i64>,
) -> Result<()> {
    out.clear();
    let wrong = |what: &str, expected: &str, got: u64| {
        FormatError::new(Fault::Type, format_args!("subframe {what}"), expected, got)
    };
    if bits.unsigned(1)? != 0 {
        return Err(wrong("start", "a zero", 1));
    }
    let kind = bits.unsigned(6)?;
    let wasted = if bits.unsigned(1)? == 1 { bits.unary()? + 1 } else { 0 };
    if wasted >= u64::from(depth) {
        return Err(wrong("wasted bits", &format!("fewer than {depth}"), wasted));
    }
    let wasted = wasted as u32;
    let depth = depth - wasted;
    match kind {
        0 => {
            let value = bits.signed(depth)?;
            out.resize(size, value);
        }
        1 => {
            for _ in 0..size {
                out.push(bits.signed(depth)?);
            }
        }
        8..=12 => {
            let coefficients = FIXED[kind as usize - 8];
            warm_up(bits, coefficients.len(), size, depth, out)?;
            residuals(bits, coefficients.len(), size, out)?;
            predict(out, coefficients, 0);
        }
        32.. => {
            let order = kind as usize - 31;
            warm_up(bits, order, size, depth, out)?;
            let precision = bits.unsigned(4)? as u32 + 1;
            if precision == 16 {
                return Err(wrong("precision", "1 to 15 bits", 16));
            }
            let shift = bits.signed(5)?;
            if shift < 0 {
                return Err(wrong("shift", "0 or more", shift.unsigned_abs()));
            }
            let mut coefficients = [0; 32];
            for coefficient in &mut coefficients[..order] {
                *coefficient = bits.signed(precision)?;
            }
            residuals(bits, order, size, out)?;
            predict(out, &coefficients[..order], shift as u32);
        }
        _ => return Err(wrong("type", "a constant, verbatim, fixed or linear one", kind)),
    }
    if wasted > 0 {
        for sample in out {
            *sample <<= wasted;
        }
    }
    Ok(())
}

/// The first samples, which nothing predicts.
fn warm_up(
    bits: &mut Bits<'_>,
    order: usize,
    size: usize,
    depth: u32,
    out: &mut Vec<i64>,
) -> Result<()> {
    if order > size {
        return Err(FormatError::new(
            Fault::Count,
            "subframe order",
            format_args!("at most the {size} samples of the block"),
            order,
        ));
    }
    for _ in 0..order {
        out.push(bits.signed(depth)?);
    }
    Ok(())
}

/// Appends the residuals of a block, in partitions with a Rice parameter each.
fn residuals(bits: &mut Bits<'_>, order: usize, size: usize, out: &mut Vec<i64>) -> Result<()> {
    let method = bits.unsigned(2)?;
    if method > 1 {
        return Err(FormatError::new(Fault::Type, "residual coding", "0 or 1", method));
    }
    let parameter_bits = 4 + method as u32;
    let escape = (1 << parameter_bits) - 1;
    let partitions = 1_usize << bits.unsigned(4)?;
    let length = size / partitions;
    if !size.is_multiple_of(partitions) || length < order {
        return Err(FormatError::new(
            Fault::Count,
            "residual partitions",
            format_args!("a divisor of {size} that leaves {order} samples or more"),
            partitions,
        ));
    }
    for partition in 0..partitions {
        let count = if partition == 0 { length - order } else { length };
        let parameter = bits.unsigned(parameter_bits)?;
        if parameter == escape {
            let depth = bits.unsigned(5)? as u32;
            for _ in 0..count {
                out.push(bits.signed(depth)?);
            }
            continue;
        }
        let parameter = parameter as u32;
        for _ in 0..count {
            let high = bits.unary()?;
            let low = bits.unsigned(parameter)?;
            let folded = high << parameter | low;
            out.push((folded >> 1) as i64 ^ -((folded & 1) as i64));
        }
    }
    Ok(())
}

/// Adds to each residual what the samples before it predict.
fn predict(samples: &mut [i64], coefficients: &[i64], shift: u32) {
    let order = coefficients.len();
    for place in order..samples.len() {
        let (before, rest) = samples.split_at_mut(place);
        let newest_first = before[place - order..].iter().rev();
        // Sums of damaged files may overflow; those of sound ones fit easily.
        let sum = coefficients
            .iter()
            .zip(newest_first)
            .fold(0_i64, |sum, (weight, sample)| sum.wrapping_add(weight.wrapping_mul(*sample)));
        rest[0] = rest[0].wrapping_add(sum >> shift);
    }
}
