//! Products of some rows with weights of 16 bits: one pass over the weights by a kernel of ours.

use super::call::{Call, at, at_or_null, int};
use super::linear::Linear;
use super::rows::line;
use super::tools::{Setting, Tools};
use crate::device::{Extent, Queue};
use assay_runtime::backend::{KernelArgument, Result};
use std::ops::RangeInclusive;

/// Rows of x: fewer are quicker in the kernel for few, and more are cuBLASLt's.
const ROWS: RangeInclusive<u64> = 3..=8;
/// Rows of weights that a block takes at once.
const TAKEN: u64 = 16;
/// Bytes between rows in the ring, besides their own, so that they begin at other banks.
const GAP: u64 = 64;
/// Bytes of shared memory for sums, besides the rings.
const SUMS_BYTES: u64 = 10 << 10;
/// The most turns of a block whose sums are kept from pass to pass.
const MOST_TURNS: u64 = 4;

/// How the kernel is launched, as measured on an H200.
struct SomeRows {
    /// Inputs of a weight row that a warp takes at once.
    slice: u64,
    /// Slices whose x a warp keeps in registers.
    slices: u64,
    /// Slices in the ring of each warp.
    stages: u64,
    warps: u64,
    /// A block for each multiprocessor.
    grid: u64,
    /// The most turns that one of them does.
    turns: u64,
}

impl SomeRows {
    /// None where the product is not for this kernel.
    fn new(queue: &Queue<'_>, given: &Linear) -> Option<Self> {
        let mut shapes = [
            (256, 2, 8, 3),
            (256, 2, 7, 3),
            (128, 2, 8, 5),
            (128, 1, 8, 5),
        ]
        .into_iter();
        let (slice, slices, warps, stages) = shapes.find(|(slice, slices, warps, _)| {
            given.inputs.is_multiple_of(slice * slices * warps)
        })?;
        let facts = queue.device().facts();
        let turns = given.outputs.div_ceil(TAKEN);
        let grid = turns.min(u64::from(facts.multiprocessors));
        let passes = given.inputs / (slice * slices * warps);
        let shape = SomeRows {
            slice,
            slices,
            stages,
            warps,
            grid,
            turns: turns.div_ceil(grid),
        };
        let fits = shape.ring_bytes() + SUMS_BYTES <= u64::from(facts.shared_bytes);
        (fits && (passes == 1 || shape.turns <= MOST_TURNS)).then_some(shape)
    }

    /// Shared memory of the rings of all warps.
    fn ring_bytes(&self) -> u64 {
        self.warps * self.stages * TAKEN * (self.slice * 2 + GAP)
    }
}

/// Computes a product if it is for this kernel, and says whether it was.
pub(super) fn some_rows(
    tools: &Tools,
    queue: &Queue<'_>,
    call: &Call<'_>,
    given: &Linear,
) -> Result<bool> {
    if !ROWS.contains(&given.rows) || given.packed.is_some() {
        return Ok(false);
    }
    let Some(shape) = SomeRows::new(queue, given) else {
        return Ok(false);
    };
    let settings: [Setting; 13] = [
        ("ACTIVATION", call.numbers("x", given.x)?.into()),
        ("OUTPUT", call.numbers("out", given.out)?.into()),
        ("NORM", given.gain.is_some().into()),
        ("PAIRED", given.gated.into()),
        ("ACTIVATE", given.activation.into()),
        ("TILES", 1u64.into()),
        ("INPUTS", given.inputs.into()),
        ("SLICE", shape.slice.into()),
        ("SLICES", shape.slices.into()),
        ("STAGES", shape.stages.into()),
        ("TURNS", shape.turns.min(MOST_TURNS).into()),
        ("WARPS", shape.warps.into()),
        ("BLOCKS", 1u64.into()),
    ];
    let function = tools.function(queue, "small_m_gemm", &settings)?;
    let extent = Extent {
        shared_bytes: shape.ring_bytes() as u32,
        ..line(shape.grid, shape.warps * 32)
    };
    let arguments = [
        at(given.weights),
        at(given.x),
        at_or_null(given.gain),
        at_or_null(given.bias),
        at_or_null(given.residual),
        at(given.out),
        int(given.rows),
        int(given.outputs),
        KernelArgument::F32(given.epsilon),
    ];
    queue.launch(&function, extent, &arguments)?;
    Ok(true)
}
