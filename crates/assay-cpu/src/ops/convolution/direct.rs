//! Direct convolution in register tiles of filters by columns.

use super::outputs::{OutputRow, Outputs};
use super::strips::{StripLayout, Tap};
use crate::aligned_buffer::AlignedBuffer;
use crate::context::Context;
use crate::ops::gemm::Epilogue;
use crate::simd::{Kernel, LANES, Level, Vector};
use crate::threads::DisjointSlice;
use std::cell::RefCell;
use std::ops::Range;

/// Elements of the strips that a task holds at a time, in its core's L2.
const STRIP_ELEMENTS: usize = 1 << 17;
/// The most strips of a task.
const MOST_STRIPS: usize = 8;

thread_local! {
    /// The packed filters of a call.
    static FILTERS: RefCell<AlignedBuffer> = RefCell::default();
    /// The strips of a task.
    static STRIPS: RefCell<AlignedBuffer> = RefCell::default();
}

/// The register tile of a SIMD level. At AVX-512 it is wider than a GEMM's: 11 loads for 24 FMAs rather than 14, and
/// numbers of filters are multiples of 8 rather than of 12.
#[derive(Clone, Copy)]
enum Tile {
    /// 8 filters by 48 columns.
    Large,
    /// 6 filters by 16 columns.
    Middle,
    /// 2 filters by 16 columns.
    Small,
}

impl Tile {
    fn of(level: Level) -> Self {
        match level.name() {
            _ if level.is_avx512() => Tile::Large,
            "portable" => Tile::Small,
            _ => Tile::Middle,
        }
    }

    fn height(self) -> usize {
        match self {
            Tile::Large => 8,
            Tile::Middle => 6,
            Tile::Small => 2,
        }
    }

    fn width(self) -> usize {
        match self {
            Tile::Large => 3 * LANES,
            Tile::Middle | Tile::Small => LANES,
        }
    }
}

/// The filters of all groups: weight(filter, row, column) at these strides, columns adjacent.
pub(super) struct Filters<'a> {
    pub weight: &'a [f32],
    /// Filters of a group.
    pub count: usize,
    pub groups: usize,
    pub group_stride: usize,
    pub filter_stride: usize,
    pub depth_stride: usize,
}

/// The first element of row `row` of the windows of an image and a group; none where it is padding.
type InputRow<'a> = &'a (dyn Fn(usize, usize, usize) -> Option<usize> + Sync);

/// A convolution of rows: each output row sums `depth` input rows.
pub(super) struct Direct<'a> {
    pub x: &'a [f32],
    /// Elements of an input row.
    pub width: usize,
    /// Elements of the input from one output column to the next.
    pub step: usize,
    pub taps: Vec<Tap>,
    pub depth: usize,
    pub filters: Filters<'a>,
    /// Output rows of a filter.
    pub images: usize,
    /// Outputs of a row.
    pub columns: usize,
    pub input_row: InputRow<'a>,
    pub output_row: &'a (dyn Fn(usize, usize) -> OutputRow + Sync),
    /// The first output, of those of a row.
    pub first_output: usize,
}

impl Direct<'_> {
    pub fn run(&self, context: Context, epilogue: Epilogue, out: &mut [f32]) {
        if self.taps.is_empty() {
            self.fill(epilogue.bias, out);
            return;
        }
        let tile = Tile::of(context.level);
        let (height, width) = (tile.height(), tile.width());
        let layout = StripLayout::new(&self.taps, self.step, width);
        let panels = self.filters.count.div_ceil(height);
        let panel = self.depth * self.taps.len() * height;
        let out = DisjointSlice::new(out);
        FILTERS.with_borrow_mut(|buffer| {
            let packed = buffer.floats(self.filters.groups * panels * panel);
            self.pack(context, height, panel, packed);
            let strip = self.depth * layout.row();
            let rows = (0..self.depth).map(|row| row * layout.row());
            let places = rows.flat_map(|row| layout.offsets.iter().map(move |offset| row + offset));
            let places: Vec<usize> = places.collect();
            let tiles = self.columns.div_ceil(width);
            let strips = (STRIP_ELEMENTS / strip.max(1)).clamp(1, MOST_STRIPS).min(tiles);
            let blocks = tiles.div_ceil(strips);
            let rows = self.images * self.filters.groups * blocks;
            // Where there are few rows, threads share their filters.
            let parts = (4 * context.threads.count()).div_ceil(rows.max(1)).clamp(1, panels);
            context.threads.run(rows * parts, &|task| {
                let (part, task) = (task % parts, task / parts);
                let (block, task) = (task % blocks, task / blocks);
                let (group, image) = (task % self.filters.groups, task / self.filters.groups);
                let tiles = block * strips..((block + 1) * strips).min(tiles);
                STRIPS.with_borrow_mut(|buffer| {
                    let strips = buffer.floats(tiles.len() * strip);
                    let (first_tile, columns) = (tiles.start, width);
                    let place = (image, group);
                    let layout = &layout;
                    context.level.run(Copy { direct: self, layout, place, tiles, columns, strips });
                    context.level.run(Block {
                        direct: self,
                        tile,
                        places: &places,
                        strip,
                        packed: &packed[group * panels * panel..(group + 1) * panels * panel],
                        panels: panels * part / parts..panels * (part + 1) / parts,
                        strips,
                        first_tile,
                        outputs: self.outputs(image, group, epilogue, &out),
                    });
                });
            });
        });
    }

    /// Where the outputs of an image and a group go.
    pub fn outputs<'a>(
        &self,
        image: usize,
        group: usize,
        epilogue: Epilogue<'a>,
        out: &'a DisjointSlice<'a, f32>,
    ) -> Outputs<'a> {
        Outputs {
            columns: self.columns,
            first_filter: group * self.filters.count,
            target: self.target(image, group),
            epilogue,
            out,
        }
    }

    fn target(&self, image: usize, group: usize) -> OutputRow {
        let row = (self.output_row)(image, group);
        OutputRow { first: row.first + self.first_output, ..row }
    }

    /// Writes the bias where no tap reaches an output.
    fn fill(&self, bias: Option<&[f32]>, out: &mut [f32]) {
        for image in 0..self.images {
            for group in 0..self.filters.groups {
                let OutputRow { first, filter_stride, step } = self.target(image, group);
                for filter in 0..self.filters.count {
                    let bias = bias.map_or(0.0, |bias| bias[group * self.filters.count + filter]);
                    let row = out[first + filter * filter_stride..].iter_mut();
                    row.step_by(step).take(self.columns).for_each(|out| *out = bias);
                }
            }
        }
    }
}

