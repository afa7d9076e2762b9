//! Fused layers over pairs of residues.

use super::call::{Call, int, pointer, pointer_or_null};
use super::define::Define;
use crate::device::LaunchConfig;
use assay_operations::{ElementFormat, Operand};
use assay_runtime::backend::{KernelArgument, Result};

const THREADS: u32 = 256;
/// Channels of a step of [`channel_projection`], and outputs of one of [`triangle_update`].
const PROJECTED_CHANNELS: u64 = 64;
const UPDATED_CHANNELS: u64 = 128;
/// Inputs of a slice of weights.
const SLICE_INPUTS: u64 = 64;
/// Places that fill 16 bytes.
const VECTOR: u64 = 8;
/// Slices in shared memory: the more, the longer the latency that they hide.
const STAGES: [u64; 3] = [4, 3, 2];
/// Inputs from which a CTA has fewer places, because norms of all of them are in shared memory.
const WIDE_INPUTS: u64 = 512;
/// The capability, as major times ten plus minor, that has warpgroup tensor cores.
const HOPPER: u32 = 90;
/// Shared memory that a CTA takes besides what its launch asks for: variables of the kernels, and the system's.
const FIXED_BYTES: u64 = 1024;
const RESERVED_BYTES: u64 = 1024;
/// A persistent kernel: a warpgroup that normalizes and two that multiply, places of a tile, tiles under way.
const PERSISTENT_THREADS: u32 = 3 * 128;
const PERSISTENT_PLACES: u64 = 128;
const PERSISTENT_STAGES: u64 = 2;
const PERSISTENT_FIXED_BYTES: u64 = 2048;
/// Tiles of an SM from which it pays to read all weights first.
const PERSISTENT_TILES: u64 = 2;
/// Inputs of which a tile's rows fit into the registers of a warpgroup.
const PERSISTENT_INPUTS: [u64; 2] = [64, 128];
/// Outputs of which each warpgroup that multiplies has as many.
const PERSISTENT_OUTPUTS: u64 = 2 * PROJECTED_CHANNELS;
/// Channels and sums of [`triangle_update`] for which there is a persistent kernel.
const PERSISTENT_CHANNELS: u64 = 128;
/// A swizzle atom, to which blocks of warpgroups are aligned, and a row of one.
const ATOM_BYTES: u64 = 1024;
const ATOM_ROW_BYTES: u64 = 128;

/// Bytes of a row in shared memory, as `row_bytes` of pair_tiles.cuh.
fn row_bytes(elements: u64) -> u64 {
    2 * elements + 16
}

/// How a CTA is shaped.
#[derive(Clone, Copy)]
struct Tile {
    places: u64,
    stages: u64,
    ctas_per_sm: u64,
}

impl Tile {
    /// The shape for pairs of this width that fits, by its bytes of shared memory: two CTAs for each SM, one of which
    /// multiplies while the other normalizes, before more stages.
    fn find(call: &Call<'_>, width: u64, bytes: impl Fn(Self) -> u64) -> Result<Self> {
        let limit = u64::from(call.queue.device().facts().shared_bytes);
        let places: &[u64] = if width < WIDE_INPUTS { &[128, 64] } else { &[64] };
        let shapes = places.iter().flat_map(|&places| {
            [2, 1].into_iter().flat_map(move |ctas_per_sm| {
                STAGES.into_iter().map(move |stages| Self { places, stages, ctas_per_sm })
            })
        });
        let fits = |tile: &Self| {
            tile.ctas_per_sm * (bytes(*tile) + FIXED_BYTES + RESERVED_BYTES)
                <= limit + RESERVED_BYTES
        };
        let least = Self { places: 64, stages: STAGES[STAGES.len() - 1], ctas_per_sm: 1 };
        shapes.into_iter().find(fits).ok_or_else(|| {
            call.error(format_args!("{} bytes of shared memory", bytes(least)), limit)
        })
    }

    fn config(&self, places: u64, batch: u64, shared_bytes: u64) -> LaunchConfig {
        LaunchConfig {
            grid: [places.div_ceil(self.places) as u32, batch as u32, 1],
            block: [THREADS, 1, 1],
            shared_bytes: shared_bytes as u32,
            cluster: 1,
            prefers_l1: false,
        }
    }
}

/// The launch of a persistent kernel on Hopper, where its weights fit into shared memory beside two tiles.
fn persistent(
    call: &Call<'_>,
    batch: u64,
    places: u64,
    weight_bytes: u64,
    tile_bytes: u64,
) -> Option<LaunchConfig> {
    let facts = call.queue.device().facts();
    let shared_bytes = weight_bytes + PERSISTENT_STAGES * tile_bytes + ATOM_BYTES;
    let tiles = batch * places.div_ceil(PERSISTENT_PLACES);
    let fits = shared_bytes + PERSISTENT_FIXED_BYTES <= u64::from(facts.shared_bytes);
    let pays = tiles >= PERSISTENT_TILES * u64::from(facts.multiprocessors);
    (facts.capability == HOPPER && fits && pays).then_some(LaunchConfig {
        grid: [facts.multiprocessors, 1, 1],
        block: [PERSISTENT_THREADS, 1, 1],
        shared_bytes: shared_bytes as u32,
        cluster: 1,
        prefers_l1: false,
    })
}

