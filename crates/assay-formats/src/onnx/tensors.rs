//! Tensors of an ONNX file: initializers and the values of attributes.

use std::ops::Range;
use std::sync::Arc;

use assay_operations::ElementFormat;

use super::wire::{Fields, Wire};
use crate::error::{Fault, FormatError, Result, quoted};
use crate::mapping::Mapping;
use crate::tensor::{Tensor, sizes};

/// A tensor, and the bytes that its range is of: the file's, or decoded ones.
#[derive(Clone)]
pub struct OnnxTensor {
    /// The file, or numbers that it stores with variable length.
    pub mapping: Arc<Mapping>,
    /// Its description; the range is one of `mapping`.
    pub tensor: Tensor,
}

/// Where a tensor keeps its numbers.
enum Values {
    None,
    Raw(Range<usize>),
    Floats(Vec<f32>),
    Integers(Vec<u64>),
    Doubles(Range<usize>),
}

/// The name of a type that tensors may have, and its format here, where it has one.
fn element_format(code: u64) -> (&'static str, Option<ElementFormat>) {
    // `TensorProto.DataType` of onnx.proto.
    match code {
        1 => ("float", Some(ElementFormat::F32)),
        2 => ("uint8", Some(ElementFormat::U8)),
        3 => ("int8", Some(ElementFormat::I8)),
        4 => ("uint16", Some(ElementFormat::U16)),
        5 => ("int16", Some(ElementFormat::I16)),
        6 => ("int32", Some(ElementFormat::I32)),
        7 => ("int64", Some(ElementFormat::I64)),
        8 => ("string", None),
        9 => ("bool", Some(ElementFormat::Bool)),
        10 => ("float16", Some(ElementFormat::F16)),
        11 => ("double", Some(ElementFormat::F64)),
        12 => ("uint32", Some(ElementFormat::U32)),
        13 => ("uint64", Some(ElementFormat::U64)),
        16 => ("bfloat16", Some(ElementFormat::Bf16)),
        _ => ("a type of another number", None),
    }
}

/// Reads a `TensorProto`.
pub(super) fn read(mapping: &Arc<Mapping>, range: Range<usize>) -> Result<OnnxTensor> {
    let mut fields = Fields::new(mapping.bytes(), range, "tensor");
    let mut name = String::new();
    let mut extents = Vec::new();
    let mut code = 0;
    let mut values = Values::None;
    while let Some((number, value)) = fields.next()? {
        match number {
            1 => fields.varints(&value, &mut extents)?,
            2 => code = fields.number(&value)?,
            4 => {
                let mut numbers = match values {
                    Values::Floats(numbers) => numbers,
                    _ => Vec::new(),
                };
                fields.floats(&value, &mut numbers)?;
                values = Values::Floats(numbers);
            }
            // int32_data, int64_data and uint64_data are all of variable length.
            5 | 7 | 11 => {
                let mut numbers = match values {
                    Values::Integers(numbers) => numbers,
                    _ => Vec::new(),
                };
                fields.varints(&value, &mut numbers)?;
                values = Values::Integers(numbers);
            }
            8 => name = fields.text(&value)?,
            9 => values = Values::Raw(fields.range(&value)?),
            10 if matches!(value, Wire::Bytes(_)) => {
                values = Values::Doubles(fields.range(&value)?)
            }
            13 | 14 if value != Wire::Varint(0) => {
                return Err(FormatError::new(
                    Fault::Type,
                    format_args!("tensor {} data_location", quoted(&name)),
                    "numbers inside the file",
                    "a file of external data",
                ));
            }
            _ => {}
        }
    }
    assemble(mapping, name, &extents, code, values)
}

fn assemble(
    mapping: &Arc<Mapping>,
    name: String,
    extents: &[u64],
    code: u64,
    values: Values,
) -> Result<OnnxTensor> {
    let field = format!("tensor {}", quoted(&name));
    let (type_name, Some(format)) = element_format(code) else {
        return Err(FormatError::new(
            Fault::Type,
            format_args!("{field} data_type"),
            "a type of numbers or truth values of at least 8 bits",
            format_args!("{} ({code})", element_format(code).0),
        ));
    };
    let nbytes = sizes(&field, format, extents)?;
    let (mapping, range) = match values {
        Values::None => (Arc::clone(mapping), 0..0),
        Values::Raw(range) => (Arc::clone(mapping), range),
        Values::Doubles(range) if format == ElementFormat::F64 => (Arc::clone(mapping), range),
        Values::Floats(numbers) if format == ElementFormat::F32 => {
            owned(numbers.iter().flat_map(|number| number.to_le_bytes()).collect())
        }
        Values::Integers(numbers) if !is_floating(format) => {
            owned(little_endian(&numbers, format.block_bytes() as usize))
        }
        // Half-precision numbers are stored by their bits.
        Values::Integers(numbers) if format.block_bytes() == 2 => owned(little_endian(&numbers, 2)),
        _ => {
            return Err(FormatError::new(
                Fault::Type,
                field,
                format_args!("the field that holds numbers of type {type_name}"),
                "a field of another type",
            ));
        }
    };
    if nbytes != range.len() as u64 {
        return Err(FormatError::new(
            Fault::Range,
            field,
            format_args!("{nbytes} bytes for {extents:?} of {format}"),
            format_args!("{} bytes", range.len()),
        ));
    }
    let tensor = Tensor { name, format, shape: extents.to_vec(), range };
    Ok(OnnxTensor { mapping, tensor })
}

const fn is_floating(format: ElementFormat) -> bool {
    matches!(
        format,
        ElementFormat::F32 | ElementFormat::F64 | ElementFormat::F16 | ElementFormat::Bf16
    )
}

/// The low `width` bytes of each number.
fn little_endian(numbers: &[u64], width: usize) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes().into_iter().take(width)).collect()
}

fn owned(bytes: Vec<u8>) -> (Arc<Mapping>, Range<usize>) {
    let range = 0..bytes.len();
    (Arc::new(Mapping::from_bytes(bytes)), range)
}
