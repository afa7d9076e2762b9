//! Elementwise operations of arrays: collapsed axes, and a kernel for them.
//!
//! Small arrays share one kernel for each expression and compute type, which gets formats and
//! strides at run time. Large ones are worth a kernel that is compiled for their formats.

use super::axes::{ARRAYS, Axes};
use super::call::Call;
use super::define::Define;
use super::grid::grid_1d;
use super::type_names::{compute_type, element_type, opaque_type};
use crate::device::LaunchConfig;
use assay_operations::{ElementFormat, MOST_AXES, Operand};
use assay_runtime::backend::Result;

const RESULT: usize = ARRAYS - 1;
const THREADS: u64 = 256;
/// Arrays of fewer elements are small.
const SMALL_ELEMENTS: u64 = 1 << 15;
/// The format code of a scalar input, as in the kernel.
const SCALAR: u64 = 255;
/// The identity expression: elements are moved as opaque bits.
const COPY: &str = "a0";

type TypeName = fn(ElementFormat) -> Option<&'static str>;

/// How a thread accesses the arrays.
struct Vectorization {
    /// Whether all arrays are contiguous in the order of the result.
    contiguous: bool,
    /// Bits of the inputs whose stride along the last axis is 0.
    broadcast: u64,
    /// Elements of a vectorized access.
    vector: u64,
}

/// A call, read.
struct Elementwise {
    elements: Elements,
    compute_format: ElementFormat,
    axes: Axes,
}

impl Elementwise {
    fn index(&self) -> &'static str {
        match self.elements.count {
            count if count < u64::from(u32::MAX) => "u32",
            _ => "u64",
        }
    }

    /// The elements of a vectorized access: 16 bytes of the widest array, where all are aligned to
    /// that and either all are contiguous, or have stride 0 or 1 along the last axis.
    fn vectorization(&self) -> Vectorization {
        let arrays = || self.elements.arrays.iter().enumerate();
        let used = || arrays().filter_map(|(index, array)| Some((index, (*array)?)));
        let bytes = |array: Operand| array.format.element_bytes().unwrap_or(1);
        let widest = used().map(|(_, array)| bytes(array)).max().unwrap_or(16);
        let vector = (16 / widest).max(1);
        let aligned = |array: Operand| array.pointer.0.is_multiple_of(bytes(array) * vector);
        let mut vectorization = Vectorization {
            contiguous: used()
                .all(|(index, array)| self.axes.is_contiguous(index) && aligned(array)),
            broadcast: 0,
            vector,
        };
        if vectorization.contiguous {
            return vectorization;
        }
        let Some(last) = self.axes.count.checked_sub(1) else {
            vectorization.vector = 1;
            return vectorization;
        };
        let is_multiple = |strides: i64| strides.unsigned_abs().is_multiple_of(vector);
        let vectorizes = used().all(|(index, array)| {
            let strides = &self.axes.strides[index];
            let is_broadcast = strides[last] == 0 && index != RESULT;
            vectorization.broadcast |= u64::from(is_broadcast) << index;
            is_broadcast
                || (strides[last] == 1
                    && aligned(array)
                    && strides[..last].iter().all(|one| is_multiple(*one)))
        });
        if !vectorizes || !is_multiple(self.axes.extents[last]) {
            vectorization.broadcast = 0;
            vectorization.vector = 1;
        }
        vectorization
    }

    /// The macros of a kernel for these formats, and its vectorization.
    fn specialized_defines(
        &self,
        call: &Call<'_>,
        expression: &'static str,
        compute: &'static str,
        type_name: TypeName,
    ) -> Result<([Define; 12], Vectorization)> {
        let types = self.elements.arrays.map(|array| match array {
            Some(array) => type_name(array.format)
                .ok_or_else(|| call.error("arrays of supported elements", array.format)),
            None => Ok(compute),
        });
        let [first, second, third, result] = types;
        let arrays = self.elements.arrays[..RESULT].iter().enumerate();
        let scalars: u64 = arrays.map(|(index, array)| u64::from(array.is_none()) << index).sum();
        let vectorization = self.vectorization();
        let defines = [
            ("EXPRESSION", expression.into()),
            ("INPUTS", inputs(expression).into()),
            ("COMPUTE_TYPE", compute.into()),
            ("INDEX", self.index().into()),
            ("TYPE0", first?.into()),
            ("TYPE1", second?.into()),
            ("TYPE2", third?.into()),
            ("RESULT", result?.into()),
            ("SCALAR_INPUTS", scalars.into()),
            ("CONTIGUOUS", vectorization.contiguous.into()),
            ("BROADCAST_INPUTS", vectorization.broadcast.into()),
            ("VECTOR", vectorization.vector.into()),
        ];
        Ok((defines, vectorization))
    }
}

