//! Derivatives: forward against backward, and both against differences.

use proptest::prelude::*;

use super::programs::{Builder, any_program, interpret, same};
use super::smooth::smooth_program;
use crate::partials::PrimalOperands;
use crate::simd_level::SimdLevel;
use crate::{Input, Op, Program, Tape};

fn uniform(inputs: &[f64]) -> Vec<Input<'_>> {
    inputs.iter().copied().map(Input::Uniform).collect()
}

/// All outputs at one point.
pub(super) fn outputs(tape: &Tape, inputs: &[f64]) -> Vec<f64> {
    let mut values = vec![[0.0]; tape.output_count()];
    let mut rows: Vec<&mut [f64]> = values.iter_mut().map(|row| &mut row[..]).collect();
    tape.evaluate(&uniform(inputs), 1, &mut rows).unwrap();
    values.concat()
}

/// The Jacobian at one point by forward sweeps only.
pub(super) fn forward(tape: &Tape, inputs: &[f64]) -> Vec<f64> {
    let mut jacobian = vec![0.0; tape.output_count() * inputs.len()];
    for column in 0..inputs.len() {
        let mut tangents = vec![Input::Uniform(0.0); inputs.len()];
        tangents[column] = Input::Uniform(1.0);
        let mut change = vec![[0.0]; tape.output_count()];
        let mut rows: Vec<&mut [f64]> = change.iter_mut().map(|row| &mut row[..]).collect();
        tape.jvp(&uniform(inputs), 1, &tangents, &mut rows).unwrap();
        for (output, change) in change.iter().enumerate() {
            jacobian[output * inputs.len() + column] = change[0];
        }
    }
    jacobian
}

/// The Jacobian at one point by backward sweeps only.
pub(super) fn backward(tape: &Tape, inputs: &[f64]) -> Vec<f64> {
    let mut jacobian = Vec::new();
    for output in 0..tape.output_count() {
        let mut weights = vec![Input::Uniform(0.0); tape.output_count()];
        weights[output] = Input::Uniform(1.0);
        let mut gradient = vec![[0.0]; inputs.len()];
        let mut rows: Vec<&mut [f64]> = gradient.iter_mut().map(|row| &mut row[..]).collect();
        tape.vjp(&uniform(inputs), 1, &weights, &mut rows).unwrap();
        jacobian.extend(gradient.concat());
    }
    jacobian
}

/// The Jacobian at one point by gradients of its outputs.
fn gradients(tape: &Tape, inputs: &[f64]) -> Vec<f64> {
    let mut jacobian = vec![0.0; tape.output_count() * inputs.len()];
    for (output, row) in jacobian.chunks_exact_mut(inputs.len().max(1)).enumerate() {
        let mut weights = vec![0.0; tape.output_count()];
        weights[output] = 1.0;
        tape.gradient(inputs, &weights, row).unwrap();
    }
    jacobian
}

/// The Jacobian by central differences, extrapolated from two step sizes.
pub(super) fn differences(tape: &Tape, inputs: &[f64]) -> Vec<f64> {
    let mut jacobian = vec![0.0; tape.output_count() * inputs.len()];
    for column in 0..inputs.len() {
        let slope = |step: f64| -> Vec<f64> {
            let moved = |by: f64| {
                let mut inputs = inputs.to_vec();
                inputs[column] += by;
                outputs(tape, &inputs)
            };
            let (above, below) = (moved(step), moved(-step));
            above.iter().zip(&below).map(|(above, below)| (above - below) / (2.0 * step)).collect()
        };
        let step = 1e-3 * inputs[column].abs().max(0.1);
        let (wide, narrow) = (slope(step), slope(step / 2.0));
        for output in 0..tape.output_count() {
            jacobian[output * inputs.len() + column] = (4.0 * narrow[output] - wide[output]) / 3.0;
        }
    }
    jacobian
}

/// For each entry of the Jacobian, the sum of the absolute contributions of all paths: what
/// rounding errors are measured against, since contributions may cancel.
fn magnitudes(program: &Program, inputs: &[f64]) -> Vec<f64> {
    let mut everything = program.clone();
    let total = program.first_instruction() + program.code.len();
    everything.outputs = (0..total as u32).collect();
    let values = interpret(&everything, inputs);
    let mut paths = vec![vec![0.0; inputs.len()]; total];
    for (input, row) in paths.iter_mut().enumerate().take(inputs.len()) {
        row[input] = 1.0;
    }
    for (index, step) in program.code.iter().enumerate() {
        let result = program.first_instruction() + index;
        let operands = [step.a, step.b, step.c];
        let lane = |used: usize| match step.op.arity() > used {
            true => std::slice::from_ref(&values[operands[used] as usize]),
            false => &values[..1],
        };
        let primal = PrimalOperands {
            op: step.op,
            immediate: step.b,
            a: lane(0),
            b: lane(1),
            c: lane(2),
            result: std::slice::from_ref(&values[result]),
        };
        for (operand, &value) in operands[..step.op.arity()].iter().enumerate() {
            let mut partial = [0.0];
            SimdLevel::best().accumulate(&primal, operand, &[1.0], &mut partial);
            let through = paths[value as usize].clone();
            for (sum, term) in paths[result].iter_mut().zip(through) {
                *sum += partial[0].abs() * term;
            }
        }
    }
    let rows = program.outputs.iter().map(|&output| paths[output as usize].clone());
    rows.collect::<Vec<_>>().concat()
}

