//! The product of two matrices of `f32`.
//!
//! Blocks of both are packed so that the innermost tile reads them in order, from caches of
//! falling size: the arrangement of Goto and van de Geijn (2008), "Anatomy of high-performance
//! matrix multiplication".

use super::Context;
use super::element::Element;
use super::matmul_thin::{FEW_ROWS, thin};
use super::matmul_tiles::multiply_on_tiles;
use super::microkernel::{Target, store_tile, tile};
use super::packing::pack_rows;
use crate::aligned::Aligned;
use crate::error::{Result, check_length, check_value};
use crate::simd::{Kernel, LANES, Level, Vector};
use crate::threads::Disjoint;
use std::cell::RefCell;
use std::ops::Range;

/// How much of the inner dimension is packed at a time: long, so that the output is touched seldom.
const DEPTH: usize = 512;
/// Rows of the left matrix packed at a time.
const HEIGHT: usize = 4096;
/// Columns of the right matrix packed at a time: many, so that the left one is packed seldom.
const WIDTH: usize = 4096;
/// Rows and columns of the piece a thread takes at a time; the left matrix's part of it stays close.
const PIECE_ROWS: usize = 48;
const PIECE_COLUMNS: usize = 512;

/// A matrix in memory, at any strides.
#[derive(Clone, Copy, Debug)]
pub struct Matrix<'a, T = f32> {
    /// The numbers, from the first element on.
    pub data: &'a [T],
    /// How many rows.
    pub rows: usize,
    /// How many columns.
    pub columns: usize,
    /// Distance from one row to the next.
    pub row_stride: usize,
    /// Distance from one column to the next.
    pub column_stride: usize,
}

impl<'a, T> Matrix<'a, T> {
    /// A matrix stored row by row without gaps.
    pub fn new(data: &'a [T], rows: usize, columns: usize) -> Self {
        Matrix {
            data,
            rows,
            columns,
            row_stride: columns,
            column_stride: 1,
        }
    }

    /// The same numbers with rows and columns exchanged.
    pub fn transposed(self) -> Self {
        Matrix {
            data: self.data,
            rows: self.columns,
            columns: self.rows,
            row_stride: self.column_stride,
            column_stride: self.row_stride,
        }
    }

    pub(super) fn offset(&self, row: usize, column: usize) -> usize {
        row * self.row_stride + column * self.column_stride
    }

    fn check(&self, argument: &'static str) -> Result<()> {
        let reach = |extent: usize, stride: usize| (extent.max(1) - 1).checked_mul(stride);
        let last = reach(self.rows, self.row_stride)
            .zip(reach(self.columns, self.column_stride))
            .and_then(|(down, across)| down.checked_add(across));
        let empty = self.rows == 0 || self.columns == 0;
        check_value(
            "matmul",
            argument,
            empty || last.is_some_and(|last| last < self.data.len()),
            format_args!("strides within {} elements", self.data.len()),
            format_args!(
                "{} x {} at strides {} and {}",
                self.rows, self.columns, self.row_stride, self.column_stride
            ),
        )
    }
}

thread_local! {
    /// Packed blocks of the left and the right matrix, kept from call to call.
    static PACKED: RefCell<[Aligned; 2]> = RefCell::default();
}

/// Writes the product of `a` and `b` to `out`, row by row without gaps.
///
/// ```
/// use assay_cpu::ops::{Context, Matrix, matmul};
/// let (a, b) = ([1.0, 2.0, 3.0, 4.0], [5.0, 6.0]);
/// let mut out = [0.0; 2];
/// matmul(Context::best(), Matrix::new(&a, 2, 2), Matrix::new(&b, 2, 1), &mut out)?;
/// assert_eq!(out, [17.0, 39.0]);
/// # Ok::<(), assay_cpu::error::OpError>(())
/// ```
pub fn matmul<A: Element, B: Element>(
    context: Context,
    a: Matrix<A>,
    b: Matrix<B>,
    out: &mut [f32],
) -> Result<()> {
    a.check("a")?;
    b.check("b")?;
    check_value(
        "matmul",
        "b",
        a.columns == b.rows,
        format_args!("{} rows, as a has columns", a.columns),
        format_args!("{} rows", b.rows),
    )?;
    check_length("matmul", "out", out.len(), &[a.rows, b.columns])?;
    if a.columns == 0 {
        out.fill(0.0);
    }
    if multiply_on_tiles(context, &a, &b, out) {
        return Ok(());
    }
    let tile = Tile::of(context.level);
    match a.rows < FEW_ROWS {
        true => thin(context, tile, &a, &b, out),
        false => blocks(context, tile, &a, &b, out),
    }
    Ok(())
}

/// The tile that fills a level's registers.
#[derive(Clone, Copy)]
pub(super) enum Tile {
    /// 12 rows by 32 columns.
    Large,
    /// 6 rows by 16 columns.
    Middle,
    /// 2 rows by 16 columns.
    Small,
}

impl Tile {
    fn of(level: Level) -> Self {
        match level.name() {
            "avx512" | "avx512+amx" => Tile::Large,
            "portable" => Tile::Small,
            _ => Tile::Middle,
        }
    }

    pub fn rows(self) -> usize {
        match self {
            Tile::Large => 12,
            Tile::Middle => 6,
            Tile::Small => 2,
        }
    }

