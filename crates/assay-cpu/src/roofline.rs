//! Roofline peaks of the machine: read and copy bandwidth, and FMA throughput.

use crate::context::Context;
use crate::error::{Result, check_length};
use crate::simd::{Kernel, LANES, Vector};
use crate::threads::DisjointSlice;
use std::sync::{Mutex, PoisonError};

/// Elements per task at least.
const MIN_VALUES_PER_TASK: usize = 1 << 16;

/// Elements that [`fma_peak`] keeps in registers: enough independent chains to hide the FMA latency,
/// within the registers of AVX-512.
const REGISTER_VALUES: usize = 12 * LANES;

/// Reads every element once on all threads and returns the sum: the read bandwidth.
pub fn stream_read(context: Context, numbers: &[f32]) -> f64 {
    let total = Mutex::new(0.0);
    context.threads.parallel_for(numbers.len(), MIN_VALUES_PER_TASK, &|range| {
        let sum = context.level.run(StreamRead(&numbers[range]));
        // Once per task: negligible.
        *total.lock().unwrap_or_else(PoisonError::into_inner) += sum;
    });
    total.into_inner().unwrap_or_else(PoisonError::into_inner)
}

struct StreamRead<'a>(&'a [f32]);

impl Kernel for StreamRead<'_> {
    type Output = f64;

    #[inline(always)]
    fn run<V: Vector>(self, v: V) -> f64 {
        // Four streams at once: the hardware prefetcher follows several, but not far ahead in any.
        let quarter = self.0.len() / 4 / LANES * LANES;
        let mut sums = [v.splat(0.0); 4];
        let runs: [&[[f32; LANES]]; 4] =
            std::array::from_fn(|run| self.0[run * quarter..(run + 1) * quarter].as_chunks().0);
        let [one, two, three, four] = runs;
        for (((one, two), three), four) in one.iter().zip(two).zip(three).zip(four) {
            for (sum, lanes) in sums.iter_mut().zip([one, two, three, four]) {
                *sum = v.add(*sum, v.load(lanes));
            }
        }
        for lanes in self.0[4 * quarter..].as_chunks::<LANES>().0 {
            sums[0] = v.add(sums[0], v.load(lanes));
        }
        let mut total: f64 = self.0.as_chunks::<LANES>().1.iter().map(|&one| f64::from(one)).sum();
        for sum in sums {
            let mut lanes = [0.0; LANES];
            v.store(sum, &mut lanes);
            total += lanes.into_iter().map(f64::from).sum::<f64>();
        }
        total
    }
}

/// Copies on all threads: the copy bandwidth.
pub fn stream_copy(context: Context, from: &[f32], to: &mut [f32]) -> Result<()> {
    check_length("stream_copy", "to", to.len(), &[from.len()])?;
    let to = DisjointSlice::new(to);
    context.threads.parallel_for(from.len(), MIN_VALUES_PER_TASK, &|range| {
        // SAFETY: ranges do not overlap.
        unsafe { to.slice_mut(range.clone()) }.copy_from_slice(&from[range]);
    });
    Ok(())
}

/// A chain of dependent multiply-adds: x = x * factor + addend.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct FmaChain {
    /// Number of multiply-adds.
    pub length: usize,
    /// The factor.
    pub factor: f32,
    /// The addend.
    pub addend: f32,
}

/// Runs the chain on every element on all threads, in registers: the FMA peak.
pub fn fma_peak(context: Context, from: &[f32], chain: FmaChain, to: &mut [f32]) -> Result<()> {
    check_length("fma_peak", "to", to.len(), &[from.len()])?;
    let to = DisjointSlice::new(to);
    let blocks = from.len().div_ceil(REGISTER_VALUES);
    context.threads.parallel_for(blocks, 1, &|blocks| {
        let range = blocks.start * REGISTER_VALUES..from.len().min(blocks.end * REGISTER_VALUES);
        // SAFETY: ranges do not overlap.
        let to = unsafe { to.slice_mut(range.clone()) };
        context.level.run(FmaPeak(&from[range], chain, to));
    });
    Ok(())
}

struct FmaPeak<'a>(&'a [f32], FmaChain, &'a mut [f32]);

impl Kernel for FmaPeak<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vector>(self, v: V) {
        let FmaPeak(from, chain, to) = self;
        let (factor, addend) = (v.splat(chain.factor), v.splat(chain.addend));
        let (whole, rest) = from.as_chunks::<REGISTER_VALUES>();
        let (whole_to, rest_to) = to.as_chunks_mut::<REGISTER_VALUES>();
        for (from, to) in whole.iter().zip(whole_to) {
            let lanes = from.as_chunks::<LANES>().0;
            let mut registers: [V::F; REGISTER_VALUES / LANES] =
                std::array::from_fn(|at| v.load(&lanes[at]));
            for _ in 0..chain.length {
                for value in &mut registers {
                    *value = v.mul_add(*value, factor, addend);
                }
            }
            for (value, lanes) in registers.into_iter().zip(to.as_chunks_mut::<LANES>().0) {
                v.store(value, lanes);
            }
        }
        for (from, to) in rest.iter().zip(rest_to) {
            *to =
                (0..chain.length).fold(*from, |value, _| value.mul_add(chain.factor, chain.addend));
        }
    }
}
