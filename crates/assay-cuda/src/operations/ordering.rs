//! Running joins and sorting.

use super::call::Call;
use super::elementwise::{computed_type, element_type};
use super::rows::line;
use super::tools::{Setting, Tools};
use crate::device::Queue;
use assay_core::backend::{DevicePointer, KernelArgument, Result};
use assay_core::operations::ElementFormat;

const THREADS: u64 = 256;
/// A single row longer than this is scanned in pieces of this many elements.
const SCANNED: u64 = 8192;
/// Elements that a thread scans at once.
const SCANNED_EACH: u64 = 8;
/// Rows of at most so many elements are sorted several in a block.
const SHORT: u64 = 512;
/// Values of the digits that are sorted by.
const DIGITS: u64 = 256;

fn pointer(place: u64) -> KernelArgument {
    KernelArgument::Pointer(DevicePointer(place))
}

/// Rows of numbers, and what is to become of them.
pub(super) struct Scan {
    /// The names of the types that elements come in, are joined in and go out in.
    pub types: [&'static str; 3],
    /// How many bytes the elements have that come in and go out.
    pub bytes: [u64; 2],
    pub join: &'static str,
    /// Whether the element itself is left out.
    pub exclusive: bool,
    pub rows: u64,
    pub length: u64,
}

impl Scan {
    /// Queues it; `from` and `to` may be the same memory if their elements are as long.
    pub fn launch(&self, tools: &Tools, queue: &Queue<'_>, from: u64, to: u64) -> Result<()> {
        let total = self.rows * self.length;
        if self.rows > 1 || self.length <= SCANNED {
            return self.pass(tools, queue, [from, 0, to, 0, self.length, total]);
        }
        // What each piece comes to; then the sums before each; then with those.
        let pieces = self.length.div_ceil(SCANNED);
        let totals = tools.scratch(queue, "scan totals", pieces * 8)?.0;
        self.pass(tools, queue, [from, 0, 0, totals, SCANNED, total])?;
        let before = Scan {
            types: [self.types[1]; 3],
            bytes: [16; 2],
            exclusive: true,
            length: pieces,
            ..*self
        };
        before.pass(tools, queue, [totals, 0, totals, 0, pieces, pieces])?;
        self.pass(tools, queue, [from, totals, to, 0, SCANNED, total])
    }

    fn pass(&self, tools: &Tools, queue: &Queue<'_>, given: [u64; 6]) -> Result<()> {
        let [x, carries, out, totals, length, total] = given;
        let [kind, computed, output] = self.types;
        let settings: [Setting; 7] = [
            ("TYPE", kind.into()),
            ("COMPUTED", computed.into()),
            ("OUTPUT", output.into()),
            ("JOIN", self.join.into()),
            ("EXCLUSIVE", self.exclusive.into()),
            ("TOGETHER", self.together([x, out], length, total).into()),
            ("THREADS", THREADS.into()),
        ];
        let function = tools.function(queue, "scan", &settings)?;
        let arguments = [
            pointer(x),
            pointer(carries),
            pointer(out),
            pointer(totals),
            KernelArgument::U64(length),
            KernelArgument::U64(total),
        ];
        queue.launch(&function, line(total.div_ceil(length), THREADS), &arguments)
    }

