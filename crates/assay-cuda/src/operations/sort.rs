//! Sorting rows: in shared memory where a block holds them, else by one byte of the elements after
//! the other.

use super::call::Call;
use super::rows::line;
use super::scan::{Scan, pointer};
use super::tools::{Setting, Tools};
use crate::device::Queue;
use assay_operations::ElementFormat;
use assay_runtime::backend::{KernelArgument, Result};

/// Rows of at most so many elements are sorted several in a block.
const SHORT: u64 = 512;
/// Longer ones cannot be counted in the bits that spans tell each other of themselves.
const LONGEST: u64 = 1 << 30;
/// Blocks that keep every processor of a large GPU busy.
const ENOUGH_BLOCKS: u64 = 1024;
/// Values of the digits that are sorted by.
const DIGITS: u64 = 256;

/// How the bits of a format are ordered: whether the first is a sign, and the bits of infinity.
fn order(format: ElementFormat) -> Option<(bool, u64)> {
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

/// How rows are shared out to blocks.
struct Shares {
    threads: u64,
    /// Elements of a thread.
    each: u64,
    /// Rows of a block.
    together: u64,
    /// Blocks of a row.
    spans: u64,
}

impl Shares {
    /// A block holds at most 32 KiB of elements. There are few sizes, since each is a kernel.
    fn of(rows: u64, length: u64, bytes: u64) -> Self {
        let short = length <= SHORT;
        let held = if short { rows * length } else { length };
        let (threads, each) = match held {
            0..=1024 => (256, 4),
            1025..=2048 => (256, 8),
            // More elements in a thread leave room for fewer threads.
            4097..=8192 if bytes < 8 && !short => (512, 16),
            _ => (512, 8),
        };
        let span = threads * each;
        let most = if short { span / length } else { 1 };
        Shares {
            threads,
            each,
            together: most.min(DIGITS).min(rows),
            spans: length.div_ceil(span),
        }
    }
}

/// Rows, and where they go.
struct Sorting {
    rows: u64,
    length: u64,
    bytes: u64,
    from: u64,
    /// Where the elements are wanted; 0: nowhere.
    values: u64,
    /// Where their places are wanted.
    places: u64,
    /// What turns digits around to sort from the largest on.
    flip: u32,
}

pub(super) fn sort(tools: &Tools, queue: &Queue<'_>, call: &Call<'_>) -> Result<()> {
    let (rows, length) = (call.count("rows")?, call.size("length")?);
    let x = call.operand("x", &[rows, length])?;
    let values = call.optional_of("values", x.format, &[rows, length])?;
    let places = call.optional_of("indices", ElementFormat::I64, &[rows, length])?;
    let (Some((signed, infinite)), Some(bytes)) = (order(x.format), x.format.element_bytes())
    else {
        return Err(call.error("x of real numbers", x.format));
    };
    let descending = call.integer("descending")? != 0;
    if rows * length == 0 {
        return Ok(());
    }
    if length >= LONGEST {
        return Err(call.error("rows of fewer than 2**30 elements", length));
    }
    let shares = Shares::of(rows, length, bytes);
    if rows.saturating_mul(shares.spans) > i32::MAX as u64 {
        return Err(call.error("fewer rows", rows));
    }
    let sorting = Sorting {
        rows,
        length,
        bytes,
        from: x.pointer.0,
        values: values.map_or(0, |values| values.pointer.0),
        places: places.map_or(0, |places| places.pointer.0),
        flip: if descending { 255 } else { 0 },
    };
    let bits = ["u8", "u16", "u32", "u64"][bytes.ilog2() as usize];
    let settings: [Setting; 6] = [
        ("BITS", bits.into()),
        ("SIGNED", signed.into()),
        ("INFINITE", infinite.into()),
        ("PLACES", (places.is_some() || shares.together > 1).into()),
        ("THREADS", shares.threads.into()),
        ("EACH", shares.each.into()),
    ];
    match shares.spans {
        1 => sorting.in_blocks(tools, queue, &settings, &shares),
        _ => sorting.by_digits(tools, queue, &settings, &shares),
    }
}

impl Sorting {
    fn in_blocks(
        &self,
        tools: &Tools,
        queue: &Queue<'_>,
        settings: &[Setting],
        shares: &Shares,
    ) -> Result<()> {
        let kernel = tools.entry(queue, "sort", "sort_rows", settings)?;
        let arguments = [
            pointer(self.from),
            pointer(self.values),
            pointer(self.places),
            KernelArgument::U64(self.rows),
            KernelArgument::U32(self.length as u32),
            KernelArgument::U32(self.flip),
            KernelArgument::U32(shares.together as u32),
        ];
        let blocks = self.rows.div_ceil(shares.together);
        queue.launch(&kernel, line(blocks, shares.threads), &arguments)
    }

    fn by_digits(
        &self,
        tools: &Tools,
        queue: &Queue<'_>,
        settings: &[Setting],
        shares: &Shares,
    ) -> Result<()> {
        let (blocks, total) = (self.rows * shares.spans, self.rows * self.length);
        let scratch =
            |purpose, bytes| -> Result<u64> { Ok(tools.scratch(queue, purpose, bytes)?.0) };
        let zeros = |purpose, count: u64| -> Result<u64> {
            let pointer = tools.scratch(queue, purpose, count * 4)?;
            queue.fill(pointer, 0, count * 4)?;
            Ok(pointer.0)
        };
        let launch = |name, blocks, pointers: &[u64], numbers: &[u32]| {
            let kernel = tools.entry(queue, "sort", name, settings)?;
            let pointers = pointers.iter().copied().map(pointer);
            let sizes = [self.length as u32, self.flip];
            let numbers = sizes.iter().chain(numbers).copied();
            let arguments: Vec<_> = pointers.chain(numbers.map(KernelArgument::U32)).collect();
            queue.launch(&kernel, line(blocks, shares.threads), &arguments)
        };
        // Where each value of each digit begins.
        let counts = zeros("sort counts", self.rows * self.bytes * DIGITS)?;
        let parts = ENOUGH_BLOCKS.div_ceil(self.rows).min(shares.spans);
        launch(
            "sort_count",
            self.rows * parts,
            &[self.from, counts],
            &[parts as u32],
        )?;
        let starts = Scan {
            types: ["u32"; 3],
            bytes: [4; 2],
            join: "add",
            exclusive: true,
            rows: self.rows * self.bytes,
            length: DIGITS,
        };
        starts.launch(tools, queue, counts, counts)?;
        // Elements go back and forth between two places, and in the end to where they are wanted.
        let keys = [
            scratch("sort keys", total * self.bytes)?,
            match self.values {
                0 => scratch("sort other keys", total * self.bytes)?,
                values => values,
            },
        ];
        let carried = match self.places {
            0 => [0, 0],
            _ => [
                scratch("sort places", total * 4)?,
                scratch("sort other places", total * 4)?,
            ],
        };
        let [mut from, mut from_places] = [self.from, 0];
        for pass in 0..self.bytes {
            let side = ((self.bytes - pass) % 2) as usize;
            let told = zeros("sort told", blocks * DIGITS + 1)?;
            let [values, places, numbers] = match pass + 1 == self.bytes {
                true => [self.values, 0, self.places],
                false => [keys[side], carried[side], 0],
            };
            let pointers = [from, from_places, counts, told, values, places, numbers];
            let which = [shares.spans as u32, 8 * pass as u32];
            launch("sort_move", blocks, &pointers, &which)?;
            [from, from_places] = [keys[side], carried[side]];
        }
        Ok(())
    }
}
