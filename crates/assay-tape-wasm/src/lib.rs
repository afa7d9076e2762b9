//! Tapes for a page: the evaluator of `assay-tape` behind functions that JavaScript calls.
//!
//! JavaScript reserves memory here, writes numbers into it, and reads results from it; pointers are
//! offsets into the module's memory. A function that can fail returns 0 and leaves a message, which
//! `message` and `message_length` tell. A page has one thread, and so has the module.

use std::cell::RefCell;

use assay_tape::{Input, Tape};

thread_local! {
    static MESSAGE: RefCell<String> = const { RefCell::new(String::new()) };
}

fn fail(message: impl ToString) {
    MESSAGE.with(|slot| *slot.borrow_mut() = message.to_string());
}

/// Where the message of the last failure starts.
#[unsafe(no_mangle)]
pub extern "C" fn message() -> *const u8 {
    MESSAGE.with(|slot| slot.borrow().as_ptr())
}

/// The bytes of the message of the last failure, in UTF-8.
#[unsafe(no_mangle)]
pub extern "C" fn message_length() -> usize {
    MESSAGE.with(|slot| slot.borrow().len())
}

/// Reserves memory for `count` numbers of 64 bits, all 0.
#[unsafe(no_mangle)]
pub extern "C" fn reserve(count: usize) -> *mut f64 {
    Box::leak(vec![0.0; count].into_boxed_slice()).as_mut_ptr()
}

/// Gives memory back.
///
/// # Safety
///
/// `numbers` and `count` are those of one call of `reserve`, which was not given back before.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn release(numbers: *mut f64, count: usize) {
    // SAFETY: the caller passes what `reserve` leaked.
    drop(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(numbers, count)) });
}

/// Reads a stored tape; 0 where the bytes are none.
///
/// # Safety
///
/// `bytes` points to `length` readable bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tape_load(bytes: *const u8, length: usize) -> *mut Tape {
    // SAFETY: the caller passes readable bytes.
    let bytes = unsafe { std::slice::from_raw_parts(bytes, length) };
    boxed(Tape::from_bytes(bytes))
}

/// A tape of some outputs only, and of what they need; 0 where one does not exist.
///
/// # Safety
///
/// `tape` is one that this module made, and `outputs` points to `count` numbers of outputs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tape_of_outputs(
    tape: *const Tape,
    outputs: *const u32,
    count: usize,
) -> *mut Tape {
    // SAFETY: the caller passes a living tape and readable numbers.
    let (tape, outputs) = unsafe { (&*tape, std::slice::from_raw_parts(outputs, count)) };
    boxed(tape.with_outputs(outputs))
}

fn boxed<E: ToString>(tape: Result<Tape, E>) -> *mut Tape {
    match tape {
        Ok(tape) => Box::into_raw(Box::new(tape)),
        Err(error) => {
            fail(error);
            std::ptr::null_mut()
        }
    }
}

/// Forgets a tape.
///
/// # Safety
///
/// `tape` is one that this module made, which was not forgotten before.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tape_drop(tape: *mut Tape) {
    // SAFETY: the caller passes a tape that `boxed` leaked.
    drop(unsafe { Box::from_raw(tape) });
}

/// The number of inputs of a tape.
///
/// # Safety
///
/// `tape` is one that this module made.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tape_inputs(tape: *const Tape) -> usize {
    // SAFETY: the caller passes a living tape.
    unsafe { &*tape }.input_count()
}

/// The number of outputs of a tape.
///
/// # Safety
///
/// `tape` is one that this module made.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tape_outputs(tape: *const Tape) -> usize {
    // SAFETY: the caller passes a living tape.
    unsafe { &*tape }.output_count()
}

