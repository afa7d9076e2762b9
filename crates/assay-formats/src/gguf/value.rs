//! Values of GGUF metadata: numbers, booleans, strings, and arrays of them.

use std::ops::Range;

use crate::cursor::Cursor;
use crate::error::{Fault, FormatError, Result, quoted};

/// The types of scalars and of the elements of arrays.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs)]
pub enum Kind {
    U8,
    I8,
    U16,
    I16,
    U32,
    I32,
    F32,
    Bool,
    Text,
    U64,
    I64,
    F64,
}

const ARRAY_CODE: u32 = 9;

impl Kind {
    fn from_code(code: u32) -> Option<Kind> {
        Some(match code {
            0 => Kind::U8,
            1 => Kind::I8,
            2 => Kind::U16,
            3 => Kind::I16,
            4 => Kind::U32,
            5 => Kind::I32,
            6 => Kind::F32,
            7 => Kind::Bool,
            8 => Kind::Text,
            10 => Kind::U64,
            11 => Kind::I64,
            12 => Kind::F64,
            _ => return None,
        })
    }

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::U8 => "u8",
            Kind::I8 => "i8",
            Kind::U16 => "u16",
            Kind::I16 => "i16",
            Kind::U32 => "u32",
            Kind::I32 => "i32",
            Kind::F32 => "f32",
            Kind::Bool => "bool",
            Kind::Text => "text",
            Kind::U64 => "u64",
            Kind::I64 => "i64",
            Kind::F64 => "f64",
        }
    }

    /// Bytes of one, or the fewest that a text takes.
    pub const fn bytes(self) -> usize {
        match self {
            Kind::U8 | Kind::I8 | Kind::Bool => 1,
            Kind::U16 | Kind::I16 => 2,
            Kind::U32 | Kind::I32 | Kind::F32 => 4,
            Kind::Text | Kind::U64 | Kind::I64 | Kind::F64 => 8,
        }
    }
}

/// A number, boolean or string.
#[derive(Clone, PartialEq, Debug)]
#[allow(missing_docs)]
pub enum Scalar {
    U8(u8),
    I8(i8),
    U16(u16),
    I16(i16),
    U32(u32),
    I32(i32),
    F32(f32),
    Bool(bool),
    Text(String),
    U64(u64),
    I64(i64),
    F64(f64),
}

impl Scalar {
    /// Its type.
    pub const fn kind(&self) -> Kind {
        match self {
            Scalar::U8(_) => Kind::U8,
            Scalar::I8(_) => Kind::I8,
            Scalar::U16(_) => Kind::U16,
            Scalar::I16(_) => Kind::I16,
            Scalar::U32(_) => Kind::U32,
            Scalar::I32(_) => Kind::I32,
            Scalar::F32(_) => Kind::F32,
            Scalar::Bool(_) => Kind::Bool,
            Scalar::Text(_) => Kind::Text,
            Scalar::U64(_) => Kind::U64,
            Scalar::I64(_) => Kind::I64,
            Scalar::F64(_) => Kind::F64,
        }
    }

    /// The number or truth value in these bytes, which are as many as its type takes; no text.
    pub fn from_bytes(kind: Kind, bytes: &[u8]) -> Option<Scalar> {
        fn fixed<const N: usize>(bytes: &[u8]) -> Option<[u8; N]> {
            bytes.try_into().ok()
        }
        Some(match kind {
            Kind::U8 => Scalar::U8(u8::from_le_bytes(fixed(bytes)?)),
            Kind::I8 => Scalar::I8(i8::from_le_bytes(fixed(bytes)?)),
            Kind::U16 => Scalar::U16(u16::from_le_bytes(fixed(bytes)?)),
            Kind::I16 => Scalar::I16(i16::from_le_bytes(fixed(bytes)?)),
            Kind::U32 => Scalar::U32(u32::from_le_bytes(fixed(bytes)?)),
            Kind::I32 => Scalar::I32(i32::from_le_bytes(fixed(bytes)?)),
            Kind::F32 => Scalar::F32(f32::from_le_bytes(fixed(bytes)?)),
            Kind::Bool => match bytes {
                [0] => Scalar::Bool(false),
                [1] => Scalar::Bool(true),
                _ => return None,
            },
            Kind::Text => return None,
            Kind::U64 => Scalar::U64(u64::from_le_bytes(fixed(bytes)?)),
            Kind::I64 => Scalar::I64(i64::from_le_bytes(fixed(bytes)?)),
            Kind::F64 => Scalar::F64(f64::from_le_bytes(fixed(bytes)?)),
        })
    }
}

