//! Random programs, and a plain interpreter to compare with.

use proptest::prelude::*;

use crate::{Instruction, Op, Program, functions};

/// An instruction whose operands are chosen once the values before it are known.
type Draft = (Op, u32, u32, u32);

fn elementwise() -> Vec<Op> {
    let is_elementwise = |op: &&Op| !matches!(op, Op::Block | Op::Extract);
    Op::ALL.iter().filter(is_elementwise).copied().collect()
}

/// Any program without blocks; outputs may repeat, and may be inputs or constants.
pub(super) fn any_program() -> impl Strategy<Value = Program> {
    program_of(elementwise())
}

/// A program of the operations that run in pairs.
pub(super) fn arithmetic_program() -> impl Strategy<Value = Program> {
    program_of(vec![Op::Add, Op::Sub, Op::Mul, Op::Div])
}

fn program_of(operations: Vec<Op>) -> impl Strategy<Value = Program> {
    let drafts = prop::collection::vec(
        (prop::sample::select(operations), any::<u32>(), any::<u32>(), any::<u32>()),
        0..40,
    );
    let constants = prop::collection::vec(any_value(), 0..4);
    let outputs = prop::collection::vec(any::<u32>(), 0..5);
    (0..6_usize, constants, drafts, outputs).prop_map(
        |(input_count, constants, drafts, outputs)| {
            assemble(input_count, constants, &drafts, &outputs)
        },
    )
}

fn assemble(input_count: usize, constants: Vec<f64>, drafts: &[Draft], outputs: &[u32]) -> Program {
    let mut program = Program { input_count, constants, ..Program::default() };
    for &(op, a, b, c) in drafts {
        let limit = (program.first_instruction() + program.code.len()) as u32;
        if limit == 0 {
            break;
        }
        let b = match op {
            Op::Powi => (b as i32 % 65) as u32,
            _ => b % limit,
        };
        program.code.push(Instruction { op, a: a % limit, b, c: c % limit });
    }
    let limit = (program.first_instruction() + program.code.len()) as u32;
    if limit > 0 {
        program.outputs = outputs.iter().map(|output| output % limit).collect();
    }
    program
}

/// Numbers of every kind, the awkward ones often.
pub(super) fn any_value() -> impl Strategy<Value = f64> {
    let awkward = vec![
        0.0,
        -0.0,
        1.0,
        -1.0,
        0.5,
        2.0,
        2.5,
        -3.5,
        1e-310,
        5e-324,
        1e300,
        -1e300,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
    ];
    prop_oneof![
        4 => -10.0..10.0_f64,
        1 => prop::sample::select(awkward),
        1 => any::<f64>(),
    ]
}

/// For each input, its values and whether they vary.
pub(super) type Columns = Vec<(bool, Vec<f64>)>;

/// How many points, and the inputs there.
pub(super) fn any_columns(input_count: usize) -> impl Strategy<Value = (usize, Columns)> {
    let points = prop_oneof![0..5_usize, 5..70_usize, 500..530_usize, 1000..1100_usize];
    points.prop_flat_map(move |points| {
        // A few numbers, repeated, so that long columns are as quick to make as short ones.
        let column = prop::collection::vec(any_value(), 1..20);
        let columns = prop::collection::vec((any::<bool>(), column), input_count);
        columns.prop_map(move |columns| {
            let stretch = |(varies, seeds): (bool, Vec<f64>)| {
                (varies, seeds.iter().copied().cycle().take(points.max(1)).collect())
            };
            (points, columns.into_iter().map(stretch).collect())
        })
    })
}

/// The outputs at one point, computed in the most direct way.
pub(super) fn interpret(program: &Program, inputs: &[f64]) -> Vec<f64> {
    let mut values = inputs.to_vec();
    values.extend_from_slice(&program.constants);
    for step in &program.code {
        let a = values[step.a as usize];
        let operand = |index: u32| values.get(index as usize).copied().unwrap_or(f64::NAN);
        let (b, c) = (operand(step.b), operand(step.c));
        values.push(direct(step.op, a, b, c, step.b as i32));
    }
    program.outputs.iter().map(|&output| values[output as usize]).collect()
}