/// Words of the arguments: arrays, count, and a layout of extents, strides, scalars and formats.
const WORDS: usize = ARRAYS + 1 + MOST_AXES + MOST_AXES * ARRAYS + RESULT + 1;

/// The arrays and scalars of a call, without strides.
#[derive(Clone, Copy)]
struct Elements {
    arrays: [Option<Operand>; ARRAYS],
    /// The bits of scalar inputs.
    scalars: [i64; RESULT],
    count: u64,
}

impl Elements {
    /// The kernel's arguments: arrays, the number of elements, and the words of the layout.
    ///
    /// An axis has an extent and a stride for each array.
    fn words(&self, axes: impl Iterator<Item = (i64, [i64; ARRAYS])>) -> [u64; WORDS] {
        let mut words = [0; WORDS];
        let mut formats = 0;
        for (index, array) in self.arrays.iter().enumerate() {
            words[index] = array.map_or(0, |one| one.pointer.0);
            formats |= array.map_or(SCALAR, |one| u64::from(one.format.code())) << (8 * index);
        }
        words[ARRAYS] = self.count;
        let layout = &mut words[ARRAYS + 1..];
        let (extents, layout) = layout.split_at_mut(MOST_AXES);
        let (strides, rest) = layout.split_at_mut(MOST_AXES * ARRAYS);
        for (axis, (extent, of_arrays)) in axes.enumerate() {
            extents[axis] = extent.cast_unsigned();
            for (array, stride) in of_arrays.iter().enumerate() {
                strides[array * MOST_AXES + axis] = stride.cast_unsigned();
            }
            formats += 1 << 32;
        }
        for (word, number) in rest.iter_mut().zip(self.scalars) {
            *word = number.cast_unsigned();
        }
        rest[RESULT] = formats;
        words
    }

