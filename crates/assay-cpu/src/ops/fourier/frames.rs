//! Short-time Fourier transform: sixteen frames of a signal at once, one in each lane.

use super::lanes::{Lane, Work};
use super::plan::{Plan, root};
use super::rows::{WORK, join};
use crate::aligned_buffer::AlignedBuffer;
use crate::context::Context;
use crate::error::{Result, check_length, check_value};
use crate::simd::{Kernel, LANES, Vector};
use crate::threads::DisjointSlice;
use assay_operations::FrameValue;
use std::cell::RefCell;
use std::ops::Range;

thread_local! {
    /// The frames of a task that reach beyond the signal.
    static EDGE: RefCell<AlignedBuffer> = RefCell::default();
}

/// The frames of signals.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FrameShape {
    /// Signals.
    pub batch: usize,
    /// Samples of each.
    pub samples: usize,
    /// Samples of a frame.
    pub length: usize,
    /// Samples from one frame to the next.
    pub hop: usize,
    /// Frames of a signal.
    pub frames: usize,
    /// Samples before the signal that the first frame begins with.
    pub padding: usize,
    /// Whether what lies outside is the signal reflected, or zeros.
    pub reflect: bool,
    /// What is stored.
    pub value: FrameValue,
}

impl FrameShape {
    fn bins(&self) -> usize {
        self.length / 2 + 1
    }

    /// The sample at a position that may lie outside of the signal.
    #[inline]
    fn sample(&self, x: &[f32], at: isize) -> f32 {
        let last = x.len() as isize - 1;
        let at = match (self.reflect, at < 0, at > last) {
            (true, true, _) => -at,
            (true, _, true) => 2 * last - at,
            _ => at,
        };
        usize::try_from(at).ok().and_then(|at| x.get(at)).map_or(0.0, |x| *x)
    }
}

/// Writes the frequencies of each frame of `x`, [batch, samples], times the window, to `out`, [batch, length / 2 +
/// 1, frames], of one number, or two where they are complex.
pub fn stft(
    context: Context,
    shape: FrameShape,
    x: &[f32],
    window: &[f32],
    out: &mut [f32],
) -> Result<()> {
    let FrameShape { batch, samples, length, hop, frames, padding, .. } = shape;
    check_value("stft", "frame", length > 0 && hop > 0, "of samples", length)?;
    check_length("stft", "x", x.len(), &[batch, samples])?;
    check_length("stft", "window", window.len(), &[length])?;
    check_length("stft", "out", out.len(), &[batch, shape.bins(), frames, shape.value.width()])?;
    let reach = frames.checked_mul(hop).and_then(|reach| reach.checked_add(length));
    let valid = reach.is_some_and(|reach| reach < 1 << 48) && padding < 1 << 48;
    check_value("stft", "hop", valid, "within the signal", hop)?;
    let even = length.is_multiple_of(2);
    let complex_length = if even { length / 2 } else { length };
    let plan = Plan::of(complex_length);
    let Some(plan) = plan else {
        return by_rows(context, shape, x, window, out);
    };
    let roots: Vec<_> = (0..=length / 2).map(|k| root(k as u64, length as u64)).collect();
    let groups = frames.div_ceil(LANES);
    let out = DisjointSlice::new(out);
    let grain = 4_096_usize.div_ceil(length * LANES);
    context.threads.parallel_for(batch * groups, grain, &|range| {
        for task in range {
            let (signal, group) = (task / groups, task % groups);
            let frames = group * LANES..((group + 1) * LANES).min(frames);
            let x = &x[signal * samples..(signal + 1) * samples];
            WORK.with_borrow_mut(|memory| {
                EDGE.with_borrow_mut(|edge| {
                    let memory = memory.floats(Work::floats(complex_length));
                    let edge = edge.floats(LANES * length);
                    let (plan, roots) = (&*plan, &*roots);
                    let (source, start, hop) = locate(shape, x, &frames, edge);
                    context.level.run(Frames {
                        shape,
                        plan,
                        roots,
                        window,
                        source,
                        start,
                        hop,
                        memory,
                        frames,
                        signal,
                        out: &out,
                    });
                });
            });
        }
    });
    Ok(())
}

/// Where sixteen frames are: in the signal, or copied with what lies outside.
fn locate<'a>(
    shape: FrameShape,
    x: &'a [f32],
    frames: &Range<usize>,
    edge: &'a mut [f32],
) -> (&'a [f32], usize, usize) {
    let start = (frames.start * shape.hop) as isize - shape.padding as isize;
    let reach = start + ((LANES - 1) * shape.hop + shape.length) as isize;
    if start >= 0 && reach <= x.len() as isize && frames.len() == LANES {
        return (x, start as usize, shape.hop);
    }
    for (lane, frame) in edge.chunks_exact_mut(shape.length).enumerate() {
        let start = start + (lane * shape.hop) as isize;
        match lane < frames.len() {
            true => {
                for (index, value) in frame.iter_mut().enumerate() {
                    *value = shape.sample(x, start + index as isize);
                }
            }
            false => frame.fill(0.0),
        }
    }
    (edge, 0, shape.length)
}

