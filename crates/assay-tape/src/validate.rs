//! Validates a program once, so that evaluation needs no checks.

use super::error::{Place, TapeError};
use super::op::Op;
use super::program::{Block, Instruction, MAX_INTEGER_POWER, Method, Program};

/// Returns the first error of `program`, if any.
pub(super) fn validate(program: &Program) -> Result<(), TapeError> {
    for (index, block) in program.blocks.iter().enumerate() {
        validate_block(index, block)?;
    }
    validate_code(program, None)
}

fn validate_code(program: &Program, block: Option<usize>) -> Result<(), TapeError> {
    let first = program.first_instruction();
    let total = first.saturating_add(program.code.len());
    if total > u32::MAX as usize {
        return Err(TapeError::TooManyValues { count: total });
    }
    let checker = Checker { program, block, first };
    for (index, instruction) in program.code.iter().enumerate() {
        checker.instruction(index, instruction)?;
    }
    for (index, &output) in program.outputs.iter().enumerate() {
        let user = || match block {
            Some(block) => format!("output {index} of block {block}"),
            None => format!("output {index}"),
        };
        checker.reference(output, total, &user)?;
    }
    Ok(())
}

/// One program and the context its instructions are checked in.
struct Checker<'a> {
    program: &'a Program,
    block: Option<usize>,
    first: usize,
}

impl Checker<'_> {
    fn instruction(&self, index: usize, instruction: &Instruction) -> Result<(), TapeError> {
        let place = Place { block: self.block, instruction: index };
        let limit = self.first + index;
        let op = instruction.op;
        let operands = [("a", instruction.a), ("b", instruction.b), ("c", instruction.c)];
        for &(operand, got) in &operands[..op.arity()] {
            if got as usize >= limit {
                return Err(TapeError::OperandOutOfRange {
                    place,
                    op: op.name(),
                    operand,
                    got,
                    limit,
                });
            }
            if op != Op::Extract && self.executed_block(got).is_some() {
                return Err(TapeError::BlockUsedAsValue {
                    user: format!("operand {operand} of {} at {place}", op.name()),
                    value: got,
                });
            }
        }
        match op {
            Op::Powi => {
                let got = instruction.b as i32;
                if !(-MAX_INTEGER_POWER..=MAX_INTEGER_POWER).contains(&got) {
                    return Err(TapeError::PowerOutOfRange { place, got });
                }
            }
            Op::Block => self.execution(place, instruction.a, limit)?,
            Op::Extract => {
                let Some(block) = self.executed_block(instruction.a) else {
                    return Err(TapeError::ExtractFromNonBlock { place, got: instruction.a });
                };
                let count = block.member_count();
                if instruction.b as usize >= count {
                    return Err(TapeError::MemberOutOfRange { place, got: instruction.b, count });
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn execution(&self, place: Place, number: u32, limit: usize) -> Result<(), TapeError> {
        if let Some(block) = self.block {
            return Err(TapeError::NestedBlock { block });
        }
        let Some(block) = self.program.blocks.get(number as usize) else {
            let count = self.program.blocks.len();
            return Err(TapeError::UnknownBlock { place, got: number, count });
        };
        for (field, values) in [("start", &block.start), ("external", &block.externals)] {
            for (index, &value) in values.iter().enumerate() {
                let user = || format!("{field} {index} of block {number} at {place}");
                self.reference(value, limit, &user)?;
            }
        }
        Ok(())
    }

    fn reference(
        &self,
        got: u32,
        limit: usize,
        user: &dyn Fn() -> String,
    ) -> Result<(), TapeError> {
        if got as usize >= limit {
            return Err(TapeError::ReferenceOutOfRange { user: user(), got, limit });
        }
        if self.executed_block(got).is_some() {
            return Err(TapeError::BlockUsedAsValue { user: user(), value: got });
        }
        Ok(())
    }

    /// The block that the instruction with this value number executes, if it is one.
    fn executed_block(&self, value: u32) -> Option<&Block> {
        let index = (value as usize).checked_sub(self.first)?;
        let instruction = self.program.code.get(index)?;
        match instruction.op {
            Op::Block => self.program.blocks.get(instruction.a as usize),
            _ => None,
        }
    }
}

fn validate_block(index: usize, block: &Block) -> Result<(), TapeError> {
    let bad = |field, expected: String, got: String| {
        Err(TapeError::BadBlock { block: index, field, expected, got })
    };
    if !block.inner.blocks.is_empty() {
        return Err(TapeError::NestedBlock { block: index });
    }
    let unknowns = block.start.len();
    if unknowns == 0 {
        return bad("start", "at least one unknown".into(), "none".into());
    }
    let inputs = unknowns + block.externals.len();
    if block.inner.input_count != inputs {
        let expected = format!("{inputs}, the unknowns and the externals");
        return bad("inner input count", expected, block.inner.input_count.to_string());
    }
    if block.inner.outputs.len() < unknowns {
        let expected = format!("at least {unknowns}, one per unknown");
        return bad("inner outputs", expected, block.inner.outputs.len().to_string());
    }
    for (field, bounds) in [("lower", &block.lower), ("upper", &block.upper)] {
        if bounds.len() != unknowns {
            let expected = format!("{unknowns} bounds, one per unknown");
            return bad(field, expected, bounds.len().to_string());
        }
    }
    for (lower, upper) in block.lower.iter().zip(&block.upper) {
        if lower.is_nan() || upper.is_nan() || lower > upper {
            return bad("lower", format!("at most the upper bound {upper}"), lower.to_string());
        }
    }
    for (field, tolerance) in [
        ("relative tolerance", block.relative_tolerance),
        ("absolute tolerance", block.absolute_tolerance),
    ] {
        if !(tolerance >= 0.0 && tolerance.is_finite()) {
            return bad(field, "a finite number, at least 0".into(), tolerance.to_string());
        }
    }
    if block.max_iterations == 0 {
        return bad("max iterations", "at least 1".into(), "0".into());
    }
    if let Method::FixedPoint { damping } = block.method
        && !(damping > 0.0 && damping <= 1.0)
    {
        return bad("damping", "above 0 and at most 1".into(), damping.to_string());
    }
    validate_code(&block.inner, Some(index))
}