/// Refuses operands that are not aligned to the accesses of the kernels.
fn check_alignment(call: &Call<'_>, operands: &[(&str, Operand)]) -> Result<()> {
    let aligned = |operand: &Operand| operand.pointer.0.is_multiple_of(2 * VECTOR);
    match operands.iter().find(|(_, operand)| !aligned(operand)) {
        Some((name, operand)) => {
            let expected = format_args!("{name} aligned to {} bytes", 2 * VECTOR);
            Err(call.error(expected, format_args!("address {:#x}", operand.pointer.0)))
        }
        None => Ok(()),
    }
}

/// Refuses what the kernels do not do: other formats, and extents that are not multiples.
fn check(call: &Call<'_>, format: ElementFormat, multiples: &[(&str, u64, u64)]) -> Result<()> {
    if !matches!(format, ElementFormat::F16 | ElementFormat::Bf16) {
        return Err(call.error("f16 or bf16", format));
    }
    match multiples.iter().find(|(_, size, of)| *size == 0 || !size.is_multiple_of(*of)) {
        Some((name, size, of)) => {
            Err(call.error(format_args!("{name} in multiples of {of}"), size))
        }
        None => Ok(()),
    }
}

pub(super) fn channel_projection(call: &Call<'_>) -> Result<()> {
    let (batch, rows, columns) = (call.size("batch")?, call.size("rows")?, call.size("columns")?);
    let (inputs, outputs) = (call.size("inputs")?, call.size("outputs")?);
    let x = call.operand("x", &[batch, rows, columns, inputs])?;
    let norm = |name| call.typed(name, x.format, &[inputs]);
    let (norm_weight, norm_bias) = (norm("norm_weight")?, norm("norm_bias")?);
    let weights = call.typed("weights", x.format, &[outputs, inputs])?;
    let gates = call.optional_typed("gates", x.format, &[outputs, inputs])?;
    let mask = call.optional_typed("mask", x.format, &[batch, rows, columns])?;
    let out = call.typed("out", x.format, &[batch, outputs, rows, columns])?;
    let places = rows * columns;
    check(
        call,
        x.format,
        &[
            ("rows * columns", places, VECTOR),
            ("inputs", inputs, SLICE_INPUTS),
            ("outputs", outputs, PROJECTED_CHANNELS),
        ],
    )?;
    let mut operands = vec![("x", x), ("norm_weight", norm_weight), ("norm_bias", norm_bias)];
    operands.extend([("weights", weights), ("out", out)]);
    operands.extend(gates.map(|gates| ("gates", gates)));
    check_alignment(call, &operands)?;
    let factors = 1 + u64::from(gates.is_some());
    let transposed = call.integer("transposed")? != 0;
    let element = call.float_type("x", x)?;
    let epsilon = KernelArgument::F32(call.float("epsilon")?);
    let mut arguments = vec![
        pointer(x),
        pointer(norm_weight),
        pointer(norm_bias),
        pointer(weights),
        pointer_or_null(gates),
        pointer_or_null(mask),
        pointer(out),
        int(rows),
        int(columns),
    ];
    let shared_evenly = outputs.is_multiple_of(PERSISTENT_OUTPUTS);
    let launch = match PERSISTENT_INPUTS.contains(&inputs) && shared_evenly {
        true => {
            let (weight_bytes, tile_bytes) =
                (2 * factors * outputs * inputs, 2 * PERSISTENT_PLACES * inputs);
            persistent(call, batch, places, weight_bytes, tile_bytes)
        }
        false => None,
    };
    if let Some(config) = launch {
        let defines: [Define; 5] = [
            ("ELEMENT", element.into()),
            ("INPUTS", inputs.into()),
            ("OUTPUTS", outputs.into()),
            ("GATED", gates.is_some().into()),
            ("TRANSPOSED", transposed.into()),
        ];
        let function = call.function("channel_projection_persistent", &defines)?;
        arguments.extend([int(batch), epsilon]);
        return call.queue.launch(&function, config, &arguments);
    }
    // Warpgroups side by side over places, where accumulators of two CTAs must fit into registers.
    let groups = |tile: Tile| {
        let steps_are_small =
            tile.ctas_per_sm == 2 || !outputs.is_multiple_of(2 * PROJECTED_CHANNELS);
        1 + u64::from(tile.places == 128 && steps_are_small)
    };
    let hopper_bytes = |tile: Tile| {
        let slice = factors * 2 * PROJECTED_CHANNELS / groups(tile) * ATOM_ROW_BYTES;
        tile.places * 2 * inputs + tile.stages * slice + ATOM_BYTES
    };
    let generic_bytes = |tile: Tile| {
        tile.places * row_bytes(inputs)
            + tile.stages * factors * PROJECTED_CHANNELS * row_bytes(SLICE_INPUTS)
            + PROJECTED_CHANNELS * row_bytes(tile.places)
    };
    let hopper = match call.queue.device().facts().capability == HOPPER {
        true => Tile::find(call, inputs, hopper_bytes).ok(),
        false => None,
    };
    let hopper =
        hopper.filter(|tile| outputs.is_multiple_of(2 * PROJECTED_CHANNELS / groups(*tile)));
    let tile = hopper.map_or_else(|| Tile::find(call, inputs, generic_bytes), Ok)?;
    let mut defines: Vec<Define> = vec![
        ("ELEMENT", element.into()),
        ("INPUTS", inputs.into()),
        ("TILE_PLACES", tile.places.into()),
        ("STAGES", tile.stages.into()),
        ("GATED", gates.is_some().into()),
        ("TRANSPOSED", transposed.into()),
        ("CTAS_PER_SM", tile.ctas_per_sm.into()),
    ];
    let (name, shared_bytes) = match hopper {
        Some(tile) => {
            defines.push(("GROUPS", groups(tile).into()));
            ("channel_projection_hopper", hopper_bytes(tile))
        }
        None => ("channel_projection", generic_bytes(tile)),
    };
    let function = call.function(name, &defines)?;
    arguments.extend([int(outputs), epsilon]);
    call.queue.launch(&function, tile.config(places, batch, shared_bytes), &arguments)
}

