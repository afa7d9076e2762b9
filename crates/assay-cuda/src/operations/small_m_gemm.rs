//! Linear layers of 3 to 8 rows and 16-bit weights: small-M GEMM, one pass over the weights.

use super::call::{Call, int, pointer, pointer_or_null};
use super::define::Define;
use super::grid::grid_1d;
use super::linear_arguments::LinearArguments;
use crate::device::{LaunchConfig, Queue};
use assay_runtime::backend::{KernelArgument, Result};
use std::ops::RangeInclusive;

/// Rows of x: GEMV is faster for fewer, cuBLASLt for more.
const ROWS: RangeInclusive<u64> = 3..=8;
/// Weight rows of a tile.
const TILE_ROWS: u64 = 16;
/// Bytes of padding between rows in the circular buffer, against bank conflicts.
const ROW_PADDING: u64 = 64;
/// Bytes of shared memory for partial sums, besides the buffers.
const SUMS_BYTES: u64 = 10 << 10;
/// The most tiles of a CTA whose sums stay in registers from pass to pass.
const MAX_TILES: u64 = 4;

/// The tiling, tuned on an H200.
struct SmallMShape {
    /// Inputs of a stage of a warp.
    slice_k: u64,
    /// Slices of x that a warp holds in registers.
    slices_per_pass: u64,
    /// Stages of each warp's circular buffer.
    stages: u64,
    warps: u64,
    /// At most one CTA per SM.
    ctas: u64,
    tiles_per_cta: u64,
}

impl SmallMShape {
    /// None where the kernel does not support the shape.
    fn new(queue: &Queue<'_>, linear: &LinearArguments) -> Option<Self> {
        let mut shapes =
            [(256, 2, 8, 3), (128, 4, 7, 5), (128, 2, 8, 5), (128, 1, 8, 5)].into_iter();
        let (slice_k, slices_per_pass, warps, stages) =
            shapes.find(|(slice_k, slices_per_pass, warps, _)| {
                linear.inputs.is_multiple_of(slice_k * slices_per_pass * warps)
            })?;
        let facts = queue.device().facts();
        let tiles = linear.outputs.div_ceil(TILE_ROWS);
        let ctas = tiles.min(u64::from(facts.multiprocessors));
        let passes = linear.inputs / (slice_k * slices_per_pass * warps);
        let shape = SmallMShape {
            slice_k,
            slices_per_pass,
            stages,
            warps,
            ctas,
            tiles_per_cta: tiles.div_ceil(ctas),
        };
        let fits = shape.ring_bytes() + SUMS_BYTES <= u64::from(facts.shared_bytes);
        (fits && (passes == 1 || shape.tiles_per_cta <= MAX_TILES)).then_some(shape)
    }

    /// Shared memory of the circular buffers of all warps.
    fn ring_bytes(&self) -> u64 {
        self.warps * self.stages * TILE_ROWS * (self.slice_k * 2 + ROW_PADDING)
    }
}

/// Launches the kernel if it supports the shape, and returns whether it did.
pub(super) fn try_small_m_gemm(call: &Call<'_>, linear: &LinearArguments) -> Result<bool> {
    if !ROWS.contains(&linear.rows) || linear.packed.is_some() {
        return Ok(false);
    }
    let Some(shape) = SmallMShape::new(call.queue, linear) else {
        return Ok(false);
    };
    let (lora_rank, lora) = linear.lora_arguments();
    let defines: [Define; 14] = [
        ("ELEMENT", call.float_type("x", linear.x)?.into()),
        ("OUTPUT", call.float_type("out", linear.out)?.into()),
        ("NORM", linear.gain.is_some().into()),
        ("GATED", linear.gated.into()),
        ("ACTIVATION", linear.activation.into()),
        ("M_TILES", 1u64.into()),
        ("INPUTS", linear.inputs.into()),
        ("SLICE_K", shape.slice_k.into()),
        ("SLICES_PER_PASS", shape.slices_per_pass.into()),
        ("STAGES", shape.stages.into()),
        ("MAX_TILES", shape.tiles_per_cta.min(MAX_TILES).into()),
        ("WARPS", shape.warps.into()),
        ("CTAS_PER_SM", 1u64.into()),
        ("LORA_RANK", lora_rank.into()),
    ];
    let function = call.function("small_m_gemm", &defines)?;
    let config = LaunchConfig {
        shared_bytes: shape.ring_bytes() as u32,
        ..grid_1d(shape.ctas, shape.warps * 32)
    };
    let mut arguments = vec![
        pointer(linear.weights),
        pointer(linear.x),
        pointer_or_null(linear.gain),
        pointer_or_null(linear.bias),
        pointer_or_null(linear.residual),
        pointer(linear.out),
        int(linear.rows),
        int(linear.outputs),
        KernelArgument::F32(linear.epsilon),
    ];
    arguments.extend(lora);
    call.queue.launch(&function, config, &arguments)?;
    Ok(true)
}
