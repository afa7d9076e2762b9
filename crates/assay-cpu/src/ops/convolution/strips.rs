//! Strips of the input: the columns that one tile of outputs reads, padding included.

use std::ops::Range;

/// One column of the kernel: output column t reads element t x step + position of an input row.
pub(super) struct Tap {
    /// The column of the kernel.
    pub column: usize,
    pub position: isize,
}

/// Which elements the tap columns of a tile read: for each phase of the stride a run of elements that are
/// a stride apart, so that every tap loads adjacent ones.
pub(super) struct StripLayout {
    /// Elements of the input from one output column to the next.
    step: usize,
    /// The remainders of tap positions by the step, each once.
    phases: Vec<usize>,
    /// The least tap position in steps, rounded down.
    lowest: isize,
    /// Elements of a run.
    run: usize,
    /// Where each tap begins in the runs of a row.
    pub offsets: Vec<usize>,
}

impl StripLayout {
    pub fn new(taps: &[Tap], step: usize, columns: usize) -> Self {
        let signed = step as isize;
        let split =
            |tap: &Tap| (tap.position.div_euclid(signed), tap.position.rem_euclid(signed) as usize);
        let mut phases: Vec<usize> = taps.iter().map(|tap| split(tap).1).collect();
        phases.sort_unstable();
        phases.dedup();
        let shifts = taps.iter().map(|tap| split(tap).0);
        let lowest = shifts.clone().min().unwrap_or(0);
        let run = columns + shifts.max().map_or(0, |highest| (highest - lowest) as usize);
        let offsets = taps.iter().map(|tap| {
            let (shift, phase) = split(tap);
            let place = phases.partition_point(|other| *other < phase);
            place * run + (shift - lowest) as usize
        });
        let offsets = offsets.collect();
        StripLayout { step, phases, lowest, run, offsets }
    }

    /// Elements of a row of a strip.
    pub fn row(&self) -> usize {
        self.run * self.phases.len()
    }

    /// For each phase, which elements of its run are inside of a row of `width` elements, and where the first of them is,
    /// of the tile from output column `column` on.
    pub fn runs(&self, column: usize, width: usize) -> Vec<(Range<usize>, usize)> {
        let step = self.step as isize;
        let runs = self.phases.iter().map(|phase| {
            let start = (column as isize + self.lowest) * step + *phase as isize;
            let inside = ((-start).max(0) + step - 1) / step;
            let past = (width as isize - start).max(0);
            let inside = (inside as usize).min(self.run);
            let past = (((past + step - 1) / step) as usize).clamp(inside, self.run);
            (inside..past, (start + inside as isize * step).max(0) as usize)
        });
        runs.collect()
    }

    /// Copies what a tile reads of an input row; zeros outside of it.
    #[inline(always)]
    pub fn copy(&self, runs: &[(Range<usize>, usize)], input: &[f32], strip: &mut [f32]) {
        for ((inside, first), run) in runs.iter().zip(strip.chunks_exact_mut(self.run)) {
            // Most runs are inside of the row as a whole: calls that fill nothing would cost as much as the copy.
            if inside.len() < run.len() {
                run[..inside.start].fill(0.0);
                run[inside.end..].fill(0.0);
            }
            if inside.is_empty() {
                continue;
            }
            let run = &mut run[inside.clone()];
            let from = &input[*first..];
            match self.step {
                1 => run.copy_from_slice(&from[..run.len()]),
                2 => {
                    // Two in a row: the compiler knows how to take every other element of those.
                    let pairs = from.as_chunks::<2>().0;
                    for (value, [even, _]) in run.iter_mut().zip(pairs) {
                        *value = *even;
                    }
                    if let (Some(value), true) = (run.last_mut(), pairs.len() * 2 < from.len()) {
                        *value = from[2 * (inside.len() - 1)];
                    }
                }
                step => {
                    for (value, from) in run.iter_mut().zip(from.iter().step_by(step)) {
                        *value = *from;
                    }
                }
            }
        }
    }
}
