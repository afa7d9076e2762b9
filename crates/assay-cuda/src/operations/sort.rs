//! Radix sort of rows: in shared memory where a CTA holds them, else by Onesweep passes.

use super::call::Call;
use super::define::Define;
use super::grid::grid_1d;
use super::scan::{Scan, address};
use assay_operations::ElementFormat;
use assay_runtime::backend::{KernelArgument, Result};

/// Rows of at most so many elements are sorted several to a CTA.
const MAX_SHARED_ROW: u64 = 512;
/// Look-back status words have 30 bits for counts.
const MAX_LENGTH: u64 = 1 << 30;
/// CTAs that fill a large GPU.
const FULL_GRID_CTAS: u64 = 1024;
/// Values of an 8-bit digit.
const DIGITS: u64 = 256;

/// How the bits of a format are ordered: whether it is a signed integer, and a float's infinity.
fn key_order(format: ElementFormat) -> Option<(bool, u64)> {
    Some(match format {
        ElementFormat::F16 => (false, 0x7c00),
        ElementFormat::Bf16 => (false, 0x7f80),
        ElementFormat::F32 => (false, 0x7f80_0000),
        ElementFormat::F64 => (false, 0x7ff0_0000_0000_0000),
        ElementFormat::I8 | ElementFormat::I16 | ElementFormat::I32 | ElementFormat::I64 => {
            (true, 0)
        }
        ElementFormat::Bool
        | ElementFormat::U8
        | ElementFormat::U16
        | ElementFormat::U32
        | ElementFormat::U64 => (false, 0),
        _ => return None,
    })
}

/// The tiling of a sort.
struct SortShape {
    threads: u64,
    items_per_thread: u64,
    rows_per_cta: u64,
    /// Tiles of a row, a CTA each.
    tiles: u64,
}

impl SortShape {
    /// A CTA holds at most 32 KiB of elements. There are few sizes, since each compiles a kernel.
    fn of(rows: u64, length: u64, bytes: u64) -> Self {
        let shares_cta = length <= MAX_SHARED_ROW;
        let elements = if shares_cta { rows * length } else { length };
        let (threads, items_per_thread) = match elements {
            0..=1024 => (256, 4),
            1025..=2048 => (256, 8),
            // More elements in a thread leave room for fewer threads.
            4097..=8192 if bytes < 8 && !shares_cta => (512, 16),
            _ => (512, 8),
        };
        let tile = threads * items_per_thread;
        let max_rows = if shares_cta { tile / length } else { 1 };
        SortShape {
            threads,
            items_per_thread,
            rows_per_cta: max_rows.min(DIGITS).min(rows),
            tiles: length.div_ceil(tile),
        }
    }
}

/// A call, read and checked; addresses, 0 where absent.
struct SortCall {
    rows: u64,
    length: u64,
    bytes: u64,
    from: u64,
    /// The sorted elements.
    values: u64,
    /// The indices that sort them.
    indices: u64,
    /// XORed with digits to sort in descending order.
    flip: u32,
}

pub(super) fn sort(call: &Call<'_>) -> Result<()> {
    let (rows, length) = (call.count("rows")?, call.size("length")?);
    let x = call.operand("x", &[rows, length])?;
    let values = call.optional_typed("values", x.format, &[rows, length])?;
    let indices = call.optional_typed("indices", ElementFormat::I64, &[rows, length])?;
    let (Some((signed, infinity)), Some(bytes)) = (key_order(x.format), x.format.element_bytes())
    else {
        return Err(call.error("x of real numbers", x.format));
    };
    let descending = call.integer("descending")? != 0;
    if rows * length == 0 {
        return Ok(());
    }
    if length >= MAX_LENGTH {
        return Err(call.error("rows of fewer than 2**30 elements", length));
    }
    let shape = SortShape::of(rows, length, bytes);
    if rows.saturating_mul(shape.tiles) > i32::MAX as u64 {
        return Err(call.error("fewer rows", rows));
    }
    let sort_call = SortCall {
        rows,
        length,
        bytes,
        from: x.pointer.0,
        values: values.map_or(0, |values| values.pointer.0),
        indices: indices.map_or(0, |indices| indices.pointer.0),
        flip: if descending { 255 } else { 0 },
    };
    let key = ["u8", "u16", "u32", "u64"][bytes.ilog2() as usize];
    let defines: [Define; 6] = [
        ("KEY", key.into()),
        ("SIGNED", signed.into()),
        ("INFINITY_BITS", infinity.into()),
        ("WITH_INDICES", (indices.is_some() || shape.rows_per_cta > 1).into()),
        ("THREADS", shape.threads.into()),
        ("ITEMS_PER_THREAD", shape.items_per_thread.into()),
    ];
    match shape.tiles {
        1 => sort_call.sort_rows(call, &defines, &shape),
        _ => sort_call.radix_sort(call, &defines, &shape),
    }
}