    /// Refuses arrays that are shorter than the call reads or writes.
    fn check_sizes(&self, call: &Call<'_>) -> Result<()> {
        for array in self.arrays.iter().flatten() {
            let bytes = array.format.element_bytes().unwrap_or(u64::MAX);
            let all = self.count.checked_mul(bytes);
            if all.is_none_or(|all| all > array.bytes) {
                let expected = format_args!("{} elements of {}", self.count, array.format);
                return Err(call.error(expected, format_args!("{} bytes", array.bytes)));
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

/// What both operations have in common: the code of the expression, the compute type, and the
/// elements.
fn read(call: &Call<'_>) -> Result<(i64, ElementFormat, Elements)> {
    let mut arrays = [None; ARRAYS];
    for (index, slot) in arrays.iter_mut().enumerate() {
        *slot = call.raw_at(index)?;
    }
    let scalars = [call.integer_at(2)?, call.integer_at(3)?, call.integer_at(4)?];
    let elements = Elements { arrays, scalars, count: 0 };
    Ok((call.integer_at(0)?, call.format("compute_type")?, elements))
}

/// The lookup key of the kernel that small arrays share, from expression and compute type.
fn shared_kernel_key(expression: i64, compute_format: ElementFormat) -> Option<u64> {
    let expression = u32::try_from(expression).ok()?;
    Some(u64::from(expression) << 32 | u64::from(compute_format.code()))
}

fn grid(call: &Call<'_>, threads: u64) -> Result<LaunchConfig> {
    match threads.div_ceil(THREADS) {
        ctas if ctas <= i32::MAX as u64 => Ok(grid_1d(ctas, THREADS)),
        _ => Err(call.error("fewer elements", threads)),
    }
}

pub(super) fn elementwise(call: &Call<'_>) -> Result<()> {
    let (expression, compute_format, mut elements) = read(call)?;
    let axes = Axes::merged(call.layout());
    elements.count = axes.elements();
    if elements.count == 0 {
        return Ok(());
    }
    let shared_kernel =
        shared_kernel_key(expression, compute_format).filter(|_| elements.count < SMALL_ELEMENTS);
    if let Some(function) = shared_kernel.and_then(|number| call.context.numbered_function(number))
    {
        let config = grid(call, elements.count)?;
        return call.queue.launch_words(&function, config, &mut elements.words(axes.iter()));
    }
    let elementwise = Elementwise { elements, compute_format, axes };
    compile_and_launch(call, shared_kernel, elementwise)
}

/// The common call from Python: contiguous arrays, with as little host work as possible.
pub(super) fn map(call: &Call<'_>) -> Result<()> {
    let (expression, compute_format, mut elements) = read(call)?;
    let given_count = call.integer_at(5)?;
    let Ok(count) = u64::try_from(given_count) else {
        return Err(call.error("count of 0 or more", given_count));
    };
    if count == 0 {
        return Ok(());
    }
    elements.count = count;
    elements.check_sizes(call)?;
    let shared_kernel =
        shared_kernel_key(expression, compute_format).filter(|_| count < SMALL_ELEMENTS);
    if let Some(function) = shared_kernel.and_then(|number| call.context.numbered_function(number))
    {
        let axis = std::iter::once((given_count, [1; ARRAYS]));
        return call.queue.launch_words(&function, grid(call, count)?, &mut elements.words(axis));
    }
    let elementwise = Elementwise { elements, compute_format, axes: Axes::contiguous(given_count) };
    compile_and_launch(call, shared_kernel, elementwise)
}

fn compile_and_launch(
    call: &Call<'_>,
    shared_kernel: Option<u64>,
    mut elementwise: Elementwise,
) -> Result<()> {
    let expression = call.expression("expression")?;
    let is_copy = expression == COPY;
    let (type_name, compute) = match is_copy {
        true => (opaque_type as TypeName, opaque_type(elementwise.compute_format)),
        false => (element_type as TypeName, compute_type(elementwise.compute_format)),
    };
    let Some(compute) = compute else {
        return Err(call.error("a format that kernels compute in", elementwise.compute_format));
    };
    let (function, vector) = match shared_kernel {
        Some(number) if !is_copy => {
            let defines: [Define; 4] = [
                ("EXPRESSION", expression.into()),
                ("INPUTS", inputs(expression).into()),
                ("COMPUTE_TYPE", compute.into()),
                ("INDEX", "u32".into()),
            ];
            let function = call.function("elementwise", &defines)?;
            call.context.store_numbered(number, &function);
            (function, 1)
        }
        _ => {
            let (defines, vectorization) =
                elementwise.specialized_defines(call, expression, compute, type_name)?;
            if !vectorization.contiguous {
                elementwise.axes.in_vectors(vectorization.vector);
            }
            let function = call.function("elementwise", &defines)?;
            (function, vectorization.vector)
        }
    };
    let config = grid(call, elementwise.elements.count.div_ceil(vector))?;
    let mut words = elementwise.elements.words(elementwise.axes.iter());
    call.queue.launch_words(&function, config, &mut words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use assay_runtime::backend::DevicePointer;

    #[test]
    fn words_match_the_kernel_parameters() {
        let operand =
            |address, format| Some(Operand { pointer: DevicePointer(address), bytes: 96, format });
        let elements = Elements {
            arrays: [operand(16, ElementFormat::F32), None, None, operand(32, ElementFormat::F64)],
            scalars: [0, -1, 7],
            count: 12,
        };
        let row = Axes::merged([3, 4, 0, 0, 4, 4, 1, 1, 0, 1].into_iter());
        let words = elements.words(row.iter());
        // Addresses, count, then the structure: shape, strides by array, scalars, formats and axes.
        assert_eq!(words[..7], [16, 0, 0, 32, 12, 3, 4]);
        let strides = |array: usize| &words[13 + 8 * array..][..2];
        assert_eq!([strides(0), strides(1)], [[4, 1], [0, 1]]);
        assert_eq!([strides(2), strides(3)], [[0, 0], [4, 1]]);
        assert_eq!(words[45..48], [0, u64::MAX, 7]);
        let formats = [ElementFormat::F32.code() as u8, 255, 255, ElementFormat::F64.code() as u8];
        assert_eq!(words[48].to_le_bytes()[..4], formats);
        assert_eq!(words[48] >> 32, 2);
    }
}
