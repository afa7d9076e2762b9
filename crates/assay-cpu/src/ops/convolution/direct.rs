//! Direct convolution in register tiles of filters by columns.

use super::outputs::{OutputRow, Outputs};
use super::strips::{StripLayout, Tap};
use crate::aligned_buffer::AlignedBuffer;
use crate::context::Context;
use crate::ops::gemm::{Epilogue, RegisterTile};
use crate::simd::{Kernel, LANES, Vector};
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
        let tile = RegisterTile::of(context.level);
        let layout = StripLayout::new(&self.taps, self.step, tile.nr());
        let panels = self.filters.count.div_ceil(tile.mr());
        let panel = self.depth * self.taps.len() * tile.mr();
        let out = DisjointSlice::new(out);
        FILTERS.with_borrow_mut(|buffer| {
            let packed = buffer.floats(self.filters.groups * panels * panel);
            self.pack(context, tile.mr(), panel, packed);
            let strip = self.depth * layout.row();
            let rows = (0..self.depth).map(|row| row * layout.row());
            let places = rows.flat_map(|row| layout.offsets.iter().map(move |offset| row + offset));
            let places: Vec<usize> = places.collect();
            let tiles = self.columns.div_ceil(tile.nr());
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
                    let (first_tile, columns) = (tiles.start, tile.nr());
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

    /// Filters in panels of `height`: row by row, tap by tap, one weight of each filter.
    fn pack(&self, context: Context, height: usize, panel: usize, out: &mut [f32]) {
        let filters = &self.filters;
        let panels = filters.count.div_ceil(height);
        let out = DisjointSlice::new(out);
        let grain = (1_usize << 15).div_ceil(panel.max(1));
        context.threads.parallel_for(filters.groups * panels, grain, &|range| {
            for index in range {
                // SAFETY: panels do not overlap.
                let out = unsafe { out.slice_mut(index * panel..(index + 1) * panel) };
                let (group, first) = (index / panels, index % panels * height);
                context.level.run(PackPanel { direct: self, group, first, height, out });
            }
        });
    }
}

/// One panel of filters, from filter `first` of a group on.
struct PackPanel<'a> {
    direct: &'a Direct<'a>,
    group: usize,
    first: usize,
    height: usize,
    out: &'a mut [f32],
}

impl Kernel for PackPanel<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vector>(self, v: V) {
        let PackPanel { direct: Direct { filters, taps, depth, .. }, group, first, height, out } =
            self;
        let start = group * filters.group_stride + first * filters.filter_stride;
        let lanes = height.min(filters.count - first);
        let columns = depth * taps.len();
        // All weights of a filter, in order.
        let in_order = filters.depth_stride == taps.len() && filters.filter_stride == columns;
        let mut done = 0;
        if in_order && lanes == height {
            let zeros = [0.0; LANES];
            let mut square = [zeros; LANES];
            // A row of the square is stored whole; the next one covers what it has too much.
            while done + 2 * LANES <= columns {
                let mut lines = [&zeros; LANES];
                for (lane, line) in lines.iter_mut().enumerate().take(lanes) {
                    if let Some(chunk) =
                        filters.weight[start + lane * columns + done..].first_chunk()
                    {
                        *line = chunk;
                    }
                }
                v.transpose(lines, &mut square);
                for (column, values) in square.iter().enumerate() {
                    let at = (done + column) * height;
                    if let Some(out) = out[at..].first_chunk_mut() {
                        v.store(v.load(values), out);
                    }
                }
                done += LANES;
            }
        }
        for (index, out) in out.chunks_exact_mut(height).enumerate().skip(done) {
            let (row, tap) = (index / taps.len(), &taps[index % taps.len()]);
            let weights = &filters.weight[start + row * filters.depth_stride + tap.column..];
            let weights = weights.iter().step_by(filters.filter_stride).take(lanes);
            out.fill(0.0);
            for (out, weight) in out.iter_mut().zip(weights) {
                *out = *weight;
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
        for (tile, strip) in tiles.zip(strips.chunks_exact_mut((direct.depth * row).max(1))) {
            let runs = layout.runs(tile * columns, direct.width);
            for (index, strip) in strip.chunks_exact_mut(row).enumerate() {
                match (direct.input_row)(image, group, index) {
                    Some(first) => {
                        layout.copy(&runs, &direct.x[first..first + direct.width], strip);
                    }
                    None => strip.fill(0.0),
                }
            }
        }
    }
}

/// Some panels of filters over the strips of a task.
struct Block<'a> {
    direct: &'a Direct<'a>,
    tile: RegisterTile,
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
            RegisterTile::Large => self.tiles::<V, 12, 2>(v),
            RegisterTile::Middle => self.tiles::<V, 6, 1>(v),
            RegisterTile::Small => self.tiles::<V, 2, 1>(v),
        }
    }
}

impl Block<'_> {
    #[inline(always)]
    fn tiles<V: Vector, const MR: usize, const NR_VECTORS: usize>(&self, v: V) {
        let panel = self.places.len() * MR;
        for index in self.panels.clone() {
            let weights = &self.packed[index * panel..(index + 1) * panel];
            for (tile, strip) in self.strips.chunks_exact(self.strip).enumerate() {
                let sums = self.tile::<V, MR, NR_VECTORS>(v, weights, strip);
                let column = (self.first_tile + tile) * NR_VECTORS * LANES;
                for (lane, sums) in sums.iter().enumerate() {
                    let filter = index * MR + lane;
                    if filter < self.direct.filters.count {
                        self.outputs.store(v, filter, column, sums);
                    }
                }
            }
        }
    }

    /// The sums of a register tile: a rank-1 update for every row and tap.
    #[inline(always)]
    fn tile<V: Vector, const MR: usize, const NR_VECTORS: usize>(
        &self,
        v: V,
        weights: &[f32],
        strip: &[f32],
    ) -> [[V::F; NR_VECTORS]; MR] {
        let mut sums = [[v.splat(0.0); NR_VECTORS]; MR];
        for (place, factors) in self.places.iter().zip(weights.as_chunks::<MR>().0) {
            let line = strip[*place..].as_chunks::<LANES>().0;
            let Some(line) = line.first_chunk::<NR_VECTORS>() else {
                break;
            };
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
