//! Prefix scans.

use super::call::Call;
use super::define::Define;
use super::grid::grid_1d;
use super::type_names::{compute_type, element_type};
use assay_runtime::backend::{DevicePointer, KernelArgument, Result};

/// Threads of a CTA: for long rows, and for those that one warp scans.
const THREADS: u64 = 256;
const WARP: u64 = 32;
/// A single row longer than this is scanned in tiles of this many elements.
const TILE_ELEMENTS: u64 = 8192;
/// Elements that a thread scans.
const ITEMS_PER_THREAD: u64 = 8;

/// A kernel's argument for a device address.
pub(super) fn address(address: u64) -> KernelArgument {
    KernelArgument::Pointer(DevicePointer(address))
}

/// A scan of rows.
pub(super) struct Scan {
    /// The storage type of the input, the compute type, and the storage type of the output.
    pub types: [&'static str; 3],
    /// Bytes of an element of the input and of the output.
    pub bytes: [u64; 2],
    pub combine: &'static str,
    /// Whether the scan excludes the element itself.
    pub exclusive: bool,
    pub rows: u64,
    pub length: u64,
}

impl Scan {
    /// Launches it; `from` and `to` may be the same memory if their elements have the same size.
    pub fn launch(&self, call: &Call<'_>, from: u64, to: u64) -> Result<()> {
        let total = self.rows * self.length;
        if self.rows > 1 || self.length <= TILE_ELEMENTS {
            return self.launch_pass(call, [from, 0, to, 0, self.length, total]);
        }
        // Reduce-then-scan: the tiles' totals, an exclusive scan of them, then a scan with carries.
        let tiles = self.length.div_ceil(TILE_ELEMENTS);
        let totals = call.scratch("scan totals", tiles * 8)?.0;
        self.launch_pass(call, [from, 0, 0, totals, TILE_ELEMENTS, total])?;
        let carries_scan = Scan {
            types: [self.types[1]; 3],
            bytes: [16; 2],
            exclusive: true,
            length: tiles,
            ..*self
        };
        carries_scan.launch_pass(call, [totals, 0, totals, 0, tiles, tiles])?;
        self.launch_pass(call, [from, totals, to, 0, TILE_ELEMENTS, total])
    }

    fn launch_pass(&self, call: &Call<'_>, values: [u64; 6]) -> Result<()> {
        let [x, carries, out, totals, length, total] = values;
        let [storage, compute, output] = self.types;
        let threads = if length <= WARP * ITEMS_PER_THREAD { WARP } else { THREADS };
        let defines: [Define; 7] = [
            ("TYPE", storage.into()),
            ("COMPUTE_TYPE", compute.into()),
            ("OUTPUT", output.into()),
            ("COMBINE", self.combine.into()),
            ("EXCLUSIVE", self.exclusive.into()),
            ("VECTOR", self.vector([x, out], length, total).into()),
            ("THREADS", threads.into()),
        ];
        let function = call.function("scan", &defines)?;
        let arguments = [
            address(x),
            address(carries),
            address(out),
            address(totals),
            KernelArgument::U64(length),
            KernelArgument::U64(total),
        ];
        call.queue.launch(&function, grid_1d(total.div_ceil(length), threads), &arguments)
    }

    /// The elements of a vectorized access: 16 bytes of the wider type, where rows are aligned.
    fn vector(&self, addresses: [u64; 2], length: u64, total: u64) -> u64 {
        let widest = (16 / self.bytes[0].max(self.bytes[1])).min(ITEMS_PER_THREAD);
        let aligned = (addresses.iter().zip(self.bytes))
            .all(|(address, bytes)| address.is_multiple_of(bytes * widest))
            && [length, total].iter().all(|one| one.is_multiple_of(widest));
        if aligned { widest } else { 1 }
    }
}

pub(super) fn scan(call: &Call<'_>) -> Result<()> {
    let (rows, length) = (call.count("rows")?, call.count("length")?);
    let x = call.operand("x", &[rows, length])?;
    let out = call.operand("out", &[rows, length])?;
    let format = call.format("compute_type")?;
    let (Some(storage), Some(output), Some(compute)) =
        (element_type(x.format), element_type(out.format), compute_type(format))
    else {
        return Err(call.error("real numbers", format_args!("{}, {format}", x.format)));
    };
    if rows * length == 0 {
        return Ok(());
    }
    if rows > i32::MAX as u64 {
        return Err(call.error("fewer rows", rows));
    }
    let scan = Scan {
        types: [storage, compute, output],
        bytes: [x, out].map(|one| one.format.element_bytes().unwrap_or(16)),
        combine: call.expression("combine")?,
        exclusive: false,
        rows,
        length,
    };
    scan.launch(call, x.pointer.0, out.pointer.0)
}
