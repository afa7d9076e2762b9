//! Random programs that are smooth everywhere.

use proptest::prelude::*;

use super::programs::Builder;
use crate::{Op, Program};

/// A program that is smooth everywhere, from operations on safe arguments such as `1 + a^2`.
pub(super) fn smooth_program() -> impl Strategy<Value = Program> {
    let drafts = prop::collection::vec((0..20_u32, any::<u32>(), any::<u32>()), 1..25);
    (1..5_usize, drafts, 1..4_usize).prop_map(|(input_count, drafts, output_count)| {
        let mut builder = Builder::new(input_count, &[1.0, 0.5]);
        let one = input_count as u32;
        let mut known: Vec<u32> = (0..input_count as u32).collect();
        for (kind, a, b) in drafts {
            let a = known[a as usize % known.len()];
            let b = known[b as usize % known.len()];
            known.push(smooth_step(&mut builder, kind, a, b, one));
        }
        let last = known.len() - output_count.min(known.len());
        builder.0.outputs = known[last..].to_vec();
        builder.0
    })
}

fn smooth_step(builder: &mut Builder, kind: u32, a: u32, b: u32, one: u32) -> u32 {
    let positive = |builder: &mut Builder, value| {
        let square = builder.push(Op::Powi, value, 2, 0);
        builder.push(Op::Add, square, one, 0)
    };
    match kind {
        0 | 1 => builder.push(Op::Add, a, b, 0),
        2 => builder.push(Op::Sub, a, b, 0),
        3 | 4 => {
            let bounded = builder.push(Op::Tanh, b, 0, 0);
            builder.push(Op::Mul, a, bounded, 0)
        }
        5 => {
            let divisor = positive(builder, b);
            builder.push(Op::Div, a, divisor, 0)
        }
        6 => builder.push(Op::Neg, a, 0, 0),
        7 => {
            let base = positive(builder, a);
            let exponent = builder.push(Op::Sin, b, 0, 0);
            builder.push(Op::Pow, base, exponent, 0)
        }
        8 => {
            let base = positive(builder, a);
            builder.push(Op::Powi, base, (-2_i32) as u32, 0)
        }
        9 => {
            let inside = positive(builder, a);
            builder.push(Op::Sqrt, inside, 0, 0)
        }
        10 | 11 => {
            let bounded = builder.push(Op::Sin, a, 0, 0);
            builder.push(if kind == 10 { Op::Exp } else { Op::Expm1 }, bounded, 0, 0)
        }
        12..=15 => {
            let inside = positive(builder, a);
            let op = [Op::Log, Op::Log2, Op::Log10, Op::Log1p][kind as usize - 12];
            builder.push(op, inside, 0, 0)
        }
        16 => builder.push(Op::Cos, a, 0, 0),
        17 => {
            let bounded = builder.push(Op::Tanh, a, 0, 0);
            builder.push(Op::Tan, bounded, 0, 0)
        }
        18 => builder.push(Op::Atan, a, 0, 0),
        _ => builder.push(Op::Erf, a, 0, 0),
    }
}
