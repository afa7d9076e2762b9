//! Reductions along an axis, and argmin/argmax.
//!
//! A long axis with few results is split over CTAs to fill the GPU, and a second launch combines the
//! partials.

use super::call::{Call, pointer};
use super::define::Define;
use super::type_names::{compute_type, element_type};
use crate::device::LaunchConfig;
use assay_operations::{ElementFormat, Operand};
use assay_runtime::backend::{DevicePointer, KernelArgument, Result};

/// CTAs that fill a large GPU.
const FULL_GRID_CTAS: u64 = 1024;
/// Threads of a CTA, unless one row takes more.
const THREADS: u64 = 256;
/// The fewest loads per thread of a split, and the loads that a thread has in flight.
const MIN_LOADS_PER_THREAD: u64 = 8;
const LOADS_IN_FLIGHT: u64 = 4;
/// The most vectors of a row that a thread holds in registers.
const REGISTER_VECTORS: u64 = 8;
const MAX_SPLITS: u64 = 1024;

/// An array as outer x length x inner, reduced along length.
#[derive(Clone, Copy)]
struct Shape {
    outer: u64,
    length: u64,
    inner: u64,
}

/// How an axis is split over CTAs and threads.
struct SplitPlan {
    /// Whether the axis is contiguous, so that the threads of a warp share a row.
    rows: bool,
    splits: u64,
    /// Elements of the axis in a split.
    split_length: u64,
    config: LaunchConfig,
}