/// An array that is read lazily.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Array {
    /// The type of its elements.
    pub kind: Kind,
    /// How many there are.
    pub count: usize,
    /// Their bytes in the file.
    pub(super) range: Range<usize>,
}

/// A value of the metadata.
#[derive(Clone, PartialEq, Debug)]
pub enum Value {
    /// A single one.
    Scalar(Scalar),
    /// Many of one type.
    Array(Array),
}

impl Value {
    /// Its type, for messages.
    pub fn type_name(&self) -> String {
        match self {
            Value::Scalar(scalar) => scalar.kind().name().to_owned(),
            Value::Array(array) => format!("an array of {}", array.kind.name()),
        }
    }

    pub(super) fn read(cursor: &mut Cursor<'_>, key: &str) -> Result<Value> {
        let field = quoted(key);
        let code = cursor.u32(&format!("{field} type"))?;
        if code == ARRAY_CODE {
            return read_array(cursor, &field).map(Value::Array);
        }
        let kind = known_kind(&format!("{field} type"), code)?;
        if kind == Kind::Text {
            let text = cursor.text(&field)?;
            return Ok(Value::Scalar(Scalar::Text(text.to_owned())));
        }
        let bytes = cursor.take(&field, kind.bytes() as u64)?;
        Scalar::from_bytes(kind, bytes)
            .map(Value::Scalar)
            .ok_or_else(|| not_a_truth_value(&field, bytes))
    }
}

fn known_kind(field: &str, code: u32) -> Result<Kind> {
    Kind::from_code(code).ok_or_else(|| {
        FormatError::new(Fault::Type, field, "the number of a metadata type, 0 to 12", code)
    })
}

fn not_a_truth_value(field: &str, bytes: &[u8]) -> FormatError {
    FormatError::new(Fault::Type, field, "a truth value, 0 or 1", format_args!("{bytes:?}"))
}

fn read_array(cursor: &mut Cursor<'_>, field: &str) -> Result<Array> {
    let type_field = format!("{field} element type");
    let code = cursor.u32(&type_field)?;
    if code == ARRAY_CODE {
        return Err(FormatError::new(
            Fault::Type,
            type_field,
            "a number, truth value or text",
            "an array inside an array",
        ));
    }
    let kind = known_kind(&type_field, code)?;
    let count_field = format!("{field} count");
    let count = cursor.u64(&count_field)?;
    cursor.check_count(&count_field, count, kind.bytes() as u64)?;
    let start = cursor.position();
    match kind {
        Kind::Text => {
            for index in 0..count {
                // The field's name is only formatted on errors: arrays may have a million elements.
                if let Err(mut error) = cursor.text("") {
                    error.field = format!("{field} element {index}");
                    return Err(error);
                }
            }
        }
        // `check_count` has shown that the product fits.
        _ => {
            let bytes = cursor.take(field, count * kind.bytes() as u64)?;
            if kind == Kind::Bool
                && let Some(at) = bytes.iter().position(|byte| *byte > 1)
            {
                let field = format!("{field} element {at}");
                return Err(not_a_truth_value(&field, &bytes[at..=at]));
            }
        }
    }
    Ok(Array { kind, count: count as usize, range: start..cursor.position() })
}

/// The texts in the bytes of an array that `read_array` has checked.
pub(super) fn texts(bytes: &[u8], kind: Kind) -> impl Iterator<Item = &str> {
    let mut cursor = Cursor::new(if kind == Kind::Text { bytes } else { &[] });
    std::iter::from_fn(move || {
        (cursor.position() < cursor.total()).then(|| cursor.text("").ok()).flatten()
    })
}
