//! Running joins.

use super::call::Call;
use super::element_names::{computed_type, element_type};
use super::rows::line;
use super::tools::{Setting, Tools};
use crate::device::Queue;
use assay_runtime::backend::{DevicePointer, KernelArgument, Result};

/// Threads of a block: for long rows, and for those that a warp scans at once.
const THREADS: u64 = 256;
const WARP: u64 = 32;
/// A single row longer than this is scanned in pieces of this many elements.
const SCANNED: u64 = 8192;
/// Elements that a thread scans at once.
const SCANNED_EACH: u64 = 8;

/// A kernel's argument for a place in memory.
pub(super) fn pointer(place: u64) -> KernelArgument {
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
        let threads = if length <= WARP * SCANNED_EACH {
            WARP
        } else {
            THREADS
        };
        let settings: [Setting; 7] = [
            ("TYPE", kind.into()),
            ("COMPUTED", computed.into()),
            ("OUTPUT", output.into()),
            ("JOIN", self.join.into()),
            ("EXCLUSIVE", self.exclusive.into()),
            ("TOGETHER", self.together([x, out], length, total).into()),
            ("THREADS", threads.into()),
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
        queue.launch(&function, line(total.div_ceil(length), threads), &arguments)
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
    let format = call.format("compute_type")?;
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
        join: call.expression("combine")?,
        exclusive: false,
        rows,
        length,
    };
    scan.launch(tools, queue, x.pointer.0, out.pointer.0)
}