/// The strips of a task, copied with the level's instructions.
struct Copy<'a> {
    direct: &'a Direct<'a>,
    layout: &'a StripLayout,
    /// Image and group.
    place: (usize, usize),
    tiles: Range<usize>,
    /// Outputs of a tile.
    columns: usize,
    strips: &'a mut [f32],
}

impl Kernel for Copy<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vector>(self, _: V) {
        let Copy { direct, layout, place: (image, group), tiles, columns, strips } = self;
        let row = layout.row();
        let runs: Vec<_> = tiles.map(|tile| layout.runs(tile * columns, direct.width)).collect();
        // Row by row, since what tiles read of one is adjacent.
        for index in 0..direct.depth {
            let first = (direct.input_row)(image, group, index);
            let parts = strips.chunks_exact_mut(direct.depth * row);
            for (runs, strip) in runs.iter().zip(parts) {
                let strip = &mut strip[index * row..(index + 1) * row];
                match first {
                    Some(first) => layout.copy(runs, &direct.x[first..first + direct.width], strip),
                    None => strip.fill(0.0),
                }
            }
        }
    }
}

/// Some panels of filters over the strips of a task.
struct Block<'a> {
    direct: &'a Direct<'a>,
    tile: Tile,
    /// Where each row and tap begins in a strip.
    places: &'a [usize],
    /// Elements of a strip.
    strip: usize,
    packed: &'a [f32],
    panels: Range<usize>,
    strips: &'a [f32],
    first_tile: usize,
    outputs: Outputs<'a>,
}

impl Kernel for Block<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vector>(self, v: V) {
        match self.tile {
            Tile::Large => self.strips::<V, 8, 3>(v),
            Tile::Middle => self.strips::<V, 6, 1>(v),
            Tile::Small => self.strips::<V, 2, 1>(v),
        }
    }
}

impl Block<'_> {
    #[inline(always)]
    fn strips<V: Vector, const MR: usize, const NR_VECTORS: usize>(&self, v: V) {
        let panel = self.places.len() * MR;
        for index in self.panels.clone() {
            let weights = &self.packed[index * panel..(index + 1) * panel];
            for (tile, strip) in self.strips.chunks_exact(self.strip).enumerate() {
                let column = (self.first_tile + tile) * NR_VECTORS * LANES;
                let place = (index * MR, column);
                // The last tile of a row may be narrower.
                match (self.direct.columns - column).div_ceil(LANES) {
                    1 => self.tile::<V, MR, 1>(v, weights, strip, place),
                    2 if NR_VECTORS > 2 => self.tile::<V, MR, 2>(v, weights, strip, place),
                    _ => self.tile::<V, MR, NR_VECTORS>(v, weights, strip, place),
                }
            }
        }
    }

    /// Writes the outputs of a register tile, from a filter and a column on.
    #[inline(always)]
    fn tile<V: Vector, const MR: usize, const NR_VECTORS: usize>(
        &self,
        v: V,
        weights: &[f32],
        strip: &[f32],
        (first_filter, column): (usize, usize),
    ) {
        let filters = first_filter..(first_filter + MR).min(self.direct.filters.count);
        // While the sums are computed, so that the stores do not wait for the lines.
        for filter in filters.clone() {
            for vector in 0..NR_VECTORS {
                self.outputs.prefetch(filter, column + vector * LANES);
            }
        }
        let sums = self.sums::<V, MR, NR_VECTORS>(v, weights, strip);
        for (filter, sums) in filters.zip(&sums) {
            self.outputs.store(v, filter, column, sums);
        }
    }

    /// The sums of a register tile: a rank-1 update for every row and tap.
    #[inline(always)]
    fn sums<V: Vector, const MR: usize, const NR_VECTORS: usize>(
        &self,
        v: V,
        weights: &[f32],
        strip: &[f32],
    ) -> [[V::F; NR_VECTORS]; MR] {
        let mut sums = [[v.splat(0.0); NR_VECTORS]; MR];
        for (place, factors) in self.places.iter().zip(weights.as_chunks::<MR>().0) {
            let line = strip[*place..*place + NR_VECTORS * LANES].as_chunks::<LANES>().0;
            let mut inputs = [v.splat(0.0); NR_VECTORS];
            for vector in 0..NR_VECTORS {
                inputs[vector] = v.load(&line[vector]);
            }
            for lane in 0..MR {
                let factor = v.splat(factors[lane]);
                for vector in 0..NR_VECTORS {
                    sums[lane][vector] = v.mul_add(factor, inputs[vector], sums[lane][vector]);
                }
            }
        }
        sums
    }
}
