//! Elementwise operations of arrays: a layout with as few axes as it can have, and a kernel for it.
//!
//! Small arrays share one kernel for each expression and format that is computed in, which learns
//! everything else when it runs. Large ones are worth a kernel that is compiled for their formats.

use super::axes::{ARRAYS, Axes};
use super::call::Call;
use super::element_names::{computed_type, element_type, moved_type};
use super::rows::line;
use super::tools::{Setting, Tools};
use crate::device::{Extent, Queue};
use assay_operations::{ElementFormat, MOST_AXES, Operand};
use assay_runtime::backend::Result;

const RESULT: usize = ARRAYS - 1;
const THREADS: u64 = 256;
/// Arrays of fewer elements are small.
const SMALL: u64 = 1 << 15;
/// What stands for a format where an input is a plain number, as in the kernel.
const NUMBER: u64 = 255;
/// The expression that changes nothing, so that elements need not be understood.
const COPY: &str = "a0";

type Name = fn(ElementFormat) -> Option<&'static str>;

/// What a thread of a kernel takes.
struct Reach {
    /// Whether all arrays lie in one piece, in the order of the result.
    dense: bool,
    /// Bits of the inputs that do not move along the last axis.
    same: u64,
    /// Elements at once.
    together: u64,
}

/// A call as it is read.
struct Elementwise {
    elements: Elements,
    computed: ElementFormat,
    axes: Axes,
}

impl Elementwise {
    fn index(&self) -> &'static str {
        match self.elements.count {
            count if count < u64::from(u32::MAX) => "u32",
            _ => "u64",
        }
    }

    /// How many elements a thread takes: 16 bytes of the widest array, where all are aligned to
    /// that and either all lie in one piece, or move along the last axis by one element or none.
    fn together(&self) -> Reach {
        let arrays = || self.elements.arrays.iter().enumerate();
        let used = || arrays().filter_map(|(index, array)| Some((index, (*array)?)));
        let bytes = |array: Operand| array.format.element_bytes().unwrap_or(1);
        let widest = used().map(|(_, array)| bytes(array)).max().unwrap_or(16);
        let together = (16 / widest).max(1);
        let aligned = |array: Operand| array.pointer.0.is_multiple_of(bytes(array) * together);
        let mut reach = Reach {
            dense: used().all(|(index, array)| self.axes.is_dense(index) && aligned(array)),
            same: 0,
            together,
        };
        if reach.dense {
            return reach;
        }
        let Some(last) = self.axes.count.checked_sub(1) else {
            reach.together = 1;
            return reach;
        };
        let whole = |steps: i64| steps.unsigned_abs().is_multiple_of(together);
        let along = used().all(|(index, array)| {
            let steps = &self.axes.steps[index];
            let stays = steps[last] == 0 && index != RESULT;
            reach.same |= u64::from(stays) << index;
            stays
                || (steps[last] == 1
                    && aligned(array)
                    && steps[..last].iter().all(|one| whole(*one)))
        });
        if !along || !whole(self.axes.extents[last]) {
            reach.same = 0;
            reach.together = 1;
        }
        reach
    }

    /// The kernel for these formats, and how many elements a thread of it takes.
    fn large(
        &self,
        call: &Call<'_>,
        expression: &'static str,
        computed: &'static str,
        name: Name,
    ) -> Result<([Setting; 12], Reach)> {
        let types = self.elements.arrays.map(|array| match array {
            Some(array) => name(array.format)
                .ok_or_else(|| call.error("arrays of numbers that kernels know", array.format)),
            None => Ok(computed),
        });
        let [first, second, third, result] = types;
        let arrays = self.elements.arrays[..RESULT].iter().enumerate();
        let numbers: u64 = arrays
            .map(|(index, array)| u64::from(array.is_none()) << index)
            .sum();
        let reach = self.together();
        let settings = [
            ("EXPRESSION", expression.into()),
            ("INPUTS", inputs(expression).into()),
            ("COMPUTED", computed.into()),
            ("INDEX", self.index().into()),
            ("TYPE0", first?.into()),
            ("TYPE1", second?.into()),
            ("TYPE2", third?.into()),
            ("RESULT", result?.into()),
            ("NUMBERS", numbers.into()),
            ("DENSE", reach.dense.into()),
            ("SAME", reach.same.into()),
            ("TOGETHER", reach.together.into()),
        ];
        Ok((settings, reach))
    }
}

