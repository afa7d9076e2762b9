//! Tensor descriptors of a GGUF file, validated against the file.

use std::collections::HashSet;

use super::SMALLEST_TENSOR;
use crate::cursor::Cursor;
use crate::error::{Fault, FormatError, Result, quoted};
use crate::tensor::{Tensor, check_overlaps, sizes};
use assay_operations::ElementFormat;

/// Bytes of the longest name, as the format says.
const LONGEST_NAME: usize = 64;
const MOST_DIMENSIONS: u32 = 4;

/// A descriptor before its byte range is known.
struct Described {
    name: String,
    format: ElementFormat,
    shape: Vec<u64>,
    bytes: u64,
    offset: u64,
}

pub(super) fn read(cursor: &mut Cursor<'_>, count: u64, alignment: u64) -> Result<Vec<Tensor>> {
    // The metadata was read since the count was first checked against the file.
    cursor.check_count("tensor_count", count, SMALLEST_TENSOR)?;
    let mut names = HashSet::new();
    let mut described = Vec::new();
    for index in 0..count {
        let one = describe(cursor, index)?;
        if !names.insert(one.name.clone()) {
            return Err(FormatError::new(
                Fault::Duplicate,
                format_args!("tensor {index} name"),
                "a name that no other tensor has",
                quoted(&one.name),
            ));
        }
        described.push(one);
    }
    let data = (cursor.position() as u64).next_multiple_of(alignment);
    let tensors: Vec<Tensor> = described
        .into_iter()
        .map(|one| locate(one, data, alignment, cursor.total() as u64))
        .collect::<Result<_>>()?;
    check_overlaps(&tensors)?;
    Ok(tensors)
}

fn describe(cursor: &mut Cursor<'_>, index: u64) -> Result<Described> {
    let name = cursor.name(&format!("tensor {index} name"), LONGEST_NAME)?;
    let field = format!("tensor {}", quoted(name));
    let dimensions = cursor.u32(&format!("{field} dimensions"))?;
    if !(1..=MOST_DIMENSIONS).contains(&dimensions) {
        return Err(FormatError::new(
            Fault::Count,
            format_args!("{field} dimensions"),
            format_args!("1 to {MOST_DIMENSIONS}"),
            dimensions,
        ));
    }
    let mut shape = Vec::with_capacity(dimensions as usize);
    for dimension in 0..dimensions {
        let field = format!("{field} extent {dimension}");
        let extent = cursor.u64(&field)?;
        if extent == 0 {
            return Err(FormatError::new(Fault::Shape, field, "1 or more", extent));
        }
        shape.push(extent);
    }
    // The file lists the fastest extent first.
    shape.reverse();
    let code = cursor.u32(&format!("{field} type"))?;
    let format = ElementFormat::from_gguf_code(code).ok_or_else(|| {
        FormatError::new(
            Fault::Type,
            format_args!("{field} type"),
            "the number of a type of ggml",
            code,
        )
    })?;
    let offset = cursor.u64(&format!("{field} offset"))?;
    let bytes = sizes(&field, format, &shape)?;
    Ok(Described { name: name.to_owned(), format, shape, bytes, offset })
}

fn locate(one: Described, data: u64, alignment: u64, total: u64) -> Result<Tensor> {
    let field = format!("tensor {} offset", quoted(&one.name));
    if !one.offset.is_multiple_of(alignment) {
        return Err(FormatError::new(
            Fault::Alignment,
            field,
            format_args!("a multiple of {alignment}"),
            one.offset,
        ));
    }
    let start = data.checked_add(one.offset);
    let end = start.and_then(|start| start.checked_add(one.bytes));
    match (start, end) {
        (Some(start), Some(end)) if end <= total => Ok(Tensor {
            name: one.name,
            format: one.format,
            shape: one.shape,
            // Below the size of a mapping, which fits into the address space.
            range: start as usize..end as usize,
        }),
        _ => Err(FormatError::new(
            Fault::Range,
            field,
            format_args!("{} bytes within the {total} of the file", one.bytes),
            format_args!("offset {} from byte {data}", one.offset),
        )),
    }
}
