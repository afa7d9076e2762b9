//! Values: every path against the plain interpreter, bit for bit.

use proptest::prelude::*;

use super::programs::{
    Builder, Columns, any_columns, any_program, arithmetic_program, interpret, same,
};
use crate::simd_level::SimdLevel;
use crate::{EvaluationReport, Input, Instruction, Op, Program, Tape};

/// All outputs at all points.
fn evaluate(tape: &Tape, level: SimdLevel, inputs: &[Input<'_>], points: usize) -> Vec<Vec<f64>> {
    // Filled with a number that no test computes, so that what is not written shows.
    let mut outputs = vec![vec![123.456_789; points]; tape.output_count()];
    let mut rows: Vec<&mut [f64]> = outputs.iter_mut().map(Vec::as_mut_slice).collect();
    let report = tape.evaluate_at(level, inputs, points, &mut rows).unwrap();
    assert_eq!(report, EvaluationReport { points, unconverged: vec![] });
    outputs
}

fn as_inputs(columns: &Columns, points: usize) -> Vec<Input<'_>> {
    columns
        .iter()
        .map(|(varies, column)| match *varies {
            true => Input::Varying(&column[..points]),
            false => Input::Uniform(column[0]),
        })
        .collect()
}

fn case() -> impl Strategy<Value = (Program, (usize, Columns))> {
    prop_oneof![any_program(), arithmetic_program()].prop_flat_map(|program| {
        let columns = any_columns(program.input_count);
        (Just(program), columns)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn every_simd_level_matches_the_interpreter((program, (points, columns)) in case()) {
        let tape = Tape::new(&program).unwrap();
        let inputs = as_inputs(&columns, points);
        for level in SimdLevel::available() {
            let outputs = evaluate(&tape, level, &inputs, points);
            for point in 0..points {
                let at = |input: &Input<'_>| match input {
                    Input::Uniform(value) => *value,
                    Input::Varying(column) => column[point],
                };
                let expected = interpret(&program, &inputs.iter().map(at).collect::<Vec<_>>());
                for (output, want) in outputs.iter().zip(&expected) {
                    prop_assert!(
                        same(output[point], *want),
                        "{level:?}, point {point}: {} instead of {want}", output[point]
                    );
                }
            }
        }
    }

    #[test]
    fn point_is_bit_identical_alone_and_in_a_batch((program, (points, columns)) in case()) {
        prop_assume!(points > 0);
        let tape = Tape::new(&program).unwrap();
        let inputs = as_inputs(&columns, points);
        let batch = evaluate(&tape, SimdLevel::best(), &inputs, points);
        let alone: Vec<Input<'_>> = inputs.iter().map(|input| match input {
            Input::Uniform(value) => Input::Uniform(*value),
            Input::Varying(column) => Input::Uniform(column[points - 1]),
        }).collect();
        let single = evaluate(&tape, SimdLevel::best(), &alone, 1);
        for (batch, single) in batch.iter().zip(&single) {
            prop_assert!(same(batch[points - 1], single[0]));
        }
    }
}

#[test]
fn programs_without_inputs_points_or_instructions_evaluate() {
    let mut builder = Builder::new(0, &[4.0]);
    let root = builder.push(Op::Sqrt, 0, 0, 0);
    builder.0.outputs = vec![root, 0, root];
    let tape = Tape::new(&builder.0).unwrap();
    assert_eq!(evaluate(&tape, SimdLevel::best(), &[], 3), [[2.0; 3], [4.0; 3], [2.0; 3]]);
    assert_eq!(evaluate(&tape, SimdLevel::best(), &[], 0), vec![Vec::<f64>::new(); 3]);

    let identity =
        Tape::new(&Program { input_count: 2, outputs: vec![1, 1, 0], ..Program::default() });
    let inputs = [Input::Varying(&[1.0, 2.0]), Input::Uniform(7.0)];
    let outputs = evaluate(&identity.unwrap(), SimdLevel::best(), &inputs, 2);
    assert_eq!(outputs, [[7.0, 7.0], [7.0, 7.0], [1.0, 2.0]]);
}

