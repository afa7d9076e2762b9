//! Points per second of a tape like those of engineering formulas, on one core.
//!
//! `cargo run --release --example tape_speed [points] [repetitions]`

use std::time::Instant;

use assay_core::tape::{Input, Instruction, Op, Program, Tape, TapeError};

const INPUTS: usize = 300;
const RELATIONS: usize = 400;
const OUTPUTS: usize = 4;

/// Operations per thousand.
const MIX: [(Op, u32); 11] = [
    (Op::Mul, 460),
    (Op::Add, 200),
    (Op::Sub, 50),
    (Op::Div, 150),
    (Op::Minimum, 25),
    (Op::Maximum, 25),
    (Op::Powi, 30),
    (Op::Sqrt, 25),
    (Op::Exp, 12),
    (Op::Log, 12),
    (Op::Pow, 11),
];

/// A small generator of reproducible numbers (a 64-bit linear congruence, upper bits).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % limit as u64) as usize
    }

    fn operation(&mut self) -> Op {
        let total: u32 = MIX.iter().map(|(_, weight)| weight).sum();
        let mut ticket = self.below(total as usize) as u32;
        for (op, weight) in MIX {
            if ticket < weight {
                return op;
            }
            ticket -= weight;
        }
        Op::Mul
    }
}

/// Relations of four or five operations, each using inputs and earlier relations; every value
/// reaches an output.
fn cone() -> Program {
    let mut numbers = Numbers(7);
    let mut code: Vec<Instruction> = Vec::new();
    // Constants keep differences positive and exponents mild.
    let constants = vec![3.0, 0.25];
    let first = INPUTS + constants.len();
    let mut unused: Vec<u32> = (0..INPUTS as u32).collect();
    let mut known: Vec<u32> = unused.clone();
    for relation in 0..RELATIONS {
        let mut operands = Vec::new();
        let remaining = RELATIONS - relation;
        while operands.len() < 3 {
            let must_consume = unused.len() > OUTPUTS && unused.len() + 1 > remaining;
            let index = numbers.below(unused.len());
            if must_consume || (operands.is_empty() && unused.len() > OUTPUTS) {
                operands.push(unused.swap_remove(index));
            } else {
                let recent = known.len().min(400);
                operands.push(known[known.len() - 1 - numbers.below(recent)]);
            }
        }
        let mut value = operands[0];
        for step in 0..4 + relation % 2 {
            let op = numbers.operation();
            let other = operands[1 + step % 2];
            let mut push = |op, a, b| {
                code.push(Instruction { op, a, b, c: 0 });
                (first + code.len() - 1) as u32
            };
            value = match op {
                Op::Powi => push(op, value, 2),
                Op::Sqrt => {
                    let positive = push(Op::Abs, value, 0);
                    push(op, positive, 0)
                }
                Op::Log => {
                    let positive = push(Op::Abs, value, 0);
                    let above_one = push(Op::Add, positive, INPUTS as u32);
                    push(op, above_one, 0)
                }
                Op::Exp => {
                    let small = push(Op::Minimum, value, INPUTS as u32 + 1);
                    push(op, small, 0)
                }
                Op::Pow => {
                    let positive = push(Op::Abs, value, 0);
                    let above_one = push(Op::Add, positive, INPUTS as u32);
                    push(op, above_one, INPUTS as u32 + 1)
                }
                _ => push(op, value, other),
            };
        }
        unused.push(value);
        known.push(value);
    }
    let outputs = unused.split_off(unused.len() - OUTPUTS.min(unused.len()));
    Program {
        input_count: INPUTS,
        constants,
        code,
        outputs,
        blocks: Vec::new(),
    }
}

fn main() -> Result<(), TapeError> {
    let mut arguments = std::env::args()
        .skip(1)
        .filter_map(|text| text.parse().ok());
    let points: usize = arguments.next().unwrap_or(100_000);
    let repetitions: usize = arguments.next().unwrap_or(10);
    let program = cone();
    let tape = Tape::new(&program)?;
    println!(
        "{} of {} instructions",
        tape.instruction_count(),
        program.code.len()
    );

    let mut numbers = Numbers(11);
    let mut column = || -> Vec<f64> {
        (0..points)
            .map(|_| 0.5 + numbers.below(1 << 20) as f64 / f64::from(1 << 20))
            .collect()
    };
    let columns: Vec<Vec<f64>> = (0..INPUTS).map(|_| column()).collect();
    let mut outputs = vec![vec![0.0; points]; OUTPUTS];
    for varying in [32, INPUTS] {
        // Spread over the inputs, as the choices of a study are.
        let inputs: Vec<Input<'_>> = (0..INPUTS)
            .map(
                |index| match index * varying / INPUTS != (index + 1) * varying / INPUTS {
                    true => Input::Varying(&columns[index]),
                    false => Input::Uniform(columns[index][0]),
                },
            )
            .collect();
        let mut best = f64::INFINITY;
        for _ in 0..repetitions {
            let mut rows: Vec<&mut [f64]> = outputs.iter_mut().map(Vec::as_mut_slice).collect();
            let begin = Instant::now();
            tape.evaluate(&inputs, points, &mut rows)?;
            best = best.min(begin.elapsed().as_secs_f64());
        }
        println!(
            "{varying} of {INPUTS} inputs varying: {:.3e} points/s",
            points as f64 / best
        );
    }
    let sums: Vec<f64> = outputs.iter().map(|output| output.iter().sum()).collect();
    println!("sums {sums:?}");

    let point: Vec<f64> = columns.iter().map(|column| column[0]).collect();
    let wrt: Vec<u32> = (0..INPUTS as u32).collect();
    let mut best = f64::INFINITY;
    for _ in 0..100 {
        let begin = Instant::now();
        tape.jacobian(&point, &wrt)?;
        best = best.min(begin.elapsed().as_secs_f64());
    }
    println!(
        "Jacobian of {OUTPUTS} outputs by {INPUTS} inputs: {:.1} us",
        best * 1e6
    );
    let batch = points.min(2000);
    let inputs: Vec<Input<'_>> = columns
        .iter()
        .map(|column| Input::Varying(&column[..batch]))
        .collect();
    let mut derivatives = vec![0.0; OUTPUTS * INPUTS * batch];
    let begin = Instant::now();
    tape.jacobian_batch(&inputs, batch, &wrt, None, &mut derivatives)?;
    let each = begin.elapsed().as_secs_f64() / batch as f64;
    println!(
        "the same in a batch of {batch}: {:.2} us per point",
        each * 1e6
    );
    let begin = Instant::now();
    let mut single = [[0.0]; OUTPUTS];
    for _ in 0..1000 {
        let inputs: Vec<Input<'_>> = point.iter().map(|&value| Input::Uniform(value)).collect();
        let mut rows: Vec<&mut [f64]> = single.iter_mut().map(|row| &mut row[..]).collect();
        tape.evaluate(&inputs, 1, &mut rows)?;
    }
    println!("one point: {:.2} us", begin.elapsed().as_secs_f64() * 1e3);
    Ok(())
}
