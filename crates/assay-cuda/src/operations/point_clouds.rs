//! Point clouds: pillars, their features, and non-maximum suppression of rotated boxes.

use super::call::{Call, int, pointer};
use super::define::Define;
use super::grid::{grid_1d, grid_2d};
use super::scan::address;
use assay_operations::ElementFormat::{F32, I32};
use assay_runtime::backend::{KernelArgument, Result};

/// Numbers of a point, inputs of the feature net, and numbers of a rotated box.
const POINT: u64 = 4;
const INPUTS: u64 = 10;
const BOX: u64 = 5;
/// Threads of a CTA: of `pillarize.cu`, whose tile it is, and of `pillar_features.cu`.
const TILE_POINTS: u64 = 512;
const FEATURE_THREADS: u64 = 256;
/// Cells and channels of a CTA of `pillar_features.cu`.
const CTA_CELLS: u64 = 64;
const CTA_CHANNELS: u64 = 64;
/// Indices of points and cells are numbers of 32 bits.
const MAX_POINTS: u64 = 1 << 30;
const MAX_CELLS: u64 = 1 << 28;
const INDEX_BYTES: u64 = 4;
/// Pillars, points and held points of a tile.
const TILE_TOTALS: u64 = 3;
/// Boxes of a word of a mask, and the most that `rotated_nms.cu` has words for.
const WORD_BOXES: u64 = 64;
const MAX_BOXES: u64 = 1024 * WORD_BOXES;
const WARP: u64 = 32;

/// The cells of an operation, and its arguments that describe them.
struct PillarGrid {
    cells: u64,
    arguments: Vec<KernelArgument>,
}

impl PillarGrid {
    fn read(call: &Call<'_>) -> Result<Self> {
        let (rows, columns) = (call.size("rows")?, call.size("columns")?);
        let cells = rows * columns;
        if !(1..=MAX_CELLS).contains(&cells) {
            let got = format_args!("{rows} x {columns}");
            return Err(call.error("a grid of 1 to 2^28 cells", got));
        }
        let mut arguments = vec![int(rows), int(columns)];
        for name in ["x_least", "y_least", "z_least", "x_size", "y_size", "z_size"] {
            let value = call.float(name)?;
            if !value.is_finite() || (name.ends_with("size") && value <= 0.0) {
                return Err(call.error("a cell of finite extents above 0", value));
            }
            arguments.push(KernelArgument::F32(value));
        }
        Ok(PillarGrid { cells, arguments })
    }
}

pub(super) fn pillarize(call: &Call<'_>) -> Result<()> {
    let grid = PillarGrid::read(call)?;
    let (count, most_pillars) = (call.size("count")?, call.size("most_pillars")?);
    let most_points = call.size("most_points")?;
    if count > MAX_POINTS {
        return Err(call.error(format_args!("at most {MAX_POINTS} points"), count));
    }
    if most_points == 0 {
        return Err(call.error("1 or more points of a pillar", most_points));
    }
    let points = pointer(call.typed("points", F32, &[count, POINT])?);
    let grouped = pointer(call.typed("grouped", F32, &[count, POINT])?);
    let starts = pointer(call.typed("starts", I32, &[most_pillars + 1])?);
    let cells = pointer(call.typed("cells", I32, &[most_pillars])?);
    let ctas = count.div_ceil(TILE_POINTS).max(1);
    let scratch = |purpose, indices: u64| -> Result<u64> {
        Ok(call.scratch(purpose, indices * INDEX_BYTES)?.0)
    };
    let zeros = call.scratch("counts of cells", 2 * grid.cells * INDEX_BYTES)?;
    call.queue.fill(zeros, 0, 2 * grid.cells * INDEX_BYTES)?;
    let scan_left = address(zeros.0);
    let cell_counts = address(zeros.0 + grid.cells * INDEX_BYTES);
    let pillar_of_cell = address(scratch("pillars of cells", grid.cells)?);
    let cell_of_point = address(scratch("cells of points", count.max(1))?);
    let lists = address(scratch("points of pillars", count.max(1))?);
    let list_starts = address(scratch("starts of pillars", most_pillars + 1)?);
    let tile_totals = address(scratch("pillars of tiles", ctas * TILE_TOTALS)?);
    let [count, most_pillars, most_points] = [count, most_pillars, most_points].map(int);
    let launch = |kernel, arguments: &[KernelArgument]| {
        let defines: [Define; 1] = [("THREADS", TILE_POINTS.into())];
        let function = call.entry("pillarize", kernel, &defines)?;
        call.queue.launch(&function, grid_1d(ctas, TILE_POINTS), arguments)
    };
    let assigned = [points, cell_of_point, scan_left, cell_counts, count];
    launch("assign_cells", &[&assigned[..], &grid.arguments].concat())?;
    let counted = [cell_of_point, scan_left, cell_counts, tile_totals, count, most_points];
    launch("count_tiles", &counted)?;
    let numbered = [pillar_of_cell, list_starts, starts, cells, most_pillars];
    launch("number_pillars", &[&counted[..], &numbered].concat())?;
    launch(
        "list_points",
        &[cell_of_point, pillar_of_cell, list_starts, cell_counts, lists, count, most_pillars],
    )?;
    let placed = [points, cell_of_point, pillar_of_cell, list_starts, lists, starts, grouped];
    launch("place_points", &[&placed[..], &[count, most_pillars, most_points]].concat())
}

