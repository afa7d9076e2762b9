//! Fourier transforms of rows.

use super::call::{Call, int};
use super::define::Define;
use super::fourier_plan::{RowTile, factors, padded};
use super::grid::grid_2d;
use crate::device::LaunchConfig;
use assay_operations::{ElementFormat::F32, FourierKind};
use assay_runtime::backend::{DevicePointer, KernelArgument, Result};

/// Elements of a CTA: of contiguous rows, and of rows across memory, of which several are neighbors.
const ROW_ELEMENTS: u64 = 4096;
const STRIDED_ELEMENTS: u64 = 8192;
const MAX_ROWS: u64 = 32;
const MAX_STRIDED_ROWS: u64 = 16;
/// Neighboring rows whose elements fill a sector of memory, 32 bytes.
const SECTOR_ROWS: u64 = 4;
/// Elements that are in scratch memory at a time, if a row is not longer.
const SCRATCH_ELEMENTS: u64 = 1 << 24;
/// The most CTAs along y.
const MAX_GRID_Y: u64 = 65_535;
const COMPLEX_BYTES: u64 = 8;
const STEP_THREADS: u64 = 256;

/// How rows are stored; the discriminants are those of `Form` in fourier.cu.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Complex = 0,
    Real = 1,
    Half = 2,
    RealPair = 3,
    HalfPair = 4,
}

impl Form {
    /// Two rows as one, where they are contiguous and real on one side.
    fn paired(self) -> Form {
        match self {
            Form::Real => Form::RealPair,
            Form::Half => Form::HalfPair,
            other => other,
        }
    }

    /// Elements of a row, and bytes of each.
    fn extent(self, length: u64) -> (u64, u64) {
        match self {
            Form::Real | Form::RealPair => (length, 4),
            Form::Half | Form::HalfPair => (length / 2 + 1, COMPLEX_BYTES),
            Form::Complex => (length, COMPLEX_BYTES),
        }
    }
}

/// Rows to transform.
#[derive(Clone, Copy)]
pub(super) struct Rows {
    pub count: u64,
    pub length: u64,
    pub scale: f32,
    load: Form,
    store: Form,
    /// With positive exponents.
    inverse: bool,
}

impl Rows {
    /// Real rows to the first halves of their spectra.
    pub fn real(count: u64, length: u64) -> Self {
        Rows { count, length, scale: 1.0, load: Form::Real, store: Form::Half, inverse: false }
    }

    fn complex(count: u64, length: u64) -> Self {
        Rows { load: Form::Complex, store: Form::Complex, ..Self::real(count, length) }
    }
}

/// The part of a transform that one launch computes.
struct Pass {
    tile: RowTile,
    load: Form,
    store: Form,
    swap: [bool; 2],
    /// 1: neighboring threads load elements of neighboring transforms; 2: they store them too.
    across: u64,
    rotate: bool,
    /// Transforms of a row, or rows, of which `batch` are beside each other.
    count: u64,
    batch: u64,
    total: u64,
    in_strides: [u64; 3],
    out_strides: [u64; 3],
    scale: f32,
}

