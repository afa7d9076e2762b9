//! Parquet's encodings of numbers.
//!
//! See <https://parquet.apache.org/docs/file-format/data-pages/encodings/>.

use super::thrift::{varint, zigzag};

/// Deltas of a block, and of a miniblock, of `DELTA_BINARY_PACKED`.
const BLOCK: usize = 128;
const MINIBLOCK: usize = 32;

/// Bits of a number.
pub(crate) fn width(largest: u64) -> u32 {
    u64::BITS - largest.leading_zeros()
}

/// Appends numbers of `width` bits, the lowest bit first, up to a whole byte.
fn pack(values: impl Iterator<Item = u64>, width: u32, out: &mut Vec<u8>) {
    let (mut held, mut bits) = (0_u128, 0);
    for value in values {
        held |= u128::from(value) << bits;
        bits += width;
        while bits >= 8 {
            out.push(held as u8);
            held >>= 8;
            bits -= 8;
        }
    }
    if bits > 0 {
        out.push(held as u8);
    }
}

/// Runs of one value, and eights of packed ones between them: Parquet's hybrid of RLE and packing.
pub(crate) fn hybrid(values: &[u32], width: u32, out: &mut Vec<u8>) {
    let packed = |values: &[u32], out: &mut Vec<u8>| {
        if !values.is_empty() {
            let eights = values.len().div_ceil(8);
            varint((eights as u64) << 1 | 1, out);
            let padded = values.iter().map(|&value| value.into());
            pack(
                padded.chain(std::iter::repeat(0)).take(8 * eights),
                width,
                out,
            );
        }
    };
    let (mut begin, mut at) = (0, 0);
    while at < values.len() {
        let rest = &values[at..];
        let run = rest.iter().take_while(|&&value| value == rest[0]).count();
        // What is packed before a run has to be whole eights.
        let filling = (begin..at).len().next_multiple_of(8) - (at - begin);
        if run >= filling + 8 {
            packed(&values[begin..at + filling], out);
            varint(((run - filling) as u64) << 1, out);
            out.extend_from_slice(&rest[0].to_le_bytes()[..width.div_ceil(8) as usize]);
            begin = at + run;
        }
        at += run;
    }
    packed(&values[begin..], out);
}

/// Differences between neighbors, packed in the bits that a few dozen of them need.
pub(crate) fn deltas(values: &[i64], out: &mut Vec<u8>) {
    varint(BLOCK as u64, out);
    varint((BLOCK / MINIBLOCK) as u64, out);
    varint(values.len() as u64, out);
    varint(zigzag(values.first().copied().unwrap_or(0)), out);
    let deltas: Vec<i64> = values
        .windows(2)
        .map(|pair| pair[1].wrapping_sub(pair[0]))
        .collect();
    for block in deltas.chunks(BLOCK) {
        let least = block.iter().copied().min().unwrap_or(0);
        varint(zigzag(least), out);
        let above = |&delta: &i64| delta.wrapping_sub(least).cast_unsigned();
        let mut widths = [0; BLOCK / MINIBLOCK];
        for (bits, part) in widths.iter_mut().zip(block.chunks(MINIBLOCK)) {
            *bits = width(part.iter().map(above).max().unwrap_or(0));
            out.push(*bits as u8);
        }
        out.resize(out.len() + widths.len() - block.chunks(MINIBLOCK).len(), 0);
        for (bits, part) in widths.into_iter().zip(block.chunks(MINIBLOCK)) {
            let padded = part.iter().map(above).chain(std::iter::repeat(0));
            pack(padded.take(MINIBLOCK), bits, out);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the format's documentation: 0 to 7 in three bits.
    #[test]
    fn numbers_are_packed_as_documented() {
        let mut out = Vec::new();
        pack(0..8, 3, &mut out);
        assert_eq!(out, [0b1000_1000, 0b1100_0110, 0b1111_1010]);
    }

    #[test]
    fn long_runs_are_counted_and_the_rest_is_packed() {
        let mut out = Vec::new();
        // Three ones fill the first eight; twenty are a run.
        let values = [[0, 1, 0, 1, 0].as_slice(), &[1; 23], &[0, 1]].concat();
        hybrid(&values, 1, &mut out);
        assert_eq!(out, [3, 0b1110_1010, 40, 1, 3, 0b10]);
    }

    /// The second example of the format's documentation: 7, 5, 3, 1, 2, 3, 4, 5.
    #[test]
    fn deltas_are_as_documented() {
        let mut out = Vec::new();
        deltas(&[7, 5, 3, 1, 2, 3, 4, 5], &mut out);
        // Deltas -2 -2 -2 1 1 1 1 are, above the least, 0 0 0 3 3 3 3 in two bits.
        let packed = [0b1100_0000, 0b0011_1111, 0, 0, 0, 0, 0, 0];
        assert_eq!(out[..9], [0x80, 1, 4, 8, 14, 3, 2, 0, 0]);
        assert_eq!(out[9..], [[0].as_slice(), &packed].concat());
    }
}