impl SplitPlan {
    /// The same threads, with the whole axis in one split.
    fn unsplit(mut self, shape: Shape) -> Self {
        self.splits = 1;
        self.split_length = shape.length;
        self.config.grid[1] = 1;
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

    /// Splits the axis for CTAs of at most `max_threads`, of which each has `vectors_per_thread`
    /// vectors of `vector` elements in flight.
    fn plan(
        &self,
        call: &Call<'_>,
        vector: u64,
        vectors_per_thread: u64,
        max_threads: u64,
    ) -> Result<SplitPlan> {
        let rows = self.inner == 1;
        let vectors = self.length / vector;
        let threads_for_row = vectors.div_ceil(vectors_per_thread).max(1).next_power_of_two();
        let (threads, rows_per_cta) = if rows {
            let threads = threads_for_row.min(max_threads);
            (threads, (THREADS / threads).max(1))
        } else {
            (self.inner.next_multiple_of(32).min(THREADS), 1)
        };
        let ctas = match rows {
            true => self.outer.div_ceil(rows_per_cta),
            false => self.outer * self.inner.div_ceil(threads),
        };
        if ctas > i32::MAX as u64 {
            return Err(call.error("fewer results", self.results()));
        }
        let vectors_per_split = MIN_LOADS_PER_THREAD * if rows { threads } else { 1 };
        let max_useful_splits = vectors.div_ceil(vectors_per_split).max(1);
        let splits = FULL_GRID_CTAS.div_ceil(ctas.max(1)).min(max_useful_splits).min(MAX_SPLITS);
        let split_length = self.length.div_ceil(splits).next_multiple_of(vector);
        Ok(SplitPlan {
            rows,
            splits,
            split_length,
            config: LaunchConfig {
                grid: [ctas as u32, splits as u32, 1],
                block: [threads as u32, rows_per_cta as u32, 1],
                shared_bytes: 0,
                cluster: 1,
                prefers_l1: false,
            },
        })
    }

    /// The elements of a vectorized load: 16 bytes, where rows are aligned to that.
    fn vector(&self, from: DevicePointer, bytes: u64) -> u64 {
        let widest = 16 / bytes;
        let aligned = from.0.is_multiple_of(16) && self.length.is_multiple_of(widest);
        if self.inner == 1 && aligned { widest } else { 1 }
    }

    /// The shape of the partials: as many results, each of an axis of splits.
    fn of_partials(self, splits: u64) -> Self {
        Shape { length: splits, ..self }
    }
}

fn shape_arguments(shape: Shape, plan: &SplitPlan) -> [KernelArgument; 5] {
    [shape.outer, shape.length, shape.inner, plan.splits, plan.split_length]
        .map(KernelArgument::U64)
}

/// What is subtracted from elements.
#[derive(Clone, Copy)]
enum Center {
    None,
    /// A value for each result.
    Given(DevicePointer),
    /// The mean of the row, which the kernel computes first.
    Own,
}

/// One pass: the types of elements and results, the transform and the epilogue.
struct ReducePass {
    from: DevicePointer,
    storage: &'static str,
    bytes: u64,
    transform_type: &'static str,
    transform: &'static str,
    center: Center,
    to: DevicePointer,
    output: &'static str,
    epilogue: &'static str,
    scalar: f64,
}

struct Reduction {
    name: &'static str,
    compute: &'static str,
}

impl ReducePass {
    fn launch(
        &self,
        call: &Call<'_>,
        reduction: &Reduction,
        shape: Shape,
        plan: &SplitPlan,
        vector: u64,
    ) -> Result<()> {
        let (centered, centers) = match self.center {
            Center::None => (0u64, DevicePointer(0)),
            Center::Given(centers) => (1, centers),
            Center::Own => (2, DevicePointer(0)),
        };
        // A row that is centered by its own mean is used twice, and read once where it fits.
        let row_fits = shape.length / vector <= REGISTER_VECTORS * u64::from(plan.config.block[0]);
        let register_vectors = match self.center {
            Center::Own if row_fits => REGISTER_VECTORS,
            _ => 0,
        };
        let defines: [Define; 11] = [
            ("CENTERED", centered.into()),
            ("REGISTER_VECTORS", register_vectors.into()),
            ("TYPE", self.storage.into()),
            ("TRANSFORM_TYPE", self.transform_type.into()),
            ("TRANSFORM", self.transform.into()),
            ("COMPUTE_TYPE", reduction.compute.into()),
            ("COMBINE", reduction.name.into()),
            ("EPILOGUE", self.epilogue.into()),
            ("OUTPUT", self.output.into()),
            ("CONTIGUOUS_AXIS", plan.rows.into()),
            ("VECTOR", vector.into()),
        ];
        let function = call.function("reduce", &defines)?;
        let [outer, length, inner, splits, split_length] = shape_arguments(shape, plan);
        let arguments = [
            KernelArgument::Pointer(self.from),
            KernelArgument::Pointer(centers),
            KernelArgument::Pointer(self.to),
            outer,
            length,
            inner,
            splits,
            split_length,
            KernelArgument::F64(self.scalar),
        ];
        call.queue.launch(&function, plan.config, &arguments)
    }

