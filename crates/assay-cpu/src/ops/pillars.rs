//! Point clouds as pillars: points grouped by cell of a grid, and a feature vector for each cell that has some
//! [Lang et al. 2019, PointPillars].

use crate::context::Context;
use crate::error::{Result, check_length, check_value};
use crate::simd::{Kernel, LANES, Vector};
use crate::threads::DisjointSlice;
use std::cell::RefCell;
use std::ops::Range;

/// Coordinates of a point, and its intensity.
pub const POINT_FEATURES: usize = 4;
/// What the feature net reads of a point: the point, its offset from the mean of its pillar, and from the pillar's
/// center.
pub const PILLAR_INPUTS: usize = POINT_FEATURES + 3 + 3;
/// Pillars that a task takes at least.
const GRAIN: usize = 256;
/// Vectors of channels that are accumulated at a time.
const CHANNEL_VECTORS: usize = 4;
/// The most cells of a grid.
const MOST_CELLS: usize = 1 << 28;

thread_local! {
    /// The pillar of each cell, and that of each point.
    static PILLARS: RefCell<[Vec<i32>; 2]> = RefCell::default();
    /// The features of all pillars.
    static FEATURES: RefCell<Vec<f32>> = RefCell::default();
}

/// A grid over the plane: a point is inside where its height is, too.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PillarGrid {
    /// Cells along y.
    pub rows: usize,
    /// Cells along x.
    pub columns: usize,
    /// The least coordinates.
    pub least: [f32; 3],
    /// Extents of a cell; that along z is the height of the grid.
    pub size: [f32; 3],
}

impl PillarGrid {
    fn check(&self, operation: &'static str) -> Result<()> {
        let cells = self.rows.checked_mul(self.columns);
        let valid = cells.is_some_and(|cells| (1..=MOST_CELLS).contains(&cells));
        let got = format_args!("{} x {}", self.rows, self.columns);
        check_value(operation, "grid", valid, "of 1 to 2^28 cells", got)?;
        let valid = self.size.iter().all(|size| size.is_finite() && *size > 0.0)
            && self.least.iter().all(|least| least.is_finite());
        let got = format_args!("{:?} from {:?}", self.size, self.least);
        check_value(operation, "cell", valid, "of finite extents above 0", got)
    }

    /// The cell of a point; none where it is outside, or a coordinate is not a number.
    #[inline(always)]
    fn cell(&self, point: &[f32; POINT_FEATURES]) -> Option<usize> {
        let place = |axis: usize| (point[axis] - self.least[axis]) / self.size[axis];
        let (x, y, z) = (place(0), place(1), place(2));
        // Infinite and undefined places fail a comparison.
        let inside = x >= 0.0
            && y >= 0.0
            && z >= 0.0
            && x < self.columns as f32
            && y < self.rows as f32
            && z < 1.0;
        inside.then(|| y as usize * self.columns + x as usize)
    }

    fn center(&self, cell: usize) -> [f32; 3] {
        let place =
            |axis: usize, index: usize| (index as f32 + 0.5) * self.size[axis] + self.least[axis];
        [place(0, cell % self.columns), place(1, cell / self.columns), place(2, 0)]
    }
}

/// Groups points by cell: pillars in the order of their first points, and points of a pillar in the order
/// of the scan. Points beyond `most_points` of a pillar, or of pillars beyond the length of `cells`, are dropped.
///
/// Pillar p has points `starts[p]..starts[p + 1]` of `grouped`, and cell `cells[p]`, which is -1 where there are fewer
/// pillars; the grouped points beyond the last pillar's are zero.
pub fn pillarize(
    grid: PillarGrid,
    most_points: usize,
    points: &[f32],
    grouped: &mut [f32],
    starts: &mut [i32],
    cells: &mut [i32],
) -> Result<()> {
    let operation = "pillarize";
    grid.check(operation)?;
    let count = points.len() / POINT_FEATURES;
    check_length(operation, "points", points.len(), &[count, POINT_FEATURES])?;
    check_length(operation, "grouped", grouped.len(), &[count, POINT_FEATURES])?;
    check_length(operation, "starts", starts.len(), &[cells.len() + 1])?;
    let valid = most_points > 0 && count <= i32::MAX as usize;
    check_value(operation, "points of a pillar", valid, "1 or more", most_points)?;
    let (points, _) = points.as_chunks::<POINT_FEATURES>();
    let (grouped, _) = grouped.as_chunks_mut::<POINT_FEATURES>();
    starts.fill(0);
    cells.fill(-1);
    PILLARS.with_borrow_mut(|[pillar_of_cell, pillar_of_point]| {
        pillar_of_cell.clear();
        pillar_of_cell.resize(grid.rows * grid.columns, -1);
        pillar_of_point.clear();
        let mut pillars = 0;
        for point in points {
            let mut pillar = -1;
            if let Some(cell) = grid.cell(point) {
                pillar = pillar_of_cell[cell];
                if pillar < 0 && pillars < cells.len() {
                    pillar = pillars as i32;
                    pillar_of_cell[cell] = pillar;
                    cells[pillars] = cell as i32;
                    pillars += 1;
                }
                if pillar >= 0 {
                    let held = &mut starts[pillar as usize + 1];
                    match (*held as usize) < most_points {
                        true => *held += 1,
                        false => pillar = -1,
                    }
                }
            }
            pillar_of_point.push(pillar);
        }
        let mut sum = 0;
        for start in starts.iter_mut() {
            sum += *start;
            *start = sum;
        }
        grouped[sum as usize..].fill([0.0; POINT_FEATURES]);
        // Each start moves to the next pillar's as its points are placed, and back by one pillar at the end.
        for (point, pillar) in points.iter().zip(pillar_of_point) {
            if *pillar >= 0 {
                let next = &mut starts[*pillar as usize];
                grouped[*next as usize] = *point;
                *next += 1;
            }
        }
        let last = starts.len() - 1;
        starts.copy_within(0..last, 1);
        starts[0] = 0;
    });
    Ok(())
}

