//! Grouped GEMM for few tokens of each expert: every touched expert's weights are read once.

use super::call::{Call, int, pointer, pointer_or_null};
use super::define::Define;
use super::grid::grid_1d;
use super::grouped_arguments::GroupedLinear;
use crate::device::LaunchConfig;
use assay_runtime::backend::Result;

/// The most assignments that every CTA groups by itself.
const MAX_ASSIGNMENTS: u64 = 1024;
/// The most assignments of an expert, on average: beyond, tiles of 64 were faster on an H200.
const MAX_MEAN_ROWS: u64 = 2;
/// Bytes of padding between rows in the circular buffer, against bank conflicts.
const ROW_PADDING: u64 = 64;
/// Weight rows of an item.
const ITEM_ROWS: u64 = 16;
/// Assignments of a tile.
const TILE_ROWS: u64 = 8;

/// The tiling.
#[derive(Debug, PartialEq, Eq)]
struct Shape {
    /// Inputs of a stage of a warp.
    slice_k: u64,
    /// Slices of a warp.
    slices: u64,
    warps: u64,
    /// Stages of each warp's circular buffer.
    stages: u64,
}

impl Shape {
    /// None where the kernel does not support the shape.
    fn new(inputs: u64, experts: u64, shared_bytes: u64) -> Option<Self> {
        let slice_k = 128;
        // What a warp holds of x: 8 k-steps of 32 inputs.
        let candidates = [8, 7, 6, 5, 4].into_iter();
        let (warps, slices) = candidates.map(|warps| (warps, inputs / (warps * slice_k))).find(
            |(warps, slices)| (1..=2).contains(slices) && warps * slices * slice_k == inputs,
        )?;
        let other = 2 * warps * ITEM_ROWS * TILE_ROWS * 4 + Self::grouping_bytes(experts);
        let stage = warps * ITEM_ROWS * (2 * slice_k + ROW_PADDING);
        let stages = (shared_bytes.checked_sub(other)? / stage).min(6);
        (stages >= 3).then_some(Shape { slice_k, slices, warps, stages })
    }

    /// Shared memory of the grouped assignments, rounded up.
    fn grouping_bytes(experts: u64) -> u64 {
        let tiles = MAX_ASSIGNMENTS.min(MAX_ASSIGNMENTS / TILE_ROWS + experts);
        MAX_ASSIGNMENTS * 6 + experts * 8 + tiles * 6 + 64
    }

    fn ring_bytes(&self) -> u64 {
        self.warps * self.stages * ITEM_ROWS * (2 * self.slice_k + ROW_PADDING)
    }
}

/// Launches the kernel if it supports the shape, and returns whether it did.
pub(super) fn try_grouped_small_m_gemm(call: &Call<'_>, grouped: &GroupedLinear) -> Result<bool> {
    let few = grouped.assignments <= MAX_ASSIGNMENTS
        && grouped.assignments
            <= call.size("small_m_rows")?.min(MAX_MEAN_ROWS) * grouped.experts_count;
    let facts = call.queue.device().facts();
    let shape = Shape::new(grouped.inputs, grouped.experts_count, u64::from(facts.shared_bytes));
    let Some(shape) = shape.filter(|_| few && grouped.packed.is_none()) else {
        return Ok(false);
    };
    let defines: [Define; 10] = [
        ("ELEMENT", call.float_type("x", grouped.x)?.into()),
        ("GATED", grouped.gated.into()),
        ("ACTIVATION", grouped.activation.into()),
        ("INPUTS", grouped.inputs.into()),
        ("SLICE_K", shape.slice_k.into()),
        ("SLICES", shape.slices.into()),
        ("STAGES", shape.stages.into()),
        ("WARPS", shape.warps.into()),
        ("EXPERTS", grouped.experts_count.into()),
        ("MAX_ASSIGNMENTS", MAX_ASSIGNMENTS.into()),
    ];
    let function = call.function("grouped_small_m_gemm", &defines)?;
    let config = LaunchConfig {
        shared_bytes: shape.ring_bytes() as u32,
        ..grid_1d(u64::from(facts.multiprocessors), shape.warps * 32)
    };
    let arguments = [
        pointer(grouped.weights),
        pointer(grouped.x),
        pointer_or_null(grouped.bias),
        pointer(grouped.experts),
        pointer(grouped.out),
        int(grouped.assignments),
        int(grouped.fan_out),
        int(grouped.outputs),
    ];
    call.queue.launch(&function, config, &arguments)?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::Shape;

    #[test]
    fn shapes_of_published_models_fit_the_shared_memory_of_an_h200() {
        let shape = |inputs, experts| {
            Shape::new(inputs, experts, 227 << 10).map(|one| (one.slices, one.warps, one.stages))
        };
        // Qwen3-30B-A3B: gate and up, and down.
        assert_eq!(shape(2048, 128), Some((2, 8, 5)));
        assert_eq!(shape(768, 128), Some((1, 6, 6)));
        // gpt-oss: no warps of 128 inputs each share 2880.
        assert_eq!(shape(2880, 32), None);
    }
}
