//! Joining the elements of an axis: sums, extremes, truths, and where the extremes are.
//!
//! A long axis of few results is cut into parts, so that every processor of the GPU has work, and a
//! second launch joins what the parts came to.

use super::call::{Call, at};
use super::element_names::{computed_type, element_type};
use super::tools::{Setting, Tools};
use crate::device::{Extent, Queue};
use assay_operations::{ElementFormat, Operand};
use assay_runtime::backend::{DevicePointer, KernelArgument, Result};

/// Blocks that keep every processor of a large GPU busy.
const ENOUGH_BLOCKS: u64 = 1024;
/// Threads of a block, unless one row takes more.
const THREADS: u64 = 256;
/// Loads of a thread that make a part worth while, and those that it has under way at once.
const AHEAD: u64 = 8;
const TAKEN: u64 = 4;
/// The most pieces of a row that a thread holds in registers.
const HELD: u64 = 8;
const MOST_PARTS: u64 = 1024;

/// An array as an axis with what is around it.
#[derive(Clone, Copy)]
struct Shape {
    outer: u64,
    length: u64,
    inner: u64,
}

/// How an axis is shared out.
struct Cut {
    /// Whether the axis is the innermost, so that neighboring threads share it.
    rows: bool,
    parts: u64,
    /// Elements of the axis in a part.
    each: u64,
    extent: Extent,
}

impl Cut {
    /// The same threads, with the whole axis in one part.
    fn uncut(mut self, shape: Shape) -> Self {
        self.parts = 1;
        self.each = shape.length;
        self.extent.grid[1] = 1;
        self
    }
}

impl Shape {
    fn read(call: &Call<'_>) -> Result<Self> {
        Ok(Shape {
            outer: call.count("outer")?,
            length: call.count("length")?,
            inner: call.count("inner")?,
        })
    }

    fn results(&self) -> u64 {
        self.outer.saturating_mul(self.inner)
    }

    /// Shares the axis out to at most so many threads of a block, which have `taken` pieces of
    /// `together` elements under way at once.
    fn cut(&self, call: &Call<'_>, together: u64, taken: u64, widest: u64) -> Result<Cut> {
        let rows = self.inner == 1;
        let pieces = self.length / together;
        let wanted = pieces.div_ceil(taken).max(1).next_power_of_two();
        let (threads, beside) = if rows {
            let threads = wanted.min(widest);
            (threads, (THREADS / threads).max(1))
        } else {
            (self.inner.next_multiple_of(32).min(THREADS), 1)
        };
        let blocks = match rows {
            true => self.outer.div_ceil(beside),
            false => self.outer * self.inner.div_ceil(threads),
        };
        if blocks > i32::MAX as u64 {
            return Err(call.error("fewer results", self.results()));
        }
        let at_once = AHEAD * if rows { threads } else { 1 };
        let useful = pieces.div_ceil(at_once).max(1);
        let parts = ENOUGH_BLOCKS
            .div_ceil(blocks.max(1))
            .min(useful)
            .min(MOST_PARTS);
        let each = self.length.div_ceil(parts).next_multiple_of(together);
        Ok(Cut {
            rows,
            parts,
            each,
            extent: Extent {
                grid: [blocks as u32, parts as u32, 1],
                block: [threads as u32, beside as u32, 1],
                shared_bytes: 0,
                cluster: 1,
            },
        })
    }

    /// How many elements a thread loads at once: 16 bytes, where rows are aligned to that.
    fn together(&self, from: DevicePointer, bytes: u64) -> u64 {
        let wide = 16 / bytes;
        let aligned = from.0.is_multiple_of(16) && self.length.is_multiple_of(wide);
        if self.inner == 1 && aligned { wide } else { 1 }
    }

    /// What the parts make up: as many results, each of an axis of parts.
    fn of_parts(self, parts: u64) -> Self {
        Shape {
            length: parts,
            ..self
        }
    }
}

fn numbers(shape: Shape, cut: &Cut) -> [KernelArgument; 5] {
    [shape.outer, shape.length, shape.inner, cut.parts, cut.each].map(KernelArgument::U64)
}

/// What elements are taken relative to.
#[derive(Clone, Copy)]
enum Center {
    None,
    /// A number for each result.
    Given(DevicePointer),
    /// The mean of the row, which the kernel finds first.
    Own,
}

/// One pass: the formats of elements and results, the expressions around the join.
struct Pass {
    from: DevicePointer,
    kind: &'static str,
    bytes: u64,
    loaded: &'static str,
    first: &'static str,
    center: Center,
    to: DevicePointer,
    output: &'static str,
    last: &'static str,
    number: f64,
}

struct Join {
    name: &'static str,
    computed: &'static str,
}

impl Pass {
    fn launch(
        &self,
        tools: &Tools,
        queue: &Queue<'_>,
        join: &Join,
        shape: Shape,
        cut: &Cut,
        together: u64,
    ) -> Result<()> {
        let (centered, centers) = match self.center {
            Center::None => (0u64, DevicePointer(0)),
            Center::Given(centers) => (1, centers),
            Center::Own => (2, DevicePointer(0)),
        };
        // What is taken relative to its own mean is needed twice, and read once where it fits.
        let row_fits = shape.length / together <= HELD * u64::from(cut.extent.block[0]);
        let held = match self.center {
            Center::Own if row_fits => HELD,
            _ => 0,
        };
        let settings: [Setting; 11] = [
            ("CENTERED", centered.into()),
            ("HELD", held.into()),
            ("TYPE", self.kind.into()),
            ("LOADED", self.loaded.into()),
            ("FIRST", self.first.into()),
            ("COMPUTED", join.computed.into()),
            ("JOIN", join.name.into()),
            ("LAST", self.last.into()),
            ("OUTPUT", self.output.into()),
            ("ROWS", cut.rows.into()),
            ("TOGETHER", together.into()),
        ];
        let function = tools.function(queue, "reduce", &settings)?;
        let [outer, length, inner, parts, each] = numbers(shape, cut);
        let arguments = [
            KernelArgument::Pointer(self.from),
            KernelArgument::Pointer(centers),
            KernelArgument::Pointer(self.to),
            outer,
            length,
            inner,
            parts,
            each,
            KernelArgument::F64(self.number),
        ];
        queue.launch(&function, cut.extent, &arguments)
    }