    /// Reduces the whole axis, split where there are too few results to fill the GPU.
    fn reduction(mut self, call: &Call<'_>, reduction: &Reduction, shape: Shape) -> Result<()> {
        let vector = shape.vector(self.from, self.bytes);
        let vectors_per_thread = match self.center {
            Center::Own => REGISTER_VECTORS,
            _ => LOADS_IN_FLIGHT,
        };
        let plan = shape.plan(call, vector, vectors_per_thread, 512)?;
        if plan.splits == 1 {
            return self.launch(call, reduction, shape, &plan, vector);
        }
        // Compute types have at most eight bytes.
        let splits = call.scratch("reduce", shape.results() * plan.splits * 8)?;
        let combining = ReducePass {
            from: splits,
            storage: reduction.compute,
            bytes: 16,
            transform_type: reduction.compute,
            transform: "a0",
            center: Center::None,
            ..self
        };
        (self.to, self.output, self.epilogue) = (splits, reduction.compute, "a0");
        self.launch(call, reduction, shape, &plan, vector)?;
        let shape = shape.of_partials(plan.splits);
        let unsplit_plan = shape.plan(call, 1, LOADS_IN_FLIGHT, 512)?.unsplit(shape);
        combining.launch(call, reduction, shape, &unsplit_plan, 1)
    }
}

fn type_names(
    call: &Call<'_>,
    name: &str,
    operand: Operand,
) -> Result<(&'static str, &'static str)> {
    let names = element_type(operand.format).zip(compute_type(operand.format));
    names.ok_or_else(|| call.error(format_args!("{name} of real numbers"), operand.format))
}

pub(super) fn reduce(call: &Call<'_>) -> Result<()> {
    let shape = Shape::read(call)?;
    let x = call.operand("x", &[shape.outer, shape.length, shape.inner])?;
    let out = call.operand("out", &[shape.outer, shape.inner])?;
    if shape.results() == 0 {
        return Ok(());
    }
    let format = call.format("compute_type")?;
    let Some(compute) = compute_type(format) else {
        return Err(call.error("a format that kernels compute in", format));
    };
    let reduction = Reduction { name: call.expression("combine")?, compute };
    let (storage, transform_type) = type_names(call, "x", x)?;
    let mut reduce_pass = ReducePass {
        from: x.pointer,
        storage,
        bytes: x.format.element_bytes().unwrap_or(16),
        transform_type,
        transform: call.expression("transform")?,
        center: Center::None,
        to: out.pointer,
        output: type_names(call, "out", out)?.0,
        epilogue: call.expression("epilogue")?,
        scalar: call.double("epilogue_scalar")?,
    };
    if call.integer("centered")? != 0 {
        let plan =
            shape.plan(call, shape.vector(x.pointer, reduce_pass.bytes), REGISTER_VECTORS, 512)?;
        reduce_pass.center = if plan.rows && plan.splits == 1 {
            Center::Own
        } else {
            let means = call.scratch("reduce means", shape.results() * 8)?;
            let mean = ReducePass {
                transform: "a0",
                to: means,
                output: compute,
                epilogue: "divide(a0,a1)",
                scalar: shape.length as f64,
                ..reduce_pass
            };
            mean.reduction(call, &reduction, shape)?;
            Center::Given(means)
        };
    }
    reduce_pass.reduction(call, &reduction, shape)
}

pub(super) fn argreduce(call: &Call<'_>) -> Result<()> {
    let shape = Shape::read(call)?;
    let x = call.operand("x", &[shape.outer, shape.length, shape.inner])?;
    let out = call.typed("out", ElementFormat::I64, &[shape.outer, shape.inner])?;
    if shape.results() == 0 {
        return Ok(());
    }
    let (storage, compute) = type_names(call, "x", x)?;
    let largest = call.integer("largest")? != 0;
    let launch = |shape: Shape, plan: &SplitPlan, vector: u64, pointers: [KernelArgument; 4]| {
        let defines: [Define; 5] = [
            ("TYPE", storage.into()),
            ("COMPUTE_TYPE", compute.into()),
            ("LARGEST", largest.into()),
            ("CONTIGUOUS_AXIS", plan.rows.into()),
            ("VECTOR", vector.into()),
        ];
        let function = call.function("argreduce", &defines)?;
        let arguments: Vec<_> = pointers.into_iter().chain(shape_arguments(shape, plan)).collect();
        call.queue.launch(&function, plan.config, &arguments)
    };
    let null = KernelArgument::Pointer(DevicePointer(0));
    let vector = shape.vector(x.pointer, x.format.element_bytes().unwrap_or(16));
    let plan = shape.plan(call, vector, LOADS_IN_FLIGHT, 256)?;
    if plan.splits == 1 {
        return launch(shape, &plan, vector, [pointer(x), null, null, pointer(out)]);
    }
    let count = shape.results() * plan.splits;
    let values = KernelArgument::Pointer(call.scratch("argreduce values", count * 8)?);
    let indices = KernelArgument::Pointer(call.scratch("argreduce indices", count * 8)?);
    launch(shape, &plan, vector, [pointer(x), null, values, indices])?;
    let shape = shape.of_partials(plan.splits);
    let unsplit_plan = shape.plan(call, 1, LOADS_IN_FLIGHT, 256)?.unsplit(shape);
    launch(shape, &unsplit_plan, 1, [values, indices, null, pointer(out)])
}