/// Computes every output at every point, output by output; 0 where that fails.
///
/// `inputs` has one number for each input, the same at every point, but for those that `moved` names:
/// `columns` has one number for each of these and each point, input by input.
///
/// # Safety
///
/// `tape` is one that this module made. The others point to as many numbers as said above, and
/// `outputs` to memory for one number for each output and point, which nothing else refers to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tape_evaluate(
    tape: *const Tape,
    inputs: *const f64,
    moved: *const u32,
    moved_count: usize,
    columns: *const f64,
    points: usize,
    outputs: *mut f64,
) -> u32 {
    // SAFETY: the caller passes a living tape and memory of these sizes.
    let (tape, inputs, moved, columns, outputs) = unsafe {
        let tape = &*tape;
        (
            tape,
            std::slice::from_raw_parts(inputs, tape.input_count()),
            std::slice::from_raw_parts(moved, moved_count),
            std::slice::from_raw_parts(columns, moved_count * points),
            std::slice::from_raw_parts_mut(outputs, tape.output_count() * points),
        )
    };
    let mut given: Vec<Input<'_>> = inputs.iter().copied().map(Input::Uniform).collect();
    for (place, &input) in moved.iter().enumerate() {
        match given.get_mut(input as usize) {
            Some(slot) => *slot = Input::Varying(&columns[place * points..(place + 1) * points]),
            None => {
                fail(format!("there is no input {input}"));
                return 0;
            }
        }
    }
    let mut rows: Vec<&mut [f64]> = outputs.chunks_exact_mut(points.max(1)).collect();
    match tape.evaluate(&given, points, &mut rows) {
        Ok(_) => 1,
        Err(error) => {
            fail(error);
            0
        }
    }
}

/// The derivative by every input of the outputs, weighted, at one point; 0 where that fails.
///
/// # Safety
///
/// `tape` is one that this module made, `inputs` points to one number for each input, `weights` to one
/// for each output, and `gradient` to memory for one for each input, which nothing else refers to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tape_gradient(
    tape: *const Tape,
    inputs: *const f64,
    weights: *const f64,
    gradient: *mut f64,
) -> u32 {
    // SAFETY: the caller passes a living tape and memory of these sizes.
    let (tape, inputs, weights, gradient) = unsafe {
        let tape = &*tape;
        (
            tape,
            std::slice::from_raw_parts(inputs, tape.input_count()),
            std::slice::from_raw_parts(weights, tape.output_count()),
            std::slice::from_raw_parts_mut(gradient, tape.input_count()),
        )
    };
    match tape.gradient(inputs, weights, gradient) {
        Ok(_) => 1,
        Err(error) => {
            fail(error);
            0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use assay_tape::{Instruction, Op, Program};

    /// x * y and x + y of two inputs.
    fn stored() -> Vec<u8> {
        let two = |op| Instruction { op, a: 0, b: 1, c: 0 };
        let program = Program {
            input_count: 2,
            code: vec![two(Op::Mul), two(Op::Add)],
            outputs: vec![2, 3],
            ..Program::default()
        };
        Tape::new(&program).expect("a valid program").to_bytes()
    }

    #[test]
    fn values_and_gradients_of_chosen_outputs() {
        let bytes = stored();
        // SAFETY: every pointer is to a vector or tape that lives until the end, of the size told.
        unsafe {
            let whole = tape_load(bytes.as_ptr(), bytes.len());
            let sum = tape_of_outputs(whole, [1].as_ptr(), 1);
            assert_eq!((tape_inputs(sum), tape_outputs(whole), tape_outputs(sum)), (2, 2, 1));
            let mut out = [0.0; 4];
            let columns = [3.0, 5.0];
            assert_eq!(
                tape_evaluate(
                    whole,
                    [2.0, 0.0].as_ptr(),
                    [1].as_ptr(),
                    1,
                    columns.as_ptr(),
                    2,
                    out.as_mut_ptr()
                ),
                1
            );
            assert_eq!(out, [6.0, 10.0, 5.0, 7.0]);
            let mut gradient = [0.0; 2];
            tape_gradient(whole, [2.0, 3.0].as_ptr(), [1.0, 0.5].as_ptr(), gradient.as_mut_ptr());
            assert_eq!(gradient, [3.5, 2.5]);
            tape_drop(sum);
            tape_drop(whole);
        }
    }

    #[test]
    fn bytes_that_are_no_tape_leave_a_message() {
        // SAFETY: the bytes live until the end.
        assert!(unsafe { tape_load(b"nothing".as_ptr(), 7) }.is_null());
        assert!(message_length() > 0);
    }
}
