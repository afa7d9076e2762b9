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
    Amx, AmxSession, Kernel, LANES, SPLIT_SIDE, SplitColumns, SplitStep, StepOffsets, TILE_K,
    TileC, Vector,
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
    /// The strip of a task, two of its rows, and a panel of filters.
    static STRIP: RefCell<[AlignedBuffer; 3]> = RefCell::default();
}

/// Whether tiles are faster.
pub(super) fn applies(direct: &Direct) -> bool {
    let (depth, filters) = (direct.depth, direct.filters.count);
    let padded = depth.next_multiple_of(TILE_K) * filters.next_multiple_of(SPLIT_SIDE);
    let fits = padded <= MOST_PADDING * depth * filters && direct.columns >= LANES;
    fits && !direct.taps.is_empty()
}

/// Writes convolutions of at least one tap, which have the filters and the input in common; returns false where a number
/// is not finite, and the outputs are not to be used.
pub(super) fn convolve<const TERMS: usize>(
    phases: &[Direct],
    context: Context,
    amx: Amx,
    epilogue: Epilogue,
    out: &mut [f32],
) -> bool {
    let Some(first) = phases.first() else {
        return true;
    };
    let tiled = Tiled::<TERMS> {
        phases,
        context,
        amx,
        panels: first.filters.count.div_ceil(SPLIT_SIDE),
        steps: phases.iter().map(steps).sum(),
        epilogue,
        finite: AllFinite::default(),
        out: DisjointSlice::new(out),
    };
    FILTERS.with_borrow_mut(|buffer| tiled.run(buffer));
    tiled.finite.get()
}

/// Steps of a panel of filters.
fn steps(direct: &Direct) -> usize {
    direct.depth.div_ceil(TILE_K) * direct.taps.len()
}

/// A call.
struct Tiled<'a, const TERMS: usize> {
    phases: &'a [Direct<'a>],
    context: Context<'a>,
    amx: Amx,
    panels: usize,
    /// Of a panel, those of all phases.
    steps: usize,
    epilogue: Epilogue<'a>,
    finite: AllFinite,
    out: DisjointSlice<'a, f32>,
}

impl<const TERMS: usize> Tiled<'_, TERMS> {
    fn run(&self, buffer: &mut AlignedBuffer) {
        if let [direct] = self.phases
            && direct.images * direct.filters.groups == 1
            && direct.columns <= strip_columns::<TERMS>(direct)
        {
            // Every panel is for one task, which packs it into its core's L2.
            self.convolve(direct, None);
            return;
        }
        let groups = self.phases[0].filters.groups;
        let packed = buffer.split_steps(groups * self.panels * self.steps);
        {
            let packed = DisjointSlice::new(packed);
            self.context.threads.parallel_for(groups * self.panels, 1, &|range| {
                for index in range {
                    let steps = index * self.steps..(index + 1) * self.steps;
                    // SAFETY: panels do not overlap.
                    let out = unsafe { packed.slice_mut(steps) };
                    self.pack(index / self.panels, index % self.panels, out);
                }
            });
        }
        let mut place = 0;
        for direct in self.phases {
            self.convolve(direct, Some((packed, place)));
            place += steps(direct);
        }
    }

    fn pack(&self, group: usize, panel: usize, out: &mut [SplitStep<TERMS>]) {
        let (phases, amx, first) = (self.phases, self.amx, panel * SPLIT_SIDE);
        self.finite.note(amx.run(PackFilters { phases, amx, group, first, out }));
    }

    /// Writes a phase, whose steps begin at a place of each packed panel; or packs panels as it goes.
    fn convolve(&self, direct: &Direct, packed: Option<(&[SplitStep<TERMS>], usize)>) {
        let (context, amx, panels) = (self.context, self.amx, self.panels);
        let groups = direct.filters.groups;
        let columns = strip_columns::<TERMS>(direct);
        let strip = Strip::new(direct, columns);
        let blocks = direct.columns.div_ceil(columns);
        let rows = direct.images * groups * blocks;
        // Where there are few strips, threads share their filters.
        let parts = (2 * context.threads.count()).div_ceil(rows.max(1)).clamp(1, panels);
        context.threads.run(rows * parts, &|task| {
            let (part, task) = (task % parts, task / parts);
            let (block, task) = (task % blocks, task / blocks);
            let (group, image) = (task % groups, task / groups);
            let part = panels * part / parts..panels * (part + 1) / parts;
            STRIP.with_borrow_mut(|[halves, lines, own]| {
                let halves = halves.halves(TERMS * strip.halves);
                let lines = lines.floats(2 * strip.line_bytes / PAIR_BYTES);
                let (first, place, strip) = (block * columns, (image, group), &strip);
                let pack = PackStrip::<TERMS> { direct, amx, strip, place, first, lines, halves };
                self.finite.note(amx.run(pack));
                let convolve = |packed: &[SplitStep<TERMS>], first_panel, panels| {
                    amx.run(Block {
                        amx,
                        packed,
                        first_panel,
                        panel_steps: self.steps,
                        panels,
                        strip,
                        halves,
                        first,
                        columns: columns.min(direct.columns - first),
                        filters: direct.filters.count,
                        outputs: direct.outputs(image, group, self.epilogue, &self.out),
                    });
                };
                if let Some((packed, place)) = packed {
                    convolve(&packed[group * panels * self.steps + place..], 0, part);
                    return;
                }
                let own = own.split_steps(self.steps);
                for panel in part {
                    self.pack(group, panel, own);
                    convolve(own, panel, panel..panel + 1);
                }
            });
        });
    }
}

