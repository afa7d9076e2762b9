//! Norms and activations of channels.

use super::call::{Call, int, pointer, pointer_or_null};
use super::define::Define;
use super::grid::grid_2d;
use assay_operations::ElementFormat::F32;
use assay_runtime::backend::{KernelArgument, Result};

const NORM_THREADS: u64 = 512;
const THREADS: u64 = 256;
/// Elements of a thread of an activation.
const EACH: u64 = 4;
const MAX_GRID_Y: u64 = 65_535;

pub(super) fn group_norm(call: &Call<'_>) -> Result<()> {
    let (batch, channels) = (call.size("batch")?, call.size("channels")?);
    let (columns, groups) = (call.size("columns")?, call.size("groups")?);
    let per_sample = call.size("per_sample")?;
    if groups == 0 || !channels.is_multiple_of(groups) {
        return Err(call.error("groups that divide the channels", groups));
    }
    let extents = [batch, channels, columns];
    let weights = [if per_sample == 0 { 1 } else { batch }, channels];
    let x = call.typed("x", F32, &extents)?;
    let weight = call.optional_typed("weight", F32, &weights)?;
    let bias = call.optional_typed("bias", F32, &weights)?;
    let alpha = call.optional_typed("alpha", F32, &[channels])?;
    let out = call.typed("out", F32, &extents)?;
    if batch * channels * columns == 0 {
        return Ok(());
    }
    if batch > MAX_GRID_Y {
        return Err(call.error(format_args!("at most {MAX_GRID_Y} samples"), batch));
    }
    let defines: [Define; 1] = [("THREADS", NORM_THREADS.into())];
    let function = call.function("group_norm", &defines)?;
    let mut arguments = vec![pointer(x), pointer_or_null(weight), pointer_or_null(bias)];
    arguments.extend([pointer_or_null(alpha), pointer(out), int(channels), int(columns)]);
    arguments.extend([int(channels / groups), int(per_sample)]);
    for number in ["offset", "epsilon", "slope"] {
        arguments.push(KernelArgument::F32(call.float(number)?));
    }
    call.queue.launch(&function, grid_2d(groups, batch, NORM_THREADS), &arguments)
}

pub(super) fn activate_channels(call: &Call<'_>) -> Result<()> {
    let (batch, channels) = (call.size("batch")?, call.size("channels")?);
    let columns = call.size("columns")?;
    let x = call.typed("x", F32, &[batch, channels, columns])?;
    let alpha = call.optional_typed("alpha", F32, &[channels])?;
    let out = call.typed("out", F32, &[batch, channels, columns])?;
    let rows = batch * channels;
    if rows * columns == 0 {
        return Ok(());
    }
    if rows > i32::MAX as u64 {
        return Err(call.error("fewer than 2**31 channels of samples", rows));
    }
    let function = call.function("activate_channels", &[])?;
    let arguments = [
        pointer(x),
        pointer_or_null(alpha),
        pointer(out),
        int(rows),
        int(channels),
        int(columns),
        KernelArgument::F32(call.float("slope")?),
    ];
    let ctas = columns.div_ceil(EACH * THREADS);
    call.queue.launch(&function, grid_2d(ctas, rows.min(MAX_GRID_Y), THREADS), &arguments)
}
