//! Linear layers with one to eight rows: GEMV, one pass over the weights.

use super::call::{Call, element_bytes, int, pointer, pointer_or_null};
use super::define::Define;
use super::grid::{grid_1d, grid_2d};
use super::grouped_arguments::GroupedLinear;
use super::linear_arguments::LinearArguments;
use super::packed_layout::{WeightFormat, WeightLayout};
use crate::device::LaunchConfig;
use crate::discovery::DeviceInfo;
use assay_operations::Operand;
use assay_runtime::backend::{DevicePointer, KernelArgument, Result};
use std::ops::RangeInclusive;

/// Inputs up to which GEMV takes eight rows at once; beyond them, four.
const MAX_INPUTS_8_ROWS: u64 = 4096;
/// Weights beyond which cuBLASLt is faster at more than four rows: half a layer's output.
const SMALL_WEIGHTS: u64 = 6144 * 4096;
/// Passes over quantized weights that cost less than dequantizing them for a GEMM.
const MAX_PASSES: u64 = 3;
/// The most 16-byte chunks of a weight row per thread.
const MAX_CHUNKS_PER_THREAD: u64 = 7;
/// The most chunks of all weight rows of a tile in a thread's registers.
const MAX_CHUNKS_IN_REGISTERS: u64 = 16;
/// Chunks of a row of 4-bit codes, 4096 of them, beyond which a CTA has its SM alone.
const LONG_ROW_CHUNKS: u64 = 128;
/// The warp that fills a circular buffer.
const PRODUCER_THREADS: u64 = 32;

/// The tiling of GEMV, tuned on an H200.
struct GemvShape {
    /// The kernel's maximum of rows of x.
    rows: u64,
    /// Weight rows of a CTA's tile.
    rows_per_cta: u64,
    threads: u64,
    ctas_per_sm: u64,
    /// 16-byte chunks of a weight row per thread.
    chunks_per_thread: u64,
}

impl GemvShape {
    /// For weight rows of `row_chunks` 16-byte chunks, of a layout or as x.
    fn new(gated: bool, rows: u64, row_chunks: u64, layout: Option<WeightLayout>) -> Self {
        use WeightFormat::{E4m3, Float16, Int8, Uint5, Uint6};
        let rows = rows.next_power_of_two();
        let (weight_format, group_size) =
            layout.map_or((Float16, 0), |layout| (layout.weight_format, layout.group_size));
        let has_nested_scales = layout.is_some_and(WeightLayout::has_nested_scales);
        let (rows_per_cta, threads, ctas_per_sm) = match weight_format {
            Float16 => Self::of_16_bits(rows, row_chunks),
            Int8 => Self::of_8_bits(rows, row_chunks, group_size == 0),
            E4m3 => Self::of_8_bits(rows, row_chunks, false),
            _ => Self::of_4_bits(rows, row_chunks),
        };
        // A row longer than the threads' registers hold takes a wider CTA, alone on its SM.
        let min_threads = row_chunks.div_ceil(MAX_CHUNKS_PER_THREAD);
        let (threads, ctas_per_sm) = match min_threads <= threads {
            true => (threads.min(row_chunks).next_multiple_of(32), ctas_per_sm),
            false => (min_threads.next_multiple_of(32), 1),
        };
        // Sums of nested scales take registers for each row of x, groups of 16 more, and upper bits of codes too.
        let has_upper_bits = matches!(weight_format, Uint5 | Uint6);
        let rows_per_cta = match (has_nested_scales, rows) {
            (true, 8) => rows_per_cta.min(2),
            (true, 1) if has_upper_bits && row_chunks > LONG_ROW_CHUNKS => rows_per_cta.min(4),
            (true, 2..=4) if group_size == 16 => rows_per_cta.min(4),
            _ => rows_per_cta,
        };
        let chunks_per_thread = row_chunks.div_ceil(threads);
        let max_rows = 1 << (MAX_CHUNKS_IN_REGISTERS / chunks_per_thread).max(1).ilog2();
        GemvShape {
            rows,
            rows_per_cta: rows_per_cta.min(max_rows).max(if gated { 2 } else { 1 }),
            threads,
            ctas_per_sm,
            chunks_per_thread,
        }
    }

    /// Weight rows whose registers are loaded again while the others of the tile are multiplied; 0: all at once. It
    /// pays where one CTA multiplies for long, and loads again without a branch.
    fn reload_rows(&self, layout: Option<WeightLayout>) -> u64 {
        let is_q4_k = layout.is_some_and(|one| {
            one.has_nested_scales()
                && one.group_size == 32
                && matches!(one.weight_format, WeightFormat::Uint4)
        });
        match is_q4_k && self.ctas_per_sm == 1 && (self.rows, self.rows_per_cta) == (1, 8) {
            true => 4,
            false => 0,
        }
    }