/// How many output columns a strip is for, a multiple of those of a block.
fn strip_columns<const TERMS: usize>(direct: &Direct) -> usize {
    let least = StripLayout::new(&direct.taps, direct.step, SPLIT_SIDE);
    let more = StripLayout::new(&direct.taps, direct.step, 2 * SPLIT_SIDE);
    let block = more.row() - least.row();
    let line = STRIP_BYTES / (TERMS * PAIR_BYTES * pairs(direct));
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

/// The filters of a panel: for each phase, chunk by chunk of the depth, tap by tap.
struct PackFilters<'a, const TERMS: usize> {
    phases: &'a [Direct<'a>],
    amx: Amx,
    group: usize,
    first: usize,
    out: &'a mut [SplitStep<TERMS>],
}

impl<const TERMS: usize> Kernel for PackFilters<'_, TERMS> {
    type Output = bool;

    #[inline(always)]
    fn run<V: Vector>(self, _: V) -> bool {
        let mut finite = true;
        let PackFilters { phases, amx, group, first, out } = self;
        let Direct { filters, depth, .. } = &phases[0];
        for row in 0..SPLIT_SIDE {
            let start = group * filters.group_stride + (first + row) * filters.filter_stride;
            // Phases read the same cache lines: a chunk's are in L1.
            for chunk in 0..depth.div_ceil(TILE_K) {
                let channels = chunk * TILE_K..(*depth).min((chunk + 1) * TILE_K);
                let mut phase_start = 0;
                for phase in phases {
                    let place = phase_start + chunk * phase.taps.len();
                    phase_start += steps(phase);
                    for (tap, out) in phase.taps.iter().zip(&mut out[place..]) {
                        let mut values = [0.0; TILE_K];
                        if first + row < filters.count {
                            let from = start + channels.start * filters.depth_stride + tap.column;
                            let weights = &filters.weight[from..];
                            if channels.len() == TILE_K {
                                values = amx.gather(weights, filters.depth_stride);
                            } else {
                                let weights = weights.iter().step_by(filters.depth_stride);
                                let values = &mut values[..channels.len()];
                                for (value, weight) in values.iter_mut().zip(weights) {
                                    *value = *weight;
                                }
                            }
                        }
                        finite &= amx.split(&values, out.row(row));
                    }
                }
            }
        }
        finite
    }
}

/// The strip from output column `first` on.
struct PackStrip<'a, const TERMS: usize> {
    direct: &'a Direct<'a>,
    amx: Amx,
    strip: &'a Strip,
    /// Image and group.
    place: (usize, usize),
    first: usize,
    lines: &'a mut [f32],
    halves: &'a mut [u16],
}

impl<const TERMS: usize> Kernel for PackStrip<'_, TERMS> {
    type Output = bool;

    #[inline(always)]
    fn run<V: Vector>(self, _: V) -> bool {
        let mut finite = true;
        let PackStrip { direct, amx, strip, place: (image, group), first, lines, halves } = self;
        let line = strip.line_bytes / size_of::<u16>();
        let runs = strip.layout.runs(first, direct.width);
        let mut rest = halves;
        let mut terms: [_; TERMS] = std::array::from_fn(|_| {
            let (term, others) = std::mem::take(&mut rest).split_at_mut(strip.halves);
            rest = others;
            term.chunks_exact_mut(line)
        });
        lines.fill(0.0);
        for pair in 0..pairs(direct) {
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
            let mut targets = terms.each_mut().map(|term| match term.next() {
                Some(term) => term.as_chunks_mut().0,
                None => &mut [],
            });
            for (place, (even, odd)) in numbers.enumerate() {
                let targets = targets.each_mut().map(|target| &mut target[place]);
                finite &= amx.split_pairs(even, odd, targets);
            }
        }
        finite
    }
}

/// Some panels of filters over a strip.
struct Block<'a, const TERMS: usize> {
    amx: Amx,
    packed: &'a [SplitStep<TERMS>],
    /// The panel that is packed first.
    first_panel: usize,
    /// Steps from a packed panel to the next.
    panel_steps: usize,
    panels: Range<usize>,
    strip: &'a Strip,
    halves: &'a [u16],
    /// The first column of the strip, of all.
    first: usize,
    columns: usize,
    filters: usize,
    outputs: Outputs<'a>,
}

impl<const TERMS: usize> Kernel for Block<'_, TERMS> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vector>(self, v: V) {
        let session = self.amx.session();
        let bytes = self.panels.len() * self.panel_steps * size_of::<SplitStep<TERMS>>();
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

impl<const TERMS: usize> Block<'_, TERMS> {
    /// 32 filters at 32 columns.
    #[inline(always)]
    fn tile<V: Vector>(&self, v: V, session: &AmxSession, panel: usize, column: usize) {
        let mut sums = [const { TileC([[0.0; LANES]; LANES]) }; 4];
        let first = (panel - self.first_panel) * self.panel_steps;
        let rows = &self.packed[first..first + self.strip.offsets.count()];
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
