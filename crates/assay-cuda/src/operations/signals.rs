//! Frames and filters of signals.

use super::call::{Call, int, pointer};
use super::define::Define;
use super::fourier::{Rows, resident_ctas, shared_limit, transform_rows};
use super::fourier_plan::RowTile;
use super::grid::grid_2d;
use crate::device::LaunchConfig;
use assay_operations::{ElementFormat::F32, FrameValue};
use assay_runtime::backend::{DevicePointer, KernelArgument, Result};

/// Elements of the frames that a CTA transforms at a time, and pairs of them.
const FRAME_ELEMENTS: u64 = 8192;
const MAX_PAIRS: u64 = 8;
/// Elements of frames that are in scratch memory at a time, if a frame is not longer.
const SCRATCH_ELEMENTS: u64 = 1 << 24;
const MAX_GRID_Y: u64 = 65_535;
const THREADS: u64 = 256;
/// The longest state of a recursive filter, which a thread has in registers.
const MAX_ORDER: u64 = 16;

fn check_batch(call: &Call<'_>, batch: u64) -> Result<()> {
    match batch <= MAX_GRID_Y {
        true => Ok(()),
        false => Err(call.error(format_args!("at most {MAX_GRID_Y} signals"), batch)),
    }
}

/// The extents of a short-time Fourier transform.
struct Frames {
    batch: u64,
    samples: u64,
    length: u64,
    hop: u64,
    count: u64,
    padding: u64,
    reflect: bool,
    value: FrameValue,
}

pub(super) fn stft(call: &Call<'_>) -> Result<()> {
    let frames = Frames {
        batch: call.size("batch")?,
        samples: call.size("samples")?,
        length: call.size("length")?,
        hop: call.size("hop")?,
        count: call.size("frames")?,
        padding: call.size("padding")?,
        reflect: call.size("reflect")? != 0,
        value: call.chosen("value", &FrameValue::ALL)?,
    };
    let width = frames.value.width() as u64;
    let x = call.typed("x", F32, &[frames.batch, frames.samples])?;
    let window = call.typed("window", F32, &[frames.length])?;
    let bins = frames.length / 2 + 1;
    let out = call.typed("out", F32, &[frames.batch, bins, frames.count, width])?;
    if frames.batch * frames.count * frames.length == 0 {
        return Ok(());
    }
    check_batch(call, frames.batch)?;
    // The kernels' places are numbers of 32 bits, twice as far as the signal where it is mirrored.
    let reach = frames.count * frames.hop + frames.padding + frames.length;
    if 2 * reach.max(frames.samples) > i32::MAX as u64 {
        return Err(call.error("signals of fewer than 2**30 samples", frames.samples));
    }
    let pairs = frames.count.div_ceil(2);
    let tile =
        RowTile::new(frames.length, FRAME_ELEMENTS, pairs.min(MAX_PAIRS), shared_limit(call));
    if let Some(tile) = tile {
        return frames.launch_fused(call, tile, [pointer(x), pointer(window), pointer(out)]);
    }
    for signal in 0..frames.batch {
        let row = DevicePointer(x.pointer.0 + signal * frames.samples * 4);
        let to = DevicePointer(out.pointer.0 + signal * bins * frames.count * width * 4);
        frames.launch_steps(call, row, pointer(window), to)?;
    }
    Ok(())
}

impl Frames {
    fn launch_fused(
        &self,
        call: &Call<'_>,
        tile: RowTile,
        operands: [KernelArgument; 3],
    ) -> Result<()> {
        let defines: [Define; 7] = [
            ("CTAS_PER_SM", tile.ctas_per_sm(shared_limit(call)).into()),
            ("LENGTH", tile.length.into()),
            ("RADICES", tile.radices.into()),
            ("TRANSFORMS", tile.transforms.into()),
            ("THREADS", tile.threads.into()),
            ("REFLECT", self.reflect.into()),
            ("VALUE", (self.value as u64).into()),
        ];
        let function = call.function("stft", &defines)?;
        let mut arguments = operands.to_vec();
        arguments.extend([int(self.samples), int(self.hop), int(self.count), int(self.padding)]);
        let tiles = self.count.div_ceil(2 * tile.transforms);
        let ctas = resident_ctas(call, &tile, tiles * self.batch).div_ceil(self.batch);
        let config = LaunchConfig {
            grid: [ctas as u32, self.batch as u32, 1],
            block: [tile.threads as u32, 1, 1],
            shared_bytes: tile.shared_bytes as u32,
            cluster: 1,
            prefers_l1: false,
        };
        call.queue.launch(&function, config, &arguments)
    }

