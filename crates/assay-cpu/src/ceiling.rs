//! What the machine can do at most: the yardstick that every kernel is printed beside.

use crate::error::{Result, check_length};
use crate::ops::Context;
use crate::simd::{Kernel, LANES, Vector};
use crate::threads::Disjoint;
use std::sync::atomic::{AtomicU32, Ordering};

/// Numbers a thread takes at a time.
const PIECE: usize = 1 << 16;

/// Reads every number once on all threads, as fast as loads go, and gives a sum that depends on all.
pub fn read(context: Context, numbers: &[f32]) -> f32 {
    let total = AtomicU32::new(0);
    context.threads.ranges(numbers.len(), PIECE, &|range| {
        let sum = context.level.run(Read(&numbers[range]));
        total.fetch_xor(sum.to_bits(), Ordering::Relaxed);
    });
    f32::from_bits(total.into_inner())
}

struct Read<'a>(&'a [f32]);

impl Kernel for Read<'_> {
    type Output = f32;

    #[inline(always)]
    fn run<V: Vector>(self, v: V) -> f32 {
        // Four runs side by side: hardware fetches ahead in several, but not far in any.
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
        let (left, right) = (v.add(sums[0], sums[1]), v.add(sums[2], sums[3]));
        v.sum(v.add(left, right))
    }
}

/// Copies on all threads.
pub fn copy(context: Context, from: &[f32], to: &mut [f32]) -> Result<()> {
    check_length("copy", "to", to.len(), &[from.len()])?;
    let to = Disjoint::new(to);
    context.threads.ranges(from.len(), PIECE, &|range| {
        // SAFETY: ranges do not overlap.
        unsafe { to.part(range.clone()) }.copy_from_slice(&from[range]);
    });
    Ok(())
}
