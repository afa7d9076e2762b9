//! What a row of the table says: how an operation is called, and what it does to its operands.

/// What an operation does to an operand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// Reads it.
    Read,
    /// Writes it, whatever was there.
    Write,
    /// Changes parts of it, or reads before it writes.
    ReadWrite,
}

impl Access {
    /// Whether the operand may be different afterward.
    pub const fn writes(self) -> bool {
        !matches!(self, Access::Read)
    }
}

/// One operand of an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OperandRule {
    /// Its name.
    pub name: &'static str,
    /// What happens to it.
    pub access: Access,
    /// Whether a call may leave it out.
    pub optional: bool,
}

/// The kind of a number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NumberKind {
    /// A whole number: an extent, a count, a choice.
    Integer,
    /// A real number.
    Float,
    /// Where strided operands lie: for each of [`MOST_AXES`] axes its extent, then the step of every
    /// operand in elements. What is left over has extent 1.
    Layout,
}

/// The most axes that a strided operation goes along; neighbors that can be one count as one.
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
    OperandRule {
        name,
        access,
        optional,
    }
}

pub(super) const fn integer(name: &'static str) -> NumberRule {
    NumberRule {
        name,
        kind: NumberKind::Integer,
    }
}

pub(super) const fn layout(name: &'static str) -> NumberRule {
    NumberRule {
        name,
        kind: NumberKind::Layout,
    }
}

pub(super) const fn float(name: &'static str) -> NumberRule {
    NumberRule {
        name,
        kind: NumberKind::Float,
    }
}
