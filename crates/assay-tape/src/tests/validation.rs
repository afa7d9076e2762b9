//! Programs and arguments that are refused, and what the message says.

use super::blocks::square_root_program;
use super::programs::Builder;
use crate::{Block, Input, Method, Op, Program, Tape};

fn refusal(program: &Program) -> String {
    Tape::new(program).unwrap_err().to_string()
}

#[test]
fn invalid_programs_are_rejected() {
    let with = |op, a, b, c| {
        let mut builder = Builder::new(2, &[1.0]);
        builder.push(op, a, b, c);
        builder.0
    };
    let mut missing = with(Op::Add, 0, 1, 0);
    missing.outputs = vec![4];
    for (program, message) in [
        (
            with(Op::Add, 0, 3, 0),
            "operand b of add at instruction 0: expected an earlier value, below 3, got 3",
        ),
        (
            with(Op::Select, 0, 1, 7),
            "operand c of select at instruction 0: expected an earlier value, below 3, got 7",
        ),
        (
            with(Op::Powi, 0, 65, 0),
            "exponent of powi at instruction 0: expected -64 to 64, got 65\nhint: use pow",
        ),
        (
            with(Op::Powi, 0, (-65_i32) as u32, 0),
            "exponent of powi at instruction 0: expected -64 to 64, got -65\nhint: use pow",
        ),
        (
            with(Op::Block, 0, 0, 0),
            "block at instruction 0: expected a block number below 0, got 0",
        ),
        (
            with(Op::Extract, 1, 0, 0),
            "extract at instruction 0: expected the value number of a block instruction, got 1",
        ),
        (missing, "output 0: expected a value number below 4, got 4"),
    ] {
        assert_eq!(refusal(&program), message);
    }
    let too_many = Program { input_count: usize::MAX, constants: vec![1.0], ..Program::default() };
    assert!(refusal(&too_many).starts_with("tape too large: expected at most 4294967295 values"));
}

#[test]
fn invalid_blocks_are_rejected() {
    type Change = fn(&mut Program);
    let table: [(Change, &str); 16] = [
        (|p| p.code[1].b = 3, "extract at instruction 1: expected a member below 2, got 3"),
        (
            |p| p.code[1].op = Op::Neg,
            "operand a of neg at instruction 1: expected a number, got value 3, which is a whole \
             block\nhint: read one of its members with extract",
        ),
        (
            |p| p.outputs[0] = 3,
            "output 0: expected a number, got value 3, which is a whole block\n\
             hint: read one of its members with extract",
        ),
        (
            |p| p.blocks[0].start[0] = 9,
            "start 0 of block 0 at instruction 0: expected a value number below 3, got 9",
        ),
        (
            |p| p.blocks[0].externals[0] = 4,
            "external 0 of block 0 at instruction 0: expected a value number below 3, got 4",
        ),
        (
            |p| p.blocks[0].inner.code[0].a = 90,
            "operand a of div at instruction 0 of block 0: expected an earlier value, below 3, got 90",
        ),
        (
            |p| p.blocks[0].inner.outputs[1] = 90,
            "output 1 of block 0: expected a value number below 7, got 90",
        ),
        (
            |p| p.blocks[0].inner.outputs.clear(),
            "inner outputs of block 0: expected at least 1, one per unknown, got 0",
        ),
        (
            |p| p.blocks[0].inner.input_count = 5,
            "inner input count of block 0: expected 2, the unknowns and the externals, got 5",
        ),
        (
            |p| p.blocks[0].start.clear(),
            "start of block 0: expected at least one unknown, got none",
        ),
        (
            |p| p.blocks[0].lower = vec![],
            "lower of block 0: expected 1 bounds, one per unknown, got 0",
        ),
        (
            |p| p.blocks[0].lower = vec![f64::NAN],
            "lower of block 0: expected at most the upper bound inf, got NaN",
        ),
        (
            |p| p.blocks[0].relative_tolerance = -1.0,
            "relative tolerance of block 0: expected a finite number, at least 0, got -1",
        ),
        (
            |p| p.blocks[0].absolute_tolerance = f64::NAN,
            "absolute tolerance of block 0: expected a finite number, at least 0, got NaN",
        ),
        (
            |p| p.blocks[0].max_iterations = 0,
            "max iterations of block 0: expected at least 1, got 0",
        ),
        (
            |p| p.blocks[0].method = Method::FixedPoint { damping: 0.0 },
            "damping of block 0: expected above 0 and at most 1, got 0",
        ),
    ];
    for (change, message) in table {
        let mut program = square_root_program();
        change(&mut program);
        assert_eq!(refusal(&program), message);
    }
    let mut nested = square_root_program();
    let inner: Block = nested.blocks[0].clone();
    nested.blocks[0].inner.blocks.push(inner);
    assert_eq!(
        refusal(&nested),
        "block 0: expected an inner program without blocks, got a nested block\n\
         hint: merge the inner unknowns into one block"
    );
    nested.blocks[0].inner.blocks.clear();
    nested.blocks[0].inner.code[0].op = Op::Block;
    assert!(refusal(&nested).starts_with("block 0: expected an inner program without blocks"));
}

#[test]
fn invalid_arguments_are_rejected() {
    let mut builder = Builder::new(2, &[]);
    let sum = builder.push(Op::Add, 0, 1, 0);
    builder.0.outputs = vec![sum];
    let tape = Tape::new(&builder.0).unwrap();
    let (mut two, mut three) = ([0.0; 2], [0.0; 3]);
    let uniform = [Input::Uniform(1.0), Input::Uniform(2.0)];
    let short = [Input::Uniform(1.0), Input::Varying(&[1.0])];
    let message = |result: Result<_, crate::TapeError>| -> String {
        result.map(|_: crate::EvaluationReport| ()).unwrap_err().to_string()
    };
    assert_eq!(
        message(tape.evaluate(&uniform[..1], 2, &mut [&mut two])),
        "length of inputs: expected 2, got 1"
    );
    assert_eq!(
        message(tape.evaluate(&short, 2, &mut [&mut two])),
        "length of input 1: expected 2, got 1"
    );
    assert_eq!(
        message(tape.evaluate(&uniform, 2, &mut [])),
        "length of outputs: expected 1, got 0"
    );
    assert_eq!(
        message(tape.evaluate(&uniform, 2, &mut [&mut three])),
        "length of output 0: expected 2, got 3"
    );
    assert_eq!(
        message(tape.jacobian_batch(&uniform, 1, &[0, 2], None, &mut two)),
        "derivative with respect to input 2: expected an input below 2"
    );
    assert_eq!(
        message(tape.jacobian_batch(&uniform, 1, &[0, 1], None, &mut three)),
        "length of derivatives: expected 2, got 3"
    );
    assert_eq!(
        message(tape.jvp(&uniform, 2, &short, &mut [&mut two])),
        "length of tangent 1: expected 2, got 1"
    );
    assert_eq!(
        message(tape.vjp(&uniform, 2, &uniform, &mut [&mut two])),
        "length of cotangents: expected 1, got 2"
    );
}