pub(super) fn pillar_features(call: &Call<'_>) -> Result<()> {
    let grid = PillarGrid::read(call)?;
    let (count, most_pillars) = (call.size("count")?, call.size("most_pillars")?);
    let (most_points, channels) = (call.size("most_points")?, call.size("channels")?);
    let grouped = call.typed("grouped", F32, &[count, POINT])?;
    let starts = call.typed("starts", I32, &[most_pillars + 1])?;
    let cells = call.typed("cells", I32, &[most_pillars])?;
    let weight = call.typed("weight", F32, &[channels, INPUTS])?;
    let bias = call.typed("bias", F32, &[channels])?;
    let out = call.typed("out", F32, &[channels, grid.cells])?;
    if channels == 0 {
        return Ok(());
    }
    let pillar_of_cell = call.scratch("pillars of cells", grid.cells * INDEX_BYTES)?;
    // -1: no pillar.
    call.queue.fill(pillar_of_cell, 0xff, grid.cells * INDEX_BYTES)?;
    let pillar_of_cell = address(pillar_of_cell.0);
    let defines: [Define; 1] = [("THREADS", FEATURE_THREADS.into())];
    if most_pillars > 0 {
        let function = call.entry("pillar_features", "map_pillars", &defines)?;
        let ctas = most_pillars.div_ceil(FEATURE_THREADS);
        let arguments = [pointer(cells), pillar_of_cell, int(most_pillars), int(grid.cells)];
        call.queue.launch(&function, grid_1d(ctas, FEATURE_THREADS), &arguments)?;
    }
    let function = call.function("pillar_features", &defines)?;
    let operands = [pointer(grouped), pointer(starts), pillar_of_cell];
    let layer = [pointer(weight), pointer(bias), pointer(out)];
    let sizes = [count, most_points, channels].map(int);
    let arguments = [&operands[..], &layer, &sizes, &grid.arguments].concat();
    let (across, along) = (grid.cells.div_ceil(CTA_CELLS), channels.div_ceil(CTA_CHANNELS));
    call.queue.launch(&function, grid_2d(across, along, FEATURE_THREADS), &arguments)
}

pub(super) fn rotated_nms(call: &Call<'_>) -> Result<()> {
    let (count, most) = (call.size("count")?, call.size("most")?);
    let boxes = call.typed("boxes", F32, &[count, BOX])?;
    let kept = call.typed("kept", I32, &[most])?;
    let threshold = call.float("threshold")?;
    if !(0.0..=1.0).contains(&threshold) {
        return Err(call.error("threshold from 0 to 1", threshold));
    }
    if count > MAX_BOXES {
        return Err(call.error(format_args!("at most {MAX_BOXES} boxes"), count));
    }
    let words = count.div_ceil(WORD_BOXES);
    let masks = address(call.scratch("overlaps of boxes", (words * count).max(1) * 8)?.0);
    if count > 0 {
        let function = call.entry("rotated_nms", "mark_overlaps", &[])?;
        let arguments = [pointer(boxes), masks, int(count), KernelArgument::F32(threshold)];
        call.queue.launch(&function, grid_2d(words, words, WORD_BOXES), &arguments)?;
    }
    let function = call.entry("rotated_nms", "keep_boxes", &[])?;
    let arguments = [masks, pointer(kept), int(count), int(most)];
    call.queue.launch(&function, grid_1d(1, WARP), &arguments)
}