fn flag(condition: bool) -> f64 {
    f64::from(u8::from(condition))
}

/// Each operation again, in other words than the tape's own where there are any.
fn direct(op: Op, a: f64, b: f64, c: f64, exponent: i32) -> f64 {
    match op {
        Op::Add => a + b,
        Op::Sub => a - b,
        Op::Mul => a * b,
        Op::Div => a / b,
        Op::Neg => -a,
        Op::Pow => functions::pow(a, b),
        Op::Powi => {
            let magnitude = exponent.unsigned_abs();
            let squares = std::iter::successors(Some(a), |square| Some(square * square));
            let bits = (0..7).filter(|bit| magnitude >> bit & 1 == 1);
            let squares: Vec<f64> = squares.take(7).collect();
            let power = bits.fold(1.0, |product, bit: usize| product * squares[bit]);
            if exponent < 0 { 1.0 / power } else { power }
        }
        Op::Sqrt => a.sqrt(),
        Op::Exp => functions::exp(a),
        Op::Log => functions::log(a),
        Op::Log2 => functions::log2(a),
        Op::Log10 => functions::log10(a),
        Op::Expm1 => functions::expm1(a),
        Op::Log1p => functions::log1p(a),
        Op::Abs => f64::from_bits(a.to_bits() & !(1 << 63)),
        Op::Minimum if a.is_nan() || b.is_nan() => f64::NAN,
        Op::Minimum => {
            if b < a {
                b
            } else {
                a
            }
        }
        Op::Maximum if a.is_nan() || b.is_nan() => f64::NAN,
        Op::Maximum => {
            if b > a {
                b
            } else {
                a
            }
        }
        Op::Floor => a.floor(),
        Op::Ceil => a.ceil(),
        Op::Round => {
            let away = a.round();
            let tie = (a - a.trunc()).abs() == 0.5;
            if tie && away % 2.0 != 0.0 { away - 1.0_f64.copysign(a) } else { away }.copysign(a)
        }
        Op::Modulo => {
            let euclid = a % b;
            let moved =
                if euclid != 0.0 && (euclid < 0.0) != (b < 0.0) { euclid + b } else { euclid };
            if moved == 0.0 { 0.0_f64.copysign(b) } else { moved }
        }
        Op::Sin => functions::sin(a),
        Op::Cos => functions::cos(a),
        Op::Tan => functions::tan(a),
        Op::Atan => functions::atan(a),
        Op::Tanh => functions::tanh(a),
        Op::Erf => functions::erf(a),
        Op::Lt => flag(a < b),
        Op::Le => flag(a <= b),
        Op::Gt => flag(b < a),
        Op::Ge => flag(b <= a),
        Op::Eq => flag(a == b),
        Op::Ne => flag(a != b),
        Op::And => flag(a != 0.0 && b != 0.0),
        Op::Or => flag(a != 0.0 || b != 0.0),
        Op::Not => flag(a == 0.0),
        Op::Select => {
            if c != 0.0 {
                a
            } else {
                b
            }
        }
        Op::Block | Op::Extract => f64::NAN,
    }
}

/// Equal bits, or both NaN: which NaN is not promised.
pub(super) fn same(left: f64, right: f64) -> bool {
    left.to_bits() == right.to_bits() || (left.is_nan() && right.is_nan())
}

/// A chain of instructions that is built one value at a time.
pub(super) struct Builder(pub(super) Program);

impl Builder {
    pub(super) fn new(input_count: usize, constants: &[f64]) -> Builder {
        Builder(Program { input_count, constants: constants.to_vec(), ..Program::default() })
    }

    pub(super) fn push(&mut self, op: Op, a: u32, b: u32, c: u32) -> u32 {
        self.0.code.push(Instruction { op, a, b, c });
        (self.0.first_instruction() + self.0.code.len() - 1) as u32
    }
}