impl SortCall {
    fn sort_rows(&self, call: &Call<'_>, defines: &[Define], shape: &SortShape) -> Result<()> {
        let kernel = call.entry("sort", "sort_rows", defines)?;
        let arguments = [
            address(self.from),
            address(self.values),
            address(self.indices),
            KernelArgument::U64(self.rows),
            KernelArgument::U32(self.length as u32),
            KernelArgument::U32(self.flip),
            KernelArgument::U32(shape.rows_per_cta as u32),
        ];
        let ctas = self.rows.div_ceil(shape.rows_per_cta);
        call.queue.launch(&kernel, grid_1d(ctas, shape.threads), &arguments)
    }

    fn radix_sort(&self, call: &Call<'_>, defines: &[Define], shape: &SortShape) -> Result<()> {
        let (ctas, total) = (self.rows * shape.tiles, self.rows * self.length);
        let scratch = |purpose, bytes| -> Result<u64> { Ok(call.scratch(purpose, bytes)?.0) };
        let zeros = |purpose, count: u64| -> Result<u64> {
            let pointer = call.scratch(purpose, count * 4)?;
            call.queue.fill(pointer, 0, count * 4)?;
            Ok(pointer.0)
        };
        let launch = |name, ctas, pointers: &[u64], integers: &[u32]| {
            let kernel = call.entry("sort", name, defines)?;
            let pointers = pointers.iter().copied().map(address);
            let sizes = [self.length as u32, self.flip];
            let integers = sizes.iter().chain(integers).copied();
            let arguments: Vec<_> = pointers.chain(integers.map(KernelArgument::U32)).collect();
            call.queue.launch(&kernel, grid_1d(ctas, shape.threads), &arguments)
        };
        // The histograms of all digits, then their exclusive prefix sums.
        let counts = zeros("sort counts", self.rows * self.bytes * DIGITS)?;
        let ctas_per_row = FULL_GRID_CTAS.div_ceil(self.rows).min(shape.tiles);
        launch(
            "sort_count",
            self.rows * ctas_per_row,
            &[self.from, counts],
            &[ctas_per_row as u32],
        )?;
        let starts = Scan {
            types: ["u32"; 3],
            bytes: [4; 2],
            combine: "add",
            exclusive: true,
            rows: self.rows * self.bytes,
            length: DIGITS,
        };
        starts.launch(call, counts, counts)?;
        // Passes alternate between two buffers; the last one writes the result.
        let key_buffers = [
            scratch("sort keys", total * self.bytes)?,
            match self.values {
                0 => scratch("sort other keys", total * self.bytes)?,
                values => values,
            },
        ];
        let index_buffers = match self.indices {
            0 => [0, 0],
            _ => [scratch("sort indices", total * 4)?, scratch("sort other indices", total * 4)?],
        };
        let [mut from, mut from_indices] = [self.from, 0];
        for pass in 0..self.bytes {
            let buffer = ((self.bytes - pass) % 2) as usize;
            let look_back = zeros("sort look-back", ctas * DIGITS + 1)?;
            let [values, indices, output_indices] = match pass + 1 == self.bytes {
                true => [self.values, 0, self.indices],
                false => [key_buffers[buffer], index_buffers[buffer], 0],
            };
            let pointers = [from, from_indices, counts, look_back, values, indices, output_indices];
            let digit_arguments = [shape.tiles as u32, 8 * pass as u32];
            launch("sort_move", ctas, &pointers, &digit_arguments)?;
            [from, from_indices] = [key_buffers[buffer], index_buffers[buffer]];
        }
        Ok(())
    }
}