#[test]
fn dead_code_and_common_subexpressions_are_eliminated() {
    let mut builder = Builder::new(2, &[3.0, 3.0, 9.0]);
    let sum = builder.push(Op::Add, 0, 1, 0);
    let same_sum = builder.push(Op::Add, 1, 0, 99);
    builder.push(Op::Exp, 0, 0, 0);
    let scaled = builder.push(Op::Mul, sum, 2, 0);
    let same_scaled = builder.push(Op::Mul, same_sum, 3, 0);
    let first = builder.push(Op::Minimum, scaled, same_scaled, 0);
    let second = builder.push(Op::Minimum, 0, 1, 0);
    let third = builder.push(Op::Minimum, 1, 0, 0);
    builder.0.outputs = vec![first, second, third];
    let tape = Tape::new(&builder.0).unwrap();
    // The sum, its multiple, its minimum with itself, and two minima that differ at a tie.
    assert_eq!(tape.instruction_count(), 5);
    let values =
        evaluate(&tape, SimdLevel::best(), &[Input::Uniform(0.0), Input::Uniform(-0.0)], 1);
    assert!(values[1][0].is_sign_positive() && values[2][0].is_sign_negative());
}

#[test]
fn constants_are_distinguished_by_their_bits() {
    let constants = [0.0, -0.0, 2.0, -2.0, f64::NAN, 2.0];
    let mut program = Builder::new(0, &constants).0;
    program.outputs = (0..6).collect();
    let values = evaluate(&Tape::new(&program).unwrap(), SimdLevel::best(), &[], 1).concat();
    assert!(values.iter().zip(constants).all(|(value, constant)| same(*value, constant)));
}

#[test]
fn select_ignores_nan_of_the_other_branch() {
    let mut builder = Builder::new(1, &[0.0, 1.0]);
    let positive = builder.push(Op::Gt, 0, 1, 0);
    let logarithm = builder.push(Op::Log, 0, 0, 0);
    let chosen = builder.push(Op::Select, logarithm, 2, positive);
    builder.0.outputs = vec![chosen];
    let tape = Tape::new(&builder.0).unwrap();
    let outputs = evaluate(&tape, SimdLevel::best(), &[Input::Varying(&[1.0, -1.0, 0.0])], 3);
    assert_eq!(outputs, [[0.0, 1.0, 1.0]]);
}

#[test]
fn modulo_has_the_sign_of_the_divisor() {
    let mut builder = Builder::new(2, &[]);
    let remainder = builder.push(Op::Modulo, 0, 1, 0);
    builder.0.outputs = vec![remainder];
    let tape = Tape::new(&builder.0).unwrap();
    // As printed by Python's %.
    for (a, b, want) in [
        (5.0, 3.0, 2.0),
        (-5.0, 3.0, 1.0),
        (5.0, -3.0, -1.0),
        (-5.0, -3.0, -2.0),
        (6.0, -3.0, -0.0),
        (-6.0, 3.0, 0.0),
        (5.5, 2.0, 1.5),
        (-1e-20, 3.0, 3.0),
        (5.0, f64::INFINITY, 5.0),
        (-5.0, f64::INFINITY, f64::INFINITY),
        (1.0, 0.0, f64::NAN),
    ] {
        let got =
            evaluate(&tape, SimdLevel::best(), &[Input::Uniform(a), Input::Uniform(b)], 1)[0][0];
        assert!(same(got, want), "{a} % {b}: {got} instead of {want}");
    }
}

#[test]
fn tape_is_shared_by_many_threads() {
    let mut builder = Builder::new(2, &[]);
    let product = builder.push(Op::Mul, 0, 1, 0);
    builder.0.outputs = vec![product];
    let tape = Tape::new(&builder.0).unwrap();
    let column: Vec<f64> = (0..2000).map(f64::from).collect();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (tape, column) = (&tape, &column);
            scope.spawn(move || {
                for _ in 0..20 {
                    // Each thread needs another plan, so that they keep replacing the cached one.
                    let factor = Input::Uniform(f64::from(thread));
                    let inputs = match thread % 2 {
                        0 => [Input::Varying(column), factor],
                        _ => [factor, Input::Varying(column)],
                    };
                    let outputs = evaluate(tape, SimdLevel::best(), &inputs, 2000);
                    assert_eq!(outputs[0][1999], 1999.0 * f64::from(thread));
                }
            });
        }
    });
}

#[test]
fn a_tape_of_some_outputs_leaves_out_what_others_need() {
    let two = |op| Instruction { op, a: 0, b: 1, c: 0 };
    let program = Program {
        input_count: 2,
        code: vec![two(Op::Mul), two(Op::Add)],
        outputs: vec![2, 3],
        ..Program::default()
    };
    let whole = Tape::new(&program).unwrap();
    let sum = whole.with_outputs(&[1]).unwrap();
    assert_eq!((sum.output_count(), sum.instruction_count()), (1, 1));
    let mut out = [0.0];
    let inputs = [Input::Uniform(2.0), Input::Uniform(3.0)];
    sum.evaluate(&inputs, 1, &mut [&mut out]).unwrap();
    assert_eq!(out, [5.0]);
    assert!(whole.with_outputs(&[2]).is_err());
}
