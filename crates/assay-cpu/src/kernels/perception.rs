//! Point clouds as pillars, and non-maximum suppression.

use super::call::{Call, op_error};
use crate::ops::{self, BOX_FEATURES, Context, PILLAR_INPUTS, POINT_FEATURES, PillarGrid, Pillars};
use assay_runtime::backend::Result;

fn grid(call: &Call<'_>) -> Result<PillarGrid> {
    Ok(PillarGrid {
        rows: call.size("rows")?,
        columns: call.size("columns")?,
        least: [call.float("x_least")?, call.float("y_least")?, call.float("z_least")?],
        size: [call.float("x_size")?, call.float("y_size")?, call.float("z_size")?],
    })
}

pub(super) fn pillarize(_: Context, call: &Call<'_>) -> Result<()> {
    let grid = grid(call)?;
    let (count, most_pillars) = (call.size("count")?, call.size("most_pillars")?);
    let most_points = call.size("most_points")?;
    let points = call.span::<f32>("points", &[count, POINT_FEATURES])?;
    let grouped = call.span::<f32>("grouped", &[count, POINT_FEATURES])?;
    let starts = call.span::<i32>("starts", &[most_pillars.saturating_add(1)])?;
    let cells = call.span::<i32>("cells", &[most_pillars])?;
    if !call.runs() {
        return Ok(());
    }
    // SAFETY: the kernel runs, and operands do not overlap.
    unsafe {
        let (grouped, starts, cells) = (grouped.write(), starts.write(), cells.write());
        ops::pillarize(grid, most_points, points.read(), grouped, starts, cells)
    }
    .map_err(op_error)
}

pub(super) fn pillar_features(context: Context, call: &Call<'_>) -> Result<()> {
    let grid = grid(call)?;
    let (count, most_pillars) = (call.size("count")?, call.size("most_pillars")?);
    let (most_points, channels) = (call.size("most_points")?, call.size("channels")?);
    let grouped = call.span::<f32>("grouped", &[count, POINT_FEATURES])?;
    let starts = call.span::<i32>("starts", &[most_pillars.saturating_add(1)])?;
    let cells = call.span::<i32>("cells", &[most_pillars])?;
    let weight = call.span::<f32>("weight", &[channels, PILLAR_INPUTS])?;
    let bias = call.span::<f32>("bias", &[channels])?;
    let canvas = call.span::<f32>("out", &[channels, grid.rows, grid.columns])?;
    if !call.runs() {
        return Ok(());
    }
    // SAFETY: the kernel runs, and operands do not overlap.
    unsafe {
        let pillars =
            Pillars { grouped: grouped.read(), starts: starts.read(), cells: cells.read() };
        let (weight, bias, canvas) = (weight.read(), bias.read(), canvas.write());
        ops::pillar_features(context, grid, most_points, pillars, weight, bias, canvas)
    }
    .map_err(op_error)
}

pub(super) fn rotated_nms(_: Context, call: &Call<'_>) -> Result<()> {
    let (count, most) = (call.size("count")?, call.size("most")?);
    let boxes = call.span::<f32>("boxes", &[count, BOX_FEATURES])?;
    let kept = call.span::<i32>("kept", &[most])?;
    let threshold = call.float("threshold")?;
    if !call.runs() {
        return Ok(());
    }
    // SAFETY: the kernel runs, and operands do not overlap.
    unsafe { ops::rotated_nms(boxes.read(), threshold, kept.write()) }.map_err(op_error)
}
