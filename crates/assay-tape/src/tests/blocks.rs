//! Simultaneous relations: solutions, failures and derivatives.

use proptest::prelude::*;

use super::derivatives::{backward, differences, forward, outputs};
use super::programs::{Builder, same};
use crate::simd_level::SimdLevel;
use crate::{Block, EvaluationReport, Input, Method, Op, Program, Tape};

fn block(inner: Program, start: &[u32], externals: &[u32]) -> Block {
    Block {
        inner,
        start: start.to_vec(),
        externals: externals.to_vec(),
        method: Method::Newton,
        relative_tolerance: 1e-12,
        absolute_tolerance: 0.0,
        max_iterations: 100,
        lower: vec![f64::NEG_INFINITY; start.len()],
        upper: vec![f64::INFINITY; start.len()],
    }
}

/// Inputs `p` and a start; outputs the `x` with `x = (x + p / x) / 2`, and `x^2 + p`.
pub(super) fn square_root_program() -> Program {
    let mut inner = Builder::new(2, &[0.5]);
    let quotient = inner.push(Op::Div, 1, 0, 0);
    let sum = inner.push(Op::Add, 0, quotient, 0);
    let half = inner.push(Op::Mul, sum, 2, 0);
    let square = inner.push(Op::Add, 1, half, 0);
    inner.0.outputs = vec![half, square];
    let mut outer = Builder::new(2, &[1.0]);
    let solved = outer.push(Op::Block, 0, 0, 0);
    let root = outer.push(Op::Extract, solved, 0, 0);
    let square = outer.push(Op::Extract, solved, 1, 0);
    outer.0.outputs = vec![root, square];
    outer.0.blocks = vec![block(inner.0, &[1], &[0])];
    outer.0
}

