//! Grouped GEMM for many tokens of each expert on Hopper: weights by TMA, products by warpgroups.

use super::call::{Call, int, pointer, pointer_or_null};
use super::define::Define;
use super::grid::grid_1d;
use super::grouped_arguments::GroupedLinear;
use crate::device::{LaunchConfig, TiledTensor};
use assay_runtime::backend::{KernelArgument, Result};

/// The capability, as major times ten plus minor, that the kernel is written for.
const CAPABILITY: u32 = 90;
/// Assignments of a tile.
const TILE_ROWS: u64 = 128;
/// Weight rows of a box, two of which are multiplied by a tile.
const HALF_OUTPUTS: u64 = 128;
/// Inputs of a step: a row of the 128-byte swizzle.
const TILE_K: u64 = 64;
/// Shared memory: four stages of rows of 128 bytes, aligned to a swizzle atom.
const SHARED_BYTES: u64 = 4 * (TILE_ROWS + 2 * HALF_OUTPUTS) * 128 + 1024;

/// Whether experts have `least` assignments on average, and fill tiles of so many rows well enough; 0 is never.
fn fills_tiles(assignments: u64, experts: u64, least: u64) -> bool {
    least > 0 && assignments >= least.saturating_mul(experts)
}

/// Launches the kernel if it supports the shape, and returns whether it did.
pub(super) fn try_grouped_gemm_hopper(call: &Call<'_>, grouped: &GroupedLinear) -> Result<bool> {
    let facts = call.queue.device().facts();
    let columns = if grouped.gated { grouped.outputs / 2 } else { grouped.outputs };
    let least = call.size("large_tile_rows")?;
    let many = fills_tiles(grouped.assignments, grouped.experts_count, least);
    let shaped = grouped.inputs.is_multiple_of(TILE_K) && columns.is_multiple_of(8);
    let aligned = [grouped.weights.pointer, grouped.out.pointer]
        .into_iter()
        .all(|pointer| pointer.0.is_multiple_of(16));
    if !many || !shaped || !aligned || facts.capability != CAPABILITY || grouped.packed.is_some() {
        return Ok(false);
    }
    let Some((order, tiles, max_tiles)) = grouped.group_assignments(call, TILE_ROWS)? else {
        return Ok(false);
    };
    let defines: [Define; 3] = [
        ("ELEMENT", call.float_type("x", grouped.x)?.into()),
        ("GATED", grouped.gated.into()),
        ("ACTIVATION", grouped.activation.into()),
    ];
    let function = call.function("grouped_gemm_hopper", &defines)?;
    let weights = call.queue.tensor_map(&TiledTensor {
        pointer: grouped.weights.pointer,
        sizes: [grouped.inputs, grouped.outputs, grouped.experts_count],
        strides: [1, grouped.inputs, grouped.outputs * grouped.inputs],
        box_sizes: [TILE_K as u32, HALF_OUTPUTS as u32, 1],
    })?;
    let mut arguments = weights.to_vec();
    arguments.extend([
        pointer(grouped.x),
        pointer_or_null(grouped.bias),
        KernelArgument::Pointer(order),
        KernelArgument::Pointer(tiles),
        pointer(grouped.out),
        int(grouped.fan_out),
        int(grouped.inputs),
        int(grouped.outputs),
        int(max_tiles),
    ]);
    let tile_columns = if grouped.gated { HALF_OUTPUTS } else { 2 * HALF_OUTPUTS };
    let items = max_tiles * columns.div_ceil(tile_columns);
    let config = LaunchConfig {
        shared_bytes: SHARED_BYTES as u32,
        ..grid_1d(u64::from(facts.multiprocessors).min(items), 384)
    };
    call.queue.launch(&function, config, &arguments)?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::fills_tiles;

    #[test]
    fn tiles_are_for_experts_of_many_rows_and_a_limit_of_zero_turns_them_off() {
        assert!(fills_tiles(6144, 128, 48));
        assert!(!fills_tiles(6143, 128, 48));
        assert!(!fills_tiles(1 << 20, 128, 0));
    }
}
