//! Bits of a byte string, the highest of each byte first.

use crate::error::{Fault, FormatError, Result};

/// Bytes and the position of the next bit.
pub(super) struct Bits<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// The most bits that one call reads: a word less the bits of a partly read byte.
const MOST: u32 = 57;

impl<'a> Bits<'a> {
    pub(super) fn new(bytes: &'a [u8], byte: usize) -> Self {
        Bits { bytes, at: byte * 8 }
    }

    /// The byte of the next bit.
    pub(super) fn byte(&self) -> usize {
        self.at / 8
    }

    /// Goes on to the next whole byte.
    pub(super) fn align(&mut self) {
        self.at = self.at.next_multiple_of(8);
    }

    /// The next 57 bits or more at the top of a word, zeros behind the end.
    fn word(&self) -> u64 {
        let byte = self.at / 8;
        let word = match self.bytes.get(byte..byte + 8) {
            Some(bytes) => bytes.iter().fold(0, |word, byte| word << 8 | u64::from(*byte)),
            None => {
                let rest = self.bytes.get(byte..).unwrap_or_default();
                (0..8).fold(0, |word, place| {
                    word << 8 | u64::from(rest.get(place).copied().unwrap_or(0))
                })
            }
        };
        word << (self.at % 8)
    }

    fn advance(&mut self, count: usize) -> Result<()> {
        if self.at + count > self.bytes.len() * 8 {
            return Err(FormatError::new(
                Fault::Truncated,
                "frame",
                format_args!("{count} bits at byte {}", self.byte()),
                "the end of the file",
            ));
        }
        self.at += count;
        Ok(())
    }

    /// An unsigned number of at most 57 bits.
    pub(super) fn unsigned(&mut self, count: u32) -> Result<u64> {
        debug_assert!(count <= MOST);
        if count == 0 {
            return Ok(0);
        }
        let word = self.word();
        self.advance(count as usize)?;
        Ok(word >> (64 - count))
    }

    /// A number in two's complement of at most 57 bits.
    pub(super) fn signed(&mut self, count: u32) -> Result<i64> {
        if count == 0 {
            return Ok(0);
        }
        let number = self.unsigned(count)?;
        Ok((number << (64 - count)) as i64 >> (64 - count))
    }

    /// The zeros before the next one, which is read too.
    pub(super) fn unary(&mut self) -> Result<u64> {
        let mut zeros = 0;
        loop {
            let word = self.word();
            let here = word.leading_zeros().min(MOST);
            if here < MOST {
                self.advance(here as usize + 1)?;
                return Ok(zeros + u64::from(here));
            }
            self.advance(MOST as usize)?;
            zeros += u64::from(MOST);
        }
    }
}
