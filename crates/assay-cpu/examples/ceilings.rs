//! Rates of the kernels beside the machine's read ceiling, measured in turn.
//!
//! `cargo run --release -p assay-cpu --example ceilings [rounds] [threads]`
//!
//! Pieces are short, so that some of them meet a quiet machine even where others work on it, and
//! rotate through more memory than the caches hold. A round times the ceiling and then every
//! kernel once. Printed are the best rate of each, its share of the best ceiling, and the median
//! of its shares round by round.

use assay_core::backend::{Backend, BackendError, Operation};
use assay_cpu::ceiling;
use assay_cpu::device::{CpuDevice, CpuOptions};
use assay_cpu::error::{OpError, Result};
use assay_cpu::ops::{Bf16, Context, Epilogue, LinearShape, Matrix, linear, matmul};
use assay_cpu::quant::{Activations, Format, PackedWeights, quantise};
use assay_cpu::simd::Level;
use assay_cpu::threads::Threads;
use std::hint::black_box;
use std::time::Instant;

/// Weights of one product.
const OUTPUTS: usize = 2_048;
const INPUTS: usize = 4_096;
/// Different weights that the rounds go through: 400 MB of `f32`, 57 MB of Q4_0, between which
/// everything else is read.
const COPIES: usize = 12;
/// Rows that are quantised; the others repeat them, because choosing scales takes its time.
const QUANTISED: usize = 128;

/// One kernel: its bytes, what it does in a round, and what that took.
struct Line<'a> {
    name: String,
    bytes: f64,
    work: Box<dyn FnMut(usize) -> Result<()> + 'a>,
    seconds: Vec<f64>,
}

impl<'a> Line<'a> {
    fn new(name: &str, bytes: usize, work: impl FnMut(usize) -> Result<()> + 'a) -> Self {
        Line {
            name: name.to_owned(),
            bytes: bytes as f64,
            work: Box::new(work),
            seconds: Vec::new(),
        }
    }

    fn rate(&self) -> f64 {
        self.bytes / best(&self.seconds)
    }
}