fn evaluate(tape: &Tape, inputs: &[Input<'_>], points: usize) -> (Vec<Vec<f64>>, EvaluationReport) {
    let mut values = vec![vec![0.0; points]; tape.output_count()];
    let mut rows: Vec<&mut [f64]> = values.iter_mut().map(Vec::as_mut_slice).collect();
    let report = tape.evaluate(inputs, points, &mut rows).unwrap();
    (values, report)
}

#[test]
fn newton_and_fixed_point_iteration_find_the_root() {
    for method in
        [Method::Newton, Method::FixedPoint { damping: 1.0 }, Method::FixedPoint { damping: 0.5 }]
    {
        let mut program = square_root_program();
        program.blocks[0].method = method;
        let tape = Tape::new(&program).unwrap();
        let squares: Vec<f64> = (1..2000).map(|number| f64::from(number) * 0.37).collect();
        let inputs = [Input::Varying(&squares), Input::Uniform(3.0)];
        let (values, report) = evaluate(&tape, &inputs, squares.len());
        assert_eq!(report.unconverged, [], "{method:?}");
        for (square, root) in squares.iter().zip(&values[0]) {
            assert!((root - square.sqrt()).abs() < 1e-11 * root, "{method:?}: {square}: {root}");
        }
    }
}

#[test]
fn unconverged_points_are_counted_and_nan() {
    let tape = Tape::new(&square_root_program()).unwrap();
    // No real root of -2; the start 0 divides by zero.
    let squares = [4.0, -2.0, 9.0, 9.0];
    let starts = [1.0, 1.0, 0.0, 1.0];
    let (values, report) = evaluate(&tape, &[Input::Varying(&squares), Input::Varying(&starts)], 4);
    assert_eq!(report.unconverged, [(0, 2)]);
    for member in &values {
        assert!(member[1].is_nan() && member[2].is_nan());
        assert!(member[0].is_finite() && member[3].is_finite());
    }
    let (values, report) = evaluate(&tape, &[Input::Uniform(-2.0), Input::Uniform(1.0)], 7);
    assert_eq!(report, EvaluationReport { points: 7, unconverged: vec![(0, 7)] });
    assert!(values.concat().iter().all(|value| value.is_nan()));
    let mut derivatives = [0.0; 8];
    let inputs = [Input::Varying(&squares), Input::Varying(&starts)];
    let report = tape.jacobian_batch(&inputs, 4, &[0], None, &mut derivatives).unwrap();
    assert_eq!(report.unconverged, [(0, 2)]);
    assert!((derivatives[0] - 0.25).abs() < 1e-12 && derivatives[1].is_nan());
}

#[test]
fn bounds_select_the_root_and_are_not_roots() {
    // x = x - (x^2 - p): roots at plus and minus sqrt(p).
    let unbounded = single_unknown(&[], |inner| {
        let square = inner.push(Op::Mul, 0, 0, 0);
        let residual = inner.push(Op::Sub, square, 1, 0);
        inner.push(Op::Sub, 0, residual, 0)
    });
    let bounded = |lower: f64, upper: f64| {
        let mut program = unbounded.clone();
        program.blocks[0].lower = vec![lower];
        program.blocks[0].upper = vec![upper];
        outputs(&Tape::new(&program).unwrap(), &[9.0, 0.5])[0]
    };
    assert!((bounded(0.1, 10.0) - 3.0).abs() < 1e-12);
    assert!((bounded(-10.0, -0.1) + 3.0).abs() < 1e-12);
    assert!(bounded(4.0, 10.0).is_nan());
    assert!(bounded(0.1, 2.0).is_nan());
}

/// Inputs `p` and a start; outputs the unknown that `relation` of unknown 0 and `p` 1 yields.
fn single_unknown(constants: &[f64], relation: impl Fn(&mut Builder) -> u32) -> Program {
    let mut inner = Builder::new(2, constants);
    let next = relation(&mut inner);
    inner.0.outputs = vec![next];
    let mut outer = Builder::new(2, &[]);
    let solved = outer.push(Op::Block, 0, 0, 0);
    let found = outer.push(Op::Extract, solved, 0, 0);
    outer.0.outputs = vec![found];
    outer.0.blocks = vec![block(inner.0, &[1], &[0])];
    outer.0
}

#[test]
fn line_search_backtracks_from_overshooting_steps() {
    // x = x - atan(x - p): full Newton steps diverge from starts further than 1.4 from p.
    let program = single_unknown(&[], |inner| {
        let distance = inner.push(Op::Sub, 0, 1, 0);
        let angle = inner.push(Op::Atan, distance, 0, 0);
        inner.push(Op::Sub, 0, angle, 0)
    });
    let tape = Tape::new(&program).unwrap();
    for start in [-300.0, -2.0, 1.0, 5.0, 1e4] {
        let found = outputs(&tape, &[2.0, start])[0];
        assert!((found - 2.0).abs() < 1e-12, "from {start}: {found}");
    }
}

#[test]
fn solution_at_zero_needs_an_absolute_tolerance() {
    // x = x / 2 halves for ever; no step is small beside x itself.
    let mut program = single_unknown(&[0.5], |inner| inner.push(Op::Mul, 0, 2, 0));
    program.blocks[0].method = Method::FixedPoint { damping: 1.0 };
    let found = |program: &Program| outputs(&Tape::new(program).unwrap(), &[0.0, 1.0])[0];
    assert!(found(&program).is_nan());
    program.blocks[0].absolute_tolerance = 1e-6;
    assert!(found(&program).abs() <= 1e-6);
    program.blocks[0].max_iterations = 19;
    assert!(found(&program).is_nan());
}

#[test]
fn residual_at_rounding_level_counts_as_converged() {
    // x = (x + 30) - 30 + (p - x^2) / 10^6: adding 30 rounds x, more than the slope makes up for.
    let program = single_unknown(&[30.0, 1e-6], |inner| {
        let raised = inner.push(Op::Add, 0, 2, 0);
        let rounded = inner.push(Op::Sub, raised, 2, 0);
        let square = inner.push(Op::Mul, 0, 0, 0);
        let difference = inner.push(Op::Sub, 1, square, 0);
        let slight = inner.push(Op::Mul, difference, 3, 0);
        inner.push(Op::Add, rounded, slight, 0)
    });
    let tape = Tape::new(&program).unwrap();
    let squares: Vec<f64> = (0..500).map(|number| 1.5 + f64::from(number) * 1e-3).collect();
    let inputs = [Input::Varying(&squares), Input::Uniform(1.0)];
    let (values, report) = evaluate(&tape, &inputs, squares.len());
    assert_eq!(report.unconverged, []);
    for (square, root) in squares.iter().zip(&values[0]) {
        assert!((root - square.sqrt()).abs() < 1e-8, "{square}: {root}");
    }
}

#[test]
fn point_is_bit_identical_alone_and_in_a_batch() {
    let tape = Tape::new(&square_root_program()).unwrap();
    // Starts near and far, so that lanes finish at different iterations.
    let squares: Vec<f64> = (0..1100).map(|number| 0.01 + f64::from(number % 97)).collect();
    let starts: Vec<f64> = (0..1100).map(|number| 10.0_f64.powi(number % 13 - 6)).collect();
    let inputs = [Input::Varying(&squares), Input::Varying(&starts)];
    let (values, _) = evaluate(&tape, &inputs, squares.len());
    for point in (0..squares.len()).step_by(61) {
        let alone = outputs(&tape, &[squares[point], starts[point]]);
        assert!(same(alone[0], values[0][point]) && same(alone[1], values[1][point]));
    }
    for level in SimdLevel::available() {
        let mut again = vec![vec![0.0; squares.len()]; 2];
        let mut rows: Vec<&mut [f64]> = again.iter_mut().map(Vec::as_mut_slice).collect();
        tape.evaluate_at(level, &inputs, squares.len(), &mut rows).unwrap();
        for (left, right) in again.concat().iter().zip(values.concat()) {
            assert!(same(*left, right), "{level:?}");
        }
    }
}

#[test]
fn unused_block_is_not_solved() {
    let mut program = square_root_program();
    program.outputs = vec![0];
    let tape = Tape::new(&program).unwrap();
    let (values, report) = evaluate(&tape, &[Input::Uniform(-2.0), Input::Uniform(1.0)], 1);
    assert_eq!((values, report.unconverged), (vec![vec![-2.0]], vec![]));
    // It keeps its number, also through the stored format.
    let mut program = square_root_program();
    program.blocks.insert(0, program.blocks[0].clone());
    program.code[0].a = 1;
    let tape = Tape::from_bytes(&Tape::new(&program).unwrap().to_bytes()).unwrap();
    let (_, report) = evaluate(&tape, &[Input::Uniform(-2.0), Input::Uniform(1.0)], 1);
    assert_eq!(report.unconverged, [(1, 1)]);
}

/// `x_i = sum_j a_ij tanh(x_j) + p_i + q`, with the sum of all `x_j^2 q` as a further member, read
/// by an outer program that adds its inputs.
fn coupled(size: usize, weights: &[f64]) -> Program {
    let mut inner = Builder::new(2 * size + 1, weights);
    let weight = |row: usize, column: usize| (2 * size + 1 + row * size + column) as u32;
    let bounded: Vec<u32> =
        (0..size).map(|unknown| inner.push(Op::Tanh, unknown as u32, 0, 0)).collect();
    let mut relations = Vec::new();
    for row in 0..size {
        let mut sum = inner.push(Op::Add, (size + row) as u32, 2 * size as u32, 0);
        for (column, &value) in bounded.iter().enumerate() {
            let term = inner.push(Op::Mul, weight(row, column), value, 0);
            sum = inner.push(Op::Add, sum, term, 0);
        }
        relations.push(sum);
    }
    let mut total = inner.push(Op::Mul, 0, 0, 0);
    for unknown in 1..size as u32 {
        let square = inner.push(Op::Mul, unknown, unknown, 0);
        total = inner.push(Op::Add, total, square, 0);
    }
    relations.push(inner.push(Op::Mul, total, 2 * size as u32, 0));
    inner.0.outputs = relations;
    let mut outer = Builder::new(size + 1, &[0.0]);
    let zero = size as u32 + 1;
    // The parameters reach the block through another operation, and the result leaves likewise.
    let doubled: Vec<u32> =
        (0..size as u32).map(|input| outer.push(Op::Add, input, input, 0)).collect();
    let solved = outer.push(Op::Block, 0, 0, 0);
    for member in 0..=size as u32 {
        let value = outer.push(Op::Extract, solved, member, 0);
        let result = outer.push(Op::Mul, value, 0, 0);
        outer.0.outputs.push(result);
    }
    let mut externals = doubled;
    externals.push(size as u32);
    outer.0.blocks = vec![block(inner.0, &vec![zero; size], &externals)];
    outer.0
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn coupled_relations_hold_and_have_exact_derivatives(
        size in 1..5_usize,
        weights in prop::collection::vec(-0.2..0.2_f64, 16),
        parameters in prop::collection::vec(0.2..1.0_f64, 5),
    ) {
        let weights = &weights[..size * size];
        let inputs = &parameters[..size + 1];
        let tape = Tape::new(&coupled(size, weights)).unwrap();
        let values = outputs(&tape, inputs);
        let unknowns: Vec<f64> = values[..size].iter().map(|value| value / inputs[0]).collect();
        for row in 0..size {
            let coupling: f64 = (0..size)
                .map(|column| weights[row * size + column] * unknowns[column].tanh())
                .sum();
            let relation = coupling + 2.0 * inputs[row] + inputs[size];
            prop_assert!((relation - unknowns[row]).abs() < 1e-12 * (1.0 + unknowns[row].abs()));
        }
        let squares: f64 = unknowns.iter().map(|value| value * value).sum();
        let further = squares * inputs[size] * inputs[0];
        prop_assert!((values[size] - further).abs() < 1e-12 * (1.0 + further));
        let (forward, backward) = (forward(&tape, inputs), backward(&tape, inputs));
        let expected = differences(&tape, inputs);
        for index in 0..forward.len() {
            prop_assert!((forward[index] - backward[index]).abs() < 1e-12 * (1.0 + forward[index].abs()));
            prop_assert!((forward[index] - expected[index]).abs() < 1e-6 * (1.0 + expected[index].abs()));
        }
    }
}

#[test]
fn solution_has_no_derivative_by_the_start() {
    let tape = Tape::new(&square_root_program()).unwrap();
    for jacobian in [forward(&tape, &[4.0, 1.0]), backward(&tape, &[4.0, 1.0])] {
        // x = sqrt(p) and h = p + x, by p and by the start.
        for (entry, want) in jacobian.iter().zip([0.25, 0.0, 1.25, 0.0]) {
            assert!((entry - want).abs() < 1e-12, "{jacobian:?}");
        }
    }
}
