//! Points per second of a tape like those of engineering formulas, on one core.
//!
//! `cargo run --release --example tape_speed [points] [repetitions]`

use std::time::Instant;

use assay_tape::{Input, Instruction, Op, Program, Tape, TapeError};

const INPUTS: usize = 300;
const RELATIONS: usize = 400;
const OUTPUTS: usize = 4;

/// Operations per thousand; a root ends every third relation besides, and keeps numbers small.
const MIX: [(Op, u32); 10] = [
    (Op::Mul, 460),
    (Op::Add, 220),
    (Op::Sub, 50),
    (Op::Div, 165),
    (Op::Minimum, 25),
    (Op::Maximum, 25),
    (Op::Powi, 20),
    (Op::Exp, 12),
    (Op::Log, 12),
    (Op::Pow, 11),
];

/// A small generator of reproducible numbers (a 64-bit linear congruence, upper bits).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % limit as u64) as usize
    }

    fn operation(&mut self) -> Op {
        let total: u32 = MIX.iter().map(|(_, weight)| weight).sum();
        let mut draw = self.below(total as usize) as u32;
        for (op, weight) in MIX {
            if draw < weight {
                return op;
            }
            draw -= weight;
        }
        Op::Mul
    }
}

/// Relations of four or more operations, each using inputs and earlier relations; every value
/// reaches an output.
fn cone() -> Program {
    let mut numbers = Numbers(7);
    let mut code: Vec<Instruction> = Vec::new();
    let constants = vec![3.0, 0.25];
    let (three, quarter) = (INPUTS as u32, INPUTS as u32 + 1);
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
        let mut push = |op, a, b| {
            code.push(Instruction { op, a, b, c: 0 });
            (first + code.len() - 1) as u32
        };
        let mut value = operands[0];
        for step in 0..4 {
            let op = numbers.operation();
            let other = operands[1 + step % 2];
            value = match op {
                Op::Sub => {
                    // Not the plain difference, which is zero after a minimum, and then a divisor.
                    let share = push(Op::Mul, other, quarter);
                    push(op, value, share)
                }
                Op::Powi => push(op, value, 2),
                Op::Exp => {
                    let positive = push(Op::Abs, value, 0);
                    let small = push(Op::Minimum, positive, quarter);
                    push(op, small, 0)
                }
                Op::Log | Op::Pow => {
                    let positive = push(Op::Abs, value, 0);
                    let above_one = push(Op::Add, positive, three);
                    push(op, above_one, if op == Op::Pow { quarter } else { 0 })
                }
                _ => push(op, value, other),
            };
        }
        if relation % 3 == 0 {
            let positive = push(Op::Abs, value, 0);
            value = push(Op::Sqrt, positive, 0);
        }
        unused.push(value);
        known.push(value);
    }
    let outputs = unused.split_off(unused.len() - OUTPUTS.min(unused.len()));
    Program { input_count: INPUTS, constants, code, outputs, blocks: Vec::new() }
}

/// Seconds that this thread has run, so that other work on the machine does not count; where
/// the system does not tell, seconds since `begin`.
fn seconds(begin: Instant) -> f64 {
    let statistics = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanoseconds = statistics.split(' ').next().and_then(|field| field.parse::<f64>().ok());
    nanoseconds.map_or_else(|| begin.elapsed().as_secs_f64(), |value| value * 1e-9)
}

/// The mean time of several calls, after one that is not counted.
fn mean(
    repetitions: usize,
    mut call: impl FnMut() -> Result<(), TapeError>,
) -> Result<f64, TapeError> {
    call()?;
    let begin = Instant::now();
    let before = seconds(begin);
    for _ in 0..repetitions {
        call()?;
    }
    Ok((seconds(begin) - before) / repetitions as f64)
}

fn main() -> Result<(), TapeError> {
    let mut arguments = std::env::args().skip(1).filter_map(|text| text.parse().ok());
    let points: usize = arguments.next().unwrap_or(100_000);
    let repetitions: usize = arguments.next().unwrap_or(10);
    let program = cone();
    let tape = Tape::new(&program)?;
    println!("{} of {} instructions", tape.instruction_count(), program.code.len());

    let mut numbers = Numbers(11);
    let mut column = || -> Vec<f64> {
        (0..points).map(|_| 0.5 + numbers.below(1 << 20) as f64 / f64::from(1 << 20)).collect()
    };
    let columns: Vec<Vec<f64>> = (0..INPUTS).map(|_| column()).collect();
    let mut outputs = vec![vec![0.0; points]; OUTPUTS];
    for varying in [32, INPUTS] {
        // Spread over the inputs, as the choices of a study are.
        let inputs: Vec<Input<'_>> = (0..INPUTS)
            .map(|index| match index * varying / INPUTS != (index + 1) * varying / INPUTS {
                true => Input::Varying(&columns[index]),
                false => Input::Uniform(columns[index][0]),
            })
            .collect();
        let time = mean(repetitions, || {
            let mut rows: Vec<&mut [f64]> = outputs.iter_mut().map(Vec::as_mut_slice).collect();
            tape.evaluate(&inputs, points, &mut rows).map(drop)
        })?;
        println!("{varying} of {INPUTS} inputs varying: {:.3e} points/s", points as f64 / time);
    }
    let sums: Vec<f64> = outputs.iter().map(|output| output.iter().sum()).collect();
    println!("sums {sums:?}");

    let point: Vec<f64> = columns.iter().map(|column| column[0]).collect();
    let wrt: Vec<u32> = (0..INPUTS as u32).collect();
    let time =
        mean(repetitions, || (0..100).try_for_each(|_| tape.jacobian(&point, &wrt).map(drop)))?;
    println!("Jacobian of {OUTPUTS} outputs by {INPUTS} inputs: {:.1} us", time * 1e4);
    let batch = points.min(2048);
    let inputs: Vec<Input<'_>> =
        columns.iter().map(|column| Input::Varying(&column[..batch])).collect();
    let mut derivatives = vec![0.0; OUTPUTS * INPUTS * batch];
    let time = mean(repetitions, || {
        tape.jacobian_batch(&inputs, batch, &wrt, None, &mut derivatives).map(drop)
    })?;
    println!("the same in a batch of {batch}: {:.2} us per point", time * 1e6 / batch as f64);
    let inputs: Vec<Input<'_>> = point.iter().map(|&value| Input::Uniform(value)).collect();
    let mut single = [[0.0]; OUTPUTS];
    let time = mean(repetitions, || {
        (0..1000).try_for_each(|_| {
            let mut rows: Vec<&mut [f64]> = single.iter_mut().map(|row| &mut row[..]).collect();
            tape.evaluate(&inputs, 1, &mut rows).map(drop)
        })
    })?;
    println!("one point: {:.2} us", time * 1e3);
    Ok(())
}