    /// Rows per CTA, threads and CTAs per SM.
    fn of_16_bits(rows: u64, row_chunks: u64) -> (u64, u64, u64) {
        match (row_chunks > 512, rows) {
            (false, ..=2) => (8, 256, 2),
            (false, 3..=4) => (4, 256, 2),
            (false, _) => (4, 128, 2),
            (true, ..=2) => (4, 448, 1),
            (true, _) => (2, 448, 1),
        }
    }

    /// Ungrouped int8 takes the fewest registers beside the weights.
    fn of_8_bits(rows: u64, row_chunks: u64, ungrouped_int8: bool) -> (u64, u64, u64) {
        match (row_chunks > 256, rows) {
            (false, 1) if ungrouped_int8 => (16, 256, 2),
            (false, ..=2) => (8, 256, 2),
            (false, 3..=4) => (4, 256, 2),
            (false, _) => (2, 256, 2),
            (true, 1) if ungrouped_int8 => (8, 512, 1),
            (true, ..=2) => (4, 512, 1),
            (true, _) => (2, 448, 1),
        }
    }

    fn of_4_bits(rows: u64, row_chunks: u64) -> (u64, u64, u64) {
        match (row_chunks > LONG_ROW_CHUNKS, rows) {
            (false, 1) => (8, 128, 4),
            (false, 2) => (8, 128, 3),
            (false, 3..=4) => (8, 128, 2),
            (false, _) => (4, 128, 2),
            (true, 1) => (8, 448, 1),
            (true, _) => (4, 448, 1),
        }
    }
}

/// A circular buffer in shared memory through which a CTA's tiles go: `gemv_hopper.cu`.
struct CircularBuffer {
    stages: u64,
    /// Of one stage: a tile's rows of weights and of scales.
    stage_bytes: u64,
}

impl CircularBuffer {
    /// The compute capability of Hopper, which has bulk copies, and for which this was measured.
    const CAPABILITY: u32 = 90;
    /// Chunks of a weight row for which it was measured: up to 4096 inputs. It is slower for 14336.
    const ROW_CHUNKS: RangeInclusive<u64> = 97..=128;
    /// Rows per CTA, threads and CTAs per SM.
    const SHAPE: (u64, u64, u64) = (4, 128, 4);
    /// Shared memory of a CTA besides the buffer: partial sums, mbarriers, and what the system reserves.
    const OTHER_BYTES: u64 = 2560;
    const MIN_STAGES: u64 = 2;
    /// Outputs up to which registers are faster: a CTA then has few tiles, and filling the buffer takes longest.
    const FEW_OUTPUTS: u64 = 6144;

    /// The tiling and the buffer for one row of x and nested scales; none where registers are faster.
    fn new(
        facts: &DeviceInfo,
        layout: Option<WeightLayout>,
        (outputs, inputs): (u64, u64),
        shape: &GemvShape,
    ) -> Option<(GemvShape, Self)> {
        let layout = layout.filter(|one| one.has_nested_scales())?;
        let row_chunks = layout.padded(inputs) / layout.chunk();
        let measured = Self::ROW_CHUNKS.contains(&row_chunks)
            && shape.rows == 1
            && outputs > Self::FEW_OUTPUTS;
        if facts.capability != Self::CAPABILITY || !measured {
            return None;
        }
        let (rows_per_cta, threads, ctas_per_sm) = Self::SHAPE;
        let (row_bytes, scale_row_bytes) = layout.row_bytes(inputs);
        let stage_bytes = rows_per_cta * (row_bytes + scale_row_bytes);
        let room = u64::from(facts.shared_bytes) / ctas_per_sm;
        let stages = room.saturating_sub(Self::OTHER_BYTES) / stage_bytes;
        let shape = GemvShape {
            rows: 1,
            rows_per_cta,
            threads,
            ctas_per_sm,
            chunks_per_thread: row_chunks.div_ceil(threads),
        };
        let buffer = CircularBuffer { stages, stage_bytes };
        (stages >= Self::MIN_STAGES).then_some((shape, buffer))
    }
}

/// The macros of a layout of weights; without one, weights are as x.
fn layout_defines(layout: Option<WeightLayout>) -> Vec<Define> {
    match layout {
        Some(layout) => layout.defines().to_vec(),
        None => vec![
            ("WEIGHT_FORMAT", WeightFormat::Float16.macro_value().into()),
            ("GROUP_SIZE", 0u64.into()),
        ],
    }
}

