//! Memory-mapped files.

use std::fs::File;
use std::io;
use std::path::Path;

use memmap2::Mmap;

use crate::error::{Fault, FormatError, Result};

/// The bytes of a file, mapped for reading.
///
/// A program that changes or truncates the file while it is mapped changes what is read here, or
/// ends this process with a bus error: the operating system offers no protection from that.
/// Weights are therefore written to a new file and renamed into place, never changed.
pub struct Mapping(Source);

enum Source {
    Mapped(Mmap),
    Owned(Vec<u8>),
}

impl Mapping {
    /// Maps a file.
    pub fn open(path: &Path) -> Result<Self> {
        let refused = |error: io::Error| {
            FormatError::new(Fault::Io, "file", "a file that can be read", error).in_file(path)
        };
        let file = File::open(path).map_err(refused)?;
        let facts = file.metadata().map_err(refused)?;
        if !facts.is_file() {
            return Err(refused(io::Error::other("something that is no file")));
        }
        if facts.len() == 0 {
            // An empty file cannot be mapped.
            return Ok(Mapping(Source::Owned(Vec::new())));
        }
        // SAFETY: the mapping is private to this value, read-only, and only handed out as bytes,
        // for which every bit pattern is valid. That the file does not change meanwhile is the
        // documented condition of this type.
        let mapped = unsafe { Mmap::map(&file) }.map_err(refused)?;
        Ok(Mapping(Source::Mapped(mapped)))
    }

    /// Wraps bytes in memory.
    pub fn from_bytes(bytes: Vec<u8>) -> Self {
        Mapping(Source::Owned(bytes))
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        match &self.0 {
            Source::Mapped(mapped) => mapped,
            Source::Owned(bytes) => bytes,
        }
    }
}
