//! Elements by their numbers: taken, put, chosen by flags, and found among sorted ones.

use super::call::{Call, at, at_or_null};
use super::element_names::{computed_type, element_type};
use super::rows::line;
use super::scan::Scan;
use super::tools::{Setting, Tools};
use crate::device::Queue;
use assay_operations::{ElementFormat, Operand};
use assay_runtime::backend::{DevicePointer, KernelArgument, Result};

const THREADS: u64 = 256;
/// Flags of which one tally is kept.
const TALLIED: u64 = 16 * THREADS;

/// Blocks for so many threads, if a grid can have as many.
fn blocks(call: &Call<'_>, threads: u64) -> Result<u64> {
    let blocks = threads.div_ceil(THREADS);
    if blocks > i32::MAX as u64 {
        return Err(call.error("fewer elements", threads));
    }
    Ok(blocks)
}

/// The widest unit, in bytes, in which rows of so many bytes can be moved between two places.
fn widest(row: u64, bytes: u64, operands: [Operand; 2]) -> u64 {
    let [first, second] = operands.map(|operand| operand.pointer.0);
    let fits = |unit: &&u64| {
        [first, second, row]
            .iter()
            .all(|one| one.is_multiple_of(**unit))
    };
    let widest = [16, 8, 4, 2].iter().find(fits).copied().unwrap_or(1);
    widest.max(bytes)
}

pub(super) fn take(tools: &Tools, queue: &Queue<'_>, call: &Call<'_>) -> Result<()> {
    let (outer, axis) = (call.count("outer")?, call.count("axis")?);
    let (count, inner) = (call.count("count")?, call.count("inner")?);
    let each = call.integer("along_axis")? != 0;
    let x = call.operand("x", &[outer, axis, inner])?;
    let out = call.of("out", x.format, &[outer, count, inner])?;
    let chosen = if each { outer * count * inner } else { count };
    let indices = call.of("indices", ElementFormat::I64, &[chosen])?;
    let bytes = x.format.element_bytes().unwrap_or(1);
    // Several neighbors at once, where they go the same way.
    let unit = match each {
        true => bytes,
        false => widest(inner * bytes, bytes, [x, out]),
    };
    let inner = inner * bytes / unit;
    let total = outer * count * inner;
    if total == 0 {
        return Ok(());
    }
    let blocks = blocks(call, total)?;
    let settings: [Setting; 2] = [("UNIT", unit.into()), ("EACH", each.into())];
    let function = tools.function(queue, "gather", &settings)?;
    let [axis, count, inner, total] = [axis, count, inner, total].map(KernelArgument::U64);
    let arguments = [at(x), at(indices), at(out), axis, count, inner, total];
    queue.launch(&function, line(blocks, THREADS), &arguments)
}

pub(super) fn put(tools: &Tools, queue: &Queue<'_>, call: &Call<'_>) -> Result<()> {
    let (outer, axis) = (call.count("outer")?, call.count("axis")?);
    let (count, inner) = (call.size("count")?, call.count("inner")?);
    let distinct = call.integer("distinct")? != 0;
    let x = call.operand("x", &[outer, count, inner])?;
    let out = call.of("out", x.format, &[outer, axis, inner])?;
    let indices = call.of("indices", ElementFormat::I64, &[count])?;
    let bytes = x.format.element_bytes().unwrap_or(1);
    let unit = widest(inner * bytes, bytes, [x, out]);
    let inner = inner * bytes / unit;
    let total = outer * count * inner;
    if total == 0 {
        return Ok(());
    }
    let settings: [Setting; 1] = [("UNIT", unit.into())];
    let blocks = blocks(call, total)?;
    let [told_axis, told_count] = [axis, count].map(KernelArgument::U64);
    let mut claims = DevicePointer(0);
    if !distinct {
        claims = tools.scratch(queue, "put claims", axis * 4)?;
        queue.fill(claims, 0, axis * 4)?;
        let claim = tools.entry(queue, "scatter", "scatter_claim", &settings)?;
        let arguments = [
            at(indices),
            KernelArgument::Pointer(claims),
            told_axis,
            told_count,
        ];
        queue.launch(&claim, line(count.div_ceil(THREADS), THREADS), &arguments)?;
    }
    let function = tools.function(queue, "scatter", &settings)?;
    let arguments = [
        at(x),
        at(indices),
        KernelArgument::Pointer(claims),
        at(out),
        told_axis,
        told_count,
        KernelArgument::U64(inner),
        KernelArgument::U64(total),
    ];
    queue.launch(&function, line(blocks, THREADS), &arguments)
}

pub(super) fn tally(tools: &Tools, queue: &Queue<'_>, call: &Call<'_>) -> Result<()> {
    let count = call.count("count")?;
    let spans = count.div_ceil(TALLIED);
    let flags = call.of("flags", ElementFormat::Bool, &[count])?;
    let ends = call.of("prefix_counts", ElementFormat::I64, &[spans])?;
    if count == 0 {
        return Ok(());
    }
    let blocks = blocks(call, spans * THREADS)?;
    let tally = tools.entry(
        queue,
        "compact",
        "flag_counts",
        &[("THREADS", THREADS.into())],
    )?;
    let arguments = [at(flags), at(ends), KernelArgument::U64(count)];
    queue.launch(&tally, line(blocks, THREADS), &arguments)?;
    let summed = Scan {
        types: ["i64"; 3],
        bytes: [8; 2],
        join: "add",
        exclusive: false,
        rows: 1,
        length: spans,
    };
    summed.launch(tools, queue, ends.pointer.0, ends.pointer.0)
}

pub(super) fn compact(tools: &Tools, queue: &Queue<'_>, call: &Call<'_>) -> Result<()> {
    let (count, chosen) = (call.count("count")?, call.count("selected")?);
    let spans = count.div_ceil(TALLIED);
    let flags = call.of("flags", ElementFormat::Bool, &[count])?;
    let ends = call.of("prefix_counts", ElementFormat::I64, &[spans])?;
    let places = call.of("indices", ElementFormat::I64, &[chosen])?;
    if count == 0 || chosen == 0 {
        return Ok(());
    }
    let blocks = blocks(call, spans * THREADS)?;
    let compact = tools.function(queue, "compact", &[("THREADS", THREADS.into())])?;
    let [count, chosen] = [count, chosen].map(KernelArgument::U64);
    let arguments = [at(flags), at(ends), at(places), count, chosen];
    queue.launch(&compact, line(blocks, THREADS), &arguments)
}

pub(super) fn search(tools: &Tools, queue: &Queue<'_>, call: &Call<'_>) -> Result<()> {
    let (length, count) = (call.count("length")?, call.count("count")?);
    let x = call.operand("x", &[count])?;
    let sorted = call.of("sorted", x.format, &[length])?;
    let order = call.optional_of("sorter", ElementFormat::I64, &[length])?;
    let out = call.of("out", ElementFormat::I64, &[count])?;
    let names = element_type(x.format).zip(computed_type(x.format));
    let Some((kind, computed)) = names else {
        return Err(call.error("x of real numbers", x.format));
    };
    if count == 0 {
        return Ok(());
    }
    let blocks = blocks(call, count)?;
    let settings: [Setting; 3] = [
        ("TYPE", kind.into()),
        ("COMPUTED", computed.into()),
        ("RIGHT", (call.integer("right")? != 0).into()),
    ];
    let function = tools.function(queue, "searchsorted", &settings)?;
    let [length, count] = [length, count].map(KernelArgument::U64);
    let arguments = [at(sorted), at_or_null(order), at(x), at(out), length, count];
    queue.launch(&function, line(blocks, THREADS), &arguments)
}