/// The most rows of x in one pass over the weights.
fn max_rows(inputs: u64) -> u64 {
    if inputs <= MAX_INPUTS_8_ROWS { 8 } else { 4 }
}

/// Whether GEMV is faster than a GEMM: for two rows always; for four where norm or gating would be
/// separate kernels; for eight where the weights are few.
pub(super) fn prefers_gemv(linear: &LinearArguments) -> bool {
    let (rows, inputs) = (linear.rows, linear.inputs);
    if linear.packed.is_some() {
        return rows <= max_rows(inputs) * MAX_PASSES;
    }
    let small_weights = inputs * linear.outputs <= SMALL_WEIGHTS;
    let fused = linear.gain.is_some() || linear.gated;
    rows <= 2 || rows <= 4 && (small_weights || fused) || rows <= max_rows(inputs) && small_weights
}

/// The operand from element `elements` on.
fn advanced(operand: Operand, elements: u64) -> Operand {
    let bytes = elements * element_bytes(operand.format).unwrap_or(0);
    Operand { pointer: DevicePointer(operand.pointer.0 + bytes), ..operand }
}

/// Launches one GEMV for every few rows of x.
pub(super) fn launch_gemv(call: &Call<'_>, linear: &LinearArguments) -> Result<()> {
    let max_rows_at_once = max_rows(linear.inputs);
    // Batch-invariant: one kernel serves any number of rows.
    let kernel_rows = match call.integer("batch_invariant")? {
        0 => linear.rows.min(max_rows_at_once),
        _ => max_rows_at_once,
    };
    let layout = linear.packed.map(|packed| packed.layout);
    let row_chunks = match layout {
        Some(layout) => layout.padded(linear.inputs) / layout.chunk(),
        None => linear.inputs.div_ceil(8),
    };
    let facts = call.queue.device().facts();
    let in_registers = GemvShape::new(linear.gated, kernel_rows, row_chunks, layout);
    let sizes = (linear.outputs, linear.inputs);
    let buffered = CircularBuffer::new(facts, layout, sizes, &in_registers);
    let (shape, buffer) = match buffered.filter(|_| linear.lora.is_none()) {
        Some((shape, buffer)) => (shape, Some(buffer)),
        None => (in_registers, None),
    };
    let reload_rows = shape.reload_rows(layout);
    let GemvShape { rows, rows_per_cta, threads, ctas_per_sm, chunks_per_thread } = shape;
    let mut defines = layout_defines(layout);
    defines.extend([
        ("ELEMENT", call.float_type("x", linear.x)?.into()),
        ("OUTPUT", call.float_type("out", linear.out)?.into()),
        ("NORM", linear.gain.is_some().into()),
        ("GATED", linear.gated.into()),
        ("ACTIVATION", linear.activation.into()),
        ("LORA_RANK", linear.lora.map_or(0, |lora| lora.rank).into()),
        ("INPUTS", linear.inputs.into()),
        ("MAX_ROWS", rows.into()),
        ("ROWS_PER_CTA", rows_per_cta.into()),
        ("NO_TAIL", linear.outputs.is_multiple_of(rows_per_cta).into()),
        ("THREADS", threads.into()),
        ("CHUNKS_PER_THREAD", chunks_per_thread.into()),
        ("CTAS_PER_SM", ctas_per_sm.into()),
        ("RELOAD_ROWS", reload_rows.into()),
    ]);
    let max_ctas = u64::from(facts.multiprocessors) * ctas_per_sm;
    let ctas = linear.outputs.div_ceil(rows_per_cta).min(max_ctas);
    let (function, config) = match buffer {
        None => (call.function("gemv", &defines)?, grid_1d(ctas, threads)),
        Some(CircularBuffer { stages, stage_bytes }) => {
            defines.push(("STAGES", stages.into()));
            let config = LaunchConfig {
                shared_bytes: (stages * stage_bytes) as u32,
                // Asks for room for all of an SM's CTAs; otherwise one that fits would do.
                prefers_l1: true,
                ..grid_1d(ctas, threads + PRODUCER_THREADS)
            };
            (call.function("gemv_hopper", &defines)?, config)
        }
    };
    let columns = linear.outputs / if linear.gated { 2 } else { 1 };
    let mut done = 0;
    while done < linear.rows {
        let pass_rows = (linear.rows - done).min(max_rows_at_once);
        let residual = linear.residual.map(|one| advanced(one, done * linear.outputs));
        let mut arguments = vec![
            pointer(linear.weights),
            KernelArgument::Pointer(linear.packed.map_or(DevicePointer(0), |one| one.scales)),
            pointer(advanced(linear.x, done * linear.inputs)),
            pointer_or_null(linear.gain),
            pointer_or_null(linear.bias),
            pointer_or_null(residual),
            pointer(advanced(linear.out, done * columns)),
            int(pass_rows),
            int(linear.outputs),
            KernelArgument::F32(linear.epsilon),
        ];
        if let Some(lora) = linear.lora {
            let low = advanced(lora.low, done * lora.rank);
            arguments.extend([low, lora.b, advanced(lora.adapters, done)].map(pointer));
        }
        call.queue.launch(&function, config, &arguments)?;
        done += pass_rows;
    }
    Ok(())
}

