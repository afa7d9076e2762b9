//! Grouped GEMM for few tokens of each expert on Hopper: bulk copies keep the weight stream full.

use super::call::{Call, int, pointer, pointer_or_null};
use super::define::Define;
use super::grid::grid_1d;
use super::grouped_arguments::GroupedLinear;
use crate::device::LaunchConfig;
use assay_runtime::backend::Result;

/// The capability, as major times ten plus minor, of the GPUs that it was measured on.
const CAPABILITY: u32 = 90;
/// The most assignments that every CTA groups by itself.
const MAX_ASSIGNMENTS: u64 = 1024;
/// The most experts of the counters in shared memory.
const MAX_EXPERTS: u64 = 512;
/// Consumer warps, the preferred number first.
const WARPS: [u64; 9] = [8, 9, 10, 7, 6, 11, 12, 5, 4];
/// Weight rows of an item: two blocks of the A operand of the tensor core.
const ITEM_ROWS: u64 = 32;
/// Assignments of a tile.
const TILE_ROWS: u64 = 8;
/// The most k-steps of 32 inputs of x in the registers of a warp.
const MAX_K_STEPS: u64 = 16;
/// The most bytes of a stage.
const MAX_STAGE_BYTES: u64 = 64 << 10;
/// Shared memory of a CTA that the driver takes.
const RESERVED_BYTES: u64 = 1024;

/// The tiling.
#[derive(Debug, PartialEq, Eq)]
struct Shape {
    /// Parts of a weight row.
    parts: u64,
    warps: u64,
    /// Of the circular buffer.
    stages: u64,
    ctas_per_sm: u64,
    /// Consecutive items of a CTA.
    chunk: u64,
}

impl Shape {
    /// None where the kernel does not support the shape.
    fn new(inputs: u64, experts: u64, shared_bytes: u64) -> Option<Self> {
        let shape = if ITEM_ROWS * inputs * 2 < MAX_STAGE_BYTES {
            // The barriers of one CTA hide behind the other.
            Shape {
                parts: 1,
                warps: [4, 6, 5, 8].into_iter().find(|warps| inputs.is_multiple_of(32 * warps))?,
                stages: 1,
                ctas_per_sm: 2,
                chunk: 2,
            }
        } else {
            let (parts, warps) = (2..=MAX_K_STEPS)
                .filter(|parts| ITEM_ROWS * inputs * 2 <= parts * MAX_STAGE_BYTES)
                .find_map(|parts| {
                    let suits = |warps: &u64| inputs.is_multiple_of(32 * parts * warps);
                    Some((parts, WARPS.into_iter().find(suits)?))
                })?;
            Shape { parts, warps, stages: 3, ctas_per_sm: 1, chunk: 1 }
        };
        let room = (shared_bytes + RESERVED_BYTES) / shape.ctas_per_sm - RESERVED_BYTES;
        let fits = shape.static_bytes(experts) + shape.ring_bytes(inputs) <= room
            && inputs / (32 * shape.warps) <= MAX_K_STEPS;
        fits.then_some(shape)
    }

    /// Shared memory of partial sums, grouped assignments and barriers, rounded up.
    fn static_bytes(&self, experts: u64) -> u64 {
        let partials = 2 * self.warps * ITEM_ROWS * TILE_ROWS * 4;
        let tiles = MAX_ASSIGNMENTS.min(MAX_ASSIGNMENTS / TILE_ROWS + experts);
        partials + MAX_ASSIGNMENTS * 2 + experts * 8 + tiles * 6 + self.stages * 16 + 64
    }

    /// Shared memory of the circular buffer: parts of rows are 64 bytes more than a multiple of 128.
    fn ring_bytes(&self, inputs: u64) -> u64 {
        let copy = inputs / self.parts * 2;
        let padding = (192 - copy % 128) % 128 * u64::from(self.parts > 1);
        self.stages * ITEM_ROWS * (copy + padding)
    }
}

/// Launches the kernel if it supports the shape, and returns whether it did.
pub(super) fn try_grouped_small_m_gemm_hopper(
    call: &Call<'_>,
    grouped: &GroupedLinear,
) -> Result<bool> {
    let facts = call.queue.device().facts();
    let few = grouped.assignments <= MAX_ASSIGNMENTS
        && grouped.experts_count <= MAX_EXPERTS
        && grouped.assignments <= call.size("small_m_rows")? * grouped.experts_count;
    let aligned = grouped.weights.pointer.0.is_multiple_of(16);
    if !few || !aligned || facts.capability != CAPABILITY || grouped.packed.is_some() {
        return Ok(false);
    }
    let Some(shape) =
        Shape::new(grouped.inputs, grouped.experts_count, u64::from(facts.shared_bytes))
    else {
        return Ok(false);
    };
    let multiprocessors = u64::from(facts.multiprocessors);
    let defines: [Define; 14] = [
        ("ELEMENT", call.float_type("x", grouped.x)?.into()),
        ("GATED", grouped.gated.into()),
        ("ACTIVATION", grouped.activation.into()),
        ("M_TILES", 1u64.into()),
        ("ROW_BLOCKS", 2u64.into()),
        ("INPUTS", grouped.inputs.into()),
        ("PARTS", shape.parts.into()),
        ("STAGES", shape.stages.into()),
        ("WARPS", shape.warps.into()),
        ("CHUNK", shape.chunk.into()),
        ("EXPERTS", grouped.experts_count.into()),
        ("MAX_ASSIGNMENTS", MAX_ASSIGNMENTS.into()),
        ("EXPERTS_READY", grouped.experts_ready.into()),
        ("CTAS_PER_SM", shape.ctas_per_sm.into()),
    ];
    let function = call.function("grouped_small_m_gemm_hopper", &defines)?;
    let config = LaunchConfig {
        shared_bytes: shape.ring_bytes(grouped.inputs) as u32,
        ..grid_1d(multiprocessors * shape.ctas_per_sm, (shape.warps + 1) * 32)
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
            Shape::new(inputs, experts, 227 << 10)
                .map(|one| (one.parts, one.warps, one.stages, one.ctas_per_sm))
        };
        // Qwen3-30B-A3B: gate and up, and down, as measured.
        assert_eq!(shape(2048, 128), Some((2, 8, 3, 1)));
        assert_eq!(shape(768, 128), Some((1, 4, 1, 2)));
        // gpt-oss; DeepSeek-V3, whose x fills the registers.
        assert_eq!(shape(2880, 32), Some((3, 10, 3, 1)));
        assert_eq!(shape(7168, 256), None);
    }
}