/// Words of the arguments: arrays, count, and a layout of extents, steps, numbers and formats.
const WORDS: usize = ARRAYS + 1 + MOST_AXES + MOST_AXES * ARRAYS + RESULT + 1;

/// What kernels are told of the elements beside where they lie.
#[derive(Clone, Copy)]
struct Elements {
    arrays: [Option<Operand>; ARRAYS],
    /// The bits of inputs that are plain numbers.
    numbers: [i64; RESULT],
    count: u64,
}

impl Elements {
    /// The kernel's arguments: arrays, how many elements, and the words of the layout.
    ///
    /// An axis has an extent and a step of each array; the kernel looks at as many as there are.
    fn words(&self, axes: impl Iterator<Item = (i64, [i64; ARRAYS])>) -> [u64; WORDS] {
        let mut words = [0; WORDS];
        let mut formats = 0;
        for (index, array) in self.arrays.iter().enumerate() {
            words[index] = array.map_or(0, |one| one.pointer.0);
            formats |= array.map_or(NUMBER, |one| u64::from(one.format.code())) << (8 * index);
        }
        words[ARRAYS] = self.count;
        let layout = &mut words[ARRAYS + 1..];
        let (extents, layout) = layout.split_at_mut(MOST_AXES);
        let (steps, rest) = layout.split_at_mut(MOST_AXES * ARRAYS);
        for (axis, (extent, of_arrays)) in axes.enumerate() {
            extents[axis] = extent.cast_unsigned();
            for (array, step) in of_arrays.iter().enumerate() {
                steps[array * MOST_AXES + axis] = step.cast_unsigned();
            }
            formats += 1 << 32;
        }
        for (word, number) in rest.iter_mut().zip(self.numbers) {
            *word = number.cast_unsigned();
        }
        rest[RESULT] = formats;
        words
    }

    /// Refuses arrays that are shorter than what is done with them.
    fn check_dense(&self, call: &Call<'_>) -> Result<()> {
        for array in self.arrays.iter().flatten() {
            let bytes = array.format.element_bytes().unwrap_or(u64::MAX);
            let all = self.count.checked_mul(bytes);
            if all.is_none_or(|all| all > array.bytes) {
                let wanted = format_args!("{} elements of {}", self.count, array.format);
                return Err(call.error(wanted, format_args!("{} bytes", array.bytes)));
            }
        }
        Ok(())
    }
}

/// How many inputs an expression has.
fn inputs(expression: &str) -> u64 {
    match expression {
        text if text.contains("a2") => 3,
        text if text.contains("a1") => 2,
        _ => 1,
    }
}

/// What both operations say alike: the number of the expression, the format computed in, and the
/// elements.
fn read(call: &Call<'_>) -> Result<(i64, ElementFormat, Elements)> {
    let mut arrays = [None; ARRAYS];
    for (index, place) in arrays.iter_mut().enumerate() {
        *place = call.raw_at(index)?;
    }
    let numbers = [
        call.integer_at(2)?,
        call.integer_at(3)?,
        call.integer_at(4)?,
    ];
    let elements = Elements {
        arrays,
        numbers,
        count: 0,
    };
    Ok((call.integer_at(0)?, call.format("compute_type")?, elements))
}

/// What stands for the kernel of small arrays, which an expression and a format make.
fn small_number(expression: i64, computed: ElementFormat) -> Option<u64> {
    let expression = u32::try_from(expression).ok()?;
    Some(u64::from(expression) << 32 | u64::from(computed.code()))
}

fn grid(call: &Call<'_>, threads: u64) -> Result<Extent> {
    match threads.div_ceil(THREADS) {
        blocks if blocks <= i32::MAX as u64 => Ok(line(blocks, THREADS)),
        _ => Err(call.error("fewer elements", threads)),
    }
}

pub(super) fn elementwise(tools: &Tools, queue: &Queue<'_>, call: &Call<'_>) -> Result<()> {
    let (expression, computed, mut elements) = read(call)?;
    let axes = Axes::merged(call.layout());
    elements.count = axes.elements();
    if elements.count == 0 {
        return Ok(());
    }
    let small = small_number(expression, computed).filter(|_| elements.count < SMALL);
    if let Some(function) = small.and_then(|number| tools.kept(number)) {
        let extent = grid(call, elements.count)?;
        return queue.launch_words(&function, extent, &mut elements.words(axes.iter()));
    }
    let work = Elementwise {
        elements,
        computed,
        axes,
    };
    compile_and_launch(tools, queue, call, small, work)
}

