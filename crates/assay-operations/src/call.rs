//! Encodes a call of an operation as the arguments of a launch, and decodes it.
//!
//! An operand takes three arguments (address, accessible bytes, format), a number one. The bytes the
//! call moves come last, for devices that model time. An omitted operand has the format [`ABSENT`].

use super::format::ElementFormat;
use super::signature::{MOST_AXES, NumberKind, Signature};
use assay_runtime::backend::{DevicePointer, KernelArgument, KernelId, Launch};
use std::fmt;

/// The format code of an omitted operand.
const ABSENT: u32 = u32::MAX;

const PER_OPERAND: usize = 3;

/// Device memory that a call reads or writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Operand {
    /// Its first byte.
    pub pointer: DevicePointer,
    /// How many bytes from there the call may access.
    pub bytes: u64,
    /// The format of its elements.
    pub format: ElementFormat,
}

/// A number argument of a call.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Number {
    /// An integer.
    Integer(i64),
    /// A real number.
    Float(f64),
}

/// A call that does not match its operation's signature.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CallError {
    /// The operation.
    pub operation: &'static str,
    /// What was expected.
    pub expected: String,
    /// What was passed.
    pub got: String,
}

impl fmt::Display for CallError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: expected {}, got {}", self.operation, self.expected, self.got)
    }
}

impl std::error::Error for CallError {}

impl Signature {
    fn error(&self, expected: impl fmt::Display, got: impl fmt::Display) -> CallError {
        CallError { operation: self.name, expected: expected.to_string(), got: got.to_string() }
    }

    /// Whether calls carry shape and strides; the layout is the last of the numbers.
    pub fn has_layout(&self) -> bool {
        let last = self.numbers.last();
        last.is_some_and(|rule| rule.kind == NumberKind::Layout)
    }

    /// How many numbers a call has.
    pub fn number_count(&self) -> usize {
        let layout = MOST_AXES * (1 + self.operands.len()) - 1;
        self.numbers.len() + if self.has_layout() { layout } else { 0 }
    }

    /// How many arguments a launch of this operation has.
    pub fn parameters(&self) -> usize {
        PER_OPERAND * self.operands.len() + self.number_count() + 1
    }
}

/// Encodes a call as a launch; `bytes` is its memory traffic.
pub fn encode(
    signature: &Signature,
    kernel: KernelId,
    operands: &[Option<Operand>],
    numbers: &[Number],
    bytes: u64,
) -> Result<Launch, CallError> {
    let (expected, got) = (signature.operands.len(), operands.len());
    if expected != got {
        return Err(signature.error(format_args!("{expected} operands"), got));
    }
    let (expected, got) = (signature.number_count(), numbers.len());
    if expected != got {
        return Err(signature.error(format_args!("{expected} numbers"), got));
    }
    let mut arguments = Vec::with_capacity(signature.parameters());
    for (rule, operand) in signature.operands.iter().zip(operands) {
        let (pointer, bytes, format) = match operand {
            Some(operand) => (operand.pointer, operand.bytes, operand.format.code()),
            None if rule.optional => (DevicePointer(0), 0, ABSENT),
            None => return Err(signature.error(format_args!("operand {}", rule.name), "none")),
        };
        arguments.extend([
            KernelArgument::Pointer(pointer),
            KernelArgument::U64(bytes),
            KernelArgument::U32(format),
        ]);
    }
    // A layout is the last rule and applies to all numbers that follow.
    let last = signature.numbers.last().into_iter().cycle();
    for (rule, number) in signature.numbers.iter().chain(last).zip(numbers) {
        arguments.push(match (rule.kind, *number) {
            (NumberKind::Integer | NumberKind::Layout, Number::Integer(value)) => {
                KernelArgument::I64(value)
            }
            (NumberKind::Float, Number::Float(value)) => KernelArgument::F64(value),
            (NumberKind::Float, Number::Integer(value)) => KernelArgument::F64(value as f64),
            (NumberKind::Integer | NumberKind::Layout, Number::Float(value)) => {
                return Err(signature.error(format_args!("a whole number {}", rule.name), value));
            }
        });
    }
    arguments.push(KernelArgument::U64(bytes));
    Ok(Launch { kernel, grid: [1; 3], block: [1; 3], shared_bytes: 0, arguments })
}

