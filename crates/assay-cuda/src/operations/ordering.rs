//! Running joins, sorting, and elements by their numbers.

use super::call::{Call, at};
use super::elementwise::{computed_type, element_type};
use super::rows::{line, plane};
use super::tools::{Setting, Tools};
use crate::device::Queue;
use assay_core::backend::{DevicePointer, KernelArgument, Result};
use assay_core::operations::ElementFormat;

const THREADS: u64 = 256;
/// Elements that a block sorts in shared memory.
const SPAN: u64 = 1024;
/// Rows that one round of launches sorts: what the grid's second extent holds.
const ROWS_AT_ONCE: u64 = 32_768;
/// A single row longer than this is scanned in pieces of this many elements.
const SCANNED: u64 = 8192;

fn pointer(place: u64) -> KernelArgument {
    KernelArgument::Pointer(DevicePointer(place))
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
    let join = call.expression("join")?.1;
    let launch = |kind: &'static str, output: &'static str, exclusive: bool, given: [u64; 6]| {
        let settings: [Setting; 6] = [
            ("TYPE", kind.into()),
            ("COMPUTED", computed.into()),
            ("OUTPUT", output.into()),
            ("JOIN", join.into()),
            ("EXCLUSIVE", exclusive.into()),
            ("THREADS", THREADS.into()),
        ];
        let function = tools.function(queue, "scan", &settings)?;
        let [x, carries, out, totals, length, total] = given;
        let arguments = [
            pointer(x),
            pointer(carries),
            pointer(out),
            pointer(totals),
            KernelArgument::U64(length),
            KernelArgument::U64(total),
        ];
        queue.launch(&function, line(total.div_ceil(length), THREADS), &arguments)
    };
    let (from, to, total) = (x.pointer.0, out.pointer.0, rows * length);
    if rows > 1 || length <= SCANNED {
        return launch(kind, output, false, [from, 0, to, 0, length, total]);
    }
    // Pieces first, for what each comes to; then the sums before each; then with those.
    let pieces = length.div_ceil(SCANNED);
    let totals = tools.scratch(queue, "scan totals", pieces * 8)?.0;
    let carries = tools.scratch(queue, "scan carries", pieces * 8)?.0;
    launch(kind, output, false, [from, 0, to, totals, SCANNED, total])?;
    launch(
        computed,
        computed,
        true,
        [totals, 0, carries, 0, pieces, pieces],
    )?;
    launch(kind, output, false, [from, carries, to, 0, SCANNED, total])
}

pub(super) fn sort(tools: &Tools, queue: &Queue<'_>, call: &Call<'_>) -> Result<()> {
    let (rows, length) = (call.count("rows")?, call.size("length")?);
    let x = call.operand("x", &[rows, length])?;
    let values = call.optional_of("values", x.format, &[rows, length])?;
    let places = call.optional_of("places", ElementFormat::I64, &[rows, length])?;
    let (Some(kind), Some(computed), Some(bytes)) = (
        element_type(x.format),
        computed_type(x.format),
        x.format.element_bytes(),
    ) else {
        return Err(call.error("x of real numbers", x.format));
    };
    let descending = call.integer("descending")? != 0;
    if rows * length == 0 {
        return Ok(());
    }
    let full = length.next_power_of_two().max(SPAN);
    let now = rows.min(ROWS_AT_ONCE);
    // Numbers of 16 bits are sorted as 32.
    let keys = tools
        .scratch(queue, "sort keys", now * full * bytes.max(4))?
        .0;
    let order = tools.scratch(queue, "sort places", now * full * 4)?.0;
    let settings: [Setting; 5] = [
        ("TYPE", kind.into()),
        ("COMPUTED", computed.into()),
        ("DESCENDING", descending.into()),
        ("SPAN", SPAN.into()),
        ("THREADS", THREADS.into()),
    ];
    let entry = |name| tools.entry(queue, "sort", name, &settings);
    let (spans, step, finish) = (
        entry("sort_spans")?,
        entry("sort_step")?,
        entry("sort_finish")?,
    );
    let write = entry("sort_write")?;
    let mut done = 0;
    while done < rows {
        let now = (rows - done).min(ROWS_AT_ONCE);
        let both = [pointer(keys), pointer(order)];
        let sizes = [
            KernelArgument::U32(length as u32),
            KernelArgument::U64(full),
        ];
        let from = [pointer(x.pointer.0 + done * length * bytes)];
        let blocks = plane(full / SPAN, now, THREADS);
        let arguments: Vec<_> = from.iter().chain(&both).chain(&sizes).copied().collect();
        queue.launch(&spans, blocks, &arguments)?;
        let mut run = 2 * SPAN;
        while run <= full {
            let told: Vec<_> = both.iter().chain(&sizes).copied().collect();
            let with = |more: &[u64]| {
                let more = more.iter().map(|one| KernelArgument::U64(*one));
                told.iter().copied().chain(more).collect::<Vec<_>>()
            };
            let mut apart = run / 2;
            while apart >= SPAN {
                let halves = plane(full / 2 / THREADS, now, THREADS);
                queue.launch(&step, halves, &with(&[run, apart]))?;
                apart /= 2;
            }
            queue.launch(&finish, blocks, &with(&[run]))?;
            run *= 2;
        }
        let to = |operand: Option<assay_core::operations::Operand>, bytes: u64| {
            pointer(operand.map_or(0, |operand| operand.pointer.0 + done * length * bytes))
        };
        let [keys, order] = both;
        let [length_told, full_told] = sizes;
        let arguments = [
            keys,
            order,
            to(values, bytes),
            to(places, 8),
            length_told,
            full_told,
        ];
        let across = length.div_ceil(THREADS);
        queue.launch(&write, plane(across, now, THREADS), &arguments)?;
        done += now;
    }
    Ok(())
}

pub(super) fn take(tools: &Tools, queue: &Queue<'_>, call: &Call<'_>) -> Result<()> {
    let (outer, axis) = (call.count("outer")?, call.count("axis")?);
    let (count, inner) = (call.count("count")?, call.count("inner")?);
    let each = call.integer("each")? != 0;
    let x = call.operand("x", &[outer, axis, inner])?;
    let out = call.of("out", x.format, &[outer, count, inner])?;
    let chosen = if each { outer * count * inner } else { count };
    let indices = call.of("indices", ElementFormat::I64, &[chosen])?;
    let bytes = x.format.element_bytes().unwrap_or(1);
    // Several neighbours at once, where they go the same way.
    let places = [x.pointer.0, out.pointer.0, inner * bytes];
    let fits = |unit: &&u64| places.iter().all(|place| place.is_multiple_of(**unit));
    let widest = [16, 8, 4, 2].iter().find(fits).copied().unwrap_or(1);
    let unit = if each { bytes } else { widest.max(bytes) };
    let inner = inner * bytes / unit;
    let total = outer * count * inner;
    if total == 0 {
        return Ok(());
    }
    let blocks = total.div_ceil(THREADS);
    if blocks > i32::MAX as u64 {
        return Err(call.error("fewer elements", total));
    }
    let settings: [Setting; 2] = [("UNIT", unit.into()), ("EACH", each.into())];
    let function = tools.function(queue, "take", &settings)?;
    let [axis, count, inner, total] = [axis, count, inner, total].map(KernelArgument::U64);
    let arguments = [at(x), at(indices), at(out), axis, count, inner, total];
    queue.launch(&function, line(blocks, THREADS), &arguments)
}
