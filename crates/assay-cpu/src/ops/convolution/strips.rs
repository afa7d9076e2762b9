//! Strips of the input: the columns that one tile of outputs reads, padding included.

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

    /// Copies what the tile from output column `column` on reads of an input row; zeros outside of it.
    pub fn copy(&self, input: &[f32], column: usize, strip: &mut [f32]) {
        let step = self.step as isize;
        let start = (column as isize + self.lowest) * step;
        for (phase, run) in self.phases.iter().zip(strip.chunks_exact_mut(self.run)) {
            let start = start + *phase as isize;
            // The first element of the run that is inside of the row, and the first that is past its end.
            let inside = ((-start).max(0) + step - 1) / step;
            let past = (input.len() as isize - start).max(0);
            let inside = (inside as usize).min(run.len());
            let past = (((past + step - 1) / step) as usize).clamp(inside, run.len());
            run[..inside].fill(0.0);
            run[past..].fill(0.0);
            if inside == past {
                continue;
            }
            let first = (start + inside as isize * step) as usize;
            let run = &mut run[inside..past];
            if self.step == 1 {
                run.copy_from_slice(&input[first..first + run.len()]);
            } else {
                for (value, from) in run.iter_mut().zip(input[first..].iter().step_by(self.step)) {
                    *value = *from;
                }
            }
        }
    }
}
