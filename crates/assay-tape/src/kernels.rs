//! The inner loops: one operation over many points.
//!
//! Everything here is inlined into functions compiled for each SIMD level (see `simd_level`), where
//! the compiler vectorizes the loops. Which operands vary is a compile-time constant, so that a
//! uniform one is loaded once and not once per point.
//!
//! Loops run over indices: the compiler then knows that all lengths are equal; otherwise it leaves
//! the last vectors of every call to a scalar loop.
#![allow(clippy::needless_range_loop)]

use std::marker::PhantomData;

use super::functions::{self, Double, Ratio, Scaled};
use super::op::Op;
use super::scalar_operations::{self, Binary, Unary, elementwise};

/// Where a kernel reads: the first number of each operand, and the `b` field of `powi`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Operands {
    pub(super) first: [*const f64; 3],
    pub(super) immediate: u32,
}

/// Which operands of a kernel vary, one bit each, the lowest for `a`.
pub(super) type Varying = u8;

/// An operation over `out.len()` lanes.
pub(super) trait Loop {
    /// Computes every lane of `out`.
    ///
    /// # Safety
    ///
    /// Each operand that the operation uses points to as many initialized numbers as `out` has
    /// if it varies, else to one, and `out` overlaps none of them.
    unsafe fn run(out: &mut [f64], operands: &Operands);
}

/// An operand that varies (`LANES`) or is the same at every point.
#[derive(Clone, Copy)]
pub(super) struct Operand<'a, const LANES: bool>(&'a [f64]);

impl<const LANES: bool> Operand<'_, LANES> {
    /// # Safety
    ///
    /// As in [`Loop::run`].
    #[inline(always)]
    pub(super) unsafe fn new(first: *const f64, lanes: usize) -> Self {
        let length = if LANES { lanes } else { 1 };
        // SAFETY: vouched for by the caller.
        Operand(unsafe { std::slice::from_raw_parts(first, length) })
    }

    /// `lanes` lanes from `start` on.
    #[inline(always)]
    fn part(self, start: usize, lanes: usize) -> Self {
        if LANES { Operand(&self.0[start..start + lanes]) } else { self }
    }

    #[inline(always)]
    pub(super) fn at(self, lane: usize) -> f64 {
        if LANES { self.0[lane] } else { self.0[0] }
    }
}

struct UnaryLoop<O>(PhantomData<O>);

impl<O: Unary> Loop for UnaryLoop<O> {
    #[inline(always)]
    unsafe fn run(out: &mut [f64], operands: &Operands) {
        // SAFETY: vouched for by the caller.
        let a = unsafe { Operand::<true>::new(operands.first[0], out.len()) };
        for lane in 0..out.len() {
            out[lane] = O::apply(a.at(lane));
        }
    }
}

struct BinaryLoop<O, const A: bool, const B: bool>(PhantomData<O>);

impl<O: Binary, const A: bool, const B: bool> Loop for BinaryLoop<O, A, B> {
    #[inline(always)]
    unsafe fn run(out: &mut [f64], operands: &Operands) {
        // SAFETY: vouched for by the caller.
        let a = unsafe { Operand::<A>::new(operands.first[0], out.len()) };
        // SAFETY: the same.
        let b = unsafe { Operand::<B>::new(operands.first[1], out.len()) };
        for lane in 0..out.len() {
            out[lane] = O::apply(a.at(lane), b.at(lane));
        }
    }
}

struct SelectLoop<const A: bool, const B: bool, const C: bool>;

impl<const A: bool, const B: bool, const C: bool> Loop for SelectLoop<A, B, C> {
    #[inline(always)]
    unsafe fn run(out: &mut [f64], operands: &Operands) {
        // SAFETY: vouched for by the caller.
        let a = unsafe { Operand::<A>::new(operands.first[0], out.len()) };
        // SAFETY: the same.
        let b = unsafe { Operand::<B>::new(operands.first[1], out.len()) };
        // SAFETY: the same.
        let c = unsafe { Operand::<C>::new(operands.first[2], out.len()) };
        for lane in 0..out.len() {
            out[lane] = scalar_operations::select(a.at(lane), b.at(lane), c.at(lane));
        }
    }
}

struct PowLoop<const A: bool, const B: bool>;

impl<const A: bool, const B: bool> Loop for PowLoop<A, B> {
    #[inline(always)]
    unsafe fn run(out: &mut [f64], operands: &Operands) {
        // SAFETY: vouched for by the caller.
        let a = unsafe { Operand::<A>::new(operands.first[0], out.len()) };
        // SAFETY: the same.
        let b = unsafe { Operand::<B>::new(operands.first[1], out.len()) };
        for start in (0..out.len()).step_by(TILE) {
            let lanes = TILE.min(out.len() - start);
            let tile = &mut out[start..start + lanes];
            pow_tile(tile, a.part(start, lanes), b.part(start, lanes));
        }
        let mut irregular = false;
        for value in out.iter() {
            irregular |= value.is_nan();
        }
        if irregular {
            for (lane, value) in out.iter_mut().enumerate() {
                if value.is_nan() {
                    *value = functions::pow_irregular(a.at(lane), b.at(lane));
                }
            }
        }
    }
}

/// Lanes of a power that go through each stage together.
const TILE: usize = 64;

