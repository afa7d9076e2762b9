//! Fields of a protobuf message: numbers and ranges of the file, each bound checked.

use std::ops::Range;

use crate::error::{Fault, FormatError, Result};

/// The value of a field.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Wire {
    /// An integer of variable length.
    Varint(u64),
    /// Eight bytes.
    Fixed64([u8; 8]),
    /// A text, a message or packed numbers: where it is in the file.
    Bytes(Range<usize>),
    /// Four bytes.
    Fixed32([u8; 4]),
}

impl Wire {
    const fn name(&self) -> &'static str {
        match self {
            Wire::Varint(_) => "a number",
            Wire::Fixed64(_) => "eight bytes",
            Wire::Bytes(_) => "a range of bytes",
            Wire::Fixed32(_) => "four bytes",
        }
    }
}

/// Reads the fields of a message one after the other; `what` names the message in errors.
pub(super) struct Fields<'a> {
    bytes: &'a [u8],
    at: usize,
    end: usize,
    what: &'static str,
}

impl<'a> Fields<'a> {
    /// The fields in a range of a file, which lies inside it.
    pub fn new(bytes: &'a [u8], range: Range<usize>, what: &'static str) -> Self {
        Fields { bytes, at: range.start, end: range.end, what }
    }

    /// The number of the next field and its value; None at the end.
    pub fn next(&mut self) -> Result<Option<(u64, Wire)>> {
        if self.at == self.end {
            return Ok(None);
        }
        let key = self.varint()?;
        let value = match key & 7 {
            0 => Wire::Varint(self.varint()?),
            1 => Wire::Fixed64(self.array()?),
            2 => {
                let length = self.varint()?;
                Wire::Bytes(self.take(length)?)
            }
            5 => Wire::Fixed32(self.array()?),
            other => return Err(self.wrong_wire_type(other)),
        };
        match key >> 3 {
            0 => Err(self.error(Fault::Type, "field numbers from 1", 0)),
            number => Ok(Some((number, value))),
        }
    }

    /// A number of variable length, or packed numbers of that kind, in their order.
    pub fn varints(&self, value: &Wire, out: &mut Vec<u64>) -> Result<()> {
        match value {
            Wire::Varint(number) => out.push(*number),
            Wire::Bytes(range) => {
                let mut packed = Fields::new(self.bytes, range.clone(), self.what);
                while packed.at < packed.end {
                    out.push(packed.varint()?);
                }
            }
            other => return Err(self.unexpected("numbers", other)),
        }
        Ok(())
    }

    /// Single-precision numbers, packed or one by one.
    pub fn floats(&self, value: &Wire, out: &mut Vec<f32>) -> Result<()> {
        match value {
            Wire::Fixed32(bytes) => out.push(f32::from_le_bytes(*bytes)),
            Wire::Bytes(range) if range.len().is_multiple_of(4) => {
                let (words, _) = self.bytes[range.clone()].as_chunks::<4>();
                out.extend(words.iter().map(|word| f32::from_le_bytes(*word)));
            }
            other => return Err(self.unexpected("single-precision numbers", other)),
        }
        Ok(())
    }

    pub fn number(&self, value: &Wire) -> Result<u64> {
        match value {
            Wire::Varint(number) => Ok(*number),
            other => Err(self.unexpected("a number", other)),
        }
    }

    pub fn range(&self, value: &Wire) -> Result<Range<usize>> {
        match value {
            Wire::Bytes(range) => Ok(range.clone()),
            other => Err(self.unexpected("a range of bytes", other)),
        }
    }

    pub fn text(&self, value: &Wire) -> Result<String> {
        let bytes = &self.bytes[self.range(value)?];
        let text = std::str::from_utf8(bytes).map_err(|error| {
            let got = format_args!("other bytes from its byte {}", error.valid_up_to()).to_string();
            self.error(Fault::Text, "UTF-8", got)
        })?;
        Ok(text.to_owned())
    }

    fn varint(&mut self) -> Result<u64> {
        let mut number = 0_u64;
        for place in 0..10 {
            let Some(byte) = self.bytes[..self.end].get(self.at) else {
                return Err(self.truncated(1));
            };
            self.at += 1;
            let bits = u64::from(byte & 0x7f);
            // Ten groups of seven bits are more than 64: what does not fit must be zero.
            if place == 9 && bits > 1 {
                break;
            }
            number |= bits << (7 * place);
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(self.error(Fault::Count, "a number below 2^64", "a longer one"))
    }

    fn take(&mut self, count: u64) -> Result<Range<usize>> {
        if count > (self.end - self.at) as u64 {
            return Err(self.truncated(count));
        }
        let start = self.at;
        self.at += count as usize;
        Ok(start..self.at)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let range = self.take(N as u64)?;
        let mut out = [0; N];
        out.copy_from_slice(&self.bytes[range]);
        Ok(out)
    }

    fn truncated(&self, count: u64) -> FormatError {
        let left = self.end - self.at;
        let expected = format!("{count} bytes at byte {}", self.at);
        self.error(Fault::Truncated, expected, format_args!("{left} before the end of it"))
    }

    fn wrong_wire_type(&self, got: u64) -> FormatError {
        self.error(Fault::Type, "a protobuf field of type 0, 1, 2 or 5", format_args!("type {got}"))
    }

    fn unexpected(&self, expected: &str, got: &Wire) -> FormatError {
        self.error(Fault::Type, expected, got.name())
    }

    fn error(
        &self,
        fault: Fault,
        expected: impl std::fmt::Display,
        got: impl std::fmt::Display,
    ) -> FormatError {
        FormatError::new(
            fault,
            format_args!("{} before byte {}", self.what, self.at),
            expected,
            got,
        )
    }
}
