//! Direct convolution on AMX tiles: filters are the rows of a split product, and the strips are its columns.
//!
//! A strip holds pairs of input rows, so that the tile of a tap begins at any column of it: nothing is
//! copied for each tap.

use super::direct::Direct;
use super::outputs::Outputs;
use super::strips::StripLayout;
use crate::aligned_buffer::AlignedBuffer;
use crate::context::Context;
use crate::ops::gemm::Epilogue;
use crate::ops::split::AllFinite;
use crate::simd::{
    Amx, AmxSession, Kernel, LANES, SPLIT_SIDE, SPLIT_TERMS, SplitColumns, SplitStep, StepOffsets,
    TILE_K, TileC, Vector,
};
use crate::threads::DisjointSlice;
use std::cell::RefCell;
use std::ops::Range;

/// Multiply-adds of padded tiles for each one that counts, at most: tiles are some two times as fast as
/// registers.
const MOST_PADDING: usize = 2;
/// What a strip takes of its core's L2 at most.
const STRIP_BYTES: usize = 1 << 20;
/// Columns of a strip at most.
const MOST_COLUMNS: usize = 1_024;
/// Packed filters that stay in L2 beside a strip.
const RESIDENT_BYTES: usize = 1 << 20;
/// Bytes of a pair of bfloat16.
const PAIR_BYTES: usize = 4;

thread_local! {
    /// The packed filters of a call.
    static FILTERS: RefCell<AlignedBuffer> = RefCell::default();
    /// The strip of a task, and two of its rows.
    static STRIP: RefCell<[AlignedBuffer; 2]> = RefCell::default();
}

/// Whether tiles are faster.
pub(super) fn applies(direct: &Direct) -> bool {
    let (depth, filters) = (direct.depth, direct.filters.count);
    let padded = depth.next_multiple_of(TILE_K) * filters.next_multiple_of(SPLIT_SIDE);
    let fits = padded <= MOST_PADDING * depth * filters && direct.columns >= LANES;
    fits && !direct.taps.is_empty()
}

/// Writes a convolution of at least one tap; returns false where a number is not finite, and the outputs are
/// not to be used.
pub(super) fn convolve(
    direct: &Direct,
    context: Context,
    amx: Amx,
    epilogue: Epilogue,
    out: &mut [f32],
) -> bool {
    let finite = AllFinite::default();
    let filters = &direct.filters;
    let panels = filters.count.div_ceil(SPLIT_SIDE);
    let steps = direct.depth.div_ceil(TILE_K) * direct.taps.len();
    let columns = strip_columns(direct);
    let strip = Strip::new(direct, columns);
    let blocks = direct.columns.div_ceil(columns);
    let rows = direct.images * filters.groups * blocks;
    // Where there are few strips, threads share their filters.
    let parts = (2 * context.threads.count()).div_ceil(rows.max(1)).clamp(1, panels);
    let out = DisjointSlice::new(out);
    FILTERS.with_borrow_mut(|buffer| {
        let packed = buffer.split_steps(filters.groups * panels * steps);
        {
            let packed = DisjointSlice::new(packed);
            context.threads.parallel_for(filters.groups * panels, 1, &|range| {
                for index in range {
                    let (group, panel) = (index / panels, index % panels);
                    // SAFETY: panels do not overlap.
                    let out = unsafe { packed.slice_mut(index * steps..(index + 1) * steps) };
                    let first = panel * SPLIT_SIDE;
                    finite.note(amx.run(PackFilters { direct, amx, group, first, out }));
                }
            });
        }
        context.threads.run(rows * parts, &|task| {
            let (part, task) = (task % parts, task / parts);
            let (block, task) = (task % blocks, task / blocks);
            let (group, image) = (task % filters.groups, task / filters.groups);
            let packed = &packed[group * panels * steps..(group + 1) * panels * steps];
            STRIP.with_borrow_mut(|[halves, lines]| {
                let halves = halves.halves(SPLIT_TERMS * strip.halves);
                let lines = lines.floats(2 * strip.line_bytes / PAIR_BYTES);
                let (first, place) = (block * columns, (image, group));
                let strip = &strip;
                finite.note(amx.run(PackStrip { direct, amx, strip, place, first, lines, halves }));
                amx.run(Block {
                    amx,
                    steps,
                    packed,
                    panels: panels * part / parts..panels * (part + 1) / parts,
                    strip,
                    halves,
                    first,
                    columns: columns.min(direct.columns - first),
                    filters: filters.count,
                    outputs: direct.outputs(image, group, epilogue, &out),
                });
            });
        });
    });
    finite.get()
}