/// The usual call from Python, so that as little as possible stands before its launch.
pub(super) fn map(tools: &Tools, queue: &Queue<'_>, call: &Call<'_>) -> Result<()> {
    let (expression, computed, mut elements) = read(call)?;
    let told = call.integer_at(5)?;
    let Ok(count) = u64::try_from(told) else {
        return Err(call.error("count of 0 or more", told));
    };
    if count == 0 {
        return Ok(());
    }
    elements.count = count;
    elements.check_dense(call)?;
    let small = small_number(expression, computed).filter(|_| count < SMALL);
    if let Some(function) = small.and_then(|number| tools.kept(number)) {
        let axis = std::iter::once((told, [1; ARRAYS]));
        return queue.launch_words(&function, grid(call, count)?, &mut elements.words(axis));
    }
    let work = Elementwise {
        elements,
        computed,
        axes: Axes::line(told),
    };
    compile_and_launch(tools, queue, call, small, work)
}

fn compile_and_launch(
    tools: &Tools,
    queue: &Queue<'_>,
    call: &Call<'_>,
    small: Option<u64>,
    mut work: Elementwise,
) -> Result<()> {
    let expression = call.expression("expression")?;
    let copies = expression == COPY;
    let (name, computed) = match copies {
        true => (moved_type as Name, moved_type(work.computed)),
        false => (element_type as Name, computed_type(work.computed)),
    };
    let Some(computed) = computed else {
        return Err(call.error("a format that kernels compute in", work.computed));
    };
    let (function, together) = match small {
        Some(number) if !copies => {
            let settings: [Setting; 4] = [
                ("EXPRESSION", expression.into()),
                ("INPUTS", inputs(expression).into()),
                ("COMPUTED", computed.into()),
                ("INDEX", "u32".into()),
            ];
            let function = tools.function(queue, "elementwise", &settings)?;
            tools.keep(number, &function);
            (function, 1)
        }
        _ => {
            let (settings, reach) = work.large(call, expression, computed, name)?;
            if !reach.dense {
                work.axes.in_pieces(reach.together);
            }
            let function = tools.function(queue, "elementwise", &settings)?;
            (function, reach.together)
        }
    };
    let extent = grid(call, work.elements.count.div_ceil(together))?;
    let mut words = work.elements.words(work.axes.iter());
    queue.launch_words(&function, extent, &mut words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources;
    use assay_runtime::backend::DevicePointer;

    #[test]
    fn words_are_the_parameters_of_the_kernel() {
        let operand = |address, format| {
            Some(Operand {
                pointer: DevicePointer(address),
                bytes: 96,
                format,
            })
        };
        let elements = Elements {
            arrays: [
                operand(16, ElementFormat::F32),
                None,
                None,
                operand(32, ElementFormat::F64),
            ],
            numbers: [0, -1, 7],
            count: 12,
        };
        let row = Axes::merged([3, 4, 0, 0, 4, 4, 1, 1, 0, 1].into_iter());
        let words = elements.words(row.iter());
        // Addresses, count, then the structure: shape, strides by array, numbers, formats and axes.
        assert_eq!(words[..7], [16, 0, 0, 32, 12, 3, 4]);
        let strides = |array: usize| &words[13 + 8 * array..][..2];
        assert_eq!([strides(0), strides(1)], [[4, 1], [0, 1]]);
        assert_eq!([strides(2), strides(3)], [[0, 0], [4, 1]]);
        assert_eq!(words[45..48], [0, u64::MAX, 7]);
        let formats = [
            ElementFormat::F32.code() as u8,
            255,
            255,
            ElementFormat::F64.code() as u8,
        ];
        assert_eq!(words[48].to_le_bytes()[..4], formats);
        assert_eq!(words[48] >> 32, 2);
    }

    #[test]
    fn kernels_and_calls_count_formats_alike() {
        let text = sources::headers()
            .iter()
            .find(|(name, _)| *name == "expressions.cuh")
            .map(|(_, text)| *text)
            .unwrap();
        for &format in ElementFormat::ALL {
            let Some(name) = element_type(format) else {
                continue;
            };
            let upper = format.name().to_uppercase();
            assert!(
                text.contains(&format!("    {upper} = {},", format.code())),
                "{format}"
            );
            assert!(text.contains(&format!("CASE({upper}, {name})")), "{format}");
        }
    }
}