fn assert_close(left: &[f64], right: &[f64], tolerance: f64, scale: f64, what: &str) {
    for (index, (left, right)) in left.iter().zip(right).enumerate() {
        let allowed = tolerance * (left.abs().max(right.abs()) + scale);
        assert!(
            left == right || (left - right).abs() <= allowed,
            "{what}, entry {index}: {left} and {right}"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn derivatives_of_smooth_programs_match_differences(
        program in smooth_program(),
        inputs in prop::collection::vec(-1.5..1.5_f64, 5),
    ) {
        let tape = Tape::new(&program).unwrap();
        let inputs = &inputs[..program.input_count];
        let values = outputs(&tape, inputs);
        // Sums of large terms lose digits that no derivative can bring back.
        prop_assume!(values.iter().all(|value| value.abs() < 1e3));
        let (forward, backward) = (forward(&tape, inputs), backward(&tape, inputs));
        let gradients = gradients(&tape, inputs);
        let all: Vec<u32> = (0..inputs.len() as u32).collect();
        let jacobian = tape.jacobian(inputs, &all).unwrap();
        let expected = differences(&tape, inputs);
        for (index, magnitude) in magnitudes(&program, inputs).into_iter().enumerate() {
            let exact = forward[index];
            prop_assert!((exact - backward[index]).abs() <= 1e-12 * magnitude);
            prop_assert!((exact - jacobian[index]).abs() <= 1e-12 * magnitude);
            prop_assert!((exact - gradients[index]).abs() <= 1e-12 * magnitude);
            // Differences lose digits of the values and miss higher derivatives besides.
            let error = (exact - expected[index]).abs();
            prop_assert!(error <= 1e-5 * (1.0 + magnitude), "{exact} and {}", expected[index]);
        }
    }

    #[test]
    fn differentiating_any_program_does_not_panic(
        program in any_program(),
        inputs in prop::collection::vec(super::programs::any_value(), 6),
    ) {
        let tape = Tape::new(&program).unwrap();
        let inputs = &inputs[..program.input_count];
        prop_assert_eq!(forward(&tape, inputs).len(), backward(&tape, inputs).len());
    }

    #[test]
    fn batched_jacobian_equals_pointwise_jacobians(
        program in smooth_program(),
        points in prop_oneof![1..5_usize, 500..530_usize],
        seeds in prop::collection::vec(-1.5..1.5_f64, 7),
        few_wrt in any::<bool>(),
    ) {
        let tape = Tape::new(&program).unwrap();
        let columns: Vec<Vec<f64>> = (0..program.input_count)
            .map(|input| seeds.iter().cycle().skip(input).take(points).copied().collect())
            .collect();
        let mut inputs: Vec<Input<'_>> = columns.iter().map(|column| Input::Varying(column)).collect();
        inputs[0] = Input::Uniform(seeds[0]);
        let count = if few_wrt { 1 } else { program.input_count };
        let wrt: Vec<u32> = (0..count as u32).rev().collect();
        let mut derivatives = vec![0.0; tape.output_count() * count * points];
        let mut values = vec![vec![0.0; points]; tape.output_count()];
        let mut rows: Vec<&mut [f64]> = values.iter_mut().map(Vec::as_mut_slice).collect();
        tape.jacobian_batch(&inputs, points, &wrt, Some(&mut rows), &mut derivatives).unwrap();
        for point in [0, points / 2, points - 1] {
            let mut at: Vec<f64> = columns.iter().map(|column| column[point]).collect();
            at[0] = seeds[0];
            let alone = tape.jacobian(&at, &wrt).unwrap();
            for (index, entry) in alone.iter().enumerate() {
                prop_assert!(same(*entry, derivatives[index * points + point]));
            }
            for (row, value) in values.iter().zip(outputs(&tape, &at)) {
                prop_assert!(same(row[point], value));
            }
        }
    }
}

/// `op(a, b)` with both operands inputs; the immediate of `powi` is `b`.
fn single(op: Op, b: u32) -> Tape {
    let mut builder = Builder::new(3, &[]);
    let result = builder.push(op, 0, b, 2);
    builder.0.outputs = vec![result];
    Tape::new(&builder.0).unwrap()
}

#[test]
fn partials_of_every_operation_match_differences() {
    let points = [[0.3, 0.7, 1.0], [1.3, -0.4, 0.0], [2.1, 1.6, -2.0]];
    for &op in Op::ALL {
        if matches!(op, Op::Block | Op::Extract) {
            continue;
        }
        let exponents: &[u32] = match op {
            Op::Powi => &[0, 1, 2, 5, (-1_i32) as u32, (-3_i32) as u32],
            _ => &[1],
        };
        for &b in exponents {
            let tape = single(op, b);
            for inputs in &points {
                let expected = differences(&tape, inputs);
                assert_close(&forward(&tape, inputs), &expected, 1e-8, 1e-8, op.name());
                assert_close(&backward(&tape, inputs), &expected, 1e-8, 1e-8, op.name());
            }
        }
    }
}

#[test]
fn derivatives_at_kinks_follow_the_convention() {
    const INFINITE: f64 = f64::INFINITY;
    let table = [
        (Op::Abs, [0.0, 0.0], [0.0, 0.0]),
        (Op::Abs, [-2.0, 0.0], [-1.0, 0.0]),
        (Op::Minimum, [1.0, 1.0], [1.0, 0.0]),
        (Op::Maximum, [1.0, 1.0], [1.0, 0.0]),
        (Op::Minimum, [2.0, 1.0], [0.0, 1.0]),
        (Op::Maximum, [2.0, 1.0], [1.0, 0.0]),
        (Op::Floor, [1.5, 0.0], [0.0, 0.0]),
        (Op::Modulo, [7.5, 2.0], [1.0, -3.0]),
        (Op::Modulo, [-7.5, 2.0], [1.0, 4.0]),
        (Op::Sqrt, [0.0, 0.0], [INFINITE, 0.0]),
        (Op::Pow, [0.0, 2.0], [0.0, 0.0]),
        (Op::Pow, [0.0, 1.0], [1.0, 0.0]),
        (Op::Pow, [0.0, 0.5], [INFINITE, 0.0]),
        (Op::Pow, [3.0, 0.0], [0.0, 3.0_f64.ln()]),
        (Op::Tanh, [20.0, 0.0], [1.699_341_702_116_650_7e-17, 0.0]),
    ];
    for (op, [a, b], [by_a, by_b]) in table {
        let tape = single(op, 1);
        for jacobian in [forward(&tape, &[a, b, 1.0]), backward(&tape, &[a, b, 1.0])] {
            assert_close(&jacobian[..2], &[by_a, by_b], 1e-14, 0.0, op.name());
        }
    }
}

#[test]
fn power_of_negative_base_has_a_derivative_by_the_base() {
    let mut builder = Builder::new(1, &[3.0]);
    let cube = builder.push(Op::Pow, 0, 1, 0);
    builder.0.outputs = vec![cube];
    let tape = Tape::new(&builder.0).unwrap();
    assert_eq!(forward(&tape, &[-2.0]), [12.0]);
    assert_eq!(backward(&tape, &[-2.0]), [12.0]);
    // Nor does asking for the base alone, among two inputs, spoil it.
    let tape = single(Op::Pow, 1);
    assert_eq!(tape.jacobian(&[-2.0, 3.0, 0.0], &[0]).unwrap(), [12.0]);
}

#[test]
fn infinite_partials_on_inactive_paths_do_not_propagate() {
    // sqrt(x) in the branch not taken, times zero, and as the larger of two at x = 0.
    let mut builder = Builder::new(1, &[0.0, -1.0]);
    let root = builder.push(Op::Sqrt, 0, 0, 0);
    let never = builder.push(Op::Select, root, 0, 1);
    let nothing = builder.push(Op::Mul, root, 1, 0);
    let smaller = builder.push(Op::Minimum, 2, root, 0);
    builder.0.outputs = vec![never, nothing, smaller];
    let tape = Tape::new(&builder.0).unwrap();
    assert_eq!(forward(&tape, &[0.0]), [1.0, 0.0, 0.0]);
    assert_eq!(backward(&tape, &[0.0]), [1.0, 0.0, 0.0]);
}

#[test]
fn outputs_may_be_inputs_constants_or_repeated() {
    let program = Program {
        input_count: 2,
        constants: vec![5.0],
        outputs: vec![1, 2, 1],
        ..Program::default()
    };
    let tape = Tape::new(&program).unwrap();
    let expected = [0.0, 1.0, 0.0, 0.0, 0.0, 1.0];
    assert_eq!(forward(&tape, &[3.0, 4.0]), expected);
    assert_eq!(backward(&tape, &[3.0, 4.0]), expected);
    assert_eq!(tape.jacobian(&[3.0, 4.0], &[1, 1]).unwrap(), [1.0, 1.0, 0.0, 0.0, 1.0, 1.0]);
    assert_eq!(tape.jacobian(&[3.0, 4.0], &[]).unwrap(), []);
    let mut gradient = [[0.0], [0.0]];
    let mut rows: Vec<&mut [f64]> = gradient.iter_mut().map(|row| &mut row[..]).collect();
    let weights = uniform(&[2.0, 3.0, 4.0]);
    tape.vjp(&uniform(&[3.0, 4.0]), 1, &weights, &mut rows).unwrap();
    assert_eq!(gradient, [[0.0], [6.0]]);
}