    /// How many elements move at once: 16 bytes of the wider type, where rows are aligned to that.
    fn together(&self, places: [u64; 2], length: u64, total: u64) -> u64 {
        let wide = (16 / self.bytes[0].max(self.bytes[1])).min(SCANNED_EACH);
        let aligned = (places.iter().zip(self.bytes))
            .all(|(place, bytes)| place.is_multiple_of(bytes * wide))
            && [length, total].iter().all(|one| one.is_multiple_of(wide));
        if aligned { wide } else { 1 }
    }
}

pub(super) fn scan(tools: &Tools, queue: &Queue<'_>, call: &Call<'_>) -> Result<()> {
    let (rows, length) = (call.count("rows")?, call.count("length")?);
    let x = call.operand("x", &[rows, length])?;
    let out = call.operand("out", &[rows, length])?;
    let format = call.format("computed")?;
    let (Some(kind), Some(output), Some(computed)) = (
        element_type(x.format),
        element_type(out.format),
        computed_type(format),
    ) else {
        return Err(call.error("real numbers", format_args!("{}, {format}", x.format)));
    };
    if rows * length == 0 {
        return Ok(());
    }
    if rows > i32::MAX as u64 {
        return Err(call.error("fewer rows", rows));
    }
    let scan = Scan {
        types: [kind, computed, output],
        bytes: [x, out].map(|one| one.format.element_bytes().unwrap_or(16)),
        join: call.expression("join")?.1,
        exclusive: false,
        rows,
        length,
    };
    scan.launch(tools, queue, x.pointer.0, out.pointer.0)
}

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

pub(super) fn sort(tools: &Tools, queue: &Queue<'_>, call: &Call<'_>) -> Result<()> {
    let (rows, length) = (call.count("rows")?, call.size("length")?);
    let x = call.operand("x", &[rows, length])?;
    let values = call.optional_of("values", x.format, &[rows, length])?;
    let places = call.optional_of("places", ElementFormat::I64, &[rows, length])?;
    let Some((signed, infinite)) = order(x.format) else {
        return Err(call.error("x of real numbers", x.format));
    };
    let descending = call.integer("descending")? != 0;
    if rows * length == 0 {
        return Ok(());
    }
    let bytes = x.format.element_bytes().unwrap_or(8);
    let bits = ["u8", "u16", "u32", "u64"][bytes.ilog2() as usize];
    // A block holds at most 32 KiB of elements; few sizes, since each is a kernel of its own.
    let total = rows * length;
    let short = length <= SHORT;
    let (threads, each) = match (bytes, if short { total } else { length }) {
        (_, ..=1024) => (256, 4),
        (8, _) => (512, 8),
        (_, held) if short || held <= 4096 => (256, 16),
        _ => (512, 16),
    };
    let together = match short {
        true => (threads * each / length).min(DIGITS).min(rows),
        false => 1,
    };
    let spans = length.div_ceil(threads * each);
    let blocks = rows.div_ceil(together) * spans;
    if blocks > i32::MAX as u64 {
        return Err(call.error("fewer rows", rows));
    }
    let settings: [Setting; 6] = [
        ("BITS", bits.into()),
        ("SIGNED", signed.into()),
        ("INFINITE", infinite.into()),
        ("PLACES", (places.is_some() || together > 1).into()),
        ("THREADS", threads.into()),
        ("EACH", each.into()),
    ];
    let entry = |name| tools.entry(queue, "sort", name, &settings);
    let to = [values, places].map(|out| out.map_or(0, |out| out.pointer.0));
    let told = [length as u32, if descending { 255 } else { 0 }].map(KernelArgument::U32);
    if spans == 1 {
        let pointers = [x.pointer.0, to[0], to[1]].map(pointer);
        let counts = [KernelArgument::U64(rows), told[0], told[1]];
        let together = [KernelArgument::U32(together as u32)];
        let arguments: Vec<_> = pointers.into_iter().chain(counts).chain(together).collect();
        let rows = entry("sort_rows")?;
        return queue.launch(&rows, line(blocks, threads), &arguments);
    }
    let (count, move_) = (entry("sort_count")?, entry("sort_move")?);
    let counts = tools.scratch(queue, "sort counts", blocks * DIGITS * 4)?.0;
    let starts = Scan {
        types: ["u32"; 3],
        bytes: [4; 2],
        join: "add",
        exclusive: true,
        rows,
        length: spans * DIGITS,
    };
    // Elements go back and forth between two places, the last time to where they are wanted.
    let kept = tools.scratch(queue, "sort keys", total * bytes)?.0;
    let keys = match values {
        Some(values) => [kept, values.pointer.0],
        None => [
            kept,
            tools.scratch(queue, "sort other keys", total * bytes)?.0,
        ],
    };
    let carried = match places {
        Some(_) => [
            tools.scratch(queue, "sort places", total * 4)?.0,
            tools.scratch(queue, "sort other places", total * 4)?.0,
        ],
        None => [0, 0],
    };
    let [mut from, mut from_places] = [x.pointer.0, 0];
    for pass in 0..bytes {
        let last = pass + 1 == bytes;
        let side = ((bytes - pass) % 2) as usize;
        let which = [spans as u32, 8 * pass as u32].map(KernelArgument::U32);
        let sizes = [told[0], told[1], which[0], which[1]];
        let arguments: Vec<_> = [from, counts]
            .map(pointer)
            .into_iter()
            .chain(sizes)
            .collect();
        queue.launch(&count, line(blocks, threads), &arguments)?;
        starts.launch(tools, queue, counts, counts)?;
        let outs = match last {
            true => [to[0], 0, to[1]],
            false => [keys[side], carried[side], 0],
        };
        let arguments: Vec<_> = [from, from_places, counts]
            .into_iter()
            .chain(outs)
            .map(pointer)
            .chain(sizes)
            .collect();
        queue.launch(&move_, line(blocks, threads), &arguments)?;
        [from, from_places] = [keys[side], carried[side]];
    }
    Ok(())
}
