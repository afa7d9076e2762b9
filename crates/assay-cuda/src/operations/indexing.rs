//! Gather, scatter, stream compaction and searchsorted.

use super::call::{Call, pointer, pointer_or_null};
use super::define::Define;
use super::grid::grid_1d;
use super::scan::Scan;
use super::type_names::{compute_type, element_type};
use assay_operations::{ElementFormat, Operand};
use assay_runtime::backend::{DevicePointer, KernelArgument, Result};

const THREADS: u64 = 256;
/// Flags of a tile, which has one count.
const FLAGS_PER_TILE: u64 = 16 * THREADS;

/// CTAs for so many threads, if a grid can have as many.
fn grid_ctas(call: &Call<'_>, threads: u64) -> Result<u64> {
    let ctas = threads.div_ceil(THREADS);
    if ctas > i32::MAX as u64 {
        return Err(call.error("fewer elements", threads));
    }
    Ok(ctas)
}

/// The widest access, in bytes, that the rows of two operands are aligned to.
fn access_bytes(row: u64, bytes: u64, operands: [Operand; 2]) -> u64 {
    let [first, second] = operands.map(|operand| operand.pointer.0);
    let fits = |bytes_per_access: &&u64| {
        [first, second, row].iter().all(|one| one.is_multiple_of(**bytes_per_access))
    };
    let widest = [16, 8, 4, 2].iter().find(fits).copied().unwrap_or(1);
    widest.max(bytes)
}

pub(super) fn gather(call: &Call<'_>) -> Result<()> {
    let (outer, axis) = (call.count("outer")?, call.count("axis")?);
    let (count, inner) = (call.count("count")?, call.count("inner")?);
    let along_axis = call.integer("along_axis")? != 0;
    let x = call.operand("x", &[outer, axis, inner])?;
    let out = call.typed("out", x.format, &[outer, count, inner])?;
    let selected = if along_axis { outer * count * inner } else { count };
    let indices = call.typed("indices", ElementFormat::I64, &[selected])?;
    let bytes = x.format.element_bytes().unwrap_or(1);
    // Adjacent elements of the inner axis move together, where they share an index.
    let bytes_per_access = match along_axis {
        true => bytes,
        false => access_bytes(inner * bytes, bytes, [x, out]),
    };
    let inner = inner * bytes / bytes_per_access;
    let total = outer * count * inner;
    if total == 0 {
        return Ok(());
    }
    let ctas = grid_ctas(call, total)?;
    let defines: [Define; 2] =
        [("ACCESS_BYTES", bytes_per_access.into()), ("ALONG_AXIS", along_axis.into())];
    let function = call.function("gather", &defines)?;
    let [axis, count, inner, total] = [axis, count, inner, total].map(KernelArgument::U64);
    let arguments = [pointer(x), pointer(indices), pointer(out), axis, count, inner, total];
    call.queue.launch(&function, grid_1d(ctas, THREADS), &arguments)
}

pub(super) fn scatter(call: &Call<'_>) -> Result<()> {
    let (outer, axis) = (call.count("outer")?, call.count("axis")?);
    let (count, inner) = (call.size("count")?, call.count("inner")?);
    let distinct = call.integer("distinct")? != 0;
    let x = call.operand("x", &[outer, count, inner])?;
    let out = call.typed("out", x.format, &[outer, axis, inner])?;
    let indices = call.typed("indices", ElementFormat::I64, &[count])?;
    let bytes = x.format.element_bytes().unwrap_or(1);
    let bytes_per_access = access_bytes(inner * bytes, bytes, [x, out]);
    let inner = inner * bytes / bytes_per_access;
    let total = outer * count * inner;
    if total == 0 {
        return Ok(());
    }
    let defines: [Define; 1] = [("ACCESS_BYTES", bytes_per_access.into())];
    let ctas = grid_ctas(call, total)?;
    let [axis_argument, count_argument] = [axis, count].map(KernelArgument::U64);
    let mut claims = DevicePointer(0);
    if !distinct {
        claims = call.scratch("scatter claims", axis * 4)?;
        call.queue.fill(claims, 0, axis * 4)?;
        let claim = call.entry("scatter", "scatter_claim", &defines)?;
        let arguments =
            [pointer(indices), KernelArgument::Pointer(claims), axis_argument, count_argument];
        call.queue.launch(&claim, grid_1d(count.div_ceil(THREADS), THREADS), &arguments)?;
    }
    let function = call.function("scatter", &defines)?;
    let arguments = [
        pointer(x),
        pointer(indices),
        KernelArgument::Pointer(claims),
        pointer(out),
        axis_argument,
        count_argument,
        KernelArgument::U64(inner),
        KernelArgument::U64(total),
    ];
    call.queue.launch(&function, grid_1d(ctas, THREADS), &arguments)
}