/// Groups of points as [`pillarize`] writes them.
#[derive(Clone, Copy, Debug)]
pub struct Pillars<'a> {
    /// Points, by pillar.
    pub grouped: &'a [f32],
    /// The first point of each pillar, and the end of the last.
    pub starts: &'a [i32],
    /// The cell of each pillar, or -1.
    pub cells: &'a [i32],
}

/// Writes relu(weight x inputs + bias), the maximum over the points of each pillar, to the pillar's cell of `canvas`,
/// [channels, rows, columns]; cells without points are zero.
///
/// The inputs of a point are itself, its offset from the mean of its pillar and that from the pillar's center. As in
/// the published network, a pillar of fewer than `most_points` points has zero inputs besides.
pub fn pillar_features(
    context: Context,
    grid: PillarGrid,
    most_points: usize,
    pillars: Pillars,
    weight: &[f32],
    bias: &[f32],
    canvas: &mut [f32],
) -> Result<()> {
    let operation = "pillar_features";
    grid.check(operation)?;
    let channels = bias.len();
    let whole = channels > 0 && channels.is_multiple_of(LANES);
    check_value(operation, "channels", whole, format_args!("a multiple of {LANES}"), channels)?;
    check_length(operation, "weight", weight.len(), &[channels, PILLAR_INPUTS])?;
    check_length(operation, "canvas", canvas.len(), &[channels, grid.rows, grid.columns])?;
    check_length(operation, "starts", pillars.starts.len(), &[pillars.cells.len() + 1])?;
    let count = pillars.cells.iter().take_while(|cell| **cell >= 0).count();
    let limit = grid.rows * grid.columns;
    let inside = pillars.cells[..count].iter().all(|cell| (*cell as usize) < limit);
    check_value(operation, "cells", inside, "inside of the grid", "others")?;
    let points = pillars.grouped.len() / POINT_FEATURES;
    let ordered = pillars.starts[..=count].is_sorted()
        && pillars.starts[0] >= 0
        && pillars.starts[count] as usize <= points;
    check_value(operation, "starts", ordered, "in order, inside of the points", "others")?;
    let net = FeatureNet::new(weight, bias);
    FEATURES.with_borrow_mut(|features| {
        features.resize(count * channels, 0.0);
        {
            let features = DisjointSlice::new(features);
            context.threads.parallel_for(count, GRAIN, &|range| {
                // SAFETY: ranges of pillars do not overlap.
                let out =
                    unsafe { features.slice_mut(range.start * channels..range.end * channels) };
                context.level.run(Features { grid, most_points, pillars, net: &net, range, out });
            });
        }
        scatter(context, grid, channels, &pillars.cells[..count], features, canvas);
    });
    Ok(())
}

/// The layer with its inputs joined: weight x inputs = of_offset x (point - center) + of_intensity + what is the same
/// for all points of a pillar. Offsets are small, so that nothing cancels.
struct FeatureNet {
    /// [4, channels]: of the offset from the center, and of the intensity.
    point: Vec<f32>,
    /// [3, channels]: of the center.
    center: Vec<f32>,
    /// [3, channels]: of the mean of the offsets.
    mean: Vec<f32>,
    bias: Vec<f32>,
}

impl FeatureNet {
    fn new(weight: &[f32], bias: &[f32]) -> Self {
        let of = |input: usize| {
            let rows = weight.chunks_exact(PILLAR_INPUTS);
            rows.map(move |row| row[input]).collect::<Vec<f32>>()
        };
        let mean: Vec<Vec<f32>> = (4..7).map(of).collect();
        let center: Vec<Vec<f32>> = (0..3).map(of).collect();
        let mut point = Vec::new();
        for axis in 0..3 {
            let terms = center[axis].iter().zip(&mean[axis]).zip(of(7 + axis));
            point.extend(terms.map(|((itself, mean), center)| itself + mean + center));
        }
        point.extend(of(3));
        let (mean, center) = (mean.concat(), center.concat());
        FeatureNet { point, center, mean, bias: bias.to_vec() }
    }
}