impl Pass {
    fn launch(&self, call: &Call<'_>, x: DevicePointer, out: DevicePointer) -> Result<()> {
        let tile = self.tile;
        let defines: [Define; 11] = [
            ("CTAS_PER_SM", tile.ctas_per_sm(shared_limit(call)).into()),
            ("LENGTH", tile.length.into()),
            ("RADICES", tile.radices.into()),
            ("TRANSFORMS", tile.transforms.into()),
            ("THREADS", tile.threads.into()),
            ("LOAD", (self.load as u64).into()),
            ("STORE", (self.store as u64).into()),
            ("SWAP_LOAD", self.swap[0].into()),
            ("SWAP_STORE", self.swap[1].into()),
            ("ACROSS", self.across.into()),
            ("ROTATE", self.rotate.into()),
        ];
        let function = call.function("fourier", &defines)?;
        let mut arguments = vec![KernelArgument::Pointer(x), KernelArgument::Pointer(out)];
        arguments.extend([int(self.count), int(self.total)]);
        for [batch, transform, element] in [self.in_strides, self.out_strides] {
            arguments.push(KernelArgument::I64(batch.cast_signed()));
            arguments.extend([int(transform), int(element)]);
        }
        arguments.push(KernelArgument::F32(self.scale));
        let is_pair = matches!(self.load, Form::RealPair | Form::HalfPair);
        let transforms = if is_pair { self.count.div_ceil(2) } else { self.count };
        let ctas = resident_ctas(call, &tile, transforms.div_ceil(tile.transforms));
        let config = LaunchConfig {
            grid: [ctas as u32, self.batch as u32, 1],
            block: [tile.threads as u32, 1, 1],
            shared_bytes: tile.shared_bytes as u32,
            cluster: 1,
            prefers_l1: false,
        };
        call.queue.launch(&function, config, &arguments)
    }
}

/// The shared memory of a CTA that transforms rows.
pub(super) fn shared_limit(call: &Call<'_>) -> u64 {
    u64::from(call.queue.device().facts().shared_bytes)
}

/// CTAs that take so many tiles of rows in turns.
pub(super) fn resident_ctas(call: &Call<'_>, tile: &RowTile, tiles: u64) -> u64 {
    let multiprocessors = u64::from(call.queue.device().facts().multiprocessors);
    tile.ctas(tiles, multiprocessors, shared_limit(call))
}

fn offset(pointer: DevicePointer, elements: u64, bytes: u64) -> DevicePointer {
    DevicePointer(pointer.0 + elements * bytes)
}

/// Transforms rows that follow each other in memory.
pub(super) fn transform_rows(
    call: &Call<'_>,
    rows: Rows,
    x: DevicePointer,
    out: DevicePointer,
) -> Result<()> {
    let Rows { count, length, .. } = rows;
    let pairs = if rows.load == Form::Complex { count } else { count.div_ceil(2) };
    let most = pairs.min(MAX_ROWS);
    if let Some(tile) = RowTile::new(length, ROW_ELEMENTS, most, shared_limit(call)) {
        let pass = Pass {
            tile,
            load: rows.load.paired(),
            store: rows.store.paired(),
            swap: [rows.inverse; 2],
            across: 0,
            rotate: false,
            count,
            batch: 1,
            total: length,
            in_strides: [0, length, 1],
            out_strides: [0, length, 1],
            scale: rows.scale,
        };
        return pass.launch(call, x, out);
    }
    if factors(length).is_none() && factors(padded(length)).is_none() && padded(length) > 8192 {
        let expected = "a length of at most 2**25, or of small factors up to 2**26";
        return Err(call.error(expected, length));
    }
    let work = if factors(length).is_some() { length } else { padded(length) };
    let each = (SCRATCH_ELEMENTS / work).clamp(1, MAX_GRID_Y);
    let ((in_row, in_bytes), (out_row, out_bytes)) =
        (rows.load.extent(length), rows.store.extent(length));
    for first in (0..count).step_by(each as usize) {
        let some = Rows { count: each.min(count - first), ..rows };
        let (x, out) =
            (offset(x, first * in_row, in_bytes), offset(out, first * out_row, out_bytes));
        match factors(length) {
            Some(_) => two_passes(call, some, x, out)?,
            None => chirp(call, some, x, out)?,
        }
    }
    Ok(())
}

