//! What the sources of kernels call the elements of arrays.

use assay_operations::ElementFormat;

/// What a kernel's source calls the elements of a format.
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

/// What a kernel's source calls the type that a format is computed in: numbers of 16 bits are
/// computed in single precision.
pub(super) fn computed_type(format: ElementFormat) -> Option<&'static str> {
    Some(match element_type(format)? {
        "fp16" | "bf16" => "float",
        other => other,
    })
}

/// What a kernel's source calls elements that are moved and not understood.
pub(super) fn moved_type(format: ElementFormat) -> Option<&'static str> {
    Some(match format.element_bytes()? {
        1 => "u8",
        2 => "u16",
        4 => "u32",
        8 => "u64",
        _ => "uint4",
    })
}