/// The general power as if every lane were regular, NaN where it is not.
///
/// In one loop the stages would form a dependency chain longer than the reorder window of a CPU; in
/// a loop of its own, a stage of one vector overlaps with that of the next.
#[inline(always)]
fn pow_tile<const A: bool, const B: bool>(out: &mut [f64], a: Operand<'_, A>, b: Operand<'_, B>) {
    let lanes = out.len().min(TILE);
    let mut exponents = [0.0; TILE];
    let mut highs = [0.0; TILE];
    let mut lows = [0.0; TILE];
    for lane in 0..lanes {
        let ratio = Ratio::of(a.at(lane));
        exponents[lane] = ratio.exponent;
        highs[lane] = ratio.s.high;
        lows[lane] = ratio.s.low;
    }
    for lane in 0..lanes {
        let s = Double { high: highs[lane], low: lows[lane] };
        let logarithm = Ratio { exponent: exponents[lane], s }.log2();
        highs[lane] = logarithm.high;
        lows[lane] = logarithm.low;
    }
    for lane in 0..lanes {
        let logarithm = Double { high: highs[lane], low: lows[lane] };
        let scaled = Scaled::of(b.at(lane), logarithm);
        exponents[lane] = scaled.exponent;
        highs[lane] = scaled.rest.high;
        lows[lane] = scaled.rest.low;
    }
    for lane in 0..lanes {
        let rest = Double { high: highs[lane], low: lows[lane] };
        out[lane] = Scaled { exponent: exponents[lane], rest }.finish(a.at(lane));
    }
}

struct PowiLoop;

impl Loop for PowiLoop {
    #[inline(always)]
    unsafe fn run(out: &mut [f64], operands: &Operands) {
        // SAFETY: vouched for by the caller.
        let a = unsafe { Operand::<true>::new(operands.first[0], out.len()) };
        let exponent = operands.immediate as i32;
        match exponent {
            2 => out.iter_mut().zip(a.0).for_each(|(value, a)| *value = a * a),
            3 => out.iter_mut().zip(a.0).for_each(|(value, a)| *value = a * (a * a)),
            -1 => out.iter_mut().zip(a.0).for_each(|(value, a)| *value = 1.0 / a),
            _ => powi_in_tiles(out, a.0, exponent),
        }
    }
}

/// Integer power, eight lanes at a time so that the loop over the exponent's bits is outside.
#[inline(always)]
fn powi_in_tiles(out: &mut [f64], a: &[f64], exponent: i32) {
    let mut tiles = out.chunks_exact_mut(8);
    let mut sources = a.chunks_exact(8);
    for (tile, source) in (&mut tiles).zip(&mut sources) {
        let mut square = [0.0; 8];
        square.copy_from_slice(source);
        let mut product = [1.0; 8];
        let mut remaining = exponent.unsigned_abs();
        while remaining > 0 {
            if remaining & 1 == 1 {
                for lane in 0..8 {
                    product[lane] *= square[lane];
                }
            }
            for value in &mut square {
                *value *= *value;
            }
            remaining >>= 1;
        }
        if exponent < 0 {
            for value in &mut product {
                *value = 1.0 / *value;
            }
        }
        tile.copy_from_slice(&product);
    }
    for (value, &base) in tiles.into_remainder().iter_mut().zip(sources.remainder()) {
        *value = scalar_operations::powi(base, exponent);
    }
}

/// A SIMD level: how it compiles a loop.
pub(super) trait Compile {
    type Kernel;
    fn compile<L: Loop>() -> Self::Kernel;
}

macro_rules! choose {
    (
        unary { $($unary:ident: |$x:ident| $of_one:expr;)* }
        binary { $($binary:ident: |$a:ident, $b:ident| $of_two:expr;)* }
    ) => {
        /// The kernel of an elementwise operation, at least one of whose operands varies.
        pub(super) fn kernel<C: Compile>(op: Op, varying: Varying) -> C::Kernel {
            match op {
                $(Op::$unary => C::compile::<UnaryLoop<scalar_operations::$unary>>(),)*
                $(Op::$binary => binary::<C, scalar_operations::$binary>(varying),)*
                Op::Pow => match varying & 0b11 {
                    0b01 => C::compile::<PowLoop<true, false>>(),
                    0b10 => C::compile::<PowLoop<false, true>>(),
                    _ => C::compile::<PowLoop<true, true>>(),
                },
                Op::Powi => C::compile::<PowiLoop>(),
                Op::Select | Op::Block | Op::Extract => match varying {
                    0b001 => C::compile::<SelectLoop<true, false, false>>(),
                    0b010 => C::compile::<SelectLoop<false, true, false>>(),
                    0b011 => C::compile::<SelectLoop<true, true, false>>(),
                    0b100 => C::compile::<SelectLoop<false, false, true>>(),
                    0b101 => C::compile::<SelectLoop<true, false, true>>(),
                    0b110 => C::compile::<SelectLoop<false, true, true>>(),
                    _ => C::compile::<SelectLoop<true, true, true>>(),
                },
            }
        }
    };
}
elementwise!(choose);

fn binary<C: Compile, O: Binary>(varying: Varying) -> C::Kernel {
    match varying & 0b11 {
        0b01 => C::compile::<BinaryLoop<O, true, false>>(),
        0b10 => C::compile::<BinaryLoop<O, false, true>>(),
        _ => C::compile::<BinaryLoop<O, true, true>>(),
    }
}