    pub fn columns(self) -> usize {
        match self {
            Tile::Large => 2 * LANES,
            Tile::Middle | Tile::Small => LANES,
        }
    }
}

pub(super) fn pieces(range: Range<usize>, length: usize) -> impl Iterator<Item = Range<usize>> {
    let end = range.end;
    range
        .step_by(length)
        .map(move |start| start..(start + length).min(end))
}

fn blocks<A: Element, B: Element>(
    context: Context,
    tile: Tile,
    a: &Matrix<A>,
    b: &Matrix<B>,
    out: &mut [f32],
) {
    let (stride, right) = (b.columns, b.transposed());
    let (panel, right_panel) = (tile.rows(), tile.columns());
    let out = Disjoint::new(out);
    PACKED.with_borrow_mut(|[packed_a, packed_b]| {
        for columns in pieces(0..b.columns, WIDTH) {
            for depth in pieces(0..a.columns, DEPTH) {
                let length = columns.len().next_multiple_of(right_panel) * depth.len();
                let packed_b = packed_b.floats(length);
                pack(context, &right, right_panel, &columns, &depth, packed_b);
                for rows in pieces(0..a.rows, HEIGHT) {
                    let length = rows.len().next_multiple_of(panel) * depth.len();
                    let packed_a = packed_a.floats(length);
                    pack(context, a, panel, &rows, &depth, packed_a);
                    let block = Block {
                        tile,
                        a: packed_a,
                        b: packed_b,
                        depth: depth.len(),
                        rows: rows.len(),
                        columns: columns.len(),
                        first: rows.start * stride + columns.start,
                        stride,
                        add: depth.start > 0,
                    };
                    block.multiply(context, &out);
                }
            }
        }
    });
}

/// Packs on all threads, some panels each.
pub(super) fn pack<T: Element>(
    context: Context,
    matrix: &Matrix<T>,
    panel: usize,
    rows: &Range<usize>,
    columns: &Range<usize>,
    out: &mut [f32],
) {
    let size = panel * columns.len();
    let out = Disjoint::new(out);
    // A thread is worth waking for some tens of thousands of numbers.
    let least = (1_usize << 15).div_ceil(size);
    context
        .threads
        .ranges(rows.len().div_ceil(panel), least, &|taken| {
            // SAFETY: ranges of panels do not overlap.
            let out = unsafe { out.part(taken.start * size..taken.end * size) };
            let end = (rows.start + taken.end * panel).min(rows.end);
            let rows = rows.start + taken.start * panel..end;
            match panel {
                2 => pack_rows::<T, 2>(matrix, rows, columns.clone(), out),
                6 => pack_rows::<T, 6>(matrix, rows, columns.clone(), out),
                12 => pack_rows::<T, 12>(matrix, rows, columns.clone(), out),
                16 => pack_rows::<T, 16>(matrix, rows, columns.clone(), out),
                _ => pack_rows::<T, 32>(matrix, rows, columns.clone(), out),
            }
        });
}

/// Packed blocks of both matrices, and the part of the output they give.
struct Block<'a> {
    tile: Tile,
    a: &'a [f32],
    b: &'a [f32],
    depth: usize,
    rows: usize,
    columns: usize,
    first: usize,
    stride: usize,
    add: bool,
}

impl Block<'_> {
    fn multiply(&self, context: Context, out: &Disjoint<f32>) {
        // A multiple of every tile's rows, as `PIECE_COLUMNS` is of their columns.
        let (down, across) = (
            self.rows.div_ceil(PIECE_ROWS),
            self.columns.div_ceil(PIECE_COLUMNS),
        );
        context.threads.run(down * across, &|part| {
            let (row, column) = (part % down * PIECE_ROWS, part / down * PIECE_COLUMNS);
            context.level.run(Piece {
                block: self,
                rows: row..(row + PIECE_ROWS).min(self.rows),
                columns: column..(column + PIECE_COLUMNS).min(self.columns),
                out,
            });
        });
    }
}

/// What one thread multiplies at a time.
struct Piece<'a> {
    block: &'a Block<'a>,
    rows: Range<usize>,
    columns: Range<usize>,
    out: &'a Disjoint<'a, f32>,
}

impl Kernel for Piece<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vector>(self, v: V) {
        match self.block.tile {
            Tile::Large => self.tiles::<V, 12, 2>(v),
            Tile::Middle => self.tiles::<V, 6, 1>(v),
            Tile::Small => self.tiles::<V, 2, 1>(v),
        }
    }
}

impl Piece<'_> {
    #[inline(always)]
    fn tiles<V: Vector, const ROWS: usize, const WIDE: usize>(&self, v: V) {
        let block = self.block;
        for column in self.columns.clone().step_by(WIDE * LANES) {
            let b = &block.b[column * block.depth..][..WIDE * LANES * block.depth];
            for row in self.rows.clone().step_by(ROWS) {
                let a = &block.a[row * block.depth..][..ROWS * block.depth];
                let target = Target {
                    first: block.first + row * block.stride + column,
                    stride: block.stride,
                    rows: ROWS.min(self.rows.end - row),
                    columns: (WIDE * LANES).min(self.columns.end - column),
                    add: block.add,
                };
                target.prefetch(self.out);
                let sums = tile::<V, ROWS, WIDE>(v, a, b);
                // SAFETY: pieces do not overlap, and neither do tiles of a piece.
                unsafe { store_tile(v, &sums, self.out, target) };
            }
        }
    }
}
