//! Safetensors: the length of a JSON header, the header, then the bytes of the tensors.
//!
//! The format is that of the safetensors README. Its crate accepts a repeated name and does not
//! name the invalid field, so the header is parsed here; tests compare both readers.

mod header;

use std::path::Path;
use std::sync::Arc;

use crate::error::{Fault, FormatError, Result, quoted};
use crate::mapping::Mapping;
use crate::tensor::{Tensor, check_overlaps, sizes};

/// Bytes of the largest header, as in the safetensors crate.
const LARGEST_HEADER: u64 = 100_000_000;
const LENGTH_BYTES: usize = 8;

/// A safetensors file with a validated header.
pub struct SafeTensors {
    mapping: Arc<Mapping>,
    metadata: Vec<(String, String)>,
    tensors: Vec<Tensor>,
}

impl SafeTensors {
    /// Maps a file and validates its header.
    pub fn open(path: &Path) -> Result<Self> {
        SafeTensors::from_mapping(Mapping::open(path)?).map_err(|error| error.in_file(path))
    }

    /// Validates the header of bytes in memory.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Self> {
        SafeTensors::from_mapping(Mapping::from_bytes(bytes))
    }

    fn from_mapping(mapping: Mapping) -> Result<Self> {
        let bytes = mapping.bytes();
        let text = header_text(bytes)?;
        let data = LENGTH_BYTES + text.len();
        let header = header::parse(text)?;
        let mut tensors = Vec::new();
        for described in header.tensors {
            tensors.push(locate(described, data, bytes.len())?);
        }
        check_overlaps(&tensors)?;
        check_holes(&tensors, data, bytes.len())?;
        Ok(SafeTensors { mapping: Arc::new(mapping), metadata: header.metadata, tensors })
    }

    /// The strings of `__metadata__`, in file order.
    pub fn metadata(&self) -> &[(String, String)] {
        &self.metadata
    }

    /// The tensors in the order of the header.
    pub fn tensors(&self) -> &[Tensor] {
        &self.tensors
    }

    /// The file's mapping, which may outlive this value.
    pub fn mapping(&self) -> &Arc<Mapping> {
        &self.mapping
    }
}

fn header_text(bytes: &[u8]) -> Result<&str> {
    let Some((length, rest)) = bytes.split_first_chunk::<LENGTH_BYTES>() else {
        return Err(FormatError::new(
            Fault::Truncated,
            "header length",
            format_args!("{LENGTH_BYTES} bytes"),
            format_args!("a file of {}", bytes.len()),
        ));
    };
    let length = u64::from_le_bytes(*length);
    if length > LARGEST_HEADER {
        return Err(FormatError::new(
            Fault::Count,
            "header length",
            format_args!("at most {LARGEST_HEADER} bytes"),
            length,
        ));
    }
    let Some(header) = rest.get(..length as usize) else {
        return Err(FormatError::new(
            Fault::Truncated,
            "header",
            format_args!("{length} bytes"),
            format_args!("{} before the end of the file", rest.len()),
        ));
    };
    std::str::from_utf8(header).map_err(|error| {
        FormatError::new(
            Fault::Text,
            "header",
            "UTF-8",
            format_args!("other bytes from its byte {}", error.valid_up_to()),
        )
    })
}

fn locate(described: header::Described, data: usize, total: usize) -> Result<Tensor> {
    let field = format!("tensor {}", quoted(&described.name));
    let bytes = sizes(&field, described.format, &described.shape)?;
    let [start, end] = described.offsets;
    let offsets = format!("{field} data_offsets");
    let room = (total - data) as u64;
    if start > end || end > room {
        return Err(FormatError::new(
            Fault::Range,
            offsets,
            format_args!("a range within the {room} bytes after the header"),
            format_args!("{start} to {end}"),
        ));
    }
    if end - start != bytes {
        return Err(FormatError::new(
            Fault::Range,
            offsets,
            format_args!("{bytes} bytes for {:?} of {}", described.shape, described.format),
            format_args!("{} bytes", end - start),
        ));
    }
    Ok(Tensor {
        name: described.name,
        format: described.format,
        shape: described.shape,
        range: data + start as usize..data + end as usize,
    })
}

/// Refuses bytes that belong to no tensor, which could hide data.
fn check_holes(tensors: &[Tensor], data: usize, total: usize) -> Result<()> {
    let mut order: Vec<&Tensor> = tensors.iter().collect();
    order.sort_by_key(|tensor| (tensor.range.start, tensor.range.end));
    let mut reached = data;
    for tensor in order {
        if tensor.range.start > reached {
            return Err(FormatError::new(
                Fault::Hole,
                format_args!("tensor {} data_offsets", quoted(&tensor.name)),
                format_args!("a start at {}, where the last tensor ends", reached - data),
                tensor.range.start - data,
            ));
        }
        reached = tensor.range.end.max(reached);
    }
    if reached == total {
        return Ok(());
    }
    Err(FormatError::new(
        Fault::Hole,
        "data",
        format_args!("{} bytes, as the tensors take", reached - data),
        total - data,
    ))
}