/// Sixteen frames of a signal.
struct Frames<'a> {
    shape: FrameShape,
    plan: &'a Plan,
    roots: &'a [[f32; 2]],
    window: &'a [f32],
    source: &'a [f32],
    start: usize,
    hop: usize,
    memory: &'a mut [f32],
    frames: Range<usize>,
    signal: usize,
    out: &'a DisjointSlice<'a, f32>,
}

impl Kernel for Frames<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vector>(mut self, v: V) {
        let length = self.shape.length;
        let memory = std::mem::take(&mut self.memory);
        let even = length.is_multiple_of(2);
        let mut work = Work::new(memory, self.plan.length);
        let zeros = [0.0; LANES];
        let mut columns = [zeros; LANES];
        for first in (0..length).step_by(LANES) {
            let count = LANES.min(length - first);
            if count == LANES {
                let mut lines = [&zeros; LANES];
                for (lane, line) in lines.iter_mut().enumerate() {
                    if let Some(chunk) =
                        self.source[self.start + lane * self.hop + first..].first_chunk()
                    {
                        *line = chunk;
                    }
                }
                v.transpose(lines, &mut columns);
            } else {
                for (index, column) in columns.iter_mut().enumerate().take(count) {
                    for (lane, value) in column.iter_mut().enumerate() {
                        *value = self.source[self.start + lane * self.hop + first + index];
                    }
                }
            }
            for (index, column) in columns.iter().enumerate().take(count) {
                let at = first + index;
                let value = v.mul(v.load(column), v.splat(self.window[at]));
                match (even, at % 2) {
                    (true, 0) => v.store(value, &mut work.re[at / 2]),
                    (true, _) => v.store(value, &mut work.im[at / 2]),
                    (false, _) => {
                        v.store(value, &mut work.re[at]);
                        work.im[at] = zeros;
                    }
                }
            }
        }
        work.transform(v, self.plan);
        let half = self.plan.length;
        for (bin, root) in self.roots.iter().enumerate() {
            let (a, b) = (bin % half, (half - bin % half) % half);
            let (mut re, mut im) = (v.load(&work.re[a]), v.load(&work.im[a]));
            if even {
                let (b_re, b_im) = (v.load(&work.re[b]), v.load(&work.im[b]));
                let point = v.splat(0.5);
                let (even_re, even_im) =
                    (v.mul(point, v.add(re, b_re)), v.mul(point, v.sub(im, b_im)));
                let (odd_re, odd_im) =
                    (v.mul(point, v.add(im, b_im)), v.mul(point, v.sub(b_re, re)));
                let (cosine, sine) = (v.splat(root[0]), v.splat(root[1]));
                re = v.sub(v.mul_add(cosine, odd_re, even_re), v.mul(sine, odd_im));
                im = v.mul_add(sine, odd_re, v.mul_add(cosine, odd_im, even_im));
            }
            self.store(v, bin, re, im);
        }
    }
}

impl Frames<'_> {
    #[inline(always)]
    fn store<V: Vector>(&self, v: V, bin: usize, re: V::F, im: V::F) {
        let row = (self.signal * self.shape.bins() + bin) * self.shape.frames;
        let range = row + self.frames.start..row + self.frames.end;
        if self.shape.value == FrameValue::Complex {
            let (mut re_lanes, mut im_lanes): (Lane, Lane) = ([0.0; LANES], [0.0; LANES]);
            v.store(re, &mut re_lanes);
            v.store(im, &mut im_lanes);
            // SAFETY: groups of frames do not overlap.
            let out = unsafe { self.out.slice_mut(2 * range.start..2 * range.end) };
            join(&re_lanes, &im_lanes, out);
            return;
        }
        let mut lanes = [0.0; LANES];
        v.store(v.mul_add(re, re, v.mul(im, im)), &mut lanes);
        if self.shape.value == FrameValue::Magnitude {
            lanes.iter_mut().for_each(|value| *value = value.sqrt());
        }
        // SAFETY: groups of frames do not overlap.
        let out = unsafe { self.out.slice_mut(range) };
        out.copy_from_slice(&lanes[..out.len()]);
    }
}

/// Frames of a length with a large prime factor: laid out as rows, and transformed as those.
fn by_rows(
    context: Context,
    shape: FrameShape,
    x: &[f32],
    window: &[f32],
    out: &mut [f32],
) -> Result<()> {
    let (length, bins) = (shape.length, shape.bins());
    let mut rows = vec![0.0; length];
    let mut spectrum = vec![0.0; 2 * bins];
    let width = out.len() / (shape.batch * bins * shape.frames).max(1);
    for signal in 0..shape.batch {
        let x = &x[signal * shape.samples..(signal + 1) * shape.samples];
        for frame in 0..shape.frames {
            let start = (frame * shape.hop) as isize - shape.padding as isize;
            for (index, (value, window)) in rows.iter_mut().zip(window).enumerate() {
                *value = window * shape.sample(x, start + index as isize);
            }
            super::real::forward(context, length, 1.0, &rows, &mut spectrum);
            for (bin, [re, im]) in spectrum.as_chunks::<2>().0.iter().enumerate() {
                let at = ((signal * bins + bin) * shape.frames + frame) * width;
                match shape.value {
                    FrameValue::Complex => out[at..at + 2].copy_from_slice(&[*re, *im]),
                    FrameValue::Power => out[at] = re * re + im * im,
                    FrameValue::Magnitude => out[at] = (re * re + im * im).sqrt(),
                }
            }
        }
    }
    Ok(())
}