/// The arguments of a launch, decoded as a call of an operation.
#[derive(Clone, Copy, Debug)]
pub struct Arguments<'a> {
    signature: &'static Signature,
    arguments: &'a [KernelArgument],
}

impl<'a> Arguments<'a> {
    /// Decodes a launch's arguments; fails if their count does not match the signature.
    pub fn new(
        signature: &'static Signature,
        arguments: &'a [KernelArgument],
    ) -> Result<Self, CallError> {
        let (expected, got) = (signature.parameters(), arguments.len());
        if expected != got {
            return Err(signature.error(format_args!("{expected} arguments"), got));
        }
        Ok(Arguments { signature, arguments })
    }

    /// The operation's row of the table.
    pub fn signature(&self) -> &'static Signature {
        self.signature
    }

    /// The operand at this index of the signature, if the call has it.
    pub fn operand_at(&self, index: usize) -> Result<Option<Operand>, CallError> {
        let first = PER_OPERAND * index;
        match self.arguments.get(first..first + PER_OPERAND) {
            Some(
                [KernelArgument::Pointer(_), KernelArgument::U64(_), KernelArgument::U32(ABSENT)],
            ) => Ok(None),
            Some(
                [
                    KernelArgument::Pointer(pointer),
                    KernelArgument::U64(bytes),
                    KernelArgument::U32(code),
                ],
            ) => match ElementFormat::from_code(*code) {
                Some(format) => Ok(Some(Operand { pointer: *pointer, bytes: *bytes, format })),
                None => Err(self.signature.error("a known format", code)),
            },
            other => Err(self
                .signature
                .error("an address, bytes and a format", format_args!("{other:?}"))),
        }
    }

    /// The operand of this name, if the call has it.
    pub fn operand(&self, name: &str) -> Result<Option<Operand>, CallError> {
        let rules = self.signature.operands.iter();
        match rules.enumerate().find(|(_, rule)| rule.name == name) {
            Some((index, _)) => self.operand_at(index),
            None => Err(self.signature.error("a known operand", name)),
        }
    }

    /// The integer of this name.
    pub fn integer(&self, name: &str) -> Result<i64, CallError> {
        match self.number(name)? {
            KernelArgument::I64(value) => Ok(*value),
            other => Err(self
                .signature
                .error(format_args!("a whole number {name}"), format_args!("{other:?}"))),
        }
    }

    /// The integer at this index of the signature.
    pub fn integer_at(&self, index: usize) -> Result<i64, CallError> {
        let first = PER_OPERAND * self.signature.operands.len();
        match self.arguments.get(first + index) {
            Some(KernelArgument::I64(value)) => Ok(*value),
            other => {
                let what = format_args!("a whole number at index {index}");
                Err(self.signature.error(what, format_args!("{other:?}")))
            }
        }
    }

    /// The float of this name.
    pub fn float(&self, name: &str) -> Result<f64, CallError> {
        match self.number(name)? {
            KernelArgument::F64(value) => Ok(*value),
            other => Err(self
                .signature
                .error(format_args!("a real number {name}"), format_args!("{other:?}"))),
        }
    }

    fn number(&self, name: &str) -> Result<&'a KernelArgument, CallError> {
        let rules = self.signature.numbers.iter();
        let found = rules.enumerate().find(|(_, rule)| rule.name == name);
        let first = PER_OPERAND * self.signature.operands.len();
        found
            .and_then(|(index, _)| self.arguments.get(first + index))
            .ok_or_else(|| self.signature.error("a known number", name))
    }

    /// The numbers of the layout, which come last; none where the operation has no layout.
    pub fn layout(&self) -> impl Iterator<Item = i64> + 'a {
        let end = self.arguments.len() - 1;
        let count = match self.signature.has_layout() {
            true => MOST_AXES * (1 + self.signature.operands.len()),
            false => 0,
        };
        let numbers = self.arguments[end - count..end].iter();
        numbers.map(|argument| match argument {
            KernelArgument::I64(value) => *value,
            // `encode` writes integers only.
            _ => 0,
        })
    }

    /// The call's memory traffic in bytes.
    pub fn bytes(&self) -> u64 {
        match self.arguments.last() {
            Some(KernelArgument::U64(bytes)) => *bytes,
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::find;
    use super::*;

    fn operand(pointer: u64) -> Option<Operand> {
        Some(Operand { pointer: DevicePointer(pointer), bytes: 64, format: ElementFormat::Bf16 })
    }

    #[test]
    fn call_round_trips() {
        let (_, signature) = find("rms_norm").unwrap();
        let operands = [operand(1), operand(2), None, operand(3)];
        let numbers = [Number::Integer(4), Number::Integer(8), Number::Float(1e-5)];
        let launch = encode(signature, KernelId(7), &operands, &numbers, 99).unwrap();
        assert_eq!(launch.arguments.len(), signature.parameters());
        let read = Arguments::new(signature, &launch.arguments).unwrap();
        assert_eq!(read.operand("weight").unwrap(), operand(2));
        assert_eq!(read.operand("residual").unwrap(), None);
        assert_eq!(read.integer("columns").unwrap(), 8);
        assert_eq!(read.float("epsilon").unwrap(), 1e-5);
        assert_eq!(read.bytes(), 99);
    }

    #[test]
    fn layout_round_trips() {
        let (_, signature) = find("elementwise").unwrap();
        let operands = [operand(1), None, None, operand(2)];
        let layout = (0..MOST_AXES as i64 * 5).map(|step| step - 7);
        let numbers: Vec<_> = [3, 0, 0, 9, 0].into_iter().chain(layout.clone()).collect();
        let numbers: Vec<_> = numbers.into_iter().map(Number::Integer).collect();
        let launch = encode(signature, KernelId(7), &operands, &numbers, 12).unwrap();
        let read = Arguments::new(signature, &launch.arguments).unwrap();
        assert!(read.layout().eq(layout));
        assert_eq!(read.integer("second_scalar").unwrap(), 9);
        assert_eq!(read.integer_at(3).unwrap(), 9);
        assert_eq!(read.bytes(), 12);
        let short = encode(signature, KernelId(7), &operands, &numbers[..44], 12);
        let message = short.unwrap_err().to_string();
        assert_eq!(message, "elementwise: expected 45 numbers, got 44");
    }

    #[test]
    fn mismatched_calls_name_the_problem() {
        let (_, signature) = find("swiglu").unwrap();
        let numbers = [Number::Integer(1), Number::Integer(2)];
        let refuse = |operands: &[Option<Operand>], numbers: &[Number]| {
            let refused = encode(signature, KernelId(1), operands, numbers, 0);
            refused.unwrap_err().to_string()
        };
        assert_eq!(refuse(&[operand(1)], &numbers), "swiglu: expected 2 operands, got 1");
        assert_eq!(
            refuse(&[None, operand(1)], &numbers),
            "swiglu: expected operand gate_up, got none"
        );
        assert_eq!(
            refuse(&[operand(1), operand(2)], &[Number::Integer(1), Number::Float(0.5)]),
            "swiglu: expected a whole number columns, got 0.5"
        );
        let short = Arguments::new(signature, &[]).unwrap_err();
        assert_eq!(short.to_string(), "swiglu: expected 9 arguments, got 0");
    }
}
