//! Elementwise operations of arrays: a layout with as few axes as it can have, and a kernel for it.
//!
//! Small arrays share one kernel for each expression and format that is computed in, which learns
//! everything else when it runs. Large ones are worth a kernel that is compiled for their formats.

use super::call::{Call, at_or_null};
use super::rows::line;
use super::tools::{Setting, Tools};
use crate::device::Queue;
use assay_core::backend::{KernelArgument, Result};
use assay_core::operations::{ElementFormat, MOST_AXES, Operand};

/// Inputs and result.
const ARRAYS: usize = 4;
const RESULT: usize = ARRAYS - 1;
const THREADS: u64 = 256;
/// Arrays of fewer elements are small.
const SMALL: u64 = 1 << 15;
/// What stands for a format where an input is a plain number, as in the kernel.
const NUMBER: u64 = 255;
/// The expression that changes nothing, so that elements need not be understood.
const COPY: &str = "a0";

/// What a kernel's source calls the elements of a format.
pub(super) fn element_type(format: ElementFormat) -> Option<&'static str> {
    Some(match format {
        ElementFormat::F32 => "float",
        ElementFormat::F16 => "fp16",
        ElementFormat::Bf16 => "bf16",
        ElementFormat::I32 => "int",
        ElementFormat::I64 => "i64",
        ElementFormat::U8 => "u8",
        ElementFormat::F64 => "double",
        ElementFormat::Bool => "bool",
        ElementFormat::I8 => "i8",
        ElementFormat::I16 => "i16",
        ElementFormat::U16 => "u16",
        ElementFormat::U32 => "u32",
        ElementFormat::U64 => "u64",
        _ => return None,
    })
}

/// What a kernel's source calls the type that a format is computed in: numbers of 16 bits are
/// computed in single precision.
pub(super) fn computed_type(format: ElementFormat) -> Option<&'static str> {
    Some(match element_type(format)? {
        "fp16" | "bf16" => "float",
        other => other,
    })
}

/// What a kernel's source calls elements that are moved and not understood.
fn moved_type(format: ElementFormat) -> Option<&'static str> {
    Some(match format.element_bytes()? {
        1 => "u8",
        2 => "u16",
        4 => "u32",
        8 => "u64",
        _ => "uint4",
    })
}

type Name = fn(ElementFormat) -> Option<&'static str>;

/// Where arrays lie: the extent of each axis, and the step of each array along it, in elements.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Axes {
    count: usize,
    extents: [i64; MOST_AXES],
    steps: [[i64; MOST_AXES]; ARRAYS],
}

impl Axes {
    /// Takes neighbouring axes together wherever every array goes through them in one stride.
    fn merged(numbers: impl Iterator<Item = i64>) -> Self {
        let mut axes = Axes {
            count: 0,
            extents: [1; MOST_AXES],
            steps: [[0; MOST_AXES]; ARRAYS],
        };
        let mut axis = [0; 1 + ARRAYS];
        for (place, number) in numbers.enumerate() {
            axis[place % (1 + ARRAYS)] = number;
            if place % (1 + ARRAYS) == ARRAYS {
                axes.add(axis[0], &axis[1..]);
            }
        }
        axes
    }

    fn add(&mut self, extent: i64, steps: &[i64]) {
        if extent == 1 {
            return;
        }
        let last = self.count.wrapping_sub(1);
        let follows = self.count > 0
            && (0..ARRAYS).all(|array| self.steps[array][last] == extent * steps[array]);
        let place = if follows { last } else { self.count };
        let before = if follows { self.extents[last] } else { 1 };
        if !follows {
            self.count += 1;
        }
        self.extents[place] = before * extent;
        for (array, step) in self.steps.iter_mut().zip(steps) {
            array[place] = *step;
        }
    }

    fn elements(&self) -> u64 {
        self.extents
            .iter()
            .map(|extent| extent.unsigned_abs())
            .product()
    }

    /// Counts pieces of so many elements along the last axis.
    fn in_pieces(&mut self, together: u64) {
        let Some(last) = self.count.checked_sub(1) else {
            return;
        };
        self.extents[last] /= together as i64;
        for steps in &mut self.steps {
            steps[last] *= together as i64;
        }
    }

    /// Whether an array's elements lie in the order of the result, one after the other.
    fn is_dense(&self, array: usize) -> bool {
        self.count == 0 || (self.count == 1 && self.steps[array][0] == 1)
    }
}

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
    number: u32,
    expression: &'static str,
    inputs: usize,
    computed: ElementFormat,
    arrays: [Option<Operand>; ARRAYS],
    axes: Axes,
    numbers: [i64; RESULT],
}

impl Elementwise {
    fn read(call: &Call<'_>) -> Result<Self> {
        let (number, expression) = call.expression("expression")?;
        let mut arrays = [None; ARRAYS];
        for (index, place) in arrays.iter_mut().enumerate() {
            *place = call.raw_at(index)?;
        }
        Ok(Elementwise {
            number,
            expression,
            inputs: match expression {
                text if text.contains("a2") => 3,
                text if text.contains("a1") => 2,
                _ => 1,
            },
            computed: call.format("computed")?,
            arrays,
            axes: Axes::merged(call.layout()),
            numbers: [
                call.integer("first_number")?,
                call.integer("second_number")?,
                call.integer("third_number")?,
            ],
        })
    }

