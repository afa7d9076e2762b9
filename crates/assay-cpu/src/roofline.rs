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
    context
        .threads
        .parallel_for(numbers.len(), MIN_VALUES_PER_TASK, &|range| {
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
        let mut total: f64 = self
            .0
            .as_chunks::<LANES>()
            .1
            .iter()
            .map(|&one| f64::from(one))
            .sum();
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
    context
        .threads
        .parallel_for(from.len(), MIN_VALUES_PER_TASK, &|range| {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::Level;
    use crate::threads::ThreadPool;

    /// Every SIMD level of this machine, on one and on three threads.
    fn everywhere(check: impl Fn(Context)) {
        for count in [1, 3] {
            let threads = ThreadPool::new(count);
            for level in Level::available() {
                check(Context {
                    threads: &threads,
                    level,
                });
            }
        }
    }

    #[test]
    fn stream_read_sums_integers_exactly() {
        everywhere(|context| {
            for length in [0, 1, 15, 64, 65_537, 1 << 20] {
                let numbers: Vec<f32> = (0..length).map(|at| (at * 7 % 16) as f32).collect();
                let exact: f64 = numbers.iter().copied().map(f64::from).sum();
                assert_eq!(stream_read(context, &numbers), exact, "{length} numbers");
            }
        });
    }

    #[test]
    fn fma_peak_applies_the_chain_to_every_element() {
        everywhere(|context| {
            for length in [0, 1, 191, 192, 193, 4_000] {
                let from: Vec<f32> = (0..length).map(|at| at as f32).collect();
                let mut to = vec![f32::NAN; length];
                let chain = FmaChain {
                    length: 5,
                    factor: -1.0,
                    addend: 1.0,
                };
                fma_peak(context, &from, chain, &mut to).unwrap();
                let expected: Vec<f32> = from.iter().map(|value| 1.0 - value).collect();
                assert_eq!(to, expected);
            }
        });
    }

    #[test]
    fn stream_copy_copies_and_checks_lengths() {
        everywhere(|context| {
            let from: Vec<f32> = (0..100_001).map(|at| at as f32).collect();
            let mut to = vec![0.0; from.len()];
            stream_copy(context, &from, &mut to).unwrap();
            assert_eq!(from, to);
            assert!(stream_copy(context, &from, &mut to[1..]).is_err());
        });
    }
}