/// The most assignments of a launch: the grid's y.
const MAX_ASSIGNMENTS: u64 = 65_535;

/// The ranges of assignments of each launch, as first and count. A row of x has `fan_out`
/// assignments, which stay in one launch.
fn launch_ranges(assignments: u64, fan_out: u64) -> impl Iterator<Item = (u64, u64)> {
    let step = (MAX_ASSIGNMENTS / fan_out).max(1) * fan_out;
    (0..assignments.div_ceil(step)).map(move |i| (i * step, step.min(assignments - i * step)))
}

/// Launches a GEMV for every assignment.
pub(super) fn launch_grouped_gemv(call: &Call<'_>, grouped: &GroupedLinear) -> Result<()> {
    if grouped.fan_out > MAX_ASSIGNMENTS {
        let expected = format_args!("at most {MAX_ASSIGNMENTS} experts a row");
        return Err(call.error(expected, grouped.fan_out));
    }
    let layout = grouped.packed.map(|packed| packed.layout);
    let row_chunks = match layout {
        Some(layout) => layout.padded(grouped.inputs) / layout.chunk(),
        None => grouped.inputs.div_ceil(8),
    };
    let shape = GemvShape::new(grouped.gated, 1, row_chunks, layout);
    let mut defines = layout_defines(layout);
    defines.extend([
        ("ELEMENT", call.float_type("x", grouped.x)?.into()),
        ("OUTPUT", call.float_type("out", grouped.out)?.into()),
        ("NORM", false.into()),
        ("GATED", grouped.gated.into()),
        ("ACTIVATION", grouped.activation.into()),
        ("INPUTS", grouped.inputs.into()),
        ("MAX_ROWS", shape.rows.into()),
        ("ROWS_PER_CTA", shape.rows_per_cta.into()),
        ("NO_TAIL", grouped.outputs.is_multiple_of(shape.rows_per_cta).into()),
        ("THREADS", shape.threads.into()),
        ("CHUNKS_PER_THREAD", shape.chunks_per_thread.into()),
        ("CTAS_PER_SM", shape.ctas_per_sm.into()),
        ("GROUPED", true.into()),
    ]);
    let function = call.function("gemv", &defines)?;
    let resident = u64::from(call.queue.device().facts().multiprocessors) * shape.ctas_per_sm;
    let tiles = grouped.outputs.div_ceil(shape.rows_per_cta);
    let columns = grouped.outputs / if grouped.gated { 2 } else { 1 };
    for (first, count) in launch_ranges(grouped.assignments, grouped.fan_out) {
        // All CTAs of all assignments are resident at once where they can be.
        let config = grid_2d(tiles.min(resident.div_ceil(count)), count, shape.threads);
        let arguments = [
            pointer(grouped.weights),
            KernelArgument::Pointer(grouped.packed.map_or(DevicePointer(0), |one| one.scales)),
            pointer(advanced(grouped.x, first / grouped.fan_out * grouped.inputs)),
            KernelArgument::Pointer(DevicePointer(0)),
            pointer_or_null(grouped.bias),
            KernelArgument::Pointer(DevicePointer(0)),
            pointer(advanced(grouped.out, first * columns)),
            int(1),
            int(grouped.outputs),
            KernelArgument::F32(0.0),
            pointer(advanced(grouped.experts, first)),
            int(grouped.fan_out),
        ];
        call.queue.launch(&function, config, &arguments)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{MAX_ASSIGNMENTS, launch_ranges};

    #[test]
    fn every_assignment_is_in_one_launch() {
        // 512 tokens of 128 heads, as a latent projection of a prompt has them.
        for (assignments, fan_out) in [(0, 1), (1, 1), (65_535, 1), (65_536, 128), (200_001, 3)] {
            let mut next = 0;
            for (first, count) in launch_ranges(assignments, fan_out) {
                assert_eq!((first, first % fan_out), (next, 0));
                assert!((1..=MAX_ASSIGNMENTS).contains(&count));
                next += count;
            }
            assert_eq!(next, assignments);
        }
    }
}