fn best(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::INFINITY, f64::min)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Numbers that are neither zero nor alike, so that no unit of the processor can rest.
fn numbers(count: usize) -> Vec<f32> {
    let mixed = |index: usize| {
        let value = (index as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
        value as f32 / (1 << 23) as f32 - 1.0
    };
    (0..count).map(mixed).collect()
}

/// Zeroed memory of the device, where an engine's weights would be, in huge pages.
// A fresh allocation is borrowed from nobody.
#[allow(clippy::mut_from_ref)]
fn memory<T: Copy>(device: &CpuDevice, count: usize) -> Result<&mut [T]> {
    let bytes = (count * size_of::<T>()) as u64;
    let pointer = device.allocate_device(bytes).map_err(refused)?;
    let first = device
        .memory()
        .pointer(Operation::Launch, pointer.into(), bytes);
    // SAFETY: zeroed, aligned to 64 bytes, known to nobody else, and freed with the device.
    Ok(unsafe { std::slice::from_raw_parts_mut(first.map_err(refused)?.cast(), count) })
}

fn refused(error: BackendError) -> OpError {
    OpError::Value {
        operation: "ceilings",
        argument: "memory",
        expected: "enough of it".to_owned(),
        got: error.to_string(),
    }
}

fn argument(index: usize, otherwise: usize) -> usize {
    let text = std::env::args().nth(index);
    text.and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

fn main() -> Result<()> {
    let threads = Threads::new(argument(2, Threads::global().count()));
    let context = Context {
        threads: &threads,
        level: Level::best(),
    };
    println!("level {}, {} threads", context.level, threads.count());
    let device = CpuDevice::new(CpuOptions::default()).map_err(refused)?;
    let count = COPIES * OUTPUTS * INPUTS;
    let dense: &mut [f32] = memory(&device, count)?;
    dense.copy_from_slice(&numbers(count));
    let dense = &*dense;
    let halves: &mut [Bf16] = memory(&device, count)?;
    for (half, value) in halves.iter_mut().zip(dense) {
        *half = Bf16::from(*value);
    }
    let mut packed = Vec::new();
    for format in Format::ALL {
        let some = &dense[..QUANTISED * INPUTS];
        let mut blocks = vec![0; format.bytes("example", some.len())?];
        quantise(context, format, some, &mut blocks)?;
        let blocks = blocks.repeat(OUTPUTS / QUANTISED);
        let mut copies = Vec::new();
        for _ in 0..COPIES {
            copies.push(PackedWeights::new(
                context, format, &blocks, OUTPUTS, INPUTS,
            )?);
        }
        packed.push(copies);
    }
    for rows in [1, 4, 16, 32, 256] {
        products(context, rows, dense, halves, &packed, argument(1, 40))?;
    }
    matmul_rates(context, argument(1, 40))
}

/// Every format times so many rows of activations.
fn products(
    context: Context,
    rows: usize,
    dense: &[f32],
    halves: &[Bf16],
    packed: &[Vec<PackedWeights>],
    rounds: usize,
) -> Result<()> {
    let x = &numbers(rows * INPUTS);
    let shape = LinearShape {
        rows,
        inputs: INPUTS,
        outputs: OUTPUTS,
    };
    let size = OUTPUTS * INPUTS;
    let at = |round: usize| round % COPIES * size..(round % COPIES + 1) * size;
    let buffer = || vec![0.0; rows * OUTPUTS];
    let (mut out, mut out_halves) = (buffer(), buffer());
    let mut lines = vec![
        Line::new("read", size * 4, |round| {
            // Half a turn away from the dense products, which would leave it in the cache.
            black_box(ceiling::read(context, &dense[at(round + COPIES / 2)]));
            Ok(())
        }),
        Line::new("f32", size * 4, |round| {
            let weights = &dense[at(round)];
            linear(
                context,
                x,
                weights,
                shape,
                Epilogue::default(),
                false,
                &mut out,
            )
        }),
        Line::new("bf16", size * 2, |round| {
            let weights = &halves[at(round)];
            linear(
                context,
                x,
                weights,
                shape,
                Epilogue::default(),
                false,
                &mut out_halves,
            )
        }),
    ];
    for copies in packed {
        let (mut out, mut activations) = (buffer(), Activations::new());
        let (name, bytes) = (copies[0].format().name(), copies[0].bytes());
        lines.push(Line::new(name, bytes, move |round| {
            activations.quantise(context, x, rows, INPUTS)?;
            copies[round % COPIES].linear(context, &activations, Epilogue::default(), &mut out)
        }));
    }
    // The first round warms up.
    for round in 0..=rounds {
        for line in &mut lines {
            let start = Instant::now();
            (line.work)(round)?;
            if round > 0 {
                line.seconds.push(start.elapsed().as_secs_f64());
            }
        }
    }
    println!("{rows} rows");
    let ceiling = &lines[0];
    for line in &lines {
        let pairs = line.seconds.iter().zip(&ceiling.seconds);
        let shares = pairs
            .map(|(own, ceiling)| line.bytes / own * ceiling)
            .collect();
        println!(
            "  {:5} {:6.1} GB/s  {:4.0} % of the ceiling (median of rounds {:4.0} %)  {:7.1} GFLOP/s",
            line.name,
            line.rate() / 1e9,
            100.0 * line.rate() / ceiling.rate(),
            100.0 * median(shares) / ceiling.bytes,
            2.0 * (rows * size) as f64 / best(&line.seconds) / 1e9,
        );
    }
    Ok(())
}

fn matmul_rates(context: Context, rounds: usize) -> Result<()> {
    for size in [512, 1024, 2048] {
        let (a, b) = (numbers(size * size), numbers(size * size));
        let mut out = vec![0.0; size * size];
        let mut seconds = Vec::new();
        for _ in 0..=rounds {
            let start = Instant::now();
            let (a, b) = (Matrix::new(&a, size, size), Matrix::new(&b, size, size));
            matmul(context, a, b, &mut out)?;
            seconds.push(start.elapsed().as_secs_f64());
        }
        let flops = 2.0 * (size as f64).powi(3);
        println!("matmul {size}: {:.1} GFLOP/s", flops / best(&seconds) / 1e9);
    }
    Ok(())
}