pub(super) fn triangle_update(call: &Call<'_>) -> Result<()> {
    let (batch, places) = (call.size("batch")?, call.size("places")?);
    let (hidden, channels) = (call.size("hidden")?, call.size("channels")?);
    let pairs = call.operand("pairs", &[batch, places, channels])?;
    let operand = |name, extents: &[u64]| call.typed(name, pairs.format, extents);
    let operands: [Operand; 8] = [
        operand("sums", &[batch, hidden, places])?,
        pairs,
        operand("sum_weight", &[hidden])?,
        operand("sum_bias", &[hidden])?,
        operand("pair_weight", &[channels])?,
        operand("pair_bias", &[channels])?,
        operand("gates", &[hidden, channels])?,
        operand("weights", &[channels, hidden])?,
    ];
    let out = operand("out", &[batch, places, channels])?;
    check(
        call,
        pairs.format,
        &[
            ("places", places, VECTOR),
            ("hidden", hidden, UPDATED_CHANNELS),
            ("channels", channels, UPDATED_CHANNELS),
        ],
    )?;
    let names =
        ["sums", "pairs", "sum_weight", "sum_bias", "pair_weight", "pair_bias", "gates", "weights"];
    check_alignment(call, &names.into_iter().zip(operands).collect::<Vec<_>>())?;
    check_alignment(call, &[("out", out)])?;
    let element = call.float_type("pairs", pairs)?;
    let residual = call.integer("residual")? != 0;
    let epsilon = KernelArgument::F32(call.float("epsilon")?);
    let mut arguments: Vec<KernelArgument> = operands.into_iter().map(pointer).collect();
    arguments.extend([pointer(out), int(places)]);
    let launch = match hidden == PERSISTENT_CHANNELS && channels == PERSISTENT_CHANNELS {
        true => {
            let tile_bytes =
                PERSISTENT_PLACES * 2 * channels + hidden * row_bytes(PERSISTENT_PLACES);
            persistent(call, batch, places, 4 * hidden * channels, tile_bytes)
        }
        false => None,
    };
    if let Some(config) = launch {
        let defines: [Define; 2] = [("ELEMENT", element.into()), ("RESIDUAL", residual.into())];
        let function = call.function("triangle_update_persistent", &defines)?;
        arguments.extend([int(batch), epsilon]);
        return call.queue.launch(&function, config, &arguments);
    }
    let ring = |tile: Tile, slice: u64| (tile.stages * slice).max(hidden * row_bytes(tile.places));
    let hopper_bytes = |tile: Tile| {
        let slice = UPDATED_CHANNELS * ATOM_ROW_BYTES;
        tile.places * 2 * (channels + hidden) + ring(tile, slice) + ATOM_BYTES
    };
    let generic_bytes = |tile: Tile| {
        let slice = UPDATED_CHANNELS * row_bytes(SLICE_INPUTS);
        tile.places * (row_bytes(channels) + row_bytes(hidden)) + ring(tile, slice)
    };
    let hopper = match call.queue.device().facts().capability == HOPPER {
        true => Tile::find(call, channels, hopper_bytes).ok(),
        false => None,
    };
    let tile = hopper.map_or_else(|| Tile::find(call, channels, generic_bytes), Ok)?;
    let defines: [Define; 7] = [
        ("ELEMENT", element.into()),
        ("HIDDEN", hidden.into()),
        ("CHANNELS", channels.into()),
        ("TILE_PLACES", tile.places.into()),
        ("STAGES", tile.stages.into()),
        ("RESIDUAL", residual.into()),
        ("CTAS_PER_SM", tile.ctas_per_sm.into()),
    ];
    let (name, shared_bytes) = match hopper {
        Some(tile) => ("triangle_update_hopper", hopper_bytes(tile)),
        None => ("triangle_update", generic_bytes(tile)),
    };
    let function = call.function(name, &defines)?;
    arguments.push(epsilon);
    call.queue.launch(&function, tile.config(places, batch, shared_bytes), &arguments)
}