    /// The whole axis, in parts where there are too few results to keep the GPU busy.
    fn join(
        mut self,
        tools: &Tools,
        queue: &Queue<'_>,
        call: &Call<'_>,
        join: &Join,
        shape: Shape,
    ) -> Result<()> {
        let together = shape.together(self.from, self.bytes);
        let taken = match self.center {
            Center::Own => HELD,
            _ => TAKEN,
        };
        let cut = shape.cut(call, together, taken, 512)?;
        if cut.parts == 1 {
            return self.launch(tools, queue, join, shape, &cut, together);
        }
        // Whatever is computed in has at most eight bytes.
        let parts = tools.scratch(queue, "reduce", shape.results() * cut.parts * 8)?;
        let joined = Pass {
            from: parts,
            kind: join.computed,
            bytes: 16,
            loaded: join.computed,
            first: "a0",
            center: Center::None,
            ..self
        };
        (self.to, self.output, self.last) = (parts, join.computed, "a0");
        self.launch(tools, queue, join, shape, &cut, together)?;
        let shape = shape.of_parts(cut.parts);
        let whole = shape.cut(call, 1, TAKEN, 512)?.uncut(shape);
        joined.launch(tools, queue, join, shape, &whole, 1)
    }
}

fn known(call: &Call<'_>, name: &str, operand: Operand) -> Result<(&'static str, &'static str)> {
    let names = element_type(operand.format).zip(computed_type(operand.format));
    names.ok_or_else(|| call.error(format_args!("{name} of real numbers"), operand.format))
}

pub(super) fn reduce(tools: &Tools, queue: &Queue<'_>, call: &Call<'_>) -> Result<()> {
    let shape = Shape::read(call)?;
    let x = call.operand("x", &[shape.outer, shape.length, shape.inner])?;
    let out = call.operand("out", &[shape.outer, shape.inner])?;
    if shape.results() == 0 {
        return Ok(());
    }
    let format = call.format("compute_type")?;
    let Some(computed) = computed_type(format) else {
        return Err(call.error("a format that kernels compute in", format));
    };
    let join = Join {
        name: call.expression("combine")?,
        computed,
    };
    let (kind, loaded) = known(call, "x", x)?;
    let mut pass = Pass {
        from: x.pointer,
        kind,
        bytes: x.format.element_bytes().unwrap_or(16),
        loaded,
        first: call.expression("transform")?,
        center: Center::None,
        to: out.pointer,
        output: known(call, "out", out)?.0,
        last: call.expression("epilogue")?,
        number: call.double("epilogue_scalar")?,
    };
    if call.integer("centered")? != 0 {
        let cut = shape.cut(call, shape.together(x.pointer, pass.bytes), HELD, 512)?;
        pass.center = if cut.rows && cut.parts == 1 {
            Center::Own
        } else {
            let means = tools.scratch(queue, "reduce means", shape.results() * 8)?;
            let mean = Pass {
                first: "a0",
                to: means,
                output: computed,
                last: "divide(a0,a1)",
                number: shape.length as f64,
                ..pass
            };
            mean.join(tools, queue, call, &join, shape)?;
            Center::Given(means)
        };
    }
    pass.join(tools, queue, call, &join, shape)
}

pub(super) fn extreme_place(tools: &Tools, queue: &Queue<'_>, call: &Call<'_>) -> Result<()> {
    let shape = Shape::read(call)?;
    let x = call.operand("x", &[shape.outer, shape.length, shape.inner])?;
    let out = call.of("out", ElementFormat::I64, &[shape.outer, shape.inner])?;
    if shape.results() == 0 {
        return Ok(());
    }
    let (kind, computed) = known(call, "x", x)?;
    let largest = call.integer("largest")? != 0;
    let launch = |shape: Shape, cut: &Cut, together: u64, pointers: [KernelArgument; 4]| {
        let settings: [Setting; 5] = [
            ("TYPE", kind.into()),
            ("COMPUTED", computed.into()),
            ("LARGEST", largest.into()),
            ("ROWS", cut.rows.into()),
            ("TOGETHER", together.into()),
        ];
        let function = tools.function(queue, "argreduce", &settings)?;
        let arguments: Vec<_> = pointers.into_iter().chain(numbers(shape, cut)).collect();
        queue.launch(&function, cut.extent, &arguments)
    };
    let null = KernelArgument::Pointer(DevicePointer(0));
    let together = shape.together(x.pointer, x.format.element_bytes().unwrap_or(16));
    let cut = shape.cut(call, together, TAKEN, 256)?;
    if cut.parts == 1 {
        return launch(shape, &cut, together, [at(x), null, null, at(out)]);
    }
    let count = shape.results() * cut.parts;
    let values = KernelArgument::Pointer(tools.scratch(queue, "extreme values", count * 8)?);
    let places = KernelArgument::Pointer(tools.scratch(queue, "extreme places", count * 8)?);
    launch(shape, &cut, together, [at(x), null, values, places])?;
    let shape = shape.of_parts(cut.parts);
    let whole = shape.cut(call, 1, TAKEN, 256)?.uncut(shape);
    launch(shape, &whole, 1, [values, places, null, at(out)])
}
