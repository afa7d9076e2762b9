//! GGUF, versions 2 and 3: metadata, then descriptions of tensors, then their bytes.
//!
//! The layout is that of `docs/gguf.md` in ggml. Limits the document leaves open are llama.cpp's:
//! at most four dimensions, no arrays inside arrays.

mod tensors;
mod value;

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

pub use value::{Array, Kind, Scalar, Value};

use crate::cursor::Cursor;
use crate::error::{Fault, FormatError, Result, quoted};
use crate::mapping::Mapping;
use crate::tensor::Tensor;

const MAGIC: [u8; 4] = *b"GGUF";
const ALIGNMENT_KEY: &str = "general.alignment";
const DEFAULT_ALIGNMENT: u64 = 32;
/// Bytes of the longest key, as the format says.
const LONGEST_KEY: usize = 65_535;
/// Key length, type and a value of one byte.
const SMALLEST_ENTRY: u64 = 8 + 4 + 1;
/// Name length, number of dimensions, type and offset.
const SMALLEST_TENSOR: u64 = 8 + 4 + 4 + 8;

/// A GGUF file with a validated header.
pub struct Gguf {
    mapping: Arc<Mapping>,
    version: u32,
    alignment: u64,
    metadata: Vec<(String, Value)>,
    by_key: HashMap<String, usize>,
    tensors: Vec<Tensor>,
}

impl Gguf {
    /// Maps a file and validates its header.
    pub fn open(path: &Path) -> Result<Self> {
        Gguf::from_mapping(Mapping::open(path)?).map_err(|error| error.in_file(path))
    }

    /// Validates the header of bytes in memory.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Self> {
        Gguf::from_mapping(Mapping::from_bytes(bytes))
    }

    fn from_mapping(mapping: Mapping) -> Result<Self> {
        let mut cursor = Cursor::new(mapping.bytes());
        let version = read_version(&mut cursor)?;
        let tensor_count = cursor.u64("tensor_count")?;
        cursor.check_count("tensor_count", tensor_count, SMALLEST_TENSOR)?;
        let entry_count = cursor.u64("metadata_kv_count")?;
        cursor.check_count("metadata_kv_count", entry_count, SMALLEST_ENTRY)?;

        let mut metadata = Vec::new();
        let mut by_key = HashMap::new();
        for index in 0..entry_count {
            let key = cursor.name(&format!("metadata key {index}"), LONGEST_KEY)?;
            let value = Value::read(&mut cursor, key)?;
            if by_key.insert(key.to_owned(), metadata.len()).is_some() {
                return Err(FormatError::new(
                    Fault::Duplicate,
                    format_args!("metadata key {index}"),
                    "a key that no other entry has",
                    quoted(key),
                ));
            }
            metadata.push((key.to_owned(), value));
        }
        let alignment = alignment(by_key.get(ALIGNMENT_KEY).map(|at| &metadata[*at].1))?;
        let tensors = tensors::read(&mut cursor, tensor_count, alignment)?;
        Ok(Gguf { mapping: Arc::new(mapping), version, alignment, metadata, by_key, tensors })
    }

    /// The version of the format.
    pub fn version(&self) -> u32 {
        self.version
    }

    /// Offsets of tensors are multiples of this.
    pub fn alignment(&self) -> u64 {
        self.alignment
    }

    /// Keys and values in the order of the file.
    pub fn metadata(&self) -> &[(String, Value)] {
        &self.metadata
    }

    /// The value of a key.
    pub fn value(&self, key: &str) -> Option<&Value> {
        self.by_key.get(key).map(|at| &self.metadata[*at].1)
    }

    /// The elements of an array of this file.
    pub fn array_bytes(&self, array: &Array) -> &[u8] {
        &self.mapping.bytes()[array.range.clone()]
    }

    /// The texts of an array of strings of this file; empty for any other.
    pub fn texts<'a>(&'a self, array: &Array) -> impl Iterator<Item = &'a str> + use<'a> {
        value::texts(&self.mapping.bytes()[array.range.clone()], array.kind)
    }

    /// The tensors in the order of the file.
    pub fn tensors(&self) -> &[Tensor] {
        &self.tensors
    }

    /// The file's mapping, which may outlive this value.
    pub fn mapping(&self) -> &Arc<Mapping> {
        &self.mapping
    }
}

fn read_version(cursor: &mut Cursor<'_>) -> Result<u32> {
    let magic = cursor.take("magic", 4)?;
    if magic != MAGIC {
        return Err(FormatError::new(
            Fault::Magic,
            "magic",
            "\"GGUF\", the first bytes of a GGUF file",
            format_args!("\"{}\"", magic.escape_ascii()),
        ));
    }
    let version = cursor.u32("version")?;
    if version != 2 && version != 3 {
        let got = match version.swap_bytes() {
            swapped @ (2 | 3) => format!("version {swapped} in big-endian order"),
            _ => version.to_string(),
        };
        return Err(FormatError::new(Fault::Version, "version", "2 or 3", got));
    }
    Ok(version)
}

fn alignment(value: Option<&Value>) -> Result<u64> {
    let Some(value) = value else {
        return Ok(DEFAULT_ALIGNMENT);
    };
    let Value::Scalar(Scalar::U32(bytes)) = value else {
        return Err(FormatError::new(
            Fault::Type,
            ALIGNMENT_KEY,
            "a value of type u32",
            value.type_name(),
        ));
    };
    if *bytes < 8 || !bytes.is_power_of_two() {
        return Err(FormatError::new(
            Fault::Alignment,
            ALIGNMENT_KEY,
            "a power of two from 8",
            bytes,
        ));
    }
    Ok(u64::from(*bytes))
}