/// How many output columns a strip is for, a multiple of those of a block.
fn strip_columns(direct: &Direct) -> usize {
    let least = StripLayout::new(&direct.taps, direct.step, SPLIT_SIDE);
    let more = StripLayout::new(&direct.taps, direct.step, 2 * SPLIT_SIDE);
    let block = more.row() - least.row();
    let line = STRIP_BYTES / (SPLIT_TERMS * PAIR_BYTES * pairs(direct));
    let blocks = line.saturating_sub(least.row()) / block + 1;
    let most = blocks.min(MOST_COLUMNS / SPLIT_SIDE) * SPLIT_SIDE;
    // Strips of equal length.
    direct.columns.div_ceil(direct.columns.div_ceil(most)).next_multiple_of(SPLIT_SIDE)
}

/// Pairs of input rows.
fn pairs(direct: &Direct) -> usize {
    direct.depth.next_multiple_of(TILE_K) / 2
}

/// The layout of a strip: lines of the first terms of pairs of input rows, then of the second, and the third.
struct Strip {
    layout: StripLayout,
    line_bytes: usize,
    /// Numbers of 16 bits of all lines of a term.
    halves: usize,
    offsets: StepOffsets,
}

impl Strip {
    fn new(direct: &Direct, columns: usize) -> Self {
        let layout = StripLayout::new(&direct.taps, direct.step, columns);
        // An odd number of cache lines: those of a tile are in different sets.
        let line_bytes = ((layout.row() * PAIR_BYTES).div_ceil(64) | 1) * 64;
        let chunks = 0..direct.depth.div_ceil(TILE_K);
        let first = |chunk: usize| chunk * LANES * line_bytes;
        let offsets = chunks.flat_map(|chunk| {
            layout.offsets.iter().map(move |offset| first(chunk) + offset * PAIR_BYTES)
        });
        let offsets = StepOffsets::new(offsets.collect());
        let halves = pairs(direct) * line_bytes / size_of::<u16>();
        Strip { layout, line_bytes, halves, offsets }
    }
}

/// The filters of a panel: chunk by chunk of the depth, tap by tap.
struct PackFilters<'a> {
    direct: &'a Direct<'a>,
    amx: Amx,
    group: usize,
    first: usize,
    out: &'a mut [SplitStep],
}

impl Kernel for PackFilters<'_> {
    type Output = bool;

    #[inline(always)]
    fn run<V: Vector>(self, _: V) -> bool {
        let mut finite = true;
        let PackFilters { direct: Direct { filters, taps, depth, .. }, amx, group, first, out } =
            self;
        for row in 0..SPLIT_SIDE {
            let start = group * filters.group_stride + (first + row) * filters.filter_stride;
            for (chunk, out) in out.chunks_exact_mut(taps.len()).enumerate() {
                let channels = chunk * TILE_K..(*depth).min((chunk + 1) * TILE_K);
                for (tap, out) in taps.iter().zip(out) {
                    let mut values = [0.0; TILE_K];
                    if first + row < filters.count {
                        let from = start + channels.start * filters.depth_stride + tap.column;
                        let weights = &filters.weight[from..];
                        if channels.len() == TILE_K {
                            values = amx.gather(weights, filters.depth_stride);
                        } else {
                            let weights = weights.iter().step_by(filters.depth_stride);
                            for (value, weight) in values[..channels.len()].iter_mut().zip(weights)
                            {
                                *value = *weight;
                            }
                        }
                    }
                    finite &= amx.split(&values, out.row(row));
                }
            }
        }
        finite
    }
}