pub(super) fn flag_counts(call: &Call<'_>) -> Result<()> {
    let count = call.count("count")?;
    let tiles = count.div_ceil(FLAGS_PER_TILE);
    let flags = call.typed("flags", ElementFormat::Bool, &[count])?;
    let prefix_counts = call.typed("prefix_counts", ElementFormat::I64, &[tiles])?;
    if count == 0 {
        return Ok(());
    }
    let ctas = grid_ctas(call, tiles * THREADS)?;
    let flag_counts = call.entry("compact", "flag_counts", &[("THREADS", THREADS.into())])?;
    let arguments = [pointer(flags), pointer(prefix_counts), KernelArgument::U64(count)];
    call.queue.launch(&flag_counts, grid_1d(ctas, THREADS), &arguments)?;
    let prefix_sum = Scan {
        types: ["i64"; 3],
        bytes: [8; 2],
        combine: "add",
        exclusive: false,
        rows: 1,
        length: tiles,
    };
    prefix_sum.launch(call, prefix_counts.pointer.0, prefix_counts.pointer.0)
}

pub(super) fn compact(call: &Call<'_>) -> Result<()> {
    let (count, selected) = (call.count("count")?, call.count("selected")?);
    let tiles = count.div_ceil(FLAGS_PER_TILE);
    let flags = call.typed("flags", ElementFormat::Bool, &[count])?;
    let prefix_counts = call.typed("prefix_counts", ElementFormat::I64, &[tiles])?;
    let indices = call.typed("indices", ElementFormat::I64, &[selected])?;
    if count == 0 || selected == 0 {
        return Ok(());
    }
    let ctas = grid_ctas(call, tiles * THREADS)?;
    let compact = call.function("compact", &[("THREADS", THREADS.into())])?;
    let [count, selected] = [count, selected].map(KernelArgument::U64);
    let arguments = [pointer(flags), pointer(prefix_counts), pointer(indices), count, selected];
    call.queue.launch(&compact, grid_1d(ctas, THREADS), &arguments)
}

pub(super) fn searchsorted(call: &Call<'_>) -> Result<()> {
    let (length, count) = (call.count("length")?, call.count("count")?);
    let x = call.operand("x", &[count])?;
    let sorted = call.typed("sorted", x.format, &[length])?;
    let sorter = call.optional_typed("sorter", ElementFormat::I64, &[length])?;
    let out = call.typed("out", ElementFormat::I64, &[count])?;
    let names = element_type(x.format).zip(compute_type(x.format));
    let Some((storage, compute)) = names else {
        return Err(call.error("x of real numbers", x.format));
    };
    if count == 0 {
        return Ok(());
    }
    let ctas = grid_ctas(call, count)?;
    let defines: [Define; 3] = [
        ("TYPE", storage.into()),
        ("COMPUTE_TYPE", compute.into()),
        ("RIGHT", (call.integer("right")? != 0).into()),
    ];
    let function = call.function("searchsorted", &defines)?;
    let [length, count] = [length, count].map(KernelArgument::U64);
    let arguments =
        [pointer(sorted), pointer_or_null(sorter), pointer(x), pointer(out), length, count];
    call.queue.launch(&function, grid_1d(ctas, THREADS), &arguments)
}
