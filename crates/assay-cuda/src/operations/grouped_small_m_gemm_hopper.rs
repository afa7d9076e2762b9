//! Grouped GEMM for few tokens of each expert on Hopper: bulk copies keep the weight stream full.

use super::call::{Call, int, pointer, pointer_or_null};
use super::context::{Define, OperationContext};
use super::grid::grid_1d;
use super::grouped_arguments::GroupedLinear;
use crate::device::{LaunchConfig, Queue};
use assay_runtime::backend::Result;

/// The capability, as major times ten plus minor, of the GPUs that it was measured on.
const CAPABILITY: u32 = 90;
/// The most assignments that every CTA groups by itself.
const MAX_ASSIGNMENTS: u64 = 1024;
/// The most experts of the counters in shared memory.
const MAX_EXPERTS: u64 = 512;
/// Consumer warps, the preferred number first.
const WARPS: [u64; 9] = [8, 9, 10, 7, 6, 11, 12, 5, 4];
/// Weight rows of a block: the A operand of the tensor core.
const BLOCK_ROWS: u64 = 16;
/// The most k-steps of 32 inputs of x in the registers of a warp, of all its tiles.
const MAX_K_STEPS: u64 = 16;
/// The most bytes of a weight row in a stage, so that stages are many.
const MAX_COPY_BYTES: u64 = 3072;
/// Stages of the circular buffer.
const STAGES: std::ops::RangeInclusive<u64> = 3..=12;

/// Bytes that all CTAs prefetch together: what memory delivers while tokens are routed, a part of L2.
const PREFETCHED_BYTES: u64 = 24 << 20;

/// The tiling.
#[derive(Debug, PartialEq, Eq)]
struct Shape {
    /// Tiles of 8 assignments.
    m_tiles: u64,
    /// Parts of a weight row: each is a copy.
    parts: u64,
    warps: u64,
    stages: u64,
    /// Consecutive items of a CTA.
    chunk: u64,
}

impl Shape {
    /// None where the kernel does not support the shape.
    fn new(inputs: u64, assignments: u64, experts: u64, shared_bytes: u64) -> Option<Self> {
        // An expert rarely has more assignments than a tile holds.
        let m_tiles = if assignments <= 5 * experts { 1 } else { 2 };
        let parts = (1..=MAX_K_STEPS).find(|parts| inputs * 2 <= parts * MAX_COPY_BYTES)?;
        let warps = WARPS.into_iter().find(|warps| {
            inputs.is_multiple_of(32 * parts * warps)
                && m_tiles * inputs / (32 * warps) <= MAX_K_STEPS
        })?;
        let shape = |stages| Shape {
            m_tiles,
            parts,
            warps,
            stages,
            chunk: 4,
        };
        let room = shared_bytes.checked_sub(shape(0).static_bytes(experts))?;
        let stages = (room / shape(1).ring_bytes(inputs)).min(*STAGES.end());
        STAGES.contains(&stages).then(|| shape(stages))
    }

    /// Shared memory of partial sums, grouped assignments and barriers, rounded up.
    fn static_bytes(&self, experts: u64) -> u64 {
        let partials = 2 * self.warps * BLOCK_ROWS * 8 * self.m_tiles * 4;
        let tiles = MAX_ASSIGNMENTS.min(MAX_ASSIGNMENTS / (8 * self.m_tiles) + experts);
        partials + MAX_ASSIGNMENTS * 2 + experts * 8 + tiles * 6 + STAGES.end() * 16 + 64
    }

    /// Shared memory of the circular buffer: rows are 64 bytes more than a multiple of 128.
    fn ring_bytes(&self, inputs: u64) -> u64 {
        let copy = inputs / self.parts * 2;
        self.stages * BLOCK_ROWS * (copy + (192 - copy % 128) % 128)
    }
}

/// Bytes of the first experts that each CTA prefetches while tokens are routed: none unless almost
/// every expert gets a token.
fn prefetched_bytes(grouped: &GroupedLinear, ctas: u64) -> u64 {
    let likely = !grouped.experts_ready && grouped.assignments >= 3 * grouped.experts_count;
    match likely && grouped.weights.bytes >= PREFETCHED_BYTES {
        true => PREFETCHED_BYTES / ctas / 4096 * 4096,
        false => 0,
    }
}

/// Launches the kernel if it supports the shape, and returns whether it did.
pub(super) fn try_grouped_small_m_gemm_hopper(
    context: &OperationContext,
    queue: &Queue<'_>,
    call: &Call<'_>,
    grouped: &GroupedLinear,
) -> Result<bool> {
    let facts = queue.device().facts();
    let few = grouped.assignments <= MAX_ASSIGNMENTS
        && grouped.experts_count <= MAX_EXPERTS
        && grouped.assignments <= call.size("small_m_rows")? * grouped.experts_count;
    let aligned = grouped.weights.pointer.0.is_multiple_of(16);
    if !few || !aligned || facts.capability != CAPABILITY || grouped.packed.is_some() {
        return Ok(false);
    }
    let Some(shape) = Shape::new(
        grouped.inputs,
        grouped.assignments,
        grouped.experts_count,
        u64::from(facts.shared_bytes),
    ) else {
        return Ok(false);
    };
    let multiprocessors = u64::from(facts.multiprocessors);
    let defines: [Define; 14] = [
        ("ELEMENT", call.float_type("x", grouped.x)?.into()),
        ("GATED", grouped.gated.into()),
        ("ACTIVATION_CODE", grouped.activation.into()),
        ("M_TILES", shape.m_tiles.into()),
        ("ROW_BLOCKS", 1u64.into()),
        ("INPUTS", grouped.inputs.into()),
        ("PARTS", shape.parts.into()),
        ("STAGES", shape.stages.into()),
        ("WARPS", shape.warps.into()),
        ("CHUNK", shape.chunk.into()),
        ("EXPERTS", grouped.experts_count.into()),
        ("MAX_ASSIGNMENTS", MAX_ASSIGNMENTS.into()),
        ("EXPERTS_READY", grouped.experts_ready.into()),
        (
            "PREFETCHED_BYTES",
            prefetched_bytes(grouped, multiprocessors).into(),
        ),
    ];
    let function = context.function(queue, "grouped_small_m_gemm_hopper", &defines)?;
    let config = LaunchConfig {
        shared_bytes: shape.ring_bytes(grouped.inputs) as u32,
        ..grid_1d(multiprocessors, (shape.warps + 1) * 32)
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
    queue.launch(&function, config, &arguments)?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::Shape;

    #[test]
    fn shapes_of_published_models_fit_the_shared_memory_of_an_h200() {
        let shape = |inputs, assignments, experts| {
            Shape::new(inputs, assignments, experts, 227 << 10)
                .map(|one| (one.m_tiles, one.parts, one.warps, one.stages))
        };
        // Qwen3-30B-A3B: gate and up, and down, at batch 64; gate and up at batch 128.
        assert_eq!(shape(2048, 512, 128), Some((1, 2, 8, 6)));
        assert_eq!(shape(768, 512, 128), Some((1, 1, 8, 8)));
        assert_eq!(shape(2048, 1024, 128), Some((2, 2, 8, 6)));
        // gpt-oss; DeepSeek-V3, whose x fills the registers.
        assert_eq!(shape(2880, 128, 32), Some((1, 2, 9, 4)));
        assert_eq!(shape(7168, 512, 256), None);
    }
}