    /// Frames that do not fit shared memory, or of another length, with their rows in scratch memory.
    fn launch_steps(
        &self,
        call: &Call<'_>,
        x: DevicePointer,
        window: KernelArgument,
        out: DevicePointer,
    ) -> Result<()> {
        let (length, bins) = (self.length, self.length / 2 + 1);
        let each = (SCRATCH_ELEMENTS / length).clamp(1, MAX_GRID_Y).min(self.count);
        let rows = call.scratch("stft frames", each * length * 4)?;
        let spectra = call.scratch("stft spectra", each * bins * 8)?;
        for first in (0..self.count).step_by(each as usize) {
            let count = each.min(self.count - first);
            let step = |part: u64, from, to, config: LaunchConfig| {
                let defines: [Define; 3] = [
                    ("PART", part.into()),
                    ("REFLECT", self.reflect.into()),
                    ("VALUE", (self.value as u64).into()),
                ];
                let function = call.function("stft_step", &defines)?;
                let mut arguments =
                    vec![KernelArgument::Pointer(from), window, KernelArgument::Pointer(to)];
                arguments.extend([int(self.samples), int(length), int(self.hop), int(first)]);
                arguments.extend([int(count), int(self.count), int(self.padding)]);
                call.queue.launch(&function, config, &arguments)
            };
            step(0, x, rows, grid_2d(length.div_ceil(THREADS), count, THREADS))?;
            transform_rows(call, Rows::real(count, length), rows, spectra)?;
            // More bins than CTAs along y would be a frame of 131072 samples.
            if bins > MAX_GRID_Y {
                let most = 2 * (MAX_GRID_Y - 1);
                return Err(call.error(format_args!("frames of at most {most} samples"), length));
            }
            step(1, spectra, out, grid_2d(count.div_ceil(THREADS), bins, THREADS))?;
        }
        Ok(())
    }
}

pub(super) fn overlap_add(call: &Call<'_>) -> Result<()> {
    let (batch, frames) = (call.size("batch")?, call.size("frames")?);
    let (length, hop) = (call.size("length")?, call.size("hop")?);
    let (first, samples) = (call.size("first")?, call.size("samples")?);
    let x = call.typed("x", F32, &[batch, frames, length])?;
    let window = call.typed("window", F32, &[length])?;
    let out = call.typed("out", F32, &[batch, samples])?;
    if batch * samples == 0 {
        return Ok(());
    }
    if hop == 0 || length == 0 {
        return Err(call.error("frames and hops of 1 or more samples", format_args!("{hop}")));
    }
    check_batch(call, batch)?;
    let function = call.function("overlap_add", &[])?;
    let mut arguments = vec![pointer(x), pointer(window), pointer(out)];
    arguments.extend([int(frames), int(length), int(hop), int(first), int(samples)]);
    arguments.push(KernelArgument::F32(call.float("floor")?));
    call.queue.launch(&function, grid_2d(samples.div_ceil(THREADS), batch, THREADS), &arguments)
}

pub(super) fn resample(call: &Call<'_>) -> Result<()> {
    let (batch, samples) = (call.size("batch")?, call.size("samples")?);
    let (taps_count, outputs) = (call.size("taps_count")?, call.size("outputs")?);
    let (up, down) = (call.size("up")?, call.size("down")?);
    let first = call.size("first")?;
    let x = call.typed("x", F32, &[batch, samples])?;
    let taps = call.typed("taps", F32, &[taps_count])?;
    let out = call.typed("out", F32, &[batch, outputs])?;
    if batch * outputs == 0 {
        return Ok(());
    }
    if up == 0 || down == 0 {
        return Err(call.error("rates of 1 or more", format_args!("{up} / {down}")));
    }
    check_batch(call, batch)?;
    let function = call.function("resample", &[])?;
    let mut arguments = vec![pointer(x), pointer(taps), pointer(out)];
    arguments.extend([int(samples), int(taps_count), int(up), int(down), int(first), int(outputs)]);
    call.queue.launch(&function, grid_2d(outputs.div_ceil(THREADS), batch, THREADS), &arguments)
}

pub(super) fn recursive_filter(call: &Call<'_>) -> Result<()> {
    let (batch, samples) = (call.size("batch")?, call.size("samples")?);
    let order = call.size("order")?;
    if !(1..=MAX_ORDER).contains(&order) {
        return Err(call.error(format_args!("an order from 1 to {MAX_ORDER}"), order));
    }
    let x = call.typed("x", F32, &[batch, samples])?;
    let b = call.typed("b", F32, &[order + 1])?;
    let a = call.typed("a", F32, &[order + 1])?;
    let state = call.typed("state", F32, &[batch, order])?;
    let out = call.typed("out", F32, &[batch, samples])?;
    if batch * samples == 0 {
        return Ok(());
    }
    let defines: [Define; 2] = [("ORDER", order.into()), ("THREADS", THREADS.into())];
    let function = call.function("recursive_filter", &defines)?;
    let config = LaunchConfig {
        shared_bytes: (8 * order * (THREADS + order)) as u32,
        ..grid_2d(batch, 1, THREADS)
    };
    let operands = [pointer(x), pointer(b), pointer(a), pointer(state), pointer(out), int(samples)];
    call.queue.launch(&function, config, &operands)
}
