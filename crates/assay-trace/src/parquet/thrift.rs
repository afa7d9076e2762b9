//! Thrift's compact protocol, as far as Parquet's metadata need it.

/// Types of fields and elements.
#[derive(Clone, Copy)]
pub(crate) enum Type {
    I32 = 5,
    I64 = 6,
    Binary = 8,
    List = 9,
    Struct = 12,
}

/// A struct that is being written.
#[derive(Default)]
pub(crate) struct Thrift {
    pub(crate) bytes: Vec<u8>,
    /// The number of the last field.
    last: i16,
}

/// An unsigned number, seven bits a byte, the lowest first.
pub(crate) fn varint(mut value: u64, out: &mut Vec<u8>) {
    while value > 0x7f {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// A signed number as an unsigned one that is small where it is near zero.
pub(crate) fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)).cast_unsigned()
}

impl Thrift {
    fn field(&mut self, number: i16, kind: Type) {
        match number - self.last {
            step @ 1..=15 => self.bytes.push((step as u8) << 4 | kind as u8),
            _ => {
                self.bytes.push(kind as u8);
                varint(zigzag(number.into()), &mut self.bytes);
            }
        }
        self.last = number;
    }

    /// A field of 32 bits.
    pub(crate) fn i32(&mut self, number: i16, value: i32) {
        self.field(number, Type::I32);
        varint(zigzag(value.into()), &mut self.bytes);
    }

    /// A field of 64 bits.
    pub(crate) fn i64(&mut self, number: i16, value: i64) {
        self.field(number, Type::I64);
        varint(zigzag(value), &mut self.bytes);
    }

    /// A field of bytes or text.
    pub(crate) fn binary(&mut self, number: i16, value: &[u8]) {
        self.field(number, Type::Binary);
        self.text(value);
    }

    /// An element of bytes or text.
    pub(crate) fn text(&mut self, value: &[u8]) {
        varint(value.len() as u64, &mut self.bytes);
        self.bytes.extend_from_slice(value);
    }

    /// A field that is a struct.
    pub(crate) fn structure(&mut self, number: i16, fill: impl FnOnce(&mut Thrift)) {
        self.field(number, Type::Struct);
        self.element(fill);
    }

    /// An element that is a struct.
    pub(crate) fn element(&mut self, fill: impl FnOnce(&mut Thrift)) {
        let outer = std::mem::take(&mut self.last);
        fill(self);
        self.bytes.push(0);
        self.last = outer;
    }

    /// A field that is a list.
    pub(crate) fn list<I: ExactSizeIterator>(
        &mut self,
        number: i16,
        kind: Type,
        items: I,
        mut write: impl FnMut(&mut Thrift, I::Item),
    ) {
        self.field(number, Type::List);
        match items.len() {
            short @ 0..=14 => self.bytes.push((short as u8) << 4 | kind as u8),
            long => {
                self.bytes.push(0xf0 | kind as u8);
                varint(long as u64, &mut self.bytes);
            }
        }
        items.for_each(|item| write(self, item));
    }
}