    fn index(&self) -> &'static str {
        match self.axes.elements() {
            count if count < u64::from(u32::MAX) => "u32",
            _ => "u64",
        }
    }

    /// The kernel of small arrays.
    fn small(&self, computed: &'static str) -> [Setting; 4] {
        [
            ("EXPRESSION", self.expression.into()),
            ("INPUTS", (self.inputs as u64).into()),
            ("COMPUTED", computed.into()),
            ("INDEX", "u32".into()),
        ]
    }

    /// How many elements a thread takes: 16 bytes of the widest array, where all are aligned to
    /// that and either all lie in one piece, or move along the last axis by one element or none.
    fn together(&self) -> Reach {
        let arrays = || self.arrays.iter().enumerate();
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
        computed: &'static str,
        name: Name,
    ) -> Result<([Setting; 12], Reach)> {
        let types = self.arrays.map(|array| match array {
            Some(array) => name(array.format)
                .ok_or_else(|| call.error("arrays of numbers that kernels know", array.format)),
            None => Ok(computed),
        });
        let [first, second, third, result] = types;
        let arrays = self.arrays[..RESULT].iter().enumerate();
        let numbers: u64 = arrays
            .map(|(index, array)| u64::from(array.is_none()) << index)
            .sum();
        let reach = self.together();
        let settings = [
            ("EXPRESSION", self.expression.into()),
            ("INPUTS", (self.inputs as u64).into()),
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

    /// The kernel's arguments: arrays, how many elements, and the words of the layout.
    fn arguments(&self, count: u64) -> [KernelArgument; WORDS] {
        let mut words = [KernelArgument::I64(0); WORDS];
        let mut formats = (self.axes.count as u64) << 32;
        for (index, array) in self.arrays.iter().enumerate() {
            words[index] = at_or_null(*array);
            formats |= array.map_or(NUMBER, |one| u64::from(one.format.code())) << (8 * index);
        }
        words[ARRAYS] = KernelArgument::U64(count);
        let layout = &mut words[ARRAYS + 1..];
        let (extents, layout) = layout.split_at_mut(MOST_AXES);
        let (steps, rest) = layout.split_at_mut(MOST_AXES * ARRAYS);
        for axis in 0..MOST_AXES {
            extents[axis] = KernelArgument::I64(self.axes.extents[axis]);
            for (array, of_array) in self.axes.steps.iter().enumerate() {
                steps[array * MOST_AXES + axis] = KernelArgument::I64(of_array[axis]);
            }
        }
        for (word, number) in rest.iter_mut().zip(self.numbers) {
            *word = KernelArgument::I64(number);
        }
        rest[RESULT] = KernelArgument::U64(formats);
        words
    }
}

/// Words of the arguments: arrays, count, and a layout of extents, steps, numbers and formats.
const WORDS: usize = ARRAYS + 1 + MOST_AXES + MOST_AXES * ARRAYS + RESULT + 1;

pub(super) fn elementwise(tools: &Tools, queue: &Queue<'_>, call: &Call<'_>) -> Result<()> {
    let mut work = Elementwise::read(call)?;
    let count = work.axes.elements();
    if count == 0 {
        return Ok(());
    }
    let copies = work.expression == COPY;
    let (name, computed) = match copies {
        true => (moved_type as Name, moved_type(work.computed)),
        false => (element_type as Name, computed_type(work.computed)),
    };
    let Some(computed) = computed else {
        return Err(call.error("a format that kernels compute in", work.computed));
    };
    let (function, together) = if count < SMALL && !copies {
        let number = u64::from(work.number) << 32 | u64::from(work.computed.code());
        let make = || tools.function(queue, "elementwise", &work.small(computed));
        (tools.numbered(number, make)?, 1)
    } else {
        let (settings, reach) = work.large(call, computed, name)?;
        if !reach.dense {
            work.axes.in_pieces(reach.together);
        }
        (
            tools.function(queue, "elementwise", &settings)?,
            reach.together,
        )
    };
    let arguments = work.arguments(count);
    let blocks = count.div_ceil(together * THREADS);
    if blocks > i32::MAX as u64 {
        return Err(call.error("fewer elements", count));
    }
    queue.launch(&function, line(blocks, THREADS), &arguments)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources;

    fn axes(rows: &[[i64; 5]]) -> Axes {
        Axes::merged(rows.iter().flatten().copied())
    }

    #[test]
    fn axes_that_follow_each_other_become_one() {
        let dense = axes(&[
            [2, 12, 12, 12, 12],
            [3, 4, 4, 4, 4],
            [4, 1, 1, 1, 1],
            [1, 0, 0, 0, 0],
        ]);
        assert_eq!((dense.count, dense.elements()), (1, 24));
        assert!((0..ARRAYS).all(|array| dense.is_dense(array)));
    }

    #[test]
    fn a_broadcast_array_keeps_axes_apart() {
        let row = axes(&[[3, 4, 0, 0, 4], [4, 1, 1, 0, 1]]);
        assert_eq!(row.count, 2);
        assert_eq!(row.extents[..2], [3, 4]);
        assert_eq!(row.steps[1][..2], [0, 1]);
        assert!(!row.is_dense(1));
        let number = axes(&[[3, 4, 0, 0, 4], [4, 1, 0, 0, 1]]);
        assert_eq!((number.count, number.steps[1][0]), (1, 0));
    }

    #[test]
    fn nothing_at_all_has_no_elements() {
        assert_eq!(axes(&[[3, 0, 0, 0, 0], [0, 1, 1, 1, 1]]).elements(), 0);
        assert_eq!(axes(&[[1, 0, 0, 0, 0]]).elements(), 1);
    }

    #[test]
    fn kernels_and_calls_count_formats_alike() {
        let text = sources::headers()
            .iter()
            .find(|(name, _)| *name == "expressions.cuh")
            .map(|(_, text)| *text)
            .unwrap();
        for format in ElementFormat::ALL {
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
