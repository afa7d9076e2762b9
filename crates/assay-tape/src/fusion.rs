//! Fusion of pairs of operations into one loop.
//!
//! Where a sum, difference, product or quotient is read once, by another of them, the two are fused:
//! the intermediate stays in a CPU register instead of going through memory, with the same rounding.

use std::marker::PhantomData;

use super::kernels::{Compile, Loop, Operand, Operands, Varying};
use super::op::Op;
use super::program::Program;
use super::scalar_operations::{Add, Binary, Div, Mul, Sub};
use super::simplify::for_each_operand;

/// Which instructions are fused into another.
#[derive(Debug)]
pub(super) struct Fusion {
    /// For each instruction, the earlier one that its loop computes first.
    absorbs: Vec<Option<u32>>,
    absorbed: Vec<bool>,
}

impl Fusion {
    /// Pairs up the instructions of a program; `varying` tells which values vary.
    pub(super) fn new(program: &Program, varying: &[bool]) -> Fusion {
        let first = program.first_instruction();
        let mut reads = vec![0_u32; first + program.code.len()];
        for instruction in &program.code {
            for_each_operand(program, instruction, |value| reads[value as usize] += 1);
        }
        for &output in &program.outputs {
            reads[output as usize] += 1;
        }
        let count = program.code.len();
        let mut fusion = Fusion { absorbs: vec![None; count], absorbed: vec![false; count] };
        for (index, instruction) in program.code.iter().enumerate() {
            if !varying[first + index] || !can_fuse(instruction.op) {
                continue;
            }
            for value in [instruction.a, instruction.b] {
                let Some(earlier) = (value as usize).checked_sub(first) else {
                    continue;
                };
                let free = fusion.absorbs[earlier].is_none() && reads[value as usize] == 1;
                if free && varying[value as usize] && can_fuse(program.code[earlier].op) {
                    fusion.absorbs[index] = Some(earlier as u32);
                    fusion.absorbed[earlier] = true;
                    break;
                }
            }
        }
        fusion
    }

    /// Whether another instruction's loop computes this one.
    pub(super) fn is_absorbed(&self, instruction: usize) -> bool {
        self.absorbed[instruction]
    }

    /// The instruction that the loop of this one computes first, if any.
    pub(super) fn absorbs(&self, instruction: usize) -> Option<usize> {
        self.absorbs[instruction].map(|earlier| earlier as usize)
    }
}

fn can_fuse(op: Op) -> bool {
    matches!(op, Op::Add | Op::Sub | Op::Mul | Op::Div)
}

/// `second(first(a, b), c)`, or `second(c, first(a, b))` if `SWAPPED`.
struct FusedLoop<F, S, const SWAPPED: bool, const A: bool, const B: bool, const C: bool>(
    PhantomData<(F, S)>,
);

impl<F: Binary, S: Binary, const SWAPPED: bool, const A: bool, const B: bool, const C: bool> Loop
    for FusedLoop<F, S, SWAPPED, A, B, C>
{
    #[inline(always)]
    unsafe fn run(out: &mut [f64], operands: &Operands) {
        // SAFETY: vouched for by the caller.
        let a = unsafe { Operand::<A>::new(operands.first[0], out.len()) };
        // SAFETY: the same.
        let b = unsafe { Operand::<B>::new(operands.first[1], out.len()) };
        // SAFETY: the same.
        let c = unsafe { Operand::<C>::new(operands.first[2], out.len()) };
        #[allow(clippy::needless_range_loop, reason = "see `kernels`")]
        for lane in 0..out.len() {
            let intermediate = F::apply(a.at(lane), b.at(lane));
            out[lane] = match SWAPPED {
                true => S::apply(c.at(lane), intermediate),
                false => S::apply(intermediate, c.at(lane)),
            };
        }
    }
}

/// The kernel of `first` followed by `second`, which has the first one's result as its second
/// operand if `swapped`. Operands `a` and `b` are the first one's, `c` is the second one's other.
pub(super) fn fused_kernel<K: Compile>(
    first: Op,
    second: Op,
    swapped: bool,
    varying: Varying,
) -> K::Kernel {
    match first {
        Op::Add => second_kernel::<K, Add>(second, swapped, varying),
        Op::Sub => second_kernel::<K, Sub>(second, swapped, varying),
        Op::Mul => second_kernel::<K, Mul>(second, swapped, varying),
        _ => second_kernel::<K, Div>(second, swapped, varying),
    }
}

fn second_kernel<K: Compile, F: Binary>(second: Op, swapped: bool, varying: Varying) -> K::Kernel {
    match (second, swapped) {
        (Op::Add, _) => varying_kernel::<K, F, Add, false>(varying),
        (Op::Mul, _) => varying_kernel::<K, F, Mul, false>(varying),
        (Op::Sub, false) => varying_kernel::<K, F, Sub, false>(varying),
        (Op::Sub, true) => varying_kernel::<K, F, Sub, true>(varying),
        (_, false) => varying_kernel::<K, F, Div, false>(varying),
        (_, true) => varying_kernel::<K, F, Div, true>(varying),
    }
}

fn varying_kernel<K: Compile, F: Binary, S: Binary, const SWAPPED: bool>(
    varying: Varying,
) -> K::Kernel {
    match varying {
        0b001 => K::compile::<FusedLoop<F, S, SWAPPED, true, false, false>>(),
        0b010 => K::compile::<FusedLoop<F, S, SWAPPED, false, true, false>>(),
        0b011 => K::compile::<FusedLoop<F, S, SWAPPED, true, true, false>>(),
        0b101 => K::compile::<FusedLoop<F, S, SWAPPED, true, false, true>>(),
        0b110 => K::compile::<FusedLoop<F, S, SWAPPED, false, true, true>>(),
        _ => K::compile::<FusedLoop<F, S, SWAPPED, true, true, true>>(),
    }
}