/// Long rows: transforms across each row, then along it (Bailey's four steps).
fn two_passes(call: &Call<'_>, rows: Rows, x: DevicePointer, out: DevicePointer) -> Result<()> {
    let Rows { count, length, .. } = rows;
    let limit = shared_limit(call);
    let tile = |length| {
        let elements = STRIDED_ELEMENTS.max(SECTOR_ROWS * length);
        RowTile::new(length, elements, MAX_STRIDED_ROWS, limit)
    };
    let tiles = factors(length).and_then(|(first, second)| Some((tile(first)?, tile(second)?)));
    let Some((first, second)) = tiles else {
        return Err(call.error("a length whose factors fit shared memory", length));
    };
    let between = call.scratch("fourier passes", count * length * COMPLEX_BYTES)?;
    let (in_row, _) = rows.load.extent(length);
    let (out_row, _) = rows.store.extent(length);
    let across = Pass {
        tile: first,
        load: rows.load,
        store: Form::Complex,
        swap: [rows.inverse, false],
        across: 1,
        rotate: true,
        count: second.length,
        batch: count,
        total: length,
        in_strides: [in_row, 1, second.length],
        out_strides: [length, first.length, 1],
        scale: 1.0,
    };
    across.launch(call, x, between)?;
    let along = Pass {
        tile: second,
        load: Form::Complex,
        store: rows.store,
        swap: [false, rows.inverse],
        across: 2,
        rotate: false,
        count: first.length,
        in_strides: [length, 1, first.length],
        out_strides: [out_row, 1, first.length],
        scale: rows.scale,
        ..across
    };
    along.launch(call, between, out)
}

/// Rows of any length, by convolution with a chirp (Bluestein's algorithm).
fn chirp(call: &Call<'_>, rows: Rows, x: DevicePointer, out: DevicePointer) -> Result<()> {
    let Rows { count, length, .. } = rows;
    let padded = padded(length);
    let work = call.scratch("chirp rows", count * padded * COMPLEX_BYTES)?;
    let filter = call.scratch("chirp filter", padded * COMPLEX_BYTES)?;
    let step =
        |part: u64, elements: u64, rows_of_step: u64, from: DevicePointer, to, scale: f32| {
            let form = |form: Form| (form as u64).into();
            let defines: [Define; 4] = [
                ("PART", part.into()),
                ("LOAD", form(rows.load)),
                ("STORE", form(rows.store)),
                ("SWAP", rows.inverse.into()),
            ];
            let function = call.entry("chirp", "chirp_step", &defines)?;
            let arguments = [
                KernelArgument::Pointer(from),
                KernelArgument::Pointer(filter),
                KernelArgument::Pointer(to),
                int(length),
                int(padded),
                KernelArgument::F32(scale),
            ];
            let config = grid_2d(elements.div_ceil(STEP_THREADS), rows_of_step, STEP_THREADS);
            call.queue.launch(&function, config, &arguments)
        };
    step(0, padded, 1, x, filter, 1.0)?;
    transform_rows(call, Rows::complex(1, padded), filter, filter)?;
    step(1, padded, count, x, work, 1.0)?;
    transform_rows(call, Rows::complex(count, padded), work, work)?;
    step(2, padded, count, work, work, 1.0)?;
    transform_rows(call, Rows::complex(count, padded), work, work)?;
    let (columns, _) = rows.store.extent(length);
    step(3, columns, count, work, out, rows.scale / padded as f32)
}

pub(super) fn fourier(call: &Call<'_>) -> Result<()> {
    let (count, length) = (call.size("rows")?, call.size("length")?);
    let (load, store, inverse) = match call.chosen("kind", &FourierKind::ALL)? {
        FourierKind::Complex => (Form::Complex, Form::Complex, false),
        FourierKind::Inverse => (Form::Complex, Form::Complex, true),
        FourierKind::RealToComplex => (Form::Real, Form::Half, false),
        FourierKind::ComplexToReal => (Form::Half, Form::Real, true),
    };
    let floats = |form: Form| {
        let (elements, bytes) = form.extent(length);
        [count, elements, bytes / 4]
    };
    let x = call.typed("x", F32, &floats(load))?;
    let out = call.typed("out", F32, &floats(store))?;
    if count * length == 0 {
        return Ok(());
    }
    let rows = Rows { count, length, scale: call.float("scale")?, load, store, inverse };
    transform_rows(call, rows, x.pointer, out.pointer)
}
