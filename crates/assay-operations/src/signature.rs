//! A row of the table: an operation's operands, how it accesses them, and its numbers.

/// How an operation accesses an operand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// Reads only.
    Read,
    /// Overwrites without reading.
    Write,
    /// Writes in part, or reads before writing.
    ReadWrite,
}

impl Access {
    /// Whether the operation may modify the operand.
    pub const fn writes(self) -> bool {
        !matches!(self, Access::Read)
    }
}

/// One operand of an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OperandRule {
    /// Its name.
    pub name: &'static str,
    /// How it is accessed.
    pub access: Access,
    /// Whether a call may omit it.
    pub optional: bool,
}

/// The kind of a number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NumberKind {
    /// An integer: an extent, a count, an enumeration code.
    Integer,
    /// A real number.
    Float,
    /// Shape and strides: the extent of each of [`MOST_AXES`] axes, then the strides of every operand
    /// in elements. Unused axes have extent 1.
    Layout,
}

/// The most axes of a strided operation, after adjacent axes are merged where strides allow.
pub const MOST_AXES: usize = 8;

/// One number of an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NumberRule {
    /// Its name.
    pub name: &'static str,
    /// Its kind.
    pub kind: NumberKind,
}

/// One row of the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Signature {
    /// The operation's name.
    pub name: &'static str,
    /// Its operands in the order of calls.
    pub operands: &'static [OperandRule],
    /// Its numbers in the order of calls.
    pub numbers: &'static [NumberRule],
}

pub(super) const fn reads(name: &'static str) -> OperandRule {
    operand(name, Access::Read, false)
}

pub(super) const fn may_read(name: &'static str) -> OperandRule {
    operand(name, Access::Read, true)
}

pub(super) const fn writes(name: &'static str) -> OperandRule {
    operand(name, Access::Write, false)
}

pub(super) const fn may_write(name: &'static str) -> OperandRule {
    operand(name, Access::Write, true)
}

pub(super) const fn changes(name: &'static str) -> OperandRule {
    operand(name, Access::ReadWrite, false)
}

pub(super) const fn may_change(name: &'static str) -> OperandRule {
    operand(name, Access::ReadWrite, true)
}

const fn operand(name: &'static str, access: Access, optional: bool) -> OperandRule {
    OperandRule { name, access, optional }
}

pub(super) const fn integer(name: &'static str) -> NumberRule {
    NumberRule { name, kind: NumberKind::Integer }
}

pub(super) const fn layout(name: &'static str) -> NumberRule {
    NumberRule { name, kind: NumberKind::Layout }
}

pub(super) const fn float(name: &'static str) -> NumberRule {
    NumberRule { name, kind: NumberKind::Float }
}
