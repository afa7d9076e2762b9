//! A bounds-checked cursor over a file.

use crate::error::{Fault, FormatError, Result};

/// Bytes and the read position.
pub(crate) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Cursor { bytes, at: 0 }
    }

    /// How many bytes have been read.
    pub fn position(&self) -> usize {
        self.at
    }

    /// Bytes of the whole file.
    pub fn total(&self) -> usize {
        self.bytes.len()
    }

    fn left(&self) -> u64 {
        self.remaining() as u64
    }

    /// The next `count` bytes, or an error past the end.
    pub fn take(&mut self, field: &str, count: u64) -> Result<&'a [u8]> {
        let left = self.left();
        if count > left {
            return Err(FormatError::new(
                Fault::Truncated,
                field,
                format_args!("{count} bytes at byte {}", self.at),
                format_args!("{left} before the end of the file"),
            ));
        }
        let start = self.at;
        self.at += count as usize;
        Ok(&self.bytes[start..self.at])
    }

    fn array<const N: usize>(&mut self, field: &str) -> Result<[u8; N]> {
        let mut out = [0; N];
        out.copy_from_slice(self.take(field, N as u64)?);
        Ok(out)
    }

    /// How many bytes follow.
    pub fn remaining(&self) -> usize {
        self.bytes.len() - self.at
    }

    pub fn u8(&mut self, field: &str) -> Result<u8> {
        self.array::<1>(field).map(|byte| byte[0])
    }

    pub fn u16(&mut self, field: &str) -> Result<u16> {
        self.array(field).map(u16::from_le_bytes)
    }

    pub fn u32(&mut self, field: &str) -> Result<u32> {
        self.array(field).map(u32::from_le_bytes)
    }

    pub fn u64(&mut self, field: &str) -> Result<u64> {
        self.array(field).map(u64::from_le_bytes)
    }

    /// Refuses a count of items that cannot fit into the rest of the file.
    pub fn check_count(&self, field: &str, count: u64, smallest: u64) -> Result<()> {
        let most = self.left() / smallest;
        if count <= most {
            return Ok(());
        }
        Err(FormatError::new(
            Fault::Count,
            field,
            format_args!("at most {most} in the bytes that are left"),
            count,
        ))
    }

    /// A length-prefixed UTF-8 string.
    pub fn text(&mut self, field: &str) -> Result<&'a str> {
        let length = self.u64(field)?;
        self.text_of(field, length)
    }

    /// A UTF-8 string of so many bytes.
    pub fn text_of(&mut self, field: &str, length: u64) -> Result<&'a str> {
        let bytes = self.take(field, length)?;
        std::str::from_utf8(bytes).map_err(|error| {
            FormatError::new(
                Fault::Text,
                field,
                "UTF-8",
                format_args!("other bytes from its byte {}", error.valid_up_to()),
            )
        })
    }

    /// A name: not empty and not too long.
    pub fn name(&mut self, field: &str, longest: usize) -> Result<&'a str> {
        let text = self.text(field)?;
        if text.is_empty() || text.len() > longest {
            return Err(FormatError::new(
                Fault::Text,
                field,
                format_args!("1 to {longest} bytes"),
                format_args!("{} bytes", text.len()),
            ));
        }
        Ok(text)
    }
}