/// The strip from output column `first` on.
struct PackStrip<'a> {
    direct: &'a Direct<'a>,
    amx: Amx,
    strip: &'a Strip,
    /// Image and group.
    place: (usize, usize),
    first: usize,
    lines: &'a mut [f32],
    halves: &'a mut [u16],
}

impl Kernel for PackStrip<'_> {
    type Output = bool;

    #[inline(always)]
    fn run<V: Vector>(self, _: V) -> bool {
        let mut finite = true;
        let PackStrip { direct, amx, strip, place: (image, group), first, lines, halves } = self;
        let line = strip.line_bytes / size_of::<u16>();
        let runs = strip.layout.runs(first, direct.width);
        let (first_terms, others) = halves.split_at_mut(strip.halves);
        let (second_terms, third_terms) = others.split_at_mut(strip.halves);
        let targets = first_terms
            .chunks_exact_mut(line)
            .zip(second_terms.chunks_exact_mut(line))
            .zip(third_terms.chunks_exact_mut(line));
        lines.fill(0.0);
        for (pair, ((first, second), third)) in targets.enumerate() {
            for (half, out) in lines.chunks_exact_mut(line / 2).enumerate() {
                let index = 2 * pair + half;
                let row = match index < direct.depth {
                    true => (direct.input_row)(image, group, index),
                    false => None,
                };
                let out = &mut out[..strip.layout.row()];
                match row {
                    Some(row) => strip.layout.copy(&runs, &direct.x[row..row + direct.width], out),
                    None => out.fill(0.0),
                }
            }
            let (even, odd) = lines.split_at(line / 2);
            let numbers = even.as_chunks::<LANES>().0.iter().zip(odd.as_chunks::<LANES>().0);
            let (first, second) = (first.as_chunks_mut().0, second.as_chunks_mut().0);
            let targets = first.iter_mut().zip(second).zip(third.as_chunks_mut().0);
            for ((even, odd), ((first, second), third)) in numbers.zip(targets) {
                finite &= amx.split_pairs(even, odd, [first, second, third]);
            }
        }
        finite
    }
}

/// Some panels of filters over a strip.
struct Block<'a> {
    amx: Amx,
    steps: usize,
    packed: &'a [SplitStep],
    panels: Range<usize>,
    strip: &'a Strip,
    halves: &'a [u16],
    /// The first column of the strip, of all.
    first: usize,
    columns: usize,
    filters: usize,
    outputs: Outputs<'a>,
}

impl Kernel for Block<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vector>(self, v: V) {
        let session = self.amx.session();
        let bytes = self.panels.len() * self.steps * size_of::<SplitStep>();
        let columns = || (0..self.columns).step_by(SPLIT_SIDE);
        if bytes <= RESIDENT_BYTES {
            // What a block of columns reads stays in L1.
            for column in columns() {
                for panel in self.panels.clone() {
                    self.tile(v, &session, panel, column);
                }
            }
        } else {
            for panel in self.panels.clone() {
                for column in columns() {
                    self.tile(v, &session, panel, column);
                }
            }
        }
    }
}

impl Block<'_> {
    /// 32 filters at 32 columns.
    #[inline(always)]
    fn tile<V: Vector>(&self, v: V, session: &AmxSession, panel: usize, column: usize) {
        let mut sums = [const { TileC([[0.0; LANES]; LANES]) }; 4];
        let rows = &self.packed[panel * self.steps..(panel + 1) * self.steps];
        let columns = SplitColumns {
            halves: &self.halves[2 * column..],
            offsets: &self.strip.offsets,
            line_bytes: self.strip.line_bytes,
            side_bytes: LANES * PAIR_BYTES,
            term_bytes: self.strip.halves * size_of::<u16>(),
        };
        session.multiply_split(rows, columns, &mut sums);
        let filters = panel * SPLIT_SIDE..self.filters.min((panel + 1) * SPLIT_SIDE);
        for (row, filter) in filters.enumerate() {
            let (half, line) = (row / LANES * 2, row % LANES);
            let sums = [v.load(&sums[half].0[line]), v.load(&sums[half + 1].0[line])];
            self.outputs.store(v, filter, self.first + column, &sums);
        }
    }
}