/// The features of a range of pillars.
struct Features<'a> {
    grid: PillarGrid,
    most_points: usize,
    pillars: Pillars<'a>,
    net: &'a FeatureNet,
    range: Range<usize>,
    out: &'a mut [f32],
}

impl Kernel for Features<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vector>(self, v: V) {
        let Features { grid, most_points, pillars, net, range, out } = self;
        let points = pillars.grouped.as_chunks::<POINT_FEATURES>().0;
        for (pillar, out) in range.zip(out.chunks_exact_mut(net.bias.len())) {
            let starts = &pillars.starts[pillar..pillar + 2];
            let points = &points[starts[0] as usize..starts[1] as usize];
            let center = grid.center(pillars.cells[pillar] as usize);
            let mut sum = [0.0; 3];
            for point in points {
                for axis in 0..3 {
                    sum[axis] += point[axis] - center[axis];
                }
            }
            let count = points.len().max(1) as f32;
            let mean = sum.map(|sum| sum / count);
            let pillar = Pillar { net, points, center, mean, padded: points.len() < most_points };
            for (block, out) in out.chunks_mut(CHANNEL_VECTORS * LANES).enumerate() {
                let first = block * CHANNEL_VECTORS * LANES;
                match out.len() / LANES {
                    4 => pillar.channels::<V, 4>(v, first, out),
                    3 => pillar.channels::<V, 3>(v, first, out),
                    2 => pillar.channels::<V, 2>(v, first, out),
                    _ => pillar.channels::<V, 1>(v, first, out),
                }
            }
        }
    }
}

struct Pillar<'a> {
    net: &'a FeatureNet,
    points: &'a [[f32; POINT_FEATURES]],
    center: [f32; 3],
    /// Of the points' offsets from the center.
    mean: [f32; 3],
    /// Whether zero inputs take part.
    padded: bool,
}

impl Pillar<'_> {
    /// Some vectors of channels, from channel `first` on.
    #[inline(always)]
    fn channels<V: Vector, const N: usize>(&self, v: V, first: usize, out: &mut [f32]) {
        let channels = self.net.bias.len();
        let load = |weights: &[f32], input: usize| -> [V::F; N] {
            let lanes = weights[input * channels + first..].as_chunks::<LANES>().0;
            std::array::from_fn(|vector| v.load(&lanes[vector]))
        };
        let bias = load(&self.net.bias, 0);
        let mut shared = bias;
        for axis in 0..3 {
            let (of_center, of_mean) = (load(&self.net.center, axis), load(&self.net.mean, axis));
            let (center, mean) = (v.splat(self.center[axis]), v.splat(-self.mean[axis]));
            for vector in 0..N {
                shared[vector] = v.mul_add(of_center[vector], center, shared[vector]);
                shared[vector] = v.mul_add(of_mean[vector], mean, shared[vector]);
            }
        }
        let weights: [[V::F; N]; POINT_FEATURES] =
            std::array::from_fn(|input| load(&self.net.point, input));
        let mut most = [v.splat(0.0); N];
        if self.padded {
            for vector in 0..N {
                most[vector] = v.max(bias[vector], most[vector]);
            }
        }
        for point in self.points {
            let [x, y, z] = self.center;
            let inputs = [point[0] - x, point[1] - y, point[2] - z, point[3]].map(|x| v.splat(x));
            for vector in 0..N {
                let mut sum = shared[vector];
                for input in 0..POINT_FEATURES {
                    sum = v.mul_add(weights[input][vector], inputs[input], sum);
                }
                most[vector] = v.max(sum, most[vector]);
            }
        }
        for (vector, out) in out.as_chunks_mut::<LANES>().0.iter_mut().enumerate() {
            v.store(most[vector], out);
        }
    }
}

/// Writes the canvas row by row, so that every element is written once, in order.
fn scatter(
    context: Context,
    grid: PillarGrid,
    channels: usize,
    cells: &[i32],
    features: &[f32],
    canvas: &mut [f32],
) {
    let mut starts = vec![0_usize; grid.rows + 1];
    for cell in cells {
        starts[*cell as usize / grid.columns + 1] += 1;
    }
    for row in 0..grid.rows {
        starts[row + 1] += starts[row];
    }
    let mut next = starts.clone();
    let mut by_row = vec![(0_usize, 0_usize); cells.len()];
    for (pillar, cell) in cells.iter().enumerate() {
        let (row, column) = (*cell as usize / grid.columns, *cell as usize % grid.columns);
        by_row[next[row]] = (pillar, column);
        next[row] += 1;
    }
    let plane = grid.rows * grid.columns;
    let canvas = DisjointSlice::new(canvas);
    context.threads.parallel_for(grid.rows, 1, &|rows| {
        for row in rows {
            let pillars = &by_row[starts[row]..starts[row + 1]];
            for channel in 0..channels {
                let first = channel * plane + row * grid.columns;
                // SAFETY: rows do not overlap.
                let out = unsafe { canvas.slice_mut(first..first + grid.columns) };
                out.fill(0.0);
                for (pillar, column) in pillars {
                    out[*column] = features[pillar * channels + channel];
                }
            }
        }
    });
}
