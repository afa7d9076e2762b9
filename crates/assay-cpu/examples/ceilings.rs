//! Rates of the kernels beside the machine's read ceiling, measured in the same rounds.
//!
//! `cargo run --release -p assay-cpu --example ceilings [rounds]`
//!
//! Each round measures the ceiling and then every kernel once, so that other load on the machine
//! meets all of them alike; printed are the best of each, and the median of their ratios to the
//! ceiling of the same round.

use assay_cpu::ceiling;
use assay_cpu::error::Result;
use assay_cpu::ops::{Bf16, Context, Epilogue, LinearShape, Matrix, linear, matmul};
use assay_cpu::quant::{Activations, Format, PackedWeights, quantise};
use std::hint::black_box;
use std::time::Instant;

/// Weights of the products: far more than any cache, once widened to `f32`.
const OUTPUTS: usize = 32_768;
const INPUTS: usize = 4_096;
/// Rows that are quantised; the others repeat them, because choosing scales takes its time.
const QUANTISED: usize = 256;

type Work<'a> = Box<dyn FnMut() -> Result<()> + 'a>;

struct Line<'a> {
    name: String,
    bytes: f64,
    work: Work<'a>,
    seconds: Vec<f64>,
}

fn time(work: &mut dyn FnMut() -> Result<()>) -> Result<f64> {
    let start = Instant::now();
    work()?;
    Ok(start.elapsed().as_secs_f64())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

fn best(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::INFINITY, f64::min)
}

/// Numbers that are neither zero nor alike, so that no unit of the processor can rest.
fn numbers(count: usize) -> Vec<f32> {
    let mixed = |index: usize| {
        let value = (index as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
        value as f32 / (1 << 23) as f32 - 1.0
    };
    (0..count).map(mixed).collect()
}

fn main() -> Result<()> {
    let rounds = std::env::args().nth(1);
    let rounds = rounds.and_then(|text| text.parse().ok()).unwrap_or(7);
    let context = Context::best();
    println!(
        "level {}, {} threads",
        context.level,
        context.threads.count()
    );

    let dense = numbers(OUTPUTS * INPUTS);
    let halves: Vec<Bf16> = dense.iter().map(|value| Bf16::from(*value)).collect();
    let mut packed = Vec::new();
    for format in Format::ALL {
        let some = &dense[..QUANTISED * INPUTS];
        let mut blocks = vec![0; format.bytes("example", some.len())?];
        quantise(context, format, some, &mut blocks)?;
        let blocks = blocks.repeat(OUTPUTS / QUANTISED);
        let weights = PackedWeights::new(context, format, &blocks, OUTPUTS, INPUTS)?;
        packed.push(weights);
    }

    for rows in [1, 4, 16, 32] {
        let x = numbers(rows * INPUTS);
        let shape = LinearShape {
            rows,
            inputs: INPUTS,
            outputs: OUTPUTS,
        };
        let buffer = || vec![0.0; rows * OUTPUTS];
        let mut lines = Vec::new();
        let (mut out, x_rows, dense, halves) = (buffer(), &x, &dense, &halves);
        lines.push(Line {
            name: "f32".to_owned(),
            bytes: (dense.len() * 4) as f64,
            work: Box::new(move || {
                linear(context, x_rows, dense, shape, Epilogue::default(), &mut out)
            }),
            seconds: Vec::new(),
        });
        let mut out = buffer();
        lines.push(Line {
            name: "bf16".to_owned(),
            bytes: (halves.len() * 2) as f64,
            work: Box::new(move || {
                linear(
                    context,
                    x_rows,
                    halves,
                    shape,
                    Epilogue::default(),
                    &mut out,
                )
            }),
            seconds: Vec::new(),
        });
        for weights in &packed {
            let (mut out, mut activations) = (buffer(), Activations::new());
            lines.push(Line {
                name: weights.format().to_string(),
                bytes: weights.bytes() as f64,
                work: Box::new(move || {
                    activations.quantise(context, x_rows, rows, INPUTS)?;
                    weights.linear(context, &activations, Epilogue::default(), &mut out)
                }),
                seconds: Vec::new(),
            });
        }
        let ceilings = measure(context, dense, &mut lines, rounds)?;
        print_lines(rows, &ceilings, dense.len(), &lines);
    }
    matmul_rates(context, rounds)
}

/// Times the ceiling and every line once per round; the first round only warms up.
fn measure(context: Context, dense: &[f32], lines: &mut [Line], rounds: usize) -> Result<Vec<f64>> {
    let mut ceilings = Vec::new();
    for round in 0..=rounds {
        let ceiling = time(&mut || {
            black_box(ceiling::read(context, dense));
            Ok(())
        })?;
        if round > 0 {
            ceilings.push(ceiling);
        }
        for line in &mut *lines {
            let seconds = time(&mut line.work)?;
            if round > 0 {
                line.seconds.push(seconds);
            }
        }
    }
    Ok(ceilings)
}

fn print_lines(rows: usize, ceilings: &[f64], count: usize, lines: &[Line]) {
    let ceiling_bytes = (count * 4) as f64;
    println!(
        "rows {rows}: read ceiling {:.1} GB/s (median {:.1})",
        ceiling_bytes / best(ceilings) / 1e9,
        ceiling_bytes / median(ceilings.to_vec()) / 1e9,
    );
    for line in lines {
        let shares = line.seconds.iter().zip(ceilings);
        let shares = shares.map(|(own, ceiling)| line.bytes / own / (ceiling_bytes / ceiling));
        println!(
            "  {:5} {:6.1} GB/s {:7.1} GFLOP/s  {:4.0} % of the ceiling (best by best {:.0} %)",
            line.name,
            line.bytes / best(&line.seconds) / 1e9,
            2.0 * (rows * OUTPUTS * INPUTS) as f64 / best(&line.seconds) / 1e9,
            100.0 * median(shares.collect()),
            100.0 * line.bytes / best(&line.seconds) / (ceiling_bytes / best(ceilings)),
        );
    }
}

fn matmul_rates(context: Context, rounds: usize) -> Result<()> {
    for size in [512, 1024, 2048] {
        let (a, b) = (numbers(size * size), numbers(size * size));
        let mut out = vec![0.0; size * size];
        let mut seconds = Vec::new();
        for _ in 0..=rounds {
            seconds.push(time(&mut || {
                let (a, b) = (Matrix::new(&a, size, size), Matrix::new(&b, size, size));
                matmul(context, a, b, &mut out)
            })?);
        }
        println!(
            "matmul {size}: {:.1} GFLOP/s",
            2.0 * (size as f64).powi(3) / best(&seconds) / 1e9
        );
    }
    Ok(())
}
