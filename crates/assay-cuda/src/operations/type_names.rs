//! The names of element types in the kernels' sources.

use assay_operations::ElementFormat;

/// The storage type of a format.
pub(super) fn element_type(format: ElementFormat) -> Option<&'static str> {
    Some(match format {
        ElementFormat::F32 => "float",
        ElementFormat::F16 => "fp16",
        ElementFormat::Bf16 => "bf16",
        ElementFormat::I32 => "int",
        ElementFormat::I64 => "i64",
        ElementFormat::U8 => "u8",
        ElementFormat::F64 => "double",
        ElementFormat::Bool => "bool",
        ElementFormat::I8 => "i8",
        ElementFormat::I16 => "i16",
        ElementFormat::U16 => "u16",
        ElementFormat::U32 => "u32",
        ElementFormat::U64 => "u64",
        _ => return None,
    })
}

/// The type that a format is computed in: single precision for 16-bit floats.
pub(super) fn compute_type(format: ElementFormat) -> Option<&'static str> {
    Some(match element_type(format)? {
        "fp16" | "bf16" => "float",
        other => other,
    })
}

/// An unsigned type of the same size, for kernels that only move elements.
pub(super) fn opaque_type(format: ElementFormat) -> Option<&'static str> {
    Some(match format.element_bytes()? {
        1 => "u8",
        2 => "u16",
        4 => "u32",
        8 => "u64",
        _ => "uint4",
    })
}
